"""Report: the figures of a run, from its history and its faults. It judges nothing."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.chaos.history import NEVER, History
from tests.chaos.nemesis import Done, Fault

GAP_S = 0.1
"""A partition that acknowledges nothing for longer has a gap; producers send to each many times a second."""
GAPS_SHOWN = 4
AFTERMATH_S = 1.0
"""A gap that overlaps a fault or begins this soon after its end is put down to it."""


class Gap(NamedTuple):
    """Time without an acknowledgement, or for one consumer without a record, on one partition."""

    partition: int
    began_at: float
    seconds: float


class Recovery(NamedTuple):
    """Of all faults of one kind: the longest gap on any partition that each overlaps, in seconds."""

    times: int
    write_median: float
    write_worst: float
    read_median: float
    read_worst: float


def gaps(history: History) -> list[Gap]:
    """Without an acknowledgement."""
    found: list[Gap] = []
    for partition in range(history.partitions):
        times = sorted(
            at
            for producer in history.producers
            for sent_to, at in zip(producer.partitions, producer.acknowledged_at, strict=True)
            if sent_to == partition and at != NEVER
        )
        found += _between(partition, times)
    return found


def read_gaps(history: History) -> list[Gap]:
    """Of each consumer that read all the time."""
    return [
        gap for (_, partition), reads in sorted(history.reads.items()) for gap in _between(partition, list(reads.times))
    ]


def _between(partition: int, times: Sequence[float]) -> list[Gap]:
    return [Gap(partition, before, after - before) for before, after in pairwise(times) if after - before > GAP_S]


def recoveries(history: History, done: Sequence[Done]) -> dict[Fault, Recovery]:
    """The fault that was done most often first."""
    written, read = gaps(history), read_gaps(history)
    recovered = {}
    for fault, times in sorted(Counter(one.fault for one in done).items(), key=lambda item: -item[1]):
        writes = [_worst(one, written) for one in done if one.fault is fault]
        reads = [_worst(one, read) for one in done if one.fault is fault]
        recovered[fault] = Recovery(times, statistics.median(writes), max(writes), statistics.median(reads), max(reads))
    return recovered


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def lines(history: History, done: Sequence[Done], began_at: float, seconds: float) -> Iterator[str]:
    acknowledged, sent, read = history.acknowledged, history.sent, history.read
    yield f"records acknowledged and checked: {acknowledged:,} of {sent:,} sent; reads: {read:,}"
    per_minute = len(done) / seconds * 60 if seconds else 0.0
    yield f"faults: {len(done)}, {per_minute:.1f} a minute"
    for fault, took in recoveries(history, done).items():
        yield (
            f"  {took.times:4} x {fault.value}: longest write gap median {took.write_median:.2f} s, worst "
            f"{took.write_worst:.2f} s; longest read gap median {took.read_median:.2f} s, worst {took.read_worst:.2f} s"
        )
    found = gaps(history)
    if found:
        sizes = [gap.seconds for gap in found]
        yield (
            f"write gaps over {GAP_S} s: {len(sizes)}; median {statistics.median(sizes):.2f} s, "
            f"p99 {percentile(sizes, 0.99):.2f} s, longest {max(sizes):.2f} s"
        )
        for gap in sorted(found, key=lambda gap: -gap.seconds)[:GAPS_SHOWN]:
            yield f"  partition {gap.partition}: {gap.seconds:.2f} s from {gap.began_at - began_at:.1f} s on"
    else:
        yield f"write gaps over {GAP_S} s: none"


def _worst(one: Done, found: Sequence[Gap]) -> float:
    """The longest gap on any partition that overlaps the fault."""
    return max(
        (
            gap.seconds
            for gap in found
            if gap.began_at < one.ended_at + AFTERMATH_S and gap.began_at + gap.seconds > one.began_at
        ),
        default=0.0,
    )
