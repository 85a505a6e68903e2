"""DescribeGroupsResponse: response, API key 15, versions 0-6, flexible from 5.

Apache Kafka 3.9.2: 0-5; Apache Kafka 4.3.1: 0-6.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, binary, int16, int32, string


class DescribedGroupMember(Struct):
    member_id: str = string("0+", default="")
    group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
    client_id: str = string("0+", default="")
    client_host: str = string("0+", default="")
    member_metadata: bytes = binary("0+", default=b"")
    member_assignment: bytes = binary("0+", default=b"")


class DescribedGroup(Struct):
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string("0+", default="")
    group_state: str = string("0+", default="")
    protocol_type: str = string("0+", default="")
    protocol_data: str = string("0+", default="")
    members: list[DescribedGroupMember] = array(DescribedGroupMember, "0+", default_factory=list)
    authorized_operations: int = int32("3+", default=-2147483648)


class DescribeGroupsResponse(Message, kind="response", versions="0-6", flexible="5+", api_key=15):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup, "0+", default_factory=list)
