"""RenewDelegationToken (key 39): extends the life of a token (KIP-48).

Behaviour   Any broker does it. Takes the token's HMAC, which only they know who were given it. Its new end is so many
            milliseconds from now (negative: delegation.token.expiry.time.ms), and never after the last moment that it
            was made with. In this order: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTH_DISABLED,
            DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH to others than the owner and the renewers,
            DELEGATION_TOKEN_EXPIRED. REQUEST_TIMED_OUT: ZooKeeper did not say whether it is written. Sessions that
            are open end when they would have: a client authenticates again to live longer.
Versions    1; 2 flexible.
Not supported  Version 0: Apache Kafka 4 dropped it too (KIP-896).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.api.security.delegation_token_requests import (
    NO_TIME,
    asker,
    is_taken_from,
    refused,
    require_tokens,
    whose,
)
from kavka.broker.api.zookeeper_patience import Patience
from kavka.errors import ErrorCode, RequestError, ZooKeeperError
from kavka.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kavka.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse

if TYPE_CHECKING:
    from kavka.broker.api.security.ports import SecurityBroker
    from kavka.broker.authentication.delegation_tokens import Tokens
    from kavka.protocol.connection import Request


def handle(
    broker: SecurityBroker, request: Request, message: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse | Awaitable[RenewDelegationTokenResponse]:
    try:
        if not is_taken_from(request.context, broker.config):
            raise RequestError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        return _renew(broker, request, require_tokens(broker), bytes(message.hmac), message.renew_period_ms)
    except RequestError as refusal:
        return _refusal(broker, request, refusal)


async def _renew(
    broker: SecurityBroker, request: Request, tokens: Tokens, token_hmac: bytes, period_ms: int
) -> RenewDelegationTokenResponse:
    by = whose(request)
    try:
        changed = await Patience().wait(tokens.store.renew(token_hmac, asker(request.context), period_ms))
    except (RequestError, ZooKeeperError) as failure:
        return _refusal(broker, request, failure)
    if changed.before is not None:
        tokens.records.changed(changed.before, changed.after, by)
    assert changed.after is not None, "what is renewed is there"
    return RenewDelegationTokenResponse(expiry_timestamp_ms=changed.after.expires_ms)


def _refusal(
    broker: SecurityBroker, request: Request, failure: RequestError | ZooKeeperError
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=refused(broker, request, failure), expiry_timestamp_ms=NO_TIME)
