"""Which tests run which lines of a room, and how long each takes: measured once for each state of a test file.

Measuring asks coverage.py for a context per test. It is kept in .cache/mutants for each test file, and measured anew
when the file or the room's source has changed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import coverage
import pytest

from tests.mutation import results
from tests.mutation.results import digest
from tests.mutation.rooms import Room

Lines = dict[str, list[int]]
"""Of each source file, the lines that a test runs."""


class Covering:
    """`seconds` of processor time that each test took, and the tests that run a module's line."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._tests: dict[tuple[str, int], list[str]] = {}
        self._of_module: dict[str, set[str]] = {}

    def add(self, test: str, seconds: float, lines: Lines) -> None:
        self.seconds[test] = seconds
        for module, numbers in lines.items():
            self._of_module.setdefault(module, set()).add(test)
            for number in numbers:
                self._tests.setdefault((module, number), []).append(test)

    def of_line(self, module: Path, line: int) -> list[str]:
        """The tests that run it, the quickest first."""
        return sorted(self._tests.get((str(module), line), ()), key=lambda test: (self.seconds[test], test))

    def of_module(self, module: Path) -> list[str]:
        """The tests that run a line of it, the quickest first. Where no line runs later than when it is imported, as in
        a module of values alone, any test may tell."""
        tests = self._of_module.get(str(module)) or self.seconds
        return sorted(tests, key=lambda test: (self.seconds[test], test))


def load(room: Room) -> tuple[Covering, list[Path]]:
    """What is known, and the test files that must be measured."""
    source = digest(room.module_paths())
    known, missing = Covering(), []
    for file in room.test_paths():
        kept = _kept(room, file)
        facts = json.loads(kept.read_text()) if kept.exists() else {}
        if facts.get("state") != f"{source}-{digest([file])}":
            missing.append(file)
            continue
        for test, (seconds, lines) in facts["tests"].items():
            known.add(test, seconds, lines)
    return known, missing


def measure(room: Room, session: pytest.Session, files: Sequence[Path]) -> None:
    """Runs all tests of `files` once. Raises AssertionError if one fails: nothing could be learned from it."""
    source = digest(room.module_paths())
    included = [str(path.resolve()) for path in room.module_paths()]
    here = Path.cwd()
    for file in files:
        tests: dict[str, tuple[float, Lines]] = {}
        items = [item for item in session.items if item.path == file.resolve()]
        measured = coverage.Coverage(data_file=None, include=included, config_file=False)
        measured.set_option("run:disable_warnings", ["no-data-collected"])  # Some files run nothing of the room.
        measured.start()
        for item, following in zip(items, [*items[1:], None], strict=True):
            measured.switch_context(item.nodeid)
            began_s = time.process_time()
            with failures() as failed:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            assert not failed, f"{item.nodeid} fails without any change"
            tests[item.nodeid] = time.process_time() - began_s, {}
        measured.stop()
        data = measured.get_data()
        for path in data.measured_files():
            module = str(Path(path).relative_to(here))
            for line, contexts in data.contexts_by_lineno(path).items():
                for test in contexts:
                    if test:
                        tests[test][1].setdefault(module, []).append(line)
        kept = _kept(room, file)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps({"state": f"{source}-{digest([file])}", "tests": tests}))


@contextmanager
def failures() -> Iterator[list[str]]:
    """The names of tests that fail while this lasts."""
    before = len(_failed)
    mine: list[str] = []
    yield mine
    mine.extend(_failed[before:])


_failed: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failed.append(report.nodeid)


def _kept(room: Room, file: Path) -> Path:
    return results.CACHE / "covering" / room.name / f"{'.'.join(file.with_suffix('').parts[1:])}.json"
