"""ExpireDelegationToken (key 40): ends a token, at once or later (KIP-48).

Behaviour   Any broker does it. Takes the token's HMAC. A negative period removes the token, also one whose time is
            over; else it ends so many milliseconds from now, and never after the last moment that it was made with. The
            same errors as RenewDelegationToken, in the same order. Connections that are open stay until their sessions
            end, which they do when the token would have ended.
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
from kavka.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from kavka.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from kavka.broker.api.security.ports import SecurityBroker
    from kavka.broker.authentication.delegation_tokens import Tokens
    from kavka.protocol.connection import Request


def handle(
    broker: SecurityBroker, request: Request, message: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse | Awaitable[ExpireDelegationTokenResponse]:
    try:
        if not is_taken_from(request.context, broker.config):
            raise RequestError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        return _expire(broker, request, require_tokens(broker), bytes(message.hmac), message.expiry_time_period_ms)
    except RequestError as refusal:
        return _refusal(broker, request, refusal)


async def _expire(
    broker: SecurityBroker, request: Request, tokens: Tokens, token_hmac: bytes, period_ms: int
) -> ExpireDelegationTokenResponse:
    by = whose(request)
    try:
        changed = await Patience().wait(tokens.store.expire(token_hmac, asker(request.context), period_ms))
    except (RequestError, ZooKeeperError) as failure:
        return _refusal(broker, request, failure)
    if changed.before is not None:
        tokens.records.changed(changed.before, changed.after, by)
    expires_ms = broker.wall_ms() if changed.after is None else changed.after.expires_ms
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms)


def _refusal(
    broker: SecurityBroker, request: Request, failure: RequestError | ZooKeeperError
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=refused(broker, request, failure), expiry_timestamp_ms=NO_TIME)
