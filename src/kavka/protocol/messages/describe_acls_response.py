"""DescribeAclsResponse: response, API key 29, versions 0-3, flexible from 2.

Apache Kafka 3.9.2: 0-3; Apache Kafka 4.3.1: 1-3.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int8, int16, int32, string


class AclDescription(Struct):
    principal: str = string("0+", default="")
    host: str = string("0+", default="")
    operation: int = int8("0+", default=0)
    permission_type: int = int8("0+", default=0)


class DescribeAclsResource(Struct):
    resource_type: int = int8("0+", default=0)
    resource_name: str = string("0+", default="")
    pattern_type: int = int8("1+", default=3)
    acls: list[AclDescription] = array(AclDescription, "0+", default_factory=list)


class DescribeAclsResponse(Message, kind="response", versions="0-3", flexible="2+", api_key=29):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")
    resources: list[DescribeAclsResource] = array(DescribeAclsResource, "0+", default_factory=list)
