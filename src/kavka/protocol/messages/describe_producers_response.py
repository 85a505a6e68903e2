"""DescribeProducersResponse: response, API key 61, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, int64, string


class ProducerState(Struct):
    producer_id: int = int64("0+", default=0)
    producer_epoch: int = int32("0+", default=0)
    last_sequence: int = int32("0+", default=-1)
    last_timestamp: int = int64("0+", default=-1)
    coordinator_epoch: int = int32("0+", default=0)
    current_txn_start_offset: int = int64("0+", default=-1)


class PartitionResponse(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default=None)
    active_producers: list[ProducerState] = array(ProducerState, "0+", default_factory=list)


class TopicResponse(Struct):
    name: str = string("0+", default="")
    partitions: list[PartitionResponse] = array(PartitionResponse, "0+", default_factory=list)


class DescribeProducersResponse(Message, kind="response", versions="0", flexible="0+", api_key=61):
    throttle_time_ms: int = int32("0+", default=0)
    topics: list[TopicResponse] = array(TopicResponse, "0+", default_factory=list)
