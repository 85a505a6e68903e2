"""Eligible leader replicas through the controller's flows: S21 with the option and without, and who acts once."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from kavka.controller.controller import ControllerSettings
from kavka.controller.decide.topic_plans import TopicRequest
from kavka.decisions import DecisionKind
from kavka.errors import ErrorCode
from kavka.model import NO_LEADER, TopicPartition
from kavka.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from kavka.zookeeper.znode_paths import partition_state_path
from kavka.zookeeper.znodes import UncleanShutdowns
from tests.unit.controller.scripted_brokers import Brokers, run

T0 = TopicPartition("t", 0)


def settings(min_insync_replicas: dict[str, int] | None) -> ControllerSettings:
    """`min_insync_replicas` by topic, which may change; None where eligible leader replicas are not kept."""
    if min_insync_replicas is None:
        return ControllerSettings(fast_failover=False)
    return ControllerSettings(fast_failover=False, min_insync_replicas=min_insync_replicas.__getitem__)


async def begin(cluster: Brokers, min_insync_replicas: dict[str, int] | None) -> uuid.UUID:
    """Broker 4 is the controller; 1 leads, 2 and 3 follow."""
    await cluster.join(4, 1, 2, 3, settings=settings(min_insync_replicas))
    (outcome,) = await cluster[4].controller.topics.create_topics([TopicRequest("t", assignment={0: [1, 2, 3]})])
    assert outcome.code is ErrorCode.NONE
    topic_id = cluster[4].controller.context.topics["t"].topic_id
    assert topic_id is not None
    return topic_id


async def propose(cluster: Brokers, topic_id: uuid.UUID, leader: int, *isr: int) -> None:
    known = cluster.controller.controller.context.states[T0]
    proposed = PartitionData(
        partition_index=0,
        leader_epoch=known.state.leader_epoch,
        partition_epoch=known.version,
        new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=cluster[each].epoch) for each in isr],
    )
    request = AlterPartitionRequest(
        broker_id=leader,
        broker_epoch=cluster[leader].epoch,
        topics=[TopicData(topic_id=topic_id, partitions=[proposed])],
    )
    answer = await cluster.controller.controller.alter_partition(request, 3)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


async def stored(cluster: Brokers) -> dict[str, Any]:
    data, _ = await cluster.admin.get(partition_state_path(T0))
    assert data is not None
    found: dict[str, Any] = json.loads(data)
    return {key: found[key] for key in found if key not in ("controller_epoch", "leader_epoch", "version")}


def test_s21_the_last_one_standing_is_back_without_its_tail_and_the_eligible_one_leads(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        topic_id = await begin(cluster, {"t": 2})
        await propose(cluster, topic_id, 1, 1, 3)
        assert await stored(cluster) == {"leader": 1, "isr": [1, 3]}, "two are enough"
        await propose(cluster, topic_id, 1, 1)
        assert await stored(cluster) == {"leader": 1, "isr": [1], "eligible_leader_replicas": [3]}
        cluster.kill(3)
        await cluster.expire(3)
        assert await stored(cluster) == {"leader": 1, "isr": [1], "eligible_leader_replicas": [3]}
        cluster.kill(1)
        await cluster.until_state("t", NO_LEADER, [1])
        await cluster.restart(1, is_unclean=True)
        assert await stored(cluster) == {"leader": -1, "isr": [3], "last_known_elr": [1]}
        await cluster.restart(3)
        assert await stored(cluster) == {"leader": 3, "isr": [3]}
        await propose(cluster, topic_id, 3, 3, 1)
        assert await stored(cluster) == {"leader": 3, "isr": [3, 1]}

    run(tmp_path, scenario)


def test_s21_the_eligible_one_that_lives_leads_at_once(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        topic_id = await begin(cluster, {"t": 2})
        await propose(cluster, topic_id, 1, 1)
        cluster.kill(1)
        await cluster.until_state("t", 2, [2])
        assert await stored(cluster) == {"leader": 2, "isr": [2], "eligible_leader_replicas": [3, 1]}
        (why,) = cluster[4].reasons(DecisionKind.LEADER_ELECTED)
        assert "eligible leader replica" in why
        await cluster.restart(1, is_unclean=True)
        assert (await stored(cluster))["eligible_leader_replicas"] == [3]

    run(tmp_path, scenario)


def test_without_the_option_the_last_one_standing_leads_again_as_in_kafka(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        topic_id = await begin(cluster, None)
        await propose(cluster, topic_id, 1, 1)
        data, _ = await cluster.admin.get(partition_state_path(T0))
        assert data == b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
        cluster.kill(1)
        await cluster.until_state("t", NO_LEADER, [1])
        assert await stored(cluster) == {"leader": -1, "isr": [1]}
        await cluster.restart(1, is_unclean=True)
        assert await stored(cluster) == {"leader": 1, "isr": [1]}
        assert await cluster.admin.exists(UncleanShutdowns.PATH) is None

    run(tmp_path, scenario)


def test_the_only_member_leads_again_and_that_is_recorded_as_unclean(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        topic_id = await begin(cluster, {"t": 1})
        await propose(cluster, topic_id, 1, 1)
        cluster.kill(1)
        await cluster.until_state("t", NO_LEADER, [1])
        await cluster.restart(1, is_unclean=True)
        assert await stored(cluster) == {"leader": 1, "isr": [1], "leader_recovery_state": 1}
        assert "which may lack what it had not synced" in cluster[4].reasons(DecisionKind.LEADER_ELECTED)[-1]
        assert (await cluster.state("t")).leader_epoch == 2, "acted upon once"

    run(tmp_path, scenario)


def test_a_controller_that_begins_acts_on_who_came_back_while_there_was_none_and_the_next_one_does_not(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: Brokers) -> None:
        topic_id = await begin(cluster, {"t": 2})
        await propose(cluster, topic_id, 1, 1)
        cluster.kill(1, 4)
        await cluster.restart(1, is_unclean=True)
        assert (await stored(cluster))["leader"] == 1, "there is no controller"
        await cluster.expire(4)
        assert await stored(cluster) == {"leader": 2, "isr": [2], "eligible_leader_replicas": [3]}
        data, _ = await cluster.admin.get(UncleanShutdowns.PATH)
        assert UncleanShutdowns.decode(data).acted_on == {1: cluster[1].epoch}
        await propose(cluster, topic_id, 2, 2, 1)
        epoch = (await cluster.state("t")).leader_epoch
        seat = cluster.controller.broker_id
        await cluster.join(5)
        assert seat in (1, 2, 3)
        await cluster.admin.delete("/controller")
        await cluster.settled()
        await cluster.until_state("t", 2, [2, 1])
        assert (await cluster.state("t")).leader_epoch == epoch

    run(tmp_path, scenario)


def test_that_a_loss_was_acted_on_is_known_when_its_broker_is_dead(tmp_path: Path) -> None:
    """When it is back it asks; if it were not told it would count as one that may lack records again."""

    async def scenario(cluster: Brokers) -> None:
        await begin(cluster, {"t": 2})
        cluster.kill(3)
        await cluster.expire(3)
        await cluster.restart(3, is_unclean=True)
        epoch = cluster[3].epoch
        cluster.kill(3)
        await cluster.expire(3)
        cluster.kill(1)
        await cluster.expire(1)
        await cluster.restart(1, is_unclean=True)
        data, _ = await cluster.admin.get(UncleanShutdowns.PATH)
        assert UncleanShutdowns.decode(data).acted_on == {1: cluster[1].epoch, 3: epoch}

    run(tmp_path, scenario)


def test_lowering_min_insync_replicas_makes_the_eligible_ones_void(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        needed = {"t": 2}
        topic_id = await begin(cluster, needed)
        await propose(cluster, topic_id, 1, 1)
        needed["t"] = 1
        cluster[4].controller.topic_config_changed(["t"])
        await cluster.settled()
        assert await stored(cluster) == {"leader": 1, "isr": [1]}
        needed["t"] = 2
        cluster.kill(1)
        await cluster.until_state("t", NO_LEADER, [1])

    run(tmp_path, scenario)


def test_a_replica_that_a_reassignment_takes_away_is_eligible_no_more(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        topic_id = await begin(cluster, {"t": 2})
        await propose(cluster, topic_id, 1, 1)
        assert (await stored(cluster))["eligible_leader_replicas"] == [2, 3]
        outcomes = await cluster[4].controller.reassignments.alter({T0: [1, 3]})
        assert list(outcomes.values()) == [None], "granted"
        cluster.kill(1)
        await cluster.until_state("t", 3, [3])
        assert (await stored(cluster))["eligible_leader_replicas"] == [1]

    run(tmp_path, scenario)


def test_a_reassignment_to_fewer_replicas_leaves_no_eligible_ones_behind(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        topic_id = await begin(cluster, {"t": 3})
        await propose(cluster, topic_id, 1, 1, 3)
        assert (await stored(cluster))["eligible_leader_replicas"] == [2]
        await cluster[4].controller.reassignments.alter({T0: [1, 3]})
        await cluster.settled()
        assert await stored(cluster) == {"leader": 1, "isr": [1, 3]}

    run(tmp_path, scenario)
