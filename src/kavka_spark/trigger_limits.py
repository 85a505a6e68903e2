"""How far a micro-batch goes if options limit its rows or bytes.

Pure but for `sample_bytes`, which looks at the heads of the batches that lie next in each partition. It must not know
Spark, or what is behind the ends that it is given.

Invariants
  I1  Every end is between the partition's start and what is available.
  I2  Where anything is available, something is read: at least one offset of it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from kavka.errors import KavkaError
from kavka.model import TopicPartition
from kavka.records.batch import iterate_batches
from kavka_spark.connections import WorkerConnection
from kavka_spark.read_tasks import OffsetRange
from kavka_spark.reader import fetch_once
from kavka_spark.source_options import SourceOptions

SAMPLE_BYTES = 256 * 1024
"""Most bytes to sample per partition. A broker sends at least one batch, however large."""
HEAD_BYTES = 16 * 1024
"""As many tell whether records are large."""
SAMPLES_AT_A_TIME = 32

Part = TypeVar("Part")
"""What a micro-batch reads a range of: a partition, or one of several ranges in it."""


class Sample(NamedTuple):
    """A sample of a log: the size in bytes of a number of offsets from the partition's start on."""

    size_bytes: int
    offsets: int


def limit_rows(starts: Mapping[Part, int], ends: Mapping[Part, int], max_offsets: int) -> dict[Part, int]:
    """At most about `max_offsets` in all, in proportion to what each partition has; as Spark's "kafka" source does it.

    A partition with a share below one offset gets one.
    """
    total = sum(ends[name] - starts[name] for name in ends)
    if total <= max_offsets:
        return dict(ends)
    limited = {}
    for name, end in ends.items():
        share = max_offsets * (end - starts[name]) / total
        limited[name] = min(starts[name] + (math.ceil(share) if share < 1 else math.floor(share)), end)
    return limited


def limit_bytes(
    starts: Mapping[Part, int], ends: Mapping[Part, int], samples: Mapping[Part, Sample], max_bytes: int
) -> dict[Part, int]:
    """At most about `max_bytes` in all, in proportion to what each partition has. Without a sample of a partition all
    of it is taken: it could not be asked, and reading it will tell why."""
    sizes = {
        name: (end - starts[name]) * samples[name].size_bytes / samples[name].offsets
        for name, end in ends.items()
        if name in samples and end > starts[name]
    }
    total = sum(sizes.values())
    if total <= max_bytes:
        return dict(ends)
    limited = dict(ends)
    for name in sizes:
        share = math.floor((ends[name] - starts[name]) * max_bytes / total)
        limited[name] = starts[name] + max(share, 1)
    return limited


async def sample_ranges(
    opened: WorkerConnection,
    options: SourceOptions,
    spans: Iterable[OffsetRange],
    *,
    sample_bytes: int = SAMPLE_BYTES,
) -> dict[TopicPartition, Sample]:
    """What a byte's worth of offsets is in each partition of the ranges, as far as brokers tell in one try.

    A broker sends at least one batch, however large, and `sample_bytes` if there is as much."""
    slots = asyncio.Semaphore(SAMPLES_AT_A_TIME)

    async def sample(span: OffsetRange) -> tuple[TopicPartition, Sample | None]:
        name = TopicPartition(span.topic, span.partition)
        async with slots:
            try:
                data = await fetch_once(opened.cluster, options, span, span.start, sample_bytes)
                if data.error_code or not data.records:
                    return name, None
                assert isinstance(data.records, memoryview)
                batches = [batch.header for batch in iterate_batches(data.records)]
            except KavkaError:
                return name, None
        size = sum(header.size_bytes for header in batches)
        return name, Sample(
            size, batches[-1].last_offset + 1 - min(span.start, batches[0].base_offset)
        ) if batches else None

    found = await asyncio.gather(*(sample(span) for span in spans))
    return {name: taken for name, taken in found if taken is not None}
