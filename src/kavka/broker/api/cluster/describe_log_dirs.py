"""DescribeLogDirs (key 35): log directories, the sizes of the logs in them, the space on their volumes.

Behaviour   A failed directory is listed with KAFKA_STORAGE_ERROR and without its logs. No topics (null) means all. A
            log that is moving into a directory is listed there as a future one, with the bytes copied so far and the
            offsets still missing.
Versions    1; 2 flexible; 3 error above all; 4 total and usable bytes (KIP-827);
            5 whether the directory is cordoned (KIP-1066).
Not supported  Version 0: Apache Kafka 4 dropped it too (KIP-896).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kavka.broker.api.by_topic import by_topic
from kavka.errors import ErrorCode
from kavka.log.log_manager import LogDirectoryInfo
from kavka.log.log_move import LogMove
from kavka.log.unified_log import UnifiedLog
from kavka.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kavka.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from kavka.broker.api.cluster.ports import ClusterBroker
    from kavka.protocol.connection import Request


def handle(broker: ClusterBroker, request: Request, message: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    wanted = None
    if message.topics is not None:
        wanted = {(topic.topic, index) for topic in message.topics for index in topic.partitions}
    return DescribeLogDirsResponse(
        error_code=ErrorCode.NONE,
        results=[_directory(info, broker.logs.moves(info.path), wanted) for info in broker.logs.describe()],
    )


def _directory(
    info: LogDirectoryInfo, moves: Sequence[LogMove], wanted: set[tuple[str, int]] | None
) -> DescribeLogDirsResult:
    if info.error is not None:
        return DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=info.path, topics=[], is_cordoned=info.is_cordoned
        )
    listed = [(log.topic_partition, _log(log)) for log in info.logs]
    listed += [(move.log.topic_partition, _move(move)) for move in moves]
    topics = by_topic((partition, log) for partition, log in listed if wanted is None or partition in wanted)
    return DescribeLogDirsResult(
        error_code=ErrorCode.NONE,
        log_dir=info.path,
        topics=[
            DescribeLogDirsTopic(name=topic, partitions=[log for _index, log in logs]) for topic, logs in topics.items()
        ],
        total_bytes=info.total_bytes,
        usable_bytes=info.usable_bytes,
        is_cordoned=info.is_cordoned,
    )


def _log(log: UnifiedLog) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=log.topic_partition.partition,
        partition_size=log.size_bytes,
        # How far this replica is behind the high watermark; a leader never is.
        offset_lag=max(log.high_watermark - log.log_end_offset, 0),
        is_future_key=False,
    )


def _move(move: LogMove) -> DescribeLogDirsPartition:
    progress = move.progress
    return DescribeLogDirsPartition(
        partition_index=move.log.topic_partition.partition,
        partition_size=progress.size_bytes,
        offset_lag=max(move.log.log_end_offset - progress.offset, 0),
        is_future_key=True,
    )
