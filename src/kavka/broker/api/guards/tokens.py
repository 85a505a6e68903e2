"""Guards of delegation tokens: who may make them for others, and who sees others' tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kavka.broker.api.guards.guard import Then
from kavka.broker.api.security.delegation_token_requests import asker, is_taken_from, owner_of, refusal_of
from kavka.errors import ErrorCode
from kavka.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kavka.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from kavka.protocol.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribeDelegationTokenResponse,
)
from kavka.security.acls import Operation
from kavka.security.principals import Principal
from kavka.security.resource_patterns import ResourceType

if TYPE_CHECKING:
    from kavka.broker.api.ports import ApiBroker
    from kavka.broker.authorization.authorization import Caller


def create_delegation_token(broker: ApiBroker, caller: Caller, message: CreateDelegationTokenRequest) -> Any:
    """CreateTokens on the owner, where that is another than who asks."""
    context = caller.request.context
    if not is_taken_from(context, broker.config):
        return None  # The handler says so: it comes before the question of rights.
    owner, requester = owner_of(message, context), asker(context)
    if owner == requester or caller.may(Operation.CREATE_TOKENS, ResourceType.USER, str(owner)):
        return None
    return refusal_of(owner, requester, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)


def describe_delegation_token(broker: ApiBroker, caller: Caller, message: DescribeDelegationTokenRequest) -> Any:
    """Others' tokens are filtered by Describe on the token, or DescribeTokens on its owner."""
    to = asker(caller.request.context)

    def is_seen(token: DescribedDelegationToken) -> bool:
        owner = Principal(token.principal_type, token.principal_name)
        requester = Principal(token.token_requester_principal_type, token.token_requester_principal_name)
        renewers = (Principal(renewer.principal_type, renewer.principal_name) for renewer in token.renewers)
        return (
            to in (owner, requester, *renewers)
            or caller.may(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id, quietly=True)
            or caller.may(Operation.DESCRIBE_TOKENS, ResourceType.USER, str(owner), quietly=True)
        )

    def change(answer: DescribeDelegationTokenResponse) -> DescribeDelegationTokenResponse:
        answer.tokens = [token for token in answer.tokens if is_seen(token)]
        return answer

    return Then(change)
