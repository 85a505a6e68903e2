"""The ranges of offsets that a query reads, and how they are divided into Spark's tasks.

Decides sizes only. It must not know a cluster.

Invariants
  I1  The tasks' ranges are disjoint, not empty, and together exactly what was to be read.
  I2  Without `minPartitions` and `maxRecordsPerPartition` a partition of a topic is read by one task.
  I3  Tasks depend on the ranges, the options, the cores and, where they are given, the sizes alone: what is planned
      again with the same is planned the same.
  I4  Ranges share a task only if there are more of them than cores, and then no core is left without one.

A task in Python costs tens of milliseconds however little it reads. Where all cores have one, small ranges share it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from pyspark.sql.datasource import InputPartition

NO_TOPIC_ID = UUID(int=0)
SHARED_OFFSETS = 1_000
"""Ranges share a task while they have no more together."""
SHARED_BYTES = 4 * 1024 * 1024
"""Nor while they have more bytes together, where it is known how large their records are: to read so much takes as long
as a task costs."""
GUESSED_OFFSET_BYTES = 1024.0
"""Where it is not known. So much keeps the limit of offsets below that of bytes."""
MAX_TASKS_PER_RANGE = 10_000
"""Spark keeps all tasks of a stage in the driver's memory."""


class OffsetRange(NamedTuple):
    """Offsets `start` to before `end` of one partition of one topic."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: UUID = NO_TOPIC_ID
    """The topic's id when this was planned; zero if the brokers are too old to have ids."""
    at_earliest: bool = False
    """Whether it begins with the first record that there is; with a later one if retention is quicker than the task."""

    @property
    def size(self) -> int:
        return self.end - self.start


class ReadTask(InputPartition):
    """The ranges that one Spark task reads, one after another. May be empty: Spark wants a task even then."""

    def __init__(self, spans: tuple[OffsetRange, ...]) -> None:
        super().__init__(spans)
        self.spans = spans


def cut(
    spans: Iterable[OffsetRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """The ranges as tasks: none over `max_records`, and at least about `min_partitions`, in proportion to their sizes.

    What is too small to be cut takes no part in the proportion, as with Spark's "kafka" source
    (KafkaOffsetRangeCalculator). A range is never cut into more than `MAX_TASKS_PER_RANGE`.
    """
    tasks = [span for span in spans if span.size > 0]
    if max_records is not None:
        tasks = [part for span in tasks for part in _parts(span, -(-span.size // max_records))]
    if min_partitions is None or min_partitions <= len(tasks):
        return tasks
    total = sum(span.size for span in tasks)
    whole = [span for span in tasks if _share(span.size, total, min_partitions) == 1]
    cut_up = [span for span in tasks if _share(span.size, total, min_partitions) > 1]
    total, wanted = sum(span.size for span in cut_up), max(min_partitions - len(whole), 1)
    counts = {span: _share(span.size, total, wanted) for span in cut_up}
    return [part for span in tasks for part in _parts(span, counts.get(span, 1))]


def _share(size: int, total: int, tasks: int) -> int:
    """How many of so many tasks a range gets: half of one counts as one."""
    return max((2 * size * tasks + total) // (2 * total), 1)


def _parts(span: OffsetRange, count: int) -> list[OffsetRange]:
    count = min(count, span.size, MAX_TASKS_PER_RANGE)
    edges = [span.start + span.size * part // count for part in range(count + 1)]
    return [
        span._replace(start=edges[part], end=edges[part + 1], at_earliest=span.at_earliest and part == 0)
        for part in range(count)
    ]


def may_share(spans: Sequence[OffsetRange], cores: int) -> list[OffsetRange]:
    """The ranges that are small enough to share a task, by their number of offsets; none where each can have one."""
    begun = [span for span in spans if span.size > 0]
    small = [span for span in begun if span.size <= SHARED_OFFSETS]
    return small if len(small) > 1 and len(begun) > cores else []


def as_tasks(
    spans: Sequence[OffsetRange],
    *,
    cores: int,
    min_partitions: int | None = None,
    max_records: int | None = None,
    offset_bytes: Mapping[tuple[str, int], float] | None = None,
) -> list[ReadTask]:
    """The ranges as Spark's tasks: each by itself with `min_partitions`, or where there are `cores` for all; otherwise
    small ones together, in as many tasks as cores are left, or in more by the limits.

    `offset_bytes` has the mean size of an offset, by topic and partition, as far as it is known.
    """
    whole = cut(spans, min_partitions=min_partitions, max_records=max_records)
    small = set() if min_partitions is not None else set(may_share(whole, cores))
    shared = [(span,) for span in whole if span not in small]
    limit = SHARED_OFFSETS if max_records is None else min(SHARED_OFFSETS, max_records)
    together = _together([span for span in whole if span in small], cores - len(shared), limit, offset_bytes or {})
    tasks = sorted([*shared, *together], key=lambda task: (task[0].topic, task[0].partition, task[0].start))
    return [ReadTask(task) for task in tasks] or [ReadTask(())]


def _together(
    spans: Sequence[OffsetRange], wanted: int, limit: int, offset_bytes: Mapping[tuple[str, int], float]
) -> list[tuple[OffsetRange, ...]]:
    """So many groups of about equal size, and more where one would be over a limit. The largest range comes first, each
    into the lightest group, so that no group stays empty."""

    def weight(index: int) -> float:
        span = spans[index]
        return span.size * offset_bytes.get((span.topic, span.partition), GUESSED_OFFSET_BYTES)

    groups: list[tuple[float, int, list[int]]] = [
        (0.0, number, []) for number in range(min(max(wanted, 1), len(spans)))
    ]
    sizes = [0] * len(groups)
    for index in sorted(range(len(spans)), key=lambda index: (-weight(index), index)):
        heavy, number, members = groups[0]
        size = spans[index].size
        if members and (sizes[number] + size > limit or heavy + weight(index) > SHARED_BYTES):
            sizes.append(size)
            heapq.heappush(groups, (weight(index), len(sizes) - 1, [index]))
            continue
        sizes[number] += size
        heapq.heapreplace(groups, (heavy + weight(index), number, [*members, index]))
    return [tuple(spans[index] for index in sorted(members)) for _, _, members in groups if members]
