"""Roles of hosted partitions: what an order has recorded, whom it wakes, and what waits at a follower."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

from kavka.decisions import Decision, DecisionKind
from kavka.errors import ErrorCode
from kavka.replication.decide.fetching import FetchOutcome
from kavka.replication.decide.isr_states import PendingExpand
from kavka.replication.decide.partition import Partition
from kavka.replication.purgatory import DelayedOperation
from kavka.replication.replica_manager import ReplicaManager, ReplicaPorts
from tests.kit.virtual_time import in_virtual_time
from tests.unit.log.log_support import PARTITION, batch
from tests.unit.replication.replication_support import A, B
from tests.unit.replication.test_replica_manager import Room, StoresAll, at_once


def in_room(path: Path, scenario: Callable[[Room, list[Decision]], Awaitable[None]]) -> None:
    """The broker's decisions are noted."""

    async def main() -> None:
        room, decisions = Room(path), list[Decision]()
        replicas = ReplicaManager(asyncio.get_running_loop(), ReplicaPorts(room.on_storage_error, decisions.append))
        for partition in room.partitions:
            replicas.host(partition)
        room.replicas = replicas
        await scenario(room, decisions)

    in_virtual_time(main)


def waiting(
    fetched: list[FetchOutcome] | DelayedOperation[list[FetchOutcome]],
) -> asyncio.Future[list[FetchOutcome]]:
    assert isinstance(fetched, DelayedOperation)
    return fetched.answer


def test_what_an_order_decided_is_recorded_once_and_a_late_order_has_nothing_recorded(tmp_path: Path) -> None:
    async def scenario(room: Room, decisions: list[Decision]) -> None:
        room.lead((A, B), leader_epoch=5, partition_epoch=5)
        assert [each.kind for each in decisions] == [DecisionKind.LEADERSHIP_TAKEN] * 2
        assert [each.evidence["is_new"] for each in decisions] == [False] * 2
        room.lead((A, B), leader_epoch=4, partition_epoch=4)
        room.follow(leader_epoch=4)
        assert len(decisions) == 2
        room.follow(leader_epoch=6)
        assert [each.kind for each in decisions[2:]] == [DecisionKind.FOLLOWING] * 2

    in_room(tmp_path, scenario)


def test_every_order_wakes_what_rests_before_anything_else_follows_from_it(tmp_path: Path) -> None:
    async def scenario(room: Room, decisions: list[Decision]) -> None:
        woken: list[tuple[Partition, int]] = []
        room.replicas.followers.wake = lambda partition: woken.append(  # type: ignore[method-assign]
            (partition, partition.leader_epoch)
        )
        one, other = room.partitions
        room.lead((A, B), leader_epoch=5, partition_epoch=5)
        assert woken[0] == (one, -1), "with what was known before"
        woken.clear()
        room.lead((A, B), leader_epoch=4, partition_epoch=4)
        assert woken == [(one, 5), (other, 5)]
        woken.clear()
        room.follow(leader_epoch=6)
        assert woken[0] == (one, 5)
        woken.clear()
        room.replicas.identify(one, uuid.UUID(int=88))
        assert woken == [(one, 6)]

    in_room(tmp_path, scenario)


def test_who_waits_for_a_partition_whose_disk_failed_is_told_at_once(tmp_path: Path) -> None:
    async def scenario(room: Room, decisions: list[Decision]) -> None:
        room.lead((A, B))
        consumed, followed = waiting(room.consume(0, wait_ms=10_000)), waiting(room.fetch(B, 0))
        room.replicas.take_offline([PARTITION])
        assert consumed.result()[0].error is followed.result()[0].error is ErrorCode.KAFKA_STORAGE_ERROR

    in_room(tmp_path, scenario)


def test_who_waits_at_a_follower_is_looked_at_when_that_has_more(tmp_path: Path) -> None:
    async def scenario(room: Room, decisions: list[Decision]) -> None:
        room.follow()
        consumed = waiting(room.consume(0, wait_ms=10_000))
        room.partition.append_as_follower(batch(leader_epoch=2), leader_epoch=2, wall_ms=0)
        room.partition.set_follower_high_watermark(1)
        room.replicas.on_follower_advanced(room.partitions[1])
        assert not consumed.done()
        room.replicas.on_follower_advanced(room.partition)
        assert consumed.done()

    in_room(tmp_path, scenario)


def test_what_too_few_in_sync_and_an_answer_decided_is_recorded(tmp_path: Path) -> None:
    async def scenario(room: Room, decisions: list[Decision]) -> None:
        room.partition.min_insync_replicas = 2
        room.lead((A,))
        decisions.clear()
        assert room.append().error is ErrorCode.NOT_ENOUGH_REPLICAS
        assert [each.kind for each in decisions] == [DecisionKind.PRODUCE_REFUSED]
        at_once(room.fetch(B, 0, wait_ms=0))
        running = asyncio.ensure_future(room.replicas.run_isr_changes(StoresAll()))
        await asyncio.sleep(1.0)
        assert [each.kind for each in decisions[1:]] == [DecisionKind.ISR_EXPANDED]
        assert decisions[-1].partition == PARTITION
        running.cancel()

    in_room(tmp_path, scenario)


def test_that_a_leader_stops_because_its_epoch_is_over_is_recorded(tmp_path: Path) -> None:
    async def scenario(room: Room, decisions: list[Decision]) -> None:
        room.lead((A,))
        at_once(room.fetch(B, 0, wait_ms=0))
        proposal = room.partition.isr_state
        assert isinstance(proposal, PendingExpand)
        decisions.clear()
        now_ms = room.replicas.now_ms()
        room.partition.on_isr_rejected(proposal.proposal, None, ErrorCode.FENCED_LEADER_EPOCH, now_ms=now_ms)
        await room.replicas.shrink_isrs()
        assert [each.kind for each in decisions] == [DecisionKind.FENCED]
        assert not room.partition.is_leader

    in_room(tmp_path, scenario)
