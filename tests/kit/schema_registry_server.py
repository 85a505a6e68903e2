"""A small schema registry with Confluent's interface, for tests: it has what it was given, and nothing else."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


class RegistryServer:
    """Serves `schemas` (id to answer) and `subjects` ((subject, version) to answer); `asked`: the paths, in order."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.serialized: dict[int, str] = {}
        self.subjects: dict[tuple[str, str], dict[str, Any]] = {}
        self.raw: dict[str, tuple[int, bytes]] = {}
        """Path to status and body, before anything else."""
        self.asked: list[str] = []
        self.authorization: list[str | None] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> RegistryServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str) -> tuple[int, bytes]:
        if path in self.raw:
            return self.raw[path]
        where, _, query = path.partition("?")
        parts = where.strip("/").split("/")
        if parts[:2] == ["schemas", "ids"] and int(parts[2]) in self.schemas:
            found = dict(self.schemas[int(parts[2])])
            if query == "format=serialized" and int(parts[2]) in self.serialized:
                found["schema"] = self.serialized[int(parts[2])]
            return 200, json.dumps(found).encode()
        if parts[0] == "subjects" and (parts[1], parts[3]) in self.subjects:
            return 200, json.dumps(self.subjects[parts[1], parts[3]]).encode()
        return 404, b'{"error_code": 40403, "message": "Schema not found"}'

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                registry.authorization.append(self.headers.get("Authorization"))
                status, body = registry.answer(self.path)
                self.send_response(status)
                if status in (301, 302):
                    self.send_header("Location", body.decode())
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler
