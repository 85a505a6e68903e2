"""The states' coordinator refuses what a leader writes, again and again: the state has outgrown the largest record that
its topic may have, or the broker may not write it. The leader tries again, and does not do nothing else.
"""

from __future__ import annotations

import asyncio

import pytest

from kavka.errors import ErrorCode
from kavka.share.decide.acquired_records import LogBatch, Wish
from kavka.share.decide.spans import RecordState
from tests.kit.share_leader_case import LIMITS, ShareLeaderCase
from tests.kit.virtual_time import in_virtual_time


@pytest.mark.parametrize("given_up", [RecordState.ARCHIVED, RecordState.ARCHIVING])
def test_locks_that_are_over_are_not_written_again_without_a_pause(given_up: RecordState) -> None:
    limits = LIMITS._replace(given_up=given_up)

    async def play() -> None:
        case = ShareLeaderCase(limits)
        led = await case.find()
        led.records.acquire("m", [LogBatch(0, 2, is_aborted=False)], Wish(500, 500), case.leaders.now_ms(), limits)
        case.leaders.watch(led)
        case.states.refuses = ErrorCode.UNKNOWN_SERVER_ERROR
        await asyncio.sleep(LIMITS.lock_ms / 1000 + 10)
        assert 5 <= case.states.refused <= 15
        case.states.refuses = ErrorCode.NONE
        await asyncio.sleep(2)
        assert led.records.in_flight == 3
        assert led.records.next_fetch_offset == 0

    in_virtual_time(play)
