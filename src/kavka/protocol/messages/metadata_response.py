"""MetadataResponse: response, API key 3, versions 0-13, flexible from 9.

Apache Kafka 3.9.2: 0-12; Apache Kafka 4.3.1: 0-13.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, boolean, int16, int32, string, uuid


class MetadataResponseBroker(Struct):
    node_id: int = int32("0+", default=0)
    host: str = string("0+", default="")
    port: int = int32("0+", default=0)
    rack: str | None = string("1+", nullable="1+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: int = int16("0+", default=0)
    partition_index: int = int32("0+", default=0)
    leader_id: int = int32("0+", default=0)
    leader_epoch: int = int32("7+", default=-1, ignorable=True)
    replica_nodes: list[int] = array("int32", "0+", default_factory=list)
    isr_nodes: list[int] = array("int32", "0+", default_factory=list)
    offline_replicas: list[int] = array("int32", "5+", default_factory=list, ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: int = int16("0+", default=0)
    name: str | None = string("0+", nullable="12+", default="")
    topic_id: UUID = uuid("10+", default=ZERO_UUID, ignorable=True)
    is_internal: bool = boolean("1+", default=False, ignorable=True)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition, "0+", default_factory=list)
    topic_authorized_operations: int = int32("8+", default=-2147483648)


class MetadataResponse(Message, kind="response", versions="0-13", flexible="9+", api_key=3):
    throttle_time_ms: int = int32("3+", default=0, ignorable=True)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker, "0+", default_factory=list)
    cluster_id: str | None = string("2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic, "0+", default_factory=list)
    cluster_authorized_operations: int = int32("8-10", default=-2147483648)
    error_code: int = int16("13+", default=0, ignorable=True)
