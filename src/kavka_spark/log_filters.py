"""LogFilters: which segment files a query over logs need not open.

Decides from a query's filters and the segments' names alone. It must not open a file: that is what it saves.

Invariants
  I1  A segment is left out only where the filters refuse every row that its name promises. Spark applies all filters
      again to what is read, so nothing is taken over.
  I2  A segment holds offsets from the number in its name to before that of the next one. A record that damage has put
      elsewhere is met by a query without a filter on the offset.

Source: pyspark.sql.datasource (Spark 4.2 and 4.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from os.path import dirname

from pyspark.sql.datasource import EqualNullSafe, EqualTo, Filter, In, StringStartsWith

from kavka_spark.filter_bounds import Bounds
from kavka_spark.log_segments import LogPiece

_TEXTS = (("topic",), ("file",))


class LogFilters:
    """The topics, partitions, offsets and files that the filters leave."""

    def __init__(self) -> None:
        self._bounds = Bounds()
        self._equal: dict[str, frozenset[str]] = {}
        self._topic_starts: list[str] = []

    def heed(self, condition: Filter) -> None:
        """Takes note of a filter, as far as it concerns a segment's name."""
        name = getattr(condition, "attribute", ())
        if name not in _TEXTS:
            self._bounds.take(condition)
            return
        match condition:
            case EqualTo(_, str(value)) | EqualNullSafe(_, str(value)):
                self._narrow(name[0], frozenset((value,)))
            case In(_, values):
                self._narrow(name[0], frozenset(value for value in values if isinstance(value, str)))
            case StringStartsWith(_, str(value)) if name == ("topic",):
                self._topic_starts.append(value)
            case _:
                pass

    def wanted(self, segments: Sequence[LogPiece]) -> list[LogPiece]:
        """Those of `segments` (whole, in order) that may hold matching rows."""
        if not segments:
            return []
        following = [*pairwise(segments), (segments[-1], None)]
        return [segment for segment, after in following if self._may_hold_rows(segment, after)]

    def _may_hold_rows(self, segment: LogPiece, after: LogPiece | None) -> bool:
        if not all(segment.topic.startswith(start) for start in self._topic_starts):
            return False
        if segment.topic not in self._equal.get("topic", (segment.topic,)):
            return False
        if segment.path not in self._equal.get("file", (segment.path,)):
            return False
        if not self._bounds.has(segment.partition) or segment.base_offset >= self._bounds.end_offset:
            return False
        # A partition that is moved has replicas in two directories; the first segment of one ends none of the other.
        if after is None or dirname(after.path) != dirname(segment.path) or after.base_offset == segment.base_offset:
            return True
        return after.base_offset > self._bounds.first_offset

    def _narrow(self, column: str, values: frozenset[str]) -> None:
        before = self._equal.get(column)
        self._equal[column] = values if before is None else before & values
