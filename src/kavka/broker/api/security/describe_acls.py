"""DescribeAcls (key 29): access control lists.

Behaviour   The bindings that the filter means, by resource. A filter with elements that nobody knows is
            INVALID_REQUEST. SECURITY_DISABLED without an authorizer, or with one that keeps no lists here.
Versions    1 prefixed resources; 2 flexible; 3 the resource type User (KIP-373).
Not supported  Version 0: Apache Kafka 4 dropped it too (KIP-896).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.api.security.acl_forms import filter_of
from kavka.broker.api.security.no_authorizer import NO_AUTHORIZER
from kavka.errors import ErrorCode
from kavka.protocol.messages.describe_acls_request import DescribeAclsRequest
from kavka.protocol.messages.describe_acls_response import AclDescription, DescribeAclsResource, DescribeAclsResponse
from kavka.security.resource_patterns import Pattern

if TYPE_CHECKING:
    from kavka.broker.api.security.ports import SecurityBroker
    from kavka.protocol.connection import Request


def handle(broker: SecurityBroker, request: Request, message: DescribeAclsRequest) -> DescribeAclsResponse:
    if broker.authorization is None or broker.authorization.acls is None:
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    wanted = filter_of(message)
    if wanted.is_unknown:
        return DescribeAclsResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message="DescribeAclsRequest contains UNKNOWN elements"
        )
    by_pattern: dict[Pattern, list[AclDescription]] = {}
    for pattern, entry in broker.authorization.acls.find(wanted):
        by_pattern.setdefault(pattern, []).append(
            AclDescription(
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
        )
    return DescribeAclsResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        resources=[
            DescribeAclsResource(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                acls=acls,
            )
            for pattern, acls in by_pattern.items()
        ],
    )
