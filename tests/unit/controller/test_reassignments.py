"""Partitions that move: begun, caught up, settled; cancelled, overridden, cut off at every write and gone on with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import pytest

from kavka.controller.decide.reassignment import ReplicaAssignment
from kavka.decisions import DecisionKind
from kavka.errors import ErrorCode
from kavka.model import BrokerId, TopicPartition
from kavka.zookeeper.port import ConnectionLoss, NoNode, Stat
from kavka.zookeeper.znode_paths import REASSIGN_PARTITIONS_PATH, partition_state_path, topic_path
from kavka.zookeeper.znodes import ReassignPartitions
from tests.unit.controller.reassignment_support import Controller, Killed, World, run

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


async def begin(world: World, replicas: tuple[int, ...] = (1, 2, 3)) -> Controller:
    await world.create({0: replicas})
    controller = await world.new_controller()
    await controller.begin()
    return controller


async def ask(
    controller: Controller, wishes: Mapping[TopicPartition, Sequence[int] | None], *, may_change_factor: bool = True
) -> dict[TopicPartition, ErrorCode]:
    outcomes = await controller.reassignments.alter(wishes, may_change_factor=may_change_factor)
    return {key: ErrorCode.NONE if refused is None else refused.code for key, refused in outcomes.items()}


async def rests_on(world: World, *replicas: int) -> None:
    """The partition is where it should be: in the znodes, in sync, and on exactly these disks."""
    await rests_on_in_znodes(world, *replicas)
    state, _ = await world.state(T0)
    assert sorted(state.isr) == sorted(replicas)
    assert state.leader in replicas
    assert world.replicas(T0) == sorted(replicas)


async def rests_on_in_znodes(world: World, *replicas: int) -> None:
    assignment = await world.assignment()
    assert assignment.partitions == {0: replicas}
    assert (assignment.adding_replicas, assignment.removing_replicas) == ({}, {})


def kinds(world: World) -> list[DecisionKind]:
    moves = (
        DecisionKind.REASSIGNMENT_STARTED,
        DecisionKind.REASSIGNMENT_FINISHED,
        DecisionKind.REASSIGNMENT_CANCELLED,
        DecisionKind.REASSIGNMENT_REFUSED,
    )
    return [decision.kind for decision in world.decisions if decision.kind in moves]


# ------------------------------------------------------------------------------------------------------------ the way


def test_a_partition_moves_step_by_step(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        controller = await begin(world)
        before, _ = await world.state(T0)
        assert await ask(controller, {T0: (4, 5, 1)}) == {T0: ErrorCode.NONE}
        assignment = await world.assignment()
        assert assignment.partitions == {0: (4, 5, 1, 2, 3)}
        assert (assignment.adding_replicas, assignment.removing_replicas) == ({0: (4, 5)}, {0: (2, 3)})
        state, _ = await world.state(T0)
        assert (state.leader, state.isr) == (1, ids(1, 2, 3))
        assert state.leader_epoch == before.leader_epoch + 1
        assert world.started == [(T0, 4), (T0, 5)]
        assert world.replicas(T0) == [1, 2, 3, 4, 5]
        assert controller.reassignments.listing() == {T0: ReplicaAssignment(ids(4, 5, 1, 2, 3), ids(4, 5), ids(2, 3))}
        await world.run_on([T0])
        await rests_on(world, 4, 5, 1)
        state, _ = await world.state(T0)
        assert state.leader == 1, "the leader stays if it is one of the targets"
        assert controller.reassignments.listing() == {}
        assert kinds(world) == [DecisionKind.REASSIGNMENT_STARTED, DecisionKind.REASSIGNMENT_FINISHED]

    run(tmp_path, scenario)


def test_an_isr_shrank_only_where_a_member_left_and_the_reason_is_the_move(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        controller = await begin(world)
        await ask(controller, {T0: (1, 2)})
        await rests_on(world, 1, 2)
        await ask(controller, {T0: (1, 2, 3)})
        await world.run_on([T0])
        await rests_on(world, 1, 2, 3)
        shrunk = [decision for decision in world.decisions if decision.kind is DecisionKind.ISR_SHRUNK]
        assert [(decision.evidence["removed"], decision.why) for decision in shrunk] == [
            (ids(3), "the partition moves to [1, 2]: replicas [3] leave; leader 1 goes on with [1, 2]")
        ]

    run(tmp_path, scenario)


def test_it_is_not_finished_before_every_target_is_in_sync(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        controller = await begin(world)
        await ask(controller, {T0: (4, 5, 6)})
        state, version = await world.state(T0)
        await world.write_isr(T0, ids(1, 2, 3, 4, 5), state, version)
        await controller.work()
        assert (await world.assignment()).adding_replicas == {0: (4, 5, 6)}
        state, version = await world.state(T0)
        await world.write_isr(T0, ids(1, 2, 3, 4, 5, 6), state, version)
        await controller.work()
        await rests_on(world, 4, 5, 6)
        assert (await world.state(T0))[0].leader == 4

    run(tmp_path, scenario)


def test_another_order_of_the_same_replicas_is_written_at_once(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        controller = await begin(world)
        assert await ask(controller, {T0: (3, 1, 2)}) == {T0: ErrorCode.NONE}
        await rests_on(world, 3, 1, 2)
        assert world.told[T0, BrokerId(2)] == ids(3, 1, 2)
        assert (await world.state(T0))[0].leader == 1

    run(tmp_path, scenario)


def test_fewer_replicas_are_settled_at_once_with_a_leader_among_them(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        controller = await begin(world)
        assert await ask(controller, {T0: (3,)}) == {T0: ErrorCode.NONE}
        await rests_on(world, 3)

    run(tmp_path, scenario)


def test_a_target_that_fell_out_of_sync_holds_up_the_removal(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        controller = await begin(world)
        await world.shrink(T0, BrokerId(3))
        assert await ask(controller, {T0: (2, 3)}) == {T0: ErrorCode.NONE}
        assert (await world.assignment()).removing_replicas == {0: (1,)}
        assert world.replicas(T0) == [1, 2, 3]
        await world.run_on([T0])
        await rests_on(world, 2, 3)

    run(tmp_path, scenario)


def test_a_leader_that_is_dead_when_the_targets_are_in_sync_is_replaced(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        controller = await begin(world)
        await ask(controller, {T0: (1, 4, 5)})
        state, version = await world.state(T0)
        world.live.discard(BrokerId(1))
        await world.write_isr(T0, ids(1, 2, 3, 4, 5), state, version)
        controller.context.set_brokers(world.live_brokers())
        await controller.work()
        state, _ = await world.state(T0)
        assert (state.leader, state.isr) == (4, ids(1, 4, 5))

    run(tmp_path, scenario)


def test_targets_that_are_all_dead_are_waited_for(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        controller = await begin(world)
        await ask(controller, {T0: (4,)})
        state, version = await world.state(T0)
        world.live.discard(BrokerId(4))
        await world.write_isr(T0, ids(1, 2, 3, 4), state, version)
        controller.context.set_brokers(world.live_brokers())
        await controller.work()
        assert (await world.state(T0))[0].leader == 1
        await controller.take_in_brokers()
        world.live.add(BrokerId(4))
        await controller.take_in_brokers()
        await world.run_on([T0])
        await rests_on(world, 4)

    run(tmp_path, scenario)


def test_many_partitions_of_a_topic_take_one_write_of_its_znode(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        count = 60
        await world.create(dict.fromkeys(range(count), (1, 2, 3)))
        controller = await world.new_controller()
        await controller.begin()
        _, stat = await world.admin.get(topic_path("t"))
        partitions = [TopicPartition("t", number) for number in range(count)]
        outcomes = await ask(controller, dict.fromkeys(partitions, (4, 5, 6)))
        assert set(outcomes.values()) == {ErrorCode.NONE}
        assert (await world.admin.get(topic_path("t")))[1].version == stat.version + 1
        await world.run_on(partitions)
        assert (await world.assignment()).partitions == dict.fromkeys(range(count), (4, 5, 6))
        assert controller.reassignments.listing() == {}

    run(tmp_path, scenario)


def test_a_broker_that_lost_its_session_when_its_replica_was_removed_is_told_again(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        world.brokers_restart = False
        controller = await begin(world)
        await ask(controller, {T0: (1, 2, 4)})
        world.live.discard(BrokerId(3))
        await controller.take_in_brokers()
        await world.run_on([T0])
        assert world.replicas(T0) == [1, 2, 3, 4]
        world.live.add(BrokerId(3))
        await controller.take_in_brokers()
        await rests_on(world, 1, 2, 4)
        await controller.work()
        orders = len(world.orders)
        world.live.discard(BrokerId(3))
        await controller.take_in_brokers()
        world.live.add(BrokerId(3))
        await controller.take_in_brokers()
        assert not any(change.stops for change in world.orders[orders:]), "once is enough when it was heard"

    run(tmp_path, scenario)


def test_a_replica_that_is_wanted_again_is_not_deleted_when_its_broker_is_back(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        world.brokers_restart = False
        controller = await begin(world)
        world.live.discard(BrokerId(3))
        await controller.take_in_brokers()
        await ask(controller, {T0: (1, 2)})
        await rests_on_in_znodes(world, 1, 2)
        world.live.add(BrokerId(3))
        controller.context.set_brokers(world.live_brokers())
        orders = len(world.orders)
        await ask(controller, {T0: (1, 2, 3)})
        assert not any(change.stops for change in world.orders[orders:])
        await controller.take_in_brokers()
        await world.run_on([T0])
        await rests_on(world, 1, 2, 3)

    run(tmp_path, scenario)


# ----------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, -2), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 2, 99), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_nonsense_is_refused_and_changes_nothing(
    tmp_path: Path, target: tuple[int, ...] | None, code: ErrorCode
) -> None:
    async def scenario(world: World) -> None:
        controller = await begin(world)
        made = controller.writes.made
        assert await ask(controller, {T0: target}) == {T0: code}
        assert controller.writes.made == made
        await rests_on(world, 1, 2, 3)

    run(tmp_path, scenario)


def test_unknown_partitions_are_refused_beside_others_that_are_granted(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        controller = await begin(world)
        unknown, missing = TopicPartition("u", 0), TopicPartition("t", 7)
        assert await ask(controller, {unknown: (1,), T0: (1, 2, 4), missing: (1,)}) == {
            unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            T0: ErrorCode.NONE,
            missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }

    run(tmp_path, scenario)


def test_the_number_of_replicas_stays_if_the_client_says_so(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        controller = await begin(world)
        refused = await ask(controller, {T0: (1, 2, 3, 4)}, may_change_factor=False)
        assert refused == {T0: ErrorCode.INVALID_REPLICATION_FACTOR}
        assert await ask(controller, {T0: (4, 5, 6)}, may_change_factor=False) == {T0: ErrorCode.NONE}

    run(tmp_path, scenario)


def test_while_it_moves_their_number_is_that_of_the_target(tmp_path: Path) -> None:
    """As Apache Kafka 4.3: three are on their way to four, and are no longer three."""

    async def scenario(world: World) -> None:
        controller = await begin(world)
        assert await ask(controller, {T0: (1, 2, 3, 4)}) == {T0: ErrorCode.NONE}
        refused = await ask(controller, {T0: (1, 2, 4)}, may_change_factor=False)
        assert refused == {T0: ErrorCode.INVALID_REPLICATION_FACTOR}
        assert await ask(controller, {T0: (1, 2, 4, 5)}, may_change_factor=False) == {T0: ErrorCode.NONE}

    run(tmp_path, scenario)


def test_a_dead_broker_that_holds_a_replica_already_may_stay_a_target(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        controller = await begin(world)
        world.live.discard(BrokerId(3))
        await controller.take_in_brokers()
        assert await ask(controller, {T0: (1, 3, 4)}) == {T0: ErrorCode.NONE}
        assert await ask(controller, {T0: (1, 2, 5)}) == {T0: ErrorCode.NONE}

    run(tmp_path, scenario)


# ------------------------------------------------------------------------------------------- cancelled and overridden


def test_cancelling_restores_the_replicas_and_deletes_what_was_half_built(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        controller = await begin(world)
        await ask(controller, {T0: (4, 5, 6)})
        state, version = await world.state(T0)
        await world.write_isr(T0, ids(1, 2, 3, 4), state, version)
        await controller.work()
        assert await ask(controller, {T0: None}) == {T0: ErrorCode.NONE}
        await rests_on(world, 1, 2, 3)
        assert kinds(world)[-1] is DecisionKind.REASSIGNMENT_CANCELLED
        assert await ask(controller, {T0: None}) == {T0: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}

    run(tmp_path, scenario)


def test_cancelling_is_refused_while_only_new_replicas_are_in_sync(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        controller = await begin(world, (1, 2))
        await ask(controller, {T0: (3, 4)})
        state, version = await world.state(T0)
        await world.write_isr(T0, ids(1, 3), state, version)
        await controller.work()
        world.live -= {BrokerId(1)}
        await controller.take_in_brokers()
        assert (await world.state(T0))[0].isr == ids(3)
        assert await ask(controller, {T0: None}) == {T0: ErrorCode.INVALID_REPLICA_ASSIGNMENT}
        assert (await world.state(T0))[0].isr == ids(3)
        assert (await world.assignment()).adding_replicas == {0: (3, 4)}

    run(tmp_path, scenario)


def test_cancelling_gives_the_leadership_back_to_a_replica_that_stays(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        controller = await begin(world, (1, 2))
        await ask(controller, {T0: (3, 4)})
        state, version = await world.state(T0)
        await world.write_isr(T0, ids(1, 2, 3), state, version)
        await controller.work()
        world.live -= {BrokerId(1)}
        await controller.take_in_brokers()
        assert (await world.state(T0))[0].leader == 3
        assert await ask(controller, {T0: None}) == {T0: ErrorCode.NONE}
        assert (await world.state(T0))[0].leader == 2
        assert world.replicas(T0) == [1, 2]

    run(tmp_path, scenario)


def test_a_later_wish_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        controller = await begin(world)
        await ask(controller, {T0: (4, 5, 1)})
        assert await ask(controller, {T0: (4, 6, 1)}) == {T0: ErrorCode.NONE}
        assignment = await world.assignment()
        assert assignment.partitions == {0: (4, 6, 1, 2, 3)}
        assert assignment.adding_replicas == {0: (4, 6)}
        assert world.replicas(T0) == [1, 2, 3, 4, 6], "what the first wish alone wanted is deleted"
        await world.run_on([T0])
        await rests_on(world, 4, 6, 1)

    run(tmp_path, scenario)


def test_the_same_wish_again_changes_nothing(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        controller = await begin(world)
        await ask(controller, {T0: (4, 5, 1)})
        made = controller.writes.made
        assert await ask(controller, {T0: (4, 5, 1)}) == {T0: ErrorCode.NONE}
        assert controller.writes.made == made

    run(tmp_path, scenario)


# ------------------------------------------------------------------------------------------------------ the old tools


async def submit(world: World, wishes: Mapping[TopicPartition, Sequence[int]]) -> None:
    await world.admin.create(REASSIGN_PARTITIONS_PATH, ReassignPartitions(wishes).encode())


def test_a_wish_in_the_znode_stays_there_until_it_is_done(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.create({0: (1, 2, 3), 1: (1, 2, 3)})
        controller = await world.new_controller()
        await controller.begin()
        await submit(world, {T0: (4, 5, 6), T1: (1, 2, 99), TopicPartition("u", 0): (1,)})
        await controller.reassignments.take_submitted()
        data = await world.read(REASSIGN_PARTITIONS_PATH)
        assert ReassignPartitions.decode(data).replicas == {T0: [4, 5, 6]}
        assert kinds(world).count(DecisionKind.REASSIGNMENT_REFUSED) == 2
        await world.run_on([T0])
        assert (await world.assignment()).partitions[0] == (4, 5, 6)
        with pytest.raises(NoNode):
            await world.read(REASSIGN_PARTITIONS_PATH)

    run(tmp_path, scenario)


def test_a_wish_by_request_takes_the_place_of_the_one_in_the_znode(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        controller = await begin(world)
        await submit(world, {T0: (4, 5, 6)})
        await controller.reassignments.take_submitted()
        assert await ask(controller, {T0: (1, 2, 4)}) == {T0: ErrorCode.NONE}
        with pytest.raises(NoNode):
            await world.read(REASSIGN_PARTITIONS_PATH)
        await world.run_on([T0])
        await rests_on(world, 1, 2, 4)

    run(tmp_path, scenario)


def test_garbage_in_the_znode_harms_nobody(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        controller = await begin(world)
        await world.admin.create(REASSIGN_PARTITIONS_PATH, b"{")
        await controller.reassignments.take_submitted()
        assert REASSIGN_PARTITIONS_PATH in controller.context.malformed
        await world.admin.set(REASSIGN_PARTITIONS_PATH, ReassignPartitions({T0: (4, 5, 6)}).encode())
        await controller.work()
        await controller.reassignments.take_submitted()
        await world.run_on([T0])
        await rests_on(world, 4, 5, 6)

    run(tmp_path, scenario)


# ------------------------------------------------------------------------------------------------ cut off at each write

Act = Callable[[Controller], Awaitable[object]]


async def move(controller: Controller) -> None:
    await controller.reassignments.alter({T0: (4, 5, 1)})


async def cancel(controller: Controller) -> None:
    await controller.reassignments.alter({T0: None})


async def override(controller: Controller) -> None:
    await controller.reassignments.alter({T0: (6, 4, 2)})


ACTS: list[tuple[Act, bool, list[tuple[int, ...]]]] = [
    (move, False, [(4, 5, 1), (1, 2, 3)]),
    (cancel, True, [(1, 2, 3), (4, 5, 1)]),
    (override, True, [(6, 4, 2), (4, 5, 1)]),
]
"""What is asked for, whether the partition moves already, and where it may end."""
MOST_WRITES = 5


@pytest.mark.parametrize(("act", "moving", "ends"), ACTS)
def test_no_act_takes_more_writes_than_are_cut_off_below(
    tmp_path: Path, act: Act, moving: bool, ends: list[tuple[int, ...]]
) -> None:
    async def scenario(world: World) -> None:
        controller = await begin(world)
        if moving:
            await move(controller)
        start = controller.writes.made
        await act(controller)
        await world.run_on([T0])
        assert 2 <= controller.writes.made - start <= MOST_WRITES
        await rests_on(world, *(await world.assignment()).partitions[0])
        assert set((await world.assignment()).partitions[0]) == set(ends[0])

    run(tmp_path, scenario)


@pytest.mark.parametrize("fault", ["kill_before", "kill_after", "lose_before", "lose_after"])
@pytest.mark.parametrize(("act", "moving", "ends"), ACTS)
@pytest.mark.parametrize("number", range(MOST_WRITES + 1))
def test_whatever_write_it_is_cut_off_at_the_next_controller_brings_it_to_an_end(
    tmp_path: Path, act: Act, moving: bool, ends: list[tuple[int, ...]], fault: str, number: int
) -> None:
    """A wish that was not answered may be fulfilled or not; there is no third outcome, and nothing is left behind."""

    async def scenario(world: World) -> None:
        controller = await begin(world)
        if moving:
            await move(controller)
            await world.shrink(T0, BrokerId(3))
        setattr(controller.writes, fault, controller.writes.made + number)
        try:
            await act(controller)
            await world.run_on([T0])
        except Killed:
            controller = await world.new_controller()
            await controller.begin()
        for _ in range(3):
            controller.has_work = True
            await world.run_on([T0])
        final = (await world.assignment()).partitions[0]
        assert set(final) in [set(end) for end in ends]
        await rests_on(world, *final)
        assert controller.reassignments.listing() == {}

    run(tmp_path, scenario)


def test_a_target_that_falls_out_of_sync_at_the_last_moment_stops_the_settling(tmp_path: Path) -> None:
    """1. The controller read an ISR with all targets. 2. The leader drops one. 3. The write is decided anew."""

    async def scenario(world: World) -> None:
        controller = await begin(world)
        await ask(controller, {T0: (1, 4)})
        state, version = await world.state(T0)
        await world.write_isr(T0, ids(1, 2, 3, 4), state, version)
        await controller.leaders.load([T0])
        await world.shrink(T0, BrokerId(4))
        await controller.reassignments.advance()
        assert (await world.state(T0))[0].isr == ids(1, 2, 3)
        assert (await world.assignment()).adding_replicas == {0: (4,)}
        await world.run_on([T0])
        await rests_on(world, 1, 4)

    run(tmp_path, scenario)


def test_a_watch_that_fires_while_it_is_left_is_not_missed(tmp_path: Path) -> None:
    """1. The state is read, with a watch. 2. The targets join the ISR: the watch fires. 3. The answer to 1 comes."""

    async def scenario(world: World) -> None:
        controller = await begin(world)
        read = controller.writes.exists

        async def read_and_lag(path: str, *, watch: bool = False) -> Stat | None:
            stat = await read(path, watch=watch)
            if path == partition_state_path(T0):
                controller.term.zookeeper.exists = read  # type: ignore[method-assign]
                await world.catch_up(T0)
                await controller.zookeeper_settled()
            return stat

        controller.term.zookeeper.exists = read_and_lag  # type: ignore[method-assign]
        await ask(controller, {T0: (4, 5, 6)})
        await controller.work()
        await rests_on(world, 4, 5, 6)

    run(tmp_path, scenario)


@pytest.mark.parametrize(("act", "moving", "ends"), ACTS)
@pytest.mark.parametrize("number", range(MOST_WRITES + 1))
def test_after_an_outage_the_znodes_tell_how_far_it_came(
    tmp_path: Path, act: Act, moving: bool, ends: list[tuple[int, ...]], number: int
) -> None:
    """A write was made, its answer is lost, and nothing can be read: the context does not know."""

    async def scenario(world: World) -> None:
        controller = await begin(world)
        if moving:
            await move(controller)
        controller.writes.outage_at = controller.writes.made + number
        try:
            await act(controller)
            await world.run_on([T0])
        except ConnectionLoss:
            pass  # The event is handled again.
        controller.writes.outage, controller.writes.outage_at = False, -1
        for _ in range(3):
            controller.has_work = True
            await world.run_on([T0])
        final = (await world.assignment()).partitions[0]
        assert set(final) in [set(end) for end in ends]
        await rests_on(world, *final)
        assert controller.reassignments.listing() == {}

    run(tmp_path, scenario)
