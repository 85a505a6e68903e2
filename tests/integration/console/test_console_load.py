"""The console under many visitors at once: open tabs, abandoned searches, half-sent bodies. Pages answer meanwhile.

A tenth of what it is to bear; KAVKA_CONSOLE_LOAD=1 (`make bench-console`) is all of it: 500 tabs of one visitor, 200
visitors, 50 of them at a time and without a pause between pages, 100 abandoned searches, 40 slow bodies. How long pages
take counts where the load is asked for by name, on a machine that has no other work.

Of tabs that each hold a stream of their own, 100 of one visitor are served (a browser's tabs share one); the others are
told to come back.
"""

from __future__ import annotations

import os
import socket
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.console.access.guard import BODY_S
from kavka.console.live_events import MAX_STREAMS_OF_ONE
from tests.kit.console_client import ConsoleClient
from tests.kit.console_process import ConsoleProcess
from tests.kit.kavka_process import KavkaProcess, cpu_seconds
from tests.kit.process_cluster import eventually

pytestmark = pytest.mark.thorough
ASKED_FOR = os.environ.get("KAVKA_CONSOLE_LOAD", "")
SHARE = float(ASKED_FOR or "0.1")
TABS, VISITORS, SEARCHES, BODIES = (max(1, round(SHARE * whole)) for whole in (500, 200, 100, 40))
MOST_MIB = 200
MEDIAN_S = 0.5
PAGES = ("/", "/c/live/", "/c/live/topics", "/c/live/topics/orders", "/c/live/brokers", "/c/live/groups")


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    directory = tmp_path_factory.mktemp("load")
    with KavkaProcess(directory / "broker") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("orders", 6, 1)])["orders"].result(30)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(30_000):
            producer.produce("orders", key=f"k{number}", value=f'{{"total": {number}}}')
            producer.poll(0)
        assert producer.flush(60) == 0
        settings = f'poll_ms = 500\n[[cluster]]\nname = "live"\nbootstrap = "{broker.bootstrap}"\n'
        with ConsoleProcess(settings, directory / "console") as found:
            client = ConsoleClient(found.address)
            eventually("the topic", lambda: "orders" in client.get("/c/live/topics").text)
            yield found
            assert not found.failures, found.failures


def begin(console: ConsoleProcess, request: str, stack: ExitStack) -> socket.socket:
    """Sends the beginning of a request, and leaves the connection open until the stack ends."""
    wire = stack.enter_context(socket.create_connection(("127.0.0.1", console.port), timeout=60))
    wire.sendall(f"{request}\r\nHost: 127.0.0.1:{console.port}\r\n".encode())
    return wire


def statuses(wires: list[socket.socket]) -> Counter[str]:
    """How many were answered with which status."""
    return Counter(wire.recv(12).decode()[-3:] for wire in wires)


def is_waiting(wire: socket.socket) -> bool:
    """Whether neither an answer nor an end came."""
    wire.setblocking(False)
    try:
        wire.recv(1)
    except BlockingIOError:
        return True
    return False


def memory_mib(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def test_pages_answer_under_tabs_visitors_abandoned_searches_and_slow_bodies(console: ConsoleProcess) -> None:
    cookie = "Cookie: kavka_zone=Europe%2FBerlin"
    with ExitStack() as stack:
        tabs = [begin(console, "GET /c/live/live HTTP/1.1", stack) for _ in range(TABS)]
        for tab in tabs:
            tab.sendall(f"Accept: text/event-stream\r\n{cookie}\r\n\r\n".encode())
        bodies = [begin(console, "POST /c/live/do/produce HTTP/1.1", stack) for _ in range(BODIES)]
        for body in bodies:
            body.sendall(
                b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 4000000\r\n\r\n" + b"a=" * 500_000
            )
        search = "GET /c/live/topics/orders/messages?start=oldest&value=nowhere&n=200 HTTP/1.1"
        for _ in range(SEARCHES):
            with ExitStack() as gone:
                begin(console, search, gone).sendall(b"\r\n")

        def visit(number: int) -> list[float]:
            client, took = ConsoleClient(console.address), []
            for page in PAGES:
                began = time.monotonic()
                assert client.get(page).status == 200
                took.append(time.monotonic() - began)
            return took

        began, used = time.monotonic(), sum(cpu_seconds(console.pid))
        with ThreadPoolExecutor(min(VISITORS, 50)) as visitors:
            times = sorted(each for took in visitors.map(visit, range(VISITORS)) for each in took)
        took_s, used = time.monotonic() - began, sum(cpu_seconds(console.pid)) - used
        median, memory = statistics.median(times), memory_mib(console.pid)
        answers, waiting = statuses(tabs), sum(map(is_waiting, bodies))
    print(  # -s shows it
        f"\n{len(times)} pages in {took_s:.1f} s: {median:.3f} s at the median, {times[len(times) * 95 // 100]:.3f} s "
        f"at the 95th percentile, {times[-1]:.3f} s at most; {used:.1f} s of a processor. {memory:.0f} MiB. Tabs "
        f"served: {answers['200']} of {TABS}, asked to come back: {answers['503']}. Slow bodies held: {waiting}"
    )
    served = min(TABS, MAX_STREAMS_OF_ONE)
    assert (answers["200"], answers["503"]) == (served, TABS - served)
    if took_s < BODY_S:
        assert waiting == BODIES, "none of them was taken for a whole one"
    assert memory < MOST_MIB
    if ASKED_FOR:
        assert median < MEDIAN_S


def test_a_search_answers_at_once_after_all_that(console: ConsoleProcess) -> None:
    client = ConsoleClient(console.address)
    eventually(
        "a search has its turn",
        lambda: client.get("/c/live/topics/orders/messages?n=5").status == 200,
        timeout_s=30.0,
    )
