"""Batch: a micro-batch's name and the offsets that it read, as Spark's checkpoint has them.

Decides where offsets come from. Spark writes `offsets/N` before it runs batch N, and runs the batch again from there
after a crash. So these offsets are those of the rows, also of rows that a filter took out, and of gaps.

    metadata     {"id": "..."}: the query
    offsets/N    v1, a line about the session, and a line for each source: where batch N ends

Must not know tables. A source that is no topic (files, the rate source) has no offsets here; its batches are told by
their numbers alone. Where two sources of a query read the same partition, the lower offset counts on both sides, so
that one batch still begins where the one before ended.

Source: Spark's OffsetSeqLog.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from kavka.model import TopicPartition
from kavka_spark import backfill
from kavka_spark.lakehouse.errors import TableRefused
from kavka_spark.lakehouse.places import Place
from kavka_spark.offsets import BESIDE, Offsets

VERSION: Final = "v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One micro-batch of one query, or one load of a batch job.

    `starts` and `ends` are offsets: the first one that the batch has, and the one behind its last. A partition that
    began with this batch may be missing in `starts`. `topic_ids` is as known at the end.
    """

    query: str
    number: int
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    filled_in: tuple[tuple[TopicPartition, int, int], ...] = ()
    """Earlier records that it reads, too, before those that the stream began with (`backfill`): the first offset, and
    the one behind the last."""
    began: dict[TopicPartition, int] = field(default_factory=dict)
    """Where the query began in each partition, as far as its checkpoint says."""
    firsts: dict[TopicPartition, int] = field(default_factory=dict)
    """Where the table's rows of each partition begin, as far as that is known: what its commit is to note."""
    fillers: dict[TopicPartition, str] = field(default_factory=dict)
    """Which query filled in earlier records, with this batch: what its commit is to note."""
    follows: bool = True
    """Whether batch N comes after N-1 in the same table. Loads of a batch job need not."""

    def __str__(self) -> str:
        return f"batch {self.number} of query {self.query}"


def read_batch(checkpoint: str, number: int) -> Batch:
    """The micro-batch out of the checkpoint. Raises TableRefused where it cannot be read."""
    place = Place.at(checkpoint)
    try:
        query = str(json.loads(place.read("metadata"))["id"])
        ends = _merged(parse_offsets(place.read(f"offsets/{number}")))
        before = _merged(parse_offsets(place.read(f"offsets/{number - 1}"))) if number > 0 else ends.began_at
    except (OSError, ValueError, KeyError, TypeError) as failure:
        raise TableRefused(
            f"the checkpoint {checkpoint} does not tell the offsets of batch {number}: {failure}. The driver must be "
            "able to read it: give option 'checkpointLocation' as a path or an address that PyArrow can read"
        ) from failure
    filled_in = backfill.read_between({} if before is None else before.ranges, ends.ranges)
    return Batch(
        query=query,
        filled_in=tuple(filled_in),
        began=dict(ends.first),
        number=number,
        starts={} if before is None else starts_of(before, ends),
        ends=ends.positions,
        topic_ids={topic: str(topic_id) for topic, topic_id in ends.topic_ids.items()},
    )


def parse_offsets(text: str) -> list[Offsets]:
    """The offsets of those sources that read topics. Raises ValueError for another file."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != VERSION:
        raise ValueError(f"expected offsets of version {VERSION}, found {lines[0][:40] if lines else 'nothing'!r}")
    found = (_topics(line) for line in lines[2:])
    return [offsets for offsets in found if offsets is not None]


def starts_of(before: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
    """Where a batch begins that ends at `ends`, when the one before ended at `before`. A topic that was made anew
    begins at 0."""
    starts = {}
    for name in ends.positions:
        old, new = before.topic_ids.get(name.topic), ends.topic_ids.get(name.topic)
        if name in before.positions:
            starts[name] = 0 if old is not None and new is not None and old != new else before.positions[name]
    return starts


def _topics(line: str) -> Offsets | None:
    try:
        written = json.loads(line)
    except ValueError:
        return None
    if not isinstance(written, dict) or not written:
        return None
    beside = {name for name in written if name in BESIDE}
    if not all(_is_topic(written[name]) for name in written.keys() - beside):
        if beside:
            raise ValueError(f"topics' offsets of a form that this version of kavka does not know: {line[:200]}")
        return None
    return Offsets.from_json(written)


def _is_topic(value: Any) -> bool:
    return isinstance(value, dict) and all(
        partition.isdigit() and isinstance(offset, int) for partition, offset in value.items()
    )


def _merged(sources: Iterable[Offsets]) -> Offsets:
    positions: dict[TopicPartition, int] = {}
    topic_ids: dict[str, Any] = {}
    ranges: dict[TopicPartition, tuple[backfill.Range, ...]] = {}
    first: dict[TopicPartition, int] = {}
    began = []
    for source in sources:
        for name, offset in source.positions.items():
            positions[name] = min(offset, positions.get(name, offset))
        topic_ids |= source.topic_ids
        ranges |= source.ranges
        for name, offset in source.first.items():
            first[name] = min(offset, first.get(name, offset))
        if source.began_at is not None:
            began.append(source.began_at)
    return Offsets(positions, topic_ids, _merged(began) if began else None, first, ranges)
