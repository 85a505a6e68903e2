"""The producer: order, batches, sequences, and what becomes of a record when something goes wrong."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from kavka.client.cluster import Cluster
from kavka.client.deliveries import BatchDelivery
from kavka.client.producer import Producer
from kavka.client.settings import ClientSettings, ProducerSettings
from kavka.errors import ConfigError, ConnectionFailed, ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import InitProducerIdResponse, ProduceResponse
from kavka.protocol.messages.produce_response import PartitionProduceResponse, TopicProduceResponse
from kavka.records.builder import EncodedRecords
from kavka.records.record import encode_record
from tests.unit.client.fake_cluster import DROP, SILENCE, FakeCluster

SETTINGS = ClientSettings(
    retry_backoff_ms=1, retry_backoff_max_ms=5, request_timeout_ms=1_000, api_timeout_ms=1_500, topic_propagation_ms=50
)
QUICK = ProducerSettings(linger_ms=1, timeout_ms=50)
PARTITION = TopicPartition("t", 0)


def refusing(code: ErrorCode) -> Callable[[Any, int], ProduceResponse]:
    """Answers every partition of a Produce with `code`, and appends nothing."""

    def answer(request: Any, version: int) -> ProduceResponse:
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    partition_responses=[
                        PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1)
                        for data in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )

    return answer


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


def test_a_record_is_delivered_and_says_where() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        async with Producer(cluster, QUICK, now_ms=lambda: 77) as producer:
            pending = await producer.send("t", b"value", key=b"key", headers=[("h", b"x")])
            assert not pending.done()
            assert await pending == ("t", 0, 0, 77)
            assert await (await producer.send("t", b"more", timestamp_ms=5)) == ("t", 0, 1, 5)
            assert producer.delivered_records == 2
            assert producer.buffered_bytes == 0

    fake = run(scenario)
    assert fake.log(PARTITION).values() == [b"value", b"more"]


def test_encoded_records_keep_their_place_among_the_others() -> None:
    encoded = EncodedRecords(
        encode_record(0, 0, b"k", b"second") + encode_record(1, 0, None, b"third"), 2, timestamps=(9, 9)
    )

    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        async with Producer(cluster, ProducerSettings(linger_ms=60_000)) as producer:
            await producer.send("t", b"first", partition=0)
            batch = await producer.send_encoded(PARTITION, encoded)
            await producer.send("t", b"fourth", partition=0)
            assert await batch == BatchDelivery("t", 0, 1, 2, -1)
            await producer.flush()
            assert (producer.delivered_records, producer.buffered_bytes) == (4, 0)
            with pytest.raises(RequestError, match="partitions 0 to 0, not 1"):
                await producer.send_encoded(TopicPartition("t", 1), encoded)

    assert run(scenario).log(PARTITION).values() == [b"first", b"second", b"third", b"fourth"]


def test_a_callback_hears_of_the_delivery() -> None:
    heard: list[int] = []

    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        async with Producer(cluster, QUICK) as producer:
            for _ in range(3):
                (await producer.send("t", b"v")).add_done_callback(lambda done: heard.append(done.result().offset))

    run(scenario)
    assert heard == [0, 1, 2]


def test_records_of_one_linger_share_a_batch_and_full_batches_do_not_wait() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        slow = ProducerSettings(linger_ms=10_000, batch_size=1_000)
        async with Producer(cluster, slow) as producer:
            for _ in range(10):
                await producer.send("t", b"x" * 190)
            await asyncio.sleep(0.05)
            sizes = [header.record_count for header in fake.log(PARTITION).headers]
            assert sizes == [4, 4]
            assert await producer.flush(timeout_ms=1_000)
            assert [header.record_count for header in fake.log(PARTITION).headers] == [4, 4, 2]

    run(scenario)


def test_without_linger_a_record_goes_at_once() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        async with Producer(cluster, ProducerSettings(linger_ms=0)) as producer:
            for number in range(20):
                assert (await asyncio.wait_for(_deliver(producer, b"%d" % number), 10)).offset == number

    async def _deliver(producer: Producer, value: bytes) -> Any:
        return await (await producer.send("t", value))

    run(scenario)


def test_values_and_records_in_bulk_tell_their_batches() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        async with Producer(cluster, ProducerSettings(linger_ms=1, batch_size=1_000)) as producer:
            batches = await producer.send_values("t", [b"v" * 90] * 20)
            assert sum([(await batch).record_count for batch in batches]) == 20
            records = [(b"k%d" % n, b"v", (("h", b"1"),)) for n in range(5)]
            (batch,) = await producer.send_records("t", records, partition=0)
            assert await batch == BatchDelivery("t", 0, 20, 5, -1)

    fake = run(scenario)
    assert fake.log(PARTITION).end_offset == 25


def test_a_key_decides_the_partition_and_records_without_one_stick_to_a_batch() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        async with Producer(cluster, QUICK) as producer:
            first = await (await producer.send("t", b"a", key=b"21"))
            for _ in range(3):
                assert (await (await producer.send("t", b"a", key=b"21"))).partition == first.partition
            chosen = {(await producer.send_values("t", [b"v"] * 10))[0].partition for _ in range(1)}
            assert len(chosen) == 1
            with pytest.raises(RequestError, match="partitions 0 to 7"):
                await producer.send("t", b"v", partition=8)

    run(scenario, partitions=8)


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT]
)
def test_a_retriable_refusal_is_tried_again_in_order(code: ErrorCode) -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        fake.faults[ApiKey.PRODUCE].extend([refusing(code)] * 3)
        async with Producer(cluster, ProducerSettings(linger_ms=1, batch_size=200)) as producer:
            pending = [await producer.send("t", b"%03d" % n + b"x" * 60) for n in range(12)]
            assert [(await one).offset for one in pending] == list(range(12))
            assert producer.failed_records == 0

    fake = run(scenario)
    assert [int(value[:3]) for value in fake.log(PARTITION).values() if value] == list(range(12))


def test_a_broken_connection_is_no_reason_to_lose_or_reorder() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        async with Producer(cluster, ProducerSettings(linger_ms=1, batch_size=200, timeout_ms=20)) as producer:
            pending = []
            for n in range(30):
                if n % 10 == 3:
                    fake.faults[ApiKey.PRODUCE].append(lambda *_: DROP)
                pending.append(await producer.send("t", b"%03d" % n + b"x" * 60))
                await asyncio.sleep(0.001)
            for one in pending:
                await one

    fake = run(scenario)
    assert [int(value[:3]) for value in fake.log(PARTITION).values() if value] == list(range(30))


def test_a_retry_keeps_producer_id_and_sequence() -> None:
    stamps: list[tuple[int, int, int]] = []

    def watch(request: Any, version: int) -> object:
        from kavka.records.batch import read_header

        header = read_header(request.topic_data[0].partition_data[0].records)
        stamps.append((header.producer_id, header.producer_epoch, header.base_sequence))
        return DROP if len(stamps) in (1, 2) else None

    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        fake.faults[ApiKey.PRODUCE].extend([watch] * 4)
        async with Producer(cluster, QUICK) as producer:
            for batch in await producer.send_values("t", [b"v"] * 7):
                await batch
            await (await producer.send("t", b"w"))

    run(scenario)
    assert stamps == [(4001, 0, 0), (4001, 0, 0), (4001, 0, 0), (4001, 0, 7)]


def test_a_batch_that_was_refused_for_good_leaves_its_sequence_to_the_next() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        fake.faults[ApiKey.PRODUCE].append(refusing(ErrorCode.MESSAGE_TOO_LARGE))
        async with Producer(cluster, QUICK) as producer:
            with pytest.raises(RequestError) as refusal:
                await (await producer.send("t", b"large"))
            assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE
            assert producer.failed_records == 1
            await (await producer.send("t", b"small"))

    fake = run(scenario)
    assert [header.base_sequence for header in fake.log(PARTITION).headers] == [0]


def test_a_broker_that_lost_the_sequence_gets_the_batch_under_a_new_id() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        async with Producer(cluster, QUICK) as producer:
            await (await producer.send("t", b"1"))
            fake.faults[ApiKey.PRODUCE].append(refusing(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
            assert (await (await producer.send("t", b"2"))).offset == 1
            fake.faults[ApiKey.PRODUCE].extend([refusing(ErrorCode.UNKNOWN_PRODUCER_ID)] * 2)
            with pytest.raises(RequestError, match="UNKNOWN_PRODUCER_ID"):
                await (await producer.send("t", b"3"))

    fake = run(scenario)
    headers = fake.log(PARTITION).headers
    assert [(header.producer_id, header.base_sequence) for header in headers] == [(4001, 0), (4002, 0)]


def test_a_batch_under_way_keeps_its_id_where_another_partition_needs_a_new_one() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        async with Producer(cluster, QUICK) as producer:
            await (await producer.send("t", b"0", partition=1))
            one = await producer.send("t", b"1", partition=0)
            other = await producer.send("t", b"1", partition=1)
            fake.faults[ApiKey.PRODUCE].append(
                _per_partition(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            )
            await one
            await other
            await (await producer.send("t", b"2", partition=0))

    fake = run(scenario, partitions=2)
    stamps = [[(h.producer_id, h.base_sequence) for h in log.headers] for log in fake.topics["t"]]
    assert stamps == [[(4001, 0), (4002, 0)], [(4001, 0), (4002, 0)]]


def _per_partition(*codes: ErrorCode) -> Callable[[Any, int], ProduceResponse]:
    def answer(request: Any, version: int) -> ProduceResponse:
        response = refusing(ErrorCode.NONE)(request, version)
        for partition in response.responses[0].partition_responses:
            partition.error_code = codes[partition.index]
        return response

    return answer


def test_a_duplicate_counts_as_delivered() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        fake.faults[ApiKey.PRODUCE].append(refusing(ErrorCode.DUPLICATE_SEQUENCE_NUMBER))
        async with Producer(cluster, QUICK) as producer:
            assert (await (await producer.send("t", b"v"))).offset == -1

    run(scenario)


def test_after_the_delivery_time_out_a_record_fails_and_says_whether_it_was_sent() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        settings = ProducerSettings(linger_ms=1, delivery_timeout_ms=60, timeout_ms=1)
        async with Producer(cluster, settings) as producer:
            fake.faults[ApiKey.PRODUCE].extend([lambda *_: DROP] * 1000)
            with pytest.raises(RequestError, match=r"and \d+ failures? it is unknown whether t-0 has") as failure:
                await (await producer.send("t", b"v"))
            assert failure.value.code is ErrorCode.REQUEST_TIMED_OUT
            fake.faults[ApiKey.PRODUCE].clear()
            # The broker may have the sequence of what failed: the next record comes under another id.
            await (await producer.send("t", b"w"))
            fake.log(PARTITION).leader = -1
            await cluster.refresh()
            with pytest.raises(RequestError, match="was not sent"):
                await (await producer.send("t", b"x", partition=0))

    fake = run(scenario)
    assert [header.producer_id for header in fake.log(PARTITION).headers] == [4002]


def test_a_leader_that_moves_is_followed() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        async with Producer(cluster, QUICK) as producer:
            await (await producer.send("t", b"1"))
            log = fake.log(PARTITION)
            log.leader, log.leader_epoch = 2, 1
            await (await producer.send("t", b"2"))
            log.leader, log.leader_epoch = 1, 2
            fake.stop(2)
            await (await producer.send("t", b"3"))

    assert run(scenario, brokers=2).log(PARTITION).values() == [b"1", b"2", b"3"]


def test_with_acks_0_nobody_answers_and_the_offset_is_unknown() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        async with Producer(cluster, ProducerSettings(acks=0, linger_ms=1)) as producer:
            assert (await (await producer.send("t", b"v"))).offset == -1

    fake = run(scenario)
    assert fake.log(PARTITION).values() == [b"v"]
    assert fake.log(PARTITION).headers[0].producer_id == -1
    assert fake.asked(ApiKey.INIT_PRODUCER_ID) == []


def test_a_full_buffer_holds_up_send_until_there_is_room() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        settings = ProducerSettings(linger_ms=1, buffer_memory=500, batch_size=300, timeout_ms=50)
        gate = asyncio.Event()
        fake.faults[ApiKey.PRODUCE].append(lambda *_: SILENCE)
        async with Producer(cluster, settings) as producer:

            async def send_all() -> None:
                for _ in range(20):
                    await producer.send("t", b"x" * 100)
                gate.set()

            task = asyncio.create_task(send_all())
            await asyncio.sleep(0.03)
            assert not gate.is_set()
            assert producer.buffered_bytes <= 500 + 140
            await task
            assert await producer.flush(timeout_ms=5_000)
            assert producer.delivered_records == 20

    run(scenario)


def test_one_request_carries_the_batches_of_a_broker_up_to_its_bound() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        settings = ProducerSettings(linger_ms=5, max_request_size=1_000)
        async with Producer(cluster, settings) as producer:
            for partition in range(6):
                await producer.send("t", b"x" * 300, partition=partition)

    fake = run(scenario, partitions=6)
    assert [len(request.topic_data[0].partition_data) for request in fake.asked(ApiKey.PRODUCE)] == [3, 3]


def test_no_more_requests_are_under_way_than_the_setting_says() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        settings = ProducerSettings(linger_ms=1, max_request_size=10, max_in_flight=2, timeout_ms=100)
        fake.faults[ApiKey.PRODUCE].extend([lambda *_: SILENCE] * 6)
        async with Producer(cluster, settings) as producer:
            for partition in range(6):
                await producer.send("t", b"x", partition=partition)
            async with asyncio.timeout(60):
                while not fake.asked(ApiKey.PRODUCE):  # noqa: ASYNC110 - the fake has no event for it
                    await asyncio.sleep(0.005)
            await asyncio.sleep(0.05)
            assert len(fake.asked(ApiKey.PRODUCE)) == 2
            fake.faults[ApiKey.PRODUCE].clear()
            assert await producer.flush(timeout_ms=5_000)

    run(scenario, partitions=6)


def test_an_unknown_topic_is_an_error_of_send() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        async with Producer(cluster, QUICK) as producer:
            with pytest.raises(RequestError) as refusal:
                await producer.send("nope", b"v")
            assert refusal.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(scenario)


def test_a_topic_that_a_broker_creates_is_waited_for() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        async with Producer(cluster, QUICK) as producer:
            asyncio.get_running_loop().call_later(0.05, lambda: fake.add_topic("new"))
            assert (await (await producer.send("new", b"v"))).offset == 0

    run(scenario)


def test_closing_without_time_fails_what_waits() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        producer = Producer(cluster, ProducerSettings(linger_ms=10_000))
        pending = await producer.send("t", b"v")
        await producer.close(timeout_ms=0)
        with pytest.raises(ConnectionFailed, match="closed before"):
            await pending
        with pytest.raises(ConnectionFailed, match="closed"):
            await producer.send("t", b"v")
        assert producer.buffered_bytes == 0

    run(scenario)


def test_a_refused_producer_id_fails_send() -> None:
    async def scenario(fake: FakeCluster, cluster: Cluster) -> None:
        refusal = InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        fake.faults[ApiKey.INIT_PRODUCER_ID].append(lambda *_: refusal)
        async with Producer(cluster, QUICK) as producer:
            with pytest.raises(RequestError, match="CLUSTER_AUTHORIZATION_FAILED"):
                await producer.send("t", b"v")

    run(scenario)


@pytest.mark.parametrize(
    "values",
    [{"acks": 2}, {"acks": 1, "enable_idempotence": True}, {"linger_ms": -1}, {"batch_size": 0}, {"max_in_flight": 0}],
)
def test_settings_out_of_range_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ProducerSettings(**values)
