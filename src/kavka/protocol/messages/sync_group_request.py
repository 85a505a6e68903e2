"""SyncGroupRequest: request, API key 14, versions 0-5, flexible from 4.

Apache Kafka 3.9.2: 0-5; Apache Kafka 4.3.1: 0-5.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, binary, int32, string


class SyncGroupRequestAssignment(Struct):
    member_id: str = string("0+", default="")
    assignment: bytes = binary("0+", default=b"")


class SyncGroupRequest(Message, kind="request", versions="0-5", flexible="4+", api_key=14):
    group_id: str = string("0+", default="")
    generation_id: int = int32("0+", default=0)
    member_id: str = string("0+", default="")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment, "0+", default_factory=list)
