"""JoinGroupResponse: response, API key 11, versions 0-9, flexible from 6.

Apache Kafka 3.9.2: 0-9; Apache Kafka 4.3.1: 0-9.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, binary, boolean, int16, int32, string


class JoinGroupResponseMember(Struct):
    member_id: str = string("0+", default="")
    group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = binary("0+", default=b"")


class JoinGroupResponse(Message, kind="response", versions="0-9", flexible="6+", api_key=11):
    throttle_time_ms: int = int32("2+", default=0, ignorable=True)
    error_code: int = int16("0+", default=0)
    generation_id: int = int32("0+", default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string("0+", nullable="7+", default="")
    leader: str = string("0+", default="")
    skip_assignment: bool = boolean("9+", default=False)
    member_id: str = string("0+", default="")
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember, "0+", default_factory=list)
