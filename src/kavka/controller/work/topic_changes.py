"""TopicChanges: topics and partitions that appear in ZooKeeper, whoever wrote them, and requests to delete topics.

A flow in a controller's term. What this controller writes itself is in the context already when its watch fires, and
is found to be nothing new. Topics that a tool or another broker wrote have no partition states yet: they get them here.

Invariants:
I1  The znode of every known topic is watched: read and watch are one call, so that no change falls in between (S32).
I2  A topic's znode that cannot be read is left alone until it is changed; the others go on.
I3  Every topic has an id: one that was made without (by Kafka before 2.8, or by a tool of that time) is given one.
    Leaders name topics by id when they propose an ISR.

Source: Kafka's KafkaController.processTopicChange, processPartitionModifications and processTopicDeletion.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kavka.controller.decide.assignment import RandomSource
from kavka.controller.decide.context import KnownTopic
from kavka.controller.decide.reasons import topic_decision
from kavka.controller.orders.orders import ClusterChange
from kavka.controller.term.controller_term import ControllerTerm
from kavka.controller.work.leaders import Leaders
from kavka.controller.work.topic_deletion import TopicDeletions
from kavka.decisions import DecisionKind
from kavka.model import TopicPartition
from kavka.zookeeper.port import BadVersion, Delete, NoNode, SetData, Stat
from kavka.zookeeper.znode_paths import DELETE_TOPICS_PATH, TOPICS_PATH, delete_topic_path, topic_path
from kavka.zookeeper.znodes import MalformedZNode, TopicAssignment, random_uuid

READS_AT_ONCE: Final = 1_000
"""Znodes that are asked for before the first answer came."""


class TopicChanges:
    """Takes in topics, in one term."""

    def __init__(
        self,
        term: ControllerTerm,
        leaders: Leaders,
        deletions: TopicDeletions,
        rng: RandomSource,
    ) -> None:
        """`rng` gives ids."""
        self._term = term
        self._context = term.context
        self._zookeeper = term.zookeeper
        self._leaders = leaders
        self._deletions = deletions
        self._rng = rng
        self._watched: dict[str, None] = {}

    async def load(self) -> None:
        """All topics as they are, into an empty context; watched from now on. With `turn` held."""
        names = await self._children(TOPICS_PATH)
        await self._read(names)
        await self._give_ids(names)
        self._context.topics_to_delete = dict.fromkeys(await self._children(DELETE_TOPICS_PATH))

    async def look(self) -> None:
        """The set of topics changed. Takes `turn`; raises NotController, ZooKeeperError."""
        async with self._term.turn:
            names = await self._children(TOPICS_PATH)
            present = set(names)
            for name in [name for name in self._context.topics if name not in present]:
                self._context.remove_topic(name)  # Somebody deleted its znode by hand.
            for name in [name for name in self._watched if name not in present]:
                del self._watched[name]
                self._context.malformed.pop(topic_path(name), None)
            await self._take([name for name in names if name not in self._watched])

    async def look_at(self, name: str) -> None:
        """A topic's znode changed. Takes `turn`; raises NotController, ZooKeeperError."""
        async with self._term.turn:
            self._watched.pop(name, None)
            await self._take([name])

    async def look_for_deletions(self) -> None:
        """The set of topics to be deleted changed. Takes `turn`; raises NotController, ZooKeeperError."""
        async with self._term.turn:
            marked = await self._children(DELETE_TOPICS_PATH)
            new = [name for name in marked if name not in self._context.topics_to_delete]
            if self._deletions.are_enabled:
                await self._deletions.begin(new)
                return
            for name in new:
                try:
                    await self._term.write([Delete(delete_topic_path(name))])
                except NoNode:
                    pass  # Somebody else removed it.

    # ------------------------------------------------------------------------------------------------------ steps

    async def _take(self, names: Sequence[str]) -> None:
        """Reads the topics; partitions that are new get their first leaders."""
        known = {name: name in self._context.topics for name in names}
        added = await self._read(names)
        await self._give_ids(names)
        if not added:
            return
        orders = await self._leaders.initialise(added)
        self._leaders.place_replicas(added)
        by_topic: dict[str, list[TopicPartition]] = {}
        for partition in added:
            by_topic.setdefault(partition.topic, []).append(partition)
        for name, partitions in by_topic.items():
            kind = DecisionKind.PARTITIONS_ADDED if known.get(name) else DecisionKind.TOPIC_CREATED
            self._note(kind, name, partitions)
        await self._term.order(ClusterChange(partitions=tuple(orders)))

    async def _read(self, names: Sequence[str]) -> list[TopicPartition]:
        """Takes the topics' znodes into the context, watched; returns partitions that were not known."""
        added: list[TopicPartition] = []
        for start in range(0, len(names), READS_AT_ONCE):
            some = names[start : start + READS_AT_ONCE]
            for name, known in zip(some, await asyncio.gather(*map(self._read_one, some)), strict=True):
                before = self._context.topics.get(name)
                if known is None or (before is not None and known.version <= before.version):
                    continue
                if name in self._context.topics_to_delete and before is not None:
                    continue  # Partitions are not added to what is being deleted.
                added += self._context.set_topic(known)
        return added

    async def _give_ids(self, names: Sequence[str]) -> None:
        """Writes an id for each of the topics that has none."""
        nameless = [name for name in names if name in self._context.topics and not self._context.topics[name].topic_id]
        for start in range(0, len(nameless), READS_AT_ONCE):
            known = {name: self._context.topics[name] for name in nameless[start : start + READS_AT_ONCE]}
            given = {
                name: replace(topic.assignment, topic_id=random_uuid(self._rng.randbytes(16)))
                for name, topic in known.items()
            }
            try:
                results = await self._term.write(
                    SetData(topic_path(name), assignment.encode(), known[name].version)
                    for name, assignment in given.items()
                )
            except (BadVersion, NoNode):
                continue  # Somebody wrote one of them: its watch fires, and they are looked at again.
            for assignment, stat in zip(given.values(), results, strict=True):
                assert isinstance(stat, Stat)
                self._context.set_topic(KnownTopic(assignment, stat.version))

    async def _read_one(self, name: str) -> KnownTopic | None:
        try:
            data, stat = await self._zookeeper.get(topic_path(name), watch=True)
        except NoNode:
            self._context.malformed.pop(topic_path(name), None)
            return None
        self._watched[name] = None
        try:
            topic = KnownTopic(TopicAssignment.decode(name, data), stat.version)
        except MalformedZNode as malformed:
            self._context.found_malformed(malformed)
            return None
        self._context.malformed.pop(topic_path(name), None)
        return topic

    async def _children(self, path: str) -> list[str]:
        """Names of the children, watched; none where the parent is missing (every broker makes it at its start)."""
        try:
            return await self._zookeeper.children(path, watch=True)
        except NoNode:
            return []

    def _note(self, kind: DecisionKind, name: str, added: Sequence[TopicPartition]) -> None:
        self._term.record(topic_decision(self._term.stamp(), kind, self._context.topics[name].assignment, added))
