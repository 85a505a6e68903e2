"""ProduceRequest: request, API key 0, versions 0-13, flexible from 9.

Apache Kafka 3.9.2: 0-11; Apache Kafka 4.3.1: 3-13.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Records, Struct, array, int16, int32, record_batches, string, uuid


class PartitionProduceData(Struct):
    index: int = int32("0+", default=0)
    records: Records | None = record_batches("0+", nullable="0+", default=None)


class TopicProduceData(Struct):
    name: str = string("0-12", default="", ignorable=True)
    topic_id: UUID = uuid("13+", default=ZERO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData, "0+", default_factory=list)


class ProduceRequest(Message, kind="request", versions="0-13", flexible="9+", api_key=0):
    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16("0+", default=0)
    timeout_ms: int = int32("0+", default=0)
    topic_data: list[TopicProduceData] = array(TopicProduceData, "0+", default_factory=list)
