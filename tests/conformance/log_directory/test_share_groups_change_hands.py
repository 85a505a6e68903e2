"""Share groups in a log directory that changes hands: from Apache Kafka 4.3 to kavka, and back.

A queue of ten records: what a member accepted and rejected is done, what it gave back comes again with its count, from
either broker. Kafka's dump-log reads what kavka has written.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kavka.log.decide.checkpoint import CLEAN_SHUTDOWN
from kavka.protocol.messages import describe_share_group_offsets_request as describing
from kavka.records.builder import BatchBuilder
from tests.apache_kafka import ApacheKafka, PeerMissing, run_tool
from tests.conformance.log_directory.test_kavka_serves_kafkas_logs import copy_with_holes
from tests.kit.broker_client import BrokerClient
from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import eventually
from tests.kit.share_group import set_earliest
from tests.kit.share_member import ACCEPT, REJECT, RELEASE, ShareMember

pytestmark = [pytest.mark.kafka, pytest.mark.thorough, pytest.mark.timeout(400)]

TOPIC, GROUP = "orders", "workers"
SNAPSHOT, UPDATE = 0, 1
SHARE_GROUP_RECORDS = set(range(10, 16))
STATE_PARTITIONS = 15
"""Types of records, as their keys have them."""


def begin(port: int) -> None:
    """Ten records, of which 0 to 2 are accepted, 4 is rejected, and the others were given back."""
    with BrokerClient(port) as client:
        client.create_topic(TOPIC)
        builder = BatchBuilder()
        for number in range(10):
            builder.append(int(time.time() * 1000), None, str(number).encode())
        batch = builder.build()
        eventually("its leader is there", lambda: client.produce(TOPIC, batch).error_code == 0)
        set_earliest(client, GROUP)
    take(port, [(0, 9, 1)], (0, 2, [ACCEPT]), (4, 4, [REJECT]), (5, 6, [RELEASE]))


def take(port: int, wanted: list[tuple[int, int, int]], *told: tuple[int, int, list[int]]) -> None:
    """A member gets these records, says this of them, and gives the others back by closing its share session."""
    with BrokerClient(port) as client:
        topic_id = client.topic_id(TOPIC)
    with ShareMember(port, GROUP) as member:
        member.join_assigned(TOPIC)
        found: list[tuple[int, int, int]] = []

        def all_came() -> bool:
            found.extend(member.fetch(topic_id, wait_ms=1_000))
            return sum(last - first + 1 for first, last, _count in found) >= sum(b - a + 1 for a, b, _count in wanted)

        eventually("the records come", all_came)
        assert joined(found) == wanted
        member.epoch = -1  # The session is over after this.
        assert member.acknowledge(topic_id, *told) == 0
        member.leave()


def joined(found: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Neighbours with the same count as one, however they came."""
    whole: list[tuple[int, int, int]] = []
    for first, last, count in sorted(found):
        if whole and whole[-1][1] + 1 == first and whole[-1][2] == count:
            whole[-1] = (whole[-1][0], last, count)
        else:
            whole.append((first, last, count))
    return whole


def position(port: int) -> tuple[int, int]:
    """The start offset, and how many records are not done."""
    topic = describing.DescribeShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=[0])
    wanted = describing.DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=[topic])
    with BrokerClient(port) as client:
        answer = client.ask(describing.DescribeShareGroupOffsetsRequest(groups=[wanted]), 1)
    assert answer.groups[0].error_code == 0, answer
    partition = answer.groups[0].topics[0].partitions[0]
    return partition.start_offset, partition.lag


class Handed(NamedTuple):
    """Apache Kafka, stopped, with what it left; and kavka on a copy of that."""

    kafka: ApacheKafka
    kavka: KavkaProcess


@pytest.fixture
def handed(tmp_path: Path) -> Iterator[Handed]:
    try:
        kafka = ApacheKafka(tmp_path / "kafka", mode="kraft", heap="-Xmx512M -Xms256M")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with kafka:
        begin(kafka.port)
        assert position(kafka.port) == (3, 6)
        kafka.stop()
    logs = kafka.data_dir / "node-1"
    assert (logs / CLEAN_SHUTDOWN).exists()
    data = tmp_path / "kavka"
    data.mkdir()
    copy_with_holes(logs, data / "logs")
    with KavkaProcess(data) as broker:
        yield Handed(kafka, broker)


def test_a_group_of_kafkas_goes_on_with_kavka_and_back(handed: Handed) -> None:
    port = handed.kavka.port
    eventually("the group is there", lambda: position(port) == (3, 6))
    take(port, [(3, 3, 2), (5, 9, 2)], (3, 3, [ACCEPT]), (5, 6, [ACCEPT]))
    assert position(port) == (7, 3)
    handed.kavka.stop()
    logs = handed.kafka.data_dir / "node-1"
    shutil.rmtree(logs)
    copy_with_holes(handed.kavka.data_dir / "logs", logs)
    with handed.kafka:
        assert position(handed.kafka.port) == (7, 3)
        take(handed.kafka.port, [(7, 9, 3)], (7, 8, [ACCEPT]))
        assert position(handed.kafka.port) == (9, 1)


def test_kafkas_dump_log_reads_the_share_groups_that_kavka_wrote(tmp_path: Path) -> None:
    # So few updates to a snapshot that there are some of both.
    settings = {"share.coordinator.snapshot.update.records.per.snapshot": "2"}
    with KavkaProcess(tmp_path / "kavka", settings=settings) as broker:
        begin(broker.port)
        take(broker.port, [(3, 3, 2), (5, 9, 2)], (3, 3, [ACCEPT]), (5, 6, [ACCEPT]))
        assert broker.stop() == 0
    logs = tmp_path / "kavka" / "logs"
    try:
        states = dumped(logs, "__share_group_state", "--share-group-state-decoder")
        groups = dumped(logs, "__consumer_offsets", "--offsets-decoder")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    assert {kind for kind, _key, _value in states} == {SNAPSHOT, UPDATE}
    assert {(key["groupId"], key["partition"]) for _kind, key, _value in states} == {(GROUP, 0)}
    last = [value for kind, _key, value in states if kind == SNAPSHOT][-1]
    assert last["startOffset"] == 7
    assert last["stateBatches"] == [{"firstOffset": 7, "lastOffset": 9, "deliveryState": 0, "deliveryCount": 2}]
    assert {kind for kind, _key, _value in groups} == SHARE_GROUP_RECORDS
    assert {key["groupId"] for _kind, key, _value in groups} == {GROUP}
    known = [value for kind, _key, value in groups if kind == STATE_PARTITIONS][-1]
    assert [topic["topicName"] for topic in known["initializedTopics"]] == [TOPIC]


def dumped(logs: Path, topic: str, decoder: str) -> list[tuple[int, Any, Any]]:
    """Type, key and value (None: deleted) of all records of a topic, as dump-log reads them."""
    files = sorted(path for path in logs.glob(f"{topic}-*/*.log") if path.stat().st_size)
    printed = run_tool("kraft", "dump-log", decoder, "--files", ",".join(map(str, files)))
    records = [line for line in printed.splitlines() if line.startswith("| offset:")]
    found = []
    for line in records:
        told = re.fullmatch(r".* key: (\{.*\}) payload: (\{.*\}|<DELETE>)", line)
        assert told is not None, line
        key, value = json.loads(told[1]), None if told[2] == "<DELETE>" else json.loads(told[2])
        found.append((int(key["type"]), key["data"], None if value is None else value["data"]))
    return found
