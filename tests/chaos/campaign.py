"""Campaign: what a run is to be, what came of it, and what runs of every workload ask of a cluster.

It judges no record; the checkers do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # exported in fact

from tests.chaos.nemesis import CLIENT_FAULTS, Fault
from tests.chaos.report import Recovery
from tests.kit.process_cluster import ProcessCluster, Server, eventually

Say = Callable[[str], None]
CONVERGENCE_S = 90.0
UNFORESEEN = ("unexpected failure", "request failed", "Traceback", "InvariantViolation")
LOG_LINE_SHOWN = 600
RECORDS, TRANSACTIONS = "records", "transactions"
RECORD_FAULTS = tuple(fault for fault in Fault if fault not in CLIENT_FAULTS | {Fault.RESTART})


@dataclass(frozen=True)
class Campaign:
    """What to run. min_insync less than brokers says how many may be disturbed at a time.

    rate: records a second of each producer.
    """

    workload: str = RECORDS
    brokers: int = 3
    zookeeper: str = "kavka"
    kind: str = "kavka"
    """kavka, kafka, or with a +, as kavka+, most of these and some of the other brand."""
    seconds: float = 150.0
    fewest_faults: int = 0
    """It goes on until it had so many: on a busy machine one fault may take most of `seconds`."""
    seed: int = 0
    faults: tuple[Fault, ...] = RECORD_FAULTS
    network: bool = True
    small_disks: bool = True
    partitions: int = 6
    producers: int = 3
    rate: int = 400
    interval_s: float = 5.0
    transformers: int = 4
    protocol: str = "classic"
    """Of the transformers' group."""
    secured: bool = False
    """Brokers and clients log in over TLS (tests/kit/secured_brokers.py)."""

    @property
    def kinds(self) -> dict[int, str]:
        """Each broker's brand: in a mixed cluster every other one is of the other brand, and `kind` says of which
        there are more."""
        main, mixed, _ = self.kind.partition("+")
        other = "kafka" if main == "kavka" else "kavka"
        return {number: other if mixed and number % 2 else main for number in range(self.brokers)}

    @property
    def min_insync(self) -> int:
        return self.brokers // 2 + 1

    def __str__(self) -> str:
        where = {"kavka": "kavka's ZooKeeper", "apache": "Apache's ZooKeeper", "ensemble": "an ensemble of three"}
        kinds = list(self.kinds.values())
        brands = " and ".join(f"{kinds.count(one)} of {one}" for one in ("kavka", "kafka") if one in kinds)
        what = f"{self.workload}: {self.brokers} brokers ({brands}) on {where[self.zookeeper]}"
        if self.secured:
            what += ", SASL_SSL"
        if self.workload == TRANSACTIONS:
            what += f", {self.transformers} transformers (group protocol {self.protocol})"
        return f"{what}, {self.seconds:.0f} s, seed {self.seed}"


@dataclass
class Outcome:
    """failures: anomalies and whatever else must not be, in words; none is a pass. `transactions`: committed."""

    failures: list[str]
    lines: list[str]
    acknowledged: int = 0
    faults: int = 0
    transactions: int = 0
    recoveries: dict[Fault, Recovery] = field(default_factory=dict)


def create_topics(cluster: ProcessCluster, campaign: Campaign, *names: str) -> None:
    """Returns when every replica is in sync."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0, **cluster.client_settings})
    topics = [NewTopic(name, campaign.partitions, campaign.brokers) for name in names]
    for future in admin.create_topics(topics, operation_timeout=30, request_timeout=40).values():
        future.result()
    wait_until_whole(cluster, dict.fromkeys(names, campaign.partitions))


def wait_until_whole(cluster: ProcessCluster, topics: dict[str, int]) -> None:
    """Until every replica of every partition is in sync; topics with their number of partitions. Raises
    AssertionError."""
    everybody = list(cluster.brokers)

    def whole() -> bool:
        states = {
            f"{name}-{index}": cluster.state(name, index) for name, count in topics.items() for index in range(count)
        }
        torn = {name: state for name, state in states.items() if sorted(state.isr) != everybody or state.leader < 0}
        assert not torn, torn
        return True

    eventually("every replica is in sync", whole, timeout_s=CONVERGENCE_S, every_s=0.1)


class Logging(Protocol):
    """A cluster whose brokers have logs."""

    @property
    def brokers(self) -> Mapping[int, Server]: ...

    def kind_of(self, broker_id: int, /) -> str: ...


def bugs_in_logs(cluster: Logging) -> Iterator[str]:
    """What kavka's brokers logged of failures that nobody foresaw; the first of each."""
    for number, server in cluster.brokers.items():
        if cluster.kind_of(number) != "kavka":
            continue
        lines = server.log_file.read_text(errors="replace").splitlines()
        found = [line for line in lines if any(event in line for event in UNFORESEEN)]
        if found:
            yield f"{server.name} logged {len(found)} failures that nobody foresaw: {found[0][:LOG_LINE_SHOWN]}"
