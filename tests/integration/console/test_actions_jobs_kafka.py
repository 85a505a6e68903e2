"""Jobs of the console on Apache Kafka 3.9 and 4: run, gone on with after a kill, called off; leaders elected."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

pytest.importorskip("starlette")

from confluent_kafka.admin import AdminClient

from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.integration.console.test_actions_jobs import SLOW_MB, Live
from tests.kit.console_client import ConsoleClient
from tests.kit.console_process import ConsoleProcess
from tests.kit.process_cluster import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.thorough, pytest.mark.timeout(300)]

HEAP = "-Xmx256M -Xms128M"
BROKERS = (1, 2, 3)


class OnKafka(Live):
    """The same console and questions, over processes of Apache Kafka."""

    def __init__(self, kafka: ApacheKafka, console: ConsoleProcess) -> None:
        self.kafka = kafka
        self.bootstrap = kafka.bootstrap
        self.console = console
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        self.client = ConsoleClient(console.address)

    def kill(self, broker: int) -> None:
        os.kill(int((self.kafka.data_dir / f"broker-{broker}.pid").read_text()), signal.SIGKILL)

    def in_sync(self, topic: str) -> list[int]:
        return self.admin.list_topics(topic, timeout=10).topics[topic].partitions[0].isrs


@pytest.fixture(scope="module", params=["zk", "kraft"])
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnKafka]:
    directory = tmp_path_factory.mktemp("jobs")
    settings = {"auto.leader.rebalance.enable": "false", "auto.create.topics.enable": "false"}
    try:
        kafka = ApacheKafka(directory / "kafka", mode=request.param, brokers=3, settings=settings, heap=HEAP)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with kafka:
        settings_file = f'poll_ms = 500\n[[cluster]]\nname = "live"\nbootstrap = "{kafka.bootstrap}"\n'
        with ConsoleProcess(settings_file, directory / "console") as console:
            found = OnKafka(kafka, console)
            eventually("the console knows it", lambda: found.client.get("/c/live/do/create-topic").status == 200)
            yield found
            assert not console.failures, console.failures


def test_a_console_that_is_killed_in_the_middle_goes_on(live: OnKafka) -> None:
    live.topic("killed", (1, 2), partitions=2)
    path = live.run(live.plan("reassign", topics="killed", brokers="2,3", throttle=SLOW_MB))
    live.wait(path, "moving")
    eventually("it copies", lambda: any(3 in replicas for replicas in live.replicas("killed")))
    assert live.throttles("killed", brokers=BROKERS)
    live.console.kill()
    live.console.start()
    assert live.wait(path, "done", timeout_s=120) == "done"
    assert all(set(replicas) == {2, 3} for replicas in live.replicas("killed"))
    assert live.throttles("killed", brokers=BROKERS) == []


def test_called_off_everything_is_as_it_was(live: OnKafka) -> None:
    live.topic("stopped", (1, 2))
    path = live.run(live.plan("reassign", topics="stopped", brokers="2,3", throttle=SLOW_MB))
    live.wait(path, "moving")
    eventually("it copies", lambda: 3 in live.replicas("stopped")[0])
    live.client.submit(live.client.get(path), "/cancel")
    live.wait(path, "cancelled")
    assert set(live.replicas("stopped")[0]) == {1, 2}
    assert live.throttles("stopped", brokers=BROKERS) == []


def test_replicas_are_added_and_taken_away(live: OnKafka) -> None:
    live.topic("grown", (1, 2), size=300_000)
    for factor in (3, 1):
        path = live.run(live.plan("replication-factor", topics="grown", factor=str(factor)))
        live.wait(path, "done", timeout_s=120)
        assert [len(replicas) for replicas in live.replicas("grown")] == [factor]


def test_a_broker_is_decommissioned_and_leads_no_more(live: OnKafka) -> None:
    live.topic("leaving", (1, 2), partitions=3, size=300_000)
    path = live.run(live.plan("decommission", broker="1", throttle="50"))
    live.wait(path, "done", "partial", timeout_s=120)
    assert all(1 not in replicas for replicas in live.replicas("leaving")), live.log(path)


def test_preferred_leaders_lead_again(live: OnKafka) -> None:
    live.topic("led", (3, 2), size=200_000)
    live.kill(3)
    eventually("another leads", lambda: live.leaders("led") == [2])
    live.kafka.start_node("broker-3")
    eventually("3 is in sync", lambda: 3 in live.in_sync("led"), timeout_s=60)
    live.wait(live.run(live.plan("elect", topics="led")), "done")
    assert eventually("3 leads", lambda: live.leaders("led") == [3])
