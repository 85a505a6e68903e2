"""StreamsGroupMetadataValue: coordinator's value, record type 17, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int32, int64, string


class LastAssignmentConfig(Struct):
    key: str = string("0+", default="")
    value: str = string("0+", default="")


class StreamsGroupMetadataValue(Message, kind="coordinator-value", versions="0", flexible="0+", api_key=17):
    epoch: int = int32("0+", default=0)
    metadata_hash: int = int64("0+", default=0)
    validated_topology_epoch: int = int32("0+", tag=0, default=-1)
    last_assignment_configs: list[LastAssignmentConfig] | None = array(
        LastAssignmentConfig, "0+", nullable="0+", tag=1, default_factory=list
    )
