"""Log lines: a constant event phrase and keys, through structlog, which is imported with the first line.

structlog's import costs as much as half of a broker's start (0.1 s of 0.2 s here), and a start that goes well has
nothing to say before it is done. How lines look is `runtime.log_output`'s matter.

A logger has its module's name, and with it its place in a tree: `kavka.controller.work.leaders` lies below
`kavka.controller` and `kavka`, and all of them below the root. Levels can be changed while brokers run (`LogLevels`).

I1  A line that cannot be written harms nobody: whoever wrote it goes on. Lines are lost where the disk behind them is
    full, their reader is gone, or no descriptor is left to import structlog with; those of the last kind are written
    without it.
I2  A line is written if its level is not below that of its logger: the logger's own, where it was given one, else that
    of the next one above it that was, at last the root's. A line below it costs two look-ups and imports nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from enum import IntEnum
from typing import Any, Final

ROOT: Final = "root"
"""What Kafka calls the logger above all others."""
_preparations: list[Callable[[], None]] = []
_names: dict[str, None] = {}
"""All loggers that were made, and those above them."""

on_broker: ContextVar[int | None] = ContextVar("on_broker", default=None)
"""Set by a host that has several brokers in its process: whose line it is. Tasks and timers inherit it."""

Sink = Callable[[str, str, Mapping[str, Any]], None]
sink: ContextVar[Sink | None] = ContextVar("sink", default=None)
"""Takes level, event and keys of lines instead of structlog, for brokers that are guests in somebody else's program:
how its lines look is that program's matter. It gets those that the levels let through. Called from any of the broker's
threads; must not raise."""


class Level(IntEnum):
    """Levels under Kafka's names. Lines have one of the four in the middle."""

    TRACE = 5
    DEBUG = 10
    INFO = 20
    WARN = 30
    ERROR = 40
    FATAL = 50


_OF_LINES: Final = {"debug": Level.DEBUG, "info": Level.INFO, "warning": Level.WARN, "error": Level.ERROR}


class LogLevels:
    """Which lines are written. May be asked by any thread while another one changes it."""

    __slots__ = ("_given", "_in_force")

    def __init__(self, root: Level = Level.INFO) -> None:
        self._given: Mapping[str, Level] = {ROOT: root}
        self._in_force: dict[str, Level] = {}

    def of(self, name: str) -> Level:
        """The level that is in force for a logger."""
        # Taken before anything is looked up: what is found by levels of yesterday is kept with those of yesterday.
        in_force = self._in_force
        level = in_force.get(name)
        if level is None:
            given = self._given
            level = in_force[name] = next((given[each] for each in _upwards(name) if each in given), given[ROOT])
        return level

    def give(self, name: str, level: Level) -> None:
        """`level` holds for the logger, and for those below it that were not given one."""
        self._given = {**self._given, name: level}
        self._in_force = {}

    def take(self, name: str) -> None:
        """The logger has the level of the one above it again. Not for the root."""
        assert name != ROOT, "the root has nobody to inherit from"
        self._given = {each: level for each, level in self._given.items() if each != name}
        self._in_force = {}

    def all(self) -> dict[str, Level]:
        """Every logger that there is, with the level that is in force."""
        return {name: self.of(name) for name in (ROOT, *sorted(_names))}


process_levels: Final = LogLevels()
levels: ContextVar[LogLevels | None] = ContextVar("levels", default=None)
"""Set by a host that has several brokers in its process: each has levels of its own. Tasks and timers inherit it."""


def current_levels() -> LogLevels:
    """The levels that hold for lines that are written here."""
    return levels.get() or process_levels


def is_logger(name: str) -> bool:
    return name == ROOT or name in _names


def set_level(level: str) -> None:
    """Lines below `level` (debug, info, warning, error) are not written, but where a logger was given its own."""
    process_levels.give(ROOT, _OF_LINES[level])


def on_first_line(prepare: Callable[[], None]) -> None:
    """Has `prepare` called before the first line is written: it says how lines look."""
    _preparations.append(prepare)


class Logger:
    """What a module logs with: `logger = Logger(__name__)`."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name
        _names.update(dict.fromkeys(_upwards(name)))

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
        if _OF_LINES[level] < current_levels().of(self._name):
            return
        broker_id = on_broker.get()
        if broker_id is not None:
            keys = {"on_broker": broker_id, **keys}
        take = sink.get()
        if take is not None:
            take(level, event, keys)
            return
        keys = {**keys, "logger": self._name}
        try:
            import structlog

            while _preparations:
                _preparations.pop()()
        except OSError as refusal:
            _write_plainly(level, event, {**keys, "log_output": refusal})
            return
        try:
            getattr(structlog.get_logger(), level)(event, **keys)
        except OSError:
            pass


def _upwards(name: str) -> Iterable[str]:
    """The logger and those above it, the root excepted."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def _write_plainly(level: str, event: str, keys: dict[str, Any]) -> None:
    words = " ".join(f"{name}={value!r}" for name, value in keys.items())
    try:
        sys.stderr.write(f"level={level} event={event!r} {words}\n")
        sys.stderr.flush()
    except OSError:
        pass
