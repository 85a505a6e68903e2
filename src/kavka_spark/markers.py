"""What of a query's micro-batches is in the topics: the markers, and how they are read.

A marker says that one task of one micro-batch is committed. It lies in a compacted topic, written in the transaction
that holds the task's rows, so it is there if and only if they are.

Decides what of a partition of that topic counts. It must not know how its batches are fetched.

Invariants
  I1  A marker counts from the control record on that commits its transaction; one of an aborted transaction never does.
      So what is below the high watermark can be judged, though other tasks' transactions are still open there: to wait
      for the last stable offset would make tasks wait for each other.
  I2  Of one task the marker that was committed last counts; compaction keeps that one.
  I3  What is remembered is bounded by `MOST_TASKS`, beyond which `is_too_large` says to forget all of it.

| record | JSON, in this order |
| key    | query, partition |
| value  | batch, rows, bytes, sum |

Beside the markers of a query lies the record of its layout (`writer_layouts`), for which I1 and I2 hold as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from kavka.errors import CorruptRecords
from kavka.records.batch import RecordBatch
from kavka.records.control import ControlType, read_marker
from kavka_spark.writer_layouts import Layout, layout_key, parse_layout

MOST_TASKS: Final = 100_000
"""Tasks, of all queries of all times, whose markers a worker process remembers for one partition of the topic."""


class Task(NamedTuple):
    """Who writes: a query (or the id given to a job), and which of its partitions."""

    query: str
    partition: int

    @property
    def transactional_id(self) -> str:
        return f"kavka-spark-{self.query}-{self.partition}"

    @property
    def key(self) -> bytes:
        return json.dumps({"query": self.query, "partition": self.partition}).encode()


class Digest(NamedTuple):
    """What was written, without regard to order: enough to see that a repeated batch is another one, though no proof
    that it is the same."""

    rows: int = 0
    size_bytes: int = 0
    byte_sum: int = 0

    def __str__(self) -> str:
        return f"{self.rows} rows of {self.size_bytes} bytes (sum {self.byte_sum})"


class Marker(NamedTuple):
    """The last batch that a task committed."""

    batch: int
    digest: Digest

    @property
    def value(self) -> bytes:
        rows, size_bytes, byte_sum = self.digest
        return json.dumps({"batch": self.batch, "rows": rows, "bytes": size_bytes, "sum": byte_sum}).encode()


def parse_marker(value: bytes) -> Marker:
    """The marker in a record's value; raises `CorruptRecords` for anything else."""
    try:
        found = json.loads(value)
        return Marker(int(found["batch"]), Digest(int(found["rows"]), int(found["bytes"]), int(found["sum"])))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptRecords(f"{value[:100]!r} is not a marker of a micro-batch: {error}") from error


class CommittedMarkers:
    """The markers of one partition of the topic, as far as it was read."""

    def __init__(self) -> None:
        self.next_offset = 0
        """What to read next."""
        self._committed: dict[bytes, bytes] = {}
        """Values by key; only what is asked for is parsed."""
        self._open: dict[int, dict[bytes, bytes]] = {}
        """Markers of transactions whose end was not read yet, by producer id."""

    def take(self, batches: Iterable[RecordBatch]) -> None:
        """Reads batches in the order of the log. Raises `RecordsError` for what is malformed."""
        for batch in batches:
            header = batch.header
            if header.last_offset < self.next_offset:
                continue
            if not batch.crc_is_right():
                raise CorruptRecords(f"wrong CRC at offset {header.base_offset} of the markers")
            if header.is_control:
                self._end(batch)
            else:
                into = self._open.setdefault(header.producer_id, {}) if header.is_transactional else self._committed
                for record in batch.records():
                    if record.key is not None and record.value is not None:
                        into[record.key] = bytes(record.value)
                    elif record.key is not None:
                        self._committed.pop(record.key, None)
            self.next_offset = header.last_offset + 1

    def _end(self, batch: RecordBatch) -> None:
        ended = read_marker(batch)
        found = self._open.pop(batch.header.producer_id, {})
        if ended is not None and ended.control_type is ControlType.COMMIT:
            self._committed.update(found)

    def skip_to(self, offset: int) -> None:
        """Says that there is nothing to read before `offset`."""
        self.next_offset = offset

    def restart(self, offset: int) -> None:
        """Forgets everything and starts again at `offset`: what was read is no longer in the log."""
        self._committed.clear()
        self._open.clear()
        self.next_offset = offset

    def of(self, task: Task) -> Marker | None:
        """What the task committed last, or None."""
        value = self._committed.get(task.key)
        return None if value is None else parse_marker(value)

    def layout_of(self, query: str) -> Layout | None:
        """The query's layout, or None."""
        value = self._committed.get(layout_key(query))
        return None if value is None else parse_layout(value)

    def markers_of(self, query: str) -> dict[int, Marker]:
        """What each of the query's tasks that has a marker here committed last, by task."""
        begin = Task(query, 0).key.removesuffix(b"0}")
        return {
            int(key.removeprefix(begin).removesuffix(b"}")): parse_marker(value)
            for key, value in self._committed.items()
            if key.startswith(begin)
        }

    @property
    def is_too_large(self) -> bool:
        return len(self._committed) + len(self._open) > MOST_TASKS
