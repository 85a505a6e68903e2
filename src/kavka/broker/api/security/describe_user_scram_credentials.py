"""DescribeUserScramCredentials (key 50): which users can authenticate with SCRAM, and with how many iterations.

Behaviour   Any broker answers, from ZooKeeper. Without names: all users that have credentials, sorted. A user that the
            request names is RESOURCE_NOT_FOUND without any, and DUPLICATE_RESOURCE where it is named twice. Nothing of
            a credential is shown but its iterations. UNKNOWN_SERVER_ERROR: a stored credential cannot be read.
Versions    0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING

from kavka.broker.api.zookeeper_patience import Patience
from kavka.errors import ErrorCode, ZooKeeperError, clipped
from kavka.protocol.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from kavka.protocol.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kavka.security.principals import can_be_kept
from kavka.security.scram_credentials import NO_USER, ScramCredential, ScramMechanism

if TYPE_CHECKING:
    from kavka.broker.api.security.ports import SecurityBroker
    from kavka.protocol.connection import Request

_NOTHING_WRONG = ""
"""What Kafka says of what went well, of the request and of each user."""


def handle(
    broker: SecurityBroker, request: Request, message: DescribeUserScramCredentialsRequest
) -> Awaitable[DescribeUserScramCredentialsResponse]:
    return _describe(broker, [user.name for user in message.users or ()])


async def _describe(broker: SecurityBroker, names: list[str]) -> DescribeUserScramCredentialsResponse:
    times = Counter(names)
    wanted = [name for name, count in times.items() if name and count == 1 and can_be_kept(name)]
    try:
        found = await Patience().wait(broker.configs.read_users(wanted if names else None))
    except ZooKeeperError as failure:
        return DescribeUserScramCredentialsResponse(
            error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=f"ZooKeeper does not answer: {failure}"
        )
    if not names:
        results = [_result(user, found[user]) for user in sorted(found) if _mechanisms(found[user])]
        return DescribeUserScramCredentialsResponse(error_message=_NOTHING_WRONG, results=results)
    return DescribeUserScramCredentialsResponse(
        error_message=_NOTHING_WRONG,
        results=[_named(user, count, found.get(user, {})) for user, count in times.items()],
    )


def _named(user: str, times: int, settings: Mapping[str, str]) -> DescribeUserScramCredentialsResult:
    if not user:
        return _refused(user, ErrorCode.RESOURCE_NOT_FOUND, NO_USER)
    if times > 1:
        why = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        return _refused(user, ErrorCode.DUPLICATE_RESOURCE, why)
    if not _mechanisms(settings):
        why = f"Attempt to describe a user credential that does not exist: {user}"
        return _refused(user, ErrorCode.RESOURCE_NOT_FOUND, why)
    return _result(user, settings)


def _result(user: str, settings: Mapping[str, str]) -> DescribeUserScramCredentialsResult:
    try:
        infos = [
            CredentialInfo(
                mechanism=mechanism.number, iterations=ScramCredential.decode(settings[mechanism.value]).iterations
            )
            for mechanism in _mechanisms(settings)
        ]
    except ValueError as malformed:
        return _refused(user, ErrorCode.UNKNOWN_SERVER_ERROR, str(malformed))
    return DescribeUserScramCredentialsResult(user=user, error_message=_NOTHING_WRONG, credential_infos=infos)


def _mechanisms(settings: Mapping[str, str]) -> list[ScramMechanism]:
    return [mechanism for mechanism in ScramMechanism if mechanism.value in settings]


def _refused(user: str, code: ErrorCode, why: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=clipped(why))
