"""Bugs that were mended, put back one by one, and whether a fault at some step of a story shows them.

    python -m tests.simulation.explored_mutants [--points 60] [NAME ...]

`MENDED` are defects of kavka's own that lost something or could not be got over. Each names the stories and kinds of
fault that are tried; points are taken evenly from all steps of each. A line says which run found it, by which rule, and
after how many runs; the exit status is 1 if one lives that is not known to.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from typing import Final, NamedTuple

from kavka.simulator.runs.explore import Outcome, Point, Scope, run
from kavka.simulator.runs.shrink import be_quiet
from kavka.simulator.runs.stories import STORIES
from tests.simulation.mutation import Change, Mutant, chosen, put_back

LOG: Final = "kavka.log.unified_log:UnifiedLog"
DURABILITY: Final = "kavka.log.durability"
PARTITION: Final = "kavka.replication.decide.partition:Partition"
POINTS: Final = 60
"""Of each story and kind, at most."""


class Mended(NamedTuple):
    """`places`: stories and kinds of fault, the likeliest first. `lacks`: why it is not found, of one that lives."""

    mutant: Mutant
    places: tuple[tuple[str, str], ...]
    lacks: str = ""


MENDED: Final = (
    Mended(
        Mutant(
            "a clean stop's snapshots are not durable",
            "a power cut after a clean stop lost idempotent producers and open transactions: the mark was there, the "
            "snapshot was not",
            (
                Change(f"{LOG}.write_all", "self._durability.files.append(snapshot)", "pass"),
                Change(f"{LOG}.write_all", "self._durability.directory_changed = True", "pass"),
            ),
        ),
        (("clean stop of a first segment", "power"),),
    ),
    Mended(
        Mutant(
            "a topic's id is not durable",
            "after a power cut a topic made anew took over the former one's records",
            (
                Change(
                    f"{LOG}.write_topic_id",
                    "self.metadata.is_unsynced = self._durability.directory_changed = True",
                    "pass",
                ),
            ),
        ),
        (("log roll", "power"), ("topic deleted and made again", "power")),
    ),
    Mended(
        Mutant(
            "a log's directory is not durable",
            "flushed records went with the name of their directory",
            (Change(f"{DURABILITY}:FlushTask.sync", "self._directory.ensure_name()", "pass"),),
        ),
        (("log roll", "power"), ("produce", "power")),
    ),
    Mended(
        Mutant(
            "segments are not durable",
            "a flush that syncs names and no bytes",
            (Change(f"{DURABILITY}:FlushTask.sync", "file.sync()", "pass"),),
        ),
        (("log roll", "power"), ("clean stop", "power")),
    ),
    Mended(
        Mutant(
            "what was cut off may be claimed as committed",
            "after a power cut a replica claimed as committed what it had cut off before",
            (
                Change(
                    f"{DURABILITY}:Durability.claimable",
                    "if self._cut is None else min(high_watermark, self._cut)",
                    "if True else 0",
                ),
            ),
        ),
        (("clean election", "power"), ("clean stop", "power")),
        lacks="two faults in one run: what was cut off comes back with a power cut, and then it must lead",
    ),
    Mended(
        Mutant(
            "two clocks in one partition",
            "a wall clock that is set back hid acknowledged records: a leader waited for a follower that was gone",
            (
                Change(
                    "kavka.replication.replica_manager:ReplicaManager.append",
                    "now_ms=self.now_ms(), wall_ms=wall_ms",
                    "now_ms=wall_ms, wall_ms=wall_ms",
                ),
            ),
        ),
        (("ISR shrink and expansion", "clock behind"), ("ISR shrink and expansion", "clock ahead")),
        lacks="a story with a leader alone in sync, whose reader waits: S41 has it",
    ),
    Mended(
        Mutant(
            "an append that ends half way fails nothing",
            "a later append went behind the torn one",
            (
                Change(f"{LOG}.append_as_leader", "self.failure = error", "pass"),
                Change(f"{LOG}.append_as_leader", "self._on_torn_append()", "pass"),
            ),
        ),
        (("produce", "write"), ("produce", "full")),
        lacks="an append that fails without an error of its disk: after such an error the whole directory is given up",
    ),
    Mended(
        Mutant(
            "a failed flush is forgotten",
            "what was not synced counts as durable with the next sync, which the kernel answers without writing",
            (Change(f"{LOG}.fail_flush", "self.failure = error", "pass"),),
        ),
        (("log roll", "sync"),),
        lacks="a failed sync, then a power cut: the whole directory is given up with the first",
    ),
)


def candidates(mended: Mended, many: int) -> Iterator[Point]:
    """So many points of each place, evenly over its steps, a place after the other by turns. Raises AssertionError if
    the undisturbed story finds the bug already: then no fault is needed, and a scenario must have it."""
    rows = []
    for story, kind in mended.places:
        calm = run(STORIES[story])
        assert not calm.violation, f"{story} finds it undisturbed: {calm.violation}"
        rows.append([point for _, point in islice(Scope(story, kind, calm).points(), many)])
    for turn in zip_longest(*rows):
        yield from (point for point in turn if point is not None)


def hunt(mended: Mended, many: int = POINTS) -> tuple[Outcome | None, int]:
    """What found the bug, None if nothing did, and how many runs it took."""
    tried = 0
    with put_back(mended.mutant):
        for point in candidates(mended, many):
            tried += 1
            outcome = run(STORIES[point.story], point)
            if outcome.violation:
                return outcome, tried
    return None, tried


def _report(work: tuple[str, int]) -> bool:
    name, many = work
    (mended,) = (each for each in MENDED if each.mutant.name == name)
    began_s = time.process_time()
    found, tried = hunt(mended, many)
    if found is None or found.point is None:
        told = f"LIVES after {tried} runs{f'; it lacks {mended.lacks}' if mended.lacks else ''}"
    else:
        told = f"run {tried}, {found.rule}, {found.point.command}\n      {found.violation[:160]}"
    print(f"{time.process_time() - began_s:6.1f} s CPU  {name}: {told}", flush=True)
    return found is not None or bool(mended.lacks)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="beginnings of names; default: all")
    parser.add_argument("--points", type=int, default=POINTS, help="of each story and kind")
    arguments = parser.parse_args(argv)
    names = [each.mutant.name for each in MENDED]
    wanted = chosen(parser, names, arguments.names)
    with multiprocessing.get_context("fork").Pool(os.cpu_count(), be_quiet, maxtasksperchild=1) as pool:
        found = pool.map(_report, [(name, arguments.points) for name in wanted], chunksize=1)
    print(f"{len(found) - sum(found)} of {len(found)} bugs live that should not")
    return 0 if all(found) else 1


if __name__ == "__main__":
    sys.exit(main())
