"""Figures: what a flow did in a run, added up from Spark's reports.

Decides what counts as a row in, a row out, lag and a row that broke an expectation. Spark's reports are JSON
(StreamingQueryProgress).

I1  Rows in and out are sums over micro-batches; a batch that is reported twice (same number) counts once. A query that
    found nothing new reports that, too, with the number of the batch to come: this is no batch.
I2  Lag is told only where the source says where its topic ends: the official connector and `format("kavka")` do.

Source: Spark's StreamingQueryProgress, ProgressReporter.finishNoExecutionTrigger; spark.md: sinks of files report -1
rows, their tasks' metrics know better.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kavka_spark.backfill import FILLED_IN
from kavka_spark.expectations import counts_of, parse_column

MOST_PENDING: Final = 1_000
"""Micro-batches with broken expectations that nobody has asked for; the oldest go first."""


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """A micro-batch in which rows broke expectations: how many broke each, by its column (`drop: has an id`)."""

    batch: int
    rows: int
    broken: Mapping[str, int]


@dataclass(slots=True)
class Figures:
    """Of one flow. `lag` is in records, None where nobody knows; `position` is how far all partitions of its sources
    were read, in offsets, summed up; `watermark` is an ISO time, empty without one."""

    flow: str
    rows_in: int = 0
    lag: int | None = None
    position: int | None = None
    batches: int = 0
    seconds: float = 0.0
    watermark: str = ""
    state_rows: int = 0
    dropped_late: int = 0
    checked: int = 0
    """Rows that were held against expectations."""
    broken: dict[str, int] = field(default_factory=dict)
    """How many rows broke each expectation, by its column."""
    filled_in: Mapping[str, Mapping[str, list[list[int]]]] = field(default_factory=dict)
    """Ranges before its sources' beginning, by topic and partition: first offset, end, and how far it was read."""
    _pending: list[CheckedBatch] = field(default_factory=list, repr=False)
    _last_batch: int = field(default=-1, repr=False)
    _last_idle: tuple[int, str] = field(default=(-1, ""), repr=False)
    _reported_out: int | None = field(default=None, repr=False)
    _written_out: int | None = field(default=None, repr=False)

    @property
    def rows_out(self) -> int | None:
        """The number that the sink reported, or else that its tasks wrote; None if nobody counted."""
        return self._written_out if self._reported_out is None else self._reported_out

    def add_batch(self, progress: Mapping[str, Any]) -> bool:
        """Adds a report. Returns whether it had anything new."""
        batch = int(progress.get("batchId", -1))
        if batch <= self._last_batch and batch >= 0:
            return False
        sources = progress.get("sources", ())
        if "addBatch" not in progress.get("durationMs", {}):
            return self._add_idle((batch, str(progress.get("timestamp", ""))), sources)
        self._last_batch = batch
        self.batches += 1
        self.rows_in += sum(int(source.get("numInputRows", 0)) for source in sources)
        reported = int(progress.get("sink", {}).get("numOutputRows", -1))
        if reported >= 0:
            self._reported_out = (self._reported_out or 0) + reported
        self.seconds += int(progress.get("durationMs", {}).get("triggerExecution", 0)) / 1000
        self.watermark = str(progress.get("eventTime", {}).get("watermark", self.watermark))
        operators = progress.get("stateOperators", ())
        if operators:
            self.state_rows = sum(int(each.get("numRowsTotal", 0)) for each in operators)
            self.dropped_late += sum(int(each.get("numRowsDroppedByWatermark", 0)) for each in operators)
        self._add_offsets(sources)
        self._add_counts(batch, counts_of(progress))
        return True

    def _add_idle(self, report: tuple[int, str], sources: Sequence[Mapping[str, Any]]) -> bool:
        """How far the sources are of a report without a batch, each report once."""
        if report <= self._last_idle:
            return False
        self._last_idle = report
        before = self.lag, self.position
        self._add_offsets(sources)
        return before != (self.lag, self.position)

    def _add_offsets(self, sources: Sequence[Mapping[str, Any]]) -> None:
        lags = [lag for lag in map(source_lag, sources) if lag is not None]
        self.lag = sum(lags) if lags else self.lag
        ends = [offsets for offsets in (offsets_of(source.get("endOffset")) for source in sources) if offsets]
        self.position = sum(sum(offsets.values()) for offsets in ends) if ends else self.position
        self.filled_in = next(filter(None, map(ranges_of, sources)), self.filled_in)

    def _add_counts(self, batch: int, counts: tuple[int, dict[str, int]] | None) -> None:
        if counts is None:
            return
        rows, broken = counts
        self.checked += rows
        for column, count in broken.items():
            self.broken[column] = self.broken.get(column, 0) + count
        found = {column: count for column, count in broken.items() if count}
        if found:
            self._pending = [*self._pending, CheckedBatch(batch, rows, found)][-MOST_PENDING:]

    def take_checked(self) -> list[CheckedBatch]:
        """The micro-batches with broken expectations since the last call."""
        taken, self._pending = self._pending, []
        return taken

    def add_written(self, rows: int) -> None:
        """Rows that a task wrote, according to its metrics."""
        self._written_out = (self._written_out or 0) + rows

    def as_json(self) -> dict[str, object]:
        return {
            "flow": self.flow,
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            "lag": self.lag,
            "position": self.position,
            "batches": self.batches,
            "seconds": round(self.seconds, 3),
            "watermark": self.watermark,
            "state_rows": self.state_rows,
            "dropped_late": self.dropped_late,
            "filled_in": self.filled_in,
            "checked": self.checked,
            "expectations": [
                {"expectation": name, "otherwise": otherwise, "broken": count}
                for column, count in self.broken.items()
                for otherwise, name in [parse_column(column) or ("", column)]
            ],
        }


def source_lag(source: Mapping[str, Any]) -> int | None:
    """How many records a source was behind when the micro-batch was planned, of its end and the topic's end; None
    where it does not say, or says something else than offsets of partitions."""
    end, latest = offsets_of(source.get("endOffset")), offsets_of(source.get("latestOffset"))
    if end is None or latest is None:
        return None
    return sum(max(offset - end.get(partition, 0), 0) for partition, offset in latest.items())


def offsets_of(offset: object) -> dict[tuple[str, str], int] | None:
    """{"orders": {"0": 17}} as {("orders", "0"): 17}; None of anything else. Spark tells it as text or as an object.

    Topics' ids stand among kavka's offsets under a name that is no topic's: with a space."""
    try:
        topics = json.loads(offset) if isinstance(offset, str) else offset
        if not isinstance(topics, dict):
            return None
        return {
            (topic, partition): int(number)
            for topic, partitions in topics.items()
            if " " not in topic
            for partition, number in partitions.items()
        }
    except (ValueError, AttributeError, TypeError):
        return None


def ranges_of(source: Mapping[str, Any]) -> Mapping[str, Mapping[str, list[list[int]]]]:
    """The ranges that a source has filled in, or is filling in; none of another source's."""
    offset = source.get("endOffset")
    try:
        found = json.loads(offset) if isinstance(offset, str) else offset
    except ValueError:
        return {}
    return found.get(FILLED_IN) or {} if isinstance(found, dict) else {}


USUAL_HOME: Final = ("spark_catalog", "default")


def short_name(flow: str) -> str:
    """The name without the catalog and database that SDP adds to names of a pipeline that has none of its own."""
    return flow.removeprefix(".".join(USUAL_HOME) + ".")


def defined_name(flow: str, home: tuple[str, str] = USUAL_HOME) -> str:
    """The name as the pipeline's files have it, of one that Spark reports. `home` is the pipeline's catalog and
    database."""
    return flow.replace("`", "").removeprefix(f"{home[0]}.").removeprefix(f"{home[1]}.")
