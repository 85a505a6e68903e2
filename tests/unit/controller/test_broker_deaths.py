"""Brokers that are killed, expire, bounce and come back: who leads, who is in sync, who is told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from kavka.controller import controller as controller_module
from kavka.controller.controller import ControllerSettings
from kavka.controller.decide.topic_plans import TopicRequest
from kavka.controller.orders.channels import ChannelLimits
from kavka.controller.orders.control_requests import FULL
from kavka.controller.work.leaders import MAX_WRITE_ATTEMPTS
from kavka.decisions import DecisionKind
from kavka.errors import ErrorCode
from kavka.model import NO_LEADER, BrokerId, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.zookeeper.port import ConnectionLoss, Operation, OperationResult
from kavka.zookeeper.znode_paths import broker_path, partition_state_path
from tests.unit.controller.scripted_brokers import Brokers, run, until

T0 = TopicPartition("t", 0)


async def create(cluster: Brokers, name: str = "t", **replicas: list[int]) -> None:
    """A topic with these replicas: p0=[1, 2, 3]."""
    assignment = {int(key[1:]): value for key, value in replicas.items()}
    outcomes = await cluster.controller.controller.topics.create_topics([TopicRequest(name, assignment=assignment)])
    assert [outcome.code for outcome in outcomes] == [ErrorCode.NONE]


def test_a_killed_leader_is_replaced_long_before_its_session_is_over(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        await create(cluster, p0=[2, 3, 1])
        cluster.kill(2)
        await cluster.until_state("t", 3, [3, 1])
        await until(lambda: cluster[3].inside.leads("t", 0) == (3, 1, [3, 1]))
        await until(lambda: cluster[1].inside.metadata("t", 0) == (3, 1, [3, 1]))
        context = cluster[1].controller.context
        assert list(context.brokers) == [1, 2, 3], "the session is not over"
        assert dict(context.unreachable) == {2: cluster[2].epoch}
        await cluster.expire(2)
        assert list(context.brokers) == [1, 3]
        assert not context.unreachable
        assert cluster[1].reasons(DecisionKind.BROKER_UNREACHABLE)
        assert cluster[1].reasons(DecisionKind.BROKER_WENT) == ["broker 2: its session ended"]

    run(tmp_path, scenario)


def test_a_killed_follower_leaves_every_isr_at_once(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3, 4)
        await create(cluster, p0=[1, 2, 3], p1=[3, 2, 1], p2=[1, 3, 4])
        cluster.kill(2)
        assert (await cluster.until_state("t", 1, [1, 3])).leader_epoch == 1
        assert (await cluster.until_state("t", 3, [3, 1], partition=1)).leader_epoch == 1
        assert (await cluster.state("t", 2)).leader_epoch == 0, "it has no replica there"
        await until(lambda: cluster[3].inside.leads("t", 1) == (3, 1, [3, 1]))
        (shrunk, _) = [each for each in cluster[1].decisions if each.kind is DecisionKind.ISR_SHRUNK]
        assert shrunk.evidence["removed"] == (2,)
        assert shrunk.evidence["unreachable"] == (2,)

    run(tmp_path, scenario)


def test_a_reset_connection_alone_changes_nothing(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        await create(cluster, p0=[2, 1])
        await until(lambda: bool(cluster[2].inside.links))
        cluster[2].inside.cut()
        await until(lambda: len(cluster[2].inside.links) == 1)
        await create(cluster, "later", p0=[2, 1])
        await until(lambda: cluster[2].inside.leads("later", 0) == (2, 0, [2, 1]))
        assert (await cluster.state("t")).leader_epoch == 0
        assert not cluster[1].controller.context.unreachable

    run(tmp_path, scenario)


def test_the_last_in_sync_replica_is_kept_when_it_is_unreachable(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        await create(cluster, p0=[2])
        cluster.kill(2)
        state = await cluster.until_state("t", NO_LEADER, [2])
        assert state.leader_epoch == 1
        await cluster.restart(2)
        await cluster.until_state("t", 2, [2])
        await until(lambda: cluster[2].inside.leads("t", 0) is not None)

    run(tmp_path, scenario)


def test_an_unreachable_broker_that_takes_connections_again_may_lead_again(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        await create(cluster, p0=[2])
        cluster[2].inside.listens = False
        cluster[2].inside.cut()
        await cluster.until_state("t", NO_LEADER, [2])
        cluster[2].inside.listens = True
        state = await cluster.until_state("t", 2, [2])
        assert state.leader_epoch == 2
        assert not cluster[1].controller.context.unreachable
        await until(lambda: cluster[2].inside.leads("t", 0) == (2, 2, [2]))

    run(tmp_path, scenario)


def test_topics_are_created_beside_an_unreachable_broker_without_waiting_for_it(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        cluster.kill(3)
        await until(lambda: 3 in cluster[1].controller.context.unreachable)
        await create(cluster, p0=[3, 1, 2])
        assert (await cluster.state("t")).isr == (1, 2), "who is unreachable is not in the first ISR"

    run(tmp_path, scenario)


def test_a_new_partition_whose_only_replica_is_unreachable_is_led_when_that_is_over(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        await until(lambda: bool(cluster[2].inside.links))
        cluster[2].inside.listens = False
        cluster[2].inside.cut()
        await until(lambda: 2 in cluster[1].controller.context.unreachable)
        await create(cluster, p0=[2])
        assert await cluster.admin.exists(partition_state_path(T0)) is None
        cluster[2].inside.listens = True
        await until(lambda: cluster[2].inside.leads("t", 0) == (2, 0, [2]))

    run(tmp_path, scenario)


# ------------------------------------------------------------------------- the three crash cases of a partition


async def with_isr_of_1_and_2(cluster: Brokers, settings: ControllerSettings | None = None) -> None:
    """AR=(1,2,3), ISR=(1,2), leader 1; 3 is alive and lags; the controller is 4."""
    await cluster.join(4, 1, 2, 3, settings=settings)
    await create(cluster, p0=[1, 2, 3])
    cluster.kill(3)
    await cluster.until_state("t", 1, [1, 2])
    await cluster.restart(3)
    await cluster.until_state("t", 1, [1, 2])


@pytest.mark.parametrize("victim", [1, 2])
def test_case_a_one_of_two_dies_and_the_other_leads(tmp_path: Path, victim: int) -> None:
    async def scenario(cluster: Brokers) -> None:
        await with_isr_of_1_and_2(cluster)
        survivor = 3 - victim
        cluster.kill(victim)
        await cluster.until_state("t", survivor, [survivor])
        await cluster.expire(victim)
        await cluster.until_state("t", survivor, [survivor])

    run(tmp_path, scenario)


def test_case_b_the_last_one_is_waited_for_whoever_else_returns(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await with_isr_of_1_and_2(cluster)
        cluster.kill(1)
        await cluster.until_state("t", 2, [2])
        cluster.kill(2)
        await cluster.until_state("t", NO_LEADER, [2])
        await cluster.expire(1, 2)
        await cluster.restart(1)
        before = await cluster.until_state("t", NO_LEADER, [2])
        await cluster.restart(2)
        assert (await cluster.until_state("t", 2, [2])).leader_epoch == before.leader_epoch + 1

    run(tmp_path, scenario)


@pytest.mark.parametrize("returns", [1, 2])
@pytest.mark.parametrize("how", ["killed", "expired"])
def test_case_c_two_die_at_once_and_either_may_return(tmp_path: Path, returns: int, how: str) -> None:
    async def scenario(cluster: Brokers) -> None:
        await with_isr_of_1_and_2(cluster)
        if how == "killed":
            cluster.kill(1, 2)
        else:
            for victim in (1, 2):
                cluster[victim].inside.listens = False  # The reset comes with the expiry, or after it.
            await cluster.expire(1, 2)
        await cluster.until_state("t", NO_LEADER, [1, 2])
        await cluster.expire(1, 2)
        await cluster.until_state("t", NO_LEADER, [1, 2])
        await cluster.restart(returns)
        await cluster.until_state("t", returns, [returns])

    run(tmp_path, scenario)


@pytest.mark.parametrize("controller", [4, 1])
def test_case_c_whose_second_death_is_seen_later(tmp_path: Path, controller: int) -> None:
    async def scenario(cluster: Brokers) -> None:
        first, second = (1, 2)
        await cluster.join(controller, *(each for each in (4, 1, 2, 3) if each != controller))
        await create(cluster, p0=[1, 2, 3])
        cluster.kill(3)
        await cluster.until_state("t", 1, [1, 2])
        await until(lambda: len(cluster[controller].inside.links) >= 2)
        cluster.kill(first)
        # It is dying too: it answers nothing any more, and its connections are reset a little later.
        cluster[second].inside.running.clear()
        cluster[second].controller.abort()
        asyncio.get_running_loop().call_later(0.08, cluster.kill, second)
        await cluster.until_state("t", NO_LEADER, [1, 2])

    run(tmp_path, scenario)


def test_case_c_with_the_controller_among_the_dead(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        await create(cluster, p0=[1, 2, 3])
        cluster.kill(3)
        await cluster.until_state("t", 1, [1, 2])
        await cluster.restart(3)
        await until(lambda: bool(cluster[1].inside.links))
        await cluster.settled()
        cluster.kill(1, 2)
        await cluster.until_state("t", NO_LEADER, [1, 2])
        assert cluster.controller.broker_id == 3

    run(tmp_path, scenario)


# ----------------------------------------------------------------------------------------------- bounced brokers


def test_a_bounced_broker_lost_its_leaderships_and_is_told_everything(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        await create(cluster, p0=[2, 3])
        former = cluster[2].epoch
        cluster.kill(2)
        # Its session ends and it is back before the controller looks: one event.
        await cluster.restart(2)
        assert cluster[2].epoch != former
        await cluster.until_state("t", 3, [3])
        await until(lambda: cluster[2].inside.leads("t", 0) is not None)
        for _, message in cluster[2].inside.received:
            assert message.broker_epoch == cluster[2].epoch, "nothing of its former life reaches it"

    run(tmp_path, scenario)


def test_an_answer_of_a_stale_broker_epoch_drops_what_is_left_for_it(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        await create(cluster, p0=[1, 2])
        await until(lambda: cluster[2].inside.leads("t", 0) is not None)
        cluster[2].inside.refuses = {ApiKey.LEADER_AND_ISR: ErrorCode.STALE_BROKER_EPOCH}
        told = len(cluster[2].inside.received)
        await create(cluster, "u", p0=[1, 2])
        await create(cluster, "v", p0=[1, 2])
        assert [key for key, _ in cluster[2].inside.received[told:]] == [ApiKey.LEADER_AND_ISR]

    run(tmp_path, scenario)


def test_a_paused_broker_gets_all_requests_in_order_when_it_goes_on(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        cluster[2].inside.running.clear()
        topics = cluster[1].controller.topics
        wishes = [TopicRequest(f"t{number}", assignment={0: [1, 2]}) for number in range(5)]
        for wish in wishes:
            (outcome,) = await topics.create_topics([wish], timeout_ms=10)
            assert outcome.code is ErrorCode.NONE, "written, whoever is slow to obey"
        cluster[2].inside.running.set()
        await until(lambda: cluster[2].inside.leads("t4", 0) is not None)
        names = [m.topic_states[0].topic_name for m in cluster[2].inside.told(ApiKey.LEADER_AND_ISR)]
        assert names == [wish.name for wish in wishes]

    run(tmp_path, scenario)


def test_a_broker_that_was_paused_for_too_many_requests_is_told_everything_when_it_goes_on(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        limits = ChannelLimits(max_queued_requests=6)
        await cluster.join(1, 2, settings=ControllerSettings(limits=limits))
        await create(cluster, "doomed", p0=[2, 1])
        cluster[2].inside.running.clear()
        topics = cluster[1].controller.topics
        await topics.delete_topics(["doomed"], timeout_ms=10)
        for number in range(6):
            await topics.create_topics([TopicRequest(f"t{number}", assignment={0: [1, 2]})], timeout_ms=10)
        cluster[2].inside.running.set()
        for number in range(6):
            await until(lambda: cluster[2].inside.leads(f"t{number}", 0) == (1, 0, [1, 2]))  # noqa: B023
        last = cluster[2].inside.told(ApiKey.LEADER_AND_ISR)[-1]
        assert (last.type, len(last.topic_states)) == (FULL, 6)
        await until(lambda: "doomed" not in cluster[1].controller.context.topics)

    run(tmp_path, scenario)


# ---------------------------------------------------------------------------------------------- failed directories


def test_a_replica_in_a_failed_directory_leads_no_more_and_the_others_of_its_broker_go_on(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        await create(cluster, p0=[2, 1], p1=[2, 1])
        cluster[2].inside.errors[(ApiKey.LEADER_AND_ISR, T0)] = ErrorCode.KAFKA_STORAGE_ERROR
        await cluster.admin.create(
            "/log_dir_event_notification/log_dir_event_0000000000", b'{"version":1,"broker":2,"event":1}'
        )
        await cluster.until_state("t", 1, [1])
        assert (await cluster.state("t", 1)).leader == 2
        await until(lambda: cluster[1].inside.metadata("t", 0) == (1, 1, [1]))
        assert await cluster.admin.children("/log_dir_event_notification") == []
        message = cluster[1].inside.told(ApiKey.UPDATE_METADATA)[-1]
        assert message.topic_states[0].partition_states[0].offline_replicas == [2]
        assert cluster[1].reasons(DecisionKind.LOG_DIRECTORY_OFFLINE)

    run(tmp_path, scenario)


def test_unclean_elections_that_are_allowed_later_are_held_then(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        allowed: list[str] = []
        settings = ControllerSettings(unclean_allowed=lambda topic: topic in allowed)
        await with_isr_of_1_and_2(cluster, settings)
        cluster.kill(1, 2)
        await cluster.until_state("t", NO_LEADER, [1, 2])
        await cluster.expire(1, 2)
        allowed.append("t")
        cluster.controller.controller.topic_config_changed(["t"])
        state = await cluster.until_state("t", 3, [3])
        assert state.leader_recovery_state == 1
        (elected,) = [
            each
            for each in cluster.controller.decisions
            if each.kind is DecisionKind.LEADER_ELECTED and each.after["leader"] == BrokerId(3)
        ]
        assert elected.evidence["unclean"] is True

    run(tmp_path, scenario)


def test_an_unclean_election_waits_for_the_sessions_of_those_who_have_the_records(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await with_isr_of_1_and_2(cluster, ControllerSettings(unclean_allowed=lambda topic: True))
        cluster.kill(1, 2)
        await cluster.until_state("t", NO_LEADER, [1, 2])
        await cluster.expire(1)
        assert (await cluster.state("t")).leader == NO_LEADER, "broker 2 may be starting"
        await cluster.expire(2)
        await cluster.until_state("t", 3, [3])

    run(tmp_path, scenario)


def test_who_bounced_is_not_replaced_by_a_replica_that_lacks_records(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        settings = ControllerSettings(unclean_allowed=lambda topic: True)
        await cluster.join(1, 2, 3, settings=settings)
        await create(cluster, p0=[2, 3])
        state = await cluster.state("t")
        only_2 = state.__class__(state.leader, state.leader_epoch, (BrokerId(2),), 1)
        stat = await cluster.admin.set(partition_state_path(T0), only_2.encode())
        context = cluster[1].controller.context
        context.states[T0] = context.states[T0].__class__(only_2, stat.version)
        await cluster.admin.delete(broker_path(BrokerId(2)))
        await cluster.register_again(2)
        assert (await cluster.state("t")).leader == 2
        assert not [each for each in cluster[1].decisions if each.evidence.get("unclean")]

    run(tmp_path, scenario)


@pytest.mark.parametrize("what", ["unreachable", "reachable", "failed directory"])
def test_what_zookeeper_did_not_take_at_first_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(controller_module, "RETRY_MS", 10)

    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        await create(cluster, p0=[2] if what == "reachable" else [2, 1])
        await until(lambda: bool(cluster[2].inside.links))
        if what == "reachable":
            cluster[2].inside.listens = False
            cluster[2].inside.cut()
            await cluster.until_state("t", NO_LEADER, [2])
        original, losses = cluster[1].zookeeper.multi, [None] * MAX_WRITE_ATTEMPTS

        async def lossy(operations: Sequence[Operation]) -> list[OperationResult]:
            if losses:
                losses.pop()
                raise ConnectionLoss("before")
            return await original(operations)

        cluster[1].zookeeper.multi = lossy  # type: ignore[method-assign]
        if what == "unreachable":
            cluster.kill(2)
        elif what == "reachable":
            cluster[2].inside.listens = True
        else:
            cluster[2].inside.errors[(ApiKey.LEADER_AND_ISR, T0)] = ErrorCode.KAFKA_STORAGE_ERROR
            event = b'{"version":1,"broker":2,"event":1}'
            await cluster.admin.create("/log_dir_event_notification/log_dir_event_0000000000", event)
        await until(lambda: not losses)
        leader = 2 if what == "reachable" else 1
        await cluster.until_state("t", leader, [leader])

    run(tmp_path, scenario)


def test_a_state_that_somebody_else_wrote_is_decided_on_again(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        await create(cluster, p0=[2, 1, 3])
        state = await cluster.state("t")
        # The leader wrote ISR (2, 3) by itself, as before Kafka 2.7.
        written = state.__class__(state.leader, state.leader_epoch, (BrokerId(2), BrokerId(3)), 1)
        await cluster.admin.set(partition_state_path(T0), written.encode())
        cluster.kill(2)
        await cluster.until_state("t", 3, [3])

    run(tmp_path, scenario)
