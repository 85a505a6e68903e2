"""DeleteAclsResponse: response, API key 31, versions 0-3, flexible from 2.

Apache Kafka 3.9.2: 0-3; Apache Kafka 4.3.1: 1-3.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int8, int16, int32, string


class DeleteAclsMatchingAcl(Struct):
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")
    resource_type: int = int8("0+", default=0)
    resource_name: str = string("0+", default="")
    pattern_type: int = int8("1+", default=3)
    principal: str = string("0+", default="")
    host: str = string("0+", default="")
    operation: int = int8("0+", default=0)
    permission_type: int = int8("0+", default=0)


class DeleteAclsFilterResult(Struct):
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl, "0+", default_factory=list)


class DeleteAclsResponse(Message, kind="response", versions="0-3", flexible="2+", api_key=31):
    throttle_time_ms: int = int32("0+", default=0)
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult, "0+", default_factory=list)
