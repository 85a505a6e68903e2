"""Bounds: what a query's filters leave of partitions, offsets and times.

Decides which filters of Spark's are taken over. Pure; it must not know a cluster.

Invariant
  I1  A filter is taken over only where no row that it refuses can come. One on the timestamp only moves the start: all
      records before the offset that a broker finds for a time are older, but not all behind it are younger.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)


class Bounds:
    """The partitions, offsets and times that the filters leave."""

    def __init__(self) -> None:
        self.partitions: frozenset[int] | None = None
        self.first_partition, self.last_partition = 0, math.inf
        self.first_offset: float = 0
        self.end_offset: float = math.inf
        self.first_timestamp_ms: int | None = None

    def take(self, condition: Filter) -> bool:
        """Whether this filter replaces Spark's own check completely (I1)."""
        name = getattr(condition, "attribute", ())
        if name == ("timestamp",):
            self._take_timestamp(condition)
            return False
        if name not in (("partition",), ("offset",)):
            return False
        low: int | None = None
        high: int | None = None
        match condition:
            case EqualTo(_, int(value)) | EqualNullSafe(_, int(value)):
                low = high = value
            case GreaterThan(_, int(value)):
                low = value + 1
            case GreaterThanOrEqual(_, int(value)):
                low = value
            case LessThan(_, int(value)):
                high = value - 1
            case LessThanOrEqual(_, int(value)):
                high = value
            case IsNotNull():
                return True
            case In(_, values) if name == ("partition",) and all(isinstance(value, int) for value in values):
                found = frozenset(values)
                self.partitions = found if self.partitions is None else self.partitions & found
                return True
            case _:
                return False
        self._narrow(name == ("offset",), low, high)
        return True

    def has(self, partition: int) -> bool:
        if self.partitions is not None and partition not in self.partitions:
            return False
        return self.first_partition <= partition <= self.last_partition

    def _narrow(self, is_offset: bool, low: int | None, high: int | None) -> None:
        if is_offset:
            self.first_offset = self.first_offset if low is None else max(self.first_offset, low)
            self.end_offset = self.end_offset if high is None else min(self.end_offset, high + 1)
        else:
            self.first_partition = self.first_partition if low is None else max(self.first_partition, low)
            self.last_partition = self.last_partition if high is None else min(self.last_partition, high)

    def _take_timestamp(self, condition: Filter) -> None:
        match condition:
            case GreaterThan(_, value) | GreaterThanOrEqual(_, value) | EqualTo(_, value) | EqualNullSafe(_, value):
                since_ms = _milliseconds(value)
                if since_ms is not None:
                    self.first_timestamp_ms = max(self.first_timestamp_ms or 0, since_ms)
            case _:
                pass


def _milliseconds(value: Any) -> int | None:
    """Milliseconds of a filter's timestamp, rounded down. None if the timestamp has no time zone."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return math.floor(value.timestamp() * 1000)
