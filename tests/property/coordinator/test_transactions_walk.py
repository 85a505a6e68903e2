"""Any order of events keeps transactions whole: producers come, go and are fenced, batches and markers come late or
twice, coordinators crash, time runs out.

The coordinator's decisions (`TransactionShard`) and what partitions accept (`ProducerState`) are the real ones; the
network, the clients and the log between them are the test's. Checked at the end, when all that is decided was carried
out:

    P2  no producer id and epoch was given to two producers
    P4  of a transaction all is visible or nothing, and what was acknowledged as committed is
    P5  what a fenced producer sends is never visible
    P6  no transaction is left open

Before transaction version 2 a batch or a marker that comes late, within one epoch, may be taken for a part of the next
transaction (KIP-890): there a producer that aborts with batches on their way is followed by another one, and a marker
is repeated at once or never. Where clients of both versions share an id, each works by its own. Epochs may begin near
the last one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.coordinator.transactions.decide.records import decode_transaction_record, transaction_record
from kavka.coordinator.transactions.decide.shard import TransactionShard, Transition
from kavka.coordinator.transactions.decide.state import (
    BUMPS_EPOCH,
    MAX_EPOCH,
    ProducerIdAndEpoch,
    Transaction,
    TransactionState,
)
from kavka.errors import ErrorCode, RecordsError, RequestError
from kavka.log.decide.producer_state import AppendOrigin, ProducerState, Verification
from kavka.model import NO_OFFSET, TopicPartition
from kavka.records.batch import BatchHeader, read_header
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.records.control import ControlType, EndTransactionMarker, build_marker

NAMES = ("a", "b")
PARTITIONS = tuple(TopicPartition("orders", index) for index in range(3))
STEPS = 250
TIMEOUT_MS = 1_000

Label = tuple[int, int, int]
"""A record: which client, which of its transactions, which record."""


class Partition:
    """A partition's log, as far as it matters here."""

    def __init__(self) -> None:
        self.state = ProducerState()
        self.entries: list[tuple[ProducerIdAndEpoch, Label | None, bool]] = []
        """Data (who, label) and markers (who, None, commit?)."""

    def append(self, batch: Batch) -> bool:
        """Whether the batch is here, now or before."""
        header = batch.header()
        try:
            if self.state.check(header, AppendOrigin.CLIENT) is not None:
                return True
        except RecordsError:
            return False
        self.state.append(header, len(self.entries))
        self.entries.append((batch.producer, batch.label, False))
        return True

    def end(self, marker: Marker) -> None:
        transaction = marker.transaction
        entry = self.state.producers.get(transaction.producer_id)
        if (
            transaction.version >= BUMPS_EPOCH
            and entry is not None
            and entry.producer_epoch == transaction.producer_epoch
            and entry.current_txn_first_offset != NO_OFFSET
        ):
            return
        commit = transaction.state is TransactionState.PREPARE_COMMIT
        kind = EndTransactionMarker(ControlType.COMMIT if commit else ControlType.ABORT, marker.coordinator_epoch)
        producer_id, epoch = transaction.producer
        data = build_marker(kind, producer_id=producer_id, producer_epoch=epoch, timestamp=0)
        header = read_header(data)
        try:
            self.state.check_marker(header, kind, AppendOrigin.COORDINATOR)
        except RecordsError:
            return
        self.state.end_transaction(header, kind, len(self.entries))
        self.entries.append((transaction.producer, None, commit))
        self.state.on_high_watermark(len(self.entries))

    def visible(self) -> list[Label]:
        """What a reader of committed records sees."""
        seen: list[Label] = []
        open_records: dict[int, list[Label]] = {}
        for producer, label, commit in self.entries:
            if label is not None:
                open_records.setdefault(producer.producer_id, []).append(label)
            else:
                ended = open_records.pop(producer.producer_id, [])
                if commit:
                    seen += ended
        return seen


@dataclass(frozen=True)
class Batch:
    """A record on its way."""

    client: Client
    producer: ProducerIdAndEpoch
    partition: TopicPartition
    sequence: int
    label: Label

    def header(self) -> BatchHeader:
        builder = BatchBuilder()
        builder.append(0, None, b"v")
        return read_header(builder.build(ProducerStamp(*self.producer, self.sequence, is_transactional=True)))


@dataclass(frozen=True)
class Marker:
    """A marker on its way."""

    transaction: Transaction
    partition: TopicPartition
    coordinator_epoch: int


@dataclass(eq=False)
class Client:
    """A producer's process."""

    number: int
    name: str
    version: int
    producer: ProducerIdAndEpoch | None = None
    is_open: bool = False
    is_broken: bool = False
    was_refused_in: int | None = None
    """The coordinator's epoch in which it was told to come again with the first partition of a transaction."""
    asked_for: bool | None = None
    """The outcome that it asked for, if it has not heard the answer: it asks for nothing else before it does."""
    was_late: bool = False
    transactions: int = 0
    records: int = 0
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    unanswered: set[Label] = field(default_factory=set)


class World:
    """One coordinator at a time, three partitions, two transactional ids."""

    def __init__(self, rng: random.Random, version: int, *, is_mixed: bool, first_epoch: int) -> None:
        self.rng, self.version = rng, version
        self.versions = (0, version) if is_mixed else (version,)
        self.partitions = {partition: Partition() for partition in PARTITIONS}
        self.log: list[CoordinatorRecord] = []
        self.shard = TransactionShard()
        self.coordinator_epoch = 0
        self.now_ms = 0
        self.next_producer_id = 0
        self.clients: list[Client] = []
        self.clients_ever = 0
        self.asking: list[tuple[Batch, Verification]] = []
        self.granted: list[Batch] = []
        self.batches: list[Batch] = []
        self.markers: list[Marker] = []
        self.missing: dict[str, tuple[Transaction, set[TopicPartition]]] = {}
        self.given: dict[ProducerIdAndEpoch, Client] = {}
        self.acknowledged: set[Label] = set()
        self.committed: set[tuple[int, int]] = set()
        self.decided: dict[tuple[int, int], bool] = {}
        for name in NAMES if first_epoch >= 0 else ():
            self.write(Transition(Transaction(name, self.new_producer_id(), first_epoch, TIMEOUT_MS)))

    # -- the coordinator

    def write(self, decision: Transition) -> None:
        transaction = decision.transaction
        if transaction is not None:
            self.log.append(transaction_record(transaction, transaction_version=self.version))
            self.shard.replay(transaction.transactional_id, transaction)
            if transaction.state.is_ending:
                self.send_markers(transaction)
        if decision.error is not ErrorCode.NONE:
            raise RequestError(decision.error)

    def send_markers(self, transaction: Transaction) -> None:
        self.missing[transaction.transactional_id] = (transaction, set(transaction.partitions))
        self.markers += [Marker(transaction, place, self.coordinator_epoch) for place in sorted(transaction.partitions)]
        self.complete(transaction)

    def complete(self, transaction: Transaction) -> None:
        name = transaction.transactional_id
        known, missing = self.missing.get(name, (None, set()))
        if known is transaction and not missing and self.shard.transactions.get(name) is transaction:
            self.write(Transition(transaction.completed(self.now_ms)))

    def crash(self) -> None:
        """Another broker takes over: it knows what is in the log."""
        self.coordinator_epoch += 1
        self.shard = TransactionShard()
        self.missing = {}
        for record in self.log:
            decoded = decode_transaction_record(record.key, record.value)
            assert decoded is not None
            self.shard.replay(decoded.transactional_id, decoded.transaction)
        for transaction in self.shard.ending():
            self.send_markers(transaction)

    def new_producer_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id

    def time_out(self) -> None:
        self.now_ms += TIMEOUT_MS + 1
        for name in self.shard.timed_out(self.now_ms):
            following = self.new_producer_id()
            self.write(self.shard.abort_timed_out(name, self.now_ms, self.version, new_producer_id=following))

    # -- clients

    def come(self) -> None:
        """Another process begins with one of the transactional ids."""
        self.clients_ever += 1
        self.clients.append(Client(self.clients_ever, self.rng.choice(NAMES), self.rng.choice(self.versions)))

    def begin(self, client: Client) -> None:
        """Takes a producer id and epoch, if the transaction before has ended."""
        if self.accepts(client, self.init, client, None):
            self.give(client, self.shard.transactions[client.name].producer)
        assert client in self.clients, "who comes without an epoch is refused for good"

    def recover(self, client: Client) -> None:
        """Asks for the epoch after its own (KIP-360), without an end of its transaction: that is aborted."""
        if not self.accepts(client, self.init, client, client.producer):
            return
        self.decided[client.number, client.transactions] = False
        self.give(client, self.shard.transactions[client.name].producer)
        client.sequences.clear()
        client.is_open = client.is_broken = False
        client.unanswered.clear()

    def init(self, client: Client, expected: ProducerIdAndEpoch | None) -> None:
        self.write(
            self.shard.init_producer_id(
                client.name,
                TIMEOUT_MS,
                expected,
                new_producer_id=self.new_producer_id(),
                now_ms=self.now_ms,
                version=self.version,
            )
        )

    def give(self, client: Client, producer: ProducerIdAndEpoch) -> None:
        """A client may be given what it has once more: an answer was lost."""
        assert self.given.setdefault(producer, client) is client, "P2"
        client.producer = producer

    def produce(self, client: Client) -> None:
        assert client.producer is not None
        place = self.rng.choice(PARTITIONS)
        if client.version < BUMPS_EPOCH and not self.accepts(client, self.add, client, place):
            if not client.is_open:
                client.was_refused_in = self.coordinator_epoch
            return
        client.was_refused_in = None
        if not client.is_open:
            client.is_open = True
            client.transactions += 1
        client.records += 1
        label = (client.number, client.transactions, client.records)
        sequence = client.sequences.get(place, 0)
        client.sequences[place] = sequence + 1
        client.unanswered.add(label)
        self.batches.append(Batch(client, client.producer, place, sequence, label))

    def add(self, client: Client, place: TopicPartition) -> None:
        assert client.producer is not None
        self.write(
            self.shard.add_partitions(client.name, client.producer, [place], now_ms=self.now_ms, version=client.version)
        )

    def accepts(self, client: Client, action: Callable[..., None], *args: object) -> bool:
        """Whether the coordinator does it; a client that it refuses for good is gone."""
        try:
            action(*args)
        except RequestError as refused:
            if refused.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                self.clients.remove(client)
            return False
        return True

    def end(self, client: Client) -> None:
        commit = client.asked_for
        if commit is None:
            commit = not client.is_broken and not client.unanswered and self.rng.random() < 0.7
        client.was_late |= bool(client.unanswered)
        length, key = len(self.log), (client.number, client.transactions)
        if not self.accepts(client, self.ask_to_end, client, commit):
            return
        # A transaction that was aborted for its producer may be told to be.
        decided = self.decided.setdefault(key, commit and len(self.log) > length)
        assert decided == commit, "P4: told the other outcome than was decided"
        if self.rng.random() < 0.2:
            client.asked_for = commit
            return
        self.go_on(client)

    def go_on(self, client: Client) -> None:
        """It has heard what its transaction's end made of it."""
        known = self.shard.transactions[client.name]
        if client.version >= BUMPS_EPOCH:
            following = ProducerIdAndEpoch(known.next_producer_id, 0)
            self.give(client, following if known.next_producer_id >= 0 else known.producer)
            client.sequences.clear()
        elif client.is_broken or client.was_late:
            self.clients.remove(client)  # It would take the next epoch; another client does.
        client.is_open = client.is_broken = client.was_late = False
        client.asked_for = None
        client.unanswered.clear()

    def give_up(self, client: Client) -> None:
        """Aborts a transaction that it could not even begin: who did so before version 2 must not be ended for it."""
        epoch = self.coordinator_epoch
        if self.accepts(client, self.ask_to_end, client, False):
            client.was_refused_in = None
        elif client not in self.clients:
            known = self.shard.transactions[client.name]
            is_fenced = known.producer != client.producer
            assert is_fenced or client.was_refused_in != epoch, "an abort of nothing was refused for good"

    def ask_to_end(self, client: Client, commit: bool) -> None:
        assert client.producer is not None
        self.write(
            self.shard.end_transaction(
                client.name,
                client.producer,
                commit=commit,
                new_producer_id=self.new_producer_id(),
                now_ms=self.now_ms,
                version=client.version,
            )
        )

    # -- the network

    def deliver_batch(self) -> None:
        """A batch arrives, maybe not for the last time; its leader asks the coordinator, or appends it."""
        batch = self.rng.choice(self.batches)
        if self.rng.random() < 0.7:
            self.batches.remove(batch)
        partition = self.partitions[batch.partition]
        verification = partition.state.verification(
            *batch.producer, batch.sequence, 0, bumps_epoch=batch.client.version >= BUMPS_EPOCH
        )
        if verification is None:
            self.answer(batch, written=partition.append(batch))
        else:
            self.asking.append((batch, verification))

    def ask(self) -> None:
        """The coordinator says whether a batch's transaction is open."""
        batch, verification = self.asking.pop(self.rng.randrange(len(self.asking)))
        try:
            self.verify(batch)
        except RequestError as refused:
            if refused.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                self.answer(batch, written=False)
            elif batch not in self.batches:
                self.batches.append(batch)
            return
        verification.grant(batch.producer.epoch)
        self.granted.append(batch)

    def append(self) -> None:
        """What was granted is appended, if no marker came meanwhile."""
        batch = self.granted.pop(self.rng.randrange(len(self.granted)))
        self.answer(batch, written=self.partitions[batch.partition].append(batch))

    def verify(self, batch: Batch) -> None:
        name, version = batch.client.name, batch.client.version
        if version >= BUMPS_EPOCH:
            self.write(
                self.shard.add_partitions(name, batch.producer, [batch.partition], now_ms=self.now_ms, version=version)
            )
        else:
            error = self.shard.verify(name, batch.producer, [batch.partition])[batch.partition]
            if error is not ErrorCode.NONE:
                raise RequestError(error)

    def answer(self, batch: Batch, *, written: bool) -> None:
        client = batch.client
        if batch.label not in client.unanswered:
            return
        client.unanswered.discard(batch.label)
        if written:
            self.acknowledged.add(batch.label)
        else:
            client.is_broken = True

    def deliver_marker(self, marker: Marker | None = None) -> None:
        marker = marker or self.rng.choice(self.markers)
        comes_again = self.rng.random() < 0.3
        raises_epoch = marker.transaction.version >= BUMPS_EPOCH
        if not comes_again or not raises_epoch:
            self.markers.remove(marker)
        for _time in range(1 + (comes_again and not raises_epoch)):
            self.partitions[marker.partition].end(marker)
        transaction, missing = self.missing.get(marker.transaction.transactional_id, (None, set()))
        if transaction is marker.transaction and marker.coordinator_epoch == self.coordinator_epoch:
            missing.discard(marker.partition)
            self.complete(marker.transaction)

    # -- the walk

    def step(self) -> None:
        choices: list[Callable[[], None]] = []
        weights: list[int] = []

        def may(weight: int, action: Callable[[], None]) -> None:
            choices.append(action)
            weights.append(weight)

        may(1 if len(self.clients) > 2 else 5, self.come)
        may(1, self.crash)
        may(1, self.time_out)
        if self.clients:
            client = self.rng.choice(self.clients)
            if client.producer is None:
                may(10, lambda: self.begin(client))
            elif client.asked_for is not None:
                may(20, lambda: self.end(client))
            else:
                may(20, lambda: self.produce(client))
                if client.is_open:
                    may(15, lambda: self.end(client))
                    may(3, lambda: self.recover(client))
                elif client.was_refused_in is not None:
                    may(15, lambda: self.give_up(client))
        if self.batches:
            may(30, self.deliver_batch)
        if self.asking:
            may(40, self.ask)
        if self.granted:
            may(40, self.append)
        if self.markers:
            may(25, self.deliver_marker)
        self.rng.choices(choices, weights)[0]()

    def settle(self) -> None:
        """All that is decided is carried out, all that is open times out, all that is late arrives."""
        self.batches = [batch for batch in self.batches for _again in range(2)]
        while self.batches or self.asking or self.granted:
            choices = [(self.batches, self.deliver_batch), (self.asking, self.ask), (self.granted, self.append)]
            self.rng.choice([action for waiting, action in choices if waiting])()
            if self.batches and self.rng.random() < 0.3:
                self.batches.pop()
            if self.markers and self.rng.random() < 0.2:
                self.deliver_marker()
        for _round in range(3):
            while self.markers:
                self.deliver_marker(self.markers[-1])
            self.time_out()

    def check(self) -> None:
        visible = [label for partition in self.partitions.values() for label in partition.visible()]
        assert len(set(visible)) == len(visible), "P1"
        for client, transaction, _record in visible:
            assert self.decided.get((client, transaction)) is True, "P4, P5: visible, and nobody committed it"
        for label in self.acknowledged:
            if self.decided.get(label[:2]):
                assert label in visible, "P4: a part of a committed transaction is missing"
        for partition in self.partitions.values():
            assert partition.state.first_unstable_offset == NO_OFFSET, "P6"
        for transaction in self.shard.transactions.values():
            assert transaction.state.is_idle, "P6"


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    version=st.sampled_from([0, 2]),
    is_mixed=st.booleans(),
    first_epoch=st.sampled_from([-1, MAX_EPOCH - 3]),
)
def test_transactions_stay_whole(seed: int, version: int, is_mixed: bool, first_epoch: int) -> None:
    world = World(random.Random(seed), version, is_mixed=is_mixed, first_epoch=first_epoch)
    for _step in range(STEPS):
        world.step()
    world.settle()
    world.check()
