"""CreateDelegationToken (key 38): a token with which another process acts for the token's owner (KIP-48).

Behaviour   DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as Apache Kafka answers a client that is not authenticated. All
            listeners are PLAINTEXT here, where every client is User:ANONYMOUS.
Versions    1; 2 flexible; 3 for another owner (KIP-373).
Not supported  Version 0: Apache Kafka 4 dropped it too (KIP-896).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.errors import ErrorCode
from kavka.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kavka.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse

if TYPE_CHECKING:
    from kavka.broker.api.security.ports import SecurityBroker
    from kavka.protocol.connection import Request

_ANONYMOUS = ("User", "ANONYMOUS")
_NO_TIME = -1


def handle(
    broker: SecurityBroker, request: Request, message: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    owner_type, owner = _ANONYMOUS
    if message.owner_principal_name:
        owner_type, owner = message.owner_principal_type or "", message.owner_principal_name
    requester_type, requester = _ANONYMOUS
    return CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        principal_type=owner_type,
        principal_name=owner,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp_ms=_NO_TIME,
        expiry_timestamp_ms=_NO_TIME,
        max_timestamp_ms=_NO_TIME,
    )
