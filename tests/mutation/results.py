"""What is known from earlier runs, and the survivors that are explained."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.mutation.rooms import SOURCES, Room
from tests.mutation.sites import Site

CACHE = Path(".cache/mutants")
EXPLAINED: Final = Path(__file__).with_name("explained")
"""A file for each room that has explained survivors."""


@dataclass(frozen=True, slots=True)
class Result:
    """`outcome`: killed, timeout, survived, uncovered or same (no change at run time). `by`: the test that found it.
    `becomes`: the changed line. `tests`: how many were run, `covering`: how many could have been."""

    name: str
    module_state: str
    tests_state: str
    outcome: str
    by: str = ""
    becomes: str = ""
    tests: int = 0
    covering: int = 0

    def holds(self, room: Room) -> bool:
        """Whether it is still true: of a killed one, as long as its module and the test that found it are as they
        were, or as long as its module is where it cannot be imported with the change; of others, as long as all tests
        are."""
        if self.module_state != digest([SOURCES / self.name.partition(" ")[0]]):
            return False
        if self.outcome in ("killed", "timeout") and self.by:
            file = Path(self.by.partition("::")[0])
            return file.exists() and self.tests_state == digest([file])
        cannot_be_imported = self.outcome == "killed" and not self.by
        return self.outcome == "same" or cannot_be_imported or self.tests_state == digest(room.test_paths())

    @property
    def is_final(self) -> bool:
        """False for a survivor that only a part of its tests was asked about."""
        return self.outcome != "survived" or self.tests == self.covering


def tests_state(room: Room, outcome: str, by: str) -> str:
    is_one = outcome in ("killed", "timeout") and by
    return digest([Path(by.partition("::")[0])] if is_one else room.test_paths())


class Known:
    """Results of a room, kept as lines of JSON: the last one for a site counts."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._path = CACHE / f"{room.name}.jsonl"
        self._results: dict[str, Result] = {}
        if self._path.exists():
            for line in self._path.read_text().splitlines():
                result = Result(**json.loads(line))
                self._results[result.name] = result

    def of(self, site: Site) -> Result | None:
        result = self._results.get(site.name)
        return result if result is not None and result.holds(self._room) else None

    def found(self) -> list[Result]:
        """Those that a test found, whether they still hold or not."""
        return [result for result in self._results.values() if result.by]

    def add(self, result: Result) -> None:
        self._results[result.name] = result
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why the change of this site is none that a test could see, or need see. `sites` are their names."""

    sites: frozenset[str]
    reason: str


def explanations() -> list[Explanation]:
    files = sorted(EXPLAINED.glob("*.toml"))
    tables = (table for file in files for table in tomllib.loads(file.read_text())["explained"])
    return [Explanation(frozenset(each["mutants"]), each["reason"]) for each in tables]


def explained() -> dict[str, str]:
    """The reason of each site that has one."""
    return {name: each.reason for each in explanations() for name in each.sites}


def stale(there: Iterable[Site], modules: Sequence[str]) -> list[str]:
    """Explained sites of `modules` that are not `there`."""
    names = {site.name for site in there}
    return sorted(name for name in explained() if name.partition(" ")[0] in modules and name not in names)


def digest(paths: Sequence[Path]) -> str:
    return _digest(tuple(paths))


@cache
def _digest(paths: tuple[Path, ...]) -> str:
    total = hashlib.sha256()
    for path in paths:
        total.update(str(path).encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()[:16]
