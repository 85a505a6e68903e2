"""DeleteAclsRequest: request, API key 31, versions 0-3, flexible from 2.

Apache Kafka 3.9.2: 0-3; Apache Kafka 4.3.1: 1-3.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int8, string


class DeleteAclsFilter(Struct):
    resource_type_filter: int = int8("0+", default=0)
    resource_name_filter: str | None = string("0+", nullable="0+", default="")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string("0+", nullable="0+", default="")
    host_filter: str | None = string("0+", nullable="0+", default="")
    operation: int = int8("0+", default=0)
    permission_type: int = int8("0+", default=0)


class DeleteAclsRequest(Message, kind="request", versions="0-3", flexible="2+", api_key=31):
    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter, "0+", default_factory=list)
