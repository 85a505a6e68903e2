"""HttpServer: an HTTP server on the loopback for a test, in a thread from `with` to its end."""

from __future__ import annotations

import ssl
import threading
from abc import ABC, abstractmethod
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


class QuietHandler(BaseHTTPRequestHandler):
    """Says nothing on standard error."""

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class HttpServer(ABC):
    """What it answers is its handler's."""

    _scheme = "http"

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def secure(self, context: ssl.SSLContext) -> None:
        """Serves https from now on, before the first request."""
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._scheme = "https"

    @property
    def address(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @abstractmethod
    def _handler(self) -> type[QuietHandler]:
        """A class that answers for this server."""
