"""SubmittedReassignments: what old tools write to /admin/reassign_partitions.

A flow in the controller's term. A partition stays in the znode until it is where it is to be, or is refused; the znode
goes with the last one. It must not know what is allowed, nor how a partition moves.

Source: KIP-4's predecessor, `kafka-reassign-partitions --zookeeper`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kavka.controller.term.controller_term import ControllerTerm
from kavka.model import TopicPartition
from kavka.zookeeper.port import BadVersion, Delete, NoNode, OutcomeUnknown, SetData
from kavka.zookeeper.znode_paths import REASSIGN_PARTITIONS_PATH
from kavka.zookeeper.znodes import MalformedZNode, ReassignPartitions

MAX_WRITE_ATTEMPTS: Final = 5
"""How often the znode is written anew because somebody else changed it meanwhile."""


class Submitted(NamedTuple):
    """The znode as it was read: the replicas that each partition is to have, and which of them are not new."""

    replicas: Mapping[TopicPartition, Sequence[int]]
    seen_before: Mapping[TopicPartition, None]


class SubmittedReassignments:
    """The znode, in one term. Methods are called with `turn` held; they raise NotController and ZooKeeperError."""

    def __init__(self, term: ControllerTerm) -> None:
        self._term = term
        self._taken: dict[TopicPartition, None] = {}
        """What the znode holds, as far as it was read."""

    async def read(self) -> Submitted | None:
        """What the znode holds, which is watched from now on; None if it does not exist or cannot be read."""
        zookeeper, context = self._term.zookeeper, self._term.context
        if await zookeeper.exists(REASSIGN_PARTITIONS_PATH, watch=True) is None:
            self._taken = {}
            return None
        try:
            data, _ = await zookeeper.get(REASSIGN_PARTITIONS_PATH)
            replicas = ReassignPartitions.decode(data).replicas
        except NoNode:
            return None  # The watch says so, too.
        except MalformedZNode as malformed:
            context.found_malformed(malformed)
            return None
        context.malformed.pop(REASSIGN_PARTITIONS_PATH, None)
        seen_before, self._taken = self._taken, dict.fromkeys(replicas)
        return Submitted(replicas, seen_before)

    async def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Takes partitions out of the znode: they are done, refused, or asked for in another way."""
        leaving = [partition for partition in partitions if partition in self._taken]
        if not leaving:
            return
        for attempt in range(MAX_WRITE_ATTEMPTS):
            try:
                data, stat = await self._term.zookeeper.get(REASSIGN_PARTITIONS_PATH)
                wanted = ReassignPartitions.decode(data).replicas
                remaining = {key: replicas for key, replicas in wanted.items() if key not in leaving}
                await self._term.write(
                    [
                        SetData(REASSIGN_PARTITIONS_PATH, ReassignPartitions(remaining).encode(), stat.version)
                        if remaining
                        else Delete(REASSIGN_PARTITIONS_PATH, stat.version)
                    ]
                )
            except (NoNode, MalformedZNode):
                pass  # It is gone, or somebody put garbage in its place.
            except (BadVersion, OutcomeUnknown):
                if attempt == MAX_WRITE_ATTEMPTS - 1:
                    raise
                continue
            break
        for partition in leaving:
            self._taken.pop(partition, None)
