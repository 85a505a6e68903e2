"""Log lines: a constant event phrase and keys, through structlog, which is imported with the first line.

structlog's import costs as much as half of a broker's start (0.1 s of 0.2 s here), and a start that goes well has
nothing to say before it is done. How lines look is `runtime.log_output`'s matter.

I1  A line that cannot be written harms nobody: whoever wrote it goes on. Lines are lost where the disk behind them is
    full, their reader is gone, or no descriptor is left to import structlog with; those of the last kind are written
    without it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

_preparations: list[Callable[[], None]] = []
_LEVELS = ("debug", "info", "warning", "error")
_silent: set[str] = set()

on_broker: ContextVar[int | None] = ContextVar("on_broker", default=None)
"""Set by a host that has several brokers in its process: whose line it is. Tasks and timers inherit it."""

Sink = Callable[[str, str, Mapping[str, Any]], None]
sink: ContextVar[Sink | None] = ContextVar("sink", default=None)
"""Takes level, event and keys of lines instead of structlog, for brokers that are guests in somebody else's program:
how its lines look is that program's matter. Called from any of the broker's threads; must not raise."""


def set_level(level: str) -> None:
    """Lines below `level` (debug, info, warning, error) are not written, and import nothing."""
    _silent.clear()
    _silent.update(_LEVELS[: _LEVELS.index(level)])


def on_first_line(prepare: Callable[[], None]) -> None:
    """Has `prepare` called before the first line is written: it says how lines look."""
    _preparations.append(prepare)


class Logger:
    """What a module logs with: `logger = Logger(__name__)`."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, event: str, **keys: Any) -> None:
        self._write("debug", event, keys)

    def info(self, event: str, **keys: Any) -> None:
        """What an operator wants to know at three in the morning."""
        self._write("info", event, keys)

    def warning(self, event: str, **keys: Any) -> None:
        self._write("warning", event, keys)

    def error(self, event: str, **keys: Any) -> None:
        """Something that needs somebody; the keys name the next step."""
        self._write("error", event, keys)

    def _write(self, level: str, event: str, keys: dict[str, Any]) -> None:
        broker_id = on_broker.get()
        if broker_id is not None:
            keys = {"on_broker": broker_id, **keys}
        take = sink.get()
        if take is not None:
            take(level, event, keys)
            return
        if level in _silent:
            return
        try:
            import structlog

            while _preparations:
                _preparations.pop()()
        except OSError as refusal:
            _write_plainly(level, event, {**keys, "log_output": refusal})
            return
        try:
            getattr(structlog.get_logger(self._name), level)(event, **keys)
        except OSError:
            pass


def _write_plainly(level: str, event: str, keys: dict[str, Any]) -> None:
    words = " ".join(f"{name}={value!r}" for name, value in keys.items())
    try:
        print(f"level={level} event={event!r} {words}", file=sys.stderr, flush=True)
    except OSError:
        pass
