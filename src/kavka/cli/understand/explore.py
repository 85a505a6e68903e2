"""`kavka simulate --explore`: a fault at every step of a story, and what came of all the runs.

Decides what is asked of an exploration, and the form of the answer. The runs are `simulator.runs.explore`'s.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kavka.cli.output import FAILED, INTERRUPTED, Failure, Table, counted, json_text, note, show, usage

if TYPE_CHECKING:
    from kavka.simulator.runs.exploration import Broken, Exploration, Kept
    from kavka.simulator.runs.explore import Point, Scope

ALL: Final = "all"
EVERY_S: Final = 10.0
"""So often the progress is told."""
MOST_DELAYS: Final = 2


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody asked for. `story`: enough of its name; None for all. `bound`: how many delays a run has."""

    kind: str
    story: str | None = None
    pairs: bool = False
    bound: int | None = None
    part: str | None = None
    minutes: float | None = None
    keep: str | None = None
    at: str | None = None


def list_stories(*, as_json: bool) -> None:
    from kavka.simulator.runs.stories import STORIES

    print(json_text(list(STORIES)) if as_json else "\n".join(STORIES))


def point_of(wanted: Wanted) -> Point:
    """The one run that `--at` names."""
    from kavka.simulator.runs.explore import parse_place

    assert wanted.at is not None
    stories = _stories(wanted.story)
    if len(stories) > 1:
        usage("--at is a place in one story", "name it with --scenario")
    try:
        return parse_place(stories[0], wanted.at)
    except ValueError as problem:
        usage(f"--at {wanted.at!r}: {problem}", "the line `again` of a run that broke a rule has it")


def explore(wanted: Wanted, *, as_json: bool) -> tuple[int, Broken | None]:
    """Makes the runs and shows what came of them. Returns the exit status and the first run that broke a rule."""
    from kavka.simulator.runs.exploration import explore, scopes_of
    from kavka.simulator.runs.explore import NothingShown
    from kavka.simulator.runs.shrink import be_quiet

    kinds, stories, (part, parts) = _kinds(wanted), _stories(wanted.story), _part(wanted.part)
    if wanted.minutes is not None and not wanted.minutes > 0:  # "nan", too
        usage(f"--minutes {wanted.minutes:g} is too short", "give more than 0")
    be_quiet()
    try:
        scopes = scopes_of(stories, kinds, pairs=wanted.pairs or wanted.bound == MOST_DELAYS)
    except NothingShown as problem:
        raise Failure(str(problem), "this is a defect of the simulator or of kavka: please report it") from problem
    kept = None if wanted.keep is None else _kept(wanted.keep, scopes)
    runs = counted(sum(scope.size for scope in scopes), "run")
    progress = _Progress(sum(len(range(part, scope.size, parts)) for scope in scopes))
    try:
        note(f"Exploring: {runs} in {counted(len(scopes), 'scope')}, part {part} of {parts}")
        found = explore(scopes, part=part, parts=parts, minutes=wanted.minutes, kept=kept, tell=progress.tell)
    except KeyboardInterrupt:
        note(_stopped(wanted.keep))
        raise Failure("", status=INTERRUPTED) from None
    finally:
        if kept is not None:
            kept.close()
    missed = found.missed()
    if as_json:
        print(json_text(_as_json(found, missed)))
    else:
        _show(found, missed)
    return (FAILED if found.broken or missed else 0), (found.broken[0] if found.broken else None)


def _stopped(keep: str | None) -> str:
    if keep is None:
        return "Stopped, and what was made is lost: --keep FILE notes each run, and --minutes ends with a table."
    return f"Stopped: {keep} has the runs that were made, and the same command goes on from it."


class _Progress:
    """Tells now and then how far an exploration is."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._began_s = self._told_s = time.monotonic()
        self._at_first: int | None = None

    def tell(self, found: Exploration) -> None:
        now_s = time.monotonic()
        if self._at_first is None:
            self._at_first = found.done - 1
        if now_s - self._told_s < EVERY_S:
            return
        self._told_s = now_s
        a_second = (found.done - self._at_first) / (now_s - self._began_s)
        left_s = max(self._runs - found.done, 0) / a_second
        note(
            f"{found.done:,} runs of {self._runs:,}, {len(found.broken):,} broke a rule, {a_second:.0f} runs a second, "
            f"{left_s / 60:,.0f} minutes to go"
        )


def _kinds(wanted: Wanted) -> list[str]:
    from kavka.simulator.runs.explore import FAMILIES

    if wanted.kind != ALL and wanted.kind not in FAMILIES:
        usage(f"--explore {wanted.kind!r} is not a kind of fault", f"one of: {', '.join(FAMILIES)}, {ALL}")
    if wanted.bound is not None and wanted.kind != "delay":
        usage("--bound counts delays", "give it with --explore delay; other faults come in twos with --pairs")
    if wanted.bound is not None and not 1 <= wanted.bound <= MOST_DELAYS:
        usage(f"--bound {wanted.bound} is not explored", f"1, or {MOST_DELAYS}: any two delays")
    return [kind for name, kinds in FAMILIES.items() if wanted.kind in (name, ALL) for kind in kinds]


def _stories(words: str | None) -> list[str]:
    from kavka.simulator.runs.stories import STORIES

    if words is None:
        return list(STORIES)
    if words in STORIES:
        return [words]
    found = [name for name in STORIES if words.casefold() in name.casefold()]
    if not found:
        usage(f"--explore has no story {words!r}", "`kavka simulate --explore all --list` shows their names")
    if len(found) > 1:
        usage(f"--scenario {words!r} matches {len(found)} stories", "\n        ".join(found))
    return found


def _part(words: str | None) -> tuple[int, int]:
    if words is None:
        return 0, 1
    part, slash, parts = words.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal() and int(part) < int(parts)):
        usage(f"--part {words!r} is not I/N", "0/100 is the first of a hundred parts, 99/100 the last")
    return int(part), int(parts)


def _kept(path: str, scopes: list[Scope]) -> Kept:
    from kavka.simulator.runs.exploration import Kept, NotThisExploration

    try:
        return Kept(Path(path), scopes)
    except NotThisExploration as problem:
        raise Failure(str(problem), "name another file, or remove this one to begin anew") from problem
    except (OSError, UnicodeDecodeError) as problem:
        raise Failure(f"{path} cannot be used: {problem}", "name a file that you may read and write") from problem


def _as_json(found: Exploration, missed: list[str]) -> dict[str, object]:
    return {
        "runs": found.done,
        "runs_there_are": found.runs,
        "different": found.different,
        "scopes": [
            {
                "story": row.story,
                "kind": row.kind,
                "runs_there_are": row.runs,
                "made": row.made,
                "refused": row.refused,
                "broken": row.broken,
                "complete": row.is_complete,
            }
            for row in found.rows
        ],
        "violations": [
            {"rule": each.rule, "what": each.violation, "again": each.point.command} for each in found.broken
        ],
        "missed": missed,
    }


def _show(found: Exploration, missed: list[str]) -> None:
    from kavka.simulator.runs.exploration import MOST_SHOWN

    numbers = ("runs there are", "made", "refused", "broken")
    table = Table(("story", "kind", *numbers, "complete"), numbers)
    for row in found.rows:
        counts = (f"{count:,}" for count in (row.runs, row.made, row.refused, row.broken))
        table.add(row.story, row.kind, *counts, "yes" if row.is_complete else "no")
    show(table)
    print(f"\n{found.done:,} runs, {found.different:,} of them different; {len(found.broken):,} broke a rule.")
    for each in found.broken[:MOST_SHOWN]:
        print(f"\n{each.rule}: {each.violation}\n    again: {each.point.command}")
    if len(found.broken) > MOST_SHOWN:
        print(f"\n... and {len(found.broken) - MOST_SHOWN:,} more; --json has all")
    for line in missed:
        print(f"\nToo few runs came to what their story is about: {line}")
