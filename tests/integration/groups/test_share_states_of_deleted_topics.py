"""States of a topic that is deleted: they go with it, also those that their keeper did not hear of."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from kavka.coordinator.groups.share.decide.records import ShareStatesRecord, decode_share_group_record
from kavka.coordinator.share_state.decide.records import SnapshotRecord, UpdateRecord, decode_share_state_record
from kavka.coordinator.shared.decide.records import CoordinatorRecord, split_version
from kavka.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kavka.records.batch import iterate_batches
from tests.kit.broker_client import BrokerClient
from tests.kit.process_cluster import eventually
from tests.kit.share_cluster import FAILURES, STATES, Queue, ShareCluster
from tests.kit.share_member import ACCEPT

EARLIEST = -2
OFFSETS = "__consumer_offsets"
PARTITIONS = 3
ONE_KEEPER = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.prune.interval.ms": "1000",
}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShareCluster]:
    """Each state is on one broker only: while that one is away, nobody hears of a deletion in its place."""
    made = ShareCluster(tmp_path_factory.mktemp("share-deleted"), settings=ONE_KEEPER)
    with made.cluster:
        yield made


def records(brokers: ShareCluster, topic: str) -> Iterator[CoordinatorRecord]:
    """All that is left in the log."""
    for index in range(PARTITIONS):
        with BrokerClient(brokers.port(brokers.leader(topic, index))) as client:
            offset = client.offset(topic, EARLIEST, partition=index).offset
            while data := bytes(client.fetch(topic, offset, partition=index).records or b""):
                for batch in iterate_batches(memoryview(data)):
                    offset = batch.header.last_offset + 1
                    for record in batch.records() if not batch.header.is_control else ():
                        value = None if record.value is None else bytes(record.value)
                        yield CoordinatorRecord(bytes(record.key or b""), value)


def kept(brokers: ShareCluster) -> set[tuple[str, uuid.UUID]]:
    """Group and topic of the states that the log has."""
    found: set[tuple[str, uuid.UUID]] = set()
    for record in records(brokers, STATES):
        match decode_share_state_record(record):
            case SnapshotRecord(key, None):
                found.discard((key.group_id, key.topic_id))
            case SnapshotRecord(key) | UpdateRecord(key):
                found.add((key.group_id, key.topic_id))
    return found


def known(brokers: ShareCluster, group: str) -> set[uuid.UUID]:
    """The topics of which the group has states, or is about to."""
    found: set[uuid.UUID] = set()
    for record in records(brokers, OFFSETS):
        value = None if record.value is None else split_version(record.value)
        decoded = decode_share_group_record(*split_version(record.key), value)
        if isinstance(decoded, ShareStatesRecord) and decoded.group_id == group:
            states = decoded.states
            found = set() if states is None else {*states.initializing, *states.initialized, *states.deleting}
    return found


def delete(brokers: ShareCluster, topic: str, *, timeout_ms: int = 30_000) -> None:
    def deleted() -> bool:
        controller = brokers.cluster.controller()
        try:
            with BrokerClient(brokers.port(controller)) as client:
                request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=timeout_ms)
                return client.ask(request, 6).responses[0].error_code in (0, 7)  # 7: it goes on
        except FAILURES:
            return False

    eventually("the topic is deleted", deleted)


def used(brokers: ShareCluster) -> Queue:
    """A queue whose group has done something."""
    queue = Queue(brokers)
    queue.produce(3)
    queue.joined()
    with queue.member() as member:
        assert member.fetch(queue.topic_id) == [(0, 2, 1)]
        assert member.acknowledge(queue.topic_id, (0, 1, [ACCEPT])) == 0
    return queue


def test_states_go_with_their_topic_and_others_stay(brokers: ShareCluster) -> None:
    deleted, other = used(brokers), used(brokers)
    assert {(each.group, each.topic_id) for each in (deleted, other)} <= kept(brokers)
    assert deleted.topic_id in known(brokers, deleted.group)

    delete(brokers, deleted.topic)

    eventually("its states are gone", lambda: (deleted.group, deleted.topic_id) not in kept(brokers))
    eventually("its group has forgotten it", lambda: deleted.topic_id not in known(brokers, deleted.group))
    assert (other.group, other.topic_id) in kept(brokers)
    assert other.topic_id in known(brokers, other.group)
    assert other.fetched() == [(2, 2, 2)]


def test_who_was_away_while_a_topic_was_deleted_finds_its_states_later(brokers: ShareCluster) -> None:
    deleted, other = used(brokers), used(brokers)
    keeper = deleted.keeper()
    brokers.cluster.kill(keeper)
    eventually("somebody else is the controller", lambda: brokers.cluster.controller() != keeper)

    delete(brokers, deleted.topic, timeout_ms=1_000)
    brokers.come_back(keeper)

    eventually("its states are gone", lambda: (deleted.group, deleted.topic_id) not in kept(brokers))
    eventually("its group has forgotten it", lambda: deleted.topic_id not in known(brokers, deleted.group))
    assert (other.group, other.topic_id) in kept(brokers)
    assert other.topic_id in known(brokers, other.group)
