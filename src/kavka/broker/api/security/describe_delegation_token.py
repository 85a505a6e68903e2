"""DescribeDelegationToken (key 41): the tokens that exist (KIP-48).

Behaviour   DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as Apache Kafka answers on a PLAINTEXT listener.
Versions    1; 2 flexible; 3 who asked for each (KIP-373).
Not supported  Version 0: Apache Kafka 4 dropped it too (KIP-896).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.errors import ErrorCode
from kavka.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from kavka.protocol.messages.describe_delegation_token_response import DescribeDelegationTokenResponse

if TYPE_CHECKING:
    from kavka.broker.api.security.ports import SecurityBroker
    from kavka.protocol.connection import Request


def handle(
    broker: SecurityBroker, request: Request, message: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
