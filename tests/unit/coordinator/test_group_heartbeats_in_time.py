"""A heartbeat that comes within its member's session counts, however long what it leads to takes to be committed.

As in Apache Kafka, where a session begins anew when a heartbeat is decided on
(GroupMetadataManager.scheduleConsumerGroupSessionTimeout and its like).
"""

from __future__ import annotations

import asyncio

import pytest

from kavka.errors import ErrorCode
from tests.kit.virtual_time import in_virtual_time
from tests.unit.coordinator.test_group_coordinator_edges import SESSION_S, All, refused

KINDS = ["consumer", "share", "streams"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("waits_for_its_turn", [False, True])
def test_a_member_is_not_late_while_what_its_heartbeat_led_to_is_written(kind: str, waits_for_its_turn: bool) -> None:
    """1. its heartbeat comes shortly before its session ends, and leads to a record, or waits for one of another
    member; 2. the session ends, and the removal waits for its turn; 3. the record is committed: it was removed, and its
    heartbeat answered with success."""

    async def scenario() -> None:
        case = All()
        groups = await case.start()
        beats = {"consumer": case.consumer, "share": case.share, "streams": case.streams}[kind]
        await beats("g", "other")
        await beats("g", "one")
        epoch = (await beats("g", "other", 0)).member_epoch  # type: ignore[union-attr]
        await asyncio.sleep(SESSION_S - 0.1)
        case.log.commits_after_s = 0.2
        if waits_for_its_turn:
            another = asyncio.ensure_future(beats("g", "third"))
            await asyncio.sleep(0.01)
        # A member that joins again says all of itself: with another epoch that is a record to be written.
        answers = await asyncio.gather(beats("g", "one", 0), beats("g", "other", epoch))
        if waits_for_its_turn:
            await another
        assert all(answer.member_epoch >= epoch for answer in answers)
        await asyncio.sleep(1)
        shard = groups.shard_of("g").shard
        group = (shard.consumer_groups.get("g") or shard.share_groups.get("g") or shard.streams_groups["g"]).members
        assert {"one", "other"} <= set(group)

    in_virtual_time(scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_a_heartbeat_that_is_refused_begins_no_session(kind: str) -> None:
    async def scenario() -> None:
        case = All()
        groups = await case.start()
        beats = {"consumer": case.consumer, "share": case.share, "streams": case.streams}[kind]
        await beats("g", "one")
        await asyncio.sleep(SESSION_S - 1)
        assert await refused(beats("g", "one", 77)) is ErrorCode.FENCED_MEMBER_EPOCH
        await asyncio.sleep(1.1)
        assert groups.list_groups()[0].state == "Empty"

    in_virtual_time(scenario)
