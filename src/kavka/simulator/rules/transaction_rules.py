"""Rules of transactions, watched in the log of topic "ledger", on the wire, and in what clients are told.

Decides whether transactions were what they promise. A record's value names its transaction and how many records that
one has, so that a torn one is known by itself. What is true is what lies below high watermarks: a record counts when
its partition's marker does.

    P2   a producer id is given to one transactional id, or to one idempotent producer, and to nobody else
    P3   a reader of committed data gets records of committed transactions only
    P4   all partitions of a transaction end in the same way, and as whoever committed or aborted was told
    P5   after a transactional id was taken over, nothing of its former epochs is written
    P6   in the end no transaction is open (`convergence`): last stable offsets are high watermarks
    P7   what is made of an input is committed once, for every input that the group has left behind

Where a partition may lose records (`View.allows_loss`) transactions may, too: then nothing of this is judged.

Source: docs/design/rules.md; KIP-98, KIP-890; Kafka's ducktape test of transactions for P7.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.errors import ErrorCode
from kavka.protocol.api_keys import ApiKey
from kavka.records.control import ControlType, read_marker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kavka.model import Offset, TopicPartition
    from kavka.records.batch import RecordBatch
    from kavka.simulator.host.wire import Exchange
    from kavka.simulator.rules.replica_view import View

LEDGER: Final = "ledger"


class Entry(NamedTuple):
    """What a record of the ledger says of itself: number `number` of the `of` records of a transaction; `source` names
    the input that it was made of, empty for none."""

    transaction: str
    number: int
    of: int
    source: str = ""

    def encode(self) -> bytes:
        return f"{self.transaction}|{self.number}|{self.of}|{self.source}".encode()

    @staticmethod
    def decode(value: bytes) -> Entry:
        transaction, number, of, source = value.decode().split("|")
        return Entry(transaction, int(number), int(of), source)


class _Fence(NamedTuple):
    """An epoch that a producer id has now, and where the ledger's partitions ended when it got it."""

    epoch: int
    ends: dict[TopicPartition, Offset]


class TransactionRules:
    """What is known of all transactions. A `Watcher` of the wire, and told of what is committed, written and read."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._open: dict[tuple[TopicPartition, int], list[RecordBatch]] = {}
        self._committed: dict[TopicPartition, dict[Offset, bytes]] = {}
        self._outcomes: dict[str, bool] = {}
        """Of each transaction that has ended somewhere: whether it is committed."""
        self._told: dict[str, bool] = {}
        self._owners: dict[int, str] = {}
        self._fences: dict[int, _Fence] = {}
        self.told_committed = 0

    @property
    def _is_excused(self) -> bool:
        return self._view.allow_loss or bool(self._view.stands_last)

    def _require(self, rule: str, holds: bool, text: str) -> None:
        if not self._is_excused:
            self._view.require(rule, holds, text)

    # -- the log

    def on_committed(self, partition: TopicPartition, batches: Iterable[RecordBatch]) -> None:
        """These batches of one of the ledger's partitions came to lie below the true high watermark."""
        for batch in batches:
            header = batch.header
            key = (partition, header.producer_id)
            if not header.is_control:
                self._check_fence(partition, batch)
                self._open.setdefault(key, []).append(batch)
                continue
            marker = read_marker(batch)
            if marker is not None:
                self._on_end(partition, self._open.pop(key, []), marker.control_type is ControlType.COMMIT)

    def _on_end(self, partition: TopicPartition, batches: list[RecordBatch], is_committed: bool) -> None:
        found = self._committed.setdefault(partition, {})
        for batch in batches:
            for record in batch.records():
                value = bytes(record.value or b"")
                name = Entry.decode(value).transaction
                known = self._outcomes.setdefault(name, is_committed)
                self._require("P4", known == is_committed, f"{name} is committed and aborted: {partition} differs")
                if is_committed:
                    found[record.offset] = value

    def _check_fence(self, partition: TopicPartition, batch: RecordBatch) -> None:
        header = batch.header
        fence = self._fences.get(header.producer_id)
        if fence is not None and header.producer_epoch < fence.epoch:
            end = fence.ends.get(partition)
            is_older = end is None or header.base_offset < end
            written = f"{partition}: {header.base_offset} is of epoch {header.producer_epoch}"
            text = f"{written}, {fence.epoch} was given at {end}"
            self._require("P5", is_older, text)

    # -- the wire

    def on_request(self, exchange: Exchange) -> None:
        """Nothing: what a question asks for may never be done."""

    def on_answer(self, exchange: Exchange) -> None:
        if exchange.key is not ApiKey.INIT_PRODUCER_ID or exchange.answer.error_code != ErrorCode.NONE:
            return
        producer_id, epoch = exchange.answer.producer_id, exchange.answer.producer_epoch
        name = exchange.request.transactional_id
        if name is None:
            is_new = producer_id not in self._owners or exchange.request.producer_id == producer_id
            self._require("P2", is_new, f"producer id {producer_id} is given twice")
            self._owners[producer_id] = ""
            return
        owner = self._owners.setdefault(producer_id, name)
        self._require("P2", owner == name, f"producer id {producer_id} of {owner!r} is given to {name!r}")
        before = self._fences.get(producer_id)
        if before is None or epoch > before.epoch:
            self._fences[producer_id] = _Fence(epoch, self._ends())

    def _ends(self) -> dict[TopicPartition, Offset]:
        """Where each partition ends at its stored leader; without those where that is not known."""
        ends = {}
        for partition, stored in self._view.stored.items():
            if partition.topic == LEDGER:
                seen = self._view.replicas.get(partition, {}).get(stored.state.leader)
                if seen is not None and seen.is_present:
                    ends[partition] = seen.partition.log.log_end_offset
        return ends

    # -- what clients were told

    def on_told(self, transaction: str, *, is_committed: bool) -> None:
        """Its producer knows how it ended."""
        self._told[transaction] = is_committed
        if is_committed:
            self.told_committed += 1
        self._view.note(f"{transaction} committed {is_committed}")

    def on_read(self, partition: TopicPartition, offset: Offset, value: bytes) -> None:
        """A reader of committed data got it."""
        known = self._committed.get(partition, {}).get(offset)
        text = f"{partition}: {offset} was read as {value!r}, committed is {known!r}"
        self._require("P3", known == value, text)

    # -- at the end

    def check(self, found: Mapping[TopicPartition, Mapping[Offset, bytes]]) -> None:
        """`found`: what a reader of committed data found in the ledger when all was over."""
        for partition, committed in self._committed.items():
            there = found.get(partition, {})
            missing = [offset for offset, value in committed.items() if there.get(offset) != value]
            self._require("P3", not missing, f"{partition}: committed, and not read: {missing[:5]}")
        parts: dict[str, Counter[int]] = {}
        counts: dict[str, int] = {}
        sources: Counter[str] = Counter()
        for values in found.values():
            for value in values.values():
                entry = Entry.decode(value)
                parts.setdefault(entry.transaction, Counter())[entry.number] += 1
                counts[entry.transaction] = entry.of
                if entry.source:
                    sources[entry.source] += 1
        for name, indexes in parts.items():
            is_whole = indexes == Counter(range(counts[name]))
            self._require("P4", is_whole, f"{name} has {counts[name]} records, there are {dict(indexes)}")
        for name, is_committed in self._told.items():
            text = f"{name}: its producer was told that it is {'committed' if is_committed else 'aborted'}"
            self._require("P4", (name in parts) == is_committed, text)
        doubled = [source for source, times in sources.items() if times > 1]
        self._require("P7", not doubled, f"made twice of: {doubled[:5]}")

    def check_inputs(
        self,
        found: Mapping[TopicPartition, Mapping[Offset, bytes]],
        inputs: Mapping[TopicPartition, Mapping[Offset, bytes]],
        positions: Mapping[TopicPartition, Offset],
    ) -> None:
        """P7: for every input that the group has left behind something was made. `positions`: where the group is."""
        made = {Entry.decode(value).source for values in found.values() for value in values.values()}
        for partition, position in positions.items():
            left = [offset for offset in inputs.get(partition, {}) if offset < position]
            missing = [offset for offset in left if source_of(partition, offset) not in made]
            self._require(
                "P7", not missing, f"nothing was made of {partition} {missing[:5]}, the group is at {position}"
            )


def source_of(partition: TopicPartition, offset: Offset) -> str:
    """An input's name."""
    return f"{partition}:{offset}"
