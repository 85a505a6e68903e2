"""Exports: where a pipeline's runs are told of besides the command that started them.

Decides what is started for what pipeline.yml asks for: a port or a file for Prometheus, alerts to a webhook, lineage.

I1  Nothing here holds up or fails a run. What does not work is said once.
I2  A file for Prometheus is whole whenever it is read: it is renamed into its place.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kavka_spark.pipelines.alerts import BOOK, Alerts, Book, IsOver
from kavka_spark.pipelines.journal import Event
from kavka_spark.pipelines.monitor import Condition, Monitor
from kavka_spark.pipelines.spec import PipelineSpec, SpecError

if TYPE_CHECKING:
    from kavka_spark.pipelines.lineage import Lineage

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
FILE_EVERY_S: Final = 10.0


class Exports:
    """From `with` to its end; `take` gets every event of the runner, and None when there was none for a moment."""

    def __init__(self, spec: PipelineSpec, complain: Callable[[str], None]) -> None:
        self._spec = spec
        self._complain = complain
        self._monitor = Monitor(spec.name, spec.own.limits)
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._file = Path(spec.own.metrics) if "/" in spec.own.metrics else None
        self._written_at = 0.0
        self._has_complained = False
        self._lineage: Lineage | None = None
        self.address = ""
        """Where Prometheus may ask, HOST:PORT."""

    def __enter__(self) -> Exports:
        """Raises SpecError for what cannot be started."""
        own = self._spec.own
        if own.metrics and self._file is None:
            self._serve(own.metrics)
        if own.lineage:
            from kavka_spark.pipelines.lineage import Lineage

            self._lineage = self._stack.enter_context(Lineage(self._spec, self._complain))
        if own.webhook:
            book = Book(self._spec.state / BOOK, self._spec.name)
            self._stack.enter_context(Alerts(book, own.webhook, self._conditions, self._complain))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._write_file()

    def take(self, event: Event | None) -> None:
        if event is not None:
            with self._lock:
                self._monitor.take(event)
            if self._lineage is not None:
                self._lineage.take(event)
        if time.monotonic() - self._written_at > FILE_EVERY_S:
            self._write_file()

    def metrics(self) -> str:
        with self._lock:
            return self._monitor.metrics()

    def _conditions(self) -> tuple[list[Condition], IsOver]:
        with self._lock:
            return self._monitor.conditions(time.time()), self._is_over

    def _is_over(self, rule: str, key: str) -> bool:
        with self._lock:
            return self._monitor.is_over(rule, key)

    def _serve(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        exports = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                known = self.path.partition("?")[0] == "/metrics"
                body = exports.metrics().encode() if known else b"the metrics are at /metrics\n"
                self.send_response(200 if known else 404)
                self.send_header("content-type", CONTENT_TYPE)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Says nothing: standard error is the command's."""

        try:
            server = ThreadingHTTPServer((host or "127.0.0.1", int(port)), Handler)
        except (OSError, ValueError, OverflowError) as problem:
            raise SpecError(
                f"kavka.metrics {address} cannot be listened on: {problem}", "write a free HOST:PORT, or a file's path"
            ) from None
        self.address = f"{server.server_address[0]!s}:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, name="kavka-pipeline-metrics", daemon=True)
        thread.start()
        self._stack.callback(server.server_close)
        self._stack.callback(server.shutdown)

    def _write_file(self) -> None:
        self._written_at = time.monotonic()
        if self._file is None:
            return
        new = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        try:
            new.write_text(self.metrics(), encoding="utf-8")
            os.replace(new, self._file)
        except OSError as problem:
            if not self._has_complained:
                self._complain(f"{self._file} cannot be written: {problem.strerror}")
            self._has_complained = True
