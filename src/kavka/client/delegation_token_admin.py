"""TokenAdmin: delegation tokens, as their owners make, see, renew and end them. Works with Apache Kafka from 1.1 on.

A token's HMAC is its password. It shows in no repr.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field

from kavka.client.answers import raise_for
from kavka.client.cluster import Cluster
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from kavka.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from kavka.protocol.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kavka.protocol.messages.describe_delegation_token_response import DescribeDelegationTokenResponse
from kavka.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from kavka.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from kavka.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kavka.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from kavka.security.principals import Principal


@dataclass(frozen=True, slots=True)
class ShownToken:
    """A token, as a broker shows it. Times are milliseconds since 1970. Before version 3 of the API a broker does not
    say who asked for it; then that is empty."""

    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int

    @property
    def password(self) -> str:
        return b64encode(self.hmac).decode()


class TokenAdmin:
    """Questions and orders about tokens. Raises as `Cluster.retry` does."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def create(
        self, owner: Principal | None, renewers: Sequence[Principal], lifetime_ms: int | None
    ) -> ShownToken:
        """A new token of `owner` (None: of who asks), for `lifetime_ms` at most (None: as long as the broker allows).
        Is not tried again: a second one would be made."""
        request = CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else owner.kind,
            owner_principal_name=None if owner is None else owner.name,
            renewers=[CreatableRenewers(principal_type=each.kind, principal_name=each.name) for each in renewers],
            max_lifetime_ms=-1 if lifetime_ms is None else lifetime_ms,
        )
        said = await self._cluster.ask(ApiKey.CREATE_DELEGATION_TOKEN, request, CreateDelegationTokenResponse)
        raise_for(said.error_code, "delegation token")
        return ShownToken(
            said.token_id,
            bytes(said.hmac),
            f"{said.principal_type}:{said.principal_name}",
            _principal(said.token_requester_principal_type, said.token_requester_principal_name),
            tuple(map(str, renewers)),
            said.issue_timestamp_ms,
            said.expiry_timestamp_ms,
            said.max_timestamp_ms,
        )

    async def list(self, owners: Sequence[Principal] | None = None) -> list[ShownToken]:
        """The tokens that who asks may see; of `owners` those that concern one of them."""
        request = DescribeDelegationTokenRequest(
            owners=None
            if owners is None
            else [DescribeDelegationTokenOwner(principal_type=each.kind, principal_name=each.name) for each in owners]
        )

        async def find() -> list[ShownToken]:
            said = await self._cluster.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, request, DescribeDelegationTokenResponse)
            raise_for(said.error_code, "delegation tokens")
            return [
                ShownToken(
                    each.token_id,
                    bytes(each.hmac),
                    f"{each.principal_type}:{each.principal_name}",
                    _principal(each.token_requester_principal_type, each.token_requester_principal_name),
                    tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in each.renewers),
                    each.issue_timestamp,
                    each.expiry_timestamp,
                    each.max_timestamp,
                )
                for each in said.tokens
            ]

        return await self._cluster.retry(find, what="list delegation tokens")

    async def renew(self, token: ShownToken, period_ms: int | None) -> int:
        """When it ends now. `period_ms` None: as the broker sees fit."""
        request = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1 if period_ms is None else period_ms)

        async def renew() -> int:
            said = await self._cluster.ask(ApiKey.RENEW_DELEGATION_TOKEN, request, RenewDelegationTokenResponse)
            raise_for(said.error_code, f"delegation token {token.token_id}")
            return said.expiry_timestamp_ms

        return await self._cluster.retry(renew, what=f"renew delegation token {token.token_id}")

    async def expire(self, token: ShownToken, period_ms: int | None) -> int:
        """When it ends now. `period_ms` None: at once."""
        request = ExpireDelegationTokenRequest(
            hmac=token.hmac, expiry_time_period_ms=-1 if period_ms is None else period_ms
        )

        async def expire() -> int:
            said = await self._cluster.ask(ApiKey.EXPIRE_DELEGATION_TOKEN, request, ExpireDelegationTokenResponse)
            raise_for(said.error_code, f"delegation token {token.token_id}")
            return said.expiry_timestamp_ms

        return await self._cluster.retry(expire, what=f"end delegation token {token.token_id}")


def _principal(kind: str, name: str) -> str:
    return f"{kind}:{name}" if kind else ""
