"""A fetch of a share-partition whose state cannot be had now: clients must go on with what else they read."""

from __future__ import annotations

import asyncio
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.share.fetches import FetchWish, Given, ShareFetches
from kavka.broker.share.sessions import PartitionId, ShareSession
from kavka.errors import ErrorCode, RequestError
from kavka.share.decide.acquired_records import Wish

ORDERS = PartitionId(uuid.UUID(int=1), 0)


def fetched(refusal: ErrorCode) -> list[Given]:
    """What a member gets of a partition whose state is refused with this error."""

    async def find(key: object, topic: str) -> None:
        raise RequestError(refusal)

    async def fetch() -> list[Given]:
        leaders: Any = SimpleNamespace(find=find)
        nothing: Any = None
        fetches = ShareFetches(asyncio.get_running_loop(), nothing, leaders, nothing)
        asked = FetchWish("workers", "one", Wish(500), 500, 1, 1 << 20)
        session = ShareSession("workers", "one", nothing)
        return await fetches.fetch(asked, [(ORDERS, "orders")], session, nothing, lambda _found: {})

    return asyncio.run(fetch())


def test_a_coordinator_that_is_away_is_no_error_of_the_partition() -> None:
    """Java's consumer throws out of poll for an error that it does not expect of a fetch, and this is one."""
    assert fetched(ErrorCode.COORDINATOR_NOT_AVAILABLE) == []


@pytest.mark.parametrize("refusal", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_what_clients_expect_is_told(refusal: ErrorCode) -> None:
    (given,) = fetched(refusal)
    assert (given.partition, given.error) == (ORDERS, refusal)
