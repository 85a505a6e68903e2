"""An issuer's token endpoint for tests: it gives a client with a secret a token (RFC 6749, client credentials)."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Final
from urllib.parse import parse_qs

from tests.kit.http_server import HttpServer, QuietHandler

CLIENT: Final = "the-client"
SECRET: Final = "the client's secret"


class TokenServer(HttpServer):
    """`make` makes each token. `asked`: how often one was given."""

    def __init__(self, make: Callable[[], str]) -> None:
        self.asked = 0
        self._make = make
        super().__init__()

    @property
    def url(self) -> str:
        return f"{self.address}/token"

    def _handler(self) -> type[QuietHandler]:
        tokens = self
        expected = f"Basic {b64encode(f'{CLIENT}:{SECRET}'.encode()).decode()}"

        class Handler(QuietHandler, BaseHTTPRequestHandler):
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
                self.answer(200 if is_right else 401, content, Content_Type="application/json")

        return Handler
