"""What the flight recorder costs: `python -m benchmarks.flight_recorder [--rounds N] [--quick]`.

Three brokers with it and three without, in turn, each round with fresh processes and directories, so that whatever else
the machine does falls on both. Processor time of the brokers counts more than throughput where the machine is shared.

    idle       1,000 partitions with three replicas that nobody writes to
    many       10,000 records/s of 100 bytes, acks=all, over those partitions
    one        as fast as it goes: 1 KiB, acks=all, one partition
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import load_generator
from kavka.broker.flight_format import FLIGHT_FILES
from kavka_process import cpu_seconds
from process_cluster import ProcessCluster, eventually

BROKERS = 3
PARTITIONS = 1_000
RATE = 10_000
TICK_S = 0.05

Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a quarter of the operations")
    arguments = parser.parse_args()
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


if __name__ == "__main__":
    main()
