"""DescribeUserScramCredentials (key 50): which users can authenticate with SCRAM (KIP-554).

Behaviour   No user has credentials here: the list of all is empty. A user that the request names is RESOURCE_NOT_FOUND,
            or DUPLICATE_RESOURCE where it is named twice.
Versions    0.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kavka.errors import ErrorCode
from kavka.protocol.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from kavka.protocol.messages.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from kavka.broker.api.security.ports import SecurityBroker
    from kavka.protocol.connection import Request


def handle(
    broker: SecurityBroker, request: Request, message: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    times = Counter(user.name for user in message.users or ())
    return DescribeUserScramCredentialsResponse(results=[_result(user, count) for user, count in times.items()])


def _result(user: str, times: int) -> DescribeUserScramCredentialsResult:
    error, why = ErrorCode.RESOURCE_NOT_FOUND, f"Attempt to describe a user credential that does not exist: {user}"
    if not user:
        why = "Username must not be empty"
    elif times > 1:
        error = ErrorCode.DUPLICATE_RESOURCE
        why = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
    return DescribeUserScramCredentialsResult(user=user, error_code=error, error_message=why)
