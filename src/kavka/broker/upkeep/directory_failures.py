"""DirectoryFailures: what a broker does when a file of a log directory fails.

Decides which partitions go offline, when the controller is informed, and when the broker cannot go on. Must not know
who leads afterwards.

    I1  a failed directory is announced to the controller, again and again until ZooKeeper has accepted it: a broker
        must lead nothing from a failed directory
    I2  the failure of the last directory halts the broker

Source: Kafka's ReplicaManager.handleLogDirFailure and LogDirFailureHandler; KIP-112.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Final, NamedTuple

from kavka.decisions import Decision, DecisionKind, RecordDecision
from kavka.errors import StorageError, ZooKeeperError
from kavka.log.log_manager import LogManager
from kavka.logger import Logger
from kavka.model import BrokerId, TopicPartition
from kavka.replication.replica_manager import ReplicaManager
from kavka.zookeeper.port import CreateMode, ZooKeeper
from kavka.zookeeper.znode_paths import LOG_DIR_EVENT_PREFIX
from kavka.zookeeper.znodes import LOG_DIR_FAILURE, LogDirEvent

logger = Logger(__name__)

ANNOUNCE_RETRY_S: Final = 1.0
"""How long after a failure of ZooKeeper a failed directory is announced again."""


class DirectoryFailurePorts(NamedTuple):
    """`take_offline` has partitions served no more; `on_directory_failed` hears of each directory that failed. `halt`
    ends the process. `spawn` runs a task that ends with the broker."""

    zookeeper: ZooKeeper
    wall_ms: Callable[[], int]
    take_offline: Callable[[Sequence[TopicPartition]], None]
    on_directory_failed: Callable[[], None]
    halt: Callable[[str], None]
    spawn: Callable[[Coroutine[None, None, None]], None]
    record: RecordDecision


class DirectoryFailures:
    """One broker's."""

    def __init__(
        self, broker_id: BrokerId, logs: LogManager, replicas: ReplicaManager, ports: DirectoryFailurePorts
    ) -> None:
        self._broker_id = broker_id
        self._logs = logs
        self._replicas = replicas
        self._ports = ports
        self._announced: dict[str, None] = {}
        self._heard_of = len(logs.offline_directories)

    def on_storage_error(self, failure: StorageError) -> None:
        """Takes the directory of a failed file offline, with all partitions in it; the last one halts the broker.

        The controller learns of it, and elects other leaders for the partitions there.
        """
        logs = self._logs
        logs.on_storage_error(failure.path, failure)
        # More than were heard of: the log manager may have taken it offline before it raised, or raised nothing.
        offline = len(logs.offline_directories)
        if offline > self._heard_of:
            self._heard_of = offline
            self._ports.on_directory_failed()
        gone = [partition.topic_partition for partition in self._replicas.partitions() if partition.log.failure]
        self._ports.take_offline(gone)
        if logs.is_released:
            return  # It was closed under who used it, at a stop.
        if not logs.live_directories:
            self._ports.halt(f"no usable log directory is left: {failure}")
            return
        for directory, why in logs.offline_directories.items():
            if directory not in self._announced:
                self._announced[directory] = None
                self._record(directory, why)
                self._ports.spawn(self._announce())

    def _record(self, directory: str, why: StorageError) -> None:
        self._ports.record(
            Decision(
                DecisionKind.LOG_DIRECTORY_OFFLINE,
                self._ports.wall_ms(),
                self._broker_id,
                f"log directory {directory} failed and stays offline until this broker restarts: {why}",
                about_broker=self._broker_id,
                evidence={"directory": directory, "left": tuple(self._logs.live_directories)},
            )
        )

    async def _announce(self) -> None:
        """Makes the controller ask which replicas are gone. Announcing it twice does no harm, so every failure is
        retried."""
        event = LogDirEvent(self._broker_id, LOG_DIR_FAILURE).encode()
        while True:
            try:
                await self._ports.zookeeper.create(LOG_DIR_EVENT_PREFIX, event, mode=CreateMode.PERSISTENT_SEQUENTIAL)
            except ZooKeeperError as failure:
                logger.warning("failed log directory not announced yet", why=str(failure))
                await asyncio.sleep(ANNOUNCE_RETRY_S)
            else:
                return
