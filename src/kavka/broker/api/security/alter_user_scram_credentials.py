"""AlterUserScramCredentials (key 51): sets and deletes users' SCRAM credentials (KIP-554).

Behaviour   This broker has no SASL, so it knows no mechanism. Setting credentials is UNSUPPORTED_SASL_MECHANISM, as
            Apache Kafka answers for mechanisms that it does not have. Deleting them is RESOURCE_NOT_FOUND, because no
            user has any.
Versions    0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.errors import ErrorCode
from kavka.protocol.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from kavka.protocol.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from kavka.broker.api.security.ports import SecurityBroker
    from kavka.protocol.connection import Request

_MECHANISMS = (1, 2)
"""SCRAM-SHA-256 and SCRAM-SHA-512, as the protocol numbers them."""
_NO_USER = (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
_UNKNOWN_MECHANISM = (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
_NO_SASL = (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "This broker has no SASL yet: credentials would let nobody in.")
_NO_CREDENTIAL = (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")


def handle(
    broker: SecurityBroker, request: Request, message: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    wishes = [(wish.name, wish.mechanism, _NO_CREDENTIAL) for wish in message.deletions]
    wishes += [(wish.name, wish.mechanism, _NO_SASL) for wish in message.upsertions]
    refusals: dict[str, tuple[ErrorCode, str]] = {}
    for user, mechanism, refusal in wishes:
        if not user:
            refusal = _NO_USER
        elif mechanism not in _MECHANISMS:
            refusal = _UNKNOWN_MECHANISM
        refusals[user] = refusal
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=error, error_message=why)
            for user, (error, why) in refusals.items()
        ]
    )
