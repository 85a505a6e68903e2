"""How far a query is behind the ends of its topics, from the progress that Spark reports.

Decides what is behind; it asks no broker: the source reports the ends that it saw when it planned. It must not know
what is done with the figures.

    from kavka_spark.lag import LagListener

    listener = LagListener(lambda lag: print(lag.query, lag.metrics))
    spark.streams.addListener(listener)

Spark's "kafka" source has the same three figures in `sources[].metrics`, where a source in Python cannot put any.

Invariant
  I1  At most `KEPT_QUERIES` queries are remembered; the one that was silent longest is forgotten for another.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.streaming.listener import StreamingQueryListener

from kavka.model import TopicPartition
from kavka_spark.offsets import Offsets

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        SourceProgress,
    )

KEPT_QUERIES = 1_000


class Lag(NamedTuple):
    """One source of one query after a micro-batch."""

    query: str
    """The query's name, or its id if it has none."""
    batch_id: int
    behind: dict[TopicPartition, int]
    """Offsets between what was read and the end of the log, for each partition."""

    @property
    def total(self) -> int:
        return sum(self.behind.values())

    @property
    def metrics(self) -> dict[str, float]:
        """The figures under the names of Spark's "kafka" source."""
        values = list(self.behind.values()) or [0]
        return {
            "avgOffsetsBehindLatest": sum(values) / len(values),
            "maxOffsetsBehindLatest": max(values),
            "minOffsetsBehindLatest": min(values),
        }


def offsets_behind_latest(source: SourceProgress) -> dict[TopicPartition, int] | None:
    """What a source still has to read. None if the source is not a topic, or does not report where its topic ends."""
    try:
        read, latest = json.loads(source.endOffset), json.loads(source.latestOffset)
        reached = Offsets.from_json(read).positions
        ends = Offsets.from_json(latest).positions
    except (TypeError, ValueError, AttributeError):
        return None
    return {name: max(end - reached.get(name, 0), 0) for name, end in sorted(ends.items())}


class LagListener(StreamingQueryListener):
    """Passes the lag of every source to `report` as its query progresses, and keeps the last one of each query."""

    def __init__(self, report: Callable[[Lag], None] | None = None) -> None:
        self.latest: OrderedDict[str, list[Lag]] = OrderedDict()
        """By query: one lag for each of its sources."""
        self._report = report

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Does nothing: the query has read nothing yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        query = progress.name or str(progress.id)
        found = [
            Lag(query, progress.batchId, behind)
            for behind in map(offsets_behind_latest, progress.sources)
            if behind is not None
        ]
        if not found:
            return
        self.latest[query] = found
        self.latest.move_to_end(query)
        while len(self.latest) > KEPT_QUERIES:
            self.latest.popitem(last=False)
        if self._report is not None:
            for lag in found:
                self._report(lag)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Does nothing: an idle query has the lag of its last progress."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Keeps the lag: a query that stopped still has its last one."""
