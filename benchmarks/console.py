"""The console: how long its pages take, what it weighs, and what it costs the cluster while it is open.

    python -m benchmarks.console [--partitions 1000] [--topics 100] [--loads 30] [--writing] [--skip-throughput]

Three kavka brokers, each in a process of its own, and `kavka console` beside them. Pages are loaded one after another
over one connection, each LOADS times after one that is not counted; memory is the console's resident set at the end.
With --writing records are written to the partitions of one topic all the while, so that every reading brings changes.
Throughput: records of 1 KiB by acks=all for some seconds with the console stopped, open (a page's events read all the
time, its page loaded once a second), and stopped again, in turn.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Producer
from tests.kit.kavka_process import resident_bytes
from tests.kit.ports import free_port

from benchmarks.load_generator import run as run_load

HOST = "127.0.0.1"
START_S = 60
PAGES = ("/", "", "brokers", "brokers/1", "topics", "topics/{topic}", "groups", "decisions", "durability", "/metrics")
PER_CREATE = 100
"""Topics that one command makes."""
ROUNDS = 3
RECORDS = 150_000


class PageTimes(NamedTuple):
    """Of one page, in ms."""

    path: str
    median_ms: float
    worst_ms: float
    kilobytes: float


@contextlib.contextmanager
def process(*words: str) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    """A program of kavka's and the first line of JSON that it prints; ended by SIGTERM."""
    command = [sys.executable, "-m", "kavka.cli.main", *words, "--json", "--log-level", "error"]
    started = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert started.stdout is not None
        yield started, json.loads(started.stdout.readline())
    finally:
        started.send_signal(signal.SIGTERM)
        try:
            started.wait(30)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def make_topics(bootstrap: str, *, topics: int, partitions: int) -> None:
    """`partitions` in all, with three replicas each."""
    from kavka.cli.session import with_cluster
    from kavka.client.admin import Admin, NewTopic
    from kavka.client.cluster import Cluster

    async def create(cluster: Cluster) -> None:
        wanted = [NewTopic(f"bench-{number:04}", partitions // topics, 3) for number in range(topics)]
        for first in range(0, topics, PER_CREATE):
            failed = await Admin(cluster).create_topics(wanted[first : first + PER_CREATE])
            if failed:
                raise RuntimeError(str(failed))

    with_cluster(bootstrap, create, patience_ms=120_000)


def load_page(connection: http.client.HTTPConnection, path: str) -> tuple[float, int]:
    """Milliseconds and bytes. Raises RuntimeError for an answer that is no page."""
    began = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    took_ms = (time.perf_counter() - began) * 1000
    if answer.status != 200:
        raise RuntimeError(f"{path} answers {answer.status}: {body[:200]!r}")
    return took_ms, len(body)


def page_times(port: int, topic: str, loads: int) -> list[PageTimes]:
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    found = []
    for page in PAGES:
        path = page if page.startswith("/") else f"/c/local/{page.format(topic=topic)}"
        load_page(connection, path)
        taken = [load_page(connection, path) for _ in range(loads)]
        times = [took for took, _ in taken]
        found.append(PageTimes(path, statistics.median(times), max(times), taken[-1][1] / 1024))
    return found


def await_console(port: int, partitions: int) -> float:
    """Seconds until the console knows that many partitions, with their offsets and settings."""
    began = time.monotonic()
    while time.monotonic() < began + START_S:
        connection = http.client.HTTPConnection(HOST, port, timeout=30)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        except OSError:
            time.sleep(0.2)
            continue
        known = sum(line.startswith("kafka_topic_partition_current_offset{") for line in text.splitlines())
        if known >= partitions and 'check="below-min-isr"' in text:
            return time.monotonic() - began
        time.sleep(0.2)
    raise RuntimeError(f"the console does not know {partitions} partitions after {START_S} s")


def watch_like_a_reader(port: int, ended: threading.Event) -> None:
    """An open page: its events are read all the time, the page is loaded again once a second."""
    events = http.client.HTTPConnection(HOST, port, timeout=30)
    events.request("GET", "/c/local/live")
    stream = events.getresponse()
    reading = threading.Thread(target=lambda: _drain(stream), daemon=True)
    reading.start()
    pages = http.client.HTTPConnection(HOST, port, timeout=30)
    while not ended.wait(1.0):
        load_page(pages, "/c/local/topics")
    events.close()


def _drain(stream: http.client.HTTPResponse) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError, http.client.HTTPException):  # closed under it
        while stream.read1(65_536):
            pass


@contextlib.contextmanager
def written_to(bootstrap: str, topic: str) -> Iterator[None]:
    """A thousand records a second, spread over the topic's partitions."""
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "random", "sticky.partitioning.linger.ms": "0"})
    ended = threading.Event()

    def write() -> None:
        while not ended.wait(0.1):
            for _ in range(100):
                producer.produce(topic, b"x" * 100)
            producer.poll(0)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()
        producer.flush(30)


def throughput(bootstrap: str, console_words: Sequence[str], port: int, partitions: int) -> dict[str, list[float]]:
    """MB/s without the console and with it open, ROUNDS times in turn."""
    found: dict[str, list[float]] = {"closed": [], "open": []}
    for _ in range(ROUNDS):
        found["closed"].append(produce(bootstrap))
        with process(*console_words):
            await_console(port, partitions)
            ended = threading.Event()
            reader = threading.Thread(target=watch_like_a_reader, args=(port, ended))
            reader.start()
            found["open"].append(produce(bootstrap))
            ended.set()
            reader.join()
    return found


def produce(bootstrap: str) -> float:
    """MB/s of records of 1 KiB, acks=all."""
    settings = {"acks": "all", "linger.ms": "5"}
    loaded = run_load("produce", bootstrap, "bench-0000", RECORDS, size=1024, warm=5_000, settings=settings)
    return loaded.bytes / 1e6 / loaded.seconds


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--partitions", type=int, default=1_000)
    options.add_argument("--topics", type=int, default=100)
    options.add_argument("--loads", type=int, default=30)
    options.add_argument("--writing", action="store_true")
    options.add_argument("--skip-throughput", action="store_true")
    asked = options.parse_args()
    port, console_port = free_port(following=[1, 2]), free_port()
    with tempfile.TemporaryDirectory() as directory:
        up = ("up", "--brokers", "3", "--processes", "--port", str(port), "--data", f"{directory}/data")
        with process(*up) as (_, ready):
            bootstrap = ready["bootstrap"]
            make_topics(bootstrap, topics=asked.topics, partitions=asked.partitions)
            words = ("console", "--bootstrap", bootstrap, "--port", str(console_port), "--data", f"{directory}/console")
            with process(*words) as (console, _):
                known_s = await_console(console_port, asked.partitions)
                with written_to(bootstrap, "bench-0000") if asked.writing else contextlib.nullcontext():
                    times = page_times(console_port, "bench-0000", asked.loads)
                resident_mb = resident_bytes(console.pid) / 1e6
            print(f"{asked.partitions} partitions known after {known_s:.1f} s, {resident_mb:.0f} MB resident")
            for each in times:
                print(
                    f"{each.path:32} median {each.median_ms:7.1f} ms  worst {each.worst_ms:7.1f} ms  "
                    f"{each.kilobytes:7.1f} KiB"
                )
            if not asked.skip_throughput:
                rates = throughput(bootstrap, words, console_port, asked.partitions)
                for name, values in rates.items():
                    print(
                        f"console {name:6} {statistics.median(values):7.1f} MB/s  {[round(value) for value in values]}"
                    )


if __name__ == "__main__":
    main()
