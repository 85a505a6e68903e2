"""Who reads and who writes, in the console over kavka and Apache Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

pytest.importorskip("starlette")

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.console.test_actions import KINDS, Live, brokers
from tests.kit.console_client import ConsoleClient, Page
from tests.kit.console_process import ConsoleProcess
from tests.kit.process_cluster import eventually
from tests.kit.schema_registry_server import RegistryServer

TOPIC = "orders"
PLACE = f"/c/live/topics/{TOPIC}/clients"
SOFTWARE = "confluent-kafka-python"
KNOWN: dict[str, bool] = {}
"""By bootstrap address: whether the cluster's brokers tell their connections."""


@pytest.fixture(scope="module", params=KINDS)
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    directory = tmp_path_factory.mktemp("clients")
    with brokers(request.param, directory) as bootstrap, RegistryServer() as registry:
        settings = f'poll_ms = 500\n[[cluster]]\nname = "live"\nbootstrap = "{bootstrap}"\n'
        with ConsoleProcess(settings, directory) as console:
            found = Live(bootstrap, console, registry)
            found.topic(TOPIC, 2)
            eventually("the console knows the topic", lambda: found.client().get(PLACE).status == 200)
            KNOWN[bootstrap] = request.param == "kavka"
            yield found
            assert not console.failures, console.failures


def test_who_reads_and_who_writes_is_told(live: Live) -> None:
    client = live.client()

    def shown(path: str, *words: str) -> Page | None:
        page = client.get(path)
        return page if all(word in page.text for word in words) else None

    eventually(
        "nobody has written",
        lambda: shown(PLACE, "Nobody has written" if KNOWN[live.bootstrap] else "No leader remembers"),
    )

    plain = Producer({"bootstrap.servers": live.bootstrap, "enable.idempotence": True})
    transactional = Producer({"bootstrap.servers": live.bootstrap, "transactional.id": "pay"})
    transactional.init_transactions(30)
    transactional.begin_transaction()
    consumer = Consumer({"bootstrap.servers": live.bootstrap, "group.id": "billing", "client.id": "reader-7"})
    consumer.subscribe([TOPIC])
    try:
        for number in range(10):
            plain.produce(TOPIC, value=b"v", partition=number % 2)
        transactional.produce(TOPIC, value=b"v", partition=1)
        assert plain.flush(30) == transactional.flush(30) == 0
        eventually("joined", lambda: consumer.poll(0.2) is not None or bool(consumer.assignment()))
        page = eventually("all are told", lambda: shown(PLACE, "reader-7", "127.0.0.1", "billing", "open orders-1"))
        assert page is not None
        assert "pay" in page.text
        assert eventually("a rate needs two readings", lambda: _rated(client.get(PLACE).text.split("Who writes")[1]))
        only = eventually("of one partition", lambda: shown(f"{PLACE}?partition=0", "reader-7"))
        assert only is not None
        assert "open orders-1" not in only.text
        leader = live.topics()[TOPIC].partitions[0].leader
        assert eventually("of a broker", lambda: shown(f"/c/live/brokers/{leader}/clients", "reader-7", "orders 0"))
        transactional.commit_transaction(30)
        eventually("it is over", lambda: "open orders-1" not in client.get(PLACE).text)
    finally:
        consumer.close()
    eventually("nobody is there", lambda: "reader-7" not in client.get(PLACE).text)
    assert client.get(f"{PLACE}?partition=77").status == 404


def _rated(text: str) -> bool:
    """Of both producers nothing came between the last two readings, or something did."""
    return "unknown" not in text


def test_software_and_principal_are_told_where_brokers_tell_them(live: Live) -> None:
    client = live.client()
    settings = {"bootstrap.servers": live.bootstrap}
    producer = Producer({**settings, "client.id": "writer-3", "enable.idempotence": True})
    loose = Producer({**settings, "client.id": "loose-4"})
    alone = Consumer({**settings, "group.id": "unused", "client.id": "alone-5", "enable.auto.commit": False})
    alone.assign([TopicPartition(TOPIC, 1, 0)])
    member = Consumer({**settings, "group.id": "team", "client.id": "member-6"})
    member.subscribe([TOPIC])
    try:

        def told() -> Page | None:
            producer.produce(TOPIC, value=b"v", partition=0)
            loose.produce(TOPIC, value=b"v", partition=1)
            assert producer.flush(30) == loose.flush(30) == 0
            alone.poll(0.1)
            member.poll(0.1)
            page = client.get(PLACE)
            wanted = ["member-6"]
            if KNOWN[live.bootstrap]:
                wanted += ["writer-3", "loose-4", "alone-5", "without a group", "without idempotence"]
            return page if all(word in page.text for word in wanted) else None

        page = eventually("clients are told", told)
        if not KNOWN[live.bootstrap]:
            assert "The brokers of this cluster report neither clients' software and principals" in page.text
            assert "User:ANONYMOUS" not in page.text
            assert "loose-4" not in page.text
            return
        for name in ("writer-3", "loose-4", "alone-5", "member-6"):
            row = next(text for text in page.html.split("<tr>") if name in text)
            assert "User:ANONYMOUS" in row, row
            assert SOFTWARE in row, row
        eventually(
            "a rate in bytes", lambda: told() and re.search(r"without idempotence.*[1-9] B/s", client.get(PLACE).text)
        )
        leader = live.topics()[TOPIC].partitions[1].leader
        eventually("of a broker", lambda: "loose-4" in client.get(f"/c/live/brokers/{leader}/clients").text)
        assert "loose-4" not in client.get(f"{PLACE}?partition=0").text
        chinese = ConsoleClient(client.address, {"Accept-Language": "zh"}).get(PLACE)
        assert chinese.english() == []
    finally:
        alone.close()
        member.close()
