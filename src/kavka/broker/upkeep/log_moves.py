"""LogMoves: partitions' logs on their way to other log directories of this broker, one after another.

A flow. `log.log_move` decides what to copy, a worker copies it slice by slice, as fast as
replica.alter.log.dirs.io.max.bytes.per.second allows, and the log manager puts the copy in the log's place.
num.replica.alter.log.dirs.threads has no effect: a broker is one core, and a disk gains nothing from two copies at a
time.

    I1  A move that is replaced by another, or whose log or directory is gone, ends; its copy is removed.
    I2  A failure takes its directory offline; the log stays where it is. It is not a failure if a copy that is no
        longer wanted is gone: it may be removed while a worker still writes to it.

Source: KIP-113, Kafka's ReplicaManager.alterReplicaLogDirs and ReplicaAlterLogDirsManager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final

from kavka.errors import ErrorCode, StorageError
from kavka.log.log_manager import LogManager
from kavka.log.log_move import LogMove
from kavka.logger import Logger
from kavka.model import TopicPartition

logger = Logger(__name__)

BUSY_S: Final = 0.01
"""How long a move waits where the log is just being flushed or compacted."""


class LogMoves:
    """`rate` is what may be copied in a second, bytes; `spawn` runs the flow."""

    def __init__(
        self,
        logs: LogManager,
        *,
        rate: Callable[[], int],
        wall_ms: Callable[[], int],
        run_blocking: Callable[[Callable[[], None]], Awaitable[None]],
        on_storage_error: Callable[[StorageError], None],
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self._logs = logs
        self._rate = rate
        self._wall_ms = wall_ms
        self._run_blocking = run_blocking
        self._on_storage_error = on_storage_error
        self._spawn = spawn
        self._waiting: dict[TopicPartition, LogMove] = {}
        self._is_running = False

    def request(self, partition: TopicPartition, directory: str) -> ErrorCode:
        """Starts to move the partition's log to `directory`. NONE: it will move, or is there already.
        REPLICA_NOT_AVAILABLE: there is no log; it will be created there.
        """
        error = self._logs.check_directory(directory)
        if error is not ErrorCode.NONE:
            return error
        log = self._logs.get(partition)
        if log is not None and log.failure is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if log is None:
            self._logs.prefer_directory(partition, directory)
            return ErrorCode.REPLICA_NOT_AVAILABLE
        try:
            move = self._logs.begin_move(partition, directory)
        except StorageError as failure:
            self._on_storage_error(failure)
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._waiting.pop(partition, None)
        if move is not None:
            self._waiting[partition] = move
            if not self._is_running:
                self._is_running = True
                self._spawn(self._run())
        return ErrorCode.NONE

    async def _run(self) -> None:
        try:
            while self._waiting:
                partition = next(iter(self._waiting))
                move = self._waiting.pop(partition)
                try:
                    await self._move(move)
                except StorageError as failure:
                    self._on_failure(partition, failure)
                except FileNotFoundError as missing:
                    self._on_failure(partition, StorageError(missing.filename or str(missing), "is gone"))
        finally:
            self._is_running = False

    def _on_failure(self, partition: TopicPartition, failure: StorageError) -> None:
        self._on_storage_error(failure)
        self._logs.end_move(partition)

    async def _move(self, move: LogMove) -> None:
        loop = asyncio.get_running_loop()
        former, began_at, copied = move.log.directory, loop.time(), 0
        while self._logs.is_under_way(move):
            task = move.next_slice()
            if task is not None:
                try:
                    copied += await self._copy(task)
                except StorageError:
                    if self._logs.is_under_way(move):
                        raise
                    return
                # Also where there is nothing to wait for: the loop has its turn between two slices.
                await asyncio.sleep(max(copied / max(self._rate(), 1) - (loop.time() - began_at), 0.0))
            elif move.can_finish:
                self._logs.finish_move(move, self._wall_ms())
                logger.info(
                    "log moved",
                    partition=str(move.log.topic_partition),
                    source=former,
                    target=move.log.directory,
                    size_bytes=move.log.size_bytes,
                    took_s=round(loop.time() - began_at, 3),
                )
                return
            else:
                await asyncio.sleep(BUSY_S)

    async def _copy(self, task: Callable[[], int]) -> int:
        copied: list[int] = []
        await self._run_blocking(lambda: copied.append(task()))
        return copied[0]
