"""A soak: three brokers under mixed load and faults; memory, descriptors, threads, log bytes and latency must be flat.

`make soak`, or `python -m tests.soak.run --seconds 7200`. Broker 2 is killed with -9 or stopped in order again and
again, and so its memory begins anew; brokers 0 and 1 are paused and get slow disks, and must stay what they are. Each
series is judged by its slope and the noise of it (trend.py). What a run was too short to see is printed beside it.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.chaos.campaign import bugs_in_logs
from tests.kit.console_process import ConsoleProcess
from tests.kit.kavka_process import ProcessFailed, resident_bytes
from tests.kit.ports import free_port
from tests.kit.process_cluster import ProcessCluster, eventually
from tests.kit.process_faults import NoProcessFaults
from tests.soak.load import KINDS, Load
from tests.soak.trend import Trend, trend

MIB = 1 << 20
SAMPLES_EVERY_S = 5.0
STEADY, MORTAL = (0, 1), 2
SETTINGS = {
    "min.insync.replicas": "2",
    "log.initial.task.delay.ms": "5000",
    "log.retention.check.interval.ms": "5000",
    "log.cleaner.backoff.ms": "2000",
    "log.segment.delete.delay.ms": "2000",
    "replica.lag.time.max.ms": "5000",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.segment.bytes": str(MIB),
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.segment.bytes": str(MIB),
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.segment.bytes": str(MIB),
    "log.index.size.max.bytes": str(1 << 16),
    "producer.id.expiration.ms": "60000",
    "producer.id.expiration.check.interval.ms": "10000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "kavka.flight.recorder.bytes": str(MIB),
    "kavka.decisions.ring.bytes": str(MIB // 8),
    # The decisions' topic too reaches its size: a run is over long before a month's decisions are.
    "log.segment.bytes": str(MIB),
    "kavka.decisions.retention.ms": "120000",
}
ALLOWED_PER_HOUR = {
    "memory MiB": 6.0,
    "descriptors": 10.0,
    "open log files": 10.0,
    "threads": 2.0,
    "log MiB": 12.0,
    "latency ms": 20.0,
}
"""Growth that is no failure: what an allocator, a cache of clients' names or a busy machine may show."""


class Soak:
    def __init__(self, cluster: ProcessCluster, load: Load, seconds: float, seed: int) -> None:
        self._cluster, self._load, self._seconds = cluster, load, seconds
        self._random = random.Random(seed)
        self._samples: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self.faults = 0
        self.failures: list[str] = []

    def run(self) -> None:
        began_at = time.monotonic()
        next_sample, next_fault = began_at, began_at + 20
        undo: Callable[[], None] | None = None
        while (now := time.monotonic()) < began_at + self._seconds:
            if now >= next_sample:
                self._sample(now - began_at)
                next_sample = now + SAMPLES_EVERY_S
            if now >= next_fault:
                if undo is not None:
                    undo()
                    undo, next_fault = None, now + self._random.uniform(5, 25)
                else:
                    undo, next_fault = self._begin_fault(), now + self._random.uniform(0.5, 5)
            for broker_id in STEADY:
                server = self._cluster.brokers[broker_id]
                if not server.is_running:
                    raise ProcessFailed(f"{server.name} ended with {server.returncode}: {server.log_tail()}")
            time.sleep(0.1)
        if undo is not None:
            undo()

    def _begin_fault(self) -> Callable[[], None]:
        """Returns what ends it."""
        self.faults += 1
        steady = self._random.choice(STEADY)
        server, mortal = self._cluster.brokers[steady], self._cluster.brokers[MORTAL]
        match self._random.randrange(4):
            case 0:
                mortal.kill()
                return mortal.start
            case 1:
                mortal.terminate()

                def begin_again() -> None:
                    mortal.kill()
                    mortal.start()

                return begin_again
            case 2:
                server.pause()
                return server.resume
            case _:
                self._cluster.faults[steady].slow_disk(0.1, 0.05)
                return self._cluster.faults[steady].heal_disk

    def _sample(self, at_s: float) -> None:
        for broker_id in STEADY:
            server = self._cluster.brokers[broker_id]
            proc = Path(f"/proc/{server.pid}")
            of_logs, others = _descriptors(proc / "fd", self._cluster.data_dir(broker_id))
            values = {
                "memory MiB": resident_bytes(server.pid) / MIB,
                "descriptors": others,
                "open log files": of_logs,
                "threads": len(os.listdir(proc / "task")),
                "log MiB": _bytes_below(self._cluster.data_dir(broker_id)) / MIB,
            }
            for name, value in values.items():
                self._samples[f"{server.name} {name}"].append((at_s, float(value)))
        latency_s = self._load.latency_s()
        if latency_s is not None:
            self._samples["latency ms"].append((at_s, latency_s * 1000))

    def report(self) -> list[str]:
        lines = []
        for name, samples in self._samples.items():
            allowed = next(value for kind, value in ALLOWED_PER_HOUR.items() if name.endswith(kind))
            found = trend(samples)
            lines.append(f"{name:22} {_said(found, allowed)}")
            if found is not None and found.grows(allowed):
                self.failures.append(f"{name} grows by {found.per_hour:.1f} an hour (at least {found.low:.1f})")
        return lines


def _said(found: Trend | None, allowed: float) -> str:
    if found is None:
        return "too few samples to tell"
    return (
        f"level {found.level:8.1f}, slope {found.per_hour:+8.2f} an hour, 95 % within {found.low:+.2f} and "
        f"{found.high:+.2f}; allowed {allowed:+.0f}"
    )


def _descriptors(directory: Path, logs: Path) -> tuple[int, int]:
    """Of files below the logs, and others: the first follow the number of segments."""
    of_logs = others = 0
    for name in os.listdir(directory):
        try:
            is_of_logs = os.readlink(directory / name).startswith(f"{logs}/")
        except FileNotFoundError:
            continue
        of_logs, others = of_logs + is_of_logs, others + (not is_of_logs)
    return of_logs, others


def _bytes_below(directory: Path) -> int:
    """Of files that are deleted meanwhile nothing."""
    total = 0
    for path, _directories, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(path, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def soak(seconds: float, seed: int, rate: int, place: Path) -> tuple[list[str], list[str]]:
    """Lines to show, and failures. Raises NoProcessFaults."""
    ports = [free_port() for _ in range(3)]
    own = {number: {"kavka.metrics.port": str(port)} for number, port in enumerate(ports)}
    with ExitStack() as stack:
        cluster = ProcessCluster(place / "cluster", settings=SETTINGS, own_settings=own, process_faults=True)
        stack.enter_context(cluster)
        cluster.start()
        settings = f'[[cluster]]\nname = "soak"\nbootstrap = "{cluster.bootstrap}"\n'
        console = stack.enter_context(ConsoleProcess(settings, place / "console"))
        metrics = [f"http://127.0.0.1:{port}/metrics" for port in ports]
        load = Load(cluster.bootstrap, replicas=3, rate=rate, metrics=metrics, pages=[f"{console.address}/"])
        load.create_topics()
        load.start()
        work = Soak(cluster, load, seconds, seed)
        busy = os.getloadavg()[0]
        try:
            work.run()
        except ProcessFailed as failure:
            work.failures.append(str(failure))
        busy = (busy + os.getloadavg()[0]) / 2
        load.stop()
        lines = [
            f"{seconds:.0f} s, seed {seed}, {work.faults} faults",
            f"the machine: {os.cpu_count()} cores, a load of {busy:.0f}",
            "done: " + ", ".join(f"{name} {number:,}" for name, number in sorted(load.done.items())),
            "errors seen by clients: " + (", ".join(f"{name} {n}" for name, n in load.errors.most_common()) or "none"),
            *work.report(),
        ]
        work.failures += [f"{name} did nothing: the run shows too little" for name in KINDS if not load.done[name]]
        if not cluster.brokers[MORTAL].is_running:
            cluster.brokers[MORTAL].start()
        eventually("broker 2 is back", cluster.brokers[MORTAL].accepts, timeout_s=90)
        for server in cluster.brokers.values():
            status = server.stop(timeout_s=90)
            if status:
                work.failures.append(f"{server.name} stopped with {status}: {server.log_tail(lines=6)}")
        return lines, work.failures + list(bugs_in_logs(cluster))


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak.run", description="Mixed load with faults; nothing may grow.")
    parser.add_argument("--seconds", type=float, default=7200.0, help="how long (7200)")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of the faults; printed")
    parser.add_argument("--rate", type=int, default=50, help="records a second of each producer (50)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave logs and data in a directory")
    arguments = parser.parse_args()
    place = arguments.keep or Path(tempfile.mkdtemp(prefix="kavka-soak-"))
    try:
        lines, failures = soak(arguments.seconds, arguments.seed, arguments.rate, place)
    except NoProcessFaults as missing:
        print(f"soak: {missing}")
        return 2
    finally:
        if not arguments.keep:
            shutil.rmtree(place, ignore_errors=True)
    print("\n".join(lines))
    print("\n".join(f"FAILED  {text}" for text in failures) or "nothing grows", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
