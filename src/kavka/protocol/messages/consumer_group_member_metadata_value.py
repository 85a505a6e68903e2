"""ConsumerGroupMemberMetadataValue: coordinator's value, record type 5, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, binary, int32, string, struct


class ClassicProtocol(Struct):
    name: str = string("0+", default="")
    metadata: bytes = binary("0+", default=b"")


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = int32("0+", default=0)
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol, "0+", default_factory=list)


class ConsumerGroupMemberMetadataValue(Message, kind="coordinator-value", versions="0", flexible="0+", api_key=5):
    instance_id: str | None = string("0+", nullable="0+", default="")
    rack_id: str | None = string("0+", nullable="0+", default="")
    client_id: str = string("0+", default="")
    client_host: str = string("0+", default="")
    subscribed_topic_names: list[str] = array("string", "0+", default_factory=list)
    subscribed_topic_regex: str | None = string("0+", nullable="0+", default="")
    rebalance_timeout_ms: int = int32("0+", default=-1)
    server_assignor: str | None = string("0+", nullable="0+", default="")
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, "0+", nullable="0+", tag=0, default_factory=ClassicMemberMetadata
    )
