"""StreamsGroupMemberMetadataValue: coordinator's value, record type 19, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int32, string, struct, uint16


class Endpoint(Struct):
    host: str = string("0+", default="")
    port: int = uint16("0+", default=0)


class KeyValue(Struct):
    key: str = string("0+", default="")
    value: str = string("0+", default="")


class StreamsGroupMemberMetadataValue(Message, kind="coordinator-value", versions="0", flexible="0+", api_key=19):
    instance_id: str | None = string("0+", nullable="0+", default="")
    rack_id: str | None = string("0+", nullable="0+", default="")
    client_id: str = string("0+", default="")
    client_host: str = string("0+", default="")
    rebalance_timeout_ms: int = int32("0+", default=-1)
    topology_epoch: int = int32("0+", default=0)
    process_id: str = string("0+", default="")
    user_endpoint: Endpoint | None = struct(Endpoint, "0+", nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue, "0+", default_factory=list)
