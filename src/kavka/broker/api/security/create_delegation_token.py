"""CreateDelegationToken (key 38): a token with which another process acts for the token's owner (KIP-48).

Behaviour   Any broker makes it, and answers when ZooKeeper has it; the others know it a moment later. In this order:
            DELEGATION_TOKEN_REQUEST_NOT_ALLOWED to clients that did not prove who they are, or did it with a token;
            DELEGATION_TOKEN_AUTHORIZATION_FAILED where the owner is another and the client lacks CreateTokens on it
            (`api/guards/tokens.py`); INVALID_PRINCIPAL_TYPE for a renewer that is no user, or an owner
            without a type (Apache Kafka has an internal error for that); DELEGATION_TOKEN_AUTH_DISABLED without
            delegation.token.secret.key; INVALID_REQUEST, POLICY_VIOLATION: too many renewers, or tokens of one owner.
            REQUEST_TIMED_OUT: ZooKeeper did not say whether it is written.
Versions    1; 2 flexible; 3 for another owner (KIP-373).
Not supported  Version 0: Apache Kafka 4 dropped it too (KIP-896).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.api.security.delegation_token_requests import (
    asker,
    is_taken_from,
    owner_of,
    refusal_of,
    refused,
    require_tokens,
    whose,
)
from kavka.broker.api.zookeeper_patience import Patience
from kavka.errors import ErrorCode, RequestError, ZooKeeperError
from kavka.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kavka.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from kavka.security.delegation_tokens import Wish
from kavka.security.principals import Principal

if TYPE_CHECKING:
    from kavka.broker.api.security.ports import SecurityBroker
    from kavka.broker.authentication.delegation_tokens import Tokens
    from kavka.protocol.connection import Request


def handle(
    broker: SecurityBroker, request: Request, message: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse | Awaitable[CreateDelegationTokenResponse]:
    context = request.context
    wish = Wish(
        owner_of(message, context),
        asker(context),
        tuple(Principal(each.principal_type, each.principal_name) for each in message.renewers),
        message.max_lifetime_ms,
    )
    try:
        if not is_taken_from(context, broker.config):
            raise RequestError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        wish.check()
        return _create(broker, request, require_tokens(broker), wish)
    except RequestError as refusal:
        return refusal_of(wish.owner, wish.requester, refused(broker, request, refusal))


async def _create(
    broker: SecurityBroker, request: Request, tokens: Tokens, wish: Wish
) -> CreateDelegationTokenResponse:
    by = whose(request)
    try:
        token, token_hmac = await Patience().wait(tokens.store.create(wish))
    except (RequestError, ZooKeeperError) as failure:
        return refusal_of(wish.owner, wish.requester, refused(broker, request, failure))
    tokens.records.created(token, by)
    return CreateDelegationTokenResponse(
        principal_type=token.owner.kind,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.kind,
        token_requester_principal_name=token.requester.name,
        issue_timestamp_ms=token.issued_ms,
        expiry_timestamp_ms=token.expires_ms,
        max_timestamp_ms=token.max_ms,
        token_id=token.token_id,
        hmac=token_hmac,
    )
