"""After a standstill nobody is out who was heard of in time, whatever timers a group had before: its one timer waits
until what has arrived is read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kavka.coordinator.groups.consumer.decide.heartbeat import ConsumerHeartbeat, HeartbeatAnswer
from kavka.coordinator.groups.coordinator import GroupCoordinator
from kavka.coordinator.shared.standstill import STOOD_STILL_S, TURNS, after_reading, stood_still
from tests.kit.virtual_time import in_virtual_time
from tests.unit.coordinator.test_group_coordinator_edges import SESSION_S, All, stands_still

KINDS = ["consumer", "share", "streams"]


def heartbeat_of(case: All, kind: str) -> Any:
    return {"consumer": case.consumer, "share": case.share, "streams": case.streams}[kind]


def members(groups: GroupCoordinator) -> set[str]:
    shard = groups.shard_of("g").shard
    group = shard.consumer_groups.get("g") or shard.share_groups.get("g") or shard.streams_groups["g"]
    return set(group.members)


async def some_turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def revoking(case: All, epoch: int, *, gives_back: bool = False) -> HeartbeatAnswer:
    """A heartbeat of member m, which has nothing any more if it gives back."""
    owned: Any = {} if gives_back else None
    return await case.groups.consumer_heartbeat(
        ConsumerHeartbeat("g", "m", epoch, None, None, -1, None, None, None, owned, "client", "/h", 1)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_who_is_read_first_does_not_put_out_who_is_read_next(kind: str) -> None:
    """1. two heartbeats arrive in time, and the process stands still until both sessions are over; 2. the first one is
    carried out, which looks when the group's next session ends: that of the second has already; 3. that one is read."""

    async def scenario() -> None:
        case = All()
        groups = await case.start()
        beats = heartbeat_of(case, kind)
        await beats("g", "m")
        epochs = {"n": (await beats("g", "n")).member_epoch, "m": (await beats("g", "m")).member_epoch}
        stands_still(SESSION_S + STOOD_STILL_S + 0.01)
        await some_turns()  # What arrived meanwhile is read after timers have run.
        for member in ("m", "n"):
            await beats("g", member, epochs[member])
            await some_turns()
        await asyncio.sleep(1)
        assert members(groups) == {"m", "n"}

    in_virtual_time(scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_a_timer_of_who_has_left_does_not_put_out_who_came_after(kind: str) -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        beats = heartbeat_of(case, kind)
        await beats("g", "m")
        await beats("g", "m", -1)
        await asyncio.sleep(1)
        epoch = (await beats("g", "n")).member_epoch
        await asyncio.sleep(SESSION_S - 0.5)  # The session that m would have had is over.
        stands_still(0.5 + STOOD_STILL_S + 0.01)
        await some_turns()
        await beats("g", "n", epoch)
        await asyncio.sleep(1)
        assert members(groups) == {"n"}

    in_virtual_time(scenario)


def test_a_timer_of_before_a_nearer_one_does_not_put_out_who_is_heard_of() -> None:
    """Member m has its rebalance time-out to give back what n is to get: that ends before its session does."""

    async def scenario() -> None:
        case = All()
        groups = await case.start()
        epoch = (await case.consumer("g", "m")).member_epoch
        await asyncio.sleep(1)
        await case.consumer("g", "n")
        await revoking(case, epoch)
        epoch = (await revoking(case, epoch, gives_back=True)).member_epoch
        other = (await case.consumer("g", "n")).member_epoch
        await asyncio.sleep(SESSION_S - 0.5)
        assert members(groups) == {"m", "n"}
        stands_still(0.5 + STOOD_STILL_S + 0.01)
        await some_turns()
        await revoking(case, epoch)
        await case.consumer("g", "n", other)
        await asyncio.sleep(1)
        assert members(groups) == {"m", "n"}

    in_virtual_time(scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_what_waited_for_a_reading_does_not_put_out_who_came_meanwhile(kind: str) -> None:
    """1. a group's only member is late after a standstill, and what has arrived is being read: that it leaves, and that
    another one joins; 2. that one is heard of just before its session ends, in another standstill."""

    async def scenario() -> None:
        case = All()
        groups = await case.start()
        beats = heartbeat_of(case, kind)
        await beats("g", "m")
        stands_still(SESSION_S + STOOD_STILL_S + 0.01)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(STOOD_STILL_S)  # The turns begin.
        await beats("g", "m", -1)
        epoch = (await beats("g", "n")).member_epoch
        await some_turns()
        await asyncio.sleep(1)
        stands_still(SESSION_S - 1 + STOOD_STILL_S + 0.01)
        await some_turns()
        await beats("g", "n", epoch)
        await asyncio.sleep(1)
        assert members(groups) == {"n"}

    in_virtual_time(scenario)


@pytest.mark.parametrize(("late_s", "stood"), [(0.0, False), (0.09, False), (0.11, True), (5.0, True)])
def test_a_timer_that_is_a_tenth_of_a_second_late_tells_of_a_standstill(late_s: float, stood: bool) -> None:
    """What arrived has as long to be read, and no longer."""

    async def scenario() -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        timer = loop.call_at(loop.time() - late_s, done.set)
        assert stood_still(loop, timer) is stood
        await done.wait()
        done.clear()
        began = loop.time()
        after_reading(loop, done.set)
        await done.wait()
        assert loop.time() - began == pytest.approx(0.1, abs=0.001)

    in_virtual_time(scenario)
