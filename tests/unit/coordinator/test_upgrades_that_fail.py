"""A classic group whose change to the newer protocol could not be written goes on as it was."""

from __future__ import annotations

import asyncio

from kavka.coordinator.groups.classic.decide.consumer_protocol import encode_assignment
from kavka.coordinator.groups.classic.decide.membership import JoinProtocol
from kavka.errors import ErrorCode
from tests.kit.group_case import subscription
from tests.kit.virtual_time import in_virtual_time
from tests.unit.coordinator.test_group_coordinator_edges import All, joining, refused, syncing


def test_its_members_have_their_rebalance_time_out_to_join_again_from_then_on() -> None:
    """No timer is set for so soon before: the last one that was is that of the member's longer session."""

    async def scenario() -> None:
        case = All()
        groups = await case.start()
        request = joining(protocols=[JoinProtocol("range", subscription("t"))], rebalance_timeout_ms=2_000)
        joined = await groups.join("g", request)
        parts = {joined.member_id: encode_assignment({"t": [0, 1]}, 1)}
        await groups.sync("g", syncing(joined.member_id, 1, **parts))
        await asyncio.sleep(5)
        groups.heartbeat("g", joined.member_id, None, 1)
        case.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert await refused(case.consumer("g")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        case.log.error = ErrorCode.NONE
        group = groups.describe_group("g")
        assert group is not None
        await asyncio.sleep(1.9)
        assert list(group.members) == [joined.member_id]
        await asyncio.sleep(0.2)
        assert list(group.members) == []

    in_virtual_time(scenario)
