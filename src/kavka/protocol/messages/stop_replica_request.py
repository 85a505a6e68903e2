"""StopReplicaRequest: request, API key 5, versions 0-4, flexible from 2.

Apache Kafka 3.9.2: 0-4.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, boolean, int32, int64, string


class StopReplicaPartitionV0(Struct):
    topic_name: str = string("0", default="")
    partition_index: int = int32("0", default=0)


class StopReplicaTopicV1(Struct):
    name: str = string("1-2", default="")
    partition_indexes: list[int] = array("int32", "1-2", default_factory=list)


class StopReplicaPartitionState(Struct):
    partition_index: int = int32("3+", default=0)
    leader_epoch: int = int32("3+", default=-1)
    delete_partition: bool = boolean("3+", default=False)


class StopReplicaTopicState(Struct):
    topic_name: str = string("3+", default="")
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState, "3+", default_factory=list)


class StopReplicaRequest(Message, kind="request", versions="0-4", flexible="2+", api_key=5):
    controller_id: int = int32("0+", default=0)
    is_k_raft_controller: bool = boolean("4+", default=False)
    controller_epoch: int = int32("0+", default=0)
    broker_epoch: int = int64("1+", default=-1, ignorable=True)
    delete_partitions: bool = boolean("0-2", default=False)
    ungrouped_partitions: list[StopReplicaPartitionV0] = array(StopReplicaPartitionV0, "0", default_factory=list)
    topics: list[StopReplicaTopicV1] = array(StopReplicaTopicV1, "1-2", default_factory=list)
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState, "3+", default_factory=list)
