"""CreateAcls (key 30): adds entries to access control lists.

Behaviour   Each for itself; one that is there already is no error. When the answer goes out, the lists are written and
            in force on this broker; on the others a moment later. INVALID_REQUEST: elements that nobody knows, a name
            that is empty or has a "/", a name of the cluster other than kafka-cluster, a principal without a type.
            (Apache Kafka closes the connection for unknown elements, and has an internal error for such a principal.)
            REQUEST_TIMED_OUT: ZooKeeper did not say whether the change is written. SECURITY_DISABLED without an
            authorizer, or with one that keeps no lists here.
Versions    1 prefixed resources; 2 flexible; 3 the resource type User (KIP-373).
Not supported  Version 0: Apache Kafka 4 dropped it too (KIP-896).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.api.security.acl_forms import binding_of
from kavka.broker.api.security.no_authorizer import NO_AUTHORIZER
from kavka.broker.api.zookeeper_patience import Patience
from kavka.errors import ErrorCode, RequestError, ZooKeeperError
from kavka.protocol.messages.create_acls_request import CreateAclsRequest
from kavka.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse

if TYPE_CHECKING:
    from kavka.broker.api.security.ports import SecurityBroker
    from kavka.broker.authorization.acl_store import AclStore
    from kavka.protocol.connection import Request


def handle(
    broker: SecurityBroker, request: Request, message: CreateAclsRequest
) -> CreateAclsResponse | Awaitable[CreateAclsResponse]:
    if broker.authorization is None or broker.authorization.acls is None:
        return CreateAclsResponse(
            results=[
                AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
                for _ in message.creations
            ]
        )
    return _create(broker.authorization.acls, message)


async def _create(acls: AclStore, message: CreateAclsRequest) -> CreateAclsResponse:
    bindings = [binding_of(creation) for creation in message.creations]
    refusals: list[RequestError | None]
    try:
        refusals = await Patience().wait(acls.create(bindings))
    except ZooKeeperError as failure:
        unknown = RequestError(ErrorCode.REQUEST_TIMED_OUT, str(failure))
        problems = [binding.problem() for binding in bindings]
        refusals = [
            unknown if problem is None else RequestError(ErrorCode.INVALID_REQUEST, problem) for problem in problems
        ]
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=ErrorCode.NONE, error_message=None)
            if refusal is None
            else AclCreationResult(error_code=refusal.code, error_message=refusal.message)
            for refusal in refusals
        ]
    )
