"""LeaderAndIsrRequest: request, API key 4, versions 0-7, flexible from 4.

Apache Kafka 3.9.2: 0-7.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, boolean, int8, int32, int64, string, uuid


class LeaderAndIsrPartitionState(Struct):
    topic_name: str = string("0-1", default="", ignorable=True)
    partition_index: int = int32("0+", default=0)
    controller_epoch: int = int32("0+", default=0)
    leader: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)
    isr: list[int] = array("int32", "0+", default_factory=list)
    partition_epoch: int = int32("0+", default=0)
    replicas: list[int] = array("int32", "0+", default_factory=list)
    adding_replicas: list[int] = array("int32", "3+", default_factory=list, ignorable=True)
    removing_replicas: list[int] = array("int32", "3+", default_factory=list, ignorable=True)
    is_new: bool = boolean("1+", default=False, ignorable=True)
    leader_recovery_state: int = int8("6+", default=0)


class LeaderAndIsrTopicState(Struct):
    topic_name: str = string("2+", default="")
    topic_id: UUID = uuid("5+", default=ZERO_UUID, ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, "2+", default_factory=list)


class LeaderAndIsrLiveLeader(Struct):
    broker_id: int = int32("0+", default=0)
    host_name: str = string("0+", default="")
    port: int = int32("0+", default=0)


class LeaderAndIsrRequest(Message, kind="request", versions="0-7", flexible="4+", api_key=4):
    controller_id: int = int32("0+", default=0)
    is_k_raft_controller: bool = boolean("7+", default=False)
    controller_epoch: int = int32("0+", default=0)
    broker_epoch: int = int64("2+", default=-1, ignorable=True)
    type: int = int8("5+", default=0)
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array(
        LeaderAndIsrPartitionState, "0-1", default_factory=list
    )
    topic_states: list[LeaderAndIsrTopicState] = array(LeaderAndIsrTopicState, "2+", default_factory=list)
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader, "0+", default_factory=list)
