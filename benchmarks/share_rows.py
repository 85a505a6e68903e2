"""Rows of share groups, of one broker: Java's share consumers, and what members cost that have nothing to do.

Apache Kafka has share groups in KRaft mode only: in ZooKeeper mode nothing is measured.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tests.kit.kavka_process import CpuSeconds
from tests.kit.share_group import ShareGroup
from tests.kit.share_member import ShareMember

from benchmarks import load_generator
from benchmarks.rows import PRODUCE, Life, Measurement, cpu_per_million, new_topic
from benchmarks.share_load import ShareLoad

MEMBERS: Final = 8
SIZE: Final = 1024
FIRST_RECORDS: Final = 5
KILLED: Final = 5
IDLE_MEMBERS: Final = 500
"""Each with a connection of its own: within the 1,024 files that a process may have open by default."""
BEATS: Final = 20
"""Of each: the processor time of a broker is counted in steps of 10 ms, and the first beat of all takes an eighth of a
second."""
JOINING_AT_ONCE: Final = 50
PATIENCE_S: Final = 90.0
WITHOUT_SHARE_GROUPS: Final = "zk"


def share(life: Life) -> Iterator[Measurement]:
    """Throughput of one member and of several, one record at a time, first records; members that die, that are idle."""
    if life.candidate.name == WITHOUT_SHARE_GROUPS:
        return
    with ShareLoad(life.candidate.bootstrap) as load:
        for row, members, mode in (
            ("share_consume_1k", 1, "implicit"),
            ("share_accept_each", MEMBERS, "explicit"),
        ):
            yield _consumed(life, load, row, members, mode)
        yield _latency(life, load)
        topic = new_topic(life, "share-first")
        _fill(life, topic, 1)
        load.ask("first", topic, FIRST_RECORDS)
        yield Measurement("share_first_record", load.ask("first", topic, FIRST_RECORDS))
    port = int(life.candidate.bootstrap.rpartition(":")[2])
    times = [_redelivery_ms(port) for _ in range(KILLED)]
    yield Measurement("share_member_killed", {"median_ms": statistics.median(times), "max_ms": max(times)})
    yield _idle(life, port)


def _consumed(life: Life, load: ShareLoad, row: str, members: int, mode: str) -> Measurement:
    """All records of a partition, by a group that has not been there before."""
    records = life.sizes.share_records
    for name, count in ((f"{row}-warm", records // 2), (row, records)):
        topic = new_topic(life, name.replace("_", "-"))
        _fill(life, topic, count)
        before = life.candidate.cpu_seconds()
        done = load.ask("consume", topic, name, count, members, mode)
        used = life.candidate.cpu_seconds() - before
    client = CpuSeconds(done["user_s"], done["system_s"])
    figures = {
        "records_per_s": done["records"] / done["seconds"],
        "megabytes_per_s": done["bytes"] / done["seconds"] / 2**20,
        **cpu_per_million(used, client, records, records),
    }
    return Measurement(row, figures)


def _fill(life: Life, topic: str, records: int) -> None:
    settings = {**PRODUCE, "acks": "all"}
    load_generator.run("produce", life.candidate.bootstrap, topic, records, size=SIZE, settings=settings)


def _latency(life: Life, load: ShareLoad) -> Measurement:
    """From a record's way to the broker to the answer that it is stored as accepted."""
    operations = life.sizes.share_latencies
    load.ask("latency", new_topic(life, "share-latency-warm"), "latency-warm", operations)
    topic = new_topic(life, "share-latency")
    before = life.candidate.cpu_seconds()
    done = load.ask("latency", topic, "latency", operations)
    used = sum(life.candidate.cpu_seconds() - before)
    figures = {name: value for name, value in done.items() if name.endswith("_us")}
    return Measurement("share_latency", {**figures, "broker_cpu_us_each": used / operations * 1e6})


def _redelivery_ms(port: int) -> float:
    """From the end of a member's connection, which its end by kill -9 is too, until another one has its records."""
    group = ShareGroup(port)
    dying, other = ShareMember(port, group.name), ShareMember(port, group.name)
    with other, ThreadPoolExecutor(1) as pool:
        dying.join_assigned(group.name)
        _until("the member has the records", lambda: dying.fetch(group.topic_id))
        other.join_assigned(group.name)
        other.fetch(group.topic_id, wait_ms=0)
        fetched = pool.submit(_until, "they come again", lambda: other.fetch(group.topic_id))
        time.sleep(0.5)
        killed_at = time.perf_counter()
        dying.close()
        fetched.result()
        return (time.perf_counter() - killed_at) * 1000


def _idle(life: Life, port: int) -> Measurement:
    """Groups of one member each, which waits in vain at one partition."""
    group = ShareGroup(port)  # Its topic is theirs.
    members = [ShareMember(port, f"idle-{number}") for number in range(IDLE_MEMBERS)]
    try:
        memory = life.candidate.resident_bytes()
        with ThreadPoolExecutor(JOINING_AT_ONCE) as pool:  # Apache Kafka assigns a new group's partitions after 5 s.
            list(pool.map(lambda member: _settle(member, group), members))
        memory = life.candidate.resident_bytes() - memory
        before, began = life.candidate.cpu_seconds(), time.perf_counter()
        for _ in range(BEATS):
            for member in members:
                member.beat()
        took_s = time.perf_counter() - began
        used = sum(life.candidate.cpu_seconds() - before)
    finally:
        for member in members:
            member.close()
    figures = {
        "kb_per_member": memory / 1024 / IDLE_MEMBERS,
        "heartbeats_per_s": IDLE_MEMBERS * BEATS / took_s,
        "broker_cpu_us_each": used / IDLE_MEMBERS / BEATS * 1e6,
    }
    return Measurement("share_idle", figures)


def _settle(member: ShareMember, group: ShareGroup) -> None:
    member.join_assigned(group.name)
    member.fetch(group.topic_id, wait_ms=0)


def _until(what: str, found: Callable[[], object]) -> None:
    """Asks until there is something. Raises LoadFailed."""
    deadline = time.perf_counter() + PATIENCE_S
    while not found():
        if time.perf_counter() > deadline:
            raise load_generator.LoadFailed(f"not in {PATIENCE_S:.0f} s: {what}")
