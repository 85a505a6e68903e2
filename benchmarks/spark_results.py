"""What was measured of kavka's Spark source beside Spark's own connector, as it is kept and as it is shown.

A row that is measured again replaces the earlier one. It must not measure.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypedDict

SUBJECT, PEER = "kavka", "kafka"


class Target(NamedTuple):
    """Of one figure: kavka over the connector, at most."""

    row: str
    figure: str
    ratio: float


TARGETS = (
    Target("1 KiB", "wall_s", 0.6),
    Target("1 KiB", "cpu_s", 0.9),
    Target("100 B", "wall_s", 0.6),
    Target("100 B", "cpu_s", 0.9),
    Target("micro-batch", "wall_ms", 1.1),
    Target("micro-batch, four tasks", "wall_ms", 1.1),
    Target("sink, from kafka", "wall_ms", 1.1),
    Target("sink, from kavka", "wall_ms", 1.1),
    Target("live micro-batch", "wait_ms", 1.1),
    Target("live micro-batch, 10 ms fetch wait", "wait_ms", 1.1),
    Target("live micro-batch, four tasks", "wait_ms", 1.1),
    Target("live sink, from kafka", "wait_ms", 1.1),
    Target("live sink, from kavka", "wait_ms", 1.1),
    Target("kavka-log", "wall_s", 2.0),
)
FIGURES = {
    "wall_s": "wall, s",
    "cpu_s": "CPU of the session, s",
    "wall_ms": "trigger to trigger, ms",
    "wait_ms": "acknowledged to committed, ms",
}


class Row(TypedDict):
    """One row of one call: figures of each candidate, one for each round."""

    what: str
    machine: dict[str, str]
    candidates: dict[str, dict[str, list[float]]]


def keep(path: Path, rows: Mapping[str, Row]) -> None:
    path.write_text(json.dumps(read(path) | dict(rows), indent=1) + "\n")


def read(path: Path) -> dict[str, Row]:
    return json.loads(path.read_text()) if path.exists() else {}


def spread(figures: list[float]) -> str:
    """minimum / median / maximum."""
    values = (min(figures), statistics.median(figures), max(figures))
    return " / ".join(f"{value:.2f}" if values[2] < 100 else f"{value:,.0f}" for value in values)


def ratios(row: Row, figure: str, candidate: str = SUBJECT) -> list[float]:
    """A candidate over the connector, round by round."""
    pairs = zip(row["candidates"][candidate][figure], row["candidates"][PEER][figure], strict=True)
    return [mine / theirs for mine, theirs in pairs]


def section(rows: Mapping[str, Row]) -> Iterator[str]:
    """As a part of docs/benchmarks.md."""
    yield "## Spark: kavka's source and Spark's own Kafka connector\n"
    yield "Measured with `make bench-spark`. Both read the same topics of four partitions in the same session"
    yield "(local[2]), in turn, after a round that does not count. Both check CRCs. CPU is that of driver, JVM and"
    yield 'Python workers. Targets are for the median of the rounds\' ratios. "value only" shows what `columns=value`'
    yield "saves. kavka-log is a format that the connector has not: its first query in a session stands beside the same"
    yield "one later.\n"
    yield "A Python worker uses 5 ms of processor time for a task of a micro-batch, most of it because nothing of its"
    yield "code is in the processor's caches any more when a trigger comes. That, and a request to a broker, is what"
    yield "several tasks, and those of the sink, take longer than the connector's. Tasks waited 42 ms more for their"
    yield "input: Spark's JVM reaches its workers over TCP and sets no TCP_NODELAY, so that its second small write"
    yield "waits until the first is acknowledged. A worker with kavka's formats acknowledges at once. `--unix-sockets`"
    yield "measures without TCP (`spark.python.unix.domain.socket.enabled`).\n"
    yield "Much of a sink's extra time is PySpark's: for each micro-batch the JVM asks a Python process in the"
    yield "driver for the writer, and one for the commit, and gives the rows of each task to a worker as Arrow batches."
    yield "A sink in Python that does nothing with its rows took 777 ms from trigger to trigger where the connector's"
    yield "took 714, and 264 ms where it took 218 in Spark's phase addBatch (one stream of 40 micro-batches of 400 rows"
    yield "each, one after the other, 2026-11-29, on two cores with a load average of about 20). kavka's own part of a"
    yield "task of 100 rows is 1.0 to 1.8 ms of processor time.\n"
    yield "The first rows of micro-batches read a topic that is full before the stream starts: the connector's"
    yield "consumer stays with the executor, and has fetched the next micro-batches ahead. In the live rows a stream"
    yield "waits, and 400 records are written every now and then, so that both have to fetch them: the time from"
    yield "their acknowledgement until the commit of their micro-batch, which is what a user sees. The connector"
    yield "takes a second there. When a task has its records, the connector's consumer has already sent the next"
    yield "fetch. There is nothing yet for it, so the broker keeps it for `fetch.max.wait.ms` (500 ms). The task"
    yield "then asks for the ends of its partition on the same connection, and a broker answers the requests of a"
    yield "connection one after the other. Four partitions on two cores wait like this twice. kavka's source sends"
    yield "no fetch that no task waits for. The time follows the setting: with 10, 100, 500 and 2,000 ms the"
    yield "connector took 359, 503, 1,310 and 4,292 ms (one round each, load average 3 to 5). A broker of kavka is"
    yield "no different: there the connector took 1,556 ms with the default and 419 ms with 10, and kavka's source"
    yield "354 and 388 (load average 4 to 9), so that with the lower setting both are about as fast. Both formats"
    yield 'run with their defaults. The row "10 ms fetch wait" has a lower `kafka.fetch.max.wait.ms` for both.'
    yield 'In the row "live: sink, from kafka" the connector reads for both sinks, so that second is in both.\n'
    yield "| what | figure | kavka | connector | ratio | target | |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for name, row in rows.items():
        for candidate in row["candidates"]:
            if candidate == PEER:
                continue
            for figure, values in row["candidates"][candidate].items():
                found = ratios(row, figure, candidate)
                target = next(
                    (t.ratio for t in TARGETS if (t.row, t.figure, SUBJECT) == (name, figure, candidate)), None
                )
                verdict = "" if target is None else "reached" if statistics.median(found) <= target else "short"
                cells = [
                    row["what"] + candidate.removeprefix(SUBJECT),
                    FIGURES[figure],
                    spread(values),
                    spread(row["candidates"][PEER][figure]),
                    spread(found),
                    "" if target is None else str(target),
                    verdict,
                ]
                yield f"| {' | '.join(cells)} |"
    yield ""
    for name, row in rows.items():
        yield f"{name}: " + ", ".join(f"{key} {value}" for key, value in row["machine"].items()) + ".\n"
