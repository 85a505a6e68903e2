"""Notifications: sequential znodes by which brokers report to the controller what it does not see by itself.

    /isr_change_notification/isr_change_N           a leader wrote ISRs itself (inter.broker.protocol.version < 2.7):
                                                    the states are read again, all brokers get the metadata
    /log_dir_event_notification/log_dir_event_N     a broker lost a log directory

A flow in a controller's term. A notification is deleted after it was acted upon: a controller that dies in between
leaves it to the next one, and to act on it twice does no harm.

Invariants:
I1  At most MAX_AT_ONCE notifications are acted upon together; the rest comes in the next round.
I2  A notification that cannot be read is deleted, with a line in the log: it would be read again for ever.

Source: Kafka's KafkaController.processIsrChangeNotification and processLogDirEventNotification.
"""

from __future__ import annotations

from typing import Final

from kavka.controller.orders.orders import ClusterChange, partition_order
from kavka.controller.term.controller_term import ControllerTerm
from kavka.controller.work.leaders import Leaders
from kavka.logger import Logger
from kavka.model import BrokerId, TopicPartition
from kavka.zookeeper.port import Delete, NoNode
from kavka.zookeeper.znode_paths import ISR_CHANGES_PATH, LOG_DIR_EVENTS_PATH
from kavka.zookeeper.znodes import IsrChangeNotification, LogDirEvent, MalformedZNode

logger = Logger(__name__)

MAX_AT_ONCE: Final = 500


class Notifications:
    """Reads and removes notifications, in one term. Methods are called with `turn` held; they raise NotController and
    ZooKeeperError."""

    def __init__(self, term: ControllerTerm, leaders: Leaders) -> None:
        self._term = term
        self._context = term.context
        self._zookeeper = term.zookeeper
        self._leaders = leaders

    async def take_isr_changes(self) -> list[TopicPartition]:
        """Acts on changes of ISRs; returns the partitions that were named."""
        all_named: dict[TopicPartition, None] = {}
        while notifications := await self._read(ISR_CHANGES_PATH):
            named: dict[TopicPartition, None] = {}
            for path, data in notifications:
                try:
                    named.update(dict.fromkeys(IsrChangeNotification.decode(path, data).partitions))
                except MalformedZNode as malformed:
                    logger.warning("notification cannot be read, it is removed", path=path, why=str(malformed))
            all_named.update(named)
            known = [
                partition
                for partition in named
                if partition in self._context.states and partition.topic not in self._context.topics_to_delete
            ]
            await self._leaders.load(known)
            orders = [
                partition_order(self._context, partition, recipients=())
                for partition in known
                if partition in self._context.states
            ]
            await self._term.order(ClusterChange(partitions=tuple(orders)))
            await self._remove([path for path, _ in notifications])
        return list(all_named)

    async def log_dir_brokers(self) -> tuple[list[BrokerId], list[str]]:
        """(brokers that lost a log directory, the paths to `remove` when that was acted upon)"""
        brokers: dict[BrokerId, None] = {}
        notifications = await self._read(LOG_DIR_EVENTS_PATH)
        for path, data in notifications:
            try:
                brokers[LogDirEvent.decode(path, data).broker_id] = None
            except MalformedZNode as malformed:
                logger.warning("notification cannot be read, it is removed", path=path, why=str(malformed))
        return list(brokers), [path for path, _ in notifications]

    async def remove(self, paths: list[str]) -> None:
        """Removes notifications that were acted upon."""
        await self._remove(paths)

    async def _read(self, parent: str) -> list[tuple[str, bytes | None]]:
        """The oldest notifications; the parent is watched afterwards."""
        try:
            names = await self._zookeeper.children(parent, watch=True)
        except NoNode:
            return []
        paths = [f"{parent}/{name}" for name in names[:MAX_AT_ONCE]]
        found = await self._zookeeper.get_many(paths)
        return [(path, node[0]) for path, node in zip(paths, found, strict=True) if node is not None]

    async def _remove(self, paths: list[str]) -> None:
        while paths:
            try:
                await self._term.write(Delete(path) for path in paths)
            except NoNode:
                found = await self._zookeeper.get_many(paths)
                paths = [path for path, node in zip(paths, found, strict=True) if node is not None]
                continue
            return
