"""Levels of loggers: who inherits from whom, and that a change holds for the next line."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from kavka.logger import ROOT, Level, Logger, LogLevels, current_levels, is_logger, levels, sink

ABOVE, ONE, OTHER = "tests.above", "tests.above.one", "tests.above.other"
LOGGERS = {name: Logger(name) for name in (ONE, OTHER)}


@pytest.fixture
def lines() -> Iterator[list[tuple[str, str]]]:
    """(level, event) of what is written in the test."""
    written: list[tuple[str, str]] = []

    def take(level: str, event: str, keys: Mapping[str, Any]) -> None:
        written.append((level, event))

    token = sink.set(take)
    yield written
    sink.reset(token)


def test_a_logger_has_the_level_of_the_next_one_above_it_that_was_given_one() -> None:
    found = LogLevels(Level.WARN)
    assert (found.of(ROOT), found.of(ABOVE), found.of(ONE)) == (Level.WARN, Level.WARN, Level.WARN)
    found.give(ABOVE, Level.DEBUG)
    assert (found.of(ROOT), found.of(ABOVE), found.of(ONE)) == (Level.WARN, Level.DEBUG, Level.DEBUG)
    found.give(ONE, Level.FATAL)
    assert (found.of(ONE), found.of(OTHER)) == (Level.FATAL, Level.DEBUG)
    found.give(ROOT, Level.TRACE)
    assert (found.of(ABOVE), found.of("elsewhere")) == (Level.DEBUG, Level.TRACE)
    found.take(ABOVE)
    assert (found.of(ONE), found.of(OTHER)) == (Level.FATAL, Level.TRACE)
    found.take(ONE)
    assert found.of(ONE) == Level.TRACE


def test_loggers_are_those_that_were_made_and_those_above_them() -> None:
    assert is_logger(ROOT)
    assert is_logger("tests")
    assert is_logger(ABOVE)
    assert is_logger(ONE)
    assert not is_logger("tests.abo")
    assert not is_logger("")
    every = LogLevels().all()
    assert {ROOT, "tests", ABOVE, ONE, OTHER} <= every.keys()
    assert set(every.values()) == {Level.INFO}


@pytest.mark.parametrize(
    ("level", "written"),
    [
        (Level.TRACE, ["debug", "info", "warning", "error"]),
        (Level.DEBUG, ["debug", "info", "warning", "error"]),
        (Level.INFO, ["info", "warning", "error"]),
        (Level.WARN, ["warning", "error"]),
        (Level.ERROR, ["error"]),
        (Level.FATAL, []),
    ],
)
def test_lines_below_the_level_are_not_written(lines: list[tuple[str, str]], level: Level, written: list[str]) -> None:
    def write_one_of_each() -> None:
        levels.set(LogLevels(level))
        for kind in ("debug", "info", "warning", "error"):
            getattr(LOGGERS[ONE], kind)("event")

    contextvars.copy_context().run(write_one_of_each)
    assert [each for each, _event in lines] == written


def test_a_change_holds_for_the_next_line_of_that_logger_alone(lines: list[tuple[str, str]]) -> None:
    def write() -> None:
        found = LogLevels()
        levels.set(found)
        LOGGERS[ONE].debug("before")
        found.give(ONE, Level.DEBUG)
        LOGGERS[ONE].debug("during")
        LOGGERS[OTHER].debug("elsewhere")
        found.take(ONE)
        LOGGERS[ONE].debug("after")

    contextvars.copy_context().run(write)
    assert lines == [("debug", "during")]


def test_brokers_of_one_process_have_levels_of_their_own(lines: list[tuple[str, str]]) -> None:
    def broker(level: Level) -> Callable[[], None]:
        context = contextvars.copy_context()
        context.run(levels.set, LogLevels(level))
        return lambda: context.run(LOGGERS[ONE].info, level.name)

    quiet, loud = broker(Level.ERROR), broker(Level.INFO)
    quiet()
    loud()
    assert [event for _level, event in lines] == ["INFO"]
    assert current_levels().of(ONE) == current_levels().of(ROOT)
