"""Users' credentials on a cluster that takes one change of a user in a request, as Apache Kafka in KRaft mode does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kavka.client.user_admin import UserAdmin
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from kavka.protocol.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kavka.security.scram_credentials import ScramMechanism
from kavka.security.secret import Secret

BOTH = tuple(ScramMechanism)


class OneChangeInARequest:
    """As ScramControlManager of Kafka 4.3 answers."""

    def __init__(self) -> None:
        self.credentials: set[tuple[str, int]] = set()

    async def ask(self, api: object, request: Any, answer: object, *, to_controller: bool) -> Any:
        assert isinstance(request, AlterUserScramCredentialsRequest)
        changes: list[Any] = [*request.deletions, *request.upsertions]
        error = ErrorCode.DUPLICATE_RESOURCE if len(changes) > len({each.name for each in changes}) else ErrorCode.NONE
        deletions: list[Any] = list(request.deletions) if error is ErrorCode.NONE else []
        for deleted in deletions:
            if (deleted.name, deleted.mechanism) not in self.credentials:
                error = ErrorCode.RESOURCE_NOT_FOUND
            self.credentials.discard((deleted.name, deleted.mechanism))
        if error is ErrorCode.NONE:
            self.credentials.update((each.name, each.mechanism) for each in changes if each not in deletions)
        results = [AlterUserScramCredentialsResult(user=changes[0].name, error_code=error, error_message=None)]
        return AlterUserScramCredentialsResponse(throttle_time_ms=0, results=results)

    async def retry(self, attempt: Callable[[], Awaitable[Any]], *, what: str) -> Any:
        return await attempt()


def test_both_credentials_of_a_user_are_made_and_taken_away_one_after_the_other() -> None:
    async def scenario() -> None:
        cluster = OneChangeInARequest()
        users = UserAdmin(cluster)  # type: ignore[arg-type]  # what a cluster answers is all that it is asked for
        await users.set("alice", Secret("secret"), BOTH, 4096)
        assert cluster.credentials == {("alice", 1), ("alice", 2)}
        await users.remove("alice", BOTH)
        assert cluster.credentials == set()
        with pytest.raises(RequestError) as refused:
            await users.remove("alice", BOTH)
        assert refused.value.code is ErrorCode.RESOURCE_NOT_FOUND

    asyncio.run(scenario())
