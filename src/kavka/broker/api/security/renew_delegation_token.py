"""RenewDelegationToken (key 39): extends the life of a token (KIP-48).

Behaviour   DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as Apache Kafka answers on a PLAINTEXT listener.
Versions    1; 2 flexible.
Not supported  Version 0: Apache Kafka 4 dropped it too (KIP-896).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.errors import ErrorCode
from kavka.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kavka.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse

if TYPE_CHECKING:
    from kavka.broker.api.security.ports import SecurityBroker
    from kavka.protocol.connection import Request


def handle(
    broker: SecurityBroker, request: Request, message: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1
    )
