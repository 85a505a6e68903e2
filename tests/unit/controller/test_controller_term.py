"""The role of the controller: won, lost, taken over; and what a new controller makes of what it finds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kavka.controller import controller as controller_module
from kavka.controller.controller import Controller, ControllerSettings
from kavka.controller.decide.context import NO_BROKER_EPOCH, ControllerContext
from kavka.controller.decide.state_machines import PartitionStatus
from kavka.controller.decide.topic_plans import TopicRequest
from kavka.controller.term.controller_term import NotController
from kavka.decisions import DecisionKind
from kavka.errors import ErrorCode, InvariantViolation, RequestError
from kavka.model import NO_LEADER, BrokerId, TopicPartition
from kavka.zookeeper.port import ConnectionLoss, Operation, OperationResult, SetData, Stat
from kavka.zookeeper.znode_paths import broker_path, partition_state_path
from kavka.zookeeper.znodes import RECOVERING, ControllerNode, FeatureNode, PartitionState, TopicAssignment
from tests.unit.controller.cluster_support import Cluster, run

T0 = TopicPartition("t", 0)


async def seat(cluster: Cluster) -> tuple[int, bytes | None, int]:
    """(controller's broker id, controller epoch, owner's session)"""
    data, stat = await cluster.admin.get("/controller")
    epoch, _ = await cluster.admin.get("/controller_epoch")
    return ControllerNode.decode(data).broker_id, epoch, stat.ephemeral_owner


async def put_topic(cluster: Cluster, replicas: tuple[int, ...], state: PartitionState | None) -> None:
    """A topic "t" of one partition, as an earlier controller left it."""
    await cluster.admin.create("/brokers/topics/t", TopicAssignment("t", {0: replicas}, None).encode())
    if state is not None:
        await cluster.admin.create("/brokers/topics/t/partitions")
        await cluster.admin.create("/brokers/topics/t/partitions/0")
        await cluster.admin.create(partition_state_path(T0), state.encode())


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def test_the_first_broker_wins_and_the_epoch_rises_with_every_term(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        first, second = await cluster.join(1), await cluster.join(2)
        assert await seat(cluster) == (1, b"1", first.zookeeper.session_id)
        assert (first.controller.is_active, second.controller.is_active) == (True, False)
        assert (first.seen, second.seen) == ([1], [1])
        assert first.controller.context.epoch == 1
        with pytest.raises(NotController):
            _ = second.controller.context
        await cluster.kill(1)
        assert await seat(cluster) == (2, b"2", second.zookeeper.session_id)
        assert second.controller.context.epoch == 2
        assert second.seen == [1, NO_LEADER, 2]
        assert first.seen == [1, NO_LEADER]
        await cluster.come_back(1)
        assert first.seen == [1, NO_LEADER, 2]
        assert not first.controller.is_active

    run(tmp_path, scenario)


def test_a_seat_that_somebody_deleted_is_won_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        first = await cluster.join(1)
        await cluster.admin.delete("/controller")
        await cluster.settled()
        assert await seat(cluster) == (1, b"2", first.zookeeper.session_id)
        assert first.controller.context.epoch == 2

    run(tmp_path, scenario)


def test_a_controller_that_stops_gives_its_own_seat_up_and_no_other(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        first, second = await cluster.join(1), await cluster.join(2)
        await first.controller.stop()
        await second.controller.settled()
        await cluster.settled()
        assert await seat(cluster) == (2, b"2", second.zookeeper.session_id)
        await first.controller.stop()
        assert (await seat(cluster))[0] == 2

    run(tmp_path, scenario)


def test_an_election_whose_answer_was_lost_is_found_won(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.register(1)
        original = broker.zookeeper.multi
        losses = ["request", "answer"]

        async def lossy(operations: Sequence[Operation]) -> list[OperationResult]:
            loss = losses.pop(0) if losses else None
            if loss == "request":
                raise ConnectionLoss("lost before")
            results = await original(operations)
            if loss == "answer":
                raise ConnectionLoss("lost after")
            return results

        broker.zookeeper.multi = lossy  # type: ignore[method-assign]
        await broker.controller.start()
        assert await seat(cluster) == (1, b"1", broker.zookeeper.session_id)
        assert broker.controller.context.epoch == 1
        (created,) = await broker.controller.topics.create_topics([TopicRequest("t")])
        assert created.code is ErrorCode.NONE

    run(tmp_path, scenario)


def test_a_new_controller_orders_everything_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        first, second = await cluster.join(1), await cluster.join(2)
        await first.controller.topics.create_topics([TopicRequest("t", 2, 2)])
        before = await cluster.state("t", 0), await cluster.state("t", 1)
        await first.controller.stop()
        await cluster.settled()
        change = second.orders[-1]
        assert change.brokers_changed
        assert [order.topic_partition.partition for order in change.partitions] == [0, 1]
        assert not any(order.is_new for order in change.partitions)
        assert (await cluster.state("t", 0), await cluster.state("t", 1)) == before, "nobody died: nothing is written"

    run(tmp_path, scenario)


@pytest.mark.parametrize("written", ["topic", "partitions", "partition"])
def test_a_topic_that_was_created_half_is_completed(tmp_path: Path, written: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await put_topic(cluster, (1,), None)
        if written in ("partitions", "partition"):
            await cluster.admin.create("/brokers/topics/t/partitions")
        if written == "partition":
            await cluster.admin.create("/brokers/topics/t/partitions/0")
        broker = await cluster.join(1)
        assert await cluster.state("t", 0) == PartitionState(BrokerId(1), 0, ids(1), 1)
        await cluster.settled()
        assert broker.orders[-1].partitions[0].is_new
        assert broker.controller.context.partitions.state(T0) is PartitionStatus.ONLINE

    run(tmp_path, scenario)


def test_a_partition_none_of_whose_replicas_lives_waits_for_one(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await put_topic(cluster, (2,), None)
        broker = await cluster.join(1)
        assert await cluster.admin.exists(partition_state_path(T0)) is None
        assert broker.controller.context.partitions.state(T0) is PartitionStatus.NEW
        await cluster.register(2)
        await cluster.settled()
        assert await cluster.state("t", 0) == PartitionState(BrokerId(2), 0, ids(2), 1)
        assert [told.topic_partition for told in broker.orders[-1].partitions] == [T0]

    run(tmp_path, scenario)


def test_a_single_broker_that_restarts_keeps_its_leaderships(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await put_topic(cluster, (1,), PartitionState(BrokerId(1), 4, ids(1), 1))
        broker = await cluster.join(1)
        assert await cluster.state("t", 0) == PartitionState(BrokerId(1), 4, ids(1), 1)
        await cluster.settled()
        assert broker.orders[-1].partitions[0].state.leader_epoch == 4

    run(tmp_path, scenario)


def test_brokers_that_die_lose_their_partitions_and_the_others_hear(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await put_topic(cluster, (2, 3, 1), PartitionState(BrokerId(2), 0, ids(2, 3), 1))
        controller = await cluster.join(1)
        await cluster.register(2)
        await cluster.register(3)
        await cluster.settled()
        # When the controller started, 2 and 3 were not there: case C left the ISR whole, and 2 leads again.
        state = await cluster.state("t", 0)
        assert (state.leader, state.isr) == (2, ids(2))

        await put_state(cluster, PartitionState(BrokerId(2), 9, ids(2, 3), 1))
        await cluster.kill(2)
        state = await cluster.state("t", 0)
        assert (state.leader, state.isr, state.leader_epoch) == (3, ids(3), 10)
        order = controller.orders[-1].partitions[0]
        assert order.state.leader == 3
        elected = [each for each in controller.decisions if each.kind is DecisionKind.LEADER_ELECTED][-1]
        assert elected.why == "offline election: broker 3 leads from epoch 10, first live in-sync replica"
        assert controller.orders[-1].brokers_changed

    run(tmp_path, scenario)


async def put_state(cluster: Cluster, state: PartitionState) -> None:
    """A leader changes the state behind the controller's back, as a shrink or expansion of the ISR does."""
    await cluster.admin.set(partition_state_path(T0), state.encode())


def test_case_c_both_die_at_once_and_either_may_lead_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.register(2)
        await cluster.register(3)
        await put_topic(cluster, (2, 3), PartitionState(BrokerId(2), 0, ids(2, 3), 1))
        controller = await cluster.join(1)
        # One event: both sessions end before the controller looks.
        ending = [cluster.server.expire(cluster.candidates[broker].zookeeper.session_id) for broker in (2, 3)]
        await asyncio.gather(*ending)
        await cluster.settled()
        assert await cluster.state("t", 0) == PartitionState(NO_LEADER, 1, ids(2, 3), 1)
        assert controller.controller.context.partitions.state(T0) is PartitionStatus.OFFLINE
        await cluster.come_back(3)
        assert await cluster.state("t", 0) == PartitionState(BrokerId(3), 2, ids(3), 1)
        assert controller.controller.context.partitions.state(T0) is PartitionStatus.ONLINE

    run(tmp_path, scenario)


def test_case_b_one_after_the_other_and_only_the_last_may_lead_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.register(2)
        await cluster.register(3)
        await put_topic(cluster, (2, 3), PartitionState(BrokerId(2), 0, ids(2, 3), 1))
        await cluster.join(1)
        await cluster.kill(2)
        await cluster.kill(3)
        assert await cluster.state("t", 0) == PartitionState(NO_LEADER, 2, ids(3), 1)
        await cluster.come_back(2)
        assert (await cluster.state("t", 0)).leader == NO_LEADER
        await cluster.come_back(3)
        assert await cluster.state("t", 0) == PartitionState(BrokerId(3), 3, ids(3), 1)

    run(tmp_path, scenario)


def test_unclean_elections_are_marked(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await put_topic(cluster, (2, 1), PartitionState(BrokerId(2), 0, ids(2), 1))
        settings = ControllerSettings(unclean_allowed=lambda topic: topic == "t")
        controller = await cluster.join(1, settings=settings)
        assert await cluster.state("t", 0) == PartitionState(BrokerId(1), 1, ids(1), 1, RECOVERING)
        (elected,) = [each for each in controller.decisions if each.kind is DecisionKind.LEADER_ELECTED]
        assert elected.evidence["unclean"] is True
        assert "records may be lost" in elected.why

    run(tmp_path, scenario)


def test_a_broker_that_bounced_between_two_looks_died_and_came_back(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await put_topic(cluster, (2, 3), PartitionState(BrokerId(2), 0, ids(2, 3), 1))
        await cluster.register(2)
        await cluster.register(3)
        controller = await cluster.join(1)
        bounced = cluster.candidates[2].zookeeper
        before = controller.controller.context.brokers[BrokerId(2)].epoch
        # Gone and back in one write, so that no look falls in between.
        data, _ = await cluster.admin.get(broker_path(2))
        await bounced.delete(broker_path(2))
        await bounced.create(broker_path(2), data)
        await cluster.settled()
        assert controller.controller.context.brokers[BrokerId(2)].epoch > before
        state = await cluster.state("t", 0)
        assert (state.leader, state.isr) == (3, ids(3)), "its log may be another one: it has to catch up first"

    run(tmp_path, scenario)


def test_a_broker_that_bounced_is_never_missing_from_what_the_controller_knows(tmp_path: Path) -> None:
    """Its partitions get other leaders first; whoever reads the context meanwhile must not find it unregistered."""

    async def scenario(cluster: Cluster) -> None:
        await put_topic(cluster, (2, 3), PartitionState(BrokerId(2), 0, ids(2, 3), 1))
        await cluster.register(2)
        await cluster.register(3)
        controller = await cluster.join(1)
        context = controller.controller.context
        original = controller.zookeeper.multi
        known: list[list[BrokerId]] = []

        async def multi(operations: Sequence[Operation]) -> list[OperationResult]:
            known.append(sorted(context.brokers))
            return await original(operations)

        controller.zookeeper.multi = multi  # type: ignore[method-assign]
        bounced = cluster.candidates[2].zookeeper
        data, _ = await cluster.admin.get(broker_path(2))
        await bounced.delete(broker_path(2))
        await bounced.create(broker_path(2), data)
        await cluster.settled()
        assert known
        assert all(brokers == [1, 2, 3] for brokers in known)

    run(tmp_path, scenario)


def test_a_new_controller_knows_all_brokers_while_it_treats_some_as_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members of an ISR that registered after it was stored count as away first; they are registered all the time."""

    async def scenario(cluster: Cluster) -> None:
        await put_topic(cluster, (2, 3), PartitionState(BrokerId(2), 0, ids(2, 3), 1))
        await cluster.register(2)
        await cluster.register(3)
        controller = await cluster.register(1)
        original = controller.zookeeper.multi
        known: list[list[BrokerId]] = []
        context = ControllerContext(epoch=1)

        def read_anew(*, epoch: int, epoch_version: int) -> ControllerContext:
            context.epoch, context.epoch_version = epoch, epoch_version
            return context

        monkeypatch.setattr(controller_module, "ControllerContext", read_anew)

        async def multi(operations: Sequence[Operation]) -> list[OperationResult]:
            if any(isinstance(each, SetData) and each.path == partition_state_path(T0) for each in operations):
                known.append(sorted(context.brokers))
            return await original(operations)

        controller.zookeeper.multi = multi  # type: ignore[method-assign]
        await controller.controller.start()
        assert known
        assert all(brokers == [1, 2, 3] for brokers in known)

    run(tmp_path, scenario)


def test_a_brokers_epoch_is_checked_in_turn(tmp_path: Path) -> None:
    """1: the broker registers anew. 2: it asks. 3: the controller, still busy, takes in the new registration."""

    async def scenario(cluster: Cluster) -> None:
        await put_topic(cluster, (2, 3), PartitionState(BrokerId(2), 0, ids(2, 3), 1))
        await cluster.register(2)
        await cluster.register(3)
        controller = await cluster.join(1)
        original = controller.zookeeper.get
        reading, go_on = asyncio.Event(), asyncio.Event()

        async def get(path: str, *, watch: bool = False) -> tuple[bytes, Stat]:
            reading.set()
            await go_on.wait()
            return await original(path, watch=watch)

        controller.zookeeper.get = get  # type: ignore[method-assign]
        bounced = cluster.candidates[2].zookeeper
        before = controller.controller.context.broker_epoch(BrokerId(2))
        data, _ = await cluster.admin.get(broker_path(2))
        await bounced.delete(broker_path(2))
        await bounced.create(broker_path(2), data)
        await reading.wait()
        _, stat = await cluster.admin.get(broker_path(2))
        asked = asyncio.create_task(controller.controller.check_broker_epoch(BrokerId(2), stat.czxid))
        await asyncio.sleep(0)
        go_on.set()
        await asked
        with pytest.raises(RequestError) as refused:
            await controller.controller.check_broker_epoch(BrokerId(2), before)
        assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
        with pytest.raises(RequestError) as refused:
            await controller.controller.check_broker_epoch(BrokerId(4711), NO_BROKER_EPOCH)
        assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED

    run(tmp_path, scenario)


def test_a_state_that_changed_meanwhile_is_read_and_decided_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        for broker in (2, 3, 4):
            await cluster.register(broker)
        await put_topic(cluster, (2, 3, 4), PartitionState(BrokerId(2), 0, ids(2, 3, 4), 1))
        controller = await cluster.join(1)
        # Leader 2 shrinks the ISR to (2, 4) behind the controller's back, and dies: 3 must not lead.
        await put_state(cluster, PartitionState(BrokerId(2), 0, ids(2, 4), 1))
        await cluster.kill(2)
        assert await cluster.state("t", 0) == PartitionState(BrokerId(4), 1, ids(4), 1)
        assert controller.orders[-1].partitions[0].state.partition_epoch == 2

    run(tmp_path, scenario)


def test_what_was_written_before_a_conflict_is_ordered_too(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        count = 6_000  # Their states do not fit into one multi.
        controller = await cluster.join(1)
        await cluster.register(2)
        await cluster.settled()
        wish = TopicRequest("t", assignment={number: [2, 1] for number in range(count)})
        await controller.controller.topics.create_topics([wish])
        last = partition_state_path(TopicPartition("t", count - 1))
        await cluster.admin.set(last, PartitionState(BrokerId(2), 0, ids(2, 1), 1).encode())
        await cluster.kill(2)
        await cluster.settled()
        change = controller.orders[-1]
        assert sorted(order.topic_partition.partition for order in change.partitions) == list(range(count))
        assert {order.state.leader for order in change.partitions} == {1}
        assert {order.state.partition_epoch for order in change.partitions} == {1, 2}
        assert (await cluster.state("t", count - 1)).leader == 1

    run(tmp_path, scenario)


def test_a_zombie_controller_writes_nothing_and_resigns(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await put_topic(cluster, (2, 3), PartitionState(BrokerId(2), 0, ids(2, 3), 1))
        await cluster.register(2)
        await cluster.register(3)
        zombie = await cluster.join(1)
        # It is paused: hears nothing. Its session ends, there is another controller, then it goes on where it was.
        cluster.server.detach(zombie.zookeeper.session_id)
        cluster.candidates[1].seen.clear()
        await cluster.admin.delete("/controller")
        heir = await cluster.join(4)
        assert (await seat(cluster))[:2] == (4, b"2")
        before = cluster.server.tree_zxid
        with pytest.raises(NotController):
            await zombie.controller.topics.create_topics([TopicRequest("late")])
        assert not zombie.controller.is_active
        assert cluster.server.tree_zxid == before
        assert heir.controller.is_active

    run(tmp_path, scenario)


def test_an_expired_session_ends_the_term_at_once(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.join(1)
        topics = broker.controller.topics
        await cluster.server.expire(broker.zookeeper.session_id)
        assert not broker.controller.is_active
        with pytest.raises(NotController):
            await topics.create_topics([TopicRequest("t")])
        assert broker.controller.controller_id == NO_LEADER
        await cluster.come_back(1)
        assert broker.controller.is_active
        assert broker.controller.context.epoch == 2

    run(tmp_path, scenario)


def test_a_deletion_that_was_not_completed_is(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await put_topic(cluster, (1,), PartitionState(BrokerId(1), 0, ids(1), 1))
        await cluster.admin.create("/admin/delete_topics/t")
        await cluster.admin.create("/admin/delete_topics/gone-already")
        # The one before got as far as this.
        await cluster.admin.delete(partition_state_path(T0))
        broker = await cluster.join(1)
        await cluster.settled()
        assert await cluster.admin.children("/brokers/topics") == []
        assert await cluster.admin.children("/admin/delete_topics") == []
        assert [name for change in broker.orders for name, _ in change.deleted_topics] == ["t"]
        assert all(change.partitions == () for change in broker.orders), "nobody is to lead what is being deleted"

    run(tmp_path, scenario)


@pytest.mark.parametrize("path", ["/brokers/topics/t", partition_state_path(T0), "/brokers/ids/x"])
def test_garbage_in_a_znode_harms_only_what_it_names(tmp_path: Path, path: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        await put_topic(cluster, (1,), PartitionState(BrokerId(1), 0, ids(1), 1))
        await cluster.admin.create("/brokers/topics/u", TopicAssignment("u", {0: (1,)}, None).encode())
        if await cluster.admin.exists(path) is None:
            await cluster.admin.create(path, b"garbage")
        else:
            await cluster.admin.set(path, b"garbage")
        broker = await cluster.join(1)
        assert (await cluster.state("u", 0)).leader == 1
        malformed = list(broker.controller.context.malformed)
        assert malformed == ([path] if path != "/brokers/ids/x" else [])
        assert (await cluster.admin.get(path))[0] == b"garbage", "it is left as evidence"

    run(tmp_path, scenario)


def test_garbage_in_the_controller_epoch_is_an_error_at_the_start(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.admin.create("/controller_epoch", b"garbage")
        broker = await cluster.register(1)
        with pytest.raises(Exception, match="/controller_epoch: malformed"):
            await broker.controller.start()

    run(tmp_path, scenario)


def test_an_event_that_failed_is_handled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_module, "RETRY_MS", 10)

    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.register(1)
        original = broker.zookeeper.children
        down = True

        async def children(path: str, *, watch: bool = False) -> list[str]:
            if down and path == "/brokers/topics":
                raise ConnectionLoss("for the test")
            return await original(path, watch=watch)

        broker.zookeeper.children = children  # type: ignore[method-assign]
        with pytest.raises(ConnectionLoss):
            await broker.controller.start()
        assert not broker.controller.is_active, "it holds the seat, but knows nothing yet"
        down = False
        await broker.ordered.wait()
        assert broker.controller.is_active
        assert await seat(cluster) == (1, b"1", broker.zookeeper.session_id)

    run(tmp_path, scenario)


def test_brokers_and_topics_that_come_while_a_term_begins_are_not_missed(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.register(1)
        original = broker.zookeeper.children
        missed = ["/brokers/ids", "/brokers/topics"]

        async def children(path: str, *, watch: bool = False) -> list[str]:
            """What comes right behind the first reading is told before the term has read everything."""
            names = await original(path, watch=watch)
            if path in missed:
                missed.remove(path)
                if path == "/brokers/ids":
                    await cluster.register(2)
                else:
                    await put_topic(cluster, (2,), None)
            return names

        broker.zookeeper.children = children  # type: ignore[method-assign]
        await broker.controller.start()
        await cluster.settled()
        assert sorted(broker.controller.context.brokers) == [1, 2]
        assert (await cluster.state("t", 0)).leader == 2

    run(tmp_path, scenario)


def test_the_features_znode_is_there_and_enabled_as_kafkas_brokers_want_it(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.join(1)
        assert (await cluster.admin.get("/feature"))[0] == b'{"features":{},"version":2,"status":1}'
        disabled = b'{"features":{"f":{"max_version_level":3}},"version":2,"status":0}'
        for found in (disabled, b"garbage"):
            await cluster.admin.set("/feature", found)
            await cluster.admin.delete("/controller")
            await cluster.settled()
            assert cluster.candidates[1].controller.is_active
            left = FeatureNode.decode(disabled) if found is disabled else None
            data, _ = await cluster.admin.get("/feature")
            assert data == (replace(left, enabled=True).encode() if left else b"garbage")

    run(tmp_path, scenario)


def test_an_election_gives_up_after_so_many_attempts_and_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_module, "MAX_ELECTION_ATTEMPTS", 3)

    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.register(1)
        attempts = []

        async def lose(operations: Sequence[Operation]) -> list[OperationResult]:
            attempts.append(operations)
            raise ConnectionLoss("always")

        original = broker.zookeeper.multi
        broker.zookeeper.multi = lose  # type: ignore[method-assign]
        await broker.controller.start()
        assert len(attempts) == 3
        assert not broker.controller.is_active
        broker.zookeeper.multi = original  # type: ignore[method-assign]

    run(tmp_path, scenario)


def test_a_bug_in_carrying_out_orders_is_heard_of(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        heard: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: heard.append(str(context["exception"])))
        broker = await cluster.register(1)
        broker.failure = InvariantViolation("for the test")
        await broker.controller.start()
        await cluster.settled()
        assert heard == ["for the test"]

    run(tmp_path, scenario)


def test_a_bug_in_handling_an_event_ends_the_term_loudly(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        heard: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: heard.append(str(context["exception"])))
        broker = await cluster.join(1)

        async def children(path: str, *, watch: bool = False) -> list[str]:
            raise InvariantViolation("for the test")

        broker.zookeeper.children = children  # type: ignore[method-assign]
        await cluster.register(2)
        with pytest.raises(InvariantViolation):
            await broker.controller.settled()
        assert heard == ["for the test"]
        assert not broker.controller.is_active

    run(tmp_path, scenario)


def test_controllers_are_started_by_their_broker(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        broker = await cluster.register(1)
        assert isinstance(broker.controller, Controller)
        assert not broker.controller.is_active
        with pytest.raises(NotController):
            _ = broker.controller.topics

    run(tmp_path, scenario)
