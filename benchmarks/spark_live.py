"""Records that come in while a stream waits: how long until their micro-batch is committed.

A stream without a trigger of its own waits for records, as most do. Every now and then some records are
written; the time from their acknowledgement until Spark's commit of the micro-batch that holds the last of them is
what a user sees. Here both sources have to fetch what has just been written: where a topic is full before the stream
starts, the connector's consumer, which stays with the executor, has fetched the next micro-batches ahead.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_S: Final = 0.001
PATIENCE_S: Final = 60
WARMING: Final = 3
"""Micro-batches, each of one write here, at the start of a stream that do not count."""
WRITES: Final = 30
PAUSES_S: Final = (0.10, 0.17, 0.13, 0.20, 0.11, 0.16, 0.19)
"""Between a commit and the next records, in turn: never in step with how often Spark looks for some."""


class Writer:
    """Writes rows of 100 bytes to a topic, the same number to each partition."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self.topic, self._partitions = topic, partitions

    def write(self, rows: int) -> None:
        """Returns when all are acknowledged."""
        for number in range(rows):
            self._producer.produce(self.topic, b"v".ljust(100, b"."), b"k", partition=number % self._partitions)
        assert self._producer.flush(PATIENCE_S) == 0


def latency_ms(start: Callable[[], StreamingQuery], checkpoint: Path, writer: Writer, *, rows: int) -> list[float]:
    """Of WRITES, without the first ones. The stream reads a topic that is empty so far."""
    query = start()
    waits: list[float] = []
    try:
        for number in range(WARMING + WRITES):
            time.sleep(PAUSES_S[number % len(PAUSES_S)])
            writer.write(rows)
            began = time.perf_counter()
            while _committed(checkpoint, writer.topic) < rows * (number + 1):
                if (failure := query.exception()) is not None:
                    raise failure
                assert time.perf_counter() < began + PATIENCE_S, "the stream does not go on"
                time.sleep(LOOK_S)
            waits.append((time.perf_counter() - began) * 1000)
    finally:
        query.stop()
    return waits[WARMING:]


def _committed(checkpoint: Path, topic: str) -> int:
    """Rows of the topic in all micro-batches that are committed, by the offsets at which the last of them ends."""
    done = [int(entry.name) for entry in (checkpoint / "commits").glob("[0-9]*")]
    if not done:
        return 0
    offsets = json.loads((checkpoint / "offsets" / str(max(done))).read_text().splitlines()[-1])
    return sum(offsets[topic].values())
