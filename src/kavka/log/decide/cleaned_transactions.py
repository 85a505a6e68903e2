"""CleanedTransactions: which batches and markers compaction may drop because their transaction is over.

Decides, batch by batch in the order of offsets, whether a data batch is of an aborted transaction, and whether a marker
ends a transaction of which nothing was met any more. It must not know keys, or when a droppable marker goes (its delete
horizon says so).

    batch                            | droppable
    of no transaction                | no
    of an aborted one                | yes
    of a committed one               | no
    abort or commit marker           | if no batch of its transaction was met in this pass
    empty control batch              | yes: its marker went before

An aborted transaction whose marker stays is noted again in the new transaction index: `kept_aborted`.

Source: Kafka's CleanedTransactionMetadata.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from kavka.log.decide.indexes import AbortedTransaction
from kavka.model import Offset
from kavka.records.batch import RecordBatch
from kavka.records.control import ControlType, read_marker


class CleanedTransactions:
    """What is known of the transactions so far in one pass."""

    def __init__(self) -> None:
        self._upcoming: list[tuple[Offset, AbortedTransaction]] = []
        # Producer -> its aborted transaction, and whether a batch of it was met.
        self._aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        self._committed: set[int] = set()
        self._kept: list[AbortedTransaction] = []

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Aborted transactions with records in what is read next; one may be named again."""
        for transaction in transactions:
            heapq.heappush(self._upcoming, (transaction.first_offset, transaction))

    def take_kept_aborted(self) -> list[AbortedTransaction]:
        """The aborted transactions whose markers were kept since the last call."""
        kept, self._kept = self._kept, []
        return kept

    def on_control_batch(self, batch: RecordBatch) -> bool:
        """Whether the marker may be dropped."""
        header = batch.header
        self._begin_up_to(header.last_offset)
        if not header.record_count:
            return True
        marker = read_marker(batch)
        if marker is None:
            return False
        if marker.control_type is ControlType.COMMIT:
            if header.producer_id in self._committed:
                self._committed.remove(header.producer_id)
                return False
            return True
        aborted, was_met = self._aborted.pop(header.producer_id, (None, False))
        if aborted is None or not was_met:
            return True
        self._kept.append(aborted)
        return False

    def on_data_batch(self, batch: RecordBatch) -> bool:
        """Whether the batch is of an aborted transaction."""
        header = batch.header
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        aborted = self._aborted.get(header.producer_id)
        if aborted is None:
            self._committed.add(header.producer_id)
            return False
        self._aborted[header.producer_id] = (aborted[0], True)
        return True

    def _begin_up_to(self, offset: Offset) -> None:
        while self._upcoming and self._upcoming[0][0] <= offset:
            _, transaction = heapq.heappop(self._upcoming)
            self._aborted.setdefault(transaction.producer_id, (transaction, False))
