"""Several clusters of one console: one that is there, one that refuses, one that takes connections and never answers;
and a console that is started again."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("starlette")

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.kit.console_client import ConsoleClient, Page
from tests.kit.console_process import ConsoleProcess
from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import eventually

PAGES = (
    "",
    "brokers",
    "topics",
    "topics/orders",
    "groups",
    "decisions",
    "durability",
    "churn",
    "jobs",
    "zookeeper",
)
SOON_S = 3.0
"""A page that waited for a cluster that is away would take as long as a request may: five seconds and more."""


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    """A port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, silent: str) -> Iterator[ConsoleProcess]:
    directory = tmp_path_factory.mktemp("several")
    with KavkaProcess(directory / "broker") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("orders", 3, 1)])["orders"].result(30)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("orders", b"value")
        assert producer.flush(30) == 0
        settings = "poll_ms = 300\n" + "".join(
            f'[[cluster]]\nname = "{name}"\nbootstrap = "{address}"\n'
            for name, address in (("live", broker.bootstrap), ("refuses", "127.0.0.1:1"), ("silent", silent))
        )
        with ConsoleProcess(settings, directory / "console") as running:
            client = ConsoleClient(running.address)
            eventually("the live one is known", lambda: client.get("/c/live/topics/orders").status == 200)
            yield running
            assert not running.failures, running.failures


def test_clusters_that_are_away_say_why_and_hold_up_nobody(console: ConsoleProcess) -> None:
    client = ConsoleClient(console.address)

    def both_say_why() -> str:
        text = client.get("/").text
        return text if "refused" in text and "within" in text else ""

    wall = eventually("both say why", both_say_why)
    assert wall.count("Connecting since") == 2
    for _ in range(3):
        for cluster in ("live", "refuses", "silent"):
            for page in PAGES:
                found = soon(client, f"/c/{cluster}/{page}")
                unknown = cluster != "live" and page == "topics/orders"
                assert found.status == (503 if unknown else 200), f"{cluster} {page}: {found.text}"
                said = "The cluster does not answer" if unknown else "Connecting to"
                assert cluster == "live" or said in found.text, f"{cluster} {page}: {found.text}"
    metrics = client.get("/metrics").html
    assert 'kavka_cluster_reachable{cluster="live"} 1' in metrics
    assert 'kavka_cluster_reachable{cluster="silent"} 0' in metrics
    assert 'kavka_health_check{cluster="refuses",check="reachable",severity="critical"} 0' in metrics


def soon(client: ConsoleClient, path: str) -> Page:
    """The page. One that waits for a cluster does so each time; a busy machine may take long over one of them."""
    for _ in range(10):
        began = time.monotonic()
        page = client.get(path)
        if time.monotonic() - began < SOON_S:
            return page
    raise AssertionError(f"{path} took {SOON_S} s each time")


@pytest.mark.thorough
def test_a_console_that_is_started_again_has_its_history_and_its_audit_log(console: ConsoleProcess) -> None:
    client = ConsoleClient(console.address)
    assert "Done." in client.do("live", "add-partitions", {"topic": "orders"}, count="5").text
    eventually("a line is drawn", lambda: re.search(r"<polyline|<path", client.get("/c/live/").html), timeout_s=60)
    console.stop()
    console.start()
    again = ConsoleClient(console.address)
    assert "Add partitions" in again.get("/audit").text
    eventually("the cluster is known again", lambda: again.get("/c/live/topics/orders").status == 200)
    assert re.search(r"<polyline|<path", again.get("/c/live/").html), "what was drawn before is drawn"
