"""CreateAclsRequest: request, API key 30, versions 0-3, flexible from 2.

Apache Kafka 3.9.2: 0-3; Apache Kafka 4.3.1: 1-3.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int8, string


class AclCreation(Struct):
    resource_type: int = int8("0+", default=0)
    resource_name: str = string("0+", default="")
    resource_pattern_type: int = int8("1+", default=3)
    principal: str = string("0+", default="")
    host: str = string("0+", default="")
    operation: int = int8("0+", default=0)
    permission_type: int = int8("0+", default=0)


class CreateAclsRequest(Message, kind="request", versions="0-3", flexible="2+", api_key=30):
    creations: list[AclCreation] = array(AclCreation, "0+", default_factory=list)
