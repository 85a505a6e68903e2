"""JoinGroupRequest: request, API key 11, versions 0-9, flexible from 6.

Apache Kafka 3.9.2: 0-9; Apache Kafka 4.3.1: 0-9.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, binary, int32, string


class JoinGroupRequestProtocol(Struct):
    name: str = string("0+", default="")
    metadata: bytes = binary("0+", default=b"")


class JoinGroupRequest(Message, kind="request", versions="0-9", flexible="6+", api_key=11):
    group_id: str = string("0+", default="")
    session_timeout_ms: int = int32("0+", default=0)
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("0+", default="")
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string("0+", default="")
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol, "0+", default_factory=list)
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)
