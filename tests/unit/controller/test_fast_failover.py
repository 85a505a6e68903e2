"""The controller's process dies, or seems to: who follows, how soon, and what the old one can still do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from kavka.controller import active_controller
from kavka.controller import controller as controller_module
from kavka.controller.controller import ControllerSettings
from kavka.controller.decide.topic_plans import TopicRequest
from kavka.controller.term.controller_term import NotController
from kavka.decisions import DecisionKind
from kavka.errors import ErrorCode
from kavka.model import NO_LEADER
from kavka.protocol.api_keys import ApiKey
from kavka.zookeeper.port import ConnectionLoss, Operation, OperationResult, Stat
from kavka.zookeeper.znodes import ControllerNode
from tests.unit.controller.scripted_brokers import Brokers, Member, run, until


async def seat(cluster: Brokers) -> tuple[int, bytes | None]:
    """(controller's broker id, controller epoch)"""
    data, _ = await cluster.admin.get("/controller")
    epoch, _ = await cluster.admin.get("/controller_epoch")
    return ControllerNode.decode(data).broker_id, epoch


async def watched(cluster: Brokers) -> None:
    """The controller has a connection from each of the others."""
    inside = cluster.controller.inside
    await until(lambda: len(inside.links) == len(cluster.members) - 1)


async def create(cluster: Brokers, name: str, replicas: list[int]) -> None:
    (outcome,) = await cluster.controller.controller.topics.create_topics(
        [TopicRequest(name, assignment={0: replicas})]
    )
    assert outcome.code is ErrorCode.NONE


def test_a_killed_controller_is_followed_at_once_and_its_partitions_are_led_by_others(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        await create(cluster, "t", [1, 2, 3])
        await watched(cluster)
        cluster.kill(1)
        await until(lambda: cluster[2].controller.is_active or cluster[3].controller.is_active)
        await cluster.until_state("t", 2, [2, 3])
        successor = cluster.controller
        assert await seat(cluster) == (successor.broker_id, b"2")
        assert list(successor.controller.context.brokers) == [1, 2, 3], "the dead one's session is not over"
        await until(lambda: cluster[3].inside.leads("t", 0) == (2, 1, [2, 3]))
        assert [message.controller_epoch for message in cluster[3].inside.told(ApiKey.LEADER_AND_ISR)][-1] == 2
        (elected,) = successor.reasons(DecisionKind.CONTROLLER_ELECTED)
        assert "broker 1, the controller of epoch 1, refuses connections" in elected
        other = cluster[5 - successor.broker_id]
        assert other.controller.controller_id == successor.broker_id

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("many", "topics"),
    [(1, [["t"], ["t", "u"]]), (active_controller.MANY_PARTITIONS, [["t", "u"]])],
    ids=["many", "few"],
)
def test_among_many_partitions_those_with_another_leader_are_told_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int, topics: list[list[str]]
) -> None:
    monkeypatch.setattr(active_controller, "MANY_PARTITIONS", many)

    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        await create(cluster, "t", [1, 2, 3])
        await create(cluster, "u", [2, 3])
        await watched(cluster)
        cluster.kill(1)
        await until(lambda: cluster[2].controller.is_active or cluster[3].controller.is_active)
        await cluster.until_state("t", 2, [2, 3])
        other = cluster[5 - cluster.controller.broker_id]
        await until(lambda: len(told_in(other, epoch=2)) >= len(topics))
        assert told_in(other, epoch=2) == topics
        assert other.inside.leads("t", 0) == (2, 1, [2, 3])

    run(tmp_path, scenario)


def told_in(broker: Member, epoch: int) -> list[list[str]]:
    """The topics of each order that the controller of this epoch sent to the broker."""
    return [
        sorted(topic.topic_name for topic in message.topic_states)
        for message in broker.inside.told(ApiKey.LEADER_AND_ISR)
        if message.controller_epoch == epoch
    ]


def test_of_many_successors_one_wins_and_the_epoch_rises_once(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(*range(1, 8))
        await watched(cluster)
        cluster.kill(1)
        await until(lambda: any(member.controller.is_active for member in cluster.members.values()))
        await cluster.settled()
        await asyncio.sleep(0.1)
        await cluster.settled()
        assert await seat(cluster) == (cluster.controller.broker_id, b"2")

    run(tmp_path, scenario)


def test_successors_follow_one_another(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        await create(cluster, "t", [1, 2, 3])
        for killed in range(2):
            await until(lambda: len([m for m in cluster.members.values() if m.controller.is_active]) == 1)
            victim = cluster.controller
            await until(lambda: len(victim.inside.links) == 2 - killed)  # noqa: B023
            cluster.kill(victim.broker_id)
        await until(lambda: any(member.controller.is_active for member in cluster.members.values()))
        survivor = cluster.controller.broker_id
        await cluster.until_state("t", survivor, [survivor])
        assert await seat(cluster) == (survivor, b"3")

    run(tmp_path, scenario)


def test_a_controller_that_lives_after_all_is_deposed_and_follows(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        await watched(cluster)
        cluster[1].inside.listens = False
        cluster[1].inside.cut()
        await until(lambda: cluster[2].controller.is_active)
        await until(lambda: cluster[1].controller.controller_id == 2)
        assert not cluster[1].controller.is_active
        assert await seat(cluster) == (2, b"2")
        with pytest.raises(NotController):
            _ = cluster[1].controller.topics
        assert cluster[1].reasons(DecisionKind.CONTROLLER_RESIGNED)

    run(tmp_path, scenario)


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_a_seat_that_was_taken_with_an_unknown_outcome_is_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    monkeypatch.setattr(controller_module, "RETRY_MS", 10)

    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        await watched(cluster)
        original, losses = cluster[2].zookeeper.multi, [lost]

        async def lossy(operations: Sequence[Operation]) -> list[OperationResult]:
            loss = losses.pop() if losses else None
            if loss == "request":
                raise ConnectionLoss("before")
            results = await original(operations)
            if loss == "answer":
                raise ConnectionLoss("after")
            return results

        cluster[2].zookeeper.multi = lossy  # type: ignore[method-assign]
        cluster.kill(1)
        await until(lambda: cluster[2].controller.is_active)
        assert await seat(cluster) == (2, b"2")
        await until(lambda: list(cluster[2].controller.context.unreachable) == [1])

    run(tmp_path, scenario)


def test_a_controller_role_that_is_lost_while_its_holder_looks_at_it_is_not_used(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        await watched(cluster)
        original = cluster[1].zookeeper.get

        async def slow(path: str, *, watch: bool = False) -> tuple[bytes | None, Stat]:
            found = await original(path, watch=watch)
            if path == "/controller":
                cluster[1].zookeeper.get = original  # type: ignore[method-assign]
                cluster[1].inside.listens = False
                cluster[1].inside.cut()
                await until(lambda: cluster[2].controller.is_active)
            return found

        cluster[1].zookeeper.get = slow  # type: ignore[method-assign]
        active = cluster[1].controller._active
        assert active is not None
        active.term.end("an answer was lost")
        await until(lambda: cluster[2].controller.is_active)
        await until(lambda: cluster[1].controller.controller_id == 2)
        assert await seat(cluster) == (2, b"2")
        assert len(cluster[1].reasons(DecisionKind.CONTROLLER_ELECTED)) == 1, "epoch 2 is the other one's"

    run(tmp_path, scenario)


@pytest.mark.setting("kavka.controller.fast.failover")
def test_without_fast_failover_the_session_is_waited_for(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, settings=ControllerSettings(fast_failover=False))
        cluster.kill(1)
        await asyncio.sleep(0.3)
        assert await seat(cluster) == (1, b"1")
        await cluster.expire(1)
        assert await seat(cluster) == (2, b"2")

    run(tmp_path, scenario)


def test_a_controller_that_was_never_reached_keeps_its_seat(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1)
        cluster[1].inside.listens = False
        await cluster.join(2)
        await asyncio.sleep(0.3)
        assert await seat(cluster) == (1, b"1")

    run(tmp_path, scenario)


def test_a_cut_connection_that_comes_back_takes_no_seat(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        for _ in range(5):
            await watched(cluster)
            cluster[1].inside.cut()
        await watched(cluster)
        assert await seat(cluster) == (1, b"1")

    run(tmp_path, scenario)


def test_what_a_zombie_controller_writes_and_sends_has_no_effect(tmp_path: Path) -> None:
    """S25: it is paused in the middle of a write, another is the controller, it goes on."""

    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        await create(cluster, "t", [3, 2, 1])
        zombie = cluster[1]
        original = zombie.zookeeper.multi
        paused, goes_on = asyncio.Event(), asyncio.Event()

        async def pausing(operations: Sequence[Operation]) -> list[OperationResult]:
            paused.set()
            await goes_on.wait()
            return await original(operations)

        zombie.zookeeper.multi = pausing  # type: ignore[method-assign]
        wish = asyncio.ensure_future(zombie.controller.topics.create_topics([TopicRequest("late")]))
        cluster.kill(3)  # The zombie wants to elect another leader, too.
        await paused.wait()
        await cluster.admin.delete("/controller")
        await until(lambda: cluster[2].controller.is_active)
        state = await cluster.until_state("t", 2, [2, 1])
        told = [len(cluster[broker_id].inside.received) for broker_id in (1, 2)]
        goes_on.set()
        with pytest.raises(NotController):
            await wish
        await until(lambda: zombie.controller.controller_id == 2)
        await cluster.settled()
        assert await cluster.state("t") == state
        assert await cluster.admin.exists("/brokers/topics/late") is None
        for broker_id, count in zip((1, 2), told, strict=True):
            later = cluster[broker_id].inside.received[count:]
            assert {message.controller_epoch for _, message in later} <= {2}, "nothing of epoch 1 is sent any more"
        assert (await seat(cluster)) == (2, b"2")

    run(tmp_path, scenario)


def test_a_broker_that_knows_a_later_controller_makes_this_one_look(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        await watched(cluster)
        cluster[2].inside.refuses = {ApiKey.UPDATE_METADATA: ErrorCode.STALE_CONTROLLER_EPOCH}
        await create(cluster, "t", [1, 2])
        await cluster.settled()
        assert cluster[1].controller.is_active, "it holds the seat: the broker was wrong"

    run(tmp_path, scenario)


def test_both_of_two_brokers_are_killed_and_one_returns(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        await create(cluster, "t", [1, 2])
        await watched(cluster)
        cluster.kill(1, 2)
        await cluster.expire(1, 2)
        assert (await cluster.state("t")).isr == (1, 2)
        await cluster.join(2)
        await cluster.until_state("t", 2, [2])
        assert (await cluster.state("t")).leader != NO_LEADER

    run(tmp_path, scenario)
