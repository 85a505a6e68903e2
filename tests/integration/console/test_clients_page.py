"""Who reads and who writes, in the console over kavka and Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("starlette")

from confluent_kafka import Consumer, Producer

from tests.integration.console.test_actions import KINDS, Live, brokers
from tests.kit.console_client import Page
from tests.kit.console_process import ConsoleProcess
from tests.kit.process_cluster import eventually
from tests.kit.schema_registry_server import RegistryServer

TOPIC = "orders"
PLACE = f"/c/live/topics/{TOPIC}/clients"


@pytest.fixture(scope="module", params=KINDS)
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    directory = tmp_path_factory.mktemp("clients")
    with brokers(request.param, directory) as bootstrap, RegistryServer() as registry:
        settings = f'poll_ms = 500\n[[cluster]]\nname = "live"\nbootstrap = "{bootstrap}"\n'
        with ConsoleProcess(settings, directory) as console:
            found = Live(bootstrap, console, registry)
            found.topic(TOPIC, 2)
            eventually("the console knows the topic", lambda: found.client().get(PLACE).status == 200)
            yield found
            assert not console.failures, console.failures


def test_who_reads_and_who_writes_is_told(live: Live) -> None:
    client = live.client()
    eventually("nobody has written", lambda: "No leader remembers" in client.get(PLACE).text)

    def shown(path: str, *words: str) -> Page | None:
        page = client.get(path)
        return page if all(word in page.text for word in words) else None

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
        leader = next(iter(live.topics()[TOPIC].partitions.values())).leader
        assert eventually("of a broker", lambda: shown(f"/c/live/brokers/{leader}/clients", "reader-7", "orders-"))
        transactional.commit_transaction(30)
        eventually("it is over", lambda: "open orders-1" not in client.get(PLACE).text)
    finally:
        consumer.close()
    eventually("nobody is there", lambda: shown(PLACE, "nobody is connected") or shown(PLACE, "No member of a group"))
    assert client.get(f"{PLACE}?partition=77").status == 404


def _rated(text: str) -> bool:
    """Of both producers nothing came between the last two readings, or something did."""
    return "unknown" not in text
