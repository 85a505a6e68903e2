"""The runner: `python -m chaos.run`, or a Campaign from a test.

One campaign: a cluster of real processes, a topic with the replication factor of all its brokers, producers and
consumers, faults for a while; then everything is healed and the cluster has to become whole (every replica in sync,
every partition readable to its end), the history is checked, and the replicas' logs are compared byte for byte.
"""

from __future__ import annotations

import argparse
import random
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import KafkaException

from tests.apache_kafka import PeerMissing
from tests.chaos import comparison, report
from tests.chaos.campaign import (
    RECORD_FAULTS,
    RECORDS,
    TRANSACTIONS,
    Campaign,
    Outcome,
    Say,
    bugs_in_logs,
    create_topics,
    wait_until_whole,
)
from tests.chaos.checker import check, count
from tests.chaos.exactly_once import EXACTLY_ONCE_SETTINGS, ExactlyOnceRun
from tests.chaos.nemesis import PROCESS_FAULTS, Fault, Nemesis, usable
from tests.chaos.renumbering import Renumbering
from tests.chaos.replica_logs import StoredBatch, differences, read_log
from tests.chaos.workload import Workload, WorkloadFailed
from tests.kit.kavka_process import ProcessFailed
from tests.kit.memory_pressure import why_not
from tests.kit.network_lab import NetworkLab, NoNetworkLab
from tests.kit.process_cluster import ProcessCluster
from tests.kit.process_faults import NoProcessFaults
from tests.kit.secured_brokers import SecuredBrokers

TOPIC = "chaos"
# Small segments are rolled many times in a run; lagging followers are dropped soon enough to be seen dropping.
SETTINGS = {
    "log.segment.bytes": str(2**20),
    "log.index.size.max.bytes": str(2**16),
    "replica.lag.time.max.ms": "3000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
MIXED, BOTH = "mixed", "both"
BRANDS = ("kavka", "kafka")
INTERNAL_FACTORS = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
BASE_DISK_MB, DISK_MB_PER_MINUTE = 96, 24
ANOMALIES_SHOWN = 20
LONGER = 5
"""So many times `seconds` a campaign waits for `fewest_faults`."""
LOOK_S = 0.5
"""Between two looks at who is the controller."""


def run(campaign: Campaign, directory: Path, *, verbose: bool = True) -> Outcome:
    """Raises PeerMissing, NoNetworkLab, NoProcessFaults where the campaign asks for what cannot be had here."""
    began_at = time.monotonic()

    def say(text: str) -> None:
        if verbose:
            print(f"{time.monotonic() - began_at:6.1f}  {text}", flush=True)

    with ExitStack() as stack:
        lab = stack.enter_context(NetworkLab()) if campaign.network else None
        disk_mb = BASE_DISK_MB + int(DISK_MB_PER_MINUTE * campaign.seconds / 60) if campaign.small_disks else 0
        own = EXACTLY_ONCE_SETTINGS if campaign.workload == TRANSACTIONS else {}
        settings = {**SETTINGS, **own, "min.insync.replicas": str(campaign.min_insync)}
        settings |= dict.fromkeys(INTERNAL_FACTORS, str(campaign.brokers))
        racks = {number: {"broker.rack": f"rack-{number}"} for number in range(campaign.brokers)}
        cluster = ProcessCluster(
            directory,
            brokers=campaign.brokers,
            own_kinds=campaign.kinds,
            zookeeper=campaign.zookeeper,
            lab=lab,
            settings=settings,
            own_settings=racks,
            disk_mb=disk_mb,
            process_faults=not PROCESS_FAULTS.isdisjoint(campaign.faults),
            secured=SecuredBrokers(directory / "security") if campaign.secured else None,
        )
        stack.enter_context(cluster)
        cluster.start()
        say(f"{campaign}: all brokers answer; the controller is {cluster.controller()}")
        if Fault.MEMORY_PRESSURE in campaign.faults and (missing := why_not()):
            say(f"no memory pressure: {missing}")
        if campaign.workload == TRANSACTIONS:
            return ExactlyOnceRun(campaign, cluster, say).run()
        create_topics(cluster, campaign, TOPIC)
        workload = Workload(
            cluster.bootstrap,
            TOPIC,
            campaign.partitions,
            producers=campaign.producers,
            rate=campaign.rate,
            racks=("", "rack-0"),
            login=cluster.client_settings,
            topic_may_seem_unknown="kafka" in campaign.kinds.values(),
        )
        nemesis = Nemesis(
            cluster,
            random.Random(campaign.seed),
            tolerated=campaign.brokers - campaign.min_insync,
            faults=usable(cluster, campaign.faults, has_small_disks=campaign.small_disks),
            mean_interval_s=campaign.interval_s,
            say=say,
        )
        return _Run(campaign, cluster, workload, nemesis, say).run()


class _Run:
    def __init__(
        self,
        campaign: Campaign,
        cluster: ProcessCluster,
        workload: Workload,
        nemesis: Nemesis,
        say: Say,
    ) -> None:
        self._campaign, self._cluster = campaign, cluster
        self._workload, self._nemesis, self._say = workload, nemesis, say
        self._failures: list[str] = []
        self._controllers: list[int] = []
        self._looked_at = 0.0

    def run(self) -> Outcome:
        workload, nemesis = self._workload, self._nemesis
        workload.start()
        began_at = time.monotonic()
        while not self._is_over(time.monotonic() - began_at):
            nemesis.step()
            self._look_at_the_controller()
            time.sleep(0.02)
        self._say("the faults end")
        faulty_s = time.monotonic() - began_at
        for step in (nemesis.heal, self._wait_until_whole, workload.stop_producers, self._read_all, self._compare):
            try:
                step()
            except (AssertionError, ProcessFailed, WorkloadFailed, KafkaException) as failure:
                self._failures.append(f"not whole after the faults: {failure}")
        self._renumbering = Renumbering(self._logs(), workload.notes.lines)
        anomalies = (
            check(workload.history, is_the_clients=self._renumbering.is_the_clients)
            if len(workload.history.final) == self._campaign.partitions
            else []
        )
        for kind, number in sorted(count(anomalies).items(), key=lambda item: item[0].value):
            self._failures.append(f"{number} x {kind.value}")
        self._failures += [str(anomaly) for anomaly in anomalies[:ANOMALIES_SHOWN]]
        self._failures += [f"a client could not go on: {text}" for text in workload.fatal]
        self._failures += bugs_in_logs(self._cluster)
        lines = [
            str(self._campaign),
            *report.lines(workload.history, nemesis.done, began_at, faulty_s),
            *self._asides(),
        ]
        recovered = report.recoveries(workload.history, nemesis.done)
        return Outcome(self._failures, lines, workload.history.acknowledged, len(nemesis.done), recoveries=recovered)

    def _is_over(self, elapsed_s: float) -> bool:
        campaign = self._campaign
        is_enough = len(self._nemesis.done) >= campaign.fewest_faults or elapsed_s >= LONGER * campaign.seconds
        return is_enough and elapsed_s >= campaign.seconds

    def _look_at_the_controller(self) -> None:
        """Who it was, one after the other."""
        if time.monotonic() < self._looked_at + LOOK_S:
            return
        self._looked_at = time.monotonic()
        found = self._nemesis.controller()
        if found >= 0 and self._controllers[-1:] != [found]:
            self._controllers.append(found)

    def _wait_until_whole(self) -> None:
        began_at = time.monotonic()
        wait_until_whole(self._cluster, {TOPIC: self._campaign.partitions})
        self._say(f"every replica is in sync, {time.monotonic() - began_at:.1f} s after the last fault")
        time.sleep(1)  # some load on the healed cluster

    def _read_all(self) -> None:
        ends = self._workload.final_read(timeout_s=60 + self._campaign.seconds)
        self._say(f"read to the ends: {ends}")
        self._workload.drain(timeout_s=60)
        for number, server in self._cluster.brokers.items():
            status = server.stop(timeout_s=60)
            if self._cluster.kind_of(number) == "kavka" and status != 0:
                self._failures.append(f"{server.name} stopped with {status}: {server.log_tail(lines=6)}")

    def _compare(self) -> None:
        final = self._workload.history.final
        for partition in range(self._campaign.partitions):
            directories = {one: self._cluster.log_dir(one, TOPIC, partition) for one in self._cluster.brokers}
            end = final[partition].offsets[-1] + 1 if partition in final and len(final[partition]) else 0
            self._failures += [f"replicas of partition {partition}: {text}" for text in differences(directories, end)]
        self._say("the replicas' logs are compared")

    def _logs(self) -> dict[int, list[StoredBatch]]:
        """Of each partition, as one of its replicas has it; they were compared."""
        broker_id = min(self._cluster.brokers)
        return {
            partition: list(read_log(self._cluster.log_dir(broker_id, TOPIC, partition)))
            for partition in range(self._campaign.partitions)
        }

    def _asides(self) -> Iterator[str]:
        terms = Counter(self._cluster.kind_of(one) for one in self._controllers)
        yield "controllers seen: " + ", ".join(f"{count} x a broker of {kind}" for kind, count in sorted(terms.items()))
        if self._renumbering.copies:
            yield f"records sent again by the client under a new producer epoch: {self._renumbering.copies}"
        errors = self._workload.errors
        if errors:
            yield "errors seen by clients, all retried: " + ", ".join(f"{name} {n}" for name, n in errors.most_common())
        if self._nemesis.exits:
            yield f"brokers that ended by themselves and were started again: {len(self._nemesis.exits)}"


def campaigns(arguments: argparse.Namespace) -> list[Campaign]:
    """One as told, or by default three brokers on kavka's ZooKeeper and five on an ensemble, half of the time each."""
    seed = arguments.seed if arguments.seed is not None else secrets.randbelow(2**32)
    own = tuple(Fault) if arguments.workload == TRANSACTIONS else RECORD_FAULTS
    faults = tuple(Fault[name.upper().replace("-", "_")] for name in arguments.faults or []) or own
    if arguments.no_process_faults:
        faults = tuple(fault for fault in faults if fault not in PROCESS_FAULTS)
    shapes = [(3, "kavka"), (5, "ensemble")] if arguments.workload == RECORDS else [(3, "kavka")]
    if arguments.brokers or arguments.zookeeper:
        shapes = [(arguments.brokers or 3, arguments.zookeeper or "kavka")]
    kinds = [arguments.kind] * len(shapes)
    if arguments.kind == MIXED:
        shapes, kinds = [shapes[0]] * 2, ["kavka+", "kafka+"]
    seeds = [seed + index for index in range(len(shapes))]
    if arguments.kind == BOTH:
        shapes, seeds = [each for each in shapes for _ in BRANDS], [each for each in seeds for _ in BRANDS]
        kinds = list(BRANDS) * (len(shapes) // len(BRANDS))
    return [
        Campaign(
            workload=arguments.workload,
            brokers=brokers,
            zookeeper=zookeeper,
            kind=kind,
            secured=arguments.secured,
            seconds=arguments.seconds / len(shapes),
            seed=its_seed,
            faults=faults,
            network=not arguments.no_network,
            small_disks=not arguments.no_small_disks,
            rate=arguments.rate,
            interval_s=arguments.interval,
            protocol=arguments.group_protocol,
        )
        for (brokers, zookeeper), kind, its_seed in zip(shapes, kinds, seeds, strict=True)
    ]


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos.run", description="A cluster under faults, and what its clients saw.")
    parser.add_argument(
        "--workload",
        choices=[RECORDS, TRANSACTIONS],
        default=RECORDS,
        help="records: producers and readers; transactions: processes that consume, transform and produce",
    )
    parser.add_argument("--group-protocol", choices=["classic", "consumer"], default="classic", help="of transactions")
    parser.add_argument("--seconds", type=float, default=300.0, help="of faults, over all campaigns (300)")
    parser.add_argument("--brokers", type=int, choices=[3, 5, 7], help="one campaign of that size instead of both")
    parser.add_argument(
        "--zookeeper", choices=["kavka", "apache", "ensemble"], help="one campaign on that instead of both"
    )
    parser.add_argument(
        "--kind",
        choices=[*BRANDS, MIXED, BOTH],
        default="kavka",
        help=f"kafka: Apache Kafka 3.9's brokers; {MIXED}: two campaigns, most brokers of one brand and of the other; "
        f"{BOTH}: each campaign with either brand and the same seed, and a comparison",
    )
    parser.add_argument(
        "--secured", action="store_true", help="brokers and clients log in over TLS, and an authorizer is on (records)"
    )
    parser.add_argument("--seed", type=int, help="of the faults; drawn and printed by default")
    parser.add_argument(
        "--faults", nargs="+", metavar="FAULT", help=f"of {', '.join(one.name.lower() for one in Fault)}"
    )
    parser.add_argument("--rate", type=int, default=400, help="records a second of each of three producers (400)")
    parser.add_argument("--interval", type=float, default=5.0, help="mean seconds between two faults (5)")
    parser.add_argument("--no-network", action="store_true", help="no namespaces, so no cuts; needs no root")
    parser.add_argument("--no-small-disks", action="store_true", help="no file systems of their own, so no full disks")
    parser.add_argument(
        "--no-process-faults",
        action="store_true",
        help="no disks that fail or are slow, no clocks that step; needs no cc",
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave logs (and data, where no tmpfs) in a directory")
    parsed = parser.parse_args(arguments)
    for wanted, option in ((parsed.secured, "--secured"), (parsed.kind == BOTH, f"--kind {BOTH}")):
        if wanted and parsed.workload != RECORDS:
            parser.error(f"{option} goes with --workload records")
    return parsed


def main() -> int:
    arguments = parse(sys.argv[1:])
    place = arguments.keep or Path(tempfile.mkdtemp(prefix="kavka-chaos-"))
    failed = False
    compared: dict[str, Outcome] = {}
    try:
        for index, campaign in enumerate(campaigns(arguments)):
            print(campaign, flush=True)
            shutil.rmtree(place / f"campaign-{index}", ignore_errors=True)
            outcome = run(campaign, place / f"campaign-{index}")
            print("\n".join(outcome.lines))
            print("\n".join(f"FAILED  {text}" for text in outcome.failures) or "no anomaly", flush=True)
            failed = failed or bool(outcome.failures)
            compared[campaign.kind] = outcome
            if arguments.kind == BOTH and len(compared) == len(BRANDS):
                print("\n".join(comparison.lines(compared)), flush=True)
                compared.clear()
    except NoNetworkLab as missing:
        print(f"chaos: {missing}; --no-network --no-small-disks runs without")
        return 2
    except NoProcessFaults as missing:
        print(f"chaos: {missing}; --no-process-faults runs without")
        return 2
    except PeerMissing as missing:
        print(f"chaos: {missing}; --zookeeper kavka runs without")
        return 2
    finally:
        if not arguments.keep:
            shutil.rmtree(place, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
