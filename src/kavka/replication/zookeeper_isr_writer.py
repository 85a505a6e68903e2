"""ZooKeeperIsrWriter: a leader writes its ISR into the partition's state znode itself, as before Kafka 2.7.

Decides whether a proposal is stored already, may be stored, or is refused, from what the znode holds. The controller is
not asked; it hears of it through a notification znode. Must not know partitions or their logs.

    I1  a state znode is written only with the version that the proposal builds on (compare and set)
    I2  what is stored is compared before a version is held against a proposal: one that was stored by a write whose
        answer was lost is a success, not a conflict (KAFKA-2729, KAFKA-1382)
    I3  a write whose outcome is unknown is never reported as refused: the next attempt begins with reading

`IsrChangePropagation` tells the controller: every 2.5 s, if there were changes, and none in the last 5 s or no
notification for 60 s. So a burst of changes makes one znode.

Source: Kafka's ZkAlterPartitionManager, ReplicationUtils; article 003.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from kavka.errors import ErrorCode, ZooKeeperError
from kavka.logger import Logger
from kavka.model import TopicPartition
from kavka.replication.decide.isr_states import IsrAnswer, IsrCommitted, IsrProposal, IsrRejected, IsrUnknown
from kavka.zookeeper.port import BadVersion, CreateMode, NoNode, OutcomeUnknown, SessionExpired, Stat, ZooKeeper
from kavka.zookeeper.znode_paths import ISR_CHANGE_PREFIX, partition_state_path
from kavka.zookeeper.znodes import IsrChangeNotification, MalformedZNode, PartitionState

logger = Logger(__name__)

PROPAGATION_INTERVAL_MS: Final = 2_500
QUIET_MS: Final = 5_000
MAX_SILENCE_MS: Final = 60_000
"""Kafka's three constants of IsrChangePropagationConfig."""
MAX_PARTITIONS_PER_NOTIFICATION: Final = 3_000
"""So that a notification of the longest topic names stays below ZooKeeper's limit of a megabyte."""


class IsrChangePropagation:
    """Changes that the controller does not know of yet."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zookeeper = zookeeper
        # As many as there are partitions, at most.
        self._changed: dict[TopicPartition, None] = {}
        self._last_change_ms = 0
        self._last_notification_ms = -MAX_SILENCE_MS - 1  # the first change is told at once, as in Kafka

    def note(self, topic_partition: TopicPartition, now_ms: int) -> None:
        self._changed[topic_partition] = None
        self._last_change_ms = now_ms

    def is_due(self, now_ms: int) -> bool:
        """The rule of 5 and 60 seconds."""
        return bool(self._changed) and (
            now_ms - self._last_change_ms > QUIET_MS or now_ms - self._last_notification_ms > MAX_SILENCE_MS
        )

    async def run(self) -> None:
        """Notifies the controller of changes, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(PROPAGATION_INTERVAL_MS / 1000)
            if self.is_due(int(loop.time() * 1000)):
                await self.propagate(int(loop.time() * 1000))

    async def propagate(self, now_ms: int) -> None:
        """Writes the notification. A failure leaves the changes for the next time. A second one does no harm."""
        telling = list(self._changed)[:MAX_PARTITIONS_PER_NOTIFICATION]
        notification = IsrChangeNotification(tuple(telling))
        for topic_partition in telling:
            del self._changed[topic_partition]
        try:
            await self._zookeeper.create(
                ISR_CHANGE_PREFIX, notification.encode(), mode=CreateMode.PERSISTENT_SEQUENTIAL
            )
        except ZooKeeperError as failure:
            self._changed = {**dict.fromkeys(telling), **self._changed}
            logger.warning("isr changes not announced", partitions=len(telling), why=str(failure))
            return
        self._last_notification_ms = now_ms


class ZooKeeperIsrWriter:
    """Compares and sets state znodes."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zookeeper = zookeeper
        self.propagation = IsrChangePropagation(zookeeper)

    async def write(self, proposals: Sequence[IsrProposal]) -> list[IsrAnswer]:
        """See `IsrWriter.write`."""
        paths = [partition_state_path(proposal.topic_partition) for proposal in proposals]
        try:
            found = await self._zookeeper.get_many(paths)
        except (OutcomeUnknown, SessionExpired) as failure:
            return [IsrUnknown(str(failure))] * len(proposals)
        return list(
            await asyncio.gather(
                *(self._write(proposal, node) for proposal, node in zip(proposals, found, strict=True))
            )
        )

    async def _write(self, proposal: IsrProposal, node: tuple[bytes | None, Stat] | None) -> IsrAnswer:
        if node is None:
            return IsrRejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        try:
            present = PartitionState.decode(proposal.topic_partition, node[0])
        except MalformedZNode as garbage:
            logger.error(
                "isr not written",
                partition=str(proposal.topic_partition),
                why=str(garbage),
                next_step="repair the znode",
            )
            return IsrRejected(ErrorCode.UNKNOWN_SERVER_ERROR)
        version = node[1].version
        stored = present.leader_and_isr(version)
        if stored.leader != proposal.leader or stored.leader_epoch != proposal.leader_epoch:
            return IsrRejected(ErrorCode.FENCED_LEADER_EPOCH, stored)
        if set(stored.isr) == set(proposal.isr):
            return IsrCommitted(stored)
        if version != proposal.partition_epoch:
            return IsrRejected(ErrorCode.INVALID_UPDATE_VERSION, stored)
        state = PartitionState(
            present.leader,
            present.leader_epoch,
            proposal.isr,
            present.controller_epoch,
            present.leader_recovery_state if len(proposal.isr) == 1 else 0,
        )
        try:
            stat = await self._zookeeper.set(
                partition_state_path(proposal.topic_partition), state.encode(), version=version
            )
        except BadVersion:
            return IsrUnknown("the state was written meanwhile: it is read again")
        except NoNode:
            return IsrRejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        except (OutcomeUnknown, SessionExpired) as failure:
            # If it was carried out, the next attempt finds it stored; the controller must be told in either case.
            self._note(proposal)
            return IsrUnknown(str(failure))
        self._note(proposal)
        return IsrCommitted(state.leader_and_isr(stat.version))

    def _note(self, proposal: IsrProposal) -> None:
        now_ms = int(asyncio.get_running_loop().time() * 1000)
        self.propagation.note(proposal.topic_partition, now_ms)
