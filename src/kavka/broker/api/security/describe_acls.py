"""DescribeAcls (key 29): access control lists.

Behaviour   SECURITY_DISABLED, as Apache Kafka answers without an authorizer; there is none here.
Versions    1; 2 flexible; 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.api.security.no_authorizer import NO_AUTHORIZER
from kavka.errors import ErrorCode
from kavka.protocol.messages.describe_acls_request import DescribeAclsRequest
from kavka.protocol.messages.describe_acls_response import DescribeAclsResponse

if TYPE_CHECKING:
    from kavka.broker.api.security.ports import SecurityBroker
    from kavka.protocol.connection import Request


def handle(broker: SecurityBroker, request: Request, message: DescribeAclsRequest) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
