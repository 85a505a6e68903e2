"""Controlled shutdown: what a leaving broker hands over, what it keeps, and when that is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.controller.decide.topic_plans import TopicRequest
from kavka.controller.work import controlled_shutdown
from kavka.decisions import DecisionKind
from kavka.errors import ErrorCode, RequestError
from kavka.model import BrokerId, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.zookeeper.znodes import PartitionState
from tests.unit.controller.scripted_brokers import Brokers, run, until


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


async def create(cluster: Brokers, **replicas: list[int]) -> None:
    for name, brokers in replicas.items():
        wish = TopicRequest(name, assignment={0: brokers})
        (outcome,) = await cluster.controller.controller.topics.create_topics([wish])
        assert outcome.code is ErrorCode.NONE


def test_a_leaving_broker_hands_over_what_it_leads_and_stops_what_it_follows(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        await create(cluster, led=[2, 3], followed=[3, 2], alone=[2])
        controller = cluster[1].controller
        remaining = await controller.controlled_shutdown(BrokerId(2), cluster[2].epoch)
        assert remaining == []
        assert await cluster.state("led") == PartitionState(BrokerId(3), 1, ids(3), 1)
        assert await cluster.state("followed") == PartitionState(BrokerId(3), 1, ids(3), 1)
        assert await cluster.state("alone") == PartitionState(BrokerId(2), 0, ids(2), 1), "nobody else has it"
        await until(lambda: cluster[2].inside.leads("led", 0) == (3, 1, [3]))
        await until(lambda: bool(cluster[2].inside.told(ApiKey.STOP_REPLICA)))
        (stop,) = cluster[2].inside.told(ApiKey.STOP_REPLICA)
        (topic,) = stop.topic_states
        (partition,) = topic.partition_states
        assert (topic.topic_name, partition.leader_epoch, partition.delete_partition) == ("followed", 1, False)
        assert cluster[2].inside.leads("followed", 0) == (3, 0, [3, 2]), "it was told to stop, not to follow"
        (why,) = cluster[1].reasons(DecisionKind.BROKER_SHUTTING_DOWN)
        assert "that it still leads: 0" in why

    run(tmp_path, scenario)


def test_what_a_leaving_broker_has_is_handed_over_a_part_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controlled_shutdown, "PARTITIONS_PER_WRITE", 2)

    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        led = {f"led-{number}": [2, 3] for number in range(3)}
        await create(cluster, **led, followed=[3, 2])
        inside = cluster[3].inside
        before = len(inside.told(ApiKey.LEADER_AND_ISR))
        remaining = await cluster[1].controller.controlled_shutdown(BrokerId(2), cluster[2].epoch)
        assert remaining == []
        for name in (*led, "followed"):
            assert await cluster.state(name) == PartitionState(BrokerId(3), 1, ids(3), 1)
        await until(lambda: inside.leads("followed", 0) == (3, 1, [3]))
        assert [inside.leads(name, 0) for name in led] == [(3, 1, [3])] * 3
        assert len(inside.told(ApiKey.LEADER_AND_ISR)) == before + 2
        await until(lambda: len(cluster[2].inside.told(ApiKey.STOP_REPLICA)) == 1)

    run(tmp_path, scenario)


def test_a_leaving_broker_wins_no_election_and_joins_no_isr_until_it_is_registered_anew(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        await create(cluster, t=[2, 3])
        controller = cluster[1].controller
        await controller.controlled_shutdown(BrokerId(3), cluster[3].epoch)
        assert (await cluster.state("t")).isr == (2,)
        assert dict(controller.context.shutting_down) == {3: cluster[3].epoch}
        await create(cluster, later=[3, 2])
        assert (await cluster.state("later")).leader == 2
        cluster.kill(3)
        await cluster.restart(3)
        assert not controller.context.shutting_down

    run(tmp_path, scenario)


def test_leaders_hear_that_a_broker_leaves_before_they_lead_more(tmp_path: Path) -> None:
    """They propose it for no ISR then. It follows them until it stops."""

    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        await create(cluster, t=[2, 3])
        await cluster.settled()
        before = len(cluster[3].inside.received)
        assert await cluster[1].controller.controlled_shutdown(BrokerId(2), cluster[2].epoch) == []
        await until(lambda: cluster[3].inside.leads("t", 0) == (3, 1, [3]))
        key, first = cluster[3].inside.received[before]
        assert key is ApiKey.UPDATE_METADATA
        leaving = [broker.id for broker in first.live_brokers if broker.kavka_is_shutting_down]
        assert (leaving, first.topic_states) == ([2], [])

    run(tmp_path, scenario)


def test_what_nobody_can_take_over_remains_and_is_asked_for_again(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        await create(cluster, t=[2, 3])
        cluster.kill(3)
        await cluster.until_state("t", 2, [2])
        controller = cluster[1].controller
        assert await controller.controlled_shutdown(BrokerId(2), cluster[2].epoch) == [TopicPartition("t", 0)]
        assert (await cluster.state("t")).leader == 2, "it is served until the broker is gone"
        assert await controller.controlled_shutdown(BrokerId(2), -1) == [TopicPartition("t", 0)]

    run(tmp_path, scenario)


def test_a_leaving_leader_is_not_taken_for_dead_when_another_broker_dies(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        await create(cluster, alone=[2], other=[3])
        controller = cluster[1].controller
        await controller.controlled_shutdown(BrokerId(2), cluster[2].epoch)
        cluster.kill(3)
        await cluster.until_state("other", -1, [3])
        assert await cluster.state("alone") == PartitionState(BrokerId(2), 0, ids(2), 1)

    run(tmp_path, scenario)


def test_the_controller_itself_can_leave(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        await create(cluster, t=[1, 2])
        controller = cluster[1].controller
        assert await controller.controlled_shutdown(BrokerId(1), cluster[1].epoch) == []
        assert await cluster.state("t") == PartitionState(BrokerId(2), 1, ids(2), 1)
        await controller.stop()
        await until(lambda: cluster[2].controller.is_active)

    run(tmp_path, scenario)


def test_another_life_and_an_unknown_broker_are_refused(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        controller = cluster[1].controller
        for broker_id, epoch, code in [
            (2, cluster[2].epoch - 1, ErrorCode.STALE_BROKER_EPOCH),
            (9, -1, ErrorCode.BROKER_NOT_AVAILABLE),
        ]:
            with pytest.raises(RequestError) as refused:
                await controller.controlled_shutdown(BrokerId(broker_id), epoch)
            assert refused.value.code is code
        assert not controller.context.shutting_down

    run(tmp_path, scenario)
