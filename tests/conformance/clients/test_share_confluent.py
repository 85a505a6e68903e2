"""librdkafka's ShareConsumer (confluent-kafka 2.16, a preview): two members of one group do each record once, give some
back, and reject one. It runs on Apache Kafka too, which shows that it asks for what Kafka does."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from tests.conformance.clients.share_brokers import SHARE_BROKERS, serving

RECORDS = 60
PATIENCE_S = 60.0
REJECTED, RELEASED_ONCE = 7, range(0, RECORDS, 10)

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(not hasattr(confluent_kafka, "ShareConsumer"), reason="confluent-kafka has no ShareConsumer"),
]


def prepared(bootstrap: str) -> tuple[str, str]:
    """A topic of three partitions with numbered records, and a group that begins at the first."""
    topic, group = f"jobs-{uuid.uuid4().hex}", f"workers-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(timeout=30)
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(timeout=30)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, str(number).encode(), partition=number % 3)
    assert producer.flush(30) == 0
    return topic, group


def member(bootstrap: str, group: str, topic: str) -> Any:
    consumer = confluent_kafka.ShareConsumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"}
    )
    consumer.subscribe([topic])
    return consumer


def work(bootstrap: str) -> None:
    kinds = confluent_kafka.AcknowledgeType
    topic, group = prepared(bootstrap)
    members = [member(bootstrap, group, topic) for _ in range(2)]
    delivered: Counter[int] = Counter()
    accepted: Counter[int] = Counter()
    wanted = RECORDS - 1
    deadline = time.monotonic() + PATIENCE_S
    while len(accepted) < wanted and time.monotonic() < deadline:
        for consumer in members:
            for message in consumer.poll(0.2):
                assert message.error() is None, message.error()
                number = int(message.value())
                delivered[number] += 1
                kind = kinds.ACCEPT
                if number == REJECTED:
                    kind = kinds.REJECT
                elif number in RELEASED_ONCE and delivered[number] == 1:
                    kind = kinds.RELEASE
                else:
                    accepted[number] += 1
                consumer.acknowledge(message, kind)
            failures = [error for error in (consumer.commit_sync(10) or {}).values() if error is not None]
            assert failures == []
    assert set(accepted) == set(range(RECORDS)) - {REJECTED}
    assert set(accepted.values()) == {1}, "nothing that was accepted came again"
    assert [delivered[number] for number in RELEASED_ONCE] == [2] * len(RELEASED_ONCE)
    assert delivered[REJECTED] == 1
    for consumer in members:
        consumer.close()


@pytest.mark.parametrize("brokers", SHARE_BROKERS)
def test_two_members(brokers: str, tmp_path: Path) -> None:
    with serving(brokers, tmp_path) as bootstrap:
        work(bootstrap)
