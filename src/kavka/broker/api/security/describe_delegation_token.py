"""DescribeDelegationToken (key 41): the tokens that exist, with their HMACs (KIP-48).

Behaviour   Any broker answers, from what it last read. A token is shown to those whom it concerns: its owner, its
            renewers, and who asked for it. Others need Describe on the token, or DescribeTokens on its owner
            (`api/guards/tokens.py`). With owners, tokens that concern one of them; with an empty list, none.
            DELEGATION_TOKEN_REQUEST_NOT_ALLOWED and DELEGATION_TOKEN_AUTH_DISABLED as for CreateDelegationToken.
Versions    1; 2 flexible; 3 who asked for each (KIP-373).
Not supported  Version 0: Apache Kafka 4 dropped it too (KIP-896).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.api.security.delegation_token_requests import is_taken_from, refused, require_tokens
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from kavka.protocol.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from kavka.security.delegation_tokens import Token
from kavka.security.principals import Principal

if TYPE_CHECKING:
    from kavka.broker.api.security.ports import SecurityBroker
    from kavka.protocol.connection import Request


def handle(
    broker: SecurityBroker, request: Request, message: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    try:
        if not is_taken_from(request.context, broker.config):
            raise RequestError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        tokens = require_tokens(broker)
    except RequestError as refusal:
        return DescribeDelegationTokenResponse(error_code=refused(broker, request, refusal))
    owners = None if message.owners is None else {Principal(o.principal_type, o.principal_name) for o in message.owners}
    # Where the broker has an authorizer, the guard takes out what the client may not see.
    shown = [
        _described(token, token_hmac)
        for token, token_hmac in tokens.store.all()
        if owners is None or not owners.isdisjoint(token.concerned)
    ]
    return DescribeDelegationTokenResponse(tokens=shown)


def _described(token: Token, token_hmac: bytes) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        principal_type=token.owner.kind,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.kind,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=token_hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=renewer.kind, principal_name=renewer.name)
            for renewer in token.renewers
        ],
    )
