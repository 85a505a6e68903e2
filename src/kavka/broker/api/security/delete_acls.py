"""DeleteAcls (key 31): removes entries from access control lists.

Behaviour   Each filter removes what it means, and the answer names it; what several filters mean is answered for the
            first of them. A filter with elements that nobody knows is INVALID_REQUEST, and the others go on.
            REQUEST_TIMED_OUT: ZooKeeper did not say whether the change is written. SECURITY_DISABLED without an
            authorizer, or with one that keeps no lists here.
Versions    1 prefixed resources; 2 flexible; 3 the resource type User (KIP-373).
Not supported  Version 0: Apache Kafka 4 dropped it too (KIP-896).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.api.security.acl_forms import filter_of
from kavka.broker.api.security.no_authorizer import NO_AUTHORIZER
from kavka.broker.api.zookeeper_patience import Patience
from kavka.errors import ErrorCode, ZooKeeperError
from kavka.protocol.messages.delete_acls_request import DeleteAclsRequest
from kavka.protocol.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from kavka.broker.api.security.ports import SecurityBroker
    from kavka.broker.authorization.acl_store import AclStore, Deleted
    from kavka.protocol.connection import Request


def handle(
    broker: SecurityBroker, request: Request, message: DeleteAclsRequest
) -> DeleteAclsResponse | Awaitable[DeleteAclsResponse]:
    if broker.authorization is None or broker.authorization.acls is None:
        return DeleteAclsResponse(
            filter_results=[
                DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
                for _ in message.filters
            ]
        )
    return _delete(broker.authorization.acls, message)


async def _delete(acls: AclStore, message: DeleteAclsRequest) -> DeleteAclsResponse:
    filters = [filter_of(each) for each in message.filters]
    known = [each for each in filters if not each.is_unknown]
    late: ZooKeeperError | None = None
    try:
        deleted = iter(await Patience().wait(acls.delete(known)))
    except ZooKeeperError as failure:
        late, deleted = failure, iter(())
    results = []
    for each in filters:
        if each.is_unknown:
            results.append(
                DeleteAclsFilterResult(
                    error_code=ErrorCode.INVALID_REQUEST, error_message="The filter contains UNKNOWN elements"
                )
            )
        elif late is not None:
            results.append(DeleteAclsFilterResult(error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=str(late)))
        else:
            matching = [_matching(one) for one in next(deleted)]
            results.append(
                DeleteAclsFilterResult(error_code=ErrorCode.NONE, error_message=None, matching_acls=matching)
            )
    return DeleteAclsResponse(filter_results=results)


def _matching(deleted: Deleted) -> DeleteAclsMatchingAcl:
    (pattern, entry), refusal = deleted
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.NONE if refusal is None else refusal.code,
        error_message=None if refusal is None else refusal.message,
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )
