"""The consumer: positions, order, aborted transactions, and what it does when something goes wrong."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import count
from random import Random
from typing import Any, Literal

import pytest

from kavka.client.cluster import Cluster
from kavka.client.consumer import Consumer, ConsumerRecord
from kavka.client.settings import ClientSettings, ConsumerSettings, OffsetReset
from kavka.errors import ConfigError, CorruptRecords, ErrorCode, OffsetOutOfRange, RequestError
from kavka.model import TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import FetchResponse
from kavka.records.builder import NO_STAMP, BatchBuilder, ProducerStamp
from kavka.records.compression import Compression
from kavka.records.control import ControlType, EndTransactionMarker, build_marker
from tests.unit.client.fake_cluster import DROP, FakeCluster, FakeLog

SETTINGS = ClientSettings(
    retry_backoff_ms=1, retry_backoff_max_ms=5, request_timeout_ms=1_000, api_timeout_ms=1_500, topic_propagation_ms=50
)
EARLIEST = ConsumerSettings(auto_offset_reset=OffsetReset.EARLIEST, fetch_max_wait_ms=10)
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW_MS = 1_700_000_000_000


def batch(*values: bytes, stamp: ProducerStamp = NO_STAMP, compression: Compression = Compression.NONE) -> bytes:
    builder = BatchBuilder(compression)
    for index, value in enumerate(values):
        builder.append(NOW_MS + index, b"k", value, (("h", b"1"),))
    return builder.build(stamp)


def fill(log: FakeLog, count: int, *, per_batch: int = 5, start: int = 0) -> None:
    for first in range(start, start + count, per_batch):
        log.append(batch(*(b"%d" % n for n in range(first, min(first + per_batch, start + count)))))


async def read(consumer: Consumer, count: int, *, max_records: int = 500) -> list[ConsumerRecord]:
    """Polls until `count` records came, and once more, so that one too many is seen."""
    records: list[ConsumerRecord] = []
    while len(records) < count:
        records += await consumer.poll(max_records=max_records, timeout_ms=500)
    return records + await consumer.poll(timeout_ms=20)


def run(
    scenario: Callable[[FakeCluster, Cluster], Awaitable[None]], *, brokers: int = 1, partitions: int = 1
) -> FakeCluster:
    fake = FakeCluster(brokers)
    fake.add_topic("t", partitions)

    async def main() -> None:
        async with Cluster(fake, [("fake", 9001)], SETTINGS, random=Random(1)) as cluster:
            await scenario(fake, cluster)

    asyncio.run(asyncio.wait_for(main(), 60))
    return fake


@pytest.mark.parametrize("max_records", [1, 3, 1000])
def test_every_record_is_returned_once_and_in_order(max_records: int) -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        for number, log in enumerate(fake.topics["t"]):
            fill(log, 40, start=100 * number)
        async with Consumer(cluster, EARLIEST) as consumer:
            assert await consumer.assign_topic("t") == [P0, P1]
            records = await read(consumer, 80, max_records=max_records)
            assert [int(r.value or b"") for r in records if r.partition == 0] == list(range(40))
            assert [int(r.value or b"") for r in records if r.partition == 1] == list(range(100, 140))
            assert (consumer.position(P0), consumer.high_watermark(P0)) == (40, 40)
            assert consumer.reached(await consumer.end_offsets())
            assert records[0].headers == (("h", b"1"),)
            assert records[0].timestamp_ms == NOW_MS
            assert consumer.buffered_bytes == 0

    run(scenario, brokers=2, partitions=2)


@pytest.mark.parametrize("compression", list(Compression))
def test_every_codec_is_read(compression: Compression) -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        fake.log(P0).append(batch(b"a" * 1000, b"b", compression=compression))
        async with Consumer(cluster, EARLIEST) as consumer:
            consumer.assign([P0])
            assert [r.value for r in await read(consumer, 2)] == [b"a" * 1000, b"b"]

    run(scenario)


def test_a_position_in_the_middle_of_a_batch_starts_there() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        fill(fake.log(P0), 20, per_batch=10)
        async with Consumer(cluster, EARLIEST) as consumer:
            consumer.assign([P0], offsets={P0: 7})
            assert [r.offset for r in await read(consumer, 13)] == list(range(7, 20))

    run(scenario)


def test_a_seek_throws_away_what_was_fetched() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        fill(fake.log(P0), 20, per_batch=10)
        async with Consumer(cluster, EARLIEST) as consumer:
            consumer.assign([P0])
            assert [r.offset for r in await consumer.poll(max_records=3)] == [0, 1, 2]
            consumer.seek(P0, 15)
            assert [r.offset for r in await read(consumer, 5)] == list(range(15, 20))
            await consumer.seek_to_beginning()
            assert (await consumer.poll(max_records=1))[0].offset == 0
            await consumer.seek_to_end()
            assert await consumer.poll(timeout_ms=20) == []
            fill(fake.log(P0), 1, start=20)
            assert [r.offset for r in await read(consumer, 1)] == [20]

    run(scenario)


def test_an_answer_to_a_fetch_from_before_a_seek_is_thrown_away() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        fill(fake.log(P0), 20, per_batch=10)
        async with Consumer(cluster, EARLIEST) as consumer:
            consumer.assign([P0], offsets={P0: 10})
            fake.faults[ApiKey.FETCH].append(lambda *_: consumer.seek(P0, 3))
            assert [r.offset for r in await read(consumer, 17)] == list(range(3, 20))

    run(scenario)


def test_latest_starts_at_the_end_and_none_raises() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        fill(fake.log(P0), 10)
        async with Consumer(cluster, ConsumerSettings(fetch_max_wait_ms=10)) as consumer:
            consumer.assign([P0])
            assert await consumer.poll(timeout_ms=30) == []
            assert consumer.position(P0) == 10
        settings = ConsumerSettings(auto_offset_reset=OffsetReset.NONE, fetch_max_wait_ms=10)
        async with Consumer(cluster, settings) as consumer:
            consumer.assign([P0])
            with pytest.raises(OffsetOutOfRange):
                await consumer.poll()
            consumer.seek(P0, 99)
            with pytest.raises(OffsetOutOfRange, match="99"):
                await consumer.poll()

    run(scenario)


def test_a_position_that_retention_took_is_reset() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        log = fake.log(P0)
        fill(log, 20)
        del log.batches[:2]
        log.start_offset = 10
        async with Consumer(cluster, EARLIEST) as consumer:
            consumer.assign([P0], offsets={P0: 3})
            assert [r.offset for r in await read(consumer, 10)] == list(range(10, 20))

    run(scenario)


def test_leaders_that_move_or_die_are_followed() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        log = fake.log(P0)
        fill(log, 10)
        async with Consumer(cluster, EARLIEST) as consumer:
            consumer.assign([P0])
            assert len(await read(consumer, 10)) == 10
            log.leader, log.leader_epoch = 2, 1
            fill(log, 10, start=10)
            assert [r.offset for r in await read(consumer, 10)] == list(range(10, 20))
            log.leader, log.leader_epoch = 1, 2
            fake.stop(2)
            fill(log, 5, start=20)
            fake.faults[ApiKey.FETCH].append(lambda *_: DROP)
            assert [r.offset for r in await read(consumer, 5)] == list(range(20, 25))

    run(scenario, brokers=2)


def test_a_paused_partition_keeps_what_was_fetched() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        fill(fake.log(P0), 10)
        async with Consumer(cluster, EARLIEST) as consumer:
            consumer.assign([P0])
            assert len(await consumer.poll(max_records=4)) == 4
            consumer.pause([P0])
            assert await consumer.poll(timeout_ms=30) == []
            consumer.resume([P0])
            assert [r.offset for r in await read(consumer, 6)] == list(range(4, 10))

    run(scenario)


def transactions(log: FakeLog) -> None:
    """Offset 0 plain, 1-2 aborted, 3 committed, 4 a marker, 5 committed, 6-7 markers, 8 aborted, 9 a marker."""
    one, two = (ProducerStamp(p, 0, 0, is_transactional=True) for p in (1, 2))
    log.append(batch(b"plain"))
    log.append(batch(b"aborted 1", b"aborted 2", stamp=one))
    log.append(batch(b"committed 3", stamp=two))
    log.append(
        build_marker(EndTransactionMarker(ControlType.ABORT, 0), producer_id=1, producer_epoch=0, timestamp=NOW_MS)
    )
    log.append(batch(b"committed 5", stamp=one))
    log.append(
        build_marker(EndTransactionMarker(ControlType.COMMIT, 0), producer_id=1, producer_epoch=0, timestamp=NOW_MS)
    )
    log.append(
        build_marker(EndTransactionMarker(ControlType.COMMIT, 0), producer_id=2, producer_epoch=0, timestamp=NOW_MS)
    )
    log.append(batch(b"aborted 8", stamp=two))
    log.append(
        build_marker(EndTransactionMarker(ControlType.ABORT, 0), producer_id=2, producer_epoch=0, timestamp=NOW_MS)
    )
    log.aborted = [(2, 8, 9), (1, 1, 4)]


@pytest.mark.parametrize("batches_per_fetch", [1, 2, 100])
def test_a_reader_of_committed_data_sees_no_aborted_record_and_nobody_sees_markers(batches_per_fetch: int) -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        fake.batches_per_fetch = batches_per_fetch
        transactions(fake.log(P0))
        settings = ConsumerSettings(auto_offset_reset=OffsetReset.EARLIEST, read_committed=True, fetch_max_wait_ms=10)
        async with Consumer(cluster, settings) as consumer:
            consumer.assign([P0])
            assert [r.value for r in await read(consumer, 3)] == [b"plain", b"committed 3", b"committed 5"]
            while consumer.position(P0) < 10:  # An aborted batch and two markers are behind the last record.
                assert await consumer.poll(timeout_ms=500) == []
            assert consumer.position(P0) == 10
        async with Consumer(cluster, EARLIEST) as consumer:
            consumer.assign([P0])
            assert [r.offset for r in await read(consumer, 6)] == [0, 1, 2, 3, 5, 8]

    fake = run(scenario)
    levels = [request.isolation_level for request in fake.asked(ApiKey.FETCH)]
    assert set(levels) == {0, 1}


def test_a_damaged_batch_is_told_after_what_came_before_it() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        log = fake.log(P0)
        fill(log, 5)
        fill(log, 5, start=5)
        damaged = bytearray(log.batches[1])
        damaged[-3] ^= 1
        log.batches[1] = bytes(damaged)
        async with Consumer(cluster, EARLIEST) as consumer:
            consumer.assign([P0])
            assert [r.offset for r in await consumer.poll()] == list(range(5))
            for _ in range(2):
                with pytest.raises(CorruptRecords, match="wrong CRC"):
                    await consumer.poll()
            consumer.seek(P0, 10)
            assert await consumer.poll(timeout_ms=20) == []

    run(scenario)


def test_a_bomb_is_an_error_and_not_a_full_memory() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        fake.log(P0).append(batch(bytes(1 << 22), compression=Compression.ZSTD))
        settings = ConsumerSettings(auto_offset_reset=OffsetReset.EARLIEST, max_inflated_bytes=1 << 20)
        async with Consumer(cluster, settings) as consumer:
            consumer.assign([P0])
            with pytest.raises(Exception, match="inflate to more than 1048576") as failure:
                await consumer.poll()
            assert getattr(failure.value, "code", None) is ErrorCode.MESSAGE_TOO_LARGE

    run(scenario)


@pytest.mark.parametrize("jumps_at", range(24))
def test_a_pause_that_ends_between_two_looks_at_the_clock_is_over(jumps_at: int) -> None:
    """A busy machine takes the processor away at any moment after a fetch that failed, for longer than its pause."""

    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        fill(fake.log(P0), 5)
        loop, looks = asyncio.get_running_loop(), count()
        clock = loop.time

        def fail(*_: object) -> object:
            loop.time = lambda: clock() + (0.01 if next(looks) >= jumps_at else 0)  # type: ignore[method-assign]
            return DROP

        fake.faults[ApiKey.FETCH].append(fail)
        async with Consumer(cluster, EARLIEST) as consumer:
            consumer.assign([P0])
            assert len(await consumer.poll(timeout_ms=60_000)) == 5

    run(scenario)


def test_an_error_that_no_retry_helps_is_raised() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        fill(fake.log(P0), 5)

        def refuse(request: Any, version: int) -> FetchResponse:
            from kavka.protocol.messages.fetch_response import FetchableTopicResponse, PartitionData

            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            data = PartitionData(partition_index=0, error_code=code, aborted_transactions=None)
            return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])

        fake.faults[ApiKey.FETCH].append(refuse)
        async with Consumer(cluster, EARLIEST) as consumer:
            consumer.assign([P0])
            with pytest.raises(RequestError, match="TOPIC_AUTHORIZATION_FAILED"):
                await consumer.poll()
            assert len(await read(consumer, 5)) == 5

    run(scenario)


def diverge_at(end_offset: int) -> Callable[[Any, int], FetchResponse]:
    def answer(request: Any, version: int) -> FetchResponse:
        from kavka.protocol.messages.fetch_response import EpochEndOffset, FetchableTopicResponse, PartitionData

        end = EpochEndOffset(epoch=0, end_offset=end_offset)
        data = PartitionData(partition_index=0, diverging_epoch=end, aborted_transactions=None)
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])

    return answer


def test_what_an_unclean_election_cut_off_is_read_again_from_where_it_was_cut() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        fill(fake.log(P0), 10)
        async with Consumer(cluster, EARLIEST) as consumer:
            consumer.assign([P0])
            await read(consumer, 10)
            fake.faults[ApiKey.FETCH].append(diverge_at(6))
            assert [r.offset for r in await read(consumer, 4)] == [6, 7, 8, 9]

    run(scenario)


def test_without_a_reset_the_reader_is_told_what_was_cut_off() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        fill(fake.log(P0), 10)
        settings = ConsumerSettings(auto_offset_reset=OffsetReset.NONE, fetch_max_wait_ms=10)
        async with Consumer(cluster, settings) as consumer:
            consumer.assign([P0], offsets={P0: 0})
            await read(consumer, 10)
            fake.faults[ApiKey.FETCH].append(diverge_at(6))
            with pytest.raises(OffsetOutOfRange, match="cut off at 6, and 10 had been reached"):
                await read(consumer, 1)
            assert consumer.position(P0) == 10

    run(scenario)


def test_nothing_is_fetched_while_the_buffer_is_full() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        fill(fake.log(P0), 500)
        settings = ConsumerSettings(auto_offset_reset=OffsetReset.EARLIEST, fetch_max_wait_ms=10, max_buffered_bytes=1)
        async with Consumer(cluster, settings) as consumer:
            consumer.assign([P0])
            await consumer.poll(max_records=1)
            for _ in range(5):
                await consumer.poll(max_records=1)
                await asyncio.sleep(0.005)
            assert len(fake.asked(ApiKey.FETCH)) == 1
            assert len(await read(consumer, 494)) == 494

    run(scenario)


def test_a_topic_that_is_not_there_is_an_error() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        async with Consumer(cluster, EARLIEST) as consumer:
            with pytest.raises(RequestError, match="nope"):
                await consumer.assign_topic("nope")
            with pytest.raises(RequestError, match="not assigned"):
                consumer.position(P0)

    run(scenario)


def test_a_group_needs_an_id() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        with pytest.raises(RequestError, match="group_id"):
            await Consumer(cluster, EARLIEST).subscribe(["t"])
        with pytest.raises(ConfigError):
            ConsumerSettings(heartbeat_interval_ms=10, session_timeout_ms=10)

    run(scenario)


def stall() -> None:
    time.sleep(0.05)


class SlowEvent(asyncio.Event):
    """The machine has something else to do when somebody begins to wait."""

    async def wait(self) -> Literal[True]:
        stall()
        return await super().wait()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_poll_passes_on_a_cancellation_even_if_its_time_is_over(loop: str) -> None:
    """Ctrl-C comes while the program runs, not while it waits: what it does next is to poll. asyncio.timeout takes that
    cancellation for its own where its time is over in the same turn of uvloop; the program then never ends."""
    fake = FakeCluster(1)
    fake.add_topic("t", 1)

    async def main() -> None:
        async with (
            Cluster(fake, [("fake", 9001)], SETTINGS, random=Random(1)) as cluster,
            Consumer(cluster, EARLIEST) as consumer,
        ):
            await consumer.assign_topic("t")
            assert await consumer.poll(timeout_ms=20) == []
            consumer._arrived = SlowEvent()

            async def interrupted() -> None:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await consumer.poll(timeout_ms=10)

            with pytest.raises(asyncio.CancelledError):
                await asyncio.create_task(interrupted())

    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(asyncio.wait_for(main(), 20))
