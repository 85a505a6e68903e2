"""What requests about delegation tokens share: who may send any, and how refusals are told. No API.

Apache Kafka takes them only from clients that proved who they are, and not by a token: a token makes no tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.authentication.delegation_token_records import Asker
from kavka.errors import ErrorCode, RequestError, ZooKeeperError
from kavka.logger import Logger
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from kavka.security.principals import ANONYMOUS, Principal

if TYPE_CHECKING:
    from kavka.broker.api.security.ports import SecurityBroker
    from kavka.broker.authentication.delegation_tokens import Tokens
    from kavka.config.broker import BrokerConfig
    from kavka.protocol.connection import ConnectionContext, Request
    from kavka.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest

logger = Logger(__name__)

NO_TIME = -1
"""What an answer without a time says."""


def is_taken_from(context: ConnectionContext, config: BrokerConfig) -> bool:
    """Whether requests about tokens are taken from this connection: not on PLAINTEXT, not on SSL without a certificate
    of the client's, and not from who logged in with a token."""
    protocol = config.security_protocols.get(context.listener_name)
    if context.is_by_token or protocol in (None, "PLAINTEXT"):
        return False
    return protocol != "SSL" or asker(context) != ANONYMOUS


def asker(context: ConnectionContext) -> Principal:
    return Principal.parse(context.principal)


def owner_of(message: CreateDelegationTokenRequest, context: ConnectionContext) -> Principal:
    """Who will own a token: the caller, unless the request names somebody else."""
    if not message.owner_principal_name:
        return asker(context)
    return Principal(message.owner_principal_type or "", message.owner_principal_name)


def whose(request: Request) -> Asker:
    """Who asks, and from where."""
    return Asker(request.context.principal, request.context.client_host)


def require_tokens(broker: SecurityBroker) -> Tokens:
    """Raises RequestError: DELEGATION_TOKEN_AUTH_DISABLED without delegation.token.secret.key."""
    if broker.tokens is None:
        raise RequestError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return broker.tokens


def refused(broker: SecurityBroker, request: Request, failure: RequestError | ZooKeeperError) -> ErrorCode:
    """The error that the answer has; refusals are recorded."""
    if isinstance(failure, ZooKeeperError):
        logger.warning("whether a delegation token was changed is not known", why=str(failure))
        return ErrorCode.REQUEST_TIMED_OUT
    if broker.tokens is not None:
        broker.tokens.records.refused(ApiKey(request.header.api_key).name, failure.code, whose(request))
    return failure.code


def refusal_of(owner: Principal, requester: Principal, error: ErrorCode) -> CreateDelegationTokenResponse:
    """CreateDelegationToken's answer that there is no token."""
    return CreateDelegationTokenResponse(
        error_code=error,
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )
