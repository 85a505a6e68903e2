"""What a second broker brings on this machine: `python -m benchmarks.host [--brokers N] [--rounds N] [--quick]`.

`kavka host` with one broker and with N (2), in turn, each time with new processes and directories. As many generators
as brokers run at once, each with a topic of its own whose partitions are spread over the brokers. Shown are the sum of
throughput, and the processor time that brokers and generators took for a million records. A second broker brings what
it should where the brokers' time for a record stays the same (the goal: within 10 %): then whatever ends the scaling is
not between the brokers.

Generators take processor time, too: on a machine with as many cores as brokers they take it from them. `busy` is the
share of all cores that both together used. At 100 % the machine, and not a broker, sets the throughput, so that the
processor time counts and the throughput does not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic
from tests.kit.command_server import PROGRAM
from tests.kit.kavka_process import CpuSeconds, cpu_seconds
from tests.kit.ports import free_port
from tests.kit.process_cluster import eventually
from tests.kit.server_process import begin

from benchmarks import load_generator
from benchmarks.load_generator import Load

PARTITIONS_PER_BROKER: Final = 4
STOP_S: Final = 60


class Work(NamedTuple):
    """What each generator does: an operation of load.c, so many records of so many bytes, with these settings."""

    operation: str
    records: int
    size: int
    settings: Mapping[str, str]


WORKS: Final[Mapping[str, Work]] = {
    "produce 100 B, acks=1": Work("produce", 3_000_000, 100, {"acks": "1", "linger.ms": "5"}),
    "produce 1 KiB, acks=1": Work("produce", 600_000, 1024, {"acks": "1", "linger.ms": "5"}),
    "consume 1 KiB": Work("consume", 600_000, 1024, {"fetch.queue.backoff.ms": "5"}),
}
"""In this order: what is consumed was produced before."""


class Shown(NamedTuple):
    """One work with so many brokers. Processor times are for a million records; `busy` is a share of all cores."""

    records_per_s: float
    broker_cpu_s: float
    client_cpu_s: float
    busy: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    arguments = parser.parse_args()
    load_generator.build()
    found: dict[tuple[str, int], list[Shown]] = {}
    load_before = os.getloadavg()[0]
    for number in range(arguments.rounds):
        for brokers in (1, arguments.brokers) if number % 2 == 0 else (arguments.brokers, 1):
            for what, shown in measure(brokers, 10 if arguments.quick else 1):
                found.setdefault((what, brokers), []).append(shown)
                print(
                    json.dumps({"round": number + 1, "work": what, "brokers": brokers, **shown._asdict()}), flush=True
                )
    print(f"{os.cpu_count()} cores, load average {load_before:.1f} before, {os.getloadavg()[0]:.1f} after")
    for what in WORKS:
        one, several = (_median(found[what, brokers]) for brokers in (1, arguments.brokers))
        print(
            f"{what:<22}  {one.records_per_s:>11,.0f} -> {several.records_per_s:>11,.0f} records/s "
            f"({several.records_per_s / one.records_per_s:.2f}), brokers' CPU {one.broker_cpu_s:.2f} -> "
            f"{several.broker_cpu_s:.2f} s a million ({several.broker_cpu_s / one.broker_cpu_s:.2f}), "
            f"busy {one.busy:.0%} -> {several.busy:.0%}"
        )


def _median(shown: list[Shown]) -> Shown:
    return Shown(*(statistics.median(column) for column in zip(*shown, strict=True)))


def measure(brokers: int, divisor: int) -> Iterator[tuple[str, Shown]]:
    """Every work once, on a new host."""
    with tempfile.TemporaryDirectory(prefix="kavka-host-") as place, running_host(Path(place), brokers) as host:
        bootstrap, pids = host
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        for size in sorted({work.size for work in WORKS.values()}):
            topics = [NewTopic(_topic(size, each), PARTITIONS_PER_BROKER * brokers, 1) for each in range(brokers)]
            for made in admin.create_topics(topics).values():
                made.result()
        for what, work in WORKS.items():
            yield what, _measure(work, bootstrap, pids, divisor)


def _measure(work: Work, bootstrap: str, pids: list[int], divisor: int) -> Shown:
    records = work.records // divisor

    def generate(number: int) -> Load:
        topic = _topic(work.size, number)
        return load_generator.run(
            work.operation, bootstrap, topic, records, size=work.size, settings=dict(work.settings)
        )

    before = [cpu_seconds(pid) for pid in pids]
    with ThreadPoolExecutor(len(pids)) as generators:
        loads = list(generators.map(generate, range(len(pids))))
    used = _sum(cpu_seconds(pid) - earlier for pid, earlier in zip(pids, before, strict=True))
    clients = sum(load.user_s + load.system_s for load in loads)
    seconds, millions = max(load.seconds for load in loads), sum(load.records for load in loads) / 1e6
    return Shown(
        millions * 1e6 / seconds,
        used / millions,
        clients / millions,
        (used + clients) / seconds / len(os.sched_getaffinity(0)),
    )


def _sum(used: Iterator[CpuSeconds]) -> float:
    return sum(each.user + each.system for each in used)


def _topic(size: int, number: int) -> str:
    return f"of-{size}-{number}"


@contextmanager
def running_host(directory: Path, brokers: int) -> Iterator[tuple[str, list[int]]]:
    """A ZooKeeper and a host: where its brokers are, and their pids."""
    zookeeper, port = free_port(), free_port(following=range(1, brokers))
    file = directory / "server.properties"
    file.write_text(
        f"broker.id=1\nzookeeper.connect=127.0.0.1:{zookeeper}\nlisteners=PLAINTEXT://127.0.0.1:{port}\n"
        f"log.dirs={directory}/data\ncontrolled.shutdown.enable=false\n"
    )
    commands = (
        ("zookeeper", "--port", str(zookeeper), "--data", f"{directory}/zookeeper"),
        ("host", str(file), "--brokers", str(brokers)),
    )
    processes = []
    try:
        for words in commands:
            log = directory / f"{words[0]}.log"
            with log.open("wb") as output:
                command = [str(PROGRAM), *words, "--json", "--log-level", "warning"]
                processes.append(begin(command, output, from_nothing=True, dies_with_parent=True))
            eventually(f"{words[0]} is ready", lambda log=log: '"ready"' in log.read_text(), timeout_s=60)
        told = json.loads(next(line for line in (directory / "host.log").read_text().splitlines() if '"ready"' in line))
        yield told["bootstrap"], [broker["pid"] for broker in told["brokers"]]
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(STOP_S)


if __name__ == "__main__":
    sys.exit(main())
