"""The page of requests: APIs with their stages, slow requests with what was waited for, throttled clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("playwright.sync_api")

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.kit.browser import barriers, chromium, page_of, too_wide_px
from tests.kit.command_line import run_alone
from tests.kit.console_client import ConsoleClient, Page
from tests.kit.console_process import ConsoleProcess
from tests.kit.kavka_process import KavkaProcess
from tests.kit.ports import free_port
from tests.kit.process_cluster import eventually

HOSTILE = "<img src=x onerror=alert(1)>"
PATH = "/c/one/requests"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KavkaProcess]:
    settings = {
        "kavka.slow.request.ms": "0",  # All are slow that took longer than that.
        "kavka.decisions.topic.enable": "true",
        "kavka.metrics.port": str(free_port()),
    }
    with KavkaProcess(tmp_path / "broker", settings=settings) as running:
        yield running


def produce(broker: KavkaProcess, client_id: str, records: int, size: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": client_id, "acks": "all"})
    for _ in range(records):
        producer.produce("orders", b"x" * size)
    assert producer.flush(30) == 0


def _page_with(client: ConsoleClient, *texts: str, query: str = "") -> Page | None:
    page = client.get(PATH + query)
    return page if all(text in page.text for text in texts) else None


def test_apis_slow_requests_and_throttled_clients_are_on_the_page(broker: KavkaProcess, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(30)
    quota = ("quotas", "set", "--client-id", "greedy", "--produce", "1000", "-b", broker.bootstrap)
    assert run_alone(*quota).returncode == 0
    produce(broker, HOSTILE, 1, 10)
    produce(broker, "greedy", 20, 1000)
    settings = f'poll_ms = 300\n[[cluster]]\nname = "one"\nbootstrap = "{broker.bootstrap}"\n'
    with ConsoleProcess(settings, tmp_path / "console") as console:
        client = ConsoleClient(console.address)
        page = eventually(
            "all is read",
            lambda: _page_with(client, "Produce", "producer_byte_rate", "orders-0@0", "What was waited for"),
        )
        assert page.status == 200
        assert "<img" not in page.html
        assert HOSTILE in page.text
        assert "greedy" in page.text
        eventually("of one API", lambda: _page_with(client, "orders-0@0", query="?api=Produce"))
        assert client.get(f"{PATH}?api=NoSuch").status == 200
        chinese = ConsoleClient(console.address, {"Accept-Language": "zh"}).get(PATH)
        assert "被限流的客户端" in chinese.text
        assert chinese.english() == []
        with chromium() as browser:
            for width, dark in ((1280, False), (390, True)):
                with page_of(browser, width=width, dark=dark) as shown:
                    shown.goto(console.address + PATH, wait_until="load")
                    assert too_wide_px(shown) <= 0
                    assert barriers(shown) == []
                    shown.screenshot(path=tmp_path / f"requests-{width}.png", full_page=True)
            with page_of(browser, language="zh-CN") as shown:
                shown.goto(console.address + PATH, wait_until="load")
                shown.screenshot(path=tmp_path / "requests-zh.png", full_page=True)
        assert not console.failures, console.failures
