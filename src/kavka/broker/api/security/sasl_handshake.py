"""SaslHandshake (key 17): which SASL mechanism a client is going to use.

Behaviour   ILLEGAL_SASL_STATE, as Apache Kafka answers on a listener without SASL. On one with SASL such requests never
            come here: `broker.authentication.sasl_gate` answers them.
Versions    0; 1 SaslAuthenticate follows (KIP-152).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.errors import ErrorCode
from kavka.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kavka.protocol.messages.sasl_handshake_response import SaslHandshakeResponse

if TYPE_CHECKING:
    from kavka.broker.api.security.ports import SecurityBroker
    from kavka.protocol.connection import Request


def handle(broker: SecurityBroker, request: Request, message: SaslHandshakeRequest) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
