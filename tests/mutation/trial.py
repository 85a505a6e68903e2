"""One mutant in one forked child.

The child changes the live code, runs the tests that cover the line, and ends with the first that fails. A change at a
module's top level needs a new process: there the module is loaded from the changed source, before any test is.

    python -m tests.mutation.trial SPEC.json    # that process

I1  A child ends: after BUSY_S of processor time beyond ten times what its tests took without a change, or after
    PATIENCE times as much on the clock; a mutant that ends so counts as found.
I2  A child that eats memory is ended by its limit.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import json
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.machinery import ModuleSpec
from math import ceil
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from tests.mutation.covering import failures
from tests.mutation.live import NeedsImport, replace
from tests.mutation.sites import Site

BUSY_S: Final = 5
PATIENCE: Final = 8
IMPORTING_S: Final = 15
"""Of processor time, for a process that begins from nothing."""
MEMORY_BYTES: Final = 3 << 30


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a child tells: see results.Result."""

    outcome: str
    by: str = ""
    becomes: str = ""
    tests: int = 0


@dataclass(frozen=True, slots=True)
class Child:
    pid: int
    told: int
    """A descriptor: one line of JSON, or nothing from a child that was ended."""
    until_s: float
    """How long it may take on the clock."""


def be_silent(session: pytest.Session) -> None:
    """This process's tests print no dots."""
    session.config.pluginmanager.unregister(name="terminalreporter")


def begin(site: Site, path: Path, session: pytest.Session, items: Sequence[pytest.Item], seconds: float) -> Child:
    """Forks a child for `site` of the module at `path`. `items`: what it runs; they took `seconds`."""
    reading, writing = os.pipe()
    limit = ceil(BUSY_S + 10 * seconds)
    pid = os.fork()
    if pid:
        os.close(writing)
        return Child(pid, reading, PATIENCE * (limit + IMPORTING_S))
    try:
        os.close(reading)
        be_silent(session)
        _be_quiet_and_bounded(limit)
        verdict = _try(site, path, items, writing, limit)
        _tell(writing, verdict)
    finally:
        os._exit(0)


def _tell(writing: int, verdict: Verdict) -> None:
    os.write(writing, json.dumps(asdict(verdict)).encode())


def _be_quiet_and_bounded(limit: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + IMPORTING_S))  # The second one is never raised again.
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _try(site: Site, path: Path, items: Sequence[pytest.Item], writing: int, limit: int) -> Verdict:
    source = path.read_text()
    changed = site.mutated(source)
    becomes = changed.splitlines()[site.line - 1].strip()
    name = ".".join(path.with_suffix("").parts[1:])
    try:
        if not replace(importlib.import_module(name), path, source, changed):
            return Verdict("same", becomes=becomes)
    except SyntaxError:
        return Verdict("same", becomes=becomes)
    except NeedsImport:
        resource.setrlimit(resource.RLIMIT_CPU, (limit + IMPORTING_S, limit + IMPORTING_S))
        _begin_from_nothing(name, changed, [item.nodeid for item in items], becomes, writing)
    return _run(items, becomes)


def _run(items: Sequence[pytest.Item], becomes: str) -> Verdict:
    for count, (item, following) in enumerate(zip(items, [*items[1:], None], strict=True), 1):
        try:
            with failures() as failed:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        except BaseException:  # pytest itself was ended by it
            failed = [item.nodeid]
        if failed:
            return Verdict("killed", item.nodeid, becomes, count)
    return Verdict("survived", "", becomes, len(items))


def _begin_from_nothing(name: str, changed: str, tests: list[str], becomes: str, writing: int) -> None:
    """Becomes that process."""
    descriptor, spec = tempfile.mkstemp(prefix="kavka-mutant-", suffix=".json")
    facts = {"module": name, "source": changed, "tests": tests, "becomes": becomes, "writing": writing}
    os.write(descriptor, json.dumps(facts).encode())
    os.close(descriptor)
    os.set_inheritable(writing, True)
    os.execv(sys.executable, [sys.executable, "-m", "tests.mutation.trial", spec])


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module, and loads it from the changed source."""

    def __init__(self, name: str, source: str) -> None:
        self._name, self._source = name, source

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        origin = str(Path("src", *fullname.split(".")).with_suffix(".py").resolve())
        return importlib.util.spec_from_file_location(fullname, origin, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._source, str(module.__file__), "exec"), vars(module))


class _First:
    """The first of `tests` that fails, or file of tests that cannot be collected.

    pytest is given their files: of some names it says that there is no such test."""

    def __init__(self, tests: Sequence[str]) -> None:
        self.name = ""
        self.ran = 0
        self._turns = {test: turn for turn, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((item for item in items if item.nodeid in self._turns), key=self._turn)
        self.ran = len(items)

    def _turn(self, item: pytest.Item) -> int:
        return self._turns[item.nodeid]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid


def main(spec: str) -> None:
    facts = json.loads(Path(spec).read_text())
    Path(spec).unlink()
    sys.meta_path.insert(0, _Changed(facts["module"], facts["source"]))
    first = _First(facts["tests"])
    files = dict.fromkeys(test.partition("::")[0] for test in facts["tests"])
    # Without the first pytest minds that the module, and all above it, are there before it and cannot be rewritten.
    quietly = ["--assert=plain", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    options = [*quietly, "-o", "tmp_path_retention_policy=none"]
    try:
        # Before pytest: the project's plugin of it would load the module from its file.
        importlib.import_module(facts["module"])
        pytest.main([*options, *files], plugins=[first])
        outcome = "killed" if first.name else "survived"
    except BaseException:
        outcome = "killed"
    _tell(facts["writing"], Verdict(outcome, first.name, facts["becomes"], first.ran))


if __name__ == "__main__":
    main(sys.argv[1])
