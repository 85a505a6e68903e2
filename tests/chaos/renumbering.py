"""Renumbering: which second copies of a record are the client's own work, not the brokers'.

An idempotent producer is promised one copy of a batch within one producer epoch. librdkafka leaves its epoch while the
outcome of a batch is open: 1. a batch R1 is appended, but its answer is lost or says "not enough replicas after
append"; 2. R2, sent behind it, is refused and will be retried; 3. R3 arrives and has skipped a sequence, so it is
refused as out of order; 4. librdkafka takes a new epoch, numbers everything anew, and sends R1 again as well (its
source: rd_kafka_handle_idempotent_Produce_error, "skipped sequence numbers"). No broker can know that R1 under the new
epoch is R1 under the old one, Apache Kafka's as little as kavka's. It takes an ISR that falls below
min.insync.replicas and comes back between two requests of one pipeline.

A second copy counts as the client's only where the stored batches and the client itself both say so: the same producer
id with a later epoch, and a note of the client that it skipped sequence numbers. Everything else stays a duplicate.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Mapping, Sequence

from tests.chaos.replica_logs import StoredBatch

NOTE = "ERRSEQ"
"""What librdkafka calls its log line (debug context "eos") when it is about to take a new epoch."""


class ClientsNotes(logging.Handler):
    """Keeps what clients log of skipped sequence numbers."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if NOTE in text:
            self.lines.append(text)

    def logger(self) -> logging.Logger:
        """A logger for a client, with nobody else behind it."""
        logger = logging.Logger("client", logging.DEBUG)
        logger.addHandler(self)
        return logger


class Renumbering:
    """Tells a client's second copy from the brokers'; `copies` counts those that it was asked about."""

    def __init__(self, logs: Mapping[int, Sequence[StoredBatch]], notes: Sequence[str]) -> None:
        """logs: by partition, in order of their offsets."""
        self._logs, self._notes = logs, notes
        self.copies = 0

    def is_the_clients(self, one: tuple[int, int], other: tuple[int, int]) -> bool:
        """one, other: partition and offset of two copies of one record."""
        first, second = sorted((one, other), key=lambda place: place[1])
        if not self._notes or first[0] != second[0]:
            return False
        before, after = self._batch_at(*first), self._batch_at(*second)
        if before is None or after is None:
            return False
        is_renumbered = before.producer_id == after.producer_id and before.producer_epoch < after.producer_epoch
        self.copies += is_renumbered
        return is_renumbered

    def _batch_at(self, partition: int, offset: int) -> StoredBatch | None:
        log = self._logs.get(partition, ())
        index = bisect_right(log, offset, key=lambda batch: batch.base_offset) - 1
        return log[index] if index >= 0 and log[index].last_offset >= offset else None
