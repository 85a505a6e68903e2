"""kavka's client reads what transactions of another client left: committed, aborted, and open."""

import asyncio
from collections.abc import Callable

import pytest
from confluent_kafka import Producer as PeerProducer

from kavka.client.admin import Admin, NewTopic
from kavka.client.cluster import Cluster, parse_bootstrap
from kavka.client.consumer import Consumer
from kavka.client.settings import ConsumerSettings, OffsetReset
from kavka.runtime.network import SocketNetwork


@pytest.fixture(
    scope="module",
    params=[
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

    asyncio.run(asyncio.wait_for(main(), 100))
