"""Results: what was measured, as it is kept in benchmarks/results/, and the ratios that count.

A file compares kavka with one peer. It holds runs; a run holds where and how it was made and every measurement of every
round. A row that is measured again replaces that row of earlier runs, so that a file has one run per row.

I1  A ratio compares two measurements of the same run and the same round, never of different ones.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, NotRequired, TypedDict

from benchmarks.targets import TARGETS, Target

JUDGED = ("kraft", "zk")
"""Apache Kafka, which the targets are for: no other project's broker, and no former kavka."""


class Measured(TypedDict):
    """One row of one candidate in one round. figures: by name, which ends in the unit."""

    row: str
    candidate: str
    round: int
    at: str
    load_average: float
    figures: dict[str, float]


class Run(TypedDict):
    """One call of the harness."""

    started: str
    command: list[str]
    machine: dict[str, str]
    versions: dict[str, str]
    broker_commands: dict[str, str]
    operations: dict[str, int]
    measurements: list[Measured]
    others_cpu_percent: NotRequired[float]
    """What other processes took of one core meanwhile; runs before 2026-11-28 did not measure it."""


class Spread(NamedTuple):
    """Of several rounds."""

    minimum: float
    median: float
    maximum: float


class Comparison(NamedTuple):
    """One figure of one row: both candidates, and kavka / peer round by round."""

    row: str
    figure: str
    subject: Spread
    peer: Spread
    ratio: Spread | None
    rounds: int
    is_judged: bool
    """Whether the targets are for this peer."""

    @property
    def target(self) -> Target | None:
        return TARGETS.get((self.row, self.figure)) if self.is_judged else None

    @property
    def verdict(self) -> str:
        """ "reached", "short", or nothing where no target is set."""
        if self.target is None or self.ratio is None:
            return ""
        return "reached" if self.target.is_reached_by(self.ratio.median) else "short"


def spread(values: Iterable[float]) -> Spread:
    """Minimum, median and maximum of at least one value."""
    ordered = sorted(values)
    return Spread(ordered[0], statistics.median(ordered), ordered[-1])


def compare(measurements: Iterable[Measured], subject: str, peer: str) -> list[Comparison]:
    """Every figure that both candidates have in some round of one run, in the order in which it was measured."""
    by_figure: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for one in measurements:
        for figure, value in one["figures"].items():
            rounds = by_figure.setdefault((one["row"], figure), {}).setdefault(one["candidate"], {})
            rounds[one["round"]] = value
    comparisons = []
    for (row, figure), values in by_figure.items():
        ours, theirs = values.get(subject, {}), values.get(peer, {})
        both = sorted(ours.keys() & theirs.keys())
        if not both:
            continue
        ratios = [ours[number] / theirs[number] for number in both if theirs[number] > 0]
        comparisons.append(
            Comparison(
                row,
                figure,
                spread(ours[number] for number in both),
                spread(theirs[number] for number in both),
                spread(ratios) if ratios else None,
                len(both),
                peer in JUDGED,
            )
        )
    return comparisons


def read(path: Path) -> list[Run]:
    """The runs of a file; none when there is no file."""
    if not path.exists():
        return []
    runs: list[Run] = json.loads(path.read_text())["runs"]
    return runs


def merge(runs: list[Run], newest: Run) -> list[Run]:
    """The runs without the rows that the newest measured again, and the newest."""
    again = {one["row"] for one in newest["measurements"]}
    kept = []
    for run in runs:
        left = [one for one in run["measurements"] if one["row"] not in again]
        if left:
            kept.append(Run(**{**run, "measurements": left}))
    return [*kept, newest]


def write(path: Path, runs: list[Run]) -> None:
    """Replace the file as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"runs": runs}, indent=1) + "\n")
    temporary.replace(path)


def machine(directory: Path) -> dict[str, str]:
    """Where this runs. directory: where the brokers keep their data."""
    processors = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory_kb = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "processor": processors[0].partition(":")[2].strip() if processors else platform.machine(),
        "cores": str(os.cpu_count()),
        "memory_gb": f"{memory_kb / 2**20:.1f}",
        "kernel": platform.release(),
        "file_system": _file_system(directory),
    }


def _file_system(directory: Path) -> str:
    """The type of the mount that holds a directory."""
    longest, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount_point, type_name, *_ = line.split()
        inside = str(directory.resolve()).startswith(mount_point.rstrip("/") + "/") or mount_point == "/"
        if inside and len(mount_point) >= len(longest):
            longest, kind = mount_point, type_name
    return kind
