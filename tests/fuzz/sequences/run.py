"""Well-formed sequences against a broker in a process of its own, or in virtual time. `make fuzz` runs it.

    python -m tests.fuzz.sequences.run [--seed 1] [--requests 1000000]       a broker of its own
    python -m tests.fuzz.sequences.run --virtual [--seeds 20] [--requests 2000]    in virtual time, a run for each seed

A run fails where a rule of clients.py is broken, and where

    the broker's process ends, or does not end in order when it is asked to
    it logs an error, or an exception
    its memory grows by more than GROWTH_MIB after the first third
    it does not open what it wrote after kill -9, or does not answer then

In virtual time the same seed gives the same run, so what is found there can be had again.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kavka.logger import set_level
from kavka.runtime.network.network import SocketNetwork
from kavka.simulator.host.broker import PORT
from kavka.simulator.world import World
from tests.fuzz.sequences.asker import Asker
from tests.fuzz.sequences.clients import Fuzz, Report
from tests.fuzz.sequences.relations import brokers_agree
from tests.kit.kavka_process import KavkaProcess, resident_bytes

GROWTH_MIB: Final = 72
"""24, and what is left of large batches (believed_batches.py): each thread that inflated one keeps some 16 MiB for the
next, of which the first third of a short run may see none. Over a million requests it is under 80 bytes for each."""
PAUSES: Final = 0.03
AFTER_RESTART: Final = 500
"""Requests to the broker that has opened its logs again."""
SETTINGS: Final[Mapping[str, str]] = {
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "20",
    "group.max.size": "20",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.size": "20",
    "group.share.min.session.timeout.ms": "500",
    "group.share.session.timeout.ms": "2000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "1000",
    "group.streams.min.session.timeout.ms": "500",
    "group.streams.session.timeout.ms": "2000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "20",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.max.size": "20",
    "producer.id.expiration.ms": "5000",
    "producer.id.expiration.check.interval.ms": "1000",
    "transactional.id.expiration.ms": "20000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "2000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.segment.bytes": "262144",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.segment.bytes": "262144",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.segment.bytes": "262144",
    "min.insync.replicas": "1",
    "log.initial.task.delay.ms": "2000",
    "log.retention.check.interval.ms": "2000",
    "log.retention.bytes": "1048576",
    "log.segment.bytes": "262144",
}


def in_process(seed: int, requests: int, directory: Path, *, quiet: bool = False) -> Report:
    """A run against `kavka up`."""
    broker = KavkaProcess(directory / "data", settings=SETTINGS, log_file=directory / "broker.log")
    broker.start()
    findings: list[str] = []
    report = Report()
    resident: list[float] = []
    try:
        for third in range(3):
            share = requests * (third + 1) // 3 - requests * third // 3
            report = _on_sockets(broker, seed * 3 + third, share, report)
            if not broker.is_running:
                findings.append(f"the broker has ended:{broker.log_tail(lines=40)}")
                break
            resident.append(resident_bytes(broker.pid) / 2**20)
            if not quiet:
                print(f"{report.requests} requests, the broker holds {resident[-1]:.1f} MiB", flush=True)
        else:
            if resident[2] - resident[0] > GROWTH_MIB:
                findings.append(f"memory grew from {resident[0]:.0f} to {resident[2]:.0f} MiB")
            broker.kill()
            broker.start(timeout_s=60)
            report = _on_sockets(broker, seed, AFTER_RESTART, report)
            code = broker.stop()
            if code != 0:
                findings.append(f"the broker ended with {code}:{broker.log_tail()}")
    finally:
        broker.kill()
    findings += _complaints(directory / "broker.log")
    report.findings += findings
    return report


def _on_sockets(broker: KavkaProcess, seed: int, requests: int, report: Report) -> Report:
    fuzz = Fuzz(SocketNetwork(), ("127.0.0.1", broker.port), seed, requests=requests)
    fuzz.report = report
    return asyncio.run(fuzz.run())


def _complaints(log: Path) -> list[str]:
    """What a broker's log must not have, whatever clients ask."""
    lines = log.read_text(errors="replace").splitlines()
    wrong = [line for line in lines if "[error" in line or "[critical" in line or line.startswith("Traceback")]
    return [f"logged: {line}" for line in wrong[:5]]


def in_virtual_time(seed: int, requests: int) -> Report:
    """A run against a broker of the simulator. Raises what breaks a rule of the simulator's, or the broker's code."""
    set_level("error")
    world = World(seed, brokers=1, partitions=1, replicas=1, settings=SETTINGS)
    world.start()
    broker = world.brokers[1]
    broker.wire = None  # What watches the wire knows kavka's own clients: topics by name, a producer's answers.
    loop = world.clients.node("fuzz")
    network = world.network.port_of(loop.name, loop)
    fuzz = Fuzz(network, (broker.node, PORT), seed, requests=requests, pauses=PAUSES)
    task = loop.create_task(fuzz.run())
    world.run_until(task.done, within_s=36_000)
    report = task.result()
    report.findings += [f"the broker halted: {halt.why}" for halt in world.halts]
    return report


def on_three_brokers(seed: int) -> Counter[str]:
    """Asks each broker of a simulated cluster in which nothing else happens. Raises Disagree."""
    set_level("error")
    world = World(seed, brokers=3, partitions=1)
    world.start()
    loop = world.clients.node("fuzz")
    askers = [Asker(world.network.port_of(loop.name, loop), (broker.node, PORT)) for broker in world.brokers.values()]
    task = loop.create_task(brokers_agree(askers, random.Random(f"{seed} brokers")))
    world.run_until(task.done, within_s=600)
    return task.result()


def _print(report: Report) -> None:
    for name, count in sorted(report.asked.items()):
        told = {key.partition(" ")[2]: n for key, n in report.errors.items() if key.partition(" ")[0] == name}
        print(
            f"{name:32} {count:7}  ",
            "  ".join(f"{error} {n}" for error, n in sorted(told.items(), key=lambda p: -p[1])),
        )
    for finding in report.findings:
        print("FOUND", finding)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=0, help="1,000,000; in virtual time 2,000 for each seed")
    parser.add_argument("--virtual", action="store_true")
    parser.add_argument("--seeds", type=int, default=20)
    wanted = parser.parse_args(words)
    began = time.monotonic()
    if wanted.virtual:
        found = False
        for seed in range(wanted.seed, wanted.seed + wanted.seeds):
            try:
                report = in_virtual_time(seed, wanted.requests or 2_000)
                on_three_brokers(seed)
            except Exception as broken:  # Whatever ends a run is what the run was for.
                report = Report(findings=[f"{type(broken).__name__}: {broken}"])
            found |= bool(report.findings)
            print(
                f"seed {seed}: {report.requests} requests, {report.accepted} accepted, {len(report.findings)} findings"
            )
            for finding in report.findings:
                print("FOUND", finding)
        print(f"{time.monotonic() - began:.0f} s")
        return int(found)
    with tempfile.TemporaryDirectory(prefix="kavka-sequences-") as directory:
        report = in_process(wanted.seed, wanted.requests or 1_000_000, Path(directory))
    _print(report)
    print(f"{report.requests} requests, seed {wanted.seed}, {time.monotonic() - began:.0f} s")
    return int(bool(report.findings))


if __name__ == "__main__":
    sys.exit(main())
