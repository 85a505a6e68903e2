"""SaslAuthenticate (key 36): a client's SASL tokens.

Behaviour   ILLEGAL_SASL_STATE, as Apache Kafka answers on a listener without SASL. On one with SASL such requests never
            come here: `broker.authentication.sasl_gate` answers them.
Versions    0; 1 session lifetime (KIP-368); 2 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.errors import ErrorCode
from kavka.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kavka.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse

if TYPE_CHECKING:
    from kavka.broker.api.security.ports import SecurityBroker
    from kavka.protocol.connection import Request


def handle(broker: SecurityBroker, request: Request, message: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
