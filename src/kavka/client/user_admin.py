"""UserAdmin: users' SCRAM credentials, as an administrator lists and changes them. Works with Apache Kafka from 2.7 on.

The password stays here: the broker is sent what was made of it with the salt.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from kavka.client.answers import raise_for
from kavka.client.cluster import Cluster
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kavka.protocol.messages.alter_user_scram_credentials_response import AlterUserScramCredentialsResponse
from kavka.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from kavka.protocol.messages.describe_user_scram_credentials_response import DescribeUserScramCredentialsResponse
from kavka.security.scram_credentials import MECHANISMS_BY_NUMBER, SALT_BITS, ScramMechanism, new_salt, salted
from kavka.security.secret import Secret

SALT_BYTES = (SALT_BITS + 7) // 8


class UserAdmin:
    """Questions and orders about users' credentials. Raises as `Cluster.retry` does."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list(self, names: Sequence[str] | None = None) -> dict[str, Mapping[ScramMechanism, int]]:
        """The iterations of each credential, by user: of those named, or of all. A name without any is left out."""
        request = DescribeUserScramCredentialsRequest(
            users=None if names is None else [UserName(name=name) for name in dict.fromkeys(names)]
        )

        async def find() -> dict[str, Mapping[ScramMechanism, int]]:
            answer = await self._cluster.ask(
                ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, request, DescribeUserScramCredentialsResponse
            )
            raise_for(answer.error_code, "users", answer.error_message)
            found: dict[str, Mapping[ScramMechanism, int]] = {}
            for result in answer.results:
                if result.error_code != ErrorCode.RESOURCE_NOT_FOUND:
                    raise_for(result.error_code, f"user {result.user}", result.error_message)
                    found[result.user] = {
                        MECHANISMS_BY_NUMBER[info.mechanism]: info.iterations for info in result.credential_infos
                    }
            return found

        return await self._cluster.retry(find, what="list users")

    async def set(self, user: str, password: Secret, mechanisms: Sequence[ScramMechanism], iterations: int) -> None:
        """Gives a user a credential of each mechanism. Raises RequestError."""
        upsertions = []
        for mechanism in mechanisms:
            salt = new_salt(int.from_bytes(os.urandom(SALT_BYTES)) >> (SALT_BYTES * 8 - SALT_BITS))
            made = salted(mechanism, password.reveal(), salt, iterations)
            upsertions.append(
                ScramCredentialUpsertion(
                    name=user, mechanism=mechanism.number, iterations=iterations, salt=salt, salted_password=made
                )
            )
        each = [AlterUserScramCredentialsRequest(deletions=[], upsertions=[one]) for one in upsertions]
        whole = AlterUserScramCredentialsRequest(deletions=[], upsertions=upsertions)
        await self._alter_together(whole, each, f"add user {user}")

    async def remove(self, user: str, mechanisms: Sequence[ScramMechanism]) -> None:
        """Takes credentials away. Raises RequestError: RESOURCE_NOT_FOUND where one is not there."""
        deletions = [ScramCredentialDeletion(name=user, mechanism=mechanism.number) for mechanism in mechanisms]
        each = [AlterUserScramCredentialsRequest(deletions=[one], upsertions=[]) for one in deletions]
        whole = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=[])
        await self._alter_together(whole, each, f"remove user {user}")

    async def _alter_together(
        self, whole: AlterUserScramCredentialsRequest, each: Sequence[AlterUserScramCredentialsRequest], what: str
    ) -> None:
        """All or nothing, where the cluster can. Apache Kafka in KRaft mode takes one change of a user in a request: it
        says that a second one is a duplicate, and carries out none."""
        try:
            await self._alter(whole, what)
        except RequestError as refused:
            if refused.code is not ErrorCode.DUPLICATE_RESOURCE or len(each) < 2:
                raise
            for request in each:
                await self._alter(request, what)

    async def _alter(self, request: AlterUserScramCredentialsRequest, what: str) -> None:
        async def alter() -> None:
            answer = await self._cluster.ask(
                ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request, AlterUserScramCredentialsResponse, to_controller=True
            )
            for result in answer.results:
                raise_for(result.error_code, f"user {result.user}", result.error_message)

        await self._cluster.retry(alter, what=what)
