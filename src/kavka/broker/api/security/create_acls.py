"""CreateAcls (key 30): adds entries to access control lists.

Behaviour   SECURITY_DISABLED for each, as Apache Kafka answers without an authorizer; there is none here.
Versions    1; 2 flexible; 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.api.security.no_authorizer import NO_AUTHORIZER
from kavka.errors import ErrorCode
from kavka.protocol.messages.create_acls_request import CreateAclsRequest
from kavka.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse

if TYPE_CHECKING:
    from kavka.broker.api.security.ports import SecurityBroker
    from kavka.protocol.connection import Request


def handle(broker: SecurityBroker, request: Request, message: CreateAclsRequest) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
            for _ in message.creations
        ]
    )
