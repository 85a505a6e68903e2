"""An issuer's token endpoint for tests: client_credentials over http on the loopback, good or bad as it is told."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs

from tests.kit.http_server import HttpServer, QuietHandler

CLIENT, SECRET = "orders", "canary:secret"


class TokenEndpoint(HttpServer):
    """`make` gives the token of an answer; `manner` says how it answers; `asked` has the body of each request."""

    def __init__(self, make: Callable[[], str]) -> None:
        self.make = make
        self.manner = "well"
        self.asked: list[dict[str, list[str]]] = []
        super().__init__()

    @property
    def url(self) -> str:
        return f"{self.address}/token?realm=1"

    def _handler(self) -> type[QuietHandler]:
        endpoint = self

        class Handler(QuietHandler, BaseHTTPRequestHandler):
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
                    self.answer(status, content, **headers)
                except OSError:
                    pass  # The other side has read enough.

        return Handler
