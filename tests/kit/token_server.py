"""An issuer's token endpoint for tests: it gives a client with a secret a token (RFC 6749, client credentials)."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Final
from urllib.parse import parse_qs

CLIENT: Final = "the-client"
SECRET: Final = "the client's secret"


class TokenServer:
    """`make` makes each token. `asked`: how often one was given."""

    def __init__(self, make: Callable[[], str]) -> None:
        self.asked = 0
        self._make = make
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/token"

    def __enter__(self) -> TokenServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        tokens = self
        expected = f"Basic {b64encode(f'{CLIENT}:{SECRET}'.encode()).decode()}"

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                is_right = self.headers["Authorization"] == expected and form["grant_type"] == ["client_credentials"]
                tokens.asked += is_right
                answer = (
                    {"access_token": tokens._make(), "token_type": "Bearer", "expires_in": 600}
                    if is_right
                    else {"error": "invalid_client"}
                )
                content = json.dumps(answer).encode()
                self.send_response(200 if is_right else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments: object) -> None:
                pass

        return Handler
