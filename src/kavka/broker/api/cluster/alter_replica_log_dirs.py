"""AlterReplicaLogDirs (key 34): moves partitions' logs to other log directories of this broker (KIP-113).

Behaviour   The answer comes when the moves have begun; DescribeLogDirs shows how far they are. A directory that this
            broker does not have is LOG_DIR_NOT_FOUND, one that is offline KAFKA_STORAGE_ERROR, one that is cordoned
            INVALID_REPLICA_ASSIGNMENT. A partition without a
            replica here is REPLICA_NOT_AVAILABLE, one that the cluster does not have UNKNOWN_TOPIC_OR_PARTITION; the
            broker creates its log in that directory if the partition comes later. A partition whose directory failed is
            KAFKA_STORAGE_ERROR, and one whose name leaves no room for the ending of a copy's INVALID_TOPIC_EXCEPTION.
            Naming the directory that the log is in ends a move elsewhere. Of a partition that is named several times
            the last directory counts, as in Apache Kafka.
Versions    1; 2 flexible.
Not supported  Version 0: Apache Kafka 4 dropped it too (KIP-896).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.errors import ErrorCode
from kavka.log.decide.directory_names import may_be_moved
from kavka.model import TopicPartition
from kavka.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from kavka.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from kavka.broker.api.cluster.ports import ClusterBroker
    from kavka.protocol.connection import Request


def handle(broker: ClusterBroker, request: Request, message: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    wanted = {
        TopicPartition(topic.name, number): directory.path
        for directory in message.dirs
        for topic in directory.topics
        for number in topic.partitions
    }
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for partition, path in wanted.items():
        name, number = partition
        result = topics.setdefault(name, AlterReplicaLogDirTopicResult(topic_name=name, partitions=[]))
        error = _move(broker, partition, path)
        result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=number, error_code=error))
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _move(broker: ClusterBroker, partition: TopicPartition, directory: str) -> ErrorCode:
    if not may_be_moved(partition):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if broker.replicas.is_offline(partition):
        return ErrorCode.KAFKA_STORAGE_ERROR
    error = broker.moves.request(partition, directory)
    if error is ErrorCode.REPLICA_NOT_AVAILABLE:
        absence = broker.replicas.absence(*partition)
        return error if absence is ErrorCode.NOT_LEADER_OR_FOLLOWER else absence
    return error
