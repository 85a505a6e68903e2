"""The flow around transactions: what is prepared gets its markers, whoever coordinates; nothing is answered before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from kavka.coordinator.shared.decide.log_errors import OUTCOME_UNKNOWN
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.coordinator.transactions.coordinator import (
    InitWish,
    Surroundings,
    TransactionCoordinator,
    TransactionLimits,
)
from kavka.coordinator.transactions.decide.records import decode_transaction_record, transaction_record
from kavka.coordinator.transactions.decide.state import MAX_EPOCH, ProducerIdAndEpoch, Transaction, TransactionState
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from tests.kit.virtual_time import in_virtual_time

NAME = "tx"
TIMEOUT_MS = 60_000
A, B = TopicPartition("a", 0), TopicPartition("b", 1)
MANY_TURNS = 2_000


class MemoryLog:
    """`__transaction_state` in memory. `error` is what appends are answered with; `gate` holds them back while it is
    closed, `settled` the ones whose outcome is unknown."""

    def __init__(self) -> None:
        self.records: dict[int, list[CoordinatorRecord]] = {}
        self.error = ErrorCode.NONE
        self.gate: asyncio.Event | None = None
        self.settled = asyncio.Event()
        self.is_committed = True
        self.has_unknown = False
        self.max_batch_bytes = 1_000_000

    async def append(self, partition: int, records: Sequence[CoordinatorRecord]) -> ErrorCode:
        if self.gate is not None:
            await self.gate.wait()
        if sum(len(record.key) + len(record.value or b"") for record in records) > self.max_batch_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE
        if self.error is ErrorCode.NONE or self.error in OUTCOME_UNKNOWN:
            self.records.setdefault(partition, []).extend(records)
        self.has_unknown = self.has_unknown or self.error in OUTCOME_UNKNOWN
        return self.error

    async def settle(self, partition: int) -> bool:
        if not self.has_unknown:
            return True
        await self.settled.wait()
        return self.is_committed

    async def read(self, partition: int) -> AsyncIterator[Sequence[CoordinatorRecord]]:
        yield list(self.records.get(partition, []))

    def states(self) -> list[str]:
        """The states of all records, in order."""
        found = []
        for records in self.records.values():
            for record in records:
                decoded = decode_transaction_record(record.key, record.value)
                assert decoded is not None
                found.append("gone" if decoded.transaction is None else decoded.transaction.state.name)
        return found


class MemoryMarkers:
    """The partitions of transactions: (producer id, epoch, committed, coordinator epoch, partitions) of each marker."""

    def __init__(self) -> None:
        self.written: list[tuple[int, int, bool, int, frozenset[TopicPartition]]] = []
        self.gate: asyncio.Event | None = None
        self.is_fenced = False

    async def write(self, transaction: Transaction, coordinator_epoch: int) -> bool:
        if self.gate is not None:
            await self.gate.wait()
        if self.is_fenced:
            return False
        committed = transaction.state is TransactionState.PREPARE_COMMIT
        self.written.append((*transaction.producer, committed, coordinator_epoch, transaction.partitions))
        return True


class Room:
    """A coordinator with what it needs."""

    def __init__(self, log: MemoryLog | None = None, *, version: int = 0) -> None:
        self.log = log or MemoryLog()
        self.markers = MemoryMarkers()
        self.version = version
        self.now_ms = 1_000_000
        self.next_id = 100
        self.has_ids = True
        self.bugs: list[BaseException] = []
        self.coordinator = TransactionCoordinator(
            asyncio.get_running_loop(),
            self.log,
            self.markers,
            Surroundings(
                wall_ms=lambda: self.now_ms,
                next_producer_id=self._next_id,
                transaction_version=lambda: self.version,
                limits=lambda: TransactionLimits(900_000, 604_800_000),
                on_bug=self.bugs.append,
            ),
        )
        self.coordinator.set_partition_count(1)

    async def _next_id(self) -> int:
        await asyncio.sleep(0)
        if not self.has_ids:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.next_id += 1
        return self.next_id

    async def loaded(self, leader_epoch: int = 0) -> Room:
        await self.coordinator.load(0, leader_epoch)
        return self

    async def init(self, timeout_ms: int = TIMEOUT_MS) -> ProducerIdAndEpoch:
        return await self.coordinator.init_producer_id(NAME, InitWish(timeout_ms))

    async def add(self, producer: ProducerIdAndEpoch, *partitions: TopicPartition) -> None:
        await self.coordinator.add_partitions(NAME, producer, partitions or (A,), version=self.version)

    async def end(self, producer: ProducerIdAndEpoch, *, commit: bool = True) -> ProducerIdAndEpoch:
        return await self.coordinator.end_transaction(NAME, producer, commit=commit, version=self.version)

    @property
    def state(self) -> TransactionState:
        return self.coordinator.describe(NAME).state

    async def until(self, state: TransactionState) -> None:
        await until(lambda: self.state is state)


async def until(condition: Callable[[], bool]) -> None:
    """Looks after each turn of the loop; when nothing comes of many, the clock goes on."""
    turns = 0
    while not condition():
        await asyncio.sleep(0 if turns < MANY_TURNS else 0.1)
        turns += 1


async def code(work: Awaitable[object]) -> ErrorCode:
    with pytest.raises(RequestError) as refused:
        await work
    return refused.value.code


def runs(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(scenario(), 60)

    in_virtual_time(bounded)


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("epoch", [MAX_EPOCH - 1, MAX_EPOCH])
def test_what_the_end_of_a_transaction_of_version_2_told_its_producer_holds_for_the_next_coordinator(
    level: int, epoch: int
) -> None:
    """Its producer may end it so after transaction.version was lowered. Apache Kafka answers UNSUPPORTED_VERSION with
    level 0, which ends the producer, and before KAFKA-20310 forgot the next producer id with every level."""

    async def scenario() -> None:
        log = MemoryLog()
        open_one = Transaction(
            NAME, 7, epoch, TIMEOUT_MS, TransactionState.ONGOING, frozenset({A}), started_ms=1, updated_ms=1, version=2
        )
        log.records[0] = [transaction_record(open_one, transaction_version=2)]
        room = await Room(log, version=level).loaded()
        room.markers.gate = asyncio.Event()
        told = await room.coordinator.end_transaction(NAME, ProducerIdAndEpoch(7, epoch), commit=True, version=2)
        taken_over = await Room(log, version=level).loaded(leader_epoch=1)
        await taken_over.until(TransactionState.COMPLETE_COMMIT)
        assert taken_over.coordinator.describe(NAME).version == 2, "its markers are those of version 2 (KIP-1228)"
        await taken_over.coordinator.add_partitions(NAME, told, (B,), version=2)
        assert taken_over.state is TransactionState.ONGOING

    runs(scenario)


def test_a_transaction_from_its_begin_to_its_markers() -> None:
    async def scenario() -> None:
        room = await Room().loaded(leader_epoch=4)
        producer = await room.init()
        assert producer == (101, 0)
        await room.add(producer, A, B)
        assert await room.end(producer) == producer
        await room.until(TransactionState.COMPLETE_COMMIT)
        assert room.markers.written == [(101, 0, True, 4, frozenset({A, B}))]
        assert room.log.states() == ["EMPTY", "ONGOING", "PREPARE_COMMIT", "COMPLETE_COMMIT"]
        assert room.bugs == []

    runs(scenario)


def test_with_version_2_every_end_brings_the_next_epoch() -> None:
    async def scenario() -> None:
        room = await Room(version=2).loaded()
        producer = await room.init()
        for number in range(1, 4):
            await room.add(producer)
            producer = await room.end(producer, commit=bool(number % 2))
            assert producer == (101, number)
            await until(lambda: not room.state.is_ending)
        assert [marker[1:3] for marker in room.markers.written] == [(1, True), (2, False), (3, True)]

    runs(scenario)


def test_with_version_2_the_producer_id_changes_with_the_last_epoch() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        last = Transaction(NAME, 7, MAX_EPOCH, TIMEOUT_MS, TransactionState.COMPLETE_COMMIT, updated_ms=1)
        log.records[0] = [transaction_record(last, transaction_version=2)]
        room = await Room(log, version=2).loaded()
        await room.add(last.producer)
        assert await room.end(last.producer) == (101, 0)
        await room.until(TransactionState.COMPLETE_COMMIT)
        assert room.coordinator.describe(NAME).producer == (101, 0)
        assert room.markers.written[0][:2] == (7, MAX_EPOCH + 1)

    runs(scenario)


def test_a_producer_that_got_another_id_with_its_commit_is_told_to_wait_for_the_markers() -> None:
    """INVALID_PRODUCER_ID_MAPPING would end it: Apache Kafka's client takes that for fatal."""

    async def scenario() -> None:
        log = MemoryLog()
        last = Transaction(NAME, 7, MAX_EPOCH, TIMEOUT_MS, TransactionState.COMPLETE_COMMIT, updated_ms=1)
        log.records[0] = [transaction_record(last, transaction_version=2)]
        room = await Room(log, version=2).loaded()
        await room.add(last.producer)
        room.markers.gate = asyncio.Event()
        following = await room.end(last.producer)
        assert following == (101, 0)
        assert room.state is TransactionState.PREPARE_COMMIT
        assert await code(room.add(following)) is ErrorCode.CONCURRENT_TRANSACTIONS
        room.markers.gate.set()
        await room.until(TransactionState.COMPLETE_COMMIT)
        await room.add(following)
        assert room.state is TransactionState.ONGOING

    runs(scenario)


def test_the_epoch_behind_the_last_one_is_given_to_nobody() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        last = Transaction(
            NAME,
            7,
            MAX_EPOCH,
            TIMEOUT_MS,
            TransactionState.ONGOING,
            frozenset({A}),
            started_ms=1,
            updated_ms=1,
            version=2,
        )
        log.records[0] = [transaction_record(last, transaction_version=2)]
        room = await Room(log, version=1).loaded()
        await room.coordinator.abort_timed_out()
        await room.until(TransactionState.COMPLETE_ABORT)
        beyond = ProducerIdAndEpoch(7, MAX_EPOCH + 1)
        assert room.coordinator.describe(NAME).producer == beyond
        for refused in (
            room.end(last.producer, commit=False),
            room.end(beyond, commit=False),
            room.add(beyond),
            room.coordinator.end_transaction(NAME, last.producer, commit=False, version=2),
            room.coordinator.end_transaction(NAME, beyond, commit=False, version=2),
        ):
            assert await code(refused) is ErrorCode.PRODUCER_FENCED
        producer = await room.init()
        assert producer.producer_id != last.producer_id
        assert producer.epoch == 0

    runs(scenario)


@pytest.mark.parametrize("has_ids", [True, False], ids=["with an id", "no producer id can be had"])
def test_with_version_2_a_producer_whose_last_epoch_timed_out_goes_on_with_another_id(has_ids: bool) -> None:
    async def scenario() -> None:
        log = MemoryLog()
        last = Transaction(NAME, 7, MAX_EPOCH, TIMEOUT_MS, TransactionState.ONGOING, frozenset({A}), 1, 1, version=2)
        log.records[0] = [transaction_record(last, transaction_version=2)]
        room = await Room(log, version=2).loaded()
        room.has_ids = has_ids
        await room.coordinator.abort_timed_out()
        await room.until(TransactionState.COMPLETE_ABORT)
        assert room.markers.written == [(7, MAX_EPOCH + 1, False, 0, frozenset({A}))]
        if has_ids:
            assert await room.end(last.producer, commit=False) == (101, 0)
            await room.add(ProducerIdAndEpoch(101, 0))
        else:
            room.has_ids = True
            assert await code(room.end(last.producer, commit=False)) is ErrorCode.PRODUCER_FENCED

    runs(scenario)


def test_a_transaction_in_the_log_with_the_epoch_behind_the_last_one_times_out() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        beyond = Transaction(
            NAME, 7, MAX_EPOCH + 1, TIMEOUT_MS, TransactionState.ONGOING, frozenset({A}), started_ms=1, updated_ms=1
        )
        log.records[0] = [transaction_record(beyond, transaction_version=2)]
        room = await Room(log).loaded()
        await room.coordinator.abort_timed_out()
        await room.until(TransactionState.COMPLETE_ABORT)
        assert room.markers.written == [(7, MAX_EPOCH + 1, False, 0, frozenset({A}))]

    runs(scenario)


def test_nothing_is_answered_or_decided_before_the_record_is_committed() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        producer = await room.init()
        room.log.gate = asyncio.Event()
        adding = asyncio.ensure_future(room.add(producer))
        await asyncio.sleep(0.01)
        assert not adding.done()
        assert room.state is TransactionState.EMPTY
        assert await code(room.end(producer)) is ErrorCode.CONCURRENT_TRANSACTIONS
        room.log.gate.set()
        await adding
        assert room.state is TransactionState.ONGOING

    runs(scenario)


@pytest.mark.parametrize("commit", [True, False])
def test_who_takes_over_ends_what_was_prepared_and_leaves_open_what_was_open(commit: bool) -> None:
    async def scenario() -> None:
        log = MemoryLog()
        former = await Room(log).loaded()
        former.markers.gate = asyncio.Event()
        producer = await former.init()
        await former.add(producer, A, B)
        await former.end(producer, commit=commit)
        former.coordinator.unload(0, 1)

        after = await Room(log).loaded(leader_epoch=1)
        await after.until(TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)
        assert after.markers.written == [(101, 0, commit, 1, frozenset({A, B}))]
        former.markers.gate.set()
        await asyncio.sleep(0.01)
        assert former.markers.written == [], "the former one sends no more"
        await after.add(producer, A)
        again = await Room(log).loaded(leader_epoch=2)
        assert again.state is TransactionState.ONGOING
        assert again.markers.written == []
        await again.end(producer)
        await again.until(TransactionState.COMPLETE_COMMIT)

    runs(scenario)


@pytest.mark.parametrize("committed", [True, False])
def test_nothing_is_served_of_a_log_whose_end_may_still_be_lost(committed: bool) -> None:
    async def scenario() -> None:
        log = MemoryLog()
        prepared = Transaction(NAME, 7, 0, TIMEOUT_MS, TransactionState.PREPARE_COMMIT, frozenset({A}))
        log.records[0] = [transaction_record(prepared, transaction_version=0)]
        log.has_unknown, log.is_committed = True, committed
        room = Room(log)
        loading = asyncio.ensure_future(room.loaded())
        await asyncio.sleep(0.01)
        assert await code(room.init()) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert room.markers.written == []
        log.settled.set()
        await loading
        if committed:
            await room.until(TransactionState.COMPLETE_COMMIT)
            assert room.markers.written == [(7, 0, True, 0, frozenset({A}))]
        else:
            await asyncio.sleep(0.01)
            assert await code(room.init()) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert room.markers.written == []

    runs(scenario)


def test_a_partition_whose_addition_may_still_be_lost_is_not_verified() -> None:
    """Met by the simulator, with offsets in a transaction: 1. the coordinator adds a partition, with nobody in sync but
    itself, and begins anew; 2. it reads that record, says that the partition is in the transaction, and a batch is
    written there; 3. a replica without the record leads: nobody ever ends that transaction (P6, KIP-890)."""

    async def scenario() -> None:
        log = MemoryLog()
        producer = ProducerIdAndEpoch(7, 18)
        added = Transaction(NAME, *producer, TIMEOUT_MS, TransactionState.ONGOING, frozenset({A}), version=2)
        log.records[0] = [transaction_record(added, transaction_version=2)]
        log.has_unknown = True
        room = Room(log, version=2)
        loading = asyncio.ensure_future(room.loaded())
        await asyncio.sleep(0.01)
        with pytest.raises(RequestError, match=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.name):
            room.coordinator.verify(NAME, producer, [A])
        assert await code(room.add(producer, A)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        log.settled.set()
        await loading
        assert room.coordinator.verify(NAME, producer, [A]) == {A: ErrorCode.NONE}
        await room.add(producer, A)

    runs(scenario)


def test_a_producer_that_begins_anew_aborts_what_was_open() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        zombie = await room.init()
        await room.add(zombie)
        assert await code(room.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
        await room.until(TransactionState.COMPLETE_ABORT)
        assert room.markers.written == [(101, 1, False, 0, frozenset({A}))], "with an epoch that fences the records'"
        assert await room.init() == (101, 2)
        assert await code(room.add(zombie)) is ErrorCode.PRODUCER_FENCED
        assert await code(room.end(zombie)) is ErrorCode.PRODUCER_FENCED

    runs(scenario)


def test_a_record_that_is_refused_changes_nothing() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        producer = await room.init()
        for error, told in (
            (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        ):
            room.log.error = error
            assert await code(room.add(producer)) is told
            assert room.state is TransactionState.EMPTY
        room.log.error = ErrorCode.NONE
        await room.add(producer)

    runs(scenario)


@pytest.mark.parametrize("committed", [True, False])
def test_while_it_is_unknown_whether_an_outcome_is_committed_nothing_else_is_decided(committed: bool) -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        producer = await room.init()
        await room.add(producer)
        room.log.error = ErrorCode.REQUEST_TIMED_OUT
        assert await code(room.end(producer)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        room.log.error = ErrorCode.NONE
        for attempt in (room.end(producer), room.end(producer, commit=False), room.init(), room.add(producer, B)):
            assert await code(attempt) is ErrorCode.CONCURRENT_TRANSACTIONS
        room.now_ms += 10 * TIMEOUT_MS
        await room.coordinator.abort_timed_out()
        assert room.markers.written == []
        room.log.is_committed = committed
        room.log.settled.set()
        if committed:
            await room.until(TransactionState.COMPLETE_COMMIT)
            assert [marker[2] for marker in room.markers.written] == [True]
        else:
            await asyncio.sleep(0.01)
            assert room.state is TransactionState.ONGOING
            assert room.markers.written == []

    runs(scenario)


def test_the_end_is_written_until_it_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kavka.coordinator.transactions.coordinator.RETRY_S", 0.001)

    async def scenario() -> None:
        room = await Room().loaded()
        producer = await room.init()
        await room.add(producer)
        room.markers.gate = asyncio.Event()
        await room.end(producer)
        room.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        room.markers.gate.set()
        await asyncio.sleep(0.02)
        assert room.state is TransactionState.PREPARE_COMMIT
        room.log.error = ErrorCode.REQUEST_TIMED_OUT
        await until(lambda: len(room.log.states()) == 4)
        await asyncio.sleep(0.02)
        assert room.log.states()[3:] == ["COMPLETE_COMMIT"], "what may be committed is not written again meanwhile"
        room.log.settled.set()
        await room.until(TransactionState.COMPLETE_COMMIT)

    runs(scenario)


def test_a_coordinator_that_is_fenced_writes_no_end() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        producer = await room.init()
        await room.add(producer)
        room.markers.is_fenced = True
        await room.end(producer)
        await asyncio.sleep(0.01)
        assert room.log.states()[-1] == "PREPARE_COMMIT"

    runs(scenario)


def test_transactions_time_out_one_by_one() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        producer = await room.init(timeout_ms=1_000)
        await room.add(producer)
        room.now_ms += 1_000
        await room.coordinator.abort_timed_out()
        assert room.state is TransactionState.ONGOING
        room.now_ms += 1
        await room.coordinator.abort_timed_out()
        await room.until(TransactionState.COMPLETE_ABORT)
        assert room.markers.written == [(101, 1, False, 0, frozenset({A}))]
        assert await code(room.end(producer)) is ErrorCode.PRODUCER_FENCED

    runs(scenario)


def test_ids_that_nobody_uses_are_forgotten() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        await room.init()
        room.now_ms += 604_800_000
        await room.coordinator.forget_expired()
        assert await code(_described(room)) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert room.log.states()[-1] == "gone"
        assert await room.init() == (102, 0), "another producer id: of the former one's epochs nobody knows any more"

    async def _described(room: Room) -> object:
        return room.coordinator.describe(NAME)

    runs(scenario)


def test_long_ids_are_forgotten_too() -> None:
    """A hundred of the longest are more than a batch may have: they were tried again and again, together."""

    async def scenario() -> None:
        room = await Room().loaded()
        for number in range(40):
            await room.coordinator.init_producer_id(f"{number:02}" + "x" * 32_000, InitWish(TIMEOUT_MS))
        room.now_ms += 604_800_000
        await room.coordinator.forget_expired()
        assert room.coordinator.transactions() == []

    runs(scenario)


def test_what_was_decided_in_a_former_leader_epoch_is_not_written() -> None:
    """1. partitions are to be added; 2. before the record is appended the log is led, and read, in another epoch. What
    is appended behind the read would be in the log, and not in the state."""

    async def scenario() -> None:
        room = await Room().loaded()
        producer = await room.init()
        adding = asyncio.ensure_future(room.add(producer))
        await asyncio.sleep(0)  # It is decided, and to be written with the next step.
        loading = room.coordinator.load(0, 1)
        assert await code(adding) is ErrorCode.NOT_COORDINATOR
        await loading
        assert room.log.states() == ["EMPTY"]
        assert room.state is TransactionState.EMPTY

    runs(scenario)


def test_bad_wishes_are_refused() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        ask = room.coordinator.init_producer_id
        assert await code(ask("", InitWish(TIMEOUT_MS))) is ErrorCode.INVALID_REQUEST
        for timeout_ms in (-1, 0, 900_001):
            assert await code(ask(NAME, InitWish(timeout_ms))) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert room.log.states() == []

    runs(scenario)


def test_who_does_not_coordinate_or_still_reads_changes_nothing() -> None:
    async def scenario() -> None:
        room = Room()
        assert await code(room.init()) is ErrorCode.NOT_COORDINATOR
        loading = room.coordinator.load(0, 3)
        assert await code(room.init()) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        with pytest.raises(RequestError):
            room.coordinator.transactions()
        await loading
        assert room.coordinator.transactions() == []
        await room.coordinator.load(0, 2)
        room.coordinator.unload(0, 2)
        await room.init()
        room.coordinator.unload(0, 4)
        assert await code(room.init()) is ErrorCode.NOT_COORDINATOR
        room.coordinator.set_partition_count(0)
        assert await code(room.init()) is ErrorCode.NOT_COORDINATOR

    runs(scenario)


def test_garbage_in_the_log_is_passed_over() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        await room.init()
        good = room.log.records[0][0]
        room.log.records[0] = [
            CoordinatorRecord(b"", b""),
            CoordinatorRecord(b"\x7f\xff", b"x"),
            CoordinatorRecord(b"\x00\x00\xff", b"x"),
            good,
            CoordinatorRecord(good.key, b"\x00\x00\x01"),
            CoordinatorRecord(good.key, (good.value or b"")[:16] + b"\x09" + (good.value or b"")[17:]),
        ]
        after = await Room(room.log).loaded(leader_epoch=1)
        assert after.coordinator.describe(NAME).producer == (101, 0)

    runs(scenario)


def test_after_a_shut_down_those_who_wait_are_told() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        producer = await room.init()
        room.log.gate = asyncio.Event()
        adding = asyncio.ensure_future(room.add(producer))
        await asyncio.sleep(0)
        room.coordinator.shut_down()
        assert await code(adding) is ErrorCode.NOT_COORDINATOR

    runs(scenario)
