"""Exploration: many runs of the simulator, each with its faults at steps of its own, and what came of them.

Decides how runs are made on all cores, what is counted, and what is kept so that an exploration goes on where it was
interrupted. Which runs there are is `explore`'s.

    I1  what is kept is one line for each run that was made; a run that is kept is not made again
    I2  what was kept by another program, or of other runs, is refused: its figures would not be of this one. Any change
        of kavka's sources is another program: runs may part long after the undisturbed one has ended as before
    I3  a scope is complete only if each of its runs was made
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import kavka
from kavka.errors import KavkaError
from kavka.simulator.runs.explore import Outcome, Point, Scope, play_calm
from kavka.simulator.runs.forked import LOT, Lot, Task, play
from kavka.simulator.runs.stories import STORIES

T = TypeVar("T")

MOSTLY: Final = 0.5
"""Of the runs with one fault so many must reach a milestone."""
FEW: Final = 20
"""Of so few runs no share is asked for."""
MOST_SHOWN: Final = 20
"""So many broken runs are named; the rest is counted."""


class NotThisExploration(KavkaError):
    """A file that keeps other runs."""


class Broken(NamedTuple):
    """A run that broke a rule."""

    rule: str
    violation: str
    point: Point


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one story and kind of fault. `refused`: the fault was not allowed at that step."""

    story: str
    kind: str
    runs: int
    made: int
    refused: int
    broken: int

    @property
    def is_complete(self) -> bool:
        return self.made + self.refused == self.runs


class Exploration:
    """The figures of many runs."""

    def __init__(self) -> None:
        self._sizes: dict[tuple[str, str], int] = {}
        self._counts: Counter[tuple[str, str, str]] = Counter()
        """By story, kind and what came of it: made, refused, broken."""
        self._asked: Counter[str] = Counter()
        """By story: runs whose milestones are known and count. A run with two faults, or one that was kept, is none."""
        self._reached: Counter[tuple[str, str]] = Counter()
        self._digests: set[str] = set()
        self.broken: list[Broken] = []

    def begin(self, story: str, kind: str, runs: int) -> None:
        """Counts runs of this story and kind, up to the number there are."""
        self._sizes[story, kind] = runs

    def add(self, outcome: Outcome) -> None:
        """Counts a run that was made now."""
        assert outcome.point is not None
        point = outcome.point
        self.count(point, outcome.digest, is_made=outcome.is_made)
        if outcome.is_made and point.then is None:
            self._asked[point.story] += 1
            self._reached.update((point.story, name) for name in outcome.reached)
        if outcome.violation:
            self.break_(Broken(outcome.rule, outcome.violation, point))

    def count(self, point: Point, digest: str, *, is_made: bool) -> None:
        self._counts[point.story, point.kind, "made" if is_made else "refused"] += 1
        self._digests.add(digest)

    def break_(self, broken: Broken) -> None:
        self._counts[broken.point.story, broken.point.kind, "broken"] += 1
        self.broken.append(broken)

    @property
    def done(self) -> int:
        return sum(count for (_, _, what), count in self._counts.items() if what in ("made", "refused"))

    @property
    def runs(self) -> int:
        """How many there are in all scopes."""
        return sum(self._sizes.values())

    @property
    def different(self) -> int:
        """How many of the runs differ in what was stored, committed and answered."""
        return len(self._digests)

    @property
    def rows(self) -> list[Row]:
        return [
            Row(story, kind, runs, *(self._counts[story, kind, what] for what in ("made", "refused", "broken")))
            for (story, kind), runs in self._sizes.items()
        ]

    def missed(self) -> list[str]:
        """Milestones that too few of the runs with one fault reached, in words."""
        found = []
        for story in dict.fromkeys(story for story, _ in self._sizes):
            made = self._asked[story]
            for milestone in STORIES[story].milestones:
                reached = self._reached[story, milestone.name]
                if made >= FEW and reached < MOSTLY * made:
                    found.append(f"{story}: {reached:,} of {made:,} runs with a fault came to this: {milestone.name}")
        return found


def program_of(sources: Path) -> str:
    """A digest of all modules below a directory, and of Python's version."""
    found = hashlib.sha256(sys.version.encode())
    for path in sorted(sources.rglob("*.py")):
        text = path.read_bytes()
        found.update(f"{path.relative_to(sources)} {len(text)}\n".encode() + text)
    return found.hexdigest()[:24]


class _Line(NamedTuple):
    """What is kept of a run: `place` is its scope's, `number` its own within it."""

    place: int
    number: int
    digest: str
    is_made: bool
    rule: str
    violation: str


class Kept:
    """A file with a line for each run that was made, after one line that says which exploration that is."""

    def __init__(self, path: Path, scopes: Sequence[Scope]) -> None:
        """Raises NotThisExploration (I2) and OSError."""
        self._scopes = scopes
        runs = [[scope.story, scope.kind, scope.pairs, scope.size, scope.calm.digest] for scope in scopes]
        head = {"program": program_of(Path(kavka.__file__).parent), "scopes": runs}
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        lines = whole.splitlines()
        if lines and _json(lines[0], 1) != head:
            raise NotThisExploration(f"{path} keeps other runs, or those of another version of kavka")
        self._lines = [self._line(line, number) for number, line in enumerate(lines[1:], 2)]
        self._file = path.open("a", encoding="utf-8")
        self._file.truncate(len(whole.encode()))  # A line that was cut off is a run that is made again.
        if not lines:
            self._write(head)

    def _line(self, text: str, at: int) -> _Line:
        try:
            line = _Line(*_json(text, at))
            is_a_run = 0 <= line.number < self._scopes[line.place].size and line.place >= 0
        except (TypeError, IndexError):
            is_a_run = False
        if not is_a_run:
            raise NotThisExploration(f"line {at} is not a run of this exploration: {text[:60]}")
        return line

    def take(self, found: Exploration) -> list[set[int]]:
        """Counts what is kept. Returns the numbers of the runs, by scope."""
        numbers: list[set[int]] = [set() for _ in self._scopes]
        for line in self._lines:
            point = self._scopes[line.place].point(line.number)
            numbers[line.place].add(line.number)
            found.count(point, line.digest, is_made=line.is_made)
            if line.rule:
                found.break_(Broken(line.rule, line.violation, point))
        return numbers

    def keep(self, place: int, number: int, outcome: Outcome) -> None:
        self._write(_Line(place, number, outcome.digest, outcome.is_made, outcome.rule, outcome.violation))

    def close(self) -> None:
        self._file.close()

    def _write(self, what: object) -> None:
        self._file.write(json.dumps(what) + "\n")
        self._file.flush()


def _json(line: str, at: int) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise NotThisExploration(f"line {at} is not a line of an exploration: {line[:60]}") from error


def scopes_of(stories: Sequence[str], kinds: Sequence[str], *, pairs: bool) -> list[Scope]:
    """Plays each story undisturbed. Raises NothingShown."""
    calm = {story: play_calm(story) for story in stories}
    return [Scope(story, kind, calm[story], pairs) for story in stories for kind in kinds]


def explore(
    scopes: Sequence[Scope],
    *,
    part: int = 0,
    parts: int = 1,
    minutes: float | None = None,
    kept: Kept | None = None,
    tell: Callable[[Exploration], None] = lambda _found: None,
) -> Exploration:
    """Makes one part of all runs, on all cores, the stories by turns; ends after `minutes` with what it has. `tell` is
    called after each run."""
    found = Exploration()
    for scope in scopes:
        found.begin(scope.story, scope.kind, scope.size)
    done = kept.take(found) if kept is not None else [set() for _ in scopes]
    lots = _lots(scopes, done, part, parts)
    end_s = time.monotonic() + (60 * minutes if minutes is not None else 1e9)
    for task, outcome in play(lots, len(os.sched_getaffinity(0)), end_s, time.monotonic):
        found.add(outcome)
        if kept is not None:
            kept.keep(task.place, task.number, outcome)
        tell(found)
    return found


def _lots(scopes: Sequence[Scope], done: Sequence[set[int]], part: int, parts: int) -> Iterator[Lot]:
    """What is to be done, the stories by turns, and the scopes of a story by turns."""

    def of(place: int, scope: Scope) -> Iterator[Task]:
        return (Task(place, number, point) for number, point in scope.points(part, parts) if number not in done[place])

    def lots_of(story: str) -> Iterator[Lot]:
        tasks = _by_turns([of(place, scope) for place, scope in enumerate(scopes) if scope.story == story])
        while lot := list(islice(tasks, LOT)):
            yield lot

    return _by_turns([lots_of(story) for story in dict.fromkeys(scope.story for scope in scopes)])


def _by_turns(rows: Sequence[Iterator[T]]) -> Iterator[T]:
    return (each for each in chain.from_iterable(zip_longest(*rows)) if each is not None)
