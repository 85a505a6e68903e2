"""DeletedTopics: what is taken for deleted, and what a broker merely has not heard of."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Sequence
from typing import Any

from kavka.broker.late import Late
from kavka.broker.metadata.metadata_cache import MetadataCache, PartitionMetadata, TopicMetadata
from kavka.broker.share.deleted_topics import DeletedTopics
from kavka.model import BrokerId, LeaderAndIsr, LeaderEpoch
from kavka.zookeeper.port import ANY_VERSION, Check, ConnectionLoss
from kavka.zookeeper.znode_paths import TOPICS_PATH, topic_path
from kavka.zookeeper.znodes import TopicAssignment

ORDERS, NEW, GONE, MADE_ANEW = (uuid.UUID(int=number) for number in range(1, 5))


class _ZooKeeper:
    """Has these topics. Reads may be old until a write was agreed to."""

    def __init__(self, **topics: uuid.UUID | None) -> None:
        self.nodes = {
            topic_path(name): TopicAssignment(name, {0: [1]}, topic_id).encode() for name, topic_id in topics.items()
        }
        self.is_behind = True
        self.is_lost = False

    async def multi(self, operations: Sequence[Any]) -> list[None]:
        assert operations == [Check(TOPICS_PATH, ANY_VERSION)]
        if self.is_lost:
            raise ConnectionLoss
        self.is_behind = False
        return [None]

    async def children(self, path: str) -> list[str]:
        assert path == TOPICS_PATH
        return [] if self.is_behind else [each.removeprefix(f"{TOPICS_PATH}/") for each in self.nodes]

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, None] | None]:
        return [(self.nodes[path], None) if path in self.nodes else None for path in paths]


class _Coordinator:
    """Has states of these topics, as coordinator of states, or of share groups in its shards."""

    def __init__(self, *topic_ids: uuid.UUID) -> None:
        self.known = frozenset(topic_ids)
        self.forgot: set[uuid.UUID] = set()
        self.shares = self

    def shards(self) -> list[str]:
        return ["shard"]

    def topic_ids(self, shards: Sequence[str] = ()) -> frozenset[uuid.UUID]:
        return self.known

    async def on_topics_deleted(self, *shards_and_ids: Collection[Any]) -> None:
        self.forgot |= set(shards_and_ids[-1]) & self.known


def looked(zookeeper: _ZooKeeper, *, knows: dict[str, uuid.UUID]) -> tuple[set[uuid.UUID], set[uuid.UUID]]:
    """What the coordinators of groups and of states forget on a broker that `knows` these topics."""
    metadata = MetadataCache("cluster")
    partition = PartitionMetadata((BrokerId(1),), LeaderAndIsr(BrokerId(1), LeaderEpoch(0), (BrokerId(1),), 0))
    for name, topic_id in knows.items():
        metadata.set_topic(TopicMetadata(name, topic_id, (partition,)))
    groups, states = _Coordinator(ORDERS, NEW, GONE), _Coordinator(ORDERS, GONE)
    late: list[Any] = [Late(lambda: groups), Late(lambda: states)]
    for each in late:
        each()
    port: Any = zookeeper
    asyncio.run(DeletedTopics(port, metadata, *late).look())
    return groups.forgot, states.forgot


def test_a_topic_that_no_node_has_is_forgotten_by_groups_and_states() -> None:
    zookeeper = _ZooKeeper(orders=ORDERS, new=NEW)
    assert looked(zookeeper, knows={"orders": ORDERS, "new": NEW}) == ({GONE}, {GONE})


def test_a_topic_that_this_broker_has_not_heard_of_is_no_deleted_one() -> None:
    zookeeper = _ZooKeeper(orders=ORDERS, new=NEW)
    assert looked(zookeeper, knows={}) == ({GONE}, {GONE})


def test_a_topic_whose_name_another_has_is_deleted() -> None:
    zookeeper = _ZooKeeper(orders=MADE_ANEW, new=NEW, gone=GONE)
    assert looked(zookeeper, knows={"orders": MADE_ANEW}) == ({ORDERS}, {ORDERS})


def test_a_topic_that_waits_for_its_deletion_is_there() -> None:
    zookeeper = _ZooKeeper(orders=ORDERS, new=NEW, gone=GONE)
    assert looked(zookeeper, knows={"orders": ORDERS, "new": NEW}) == (set(), set())


def test_nothing_is_deleted_while_nobody_answers() -> None:
    zookeeper = _ZooKeeper(orders=ORDERS)
    zookeeper.is_lost = True
    assert looked(zookeeper, knows={"orders": ORDERS}) == (set(), set())


def test_nothing_is_deleted_while_a_topic_cannot_be_read() -> None:
    zookeeper = _ZooKeeper(orders=ORDERS)
    zookeeper.nodes[topic_path("odd")] = b"{"
    assert looked(zookeeper, knows={"orders": ORDERS}) == (set(), set())
