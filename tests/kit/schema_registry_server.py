"""A small schema registry with Confluent's interface, for tests: it has what it was given, and nothing else."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.kit.http_server import HttpServer, QuietHandler


class RegistryServer(HttpServer):
    """Serves `schemas` (id to answer) and `subjects` ((subject, version) to answer); `asked`: the paths, in order."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.serialized: dict[int, str] = {}
        self.subjects: dict[tuple[str, str], dict[str, Any]] = {}
        self.raw: dict[str, tuple[int, bytes]] = {}
        """Path to status and body, before anything else."""
        self.asked: list[str] = []
        self.authorization: list[str | None] = []
        super().__init__()

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

    def _handler(self) -> type[QuietHandler]:
        registry = self

        class Handler(QuietHandler, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                registry.authorization.append(self.headers.get("Authorization"))
                status, body = registry.answer(self.path)
                self.answer(status, body, **({"Location": body.decode()} if status in (301, 302) else {}))

        return Handler
