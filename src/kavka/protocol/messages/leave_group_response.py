"""LeaveGroupResponse: response, API key 13, versions 0-5, flexible from 4.

Apache Kafka 3.9.2: 0-5; Apache Kafka 4.3.1: 0-5.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, string


class MemberResponse(Struct):
    member_id: str = string("3+", default="")
    group_instance_id: str | None = string("3+", nullable="3+", default="")
    error_code: int = int16("3+", default=0)


class LeaveGroupResponse(Message, kind="response", versions="0-5", flexible="4+", api_key=13):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16("0+", default=0)
    members: list[MemberResponse] = array(MemberResponse, "3+", default_factory=list)
