"""HttpReceiver: a small HTTP server that keeps what was posted to it, and answers what a test wants."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE_S = 60.0


class HttpReceiver:
    """From `with` to its end. `statuses` are the answers that come first; after them it answers 200. Each comes after
    `pause_s`."""

    def __init__(self, *statuses: int, pause_s: float = 0.0) -> None:
        self.bodies: list[Any] = []
        self.paths: list[str] = []
        self.asked = 0
        self.pause_s = pause_s
        self._statuses = list(statuses)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                receiver.asked += 1
                time.sleep(receiver.pause_s)
                status = receiver._statuses.pop(0) if receiver._statuses else 200
                if status == 200:
                    receiver.paths.append(self.path)
                    receiver.bodies.append(body)
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> HttpReceiver:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def wait(self, enough: Callable[[list[Any]], bool]) -> list[Any]:
        """The bodies, once there are enough of them."""
        deadline = time.monotonic() + PATIENCE_S
        while not enough(self.bodies):
            assert time.monotonic() < deadline, self.bodies
            time.sleep(0.02)
        return self.bodies
