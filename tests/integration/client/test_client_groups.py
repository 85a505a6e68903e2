"""kavka's client in consumer groups, against a running broker."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kavka.client.admin import Admin, NewTopic
from kavka.client.cluster import Cluster, parse_bootstrap
from kavka.client.consumer import Consumer, ConsumerRecord
from kavka.client.producer import Producer
from kavka.client.settings import ConsumerSettings, OffsetReset
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.runtime.network.network import SocketNetwork

Fresh = Callable[[str], str]


def run(bootstrap: str, scenario: Callable[[Cluster, Admin], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Cluster(SocketNetwork(), parse_bootstrap(bootstrap)) as cluster:
            await scenario(cluster, Admin(cluster))

    asyncio.run(asyncio.wait_for(main(), 280))


def settings(group_id: str) -> ConsumerSettings:
    return ConsumerSettings(
        group_id=group_id,
        auto_offset_reset=OffsetReset.EARLIEST,
        enable_auto_commit=False,
        heartbeat_interval_ms=200,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        fetch_max_wait_ms=100,
    )


async def filled(cluster: Cluster, admin: Admin, name: str, *, partitions: int, count: int) -> str:
    assert await admin.create_topics([NewTopic(name, partitions, 1)]) == {}
    async with Producer(cluster) as producer:
        for partition in range(partitions):
            await producer.send_values(name, [b"%d-%d" % (partition, n) for n in range(count)], partition=partition)
    return name


async def take(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    while len(records) < count:
        records += await consumer.poll(max_records=count - len(records))
    return records


def test_a_group_goes_on_where_it_committed(bootstrap: str, fresh: Fresh) -> None:
    async def scenario(cluster: Cluster, admin: Admin) -> None:
        topic, group = await filled(cluster, admin, fresh("topic"), partitions=1, count=10), fresh("group")
        async with Consumer(cluster, settings(group)) as first:
            await first.subscribe([topic])
            assert [record.offset for record in await take(first, 4)] == [0, 1, 2, 3]
            await first.commit()
            await take(first, 2)
        async with Consumer(cluster, settings(group)) as second:
            await second.subscribe([topic])
            assert [record.offset for record in await take(second, 6)] == [4, 5, 6, 7, 8, 9]
        assert (await admin.groups.offsets(group))[TopicPartition(topic, 0)].offset == 4

    run(bootstrap, scenario)


def test_positions_are_committed_when_a_consumer_closes(bootstrap: str, fresh: Fresh) -> None:
    async def scenario(cluster: Cluster, admin: Admin) -> None:
        topic, group = await filled(cluster, admin, fresh("topic"), partitions=1, count=10), fresh("group")
        async with Consumer(
            cluster, ConsumerSettings(group_id=group, auto_offset_reset=OffsetReset.EARLIEST)
        ) as consumer:
            await consumer.subscribe([topic])
            await take(consumer, 7)
        assert (await admin.groups.offsets(group))[TopicPartition(topic, 0)].offset == 7

    run(bootstrap, scenario)


def test_members_share_the_partitions_and_take_over_from_one_that_leaves(bootstrap: str, fresh: Fresh) -> None:
    async def scenario(cluster: Cluster, admin: Admin) -> None:
        topic, group = await filled(cluster, admin, fresh("topic"), partitions=4, count=20), fresh("group")
        first, second = Consumer(cluster, settings(group)), Consumer(cluster, settings(group))
        seen: set[tuple[int, int]] = set()

        async def poll(consumer: Consumer) -> None:
            for record in await consumer.poll(timeout_ms=50):
                seen.add((record.partition, record.offset))

        await first.subscribe([topic])
        assert len(first.assignment) == 4
        joining = asyncio.create_task(second.subscribe([topic]))
        while not joining.done():
            await poll(first)
        while len(first.assignment) != 2:
            await poll(first)
        assert sorted(first.assignment + second.assignment) == [TopicPartition(topic, n) for n in range(4)]
        while len(seen) < 80:
            await poll(first)
            await poll(second)
        description = await admin.groups.describe(group)
        assert (description.state, len(description.members)) == ("Stable", 2)
        assert sorted(p for m in description.members for p in m.assignment) == [
            TopicPartition(topic, n) for n in range(4)
        ]
        await second.close()
        while len(first.assignment) != 4:
            await poll(first)
        assert group in {listing.group_id for listing in await admin.groups.list_groups()}
        await first.close()
        assert (await admin.groups.describe(group)).state == "Empty"
        await admin.groups.delete(group)
        assert (await admin.groups.describe(group)).state == "Dead"

    run(bootstrap, scenario)


def test_offsets_may_be_set_for_a_group_without_members_only(bootstrap: str, fresh: Fresh) -> None:
    async def scenario(cluster: Cluster, admin: Admin) -> None:
        topic, group = await filled(cluster, admin, fresh("topic"), partitions=1, count=10), fresh("group")
        partition = TopicPartition(topic, 0)
        await admin.groups.set_offsets(group, {partition: 8})
        async with Consumer(cluster, settings(group)) as consumer:
            await consumer.subscribe([topic])
            assert [record.offset for record in await take(consumer, 2)] == [8, 9]
            with pytest.raises(RequestError) as refusal:
                await admin.groups.set_offsets(group, {partition: 0})
            assert refusal.value.code is ErrorCode.UNKNOWN_MEMBER_ID
            with pytest.raises(RequestError) as refusal:
                await admin.groups.delete(group)
            assert refusal.value.code is ErrorCode.NON_EMPTY_GROUP

    run(bootstrap, scenario)
