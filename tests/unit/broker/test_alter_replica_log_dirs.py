"""What AlterReplicaLogDirs answers for partitions of which nothing can be moved."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from kavka.broker.api.cluster import alter_replica_log_dirs
from kavka.broker.upkeep.log_moves import LogMoves
from kavka.errors import ErrorCode
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.model import TopicPartition
from kavka.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kavka.replication.replica_manager import ReplicaManager, ReplicaPorts
from kavka.runtime.disk import LocalFileSystem

NOW_MS = 1_700_000_000_000
LONGEST = "t" * 249


async def run_blocking(_work: object) -> None:
    raise AssertionError("nothing is to be moved")


def test_each_partition_that_is_not_here_is_answered_as_by_kafka(tmp_path: Path) -> None:
    """kafka-reassign-partitions asks again as long as it hears REPLICA_NOT_AVAILABLE, and gives up at other errors."""
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    logs = LogManager(LocalFileSystem(), [first, second], LogManagerSettings(1), lambda topic: LogConfig())
    logs.load(NOW_MS)
    ports = ReplicaPorts(on_storage_error=lambda failure: None, is_elsewhere=lambda topic, index: topic == "elsewhere")
    replicas = ReplicaManager(asyncio.new_event_loop(), ports)
    replicas.take_offline([TopicPartition("offline", 0)])
    moves = LogMoves(
        logs,
        rate=lambda: 1,
        wall_ms=lambda: NOW_MS,
        run_blocking=run_blocking,
        on_storage_error=lambda failure: None,
        spawn=lambda flow: flow.close(),
    )
    broker = cast("Any", SimpleNamespace(moves=moves, replicas=replicas))

    def told(topic: str, directory: str) -> ErrorCode:
        wanted = AlterReplicaLogDir(path=directory, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[0])])
        answer = alter_replica_log_dirs.handle(broker, cast("Any", None), AlterReplicaLogDirsRequest(dirs=[wanted]))
        return ErrorCode(answer.results[0].partitions[0].error_code)

    assert told("elsewhere", second) is ErrorCode.REPLICA_NOT_AVAILABLE
    assert told("nowhere", second) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told("offline", second) is ErrorCode.KAFKA_STORAGE_ERROR
    assert told("elsewhere", str(tmp_path)) is ErrorCode.LOG_DIR_NOT_FOUND
    assert told(LONGEST, second) is ErrorCode.INVALID_TOPIC_EXCEPTION
    both = [
        AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name="elsewhere", partitions=[0])])
        for path in (str(tmp_path), second)
    ]
    (answer,) = alter_replica_log_dirs.handle(broker, cast("Any", None), AlterReplicaLogDirsRequest(dirs=both)).results
    assert [part.error_code for part in answer.partitions] == [ErrorCode.REPLICA_NOT_AVAILABLE], "the last one counts"
    made = logs.get_or_create(TopicPartition("elsewhere", 0), None, NOW_MS)
    assert made.directory == f"{second}/elsewhere-0", "it was remembered where it is to be"
    logs.release()
