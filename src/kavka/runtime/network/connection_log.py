"""The log lines of connections: a few of each kind, however many there would be.

What it decides: whether a line is written. A client that sends garbage in a loop must not fill the disk or slow the
broker down, so that of each kind at most `lines_per_minute` are written; the next line after a gap says how many were
left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kavka.logger import Logger

LINES_PER_MINUTE = 10


class ConnectionLog:
    """Writes at most so many lines of each event in a minute. Safe between threads up to a line more or less."""

    def __init__(self, *, lines_per_minute: int = LINES_PER_MINUTE) -> None:
        self._logger = Logger("kavka.network")
        self._lines_per_minute = lines_per_minute
        self._minute: dict[str, int] = {}
        self._written: dict[str, int] = {}
        self._left_out: dict[str, int] = {}

    def warning(self, event: str, **keys: Any) -> None:
        self._write(self._logger.warning, event, keys)

    def error(self, event: str, **keys: Any) -> None:
        self._write(self._logger.error, event, keys)

    def _write(self, write: Callable[..., None], event: str, keys: dict[str, Any]) -> None:
        minute = int(time.monotonic() // 60)
        if self._minute.get(event) != minute:
            self._minute[event] = minute
            self._written[event] = 0
        if self._written[event] >= self._lines_per_minute:
            self._left_out[event] = self._left_out.get(event, 0) + 1
            return
        self._written[event] += 1
        left_out = self._left_out.pop(event, 0)
        if left_out:
            keys["left_out_before"] = left_out
        write(event, **keys)
