"""What growth costs, as it is kept and as it is shown, with each figure's exponent. It must not measure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks import PROJECT

RESULTS: Final = PROJECT / "benchmarks" / "results" / "growth.json"
NAMES: Final = {
    "connections": "connections that are open and idle",
    "partitions": "partitions of one broker, empty",
    "groups": "groups of one member each, classic protocol",
    "members": "members of one group, newer protocol, 1,000 partitions",
    "topics": "topics that one Produce names, with one record each",
    "batch": "records of 100 bytes in one batch",
    "followers": "replicas of a partition, acks=all, one record at a time",
}
FIGURES: Final = {
    "cpu_us_to_come": "CPU for each that comes, us",
    "memory_kb": "memory of each, KB",
    "idle_percent": "CPU while nobody asks, % of a core",
    "small_request_us": "CPU of a small Produce beside them, us",
    "heartbeat_us": "CPU of a heartbeat, us",
    "cpu_us": "CPU for each, us",
    "batch_us": "CPU of the whole batch, us",
}
OPENING = """\
Measured with `make bench-growth`, kavka alone: on one broker the number grows from size to size. "Each" is one of those
that came since the size before. The exponent is the slope of a figure's logarithm over the size's: 0 is flat, 1 means
that each costs more in proportion to how many there are, and below 0 what they share is spread over more of them. CPU
is that of all threads of the process; of replicas it is that of all eight brokers, which share one process."""


class Point(NamedTuple):
    """Figures at one size, by name; a name ends in its unit."""

    size: int
    figures: Mapping[str, float]


class Axis(NamedTuple):
    """One axis as it was measured; `machine` in words."""

    points: Sequence[Point]
    machine: str


def exponent(points: Sequence[tuple[int, float]]) -> float | None:
    """The slope of log(figure) over log(size), by least squares; None with fewer than two figures above 0."""
    known = [(math.log(size), math.log(figure)) for size, figure in points if figure > 0]
    if len(known) < 2:
        return None
    mean_x, mean_y = (sum(values) / len(known) for values in zip(*known, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in known)
    return sum((x - mean_x) * (y - mean_y) for x, y in known) / spread if spread else None


def keep(path: Path, name: str, axis: Axis) -> None:
    kept = _read(path)
    kept[name] = {"machine": axis.machine, "points": [[point.size, dict(point.figures)] for point in axis.points]}
    path.write_text(json.dumps(kept, indent=1) + "\n")


def read(path: Path) -> dict[str, Axis]:
    """By name, in the order of `NAMES`."""
    kept = _read(path)
    return {
        name: Axis([Point(size, figures) for size, figures in kept[name]["points"]], kept[name]["machine"])
        for name in NAMES
        if name in kept
    }


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


def table(name: str, axis: Axis) -> Iterator[str]:
    """A table in Markdown: a row for each figure, a column for each size."""
    sizes = [point.size for point in axis.points]
    yield "| " + " | ".join([NAMES[name], *(f"{size:,}" for size in sizes), "exponent"]) + " |"
    yield "| --- " * (len(sizes) + 2) + "|"
    for figure in dict.fromkeys(figure for point in axis.points for figure in point.figures):
        values = [(point.size, point.figures[figure]) for point in axis.points if figure in point.figures]
        slope = exponent(values)
        cells = [_text(point.figures[figure]) if figure in point.figures else "" for point in axis.points]
        yield "| " + " | ".join([FIGURES[figure], *cells, "" if slope is None else f"{slope:+.2f}"]) + " |"


def _text(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def section(path: Path) -> Iterator[str]:
    """Nothing where nothing was measured."""
    axes = read(path)
    if not axes:
        return
    yield "## Cost of growth"
    yield ""
    yield OPENING
    for name, axis in axes.items():
        yield ""
        yield from table(name, axis)
        yield ""
        yield f"{axis.machine}."
    yield ""
