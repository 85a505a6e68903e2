"""CreateTopicsRequest: request, API key 19, versions 0-7, flexible from 5.

Apache Kafka 3.9.2: 0-7; Apache Kafka 4.3.1: 2-7.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, boolean, int16, int32, string


class CreatableReplicaAssignment(Struct):
    partition_index: int = int32("0+", default=0)
    broker_ids: list[int] = array("int32", "0+", default_factory=list)


class CreatableTopicConfig(Struct):
    name: str = string("0+", default="")
    value: str | None = string("0+", nullable="0+", default="")


class CreatableTopic(Struct):
    name: str = string("0+", default="")
    num_partitions: int = int32("0+", default=0)
    replication_factor: int = int16("0+", default=0)
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment, "0+", default_factory=list)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig, "0+", default_factory=list)


class CreateTopicsRequest(Message, kind="request", versions="0-7", flexible="5+", api_key=19):
    topics: list[CreatableTopic] = array(CreatableTopic, "0+", default_factory=list)
    timeout_ms: int = int32("0+", default=60000)
    validate_only: bool = boolean("1+", default=False)
