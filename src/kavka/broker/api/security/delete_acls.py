"""DeleteAcls (key 31): removes entries from access control lists.

Behaviour   SECURITY_DISABLED for each filter, as Apache Kafka answers without an authorizer; there is none here.
Versions    1; 2 flexible; 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.api.security.no_authorizer import NO_AUTHORIZER
from kavka.errors import ErrorCode
from kavka.protocol.messages.delete_acls_request import DeleteAclsRequest
from kavka.protocol.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsResponse

if TYPE_CHECKING:
    from kavka.broker.api.security.ports import SecurityBroker
    from kavka.protocol.connection import Request


def handle(broker: SecurityBroker, request: Request, message: DeleteAclsRequest) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
            for _ in message.filters
        ]
    )
