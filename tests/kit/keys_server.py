"""A server of an issuer's keys over TLS, for tests: it answers well, or as badly as it is told."""

from __future__ import annotations

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Final

from tests.kit.certificates import Authority

MIB: Final = 1024 * 1024


class KeysServer:
    """Serves `document` at /keys. `manner`: how; `asked`: how often. `authority` signed its certificate."""

    def __init__(
        self, directory: Path, document: bytes, *, names: tuple[str, ...] = ("localhost", "127.0.0.1")
    ) -> None:
        self.document = document
        self.manner = "well"
        self.asked = 0
        self.authority = Authority("authority of the keys' server")
        self.stopped = threading.Event()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        file = self.authority.sign("keys", names=names).write(directory / "keys-server.pem")
        context.load_cert_chain(file)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._server.server_address[1]}/keys"

    @property
    def login(self) -> str:
        """The login of a listener that believes this server."""
        pem = self.authority.certificate.replace("\n", "\\n")
        return f'OAuthBearerLoginModule required ssl.truststore.type="PEM" ssl.truststore.certificates="{pem}";'

    def __enter__(self) -> KeysServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        keys = self

        class Handler(BaseHTTPRequestHandler):
            def handle(self) -> None:
                try:
                    super().handle()
                except OSError:
                    pass  # The other side has gone, or does not believe in the certificate.

            def do_GET(self) -> None:
                keys.asked += 1
                match keys.manner:
                    case "redirects":
                        self._answer(302, b"", Location="https://127.0.0.1:1/other")
                    case "fails":
                        self._answer(500, b"canary")
                    case "lies":
                        self._answer(200, b"<html>canary</html>")
                    case "empty":
                        self._answer(200, b'{"keys": []}')
                    case "huge":
                        self._answer(200, b" " * (MIB + 1))
                    case "endless":
                        self.send_response(200)
                        self.end_headers()
                        while not keys.stopped.is_set():
                            self.wfile.write(b" " * 65536)
                    case "drips":
                        self.send_response(200)
                        self.end_headers()
                        while not keys.stopped.wait(0.05):
                            self.wfile.write(b" ")
                    case "drips headers":
                        self.send_response(200)
                        self.flush_headers()
                        while not keys.stopped.wait(0.05):
                            self.wfile.write(b"x")
                    case "silent":
                        keys.stopped.wait()
                    case "cut":
                        self.send_response(200)
                        self.send_header("Content-Length", "1000")
                        self.end_headers()
                        self.wfile.write(keys.document[:20])
                    case _:
                        self._answer(200, keys.document if self.path == "/keys" else b"")

            def _answer(self, status: int, content: bytes, **headers: str) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments: object) -> None:
                pass

        return Handler
