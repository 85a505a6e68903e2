"""What the flight recorder costs: `python -m benchmarks.flight_recorder [--rounds N] [--quick] [--calls]`.

Three brokers with it and three without, in turn, each round with fresh processes and directories, so that whatever else
the machine does falls on both. Processor time of the brokers counts more than throughput where the machine is shared.

    idle       1,000 partitions with three replicas that nobody writes to
    many       10,000 records/s of 100 bytes, acks=all, over those partitions
    one        as fast as it goes: 1 KiB, acks=all, one partition

`--calls` measures single calls of a partition with and without it, where the noise of a shared machine hides the rest:
a fetch that repeats the one before (what a thousand idle partitions cost at each fetch), one behind which something was
appended, the timer's look. Writing the ring is in it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.kit.kavka_process import cpu_seconds
from tests.kit.process_cluster import ProcessCluster, eventually

from benchmarks import load_generator
from kavka.config.broker import BrokerConfig
from kavka.flight.format import FLIGHT_FILES
from kavka.flight.recorder import FlightRecorder
from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.replay.metadata_log import MetadataLog
from kavka.replication.decide.partition import Partition
from kavka.runtime.disk import LocalFileSystem

if TYPE_CHECKING:
    from kavka.log.unified_log import UnifiedLog

CALLS = 100_000
BROKERS = 3
PARTITIONS = 1_000
RATE = 10_000
TICK_S = 0.05

Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a quarter of the operations")
    parser.add_argument("--calls", action="store_true", help="single calls, without a cluster")
    arguments = parser.parse_args()
    if arguments.calls:
        asyncio.run(calls(arguments.rounds))
        return
    divisor = 4 if arguments.quick else 1
    load_generator.build()
    found: dict[bool, list[Figures]] = {True: [], False: []}
    for number in range(arguments.rounds):
        for is_on in (True, False) if number % 2 else (False, True):
            with tempfile.TemporaryDirectory(prefix="kavka-flight-") as place:
                figures = measure(Path(place), divisor, is_on=is_on)
            found[is_on].append(figures)
            print(json.dumps({"round": number + 1, "recorder": "on" if is_on else "off", **figures}), flush=True)
    for name in found[True][0]:
        off, on = (statistics.median(each[name] for each in found[is_on]) for is_on in (False, True))
        change = f"{(on / off - 1) * 100:+.1f} %" if off else ""
        print(f"{name:<28} off {off:12,.2f}   on {on:12,.2f}   {change}")


def measure(directory: Path, divisor: int, *, is_on: bool) -> Figures:
    settings = {"kavka.flight.recorder.enable": "true" if is_on else "false", "default.replication.factor": "3"}
    with ProcessCluster(directory, brokers=BROKERS, defaults={}, settings=settings) as cluster:
        cluster.start()
        create(cluster, "many", PARTITIONS)
        create(cluster, "one", 1)
        figures: Figures = {}
        figures["idle_cpu_percent"] = idle(cluster, 20 / divisor)
        before = ring_bytes(cluster)
        figures["many_cpu_s_per_million"], seconds = many(cluster, 200_000 // divisor)
        figures["many_ring_kb_per_s"] = (ring_bytes(cluster) - before) / seconds / 1000
        figures |= one(cluster, 200_000 // divisor)
        return figures


def create(cluster: ProcessCluster, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    new = NewTopic(topic, partitions, BROKERS, config={"min.insync.replicas": "2"})
    admin.create_topics([new], operation_timeout=60)[topic].result()

    def is_whole() -> bool:
        found = admin.list_topics(topic, 20).topics[topic].partitions.values()
        return len(found) == partitions and all(len(one.isrs) == BROKERS and one.leader >= 0 for one in found)

    eventually(f"{topic} is in sync", is_whole, timeout_s=120, every_s=0.5)


def cpu(cluster: ProcessCluster) -> float:
    return sum(sum(cpu_seconds(server.pid)) for server in cluster.brokers.values())


def ring_bytes(cluster: ProcessCluster) -> int:
    """Of all brokers; in these runs the rings do not come round."""
    paths = (cluster.data_dir(number) / name for number in cluster.brokers for name in FLIGHT_FILES)
    return sum(path.stat().st_size for path in paths if path.exists())


def idle(cluster: ProcessCluster, seconds: float) -> float:
    """Percent of a processor that all brokers take."""
    time.sleep(3)
    before, began = cpu(cluster), time.monotonic()
    time.sleep(seconds)
    return (cpu(cluster) - before) / (time.monotonic() - began) * 100


def many(cluster: ProcessCluster, records: int) -> tuple[float, float]:
    """Processor seconds of the brokers for a million records, and how long it took."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5, "log_level": 0})
    value, each = bytes(100), round(RATE * TICK_S)
    before, began = cpu(cluster), time.monotonic()
    for start in range(0, records, each):
        for number in range(start, start + each):
            producer.produce("many", value, partition=number * 7 % PARTITIONS)
        producer.poll(0)
        time.sleep(max(0.0, began + (start + each) / RATE - time.monotonic()))
    assert producer.flush(60) == 0
    return (cpu(cluster) - before) / records * 1e6, time.monotonic() - began


def one(cluster: ProcessCluster, records: int) -> Figures:
    settings = {"acks": "all", "linger.ms": "5"}
    load_generator.run("produce", cluster.bootstrap, "one", records // 3, size=1024, settings=settings)
    before, ring = cpu(cluster), ring_bytes(cluster)
    load = load_generator.run("produce", cluster.bootstrap, "one", records, size=1024, settings=settings)
    return {
        "one_megabytes_per_s": load.bytes / load.seconds / 2**20,
        "one_cpu_s_per_million": (cpu(cluster) - before) / records * 1e6,
        "one_ring_kb_per_s": (ring_bytes(cluster) - ring) / load.seconds / 1000,
    }


# -- single calls


async def calls(rounds: int) -> None:
    """Nanoseconds of processor time for a call, the least of the rounds, plain and recorded by turns."""
    found: dict[tuple[str, bool], list[float]] = {}
    for _ in range(rounds):
        for is_on in (False, True):
            with tempfile.TemporaryDirectory(prefix="kavka-flight-") as place:
                for name, nanoseconds in (await _calls(place, is_on=is_on)).items():
                    found.setdefault((name, is_on), []).append(nanoseconds)
    for name in dict.fromkeys(name for name, _ in found):
        off, on = (min(found[name, is_on]) for is_on in (False, True))
        print(f"{name:<28} off {off:8,.0f} ns   on {on:8,.0f} ns   +{on - off:,.0f} ns")


async def _calls(place: str, *, is_on: bool) -> Figures:
    log = MetadataLog()
    partition: Partition
    recorder: FlightRecorder | None = None
    new, broker = TopicPartition("orders", 0), BrokerId(1)
    held = cast("UnifiedLog", log)
    if is_on:
        config = BrokerConfig.from_properties({"broker.id": "1", "log.dirs": place})
        clock_ms = lambda: time.monotonic_ns() // 1_000_000  # noqa: E731
        recorder = FlightRecorder(LocalFileSystem(), config, wall_ms=clock_ms, clock_ms=clock_ms)
        recorder.start()
        partition = recorder.new_partition(new, uuid.UUID(int=1), held, local_broker_id=broker, min_insync_replicas=2)
    else:
        partition = Partition(new, uuid.UUID(int=1), held, local_broker_id=broker, min_insync_replicas=2)
    replicas = (broker, BrokerId(2), BrokerId(3))
    partition.become_leader(LeaderAndIsr(broker, 1, replicas, 0), replicas, now_ms=0)

    def fetch(follower: BrokerId, now_ms: int) -> None:
        end = log.log_end_offset
        partition.record_follower_fetch(follower, 7, end, leader_end_offset=end, now_ms=now_ms)

    def moved(now_ms: int) -> None:
        log.log_end_offset += 1
        fetch(replicas[1], now_ms)
        fetch(replicas[2], now_ms)

    def repeated(now_ms: int) -> None:
        fetch(replicas[1], now_ms)
        fetch(replicas[2], now_ms)

    figures: Figures = {}
    works = (
        ("fetch with something new", moved, 2),
        ("fetch as before", repeated, 2),
        ("timer's look", _look(partition), 1),
    )
    for name, work, count in works:
        work(0)
        began = time.process_time_ns()
        for now_ms in range(CALLS):
            work(now_ms)
            if not now_ms % 500:
                await asyncio.sleep(0)
        figures[name] = (time.process_time_ns() - began) / CALLS / count
    if recorder is not None:
        recorder.stop()
    return figures


def _look(partition: Partition) -> Callable[[int], None]:
    def look(now_ms: int) -> None:
        partition.propose_shrink(now_ms % 1_000)

    return look


if __name__ == "__main__":
    main()
