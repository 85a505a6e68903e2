"""ListOffsetsRequest: request, API key 2, versions 0-11, flexible from 6.

Apache Kafka 3.9.2: 0-9; Apache Kafka 4.3.1: 1-11.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int8, int32, int64, string


class ListOffsetsPartition(Struct):
    partition_index: int = int32("0+", default=0)
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp: int = int64("0+", default=0)
    max_num_offsets: int = int32("0", default=1)


class ListOffsetsTopic(Struct):
    name: str = string("0+", default="")
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition, "0+", default_factory=list)


class ListOffsetsRequest(Message, kind="request", versions="0-11", flexible="6+", api_key=2):
    replica_id: int = int32("0+", default=0)
    isolation_level: int = int8("2+", default=0)
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic, "0+", default_factory=list)
    timeout_ms: int = int32("10+", default=0, ignorable=True)
