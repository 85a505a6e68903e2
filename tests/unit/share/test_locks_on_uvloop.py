"""Locks that are over already when they are looked at end on uvloop, too: its handle of what is due at once does not
say when that is. The exception that followed left them held until their member's session ended."""

from __future__ import annotations

import asyncio

import pytest

from kavka.coordinator.shared.standstill import stood_still
from kavka.share.decide.acquired_records import LogBatch, Wish
from tests.kit.share_leader_case import LIMITS, ShareLeaderCase, settled

uvloop = pytest.importorskip("uvloop")


def test_what_is_due_at_once_tells_of_no_standstill() -> None:
    async def play() -> None:
        loop = asyncio.get_running_loop()
        assert not stood_still(loop, loop.call_later(0, lambda: None))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(play())


def test_locks_that_are_over_when_they_are_looked_at_end() -> None:
    async def play() -> None:
        case = ShareLeaderCase()
        led = await case.find()
        long_ago_ms = case.leaders.now_ms() - LIMITS.lock_ms
        led.records.acquire("m", [LogBatch(0, 2, is_aborted=False)], Wish(500, 500), long_ago_ms, LIMITS)
        case.leaders.watch(led)
        case.leaders.watch(led)
        await asyncio.sleep(0.01)
        await settled()
        assert led.records.next_fetch_offset == 0

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(play())
