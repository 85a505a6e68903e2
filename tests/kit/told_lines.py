"""Log lines as values: what a room has told, with its keys, at every level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from kavka.logger import Level, process_levels, sink


class Line(NamedTuple):
    level: str
    event: str
    keys: Mapping[str, Any]


@contextmanager
def told_lines(logger: str) -> Iterator[list[Line]]:
    """The lines of this logger and those below it, from debug on, while this lasts; others too, if their level says."""
    found: list[Line] = []
    before = sink.set(lambda level, event, keys: found.append(Line(level, event, dict(keys))))
    process_levels.give(logger, Level.DEBUG)
    try:
        yield found
    finally:
        process_levels.take(logger)
        sink.reset(before)
