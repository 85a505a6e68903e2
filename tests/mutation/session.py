"""pytest's loop over a room's tests, replaced by one over mutants."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import pytest

from tests.mutation import covering, results
from tests.mutation.results import Known, Result, digest, tests_state
from tests.mutation.rooms import SOURCES, Room
from tests.mutation.sites import Site
from tests.mutation.trial import Child, Verdict, be_silent, begin

PROFILE: Final = "mutants"
QUIETLY: Final = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "tmp_path_retention_policy=none")


@dataclass(slots=True)
class Running:
    site: Site
    child: Child
    covering: int
    began_s: float = field(default_factory=time.monotonic)


class Finders:
    """Tests that found a mutant are likely to find its neighbours."""

    def __init__(self, results: Iterable[Result]) -> None:
        self._of_module: dict[str, Counter[str]] = {}
        self._of_definition: dict[str, Counter[str]] = {}
        for result in results:
            self.add(result)

    def add(self, result: Result) -> None:
        if result.by:
            module, definition = result.name.split(" ")[:2]
            self._of_module.setdefault(module, Counter())[result.by] += 1
            self._of_definition.setdefault(f"{module} {definition}", Counter())[result.by] += 1

    def first(self, site: Site, tests: Sequence[str]) -> list[str]:
        """`tests`, those first that found most mutants of the site's definition, and then of its module."""
        here = self._of_definition.get(f"{site.module} {site.definition}", Counter())
        near = self._of_module.get(site.module, Counter())
        return sorted(tests, key=lambda test: (-here[test], -near[test]))


class Loop:
    """A plugin of pytest. `seconds`: a mutant's tests take at most so long in all, when nothing is changed; whatever
    would exceed it is not run. `until_s` (of time.monotonic): no mutant begins after it."""

    def __init__(
        self, room: Room, sites: Sequence[Site], known: Known, *, workers: int, seconds: float, until_s: float
    ) -> None:
        self._room, self._sites, self._known = room, sites, known
        self._workers, self._seconds, self._until_s = workers, seconds, until_s
        self._running: dict[int, Running] = {}
        self._finders = Finders(known.found())

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self) -> None:
        """Kills that come again: the same examples in each child, and none made smaller."""
        import hypothesis  # not before pytest has begun, which rewrites its assertions

        hypothesis.settings.register_profile(
            PROFILE,
            deadline=None,
            derandomize=True,
            database=None,
            phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("the tests cannot be collected")
        self._measure(session)
        _make_tests_directory(session)
        tests, _ = covering.load(self._room)
        items = {item.nodeid: item for item in session.items}
        for site in self._sites:
            if time.monotonic() > self._until_s:
                break
            path = SOURCES / site.module
            asked = tests.of_line(path, site.line)
            for line in range(site.line + 1, site.last_line + 1):
                asked = asked or tests.of_line(path, line)
            if not site.definition or (not asked and _is_evaluated_at_import(site)):
                asked = tests.of_module(path)
            likely = self._finders.first(site, [test for test in asked if test in items])
            chosen, total_s = self._choose(tests, likely)
            if not chosen:
                self._note(site, Verdict("uncovered"), len(asked))
                continue
            while len(self._running) >= self._workers:
                self._wait()
            child = begin(site, path, session, [items[test] for test in chosen], total_s)
            self._running[child.told] = Running(site, child, len(asked))
        while self._running:
            self._wait()
        return True

    def _choose(self, tests: covering.Covering, asked: Sequence[str]) -> tuple[list[str], float]:
        chosen: list[str] = []
        total_s = 0.0
        for test in asked:
            if chosen and total_s + tests.seconds[test] > self._seconds:
                break
            chosen.append(test)
            total_s += tests.seconds[test]
        # File by file, because of what each begins and ends with; the file with the first test first.
        files = list(dict.fromkeys(test.partition("::")[0] for test in chosen))
        return sorted(chosen, key=lambda test: files.index(test.partition("::")[0])), total_s

    def _measure(self, session: pytest.Session) -> None:
        """In a child, so that this process stays as it was before any test."""
        _, missing = covering.load(self._room)
        if not missing:
            return
        print(f"{self._room.name}: measures which lines {len(missing)} files of tests run", flush=True)
        pid = os.fork()
        if not pid:
            code = 1
            try:
                be_silent(session)
                covering.measure(self._room, session, missing)
                code = 0
            except BaseException as error:
                print(f"cannot be measured: {error}", file=sys.__stderr__, flush=True)
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        if status:
            raise session.Interrupted("a test fails without any change")

    def _wait(self) -> None:
        """Until one child has ended, or has to be."""
        now_s = time.monotonic()
        ends_s = min(each.began_s + each.child.until_s for each in self._running.values())
        ready, _, _ = select.select(list(self._running), [], [], max(ends_s - now_s, 0))
        overdue = [
            told for told, each in self._running.items() if each.began_s + each.child.until_s <= time.monotonic()
        ]
        for told in dict.fromkeys([*ready, *overdue]):
            each = self._running.pop(told)
            if told not in ready:
                with suppress(ProcessLookupError):
                    os.kill(each.child.pid, signal.SIGKILL)
            line = os.read(told, 65536) if told in ready else b""  # one write, or the end of a child that was ended
            os.close(told)
            os.waitpid(each.child.pid, 0)
            verdict = Verdict(**json.loads(line)) if line else Verdict("timeout")
            self._note(each.site, verdict, each.covering)

    def _note(self, site: Site, verdict: Verdict, covering: int) -> None:
        result = Result(
            site.name,
            digest([SOURCES / site.module]),
            tests_state(self._room, verdict.outcome, verdict.by),
            verdict.outcome,
            verdict.by,
            verdict.becomes,
            verdict.tests,
            covering,
        )
        self._known.add(result)
        self._finders.add(result)


def _make_tests_directory(session: pytest.Session) -> None:
    """The directory of the tests' own ones, made once: each child would empty it at its first test, and so fail the
    tests of the child beside it."""
    session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]


def _is_evaluated_at_import(site: Site) -> bool:
    """A class body's own lines, such as a field's default, and a function's decorators and defaults."""
    node = site.node
    while node is not None and node.type not in ("suite", "file_input"):
        node = node.parent
    return node is None or node.type == "file_input" or node.parent.type == "classdef"


def run(room: Room, sites: Sequence[Site], known: Known, *, workers: int, seconds: float, until_s: float) -> int:
    """Tries the mutants of `sites`. Returns pytest's exit status."""
    results.CACHE.mkdir(parents=True, exist_ok=True)
    loop = Loop(room, sites, known, workers=workers, seconds=seconds, until_s=until_s)
    files = [str(path) for path in room.test_paths()]
    return int(pytest.main([*QUIETLY, f"--hypothesis-profile={PROFILE}", *files], plugins=[loop, covering]))
