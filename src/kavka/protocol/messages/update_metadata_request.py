"""UpdateMetadataRequest: request, API key 6, versions 0-8, flexible from 6.

Apache Kafka 3.9.2: 0-8.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, boolean, int8, int16, int32, int64, string, uuid


class UpdateMetadataPartitionState(Struct):
    topic_name: str = string("0-4", default="", ignorable=True)
    partition_index: int = int32("0+", default=0)
    controller_epoch: int = int32("0+", default=0)
    leader: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)
    isr: list[int] = array("int32", "0+", default_factory=list)
    zk_version: int = int32("0+", default=0)
    replicas: list[int] = array("int32", "0+", default_factory=list)
    offline_replicas: list[int] = array("int32", "4+", default_factory=list, ignorable=True)


class UpdateMetadataTopicState(Struct):
    topic_name: str = string("5+", default="")
    topic_id: UUID = uuid("7+", default=ZERO_UUID, ignorable=True)
    partition_states: list[UpdateMetadataPartitionState] = array(
        UpdateMetadataPartitionState, "5+", default_factory=list
    )


class UpdateMetadataEndpoint(Struct):
    port: int = int32("1+", default=0)
    host: str = string("1+", default="")
    listener: str = string("3+", default="", ignorable=True)
    security_protocol: int = int16("1+", default=0)


class UpdateMetadataBroker(Struct):
    id: int = int32("0+", default=0)
    v0_host: str = string("0", default="", ignorable=True)
    v0_port: int = int32("0", default=0, ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint, "1+", default_factory=list, ignorable=True)
    rack: str | None = string("2+", nullable="2+", default="", ignorable=True)
    kavka_is_shutting_down: bool = boolean("6+", tag=10000, default=False, ignorable=True)


class UpdateMetadataRequest(Message, kind="request", versions="0-8", flexible="6+", api_key=6):
    controller_id: int = int32("0+", default=0)
    is_k_raft_controller: bool = boolean("8+", default=False)
    type: int = int8("8+", tag=0, default=0)
    controller_epoch: int = int32("0+", default=0)
    broker_epoch: int = int64("5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array(
        UpdateMetadataPartitionState, "0-4", default_factory=list
    )
    topic_states: list[UpdateMetadataTopicState] = array(UpdateMetadataTopicState, "5+", default_factory=list)
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker, "0+", default_factory=list)
