"""Backfill: ranges of a topic before the place where a stream began, read by the same stream.

Decides which ranges are taken on, and how far they have been read. The ranges stand in the stream's own offsets, beside
its positions. So they come in micro-batches like any other records, into the same table or topic, and are there once
by the same means: a range that is in the checkpoint is gone on with after a restart, also without the option.

Invariants
  I1  No offset is read twice by one stream: a range ends where the stream began or before, and overlaps no other range.
      What would overlap is refused. A range within one that is there already asks for nothing new.
  I2  Where the checkpoint does not say where the stream began, nothing is taken on.
  I3  `at` of a range only grows, up to its end. Adjacent ranges that were read whole become one with the next
    micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from kavka.errors import ConfigError
from kavka.model import TopicPartition

FILLED_IN: Final = "filled in"
"""Where they stand in offsets: no topic has a space in its name."""
MOST_RANGES: Final = 100
"""Of one partition: each stands in every offset of the checkpoint."""


class Range(NamedTuple):
    """Offsets `first` to before `end`, of which those before `at` were read."""

    first: int
    end: int
    at: int

    @property
    def left(self) -> int:
        return self.end - self.at


Ranges: TypeAlias = Mapping[TopicPartition, tuple[Range, ...]]
Part: TypeAlias = tuple[TopicPartition, int]
"""A range by its partition and its first offset: no other range of the partition begins there (I1)."""


def added(
    there: Ranges, wanted: Mapping[TopicPartition, tuple[int, int]], began: Mapping[TopicPartition, int]
) -> dict[TopicPartition, tuple[Range, ...]]:
    """`there` and what is new of `wanted`, first offsets and ends. `began` is where the stream began in each partition.

    Raises `ConfigError` for what the stream, or a range that is there, has read or will read.
    """
    ranges = dict(there)
    for name, (first, end) in sorted(wanted.items()):
        if first == end:
            continue
        if end < first:
            raise ConfigError(f"the backfill of {name} ends at {end}, before it begins at {first}")
        kept = ranges.get(name, ())
        if any(each.first <= first and end <= each.end for each in kept):
            continue
        _refuse_twice(name, first, end, began.get(name), kept)
        ranges[name] = tuple(sorted((*kept, Range(first, end, first))))
        if len(ranges[name]) > MOST_RANGES:
            raise ConfigError(f"{name} has {MOST_RANGES} ranges that were filled in; fill in larger ones")
    return ranges


def _refuse_twice(name: TopicPartition, first: int, end: int, began: int | None, kept: Iterable[Range]) -> None:
    if began is None:
        raise ConfigError(
            f"the checkpoint does not say where the stream began in {name}: an earlier version of kavka began it, or "
            "Spark's own connector, or kavka.offsets.topic.ids was false. A backfill could write rows twice"
        )
    if end > began:
        raise ConfigError(
            f"a backfill of {name} from {first} to before {end} would write rows twice: the stream itself began at "
            f"{began}. It can be filled in up to there"
        )
    for each in kept:
        if first < each.end and each.first < end:
            raise ConfigError(
                f"a backfill of {name} from {first} to before {end} would write rows twice: {each.first} to before "
                f"{each.end} was filled in already"
            )


def joined(ranges: Ranges) -> dict[TopicPartition, tuple[Range, ...]]:
    """Adjacent ranges that were read whole as one. Of what a micro-batch begins with, not of what it reads: else nobody
    could tell what was read in between."""
    found = {}
    for name, each in ranges.items():
        whole: list[Range] = []
        for one in each:
            if whole and not whole[-1].left and not one.left and whole[-1].end == one.first:
                whole[-1] = Range(whole[-1].first, one.end, one.end)
            else:
                whole.append(one)
        found[name] = tuple(whole)
    return found


def whole(ranges: Ranges) -> dict[TopicPartition, tuple[Range, ...]]:
    """The same ranges, read to their ends."""
    return {name: tuple(each._replace(at=each.end) for each in every) for name, every in ranges.items()}


def starts(begin: Ranges, end: Ranges) -> dict[Part, int]:
    """How far each range of `end` had been read at the beginning of the micro-batch."""
    before = {
        (name, each.first): each.at
        for ranges in (begin, joined(begin))
        for name, every in ranges.items()
        for each in every
    }
    return {(name, each.first): before.get((name, each.first), each.first) for name in end for each in end[name]}


def read_until(end: Ranges, ends: Mapping[Part, int]) -> dict[TopicPartition, tuple[Range, ...]]:
    """The ranges of `end`, each read so far."""
    return {name: tuple(each._replace(at=ends[name, each.first]) for each in every) for name, every in end.items()}


def read_between(begin: Ranges, end: Ranges) -> list[tuple[TopicPartition, int, int]]:
    """What a micro-batch reads of ranges, by those at its begin and its end: partition, first offset, and the one
    behind the last."""
    at = starts(begin, end)
    return [
        (name, at[name, each.first], each.at)
        for name, every in sorted(end.items())
        for each in every
        if each.at > at[name, each.first]
    ]


def to_json(ranges: Ranges) -> dict[str, dict[str, list[list[int]]]]:
    written: dict[str, dict[str, list[list[int]]]] = {}
    for topic, partition in sorted(ranges):
        if ranges[TopicPartition(topic, partition)]:
            rows = [list(each) for each in ranges[TopicPartition(topic, partition)]]
            written.setdefault(topic, {})[str(partition)] = rows
    return written


def from_json(written: Mapping[str, Mapping[str, Iterable[Iterable[int]]]]) -> dict[TopicPartition, tuple[Range, ...]]:
    """Raises ValueError or TypeError for other JSON."""
    return {
        TopicPartition(topic, int(partition)): tuple(Range(*map(int, each)) for each in rows)
        for topic, partitions in written.items()
        for partition, rows in partitions.items()
    }
