"""The flow around transactions, to its edges: what is refused, how much is done at once, what fails, what is logged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest
from structlog.testing import capture_logs

from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.coordinator.transactions.coordinator import InitWish, TransactionCoordinator
from kavka.coordinator.transactions.decide.records import transaction_record
from kavka.coordinator.transactions.decide.state import MAX_EPOCH, ProducerIdAndEpoch, Transaction, TransactionState
from kavka.errors import ErrorCode
from tests.unit.coordinator.test_transaction_coordinator import NAME, TIMEOUT_MS, A, MemoryLog, Room, code, runs, until

# -- what is asked of it, to the edge


def test_nothing_is_done_for_an_id_without_letters() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        producer = ProducerIdAndEpoch(1, 0)
        ask = room.coordinator

        async def told(work: Callable[[], object]) -> object:
            return work()

        for attempt in (
            ask.add_partitions("", producer, [A], version=0),
            ask.end_transaction("", producer, commit=True, version=0),
            told(lambda: ask.verify("", producer, [A])),
            told(lambda: ask.describe("")),
        ):
            assert await code(attempt) is ErrorCode.INVALID_REQUEST
        assert await code(told(lambda: ask.describe("other"))) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    runs(scenario)


def test_a_timeout_of_one_ms_and_the_longest_one_are_taken() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        for timeout_ms in (1, 900_000):
            await room.init(timeout_ms)
            assert room.coordinator.describe(NAME).timeout_ms == timeout_ms

    runs(scenario)


def test_who_has_begun_may_abort_what_was_committed_before_and_who_has_not_may_not() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        producer = await room.init()
        await room.add(producer)
        await room.end(producer)
        await room.until(TransactionState.COMPLETE_COMMIT)
        assert await code(room.end(producer, commit=False)) is ErrorCode.INVALID_TXN_STATE
        room.coordinator.on_begun("other", producer)
        assert await code(room.end(producer, commit=False)) is ErrorCode.INVALID_TXN_STATE
        room.coordinator.on_begun(NAME, producer)
        assert await room.end(producer, commit=False) == producer
        room.coordinator.unload(0)
        room.coordinator.on_begun(NAME, producer)

    runs(scenario)


def exhausted() -> Transaction:
    """Open, of a producer that has no further epoch."""
    open_ = TransactionState.ONGOING
    return Transaction(
        NAME, 7, MAX_EPOCH, 1_000, open_, frozenset({A}), started_ms=1_000_000, updated_ms=1_000_000, version=2
    )


async def with_exhausted() -> Room:
    log = MemoryLog()
    log.records[0] = [transaction_record(exhausted(), transaction_version=2)]
    return await Room(log, version=2).loaded()


def test_the_first_of_all_producer_ids_is_one_like_others() -> None:
    async def scenario() -> None:
        room = await with_exhausted()
        room.next_id = -1
        room.markers.gate = asyncio.Event()
        assert await room.end(ProducerIdAndEpoch(7, MAX_EPOCH)) == (0, 0)

    runs(scenario)


@pytest.mark.parametrize("meanwhile", ["gone", "ended"])
def test_a_time_out_that_waits_for_a_producer_id_is_none_where_the_transaction_went_meanwhile(meanwhile: str) -> None:
    async def scenario() -> None:
        room = await with_exhausted()
        room.now_ms += 1_001
        gate = asyncio.Event()

        async def slowly() -> int:
            await gate.wait()
            return 200

        room.coordinator._around = room.coordinator._around._replace(next_producer_id=slowly)
        with capture_logs() as logs:
            aborting = asyncio.ensure_future(room.coordinator.abort_timed_out())
            for _ in range(5):
                await asyncio.sleep(0)
            if meanwhile == "gone":
                room.coordinator.unload(0)
            else:
                active = room.coordinator._find(NAME)
                active.shard.begin(NAME)
            gate.set()
            await aborting
        assert logs == []
        assert room.log.states() == ["ONGOING"]

    runs(scenario)


@pytest.mark.parametrize("loading", [0, 2])
def test_one_partition_that_is_being_read_keeps_no_other_from_its_time_outs(loading: int) -> None:
    async def scenario() -> None:
        room = Room()
        room.coordinator = TransactionCoordinator(
            asyncio.get_running_loop(), room.log, room.markers, room.coordinator._around
        )
        room.coordinator.set_partition_count(3)
        names = {room.coordinator.partition_for(f"tx{number}"): f"tx{number}" for number in range(12)}
        for partition in range(3):
            waiting = room.coordinator.load(partition, 0)
            if partition == loading:
                kept = waiting
            else:
                await waiting
        producers = {}
        for partition in {0, 1, 2} - {loading}:
            producers[partition] = await room.coordinator.init_producer_id(names[partition], InitWish(1_000))
            await room.coordinator.add_partitions(names[partition], producers[partition], [A], version=0)
        room.now_ms += 1_001
        await room.coordinator.abort_timed_out()
        await until(lambda: len(room.markers.written) == 2)
        await until(lambda: room.log.states().count("COMPLETE_ABORT") == 2)
        for _ in range(10):
            await asyncio.sleep(0)
        room.now_ms += 604_800_000
        await room.coordinator.forget_expired()
        assert room.log.states().count("gone") == 2
        await kept

    runs(scenario)


def test_all_transactions_are_listed_by_id_wherever_they_are_kept() -> None:
    async def scenario() -> None:
        room = Room()
        room.coordinator = TransactionCoordinator(
            asyncio.get_running_loop(), room.log, room.markers, room.coordinator._around
        )
        room.coordinator.set_partition_count(3)
        for partition in (2, 0, 1):
            await room.coordinator.load(partition, 0)
        names = [f"tx{number}" for number in range(12)]
        assert {room.coordinator.partition_for(name) for name in names} == {0, 1, 2}
        for name in reversed(names):
            await room.coordinator.init_producer_id(name, InitWish(TIMEOUT_MS))
        assert [one.transactional_id for one in room.coordinator.transactions()] == sorted(names)

    runs(scenario)


# -- many at once


class Counting(MemoryLog):
    """Counts appends, how many there are side by side, and the records of each."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way = self.most_under_way = 0
        self.sizes: list[int] = []

    async def append(self, partition: int, records: Sequence[CoordinatorRecord]) -> ErrorCode:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        self.sizes.append(len(records))
        for _ in range(5):
            await asyncio.sleep(0)
        self.under_way -= 1
        return await super().append(partition, records)


async def with_ids(count: int, *, is_open: bool = False) -> Room:
    log = Counting()
    state = TransactionState.ONGOING if is_open else TransactionState.EMPTY
    partitions = frozenset({A} if is_open else ())
    started_ms = 1_000_000 if is_open else -1
    log.records[0] = [
        transaction_record(
            Transaction(
                f"tx{number}", number, 0, 1_000, state, partitions, started_ms=started_ms, updated_ms=1_000_000
            ),
            transaction_version=0,
        )
        for number in range(count)
    ]
    return await Room(log).loaded()


@pytest.mark.parametrize(("count", "sizes"), [(99, [99]), (100, [100]), (101, [100, 1]), (250, [100, 100, 50])])
def test_ids_are_forgotten_a_hundred_in_one_batch(count: int, sizes: list[int]) -> None:
    async def scenario() -> None:
        room = await with_ids(count)
        room.now_ms += 604_800_000 - 1
        await room.coordinator.forget_expired()
        assert len(room.coordinator.transactions()) == count
        room.now_ms += 1
        await room.coordinator.forget_expired()
        assert room.coordinator.transactions() == []
        assert isinstance(room.log, Counting)
        assert (room.log.sizes, room.log.most_under_way) == (sizes, 1)
        assert room.log.states()[count:] == ["gone"] * count

    runs(scenario)


@pytest.mark.parametrize(("id_bytes", "sizes"), [(16_384, [32, 2]), (16_385, [31, 3])])
def test_ids_are_forgotten_in_batches_of_half_a_mebibyte(id_bytes: int, sizes: list[int]) -> None:
    async def scenario() -> None:
        room = await Room(Counting()).loaded()
        for number in range(34):
            await room.coordinator.init_producer_id(f"{number:02}" + "x" * (id_bytes - 2), InitWish(TIMEOUT_MS))
        room.now_ms += 604_800_000
        assert isinstance(room.log, Counting)
        room.log.sizes.clear()
        await room.coordinator.forget_expired()
        assert room.log.sizes == sizes

    runs(scenario)


def test_an_id_that_is_used_while_others_are_forgotten_stays() -> None:
    async def scenario() -> None:
        room = await with_ids(150)
        room.now_ms += 604_800_000
        forgetting = asyncio.ensure_future(room.coordinator.forget_expired())
        await asyncio.sleep(0)
        used = asyncio.ensure_future(room.coordinator.init_producer_id("tx120", InitWish(TIMEOUT_MS)))
        busy = asyncio.ensure_future(room.coordinator.init_producer_id("tx130", InitWish(TIMEOUT_MS)))
        await forgetting
        await used
        await busy
        assert [one.transactional_id for one in room.coordinator.transactions()] == ["tx120", "tx130"]

    runs(scenario)


def test_a_batch_of_which_no_id_is_left_is_not_written() -> None:
    async def scenario() -> None:
        room = await with_ids(101)
        room.now_ms += 604_800_000
        forgetting = asyncio.ensure_future(room.coordinator.forget_expired())
        await asyncio.sleep(0)
        await asyncio.gather(forgetting, room.coordinator.init_producer_id("tx100", InitWish(TIMEOUT_MS)))
        assert isinstance(room.log, Counting)
        assert room.log.sizes == [100, 1]
        assert [one.transactional_id for one in room.coordinator.transactions()] == ["tx100"]

    runs(scenario)


def test_who_is_led_elsewhere_forgets_no_more() -> None:
    async def scenario() -> None:
        room = await with_ids(101)
        room.now_ms += 604_800_000
        with capture_logs() as logs:
            forgetting = asyncio.ensure_future(room.coordinator.forget_expired())
            for _ in range(3):
                await asyncio.sleep(0)
            room.coordinator.unload(0)
            await forgetting
        assert isinstance(room.log, Counting)
        assert room.log.sizes == [100]
        assert [log["count"] for log in logs] == [100], "of those that were on their way"

    runs(scenario)


def test_ids_that_cannot_be_forgotten_now_are_told_and_left() -> None:
    async def scenario() -> None:
        room = await with_ids(3)
        room.now_ms += 604_800_000
        room.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        with capture_logs() as logs:
            await room.coordinator.forget_expired()
        assert [(log["event"], log["log_level"], log["count"], log["why"]) for log in logs] == [
            ("transactional ids not forgotten yet", "warning", 3, "COORDINATOR_NOT_AVAILABLE")
        ]
        assert len(room.coordinator.transactions()) == 3
        room.log.error = ErrorCode.NONE
        await room.coordinator.forget_expired()
        assert room.coordinator.transactions() == []

    runs(scenario)


@pytest.mark.parametrize("count", [100, 150])
def test_a_hundred_transactions_are_aborted_side_by_side(count: int) -> None:
    async def scenario() -> None:
        room = await with_ids(count, is_open=True)
        room.markers.gate = asyncio.Event()
        room.now_ms += 1_001
        with capture_logs() as logs:
            await room.coordinator.abort_timed_out()
        assert isinstance(room.log, Counting)
        assert (room.log.most_under_way, len(room.log.sizes)) == (100, count)
        assert {one.state for one in room.coordinator.transactions()} == {TransactionState.PREPARE_ABORT}
        said = [(log["event"], log["transactional_id"], log["producer_id"], log["timeout_ms"]) for log in logs]
        assert sorted(said) == sorted(
            ("transaction timed out", f"tx{number}", number, 1_000) for number in range(count)
        )

    runs(scenario)


def test_a_transaction_that_cannot_be_aborted_now_is_told_and_left_and_others_are_aborted() -> None:
    async def scenario() -> None:
        room = await with_ids(2, is_open=True)
        room.now_ms += 1_001
        room.log.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        with capture_logs() as logs:
            await room.coordinator.abort_timed_out()
        warned = [log for log in logs if log["log_level"] == "warning"]
        assert [(log["event"], log["why"]) for log in warned] == [
            ("transaction not aborted yet", "NOT_COORDINATOR")
        ] * 2
        assert {log["transactional_id"] for log in warned} == {"tx0", "tx1"}
        room.log.error = ErrorCode.NONE
        await room.coordinator.abort_timed_out()
        assert {one.state for one in room.coordinator.transactions()} == {TransactionState.PREPARE_ABORT}

    runs(scenario)


def test_neither_time_outs_nor_ids_are_looked_at_before_the_log_is_read() -> None:
    async def scenario() -> None:
        room = Room()
        loading = room.coordinator.load(0, 0)
        room.now_ms += 604_800_000
        await room.coordinator.abort_timed_out()
        await room.coordinator.forget_expired()
        assert room.log.states() == []
        await loading

    runs(scenario)


# -- who goes away, and what fails


def test_a_write_goes_on_where_who_asked_has_gone() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        room.log.gate = asyncio.Event()
        asked = asyncio.ensure_future(room.init())
        for _ in range(5):
            await asyncio.sleep(0)
        asked.cancel()
        await asyncio.sleep(0)
        assert asked.cancelled()
        room.log.gate.set()
        await until(lambda: bool(room.coordinator.transactions()))
        assert room.bugs == []

    runs(scenario)


def test_who_is_led_elsewhere_writes_markers_no_more() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        producer = await room.init()
        await room.add(producer)
        room.markers.gate = asyncio.Event()
        await room.end(producer)
        await asyncio.sleep(0)
        room.coordinator.unload(0)
        for _ in range(5):
            await asyncio.sleep(0)
        room.markers.gate.set()
        for _ in range(20):
            await asyncio.sleep(0)
        assert room.markers.written == []
        assert room.log.states()[-1] == "PREPARE_COMMIT"
        assert room.bugs == []

    runs(scenario)


def test_a_bug_in_a_write_is_told_and_who_asked_is_answered() -> None:
    async def scenario() -> None:
        room = await Room().loaded()

        async def fails(*_: object) -> ErrorCode:
            raise ZeroDivisionError

        room.log.append = fails  # type: ignore[method-assign, assignment]
        assert await code(room.init()) is ErrorCode.NOT_COORDINATOR
        assert [type(bug) for bug in room.bugs] == [ZeroDivisionError]

    runs(scenario)


def test_a_bug_in_the_markers_is_told() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        producer = await room.init()
        await room.add(producer)

        async def fails(*_: object) -> bool:
            raise ZeroDivisionError

        room.markers.write = fails  # type: ignore[method-assign, assignment]
        await room.end(producer)
        await until(lambda: bool(room.bugs))
        assert [type(bug) for bug in room.bugs] == [ZeroDivisionError]
        assert room.state is TransactionState.PREPARE_COMMIT

    runs(scenario)


def test_after_a_shut_down_nothing_is_written_or_served() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        producer = await room.init()
        room.log.gate = asyncio.Event()
        adding = asyncio.ensure_future(room.add(producer))
        for _ in range(5):
            await asyncio.sleep(0)
        room.coordinator.shut_down()
        assert await code(adding) is ErrorCode.NOT_COORDINATOR
        room.log.gate.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert room.log.states() == ["EMPTY"]
        assert await code(room.init()) is ErrorCode.NOT_COORDINATOR
        assert room.bugs == []

    runs(scenario)


def test_nothing_is_kept_of_writes_and_markers_that_are_done() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        producer = await room.init()
        await room.add(producer)
        await room.end(producer)
        await room.until(TransactionState.COMPLETE_COMMIT)
        for _ in range(5):
            await asyncio.sleep(0)
        assert room.coordinator._writes == {}
        assert room.coordinator._find(NAME).tasks == {}

    runs(scenario)


# -- what its log says


def test_who_is_fenced_says_so() -> None:
    async def scenario() -> None:
        room = await Room().loaded(leader_epoch=4)
        producer = await room.init()
        await room.add(producer)
        room.markers.is_fenced = True
        with capture_logs() as logs:
            await room.end(producer)
            for _ in range(20):
                await asyncio.sleep(0)
        assert [
            (log["event"], log["log_level"], log["transactional_id"], log["coordinator_epoch"]) for log in logs
        ] == [("transaction left to a later coordinator", "warning", NAME, 4)]

    runs(scenario)


def test_a_record_that_is_passed_over_is_told_with_its_partition() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        log.records[0] = [CoordinatorRecord(b"\x00\x00\xff", b"x")]
        with capture_logs() as logs:
            await Room(log).loaded()
        (said,) = logs
        assert (said["event"], said["log_level"], said["partition"]) == ("transaction record skipped", "warning", 0)
        assert said["why"]

    runs(scenario)


def test_another_number_of_partitions_is_an_error_that_says_what_to_do() -> None:
    async def scenario() -> None:
        room = await Room().loaded()
        with capture_logs() as logs:
            room.coordinator.set_partition_count(50)
        (said,) = logs
        assert said["event"] == "the number of partitions of the transactions topic has changed"
        assert (said["log_level"], said["partitions"], said["ids_placed_by"]) == ("error", 50, 1)
        assert said["next_step"].startswith("end all transactions before you restart a broker")
        await room.init()

    runs(scenario)
