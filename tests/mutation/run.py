"""make mutants: tries mutants of the decision rooms, and says which ones no test noticed.

    python -m tests.mutation.run                                 # everything that is not known yet: hours
    python -m tests.mutation.run --part 17/400 --minutes 5       # a part of all modules; today/400: another each day
    python -m tests.mutation.run --room log --module checkpoint  # modules of a room whose path has this in it
    python -m tests.mutation.run --only _is_stale                # mutants whose name has this in it
    python -m tests.mutation.run --seconds 1; python -m tests.mutation.run --again    # quick tests first, then all
    python -m tests.mutation.run --room log --module compact --tests unit/log/test_compaction.py    # asks only these
    python -m tests.mutation.run --known                         # runs nothing: what earlier runs found

A mutant's tests take at most --seconds of processor time, as measured without a change, so that each mutant has a
bound; `--again` asks the rest about those that survived. With --tests what is found is found for good, and what
survives is known to these files alone: a run without it asks the others. Results are kept in .cache/mutants, and hold
until the module or the tests that decided them change: a run that was stopped goes on.

The exit status is 1 if a mutant survived or is not covered, and has no reason in explained/; if a reason is for a
mutant that is no longer there, or that a test finds; or if a test fails without any change.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.mutation.results import Known, Result, explained, stale
from tests.mutation.rooms import ROOMS, SOURCES, Room
from tests.mutation.sites import Site, sites

FOUND: Final = ("killed", "timeout")
LIVING: Final = ("survived", "uncovered")


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    rooms = [room for room in ROOMS if not arguments.room or room.name in arguments.room]
    if arguments.tests:
        rooms = [replace(room, tests=tuple(arguments.tests)) for room in rooms]
    chosen = {
        room.name: [site for site in _sites(room, arguments.module) if arguments.only in site.name] for room in rooms
    }
    if arguments.part:
        number, parts = arguments.part
        chosen = _part(chosen, number, parts)
    failed = [] if arguments.known else [room.name for room in rooms if not _try(room, chosen[room.name], arguments)]
    return _report(rooms, chosen, failed)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--room", action="append", choices=[room.name for room in ROOMS], help="again for several")
    parser.add_argument("--module", default="", metavar="TEXT", help="only modules with this in their path")
    parser.add_argument("--only", default="", metavar="TEXT", help="only mutants with this in their name")
    parser.add_argument("--part", type=_share, metavar="N/M", help="only the N-th of M equal parts of all mutants")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no mutant after so long")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="mutants at a time (default: cores)")
    parser.add_argument("--seconds", type=float, default=20, help="of tests for one mutant (default: 20)")
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="ask only these files and folders below tests/")
    parser.add_argument("--again", action="store_true", help="survivors too that not all of their tests were run for")
    parser.add_argument("--known", action="store_true", help="try nothing; report what is known")
    return parser.parse_args(argv)


def _share(text: str) -> tuple[int, int]:
    number, _, parts = text.partition("/")
    try:
        share = int(number) if number != "today" else int(time.time() / 86400) % int(parts) + 1, int(parts)
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(f"{text!r} is not N/M, such as 17/400 or today/400") from None
    if not 1 <= share[0] <= share[1]:
        raise argparse.ArgumentTypeError(f"{text!r}: N is from 1 to M")
    return share


def _sites(room: Room, text: str) -> list[Site]:
    return [site for path in room.module_paths() if text in str(path) for site in sites(path)]


def _part(chosen: dict[str, list[Site]], number: int, parts: int) -> dict[str, list[Site]]:
    """A stretch of all sites in a row, so that it needs the tests of few modules."""
    total = sum(map(len, chosen.values()))
    first, last = (number - 1) * total // parts, number * total // parts
    result, place = {}, 0
    for name, several in chosen.items():
        result[name] = several[max(first - place, 0) : max(last - place, 0)]
        place += len(several)
    return result


def _try(room: Room, several: Sequence[Site], arguments: argparse.Namespace) -> bool:
    """Each room has a process of its own: pytest runs once in each. False if its tests fail by themselves."""
    known = Known(room)
    missing = [site for site in several if _is_missing(known.of(site), again=arguments.again)]
    if not missing or arguments.minutes <= 0:
        return True
    began_s = time.monotonic()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            from tests.mutation.session import run

            until_s = began_s + arguments.minutes * 60
            code = run(room, missing, known, workers=arguments.workers, seconds=arguments.seconds, until_s=until_s)
        finally:
            sys.stdout.flush()
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    arguments.minutes -= (time.monotonic() - began_s) / 60
    return os.waitstatus_to_exitcode(status) == 0


def _is_missing(result: Result | None, *, again: bool) -> bool:
    return result is None or (again and not result.is_final)


def _report(rooms: Iterable[Room], chosen: dict[str, list[Site]], failed: Sequence[str]) -> int:
    reasons = explained()
    complaints = [f"{name}: its tests fail without any change" for name in failed]
    table = []
    for room in rooms:
        known, counted = Known(room), Counter[str]()
        for site in chosen[room.name]:
            result = known.of(site)
            outcome = "not run" if result is None else result.outcome
            reason = reasons.get(site.name)
            if outcome in LIVING and reason is None and result is not None:
                asked = "" if result.is_final else f" {result.tests} of {result.covering} tests"
                place = f"{SOURCES / site.module}:{site.line}"
                complaints.append(f"{outcome}{asked}: {place}\n    {site.name}\n    {result.becomes}")
            elif outcome in LIVING:
                outcome = "explained"
            elif outcome in FOUND and reason is not None and result is not None:
                complaints.append(f"explained, but found by {result.by or 'its limit of time'}:\n    {site.name}")
            counted["killed" if outcome in FOUND else outcome] += 1
        table.append((room.name, counted))
    modules = _explained(rooms)
    there = (site for path in modules for site in sites(path))
    left = stale(there, [str(path.relative_to(SOURCES)) for path in modules])
    complaints += [f"explained, but not there any more:\n    {name}" for name in left]
    if complaints:
        print("\n".join(complaints))
    columns = ("killed", "explained", "survived", "uncovered", "not run")
    print(f"{'room':14}{'mutants':>10}" + "".join(f"{column:>11}" for column in columns))
    for name, counted in table:
        total = sum(count for outcome, count in counted.items() if outcome != "same")
        print(f"{name:14}{total:>10}" + "".join(f"{counted[column]:>11}" for column in columns))
    return int(bool(complaints))


def _explained(rooms: Iterable[Room]) -> list[Path]:
    """Modules with a site that has a reason."""
    named = {SOURCES / name.partition(" ")[0] for name in explained()}
    return [path for room in rooms for path in room.module_paths() if path in named]


if __name__ == "__main__":
    sys.exit(main())
