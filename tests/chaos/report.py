"""Report: the figures of a run, from its history and its faults. It judges nothing."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.chaos.history import NEVER, History
from tests.chaos.nemesis import Done

GAP_S = 0.1
"""A partition that acknowledges nothing for longer has a gap; producers send to each many times a second."""
GAPS_SHOWN = 4
AFTERMATH_S = 1.0
"""A gap that overlaps a fault or begins this soon after its end is put down to it."""


class Gap(NamedTuple):
    """Time without an acknowledgement on one partition while records were waiting."""

    partition: int
    began_at: float
    seconds: float


def gaps(history: History) -> list[Gap]:
    found: list[Gap] = []
    for partition in range(history.partitions):
        times = sorted(
            at
            for producer in history.producers
            for sent_to, at in zip(producer.partitions, producer.acknowledged_at, strict=True)
            if sent_to == partition and at != NEVER
        )
        found += [Gap(partition, before, after - before) for before, after in pairwise(times) if after - before > GAP_S]
    return found


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def lines(history: History, done: Sequence[Done], began_at: float, seconds: float) -> Iterator[str]:
    acknowledged, sent, read = history.acknowledged, history.sent, history.read
    yield f"records acknowledged and checked: {acknowledged:,} of {sent:,} sent; reads: {read:,}"
    kinds = Counter(one.fault for one in done)
    per_minute = len(done) / seconds * 60 if seconds else 0.0
    yield f"faults: {len(done)}, {per_minute:.1f} a minute"
    found = gaps(history)
    for fault, times in sorted(kinds.items(), key=lambda item: -item[1]):
        worst = [_worst(one, found) for one in done if one.fault is fault]
        median = statistics.median(worst)
        yield f"  {times:4} x {fault.value}: longest write gap median {median:.2f} s, worst {max(worst):.2f} s"
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
