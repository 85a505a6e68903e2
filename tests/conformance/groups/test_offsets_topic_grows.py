"""What becomes of committed offsets when `__consumer_offsets` is given more partitions, and brokers are restarted.

Apache Kafka 4.3 does it, and finds the offsets of few groups after its next start: they are placed by the number of
partitions. kavka refuses it, and goes on with the number that there was.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from kavka.errors import ErrorCode
from kavka.protocol import messages as m
from kavka.protocol.messages.create_partitions_request import CreatePartitionsTopic
from kavka.protocol.messages.create_topics_request import CreatableTopic
from kavka.protocol.messages.offset_commit_request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kavka.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.apache_kafka import ApacheKafka
from tests.kit.broker_client import BrokerClient
from tests.kit.kavka_process import KavkaProcess

pytestmark = pytest.mark.kafka

TOPIC = "orders"
COORDINATORS_TOPICS = ("__consumer_offsets", "__transaction_state")
GROUPS = [f"group-{number}" for number in range(20)]
SETTLE_S = 60.0
COMMIT, FETCH, GROW, FIND, INIT = 8, 8, 3, 3, 4


class Found(NamedTuple):
    grown: dict[str, str]
    """What each of the topics was answered."""
    kept: int
    """Groups whose offset is there while the broker goes on."""
    kept_after_a_start: int


def until(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SETTLE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def prepare(client: BrokerClient) -> None:
    """Offsets of all groups are committed, and there are transactional ids."""
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    client.ask(m.CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
    for number, group in enumerate(GROUPS):
        until("groups are served", lambda group=group, number=number: commit(client, group, number))
    begin = m.InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=10_000)
    find = m.FindCoordinatorRequest(key="tx", key_type=1)
    until("transactions are", lambda: not (client.ask(find, FIND).error_code or client.ask(begin, INIT).error_code))


def commit(client: BrokerClient, group: str, offset: int) -> bool:
    if client.ask(m.FindCoordinatorRequest(key=group, key_type=0), FIND).error_code:
        return False
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    request = m.OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=[topic])
    return not client.ask(request, COMMIT).topics[0].partitions[0].error_code


def grow(client: BrokerClient) -> dict[str, str]:
    topics = [CreatePartitionsTopic(name=name, count=61, assignments=None) for name in COORDINATORS_TOPICS]
    answer = client.ask(m.CreatePartitionsRequest(topics=topics, timeout_ms=30_000, validate_only=False), GROW)
    return {result.name: ErrorCode(result.error_code).name for result in answer.results}


def kept(client: BrokerClient) -> int:
    """How many groups have their offset."""
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
    request = m.OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics) for group in GROUPS])
    answers = []

    def served() -> bool:
        answers[:] = client.ask(request, FETCH).groups
        return not any(answer.error_code for answer in answers)

    until("all groups are served", served)
    offsets = {answer.group_id: answer.topics[0].partitions[0].committed_offset for answer in answers}
    return sum(offsets[group] == number for number, group in enumerate(GROUPS))


def play(port: int, restart: Callable[[], None]) -> Found:
    with BrokerClient(port, timeout_s=30) as client:
        prepare(client)
        grown = grow(client)
        alive = kept(client)
    restart()
    with BrokerClient(port, timeout_s=30) as client:
        return Found(grown, alive, kept(client))


def test_kavka_keeps_what_was_committed(tmp_path: Path) -> None:
    with KavkaProcess(tmp_path / "data") as broker:

        def restart() -> None:
            broker.stop()
            broker.start()

        found = play(broker.port, restart)
    assert found == Found(dict.fromkeys(COORDINATORS_TOPICS, "INVALID_PARTITIONS"), len(GROUPS), len(GROUPS))


@pytest.mark.thorough
def test_apache_kafka_does_not(tmp_path: Path) -> None:
    with ApacheKafka(tmp_path / "kraft", mode="kraft", heap="-Xmx512M -Xms256M") as broker:

        def restart() -> None:
            broker.stop()
            broker.start()

        found = play(broker.port, restart)
    assert found.grown == dict.fromkeys(COORDINATORS_TOPICS, "NONE")
    assert found.kept_after_a_start < len(GROUPS) / 2
