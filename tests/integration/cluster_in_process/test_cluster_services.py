"""What clients get of three brokers, whichever of them they ask: topics, settings, groups; and who is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from kavka.broker.metadata.metadata_cache import GROUP_METADATA_TOPIC
from kavka.client.admin import Admin, ConfigChange, ConfigResource, NewTopic, ResourceType
from kavka.client.cluster import Cluster
from kavka.client.consumer import Consumer
from kavka.client.producer import Producer
from kavka.client.settings import ConsumerSettings, OffsetReset, ProducerSettings
from kavka.controller.decide.topic_plans import TopicRequest
from kavka.controller.term.controller_term import NotController
from kavka.decisions import DECISIONS_TOPIC, Decision, DecisionKind, decode_decision
from kavka.errors import ConfigError, ErrorCode, LogsElsewhere, RequestError
from kavka.model import TopicPartition
from kavka.zookeeper.znode_paths import partition_state_path, topic_path
from tests.integration.cluster_in_process.in_process_cluster import PATIENCE_S, InProcessCluster

TOPIC = "orders"


def runs(
    path: Path, scenario: Callable[[InProcessCluster], Awaitable[None]], settings: Mapping[str, str] | None = None
) -> None:
    async def run() -> None:
        async with InProcessCluster(path, settings=settings) as cluster:
            await cluster.wait_until_all_know([1, 2, 3])
            await scenario(cluster)
            assert cluster.halted == {}

    asyncio.run(asyncio.wait_for(run(), 280))


async def create(client: Cluster, *, partitions: int = 1, replicas: int = 3) -> None:
    assert await Admin(client).create_topics([NewTopic(TOPIC, partitions, replicas)]) == {}


async def write(client: Cluster, *values: bytes) -> None:
    async with Producer(client) as producer:
        for delivery in [await producer.send(TOPIC, value, partition=0) for value in values]:
            await delivery


async def set_topic(client: Cluster, **settings: str) -> None:
    changes = [ConfigChange(name.replace("_", "."), value) for name, value in settings.items()]
    await Admin(client).alter_configs({ConfigResource(ResourceType.TOPIC, TOPIC): changes})


def clean_marks(path: Path) -> int:
    return len(list(path.glob("broker-*/.kafka_cleanshutdown")))


# -- topics


def test_a_topic_is_created_through_any_broker(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        for broker_id in (1, 2, 3):
            name = f"made-by-{broker_id}"
            broker = cluster.broker(broker_id)
            assert broker.auto_creation.ask([name]) == {name: ErrorCode.LEADER_NOT_AVAILABLE}
            await cluster.until(lambda broker=broker, name=name: broker.metadata.topic(name) is not None, "it is known")  # type: ignore[misc]
            topic = broker.metadata.topic(name)
            assert topic is not None
            assert len(topic.partitions[0].replicas) == 3

    runs(tmp_path, scenario, {"default.replication.factor": "3"})


def test_who_is_not_the_controller_says_so(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        controller = cluster.controller_id
        for broker_id in (1, 2, 3):
            if broker_id != controller:
                with pytest.raises(NotController):
                    await cluster.broker(broker_id).topics.create_topics([TopicRequest(TOPIC, 1, 1)])
            assert cluster.broker(broker_id).metadata.controller_id == controller

    runs(tmp_path, scenario)


def test_a_deleted_topic_is_gone_everywhere_and_its_successor_begins_anew(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client)
            await write(client, b"old")
            assert await Admin(client).delete_topics([TOPIC]) == {}
            await cluster.until(
                lambda: all(
                    cluster.broker(broker_id).metadata.topic(TOPIC) is None
                    and cluster.broker(broker_id).replicas.partition(TOPIC, 0) is None
                    for broker_id in (1, 2, 3)
                ),
                "the topic is gone everywhere",
            )
            # Its znodes go last.
            while await Admin(client).create_topics([NewTopic(TOPIC, 1, 3)]):  # noqa: ASYNC110 - a broker is asked
                await asyncio.sleep(0.05)
            await cluster.wait_for_isr(TOPIC, 0, [1, 2, 3])
            await write(client, b"new")
            log = cluster.log(await cluster.leader(TOPIC), TOPIC)
            assert (log.log_start_offset, log.log_end_offset) == (0, 1)

    runs(tmp_path, scenario)


@pytest.mark.parametrize("part", ["topic", "state"])
def test_a_topic_that_a_new_controller_cannot_read_is_not_taken_for_deleted(tmp_path: Path, part: str) -> None:
    """Its committed offsets would be deleted with it."""

    async def scenario(cluster: InProcessCluster) -> None:
        partition = TopicPartition(TOPIC, 0)
        path = topic_path(TOPIC) if part == "topic" else partition_state_path(partition)
        async with cluster.client() as client:
            await create(client)
            await write(client, b"a", b"b", b"c")
            async with Consumer(client, ConsumerSettings(group_id="g")) as consumer:
                await consumer.commit({partition: 2})
            data, _ = await cluster.session.get(path)
            await cluster.session.set(path, b"\xff{")
            await cluster.stop(cluster.controller_id)
            await cluster.wait_until_all_know(cluster.running)
            await cluster.until(
                lambda: path in cluster.broker(cluster.controller_id).controller.context.malformed, "it was read"
            )
            await asyncio.sleep(0.5)
            await cluster.session.set(path, data)
            await cluster.until(
                lambda: all(cluster.broker(one).metadata.topic(TOPIC) is not None for one in cluster.running),
                "the topic is there",
            )
            async with Consumer(client, ConsumerSettings(group_id="g")) as consumer:
                assert await consumer.committed([partition]) == {partition: 2}

    runs(tmp_path, scenario)


def test_a_topic_deleted_while_a_broker_is_down_leaves_nothing_there(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client)
            await write(client, b"old")
            down = next(broker_id for broker_id in (1, 2, 3) if broker_id != cluster.controller_id)
            await cluster.stop(down)
            await Admin(client).delete_topics([TOPIC])
            broker = await cluster.start(down)
            await cluster.until(
                lambda: (
                    broker.metadata.topic(TOPIC) is None
                    and TOPIC not in {log.topic_partition.topic for log in broker.logs}
                ),
                "the returned broker has nothing of the topic",
            )
            # Its znodes go last.
            while await Admin(client).create_topics([NewTopic(TOPIC, 1, 3)]):  # noqa: ASYNC110 - a broker is asked
                await asyncio.sleep(0.05)
            await cluster.wait_for_isr(TOPIC, 0, [1, 2, 3])

    runs(tmp_path, scenario)


# -- settings


@pytest.mark.setting("max.message.bytes")
def test_settings_made_through_any_broker_hold_at_the_leader(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client)
            await cluster.wait_for_isr(TOPIC, 0, [1, 2, 3])
            await set_topic(client, min_insync_replicas="3")
            leader = await cluster.leader(TOPIC)
            partition = cluster.broker(leader).replicas.partition(TOPIC, 0)
            assert partition is not None
            await cluster.until(lambda: partition.min_insync_replicas == 3, "the leader obeys")
            gone = next(broker_id for broker_id in (1, 2, 3) if broker_id != leader)
            await cluster.stop(gone)
            await cluster.wait_for_isr(TOPIC, 0, [broker_id for broker_id in (1, 2, 3) if broker_id != gone])
            async with Producer(client, ProducerSettings(delivery_timeout_ms=500)) as producer:
                with pytest.raises(RequestError):
                    await (await producer.send(TOPIC, b"value", partition=0))
            # Refused before it was appended: NOT_ENOUGH_REPLICAS.
            assert cluster.log(await cluster.leader(TOPIC), TOPIC).log_end_offset == 0

    runs(tmp_path, scenario)


@pytest.mark.setting("unclean.leader.election.enable")
def test_an_offline_partition_is_led_by_who_is_left_once_that_is_allowed(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            assert await Admin(client).create_topics([NewTopic(TOPIC, assignments=[[1, 2]])]) == {}
            await write(client, b"kept")
            await cluster.kill(2)
            await cluster.wait_for_isr(TOPIC, 0, [1])
            await write(client, b"lost")
            await cluster.kill(1)
            await cluster.start(2)
            assert (await cluster.wait_until_offline(TOPIC)).isr == (1,)
            await set_topic(client, unclean_leader_election_enable="true")
            await cluster.wait_for_isr(TOPIC, 0, [2])
            await cluster.start(1)
            await cluster.wait_for_isr(TOPIC, 0, [1, 2])
            assert cluster.log(1, TOPIC).log_end_offset == 1

    runs(tmp_path, scenario)


# -- groups


def test_a_group_goes_on_where_it_was_when_its_coordinator_dies(tmp_path: Path) -> None:
    settings = ConsumerSettings(group_id="group", auto_offset_reset=OffsetReset.EARLIEST, enable_auto_commit=False)

    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client)
            await write(client, *(b"%d" % number for number in range(10)))
            partition = TopicPartition(TOPIC, 0)
            async with Consumer(client, settings) as consumer:
                await consumer.subscribe([TOPIC])
                read: list[bytes | None] = []
                while len(read) < 5:
                    read += [record.value for record in await consumer.poll(max_records=1)]
                await consumer.commit({partition: 5})
            coordinator = await client.find_coordinator("group")
            await cluster.kill(coordinator)
            async with Consumer(client, settings) as consumer:
                await consumer.subscribe([TOPIC])
                rest: list[bytes | None] = []
                async with asyncio.timeout(PATIENCE_S):
                    while len(rest) < 5:
                        rest += [record.value for record in await consumer.poll()]
            assert rest == [b"5", b"6", b"7", b"8", b"9"]
            assert await client.find_coordinator("group") != coordinator

    runs(tmp_path, scenario, {"offsets.topic.replication.factor": "3", "min.insync.replicas": "1"})


def test_a_rebalance_leaves_a_record_that_says_why(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client)
            settings = ConsumerSettings(group_id="g", auto_offset_reset=OffsetReset.EARLIEST)
            async with Consumer(client, settings) as consumer:
                await consumer.subscribe([TOPIC])
                member_id, generation = consumer.membership
            told: list[Decision] = []
            async with Consumer(client, ConsumerSettings(auto_offset_reset=OffsetReset.EARLIEST)) as consumer:
                await consumer.assign_topic(DECISIONS_TOPIC)
                async with asyncio.timeout(PATIENCE_S):
                    while len(told) < 2:
                        found = [decode_decision(record.value or b"").decision for record in await consumer.poll()]
                        told += [each for each in found if each.kind is DecisionKind.GROUP_REBALANCED]
        joined, left = told
        assert joined.subject == left.subject == "group g"
        assert f"member {member_id} joins from " in joined.why
        assert joined.after == {"generation": generation, "members": 1}
        assert f"member {member_id} leaves: the consumer is closed" in left.why
        assert left.after == {"generation": generation + 1, "members": 0}

    runs(tmp_path, scenario)


def test_every_broker_names_the_same_coordinator(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        other = next(broker_id for broker_id in (1, 2, 3) if broker_id != cluster.controller_id)
        await cluster.broker(other).ensure_internal_topic(GROUP_METADATA_TOPIC)
        await cluster.until(
            lambda: all(
                cluster.broker(broker_id).metadata.topic("__consumer_offsets") is not None for broker_id in (1, 2, 3)
            ),
            "all brokers know the offsets topic",
        )
        for group in ("a", "b", "c", "d"):
            brokers = [cluster.broker(broker_id) for broker_id in (1, 2, 3)]
            indexes = {broker.groups.partition_for(group) for broker in brokers}
            named = {
                broker.coordinator_partition("__consumer_offsets", index).state.leader
                for broker in brokers
                for index in indexes
            }
            assert len(named) == 1
            coordinator = named.pop()
            await cluster.until(lambda group=group: _serves(cluster, coordinator, group), f"{group} is served")  # noqa: B023
            assert [b for b in (1, 2, 3) if _serves(cluster, b, group)] == [coordinator]

    runs(tmp_path, scenario)


def _serves(cluster: InProcessCluster, broker_id: int, group: str) -> bool:
    try:
        cluster.broker(broker_id).groups.describe_group(group)
    except RequestError:
        return False
    return True


# -- sessions and ids


@pytest.mark.setting("zookeeper.session.timeout.ms")
def test_a_broker_whose_session_expired_comes_back_as_another(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client)
            await cluster.wait_for_isr(TOPIC, 0, [1, 2, 3])
            leader = await cluster.leader(TOPIC)
            broker = cluster.broker(leader)
            epoch = broker.broker_epoch
            await cluster.zookeeper.expire(broker.session_id)
            await cluster.until(lambda: broker.broker_epoch > epoch, "it registered anew")
            await cluster.wait_for_isr(TOPIC, 0, [1, 2, 3])
            await write(client, b"value")

    runs(tmp_path, scenario)


def test_a_controller_whose_session_expired_is_replaced_and_all_go_on(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client, partitions=3)
            for _ in range(3):
                broker = cluster.broker(cluster.controller_id)
                epoch = broker.broker_epoch
                await cluster.zookeeper.expire(broker.session_id)
                await cluster.until(lambda: broker.broker_epoch > epoch, "it registered anew")  # noqa: B023
                await cluster.until(lambda: cluster.controller_id > 0, "there is a controller")
                for partition in range(3):
                    await cluster.wait_for_isr(TOPIC, partition, [1, 2, 3])
            await write(client, b"value")

    runs(tmp_path, scenario)


def test_a_second_broker_with_the_same_id_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kavka.broker.membership.registration.EXPIRY_SLACK_MS", 0)

    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client)  # A broker that holds nothing may begin on any directory.
        for given_up, why in (
            ("", r"is registered: if another one is alive, give this one a broker\.id"),
            (str(tmp_path / "broker-1"), r"broker\.id 1 is taken"),
        ):
            settings = {"zookeeper.session.timeout.ms": "300", "kavka.abandoned.log.dirs": given_up}
            other = InProcessCluster(tmp_path / "other", count=1, settings=settings)
            other.zookeeper = cluster.zookeeper
            with pytest.raises(LogsElsewhere if not given_up else ConfigError, match=why):
                await other.start(1)
        async with cluster.client() as client:
            await write(client, b"value")

    runs(tmp_path, scenario)


def test_the_last_broker_stops_at_once(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client, partitions=3)
        began = asyncio.get_running_loop().time()
        for broker_id in (1, 2, 3):
            await cluster.stop(broker_id)
        assert asyncio.get_running_loop().time() - began < 30
        assert clean_marks(tmp_path) == 3

    runs(tmp_path, scenario)


def test_brokers_that_stop_at_once_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """None of them can lead on: the last one asked three times, and waited between."""

    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client, partitions=6)
            await cluster.wait_for_isr(TOPIC, 5, [1, 2, 3])
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(cluster.stop(broker_id) for broker_id in (1, 2, 3)))
        assert asyncio.get_running_loop().time() - began < 40
        assert clean_marks(tmp_path) == 3

    runs(tmp_path, scenario, {"controlled.shutdown.retry.backoff.ms": "45000"})


def test_what_brokers_decided_is_kept_by_the_others(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        async with cluster.client() as client:
            await create(client)
            await cluster.until(
                lambda: cluster.broker(1).metadata.topic(DECISIONS_TOPIC) is not None, "there is a topic of decisions"
            )
            told: list[str] = []
            async with Consumer(client, ConsumerSettings(auto_offset_reset=OffsetReset.EARLIEST)) as consumer:
                consumer.assign([TopicPartition(DECISIONS_TOPIC, 0)])
                async with asyncio.timeout(2 * PATIENCE_S):
                    for elections in (1, 2):
                        while told.count("controller elected") < elections:
                            told += [
                                decode_decision(record.value or b"").decision.kind.value
                                for record in await consumer.poll()
                            ]
                        if elections == 1:
                            await cluster.kill(cluster.controller_id)
            # That the dead one was elected is known from its own record.
            assert "topic created" in told

    runs(tmp_path, scenario)
