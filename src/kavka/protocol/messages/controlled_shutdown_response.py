"""ControlledShutdownResponse: response, API key 7, versions 0-3, flexible from 3.

Apache Kafka 3.9.2: 0-3.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, string


class RemainingPartition(Struct):
    topic_name: str = string("0+", default="")
    partition_index: int = int32("0+", default=0)


class ControlledShutdownResponse(Message, kind="response", versions="0-3", flexible="3+", api_key=7):
    error_code: int = int16("0+", default=0)
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition, "0+", default_factory=list)
