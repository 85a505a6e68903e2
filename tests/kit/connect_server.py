"""ConnectServer: Kafka Connect's REST interface as far as the console asks it, with connectors that a test makes up.

It may lie: `raw` answers a path with any status and body.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.kit.http_server import HttpServer, QuietHandler


class ConnectServer(HttpServer):
    """`connectors`: name to {"config", "state", "tasks": [state, ...]}. `asked`: method and path, in order."""

    def __init__(self, cluster_id: str = "") -> None:
        self.connectors: dict[str, dict[str, Any]] = {}
        self.raw: dict[str, tuple[int, bytes]] = {}
        self.asked: list[str] = []
        self.cluster_id = cluster_id
        super().__init__()

    def answer(self, method: str, target: str) -> tuple[int, bytes]:
        self.asked.append(f"{method} {target}")
        where = urlsplit(target)
        if where.path in self.raw:
            return self.raw[where.path]
        parts = [unquote(part) for part in where.path.strip("/").split("/")]
        if method == "GET" and parts == [""]:
            return _json({"version": "4.3.1", "commit": "0", "kafka_cluster_id": self.cluster_id})
        if method == "GET" and parts == ["connectors"]:
            return _json({name: {"status": self._status(name), "info": self._info(name)} for name in self.connectors})
        name = parts[1] if len(parts) > 1 else ""
        if parts[0] != "connectors" or name not in self.connectors:
            return 404, json.dumps({"error_code": 404, "message": f"No status found for connector {name}"}).encode()
        if method == "GET":
            return _json(self._status(name) if parts[2:] == ["status"] else self._info(name))
        return self._told(method, name, parts[2:], parse_qs(where.query))

    def _told(self, method: str, name: str, rest: list[str], query: dict[str, list[str]]) -> tuple[int, bytes]:
        found = self.connectors[name]
        match (method, *rest):
            case ("POST", "restart"):
                only_failed = query.get("onlyFailed") == ["true"]
                found["tasks"] = ["RUNNING" if not only_failed or s == "FAILED" else s for s in found["tasks"]]
                found["state"] = "RUNNING" if not only_failed or found["state"] == "FAILED" else found["state"]
                return 202, b""
            case ("POST", "tasks", number, "restart"):
                found["tasks"][int(number)] = "RUNNING"
                return 204, b""
            case ("PUT", ("pause" | "resume" | "stop") as what):
                found["state"] = {"pause": "PAUSED", "resume": "RUNNING", "stop": "STOPPED"}[what]
                found["tasks"] = [] if what == "stop" else [found["state"]] * len(found["tasks"])
                return 202, b""
        return 405, b""

    def _status(self, name: str) -> dict[str, Any]:
        found = self.connectors[name]
        tasks = [
            {
                "id": number,
                "state": state,
                "worker_id": "w:8083",
                **({"trace": found["trace"]} if state == "FAILED" else {}),
            }
            for number, state in enumerate(found["tasks"])
        ]
        return {"name": name, "connector": {"state": found["state"], "worker_id": "w:8083"}, "tasks": tasks}

    def _info(self, name: str) -> dict[str, Any]:
        found = self.connectors[name]
        tasks = [{"connector": name, "task": number} for number in range(len(found["tasks"]))]
        return {"name": name, "config": found["config"], "tasks": tasks, "type": found.get("type", "sink")}

    def _handler(self) -> type[QuietHandler]:
        server = self

        class Handler(QuietHandler, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, body = server.answer(self.command, self.path)
                self.answer(status, body, **({"Location": body.decode()} if status in (301, 302) else {}))

            def do_POST(self) -> None:
                self.do_GET()

            def do_PUT(self) -> None:
                self.do_GET()

        return Handler


def _json(value: object) -> tuple[int, bytes]:
    return 200, json.dumps(value).encode()
