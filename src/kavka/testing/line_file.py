"""LineFile: where the lines of a test's brokers go: into a file beside their data, and the last of them into memory.

They are kept apart from the log of the program under test, which decides about its own lines.
"""

from __future__ import annotations

import threading
import traceback
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

KEPT_LINES = 500
LEFT_OUT = ("debug",)


class LineFile:
    """A `kavka.logger.Sink`. Used from any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._last: deque[str] = deque(maxlen=KEPT_LINES)

    def __call__(self, level: str, event: str, keys: Mapping[str, Any]) -> None:
        if level in LEFT_OUT:
            return
        told = dict(keys)
        failure = told.pop("exc_info", None)
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = f"{at} {level:<7} {event}" + "".join(f" {name}={value}" for name, value in told.items())
        if isinstance(failure, BaseException):
            line += "\n" + "".join(traceback.format_exception(failure)).rstrip()
        with self._lock:
            self._last.append(line)
            if not self._file.closed:
                self._file.write(line + "\n")

    def last(self, count: int) -> list[str]:
        with self._lock:
            return list(self._last)[-count:]

    def close(self) -> None:
        with self._lock:
            self._file.close()
