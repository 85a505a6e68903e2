"""The lag that DescribeShareGroupOffsets tells is that of who counts: members accept, reject and give back at random,
and after each round the lag is the number of records that are not done, within a second. On Apache Kafka 4.3, too.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator
from typing import Final

import pytest

from kavka.protocol.messages import describe_share_group_offsets_request as describing
from kavka.records.builder import BatchBuilder
from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.kit.broker_client import BrokerClient
from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import eventually
from tests.kit.share_group import set_earliest
from tests.kit.share_member import ACCEPT, REJECT, RELEASE, ShareMember

ROUNDS: Final = 25
QUIET_S: Final = 1.0


@pytest.fixture(params=["kavka", pytest.param("kafka-4.3", marks=[pytest.mark.kafka, pytest.mark.thorough])])
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    place = tmp_path_factory.mktemp("lag")
    if request.param == "kavka":
        with KavkaProcess(place / "data") as broker:
            yield broker.port
        return
    try:
        kafka = ApacheKafka(place / "kraft", mode="kraft", heap="-Xmx512M -Xms256M")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with kafka:
        yield kafka.port


def produced(client: BrokerClient, topic: str, count: int) -> None:
    builder = BatchBuilder()
    for number in range(count):
        builder.append(int(time.time() * 1000), None, str(number).encode())
    batch = builder.build()
    eventually("its leader is there", lambda: client.produce(topic, batch).error_code == 0)


def lag(client: BrokerClient, group: str, topic: str) -> int:
    listed = describing.DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[0])
    asked = describing.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=[listed])
    answer = client.ask(describing.DescribeShareGroupOffsetsRequest(groups=[asked]), 1)
    return int(answer.groups[0].topics[0].partitions[0].lag)


def test_the_lag_is_what_is_not_done(port: int) -> None:
    rng = random.Random(1226)
    group = f"counted-{uuid.uuid4().hex}"
    with BrokerClient(port) as client, ShareMember(port, group) as member:
        topic = client.create_topic(f"counted-{uuid.uuid4().hex}")
        produced(client, topic, 20)
        set_earliest(client, group)
        member.join_assigned(topic)
        topic_id = client.topic_id(topic)
        left = 20
        for _ in range(ROUNDS):
            if rng.random() < 0.5:
                more = rng.randint(1, 30)
                produced(client, topic, more)
                left += more
            told: list[tuple[int, int, list[int]]] = []
            for first, last, count in member.fetch(topic_id, wait_ms=1_000, max_records=rng.randint(1, 40)):
                kinds = rng.choices((ACCEPT, REJECT, RELEASE), (6, 1, 2), k=last - first + 1)
                told.append((first, last, kinds))
                # At its fifth delivery a record that is given back is archived, too.
                left -= sum(kind != RELEASE or count >= 5 for kind in kinds)
            if told:
                assert member.acknowledge(topic_id, *told) == 0
            quiet = time.monotonic()
            while (found := lag(client, group, topic)) != left and time.monotonic() - quiet < QUIET_S:
                time.sleep(0.02)
            assert found == left
            assert member.beat().error_code == 0
