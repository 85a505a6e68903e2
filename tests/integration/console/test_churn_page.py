"""The page of churn: without the pipeline's topic it says how to have one; with it, it shows what stands there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.kit.console_client import ConsoleClient, Page
from tests.kit.console_process import ConsoleProcess
from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import eventually

ROW = {
    "window_start": "2026-11-21T12:00:00.000Z",
    "window_end": "2026-11-21T12:01:00.000Z",
    "broker": 2,
    "topic": "orders",
    "cause": "lag: stuck",
    "shrinks": 3,
    "expansions": 2,
    "elections": 0,
    "last_why": "<script>alert(1)</script> replicas [2] fell behind",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KavkaProcess]:
    with KavkaProcess(tmp_path / "broker") as running:
        yield running


def _page_with(client: ConsoleClient, text: str) -> Page | None:
    page = client.get("/c/one/churn")
    return page if text in page.text else None


def test_what_the_pipeline_wrote_is_on_the_page(broker: KavkaProcess, tmp_path: Path) -> None:
    settings = f'poll_ms = 300\n[[cluster]]\nname = "one"\nbootstrap = "{broker.bootstrap}"\n'
    with ConsoleProcess(settings, tmp_path / "console") as console:
        client = ConsoleClient(console.address)
        missing = eventually("the cluster is read", lambda: _page_with(client, "There is no topic isr-churn"))
        assert "kavka pipeline init churn --example isr-churn" in missing.text

        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("isr-churn", 2, 1)])["isr-churn"].result(30)
        eventually("the topic is there", lambda: _page_with(client, "No window is complete yet"))

        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number, value in enumerate([json.dumps(ROW), json.dumps({**ROW, "broker": 1, "shrinks": 40}), "nonsense"]):
            producer.produce("isr-churn", value, partition=number % 2)
        assert producer.flush(30) == 0
        page = eventually("all is read", lambda: _page_with(client, "1 record of the topic is not a window"))
        assert page.status == 200
        rows = page.text
        assert rows.index("broker 1 lag: stuck 40 2 0 1") < rows.index("broker 2 lag: stuck 3 2 0 1")
        assert "replicas [2] fell behind" in rows
        assert "<script>alert" not in page.html
        assert "落后：停滞" in ConsoleClient(console.address, {"Accept-Language": "zh"}).get("/c/one/churn").text
        assert "There is no topic other" in client.get("/c/one/churn?topic=other").text
        assert client.get("/c/one/decisions").html.count("/c/one/churn") == 1
        assert not console.failures, console.failures
