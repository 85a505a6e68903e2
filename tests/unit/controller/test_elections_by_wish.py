"""Elections that an operator asks for, and leaderships that go back by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.controller.decide.requested_election import ElectionType
from kavka.controller.work.leader_rebalance import Rebalance
from kavka.decisions import DecisionKind
from kavka.errors import ErrorCode
from kavka.model import NO_LEADER, BrokerId, TopicPartition
from kavka.zookeeper.port import NoNode
from kavka.zookeeper.znode_paths import PREFERRED_REPLICA_ELECTION_PATH
from kavka.zookeeper.znodes import RECOVERING, PreferredReplicaElection
from tests.unit.controller.reassignment_support import Controller, World, run

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


async def led_elsewhere(world: World, *partitions: int) -> Controller:
    """Broker 1 died and came back: the partitions that it led are led by broker 2, with 1 in sync again."""
    controller = await world.new_controller()
    await controller.begin()
    world.live.discard(BrokerId(1))
    await controller.take_in_brokers()
    world.live.add(BrokerId(1))
    await controller.take_in_brokers()
    for number in partitions:
        partition = TopicPartition("t", number)
        await world.catch_up(partition)
        await controller.leaders.load([partition])
        assert (await world.state(partition))[0].leader == 2
    return controller


async def elect(controller: Controller, wish: ElectionType, *partitions: TopicPartition) -> list[ErrorCode]:
    done = await controller.elections.elect(wish, partitions)
    assert list(done.outcomes) == list(partitions)
    return [outcome.code for outcome in done.outcomes.values()]


def test_the_preferred_replica_leads_again(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.create({0: (1, 2, 3)})
        controller = await led_elsewhere(world, 0)
        before, _ = await world.state(T0)
        assert await elect(controller, PREFERRED, T0) == [ErrorCode.NONE]
        after, _ = await world.state(T0)
        assert (after.leader, after.leader_epoch, after.isr) == (1, before.leader_epoch + 1, before.isr)
        assert world.hosted[T0, BrokerId(3)] == after.leader_epoch, "every replica is told"
        assert await elect(controller, PREFERRED, T0) == [ErrorCode.ELECTION_NOT_NEEDED]

    run(tmp_path, scenario)


def test_every_partition_has_its_own_answer(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.create({0: (1, 2, 3), 1: (1, 2, 3)})
        controller = await led_elsewhere(world, 0, 1)
        await world.shrink(T1, BrokerId(1))
        codes = await elect(controller, PREFERRED, TopicPartition("u", 0), T0, T1, TopicPartition("t", 9))
        assert codes == [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.NONE,
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert (await world.state(T1))[0].leader == 2
        refused = [each for each in world.decisions if each.kind is DecisionKind.LEADER_NOT_ELECTED]
        assert [each.partition for each in refused] == [T1]
        controller.context.topics_to_delete["t"] = None
        assert await elect(controller, PREFERRED, T1) == [ErrorCode.INVALID_TOPIC_EXCEPTION]

    run(tmp_path, scenario)


def test_all_partitions_are_meant_where_none_is_named(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.create({0: (1, 2, 3), 1: (2, 3, 1)})
        controller = await led_elsewhere(world, 0)
        done = await controller.elections.elect(PREFERRED)
        assert {key: outcome.code for key, outcome in done.outcomes.items()} == {
            T0: ErrorCode.NONE,
            T1: ErrorCode.ELECTION_NOT_NEEDED,
        }

    run(tmp_path, scenario)


def test_an_unclean_election_leads_outside_the_isr_and_says_so(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.create({0: (1, 2, 3)})
        controller = await world.new_controller()
        await controller.begin()
        await world.shrink(T0, BrokerId(2))
        await world.shrink(T0, BrokerId(3))
        await controller.leaders.load([T0])
        world.live.discard(BrokerId(1))
        await controller.take_in_brokers()
        assert (await world.state(T0))[0].leader == NO_LEADER
        assert await elect(controller, PREFERRED, T0) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
        world.may_add.add(T0)
        assert await elect(controller, UNCLEAN, T0) == [ErrorCode.NONE]
        state, _ = await world.state(T0)
        assert (state.leader, state.isr, state.leader_recovery_state) == (2, ids(2), RECOVERING)
        assert await elect(controller, UNCLEAN, T0) == [ErrorCode.ELECTION_NOT_NEEDED]

    run(tmp_path, scenario)


def test_without_a_live_replica_nobody_is_elected(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.create({0: (1, 2)})
        controller = await world.new_controller()
        await controller.begin()
        world.live -= {BrokerId(1), BrokerId(2)}
        await controller.take_in_brokers()
        assert await elect(controller, UNCLEAN, T0) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]

    run(tmp_path, scenario)


def test_the_old_tools_znode_is_worked_off_and_deleted(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.create({0: (1, 2, 3)})
        controller = await led_elsewhere(world, 0)
        wish = PreferredReplicaElection((T0, TopicPartition("gone", 0)))
        await world.admin.create(PREFERRED_REPLICA_ELECTION_PATH, wish.encode())
        await controller.elections.take_submitted()
        assert (await world.state(T0))[0].leader == 1
        with pytest.raises(NoNode):
            await world.read(PREFERRED_REPLICA_ELECTION_PATH)
        await world.admin.create(PREFERRED_REPLICA_ELECTION_PATH, b"[]")
        await controller.elections.take_submitted()
        assert PREFERRED_REPLICA_ELECTION_PATH in controller.context.malformed

    run(tmp_path, scenario)


def test_the_check_elects_and_tells_why(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.create({0: (1, 2, 3), 1: (2, 3, 1)})
        controller = await led_elsewhere(world, 0)
        rebalance = Rebalance(controller.term, controller.elections, controller.reassignments, limit_percent=lambda: 10)
        await controller.reassignments.alter({T1: (2, 3, 4)})
        await rebalance.run()
        assert (await world.state(T0))[0].leader == 2, "not while another partition moves"
        await world.run_on([T1])
        await rebalance.run()
        assert (await world.state(T0))[0].leader == 1
        (told,) = [each for each in world.decisions if each.kind is DecisionKind.LEADERS_REBALANCED]
        assert told.about_broker == 1
        assert told.evidence["moved"] == 1

    run(tmp_path, scenario)
