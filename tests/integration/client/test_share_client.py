"""The share consumer on a broker: what docs/groups.md shows, two members of one group, renewals, and a member that
falls silent."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter

from kavka.client.admin import Admin, ConfigChange, ConfigResource, NewTopic, ResourceType
from kavka.client.cluster import Cluster, parse_bootstrap
from kavka.client.producer import Producer
from kavka.client.settings import ShareConsumerSettings
from kavka.client.share_consumer import ShareConsumer
from kavka.client.share_session import AcknowledgeType
from kavka.runtime.network.network import SocketNetwork
from tests.kit.kavka_process import KavkaProcess

RECORDS = 60


async def _prepared(cluster: Cluster, **settings: str) -> str:
    """A topic of three partitions with numbered records, and a group of its name that begins at the first."""
    name = f"jobs-{uuid.uuid4().hex}"
    admin = Admin(cluster)
    await admin.create_topics([NewTopic(name, 3)])
    wanted = {"share.auto.offset.reset": "earliest", **settings}
    changes = [ConfigChange(each, value) for each, value in wanted.items()]
    await admin.alter_configs({ConfigResource(ResourceType.GROUP, name): changes})
    async with Producer(cluster) as producer:
        for number in range(RECORDS):
            await producer.send(name, str(number).encode(), partition=number % 3)
    return name


def test_two_members_do_each_record_once(kavka_broker: KavkaProcess) -> None:
    async def main() -> None:
        async with Cluster(SocketNetwork(), parse_bootstrap(kavka_broker.bootstrap)) as cluster:
            name = await _prepared(cluster)
            accepted: Counter[int] = Counter()
            released: set[int] = set()

            async def work() -> None:
                async with ShareConsumer(cluster, ShareConsumerSettings(group_id=name, max_records=5)) as consumer:
                    await consumer.subscribe([name])
                    while len(accepted) < RECORDS:
                        for record in await consumer.poll(timeout_ms=200):
                            number = int(record.value or b"")
                            if number % 10 == 0 and number not in released:
                                released.add(number)
                                consumer.acknowledge(record, AcknowledgeType.RELEASE)
                                continue
                            assert record.delivery_count == (2 if number % 10 == 0 else 1)
                            accepted[number] += 1
                            consumer.acknowledge(record)
                    assert await consumer.commit() == []

            await asyncio.wait_for(asyncio.gather(work(), work()), 60)
            assert accepted == Counter(range(RECORDS))
            assert len(released) == RECORDS // 10

    asyncio.run(main())


def test_a_renewed_lock_outlives_its_time_and_others_do_not(kavka_broker: KavkaProcess) -> None:
    async def main() -> None:
        async with Cluster(SocketNetwork(), parse_bootstrap(kavka_broker.bootstrap)) as cluster:
            name = await _prepared(cluster)
            settings = ShareConsumerSettings(group_id=name, max_records=1, record_limit=True)
            async with ShareConsumer(cluster, settings) as holder, ShareConsumer(cluster, settings) as silent:
                await holder.subscribe([name])
                held: list[object] = []
                while not held:
                    held += await holder.poll(timeout_ms=500)
                assert (len(held), holder.held) == (1, 1)
                assert holder.lock_timeout_ms == 30_000
                await holder.renew()
                assert (holder.held, holder.lost()) == (1, [])
                await silent.subscribe([name])
                others: list[object] = []
                while not others:
                    others += await silent.poll(timeout_ms=500)
                assert others != held

    asyncio.run(main())
