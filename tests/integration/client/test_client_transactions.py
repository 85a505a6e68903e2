"""kavka's client reads what transactions of another client left, and writes transactions of its own."""

import asyncio
from collections.abc import Callable

import pytest
from confluent_kafka import Producer as PeerProducer

from kavka.client.admin import Admin, NewTopic
from kavka.client.cluster import Cluster, parse_bootstrap
from kavka.client.consumer import Consumer
from kavka.client.offsets import LATEST, list_offsets
from kavka.client.producer import Producer
from kavka.client.settings import ConsumerSettings, OffsetReset, ProducerSettings
from kavka.client.transactions import GroupMetadata, ProducerFenced, TransactionBroken, WrongState
from kavka.model import TopicPartition
from kavka.runtime.network.network import SocketNetwork


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("kavka_broker", id="kavka"),
        pytest.param("apache_kafka", id="kafka-zk", marks=pytest.mark.kafka),
        pytest.param("apache_kafka_kraft", id="kafka-kraft", marks=pytest.mark.kafka),
    ],
)
def transactional_bootstrap(request: pytest.FixtureRequest) -> str:
    """host:port of a broker with transactions."""
    return str(request.getfixturevalue(request.param).bootstrap)


def test_aborted_records_are_left_out_and_open_ones_waited_for(
    transactional_bootstrap: str, fresh: Callable[[str], str]
) -> None:
    topic = fresh("transactions")

    def transaction(name: str, values: list[bytes], *, commit: bool) -> None:
        producer = PeerProducer({"bootstrap.servers": transactional_bootstrap, "transactional.id": f"{topic}-{name}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        producer.flush(30)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)

    async def main() -> None:
        async with Cluster(SocketNetwork(), parse_bootstrap(transactional_bootstrap)) as cluster:
            assert await Admin(cluster).create_topics([NewTopic(topic, 1, 1)]) == {}
            for number in range(3):
                await asyncio.to_thread(transaction, "a", [b"kept %d" % number] * 2, commit=True)
                await asyncio.to_thread(transaction, "b", [b"dropped"] * 3, commit=False)
            stays_open = PeerProducer(
                {"bootstrap.servers": transactional_bootstrap, "transactional.id": f"{topic}-open"}
            )
            await asyncio.to_thread(stays_open.init_transactions, 30)
            stays_open.begin_transaction()
            stays_open.produce(topic, b"open", partition=0)
            await asyncio.to_thread(stays_open.flush, 30)
            seen: dict[bool, list[bytes | None]] = {}
            for read_committed in (True, False):
                settings = ConsumerSettings(
                    auto_offset_reset=OffsetReset.EARLIEST, read_committed=read_committed, fetch_max_wait_ms=100
                )
                async with Consumer(cluster, settings) as consumer:
                    await consumer.assign_topic(topic)
                    ends = await consumer.end_offsets()
                    seen[read_committed] = []
                    while not consumer.reached(ends):
                        seen[read_committed] += [record.value for record in await consumer.poll()]
            await asyncio.to_thread(stays_open.abort_transaction, 30)
            assert seen[True] == [b"kept %d" % number for number in range(3) for _ in range(2)]
            assert len(seen[False]) == 16
            assert seen[False][-1] == b"open"

    asyncio.run(asyncio.wait_for(main(), 280))


async def written(cluster: Cluster, topic: str) -> list[bytes | None]:
    """What a reader of committed records sees, once no transaction is open."""
    settings = ConsumerSettings(auto_offset_reset=OffsetReset.EARLIEST, read_committed=True, fetch_max_wait_ms=50)
    async with Consumer(cluster, settings) as consumer:
        await consumer.assign_topic(topic)
        place = TopicPartition(topic, 0)
        ends, stable = await list_offsets(cluster, {place: LATEST}), {}
        while stable != ends:  # The marker of the last transaction may be on its way, before either question.
            stable = await list_offsets(cluster, {place: LATEST}, read_committed=True)
            ends = await list_offsets(cluster, {place: LATEST})
        values: list[bytes | None] = []
        while not consumer.reached({place: found.offset for place, found in ends.items()}):
            values += [record.value for record in await consumer.poll()]
        return values


def test_kavkas_own_producer_commits_aborts_and_sends_offsets(
    transactional_bootstrap: str, fresh: Callable[[str], str]
) -> None:
    topic, group = fresh("own"), fresh("group")
    place = TopicPartition(topic, 0)

    async def main() -> None:
        async with Cluster(SocketNetwork(), parse_bootstrap(transactional_bootstrap)) as cluster:
            assert await Admin(cluster).create_topics([NewTopic(topic, 1, 1)]) == {}
            settings = ProducerSettings(transactional_id=topic)
            async with Producer(cluster, settings) as producer:
                with pytest.raises(WrongState):
                    await producer.send(topic, b"before init")
                await producer.init_transactions()
                with pytest.raises(WrongState):
                    await producer.send(topic, b"outside")
                with pytest.raises(WrongState):
                    await producer.commit_transaction()
                for number in range(5):
                    producer.begin_transaction()
                    for value in (b"%d" % number, b"%d again" % number):
                        await producer.send(topic, value, partition=0)
                    await producer.send_offsets_to_transaction({place: number}, GroupMetadata(group))
                    await (producer.abort_transaction() if number % 2 else producer.commit_transaction())
                producer.begin_transaction()
                await producer.commit_transaction()
                assert await written(cluster, topic) == [
                    b"%d%s" % (number, more) for number in (0, 2, 4) for more in (b"", b" again")
                ]
                async with Consumer(cluster, ConsumerSettings(group_id=group)) as consumer:
                    assert await consumer.committed([place]) == {place: 4}

    asyncio.run(asyncio.wait_for(main(), 280))


def test_kavkas_own_producer_is_fenced_by_the_next_one(
    transactional_bootstrap: str, fresh: Callable[[str], str]
) -> None:
    topic = fresh("fenced")

    async def main() -> None:
        async with Cluster(SocketNetwork(), parse_bootstrap(transactional_bootstrap)) as cluster:
            assert await Admin(cluster).create_topics([NewTopic(topic, 1, 1)]) == {}
            settings = ProducerSettings(transactional_id=topic)
            async with Producer(cluster, settings) as zombie, Producer(cluster, settings) as heir:
                await zombie.init_transactions()
                zombie.begin_transaction()
                await (await zombie.send(topic, b"zombie's", partition=0))
                await heir.init_transactions()
                heir.begin_transaction()
                await heir.send(topic, b"heir's", partition=0)
                with pytest.raises(ProducerFenced):
                    await zombie.commit_transaction()
                await heir.commit_transaction()
                assert await written(cluster, topic) == [b"heir's"]

    asyncio.run(asyncio.wait_for(main(), 280))


def test_a_batch_that_is_refused_breaks_its_transaction_and_no_other(
    transactional_bootstrap: str, fresh: Callable[[str], str]
) -> None:
    topic = fresh("broken")

    async def main() -> None:
        async with Cluster(SocketNetwork(), parse_bootstrap(transactional_bootstrap)) as cluster:
            assert await Admin(cluster).create_topics([NewTopic(topic, 1, 1, {"max.message.bytes": "2000"})]) == {}
            async with Producer(cluster, ProducerSettings(transactional_id=topic)) as producer:
                await producer.init_transactions()
                producer.begin_transaction()
                await producer.send(topic, b"too large" * 1000, partition=0)
                with pytest.raises(TransactionBroken):
                    await producer.commit_transaction()
                with pytest.raises(TransactionBroken):
                    await producer.send(topic, b"late", partition=0)
                await producer.abort_transaction()
                producer.begin_transaction()
                await producer.send(topic, b"kept", partition=0)
                await producer.commit_transaction()
                assert await written(cluster, topic) == [b"kept"]

    asyncio.run(asyncio.wait_for(main(), 280))
