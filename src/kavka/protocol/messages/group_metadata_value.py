"""GroupMetadataValue: coordinator's value, record type 2, versions 0-4, flexible from 4.

Apache Kafka 3.9.2: 0-4; Apache Kafka 4.3.1: 0-4.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, binary, int32, int64, string


class MemberMetadata(Struct):
    member_id: str = string("0+", default="")
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = string("0+", default="")
    client_host: str = string("0+", default="")
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32("0+", default=0)
    subscription: bytes = binary("0+", default=b"")
    assignment: bytes = binary("0+", default=b"")


class GroupMetadataValue(Message, kind="coordinator-value", versions="0-4", flexible="4+", api_key=2):
    protocol_type: str = string("0+", default="")
    generation: int = int32("0+", default=0)
    protocol: str | None = string("0+", nullable="0+", default="")
    leader: str | None = string("0+", nullable="0+", default="")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata, "0+", default_factory=list)
