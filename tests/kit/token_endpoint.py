"""An issuer's token endpoint for tests: client_credentials over http on the loopback, good or bad as it is told."""

from __future__ import annotations

import json
import threading
from base64 import b64decode
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs

CLIENT, SECRET = "orders", "canary:secret"


class TokenEndpoint:
    """`make` gives the token of an answer; `manner` says how it answers; `asked` has the body of each request."""

    def __init__(self, make: Callable[[], str]) -> None:
        self.make = make
        self.manner = "well"
        self.asked: list[dict[str, list[str]]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/token?realm=1"

    def __enter__(self) -> TokenEndpoint:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.asked.append(parse_qs(body.decode()))
                who = b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
                if who != f"{CLIENT}:{SECRET}" or self.path != "/token?realm=1":
                    self._answer(401, b'{"error":"invalid_client"}')
                elif endpoint.manner == "fails once":
                    endpoint.manner = "well"
                    self._answer(503, b"")
                elif endpoint.manner == "redirects":
                    self._answer(307, b"", Location=endpoint.url)
                else:
                    content = {
                        "well": lambda: json.dumps({"access_token": endpoint.make()}).encode(),
                        "lies": lambda: b"<html>canary</html>",
                        "huge": lambda: b" " * (2 * 1024 * 1024),
                        "opaque": lambda: b'{"access_token": "canary"}',
                    }
                    if endpoint.manner in content:
                        self._answer(200, content[endpoint.manner]())
                    else:
                        self._answer(503, b"")

            def _answer(self, status: int, content: bytes, **headers: str) -> None:
                try:
                    self.send_response(status)
                    for name, text in headers.items():
                        self.send_header(name, text)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except OSError:
                    pass  # The other side has read enough.

            def log_message(self, *arguments: object) -> None:
                pass

        return Handler
