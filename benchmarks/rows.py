"""Rows: what is measured. A group is one life of a broker on a fresh directory; it yields one measurement per row.

The groups are what is interleaved (A B A B): each round gives every candidate a new process, warmed up by the same
load, so that neither a just-in-time compiler nor a drifting machine favours one of them.
"""

from __future__ import annotations

import re
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]  # exported in fact
from tests.apache_kafka import run_tool
from tests.kit.kavka_process import CpuSeconds

from benchmarks import load_generator
from benchmarks.candidates import Candidate
from benchmarks.tls_listener import TlsListener

PARTITIONS = 1000
IDLE_S = 5.0
HANDSHAKES_S = 6.0
HANDSHAKE_CLIENTS = 8

# Batch format v2: length, attributes, deltas, key and value lengths and header count, each a byte or two.
BYTES_OF_A_RECORD_BESIDE_ITS_VALUE = 10
# What the load generator takes for its queue and the sockets for theirs, which comes out of the same memory.
CLIENT_BYTES = 400 * 2**20
TOUCH_STEP_BYTES = 2**24

PRODUCE = {"linger.ms": "5", "queue.buffering.max.messages": "500000", "delivery.report.only.error": "true"}
# Without it librdkafka waits a second whenever its own queue is full, and its queue is what gets measured.
CONSUME = {"fetch.queue.backoff.ms": "5"}
ONE_AT_A_TIME = {"linger.ms": "0", "socket.nagle.disable": "true"}
SMALL_REQUESTS = {
    **ONE_AT_A_TIME,
    "batch.num.messages": "1",
    "max.in.flight.requests.per.connection": "50",
    "queue.buffering.max.messages": "500000",
    "delivery.report.only.error": "true",
}


class Sizes(NamedTuple):
    """How many operations each row does."""

    records_100: int = 3_000_000
    records_1k: int = 500_000
    small_requests: int = 60_000
    latencies: int = 10_000
    java_records: int = 200_000
    share_records: int = 300_000
    share_latencies: int = 2_000

    def divided(self, divisor: int) -> Sizes:
        return Sizes(*(count // divisor for count in self))


class Measurement(NamedTuple):
    """One row of one life of a broker: figures by name; a name ends in its unit."""

    row: str
    figures: dict[str, float]


class Life(NamedTuple):
    """A candidate that runs in a directory, with what its start cost."""

    candidate: Candidate
    directory: Path
    first_answer_s: float
    sizes: Sizes
    tls: TlsListener | None = None
    """Its listener with TLS, in groups that want one."""


Group = Callable[[Life], Iterator[Measurement]]


def live(candidate: Candidate, directory: Path, group: Group, sizes: Sizes) -> Iterator[Measurement]:
    """Start the candidate on a fresh directory, measure a group, end it."""
    tls = TlsListener(directory / "tls") if group is under_tls else None
    try:
        first_answer_s = candidate.start(directory, tls)
        yield from group(Life(candidate, directory, first_answer_s, sizes, tls))
    finally:
        candidate.stop()


def startup(life: Life) -> Iterator[Measurement]:
    """Launch to the first Metadata answer; then what a broker costs that has nothing to do."""
    broker = life.candidate
    at_ready = sum(broker.cpu_seconds())
    yield Measurement("startup", {"first_answer_s": life.first_answer_s, "broker_cpu_s": at_ready})
    time.sleep(IDLE_S)
    before = sum(broker.cpu_seconds())
    time.sleep(IDLE_S)
    idle_percent = (sum(broker.cpu_seconds()) - before) / IDLE_S * 100
    yield Measurement("idle", {"resident_mb": broker.resident_bytes() / 2**20, "cpu_percent": idle_percent})


def throughput(life: Life) -> Iterator[Measurement]:
    """Produce and consume in librdkafka's default batches, and the memory that the broker holds afterwards."""
    sizes = life.sizes
    shapes = [("100b", 100, sizes.records_100), ("1k", 1024, sizes.records_1k)]
    for label, size, records in shapes:
        topic = new_topic(life, f"warm-{label}")
        for acks in ("1", "all"):
            load_generator.run(
                "produce", life.candidate.bootstrap, topic, records // 3, size=size, settings={**PRODUCE, "acks": acks}
            )
        load_generator.run("consume", life.candidate.bootstrap, topic, records // 3, settings=CONSUME)
    for label, size, records in shapes:
        for acks in ("1", "all"):
            topic = new_topic(life, f"produce-{label}-acks-{acks}")
            settings = {**PRODUCE, "acks": acks}
            yield _measured(life, f"produce_{label}_acks_{acks}", "produce", topic, records, size, settings)
        yield _measured(life, f"consume_{label}", "consume", topic, records, size, CONSUME)
    yield Measurement("after_load", {"resident_mb": life.candidate.resident_bytes() / 2**20})


def small(life: Life) -> Iterator[Measurement]:
    """Requests of one record, 50 in flight."""
    settings = {**SMALL_REQUESTS, "acks": "1"}
    topic, requests = new_topic(life, "small"), life.sizes.small_requests
    load_generator.run("produce", life.candidate.bootstrap, topic, requests // 2, settings=settings)
    yield _measured(life, "small_requests", "produce", topic, requests, 100, settings)


def latency(life: Life) -> Iterator[Measurement]:
    """One record at a time: until it is acknowledged, and until a consumer has it."""
    settings, operations = {**ONE_AT_A_TIME, "acks": "1"}, life.sizes.latencies
    for row, what in (("latency_acks_1", "latency"), ("latency_end_to_end", "endtoend")):
        topic = new_topic(life, row)
        load_generator.run(what, life.candidate.bootstrap, topic, operations // 2, settings=settings)
        yield _measured(life, row, what, topic, operations, 100, settings)


def partitions(life: Life) -> Iterator[Measurement]:
    """A topic of 1,000 partitions: until CreateTopics is answered, until every log answers ListOffsets; its memory."""
    broker = life.candidate
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.describe_cluster(request_timeout=10).result()  # connected, before the clock starts
    time.sleep(2)
    memory, cpu = broker.resident_bytes(), broker.cpu_seconds()
    started_at = time.perf_counter()
    admin.create_topics([NewTopic("many", PARTITIONS, 1)], operation_timeout=60, request_timeout=60)["many"].result()
    answered_s = time.perf_counter() - started_at
    while not _every_log_answers(admin, "many"):
        if time.perf_counter() - started_at > 90:
            raise load_generator.LoadFailed(f"not all {PARTITIONS} logs answered ListOffsets in 90 s")
        time.sleep(0.02)
    usable_s = time.perf_counter() - started_at
    time.sleep(2)
    used = broker.cpu_seconds() - cpu
    figures = {
        "answered_s": answered_s,
        "every_log_answers_s": usable_s,
        "kb_per_partition": (broker.resident_bytes() - memory) / 1024 / PARTITIONS,
        "broker_user_s": used.user,
        "broker_system_s": used.system,
    }
    yield Measurement("partitions_1000", figures)


def _every_log_answers(admin: AdminClient, topic: str) -> bool:
    specification = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the package has no types here
    latest = {TopicPartition(topic, partition): specification for partition in range(PARTITIONS)}
    return all(future.exception() is None for future in admin.list_offsets(latest, request_timeout=30).values())


def java(life: Life) -> Iterator[Measurement]:
    """Kafka's own ProducerPerformance with its 16 KiB batches: many more requests for the same bytes."""
    topic, records = new_topic(life, "java"), life.sizes.java_records
    _java_produce(life, topic, records // 2)
    before, client_before = life.candidate.cpu_seconds(), resource.getrusage(resource.RUSAGE_CHILDREN)
    megabytes_per_s = _java_produce(life, topic, records)
    used, client = life.candidate.cpu_seconds() - before, resource.getrusage(resource.RUSAGE_CHILDREN)
    # The client's includes the start of its virtual machine.
    client_used = CpuSeconds(client.ru_utime - client_before.ru_utime, client.ru_stime - client_before.ru_stime)
    figures = {"megabytes_per_s": megabytes_per_s, **cpu_per_million(used, client_used, records, records)}
    yield Measurement("produce_1k_acks_all_java", figures)


def under_tls(life: Life) -> Iterator[Measurement]:
    """The loads of other groups under TLS, small ones in clear besides in the same life; and handshakes alone."""
    assert life.tls is not None
    sizes, bootstrap, own = life.sizes, life.candidate.bootstrap, life.tls.of_client()
    size, records, requests = 1024, sizes.records_1k, sizes.small_requests
    produce, consume = {**PRODUCE, **own, "acks": "1"}, {**CONSUME, **own}
    topic = new_topic(life, "warm")
    load_generator.run("produce", bootstrap, topic, records // 3, size=size, settings=produce)
    load_generator.run("consume", bootstrap, topic, records // 3, settings=consume)
    topic = new_topic(life, "tls-1k")
    yield _measured(life, "tls_produce_1k", "produce", topic, records, size, produce)
    yield _measured(life, "tls_consume_1k", "consume", topic, records, size, consume)
    clear = {**SMALL_REQUESTS, "acks": "1"}
    topic = new_topic(life, "tls-small")
    for settings in (clear, {**clear, **own}):
        load_generator.run("produce", bootstrap, topic, requests // 2, settings=settings)
    in_clear = _measured(life, "tls_small_requests_in_clear", "produce", topic, requests, 100, clear)
    encrypted = _measured(life, "tls_small_requests", "produce", topic, requests, 100, {**clear, **own})
    cpu = "broker_cpu_s_per_million"
    encrypted.figures["added_by_tls_us"] = encrypted.figures[cpu] - in_clear.figures[cpu]
    yield in_clear
    yield encrypted
    _shake_hands(life.tls, HANDSHAKES_S / 2)
    before, began = life.candidate.cpu_seconds(), time.perf_counter()
    handshakes = _shake_hands(life.tls, HANDSHAKES_S)
    took_s = time.perf_counter() - began  # A client goes on for up to a second longer than it is told to.
    used = life.candidate.cpu_seconds() - before
    figures = {"handshakes_per_s": handshakes / took_s, "broker_cpu_us_each": sum(used) / handshakes * 1e6}
    yield Measurement("tls_handshakes", figures)


def _shake_hands(tls: TlsListener, seconds: float) -> int:
    """New connections of TLS 1.3, one after another from each of several clients of OpenSSL's, which know the
    authority, so that they look for no other one; how many there were."""
    command = ["openssl", "s_time", "-connect", tls.address, "-CAfile", str(tls.authority)]
    command += ["-new", "-tls1_3", "-time", str(int(seconds))]
    try:
        clients = [
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            for _ in range(HANDSHAKE_CLIENTS)
        ]
    except FileNotFoundError:
        raise load_generator.LoadFailed("needs the program openssl") from None
    count = 0
    for client in clients:
        printed = client.communicate(timeout=seconds + 60)[0]
        found = re.search(r"(\d+) connections in [\d.]+ real seconds", printed)
        if found is None:
            raise load_generator.LoadFailed(f"{' '.join(command)}: {printed[-500:]}")
        count += int(found[1])
    return count


def _java_produce(life: Life, topic: str, records: int) -> float:
    configuration = [f"bootstrap.servers={life.candidate.bootstrap}", "acks=all", "linger.ms=5", "batch.size=16384"]
    arguments = ["--topic", topic, "--num-records", str(records), "--record-size", "1024", "--throughput", "-1"]
    printed = run_tool("kraft", "producer-perf-test", *arguments, "--producer-props", *configuration)
    found = re.findall(r"(\d+) records sent, [\d.]+ records/sec \(([\d.]+) MB/sec\)", printed)
    if not found or int(found[-1][0]) != records:
        raise load_generator.LoadFailed(f"ProducerPerformance did not send {records} records: {printed[-500:]}")
    return float(found[-1][1])


GROUPS: dict[str, Group] = {
    "startup": startup,
    "throughput": throughput,
    "small": small,
    "latency": latency,
    "partitions": partitions,
    "java": java,
    "tls": under_tls,
}


def new_topic(life: Life, name: str) -> str:
    """A topic of one partition that has a leader."""
    admin = AdminClient({"bootstrap.servers": life.candidate.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)], operation_timeout=30)[name].result()
    while not all(part.leader >= 0 for part in admin.list_topics(name, 10).topics[name].partitions.values()):
        time.sleep(0.02)
    return name


def _measured(
    life: Life, row: str, what: str, topic: str, operations: int, size: int, settings: dict[str, str]
) -> Measurement:
    if what == "produce":
        touch_page_cache(life.directory, operations * (size + BYTES_OF_A_RECORD_BESIDE_ITS_VALUE) + CLIENT_BYTES)
    before = life.candidate.cpu_seconds()
    load = load_generator.run(what, life.candidate.bootstrap, topic, operations, size=size, settings=settings)
    used = life.candidate.cpu_seconds() - before
    figures = {
        "records_per_s": load.records / load.seconds,
        "megabytes_per_s": load.bytes / load.seconds / 2**20,
        **cpu_per_million(used, CpuSeconds(load.user_s, load.system_s), operations, load.records),
    }
    for name in ("p50_us", "p90_us", "p99_us", "max_us"):
        value = getattr(load, name)
        if value is not None:
            figures[name] = value
    return Measurement(row, figures)


def touch_page_cache(directory: Path, size_bytes: int) -> None:
    """Write and delete as much as the broker is about to write, so that it is given memory that is in use.

    In a virtual machine the first touch of a page that the host has not backed costs the kernel several times the copy
    itself, and a machine that reports free pages to its host loses them again within seconds. Without this a row
    measures who ran last.
    """
    block = b"\1" * TOUCH_STEP_BYTES
    path = directory / "touch"
    with path.open("wb", buffering=0) as file:
        for _ in range(size_bytes // TOUCH_STEP_BYTES + 1):
            file.write(block)
    path.unlink()


def cpu_per_million(
    broker: CpuSeconds, client: CpuSeconds, broker_operations: int, client_operations: int
) -> dict[str, float]:
    """CPU seconds per million operations, which is microseconds for each."""
    return {
        "broker_cpu_s_per_million": sum(broker) / broker_operations * 1e6,
        "broker_user_s_per_million": broker.user / broker_operations * 1e6,
        "broker_system_s_per_million": broker.system / broker_operations * 1e6,
        "client_user_s_per_million": client.user / client_operations * 1e6,
        "client_system_s_per_million": client.system / client_operations * 1e6,
    }
