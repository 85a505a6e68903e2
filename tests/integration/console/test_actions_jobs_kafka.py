"""A job of the console on Apache Kafka: run, killed in the middle and gone on with, called off; leaders elected."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("starlette")

from confluent_kafka.admin import AdminClient
from test_actions_jobs import SLOW_MB, Live

from console_client import ConsoleClient
from console_process import ConsoleProcess
from process_cluster import ProcessCluster, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.thorough, pytest.mark.timeout(300)]


class OnKafka(Live):
    """The same console and questions, over processes of Apache Kafka."""

    def __init__(self, cluster: ProcessCluster, console: ConsoleProcess) -> None:
        self.processes = cluster
        self.bootstrap = cluster.bootstrap
        self.console = console
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        self.client = ConsoleClient(console.address)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnKafka]:
    directory = tmp_path_factory.mktemp("jobs")
    with ProcessCluster(
        directory / "kafka", kind="kafka", settings={"auto.leader.rebalance.enable": "false"}
    ) as cluster:
        cluster.start()
        settings = f'poll_ms = 500\n[[cluster]]\nname = "live"\nbootstrap = "{cluster.bootstrap}"\n'
        with ConsoleProcess(settings, directory / "console") as console:
            found = OnKafka(cluster, console)
            eventually("the console knows it", lambda: "127.0.0.1" in found.client.get("/c/live/brokers").text)
            yield found
            assert not console.failures, console.failures


def test_a_console_that_is_killed_in_the_middle_goes_on(live: OnKafka) -> None:
    live.topic("killed", (0, 1), partitions=2)
    path = live.run(live.plan("reassign", topics="killed", brokers="1,2", throttle=SLOW_MB))
    live.wait(path, "moving")
    eventually("it copies", lambda: any(2 in replicas for replicas in live.replicas("killed")))
    assert live.throttles("killed", brokers=(0, 1, 2))
    live.console.kill()
    live.console.start()
    assert live.wait(path, "done", timeout_s=120) == "done"
    assert all(set(replicas) == {1, 2} for replicas in live.replicas("killed"))
    assert live.throttles("killed", brokers=(0, 1, 2)) == []


def test_called_off_everything_is_as_it_was(live: OnKafka) -> None:
    live.topic("stopped", (0, 1))
    path = live.run(live.plan("reassign", topics="stopped", brokers="1,2", throttle=SLOW_MB))
    live.wait(path, "moving")
    eventually("it copies", lambda: 2 in live.replicas("stopped")[0])
    live.client.submit(live.client.get(path), "/cancel")
    live.wait(path, "cancelled")
    assert set(live.replicas("stopped")[0]) == {0, 1}
    assert live.throttles("stopped", brokers=(0, 1, 2)) == []


def test_a_broker_is_decommissioned_and_leads_no_more(live: OnKafka) -> None:
    live.topic("leaving", (0, 1), partitions=3, size=300_000)
    path = live.run(live.plan("decommission", broker="0", throttle="50"))
    live.wait(path, "done", "partial", timeout_s=120)
    assert all(0 not in replicas for replicas in live.replicas("leaving")), live.log(path)


def test_preferred_leaders_lead_again(live: OnKafka) -> None:
    live.topic("led", (2, 1), size=200_000)
    live.processes.kill(2)
    eventually("another leads", lambda: live.leaders("led") == [1])
    live.processes.start_broker(2)
    eventually("2 is in sync", lambda: 2 in live.admin.list_topics("led", timeout=10).topics["led"].partitions[0].isrs)
    live.wait(live.run(live.plan("elect", topics="led")), "done")
    assert eventually("2 leads", lambda: live.leaders("led") == [2])
