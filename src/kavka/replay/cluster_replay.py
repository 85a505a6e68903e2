"""ReplayedCluster: the recordings of one or more brokers replayed side by side, as one trace.

Decides the order of what several brokers recorded, and what of it is an event. What is decided again, and compared, is
`replay`'s; the trace is the simulator's own, so that a live cluster is stepped through like a simulated one.

    order       by the brokers' wall clocks, each broker's own order kept. On one machine that is the order in which
                things happened; on several it is as good as their clocks agree
    stored      a leader and an ISR are in ZooKeeper when anybody is known to know it: the controller that wrote them, a
                leader that was answered, a broker that was told. Each version once, the first time
    followers   as their leader saw them: a follower's log ends where it fetches. Its own high watermark is shown as the
                lower of its log end and the leader's. Whom it follows it says itself, where its own ring is there
    killed      a broker whose next life began without an end of the one before; it was after its last entry. Where no
                next life is recorded it may be dead or have nothing to tell: its recording ends

    I1  bounds: one file of each ring, and a trace, are in memory at a time; the partitions' states beside
    I2  with a window of time what was before it is shown at its beginning, in its state then
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kavka.decisions import Decision, DecisionKind
from kavka.flight.format import REFUSED, REPEATED, Check, Fetch, broker_ids, state_of
from kavka.flight.ring_reader import FlightRing, Gap
from kavka.model import NO_EPOCH, BrokerId, LeaderAndIsr, TopicPartition
from kavka.replay.broker_replay import BrokerReplay, Difference, Happened, ReplayedPartition
from kavka.simulator.host.trace import SIMULATOR, ZOOKEEPER, ReplicaLook, Trace
from kavka.zookeeper.znodes import PartitionState

AROUND_MS: Final = 60_000
"""With a moment to look at: so long before and after it."""


@dataclass(slots=True)
class ReplayedCluster:
    """What came of a replay."""

    trace: Trace
    brokers: list[BrokerReplay]
    wall_start_ms: int
    """When the trace begins."""
    duration_ms: int
    wall_seconds: float
    partitions: int
    faults: Counter[str] = field(default_factory=Counter)

    @property
    def differences(self) -> list[Difference]:
        return sorted(
            (difference for broker in self.brokers for difference in broker.differences),
            key=lambda difference: difference.at_ms,
        )

    @property
    def gaps(self) -> list[Gap]:
        return [gap for broker in self.brokers for gap in broker.gaps]

    @property
    def versions(self) -> list[str]:
        """Of kavka, that recorded."""
        return list(dict.fromkeys(version for broker in self.brokers for version in broker.versions))

    def as_json(self) -> dict[str, object]:
        counts = self.trace.counts
        return {
            "brokers": [broker.broker_id for broker in self.brokers],
            "partitions": self.partitions,
            "from_ms": self.wall_start_ms,
            "duration_ms": self.duration_ms,
            "inputs": sum(broker.inputs for broker in self.brokers),
            "decisions": sum(broker.decisions for broker in self.brokers),
            "leader_elections": sum(broker.elections for broker in self.brokers),
            "isr_changes": sum(broker.isr_changes for broker in self.brokers),
            "isr_shrinks": self.trace.isr_shrinks,
            "isr_expansions": self.trace.isr_expansions,
            "differences": [
                {
                    "at_ms": each.at_ms,
                    "broker": each.broker_id,
                    "partition": str(each.partition),
                    "what": each.what,
                    "recorded": each.recorded,
                    "replayed": each.replayed,
                }
                for each in self.differences
            ],
            "unreadable": [
                {"file": gap.path, "position": gap.position, "bytes": gap.length, "why": gap.why} for gap in self.gaps
            ],
            "versions": self.versions,
            "logs_cut_back": counts[DecisionKind.LOG_TRUNCATED.value],
            "faults": sum(self.faults.values()),
            "trace_events": self.trace.recorded,
            "digest": self.trace.digest,
            "wall_seconds": round(self.wall_seconds, 2),
        }


def replay_cluster(
    rings: Sequence[FlightRing],
    *,
    wanted: Callable[[TopicPartition], bool] = lambda partition: True,
    around_ms: int | None = None,
) -> ReplayedCluster:
    """Replays all of it. `around_ms`: only what happened near that moment is traced. Raises OSError."""
    began_s = time.perf_counter()
    brokers = [BrokerReplay(wanted) for _ in rings]
    told = [
        _in_order(broker.replay(ring.read()), broker, index)
        for index, (broker, ring) in enumerate(zip(brokers, rings, strict=True))
    ]
    teller = _Teller(brokers, around_ms)
    for at_ms, _index, _number, happened in heapq.merge(*told):
        teller.tell(at_ms, happened)
    return ReplayedCluster(
        teller.trace,
        sorted(brokers, key=lambda broker: broker.broker_id),
        teller.began_ms or 0,
        teller.duration_ms,
        time.perf_counter() - began_s,
        len(teller.stored),
        teller.faults,
    )


def _in_order(
    happened: Iterator[Happened], broker: BrokerReplay, index: int
) -> Iterator[tuple[int, int, int, Happened | Difference | Silence]]:
    """Times never go back: what was recorded late (a fetch that repeats the one before) gets the latest time so far."""
    latest_ms = number = differences = 0
    is_over = True
    for each in happened:
        fact = each.told if isinstance(each.told, dict) else {}
        if fact.get("f") == "life" and not fact["again"] and not is_over:
            number += 1
            yield latest_ms, index, number, Silence(each.broker_id, each.at_ms - latest_ms)
        is_over = fact.get("f") == "end"
        latest_ms = max(latest_ms, each.at_ms)
        number += 1
        yield latest_ms, index, number, each
        for difference in broker.differences[differences:]:
            number += 1
            yield latest_ms, index, number, difference
        differences = len(broker.differences)
    if not is_over:
        yield latest_ms, index, number + 1, Silence(broker.broker_id, None)


class Silence(NamedTuple):
    """No more was recorded; the next life began `until_next_ms` later, if one is recorded."""

    broker_id: BrokerId
    until_next_ms: int | None


class _Teller:
    """Makes events of what happened. Before the window it only keeps how things stand."""

    def __init__(self, brokers: Sequence[BrokerReplay], around_ms: int | None) -> None:
        self._brokers = brokers
        self._around_ms = around_ms
        self._now_ms = 0
        self._nodes: dict[str, tuple[str, str]] = {}
        """Whose rings are read: their latest begin or end."""
        self._looks: dict[tuple[str, TopicPartition], ReplicaLook] = {}
        self._controller = ""
        self._is_open = False
        self._versions: dict[TopicPartition, int] = {}
        self._next_versions: dict[tuple[str, TopicPartition], int] = {}
        """What the state will have that a controller is about to write."""
        self.stored: dict[TopicPartition, tuple[PartitionState, int]] = {}
        self.began_ms: int | None = None
        self.faults: Counter[str] = Counter()
        self.trace = Trace()
        self.trace.attach(lambda: self._now_ms - (self.began_ms or 0), dict)

    @property
    def duration_ms(self) -> int:
        return self._now_ms - self.began_ms if self.began_ms is not None else 0

    def tell(self, at_ms: int, happened: Happened | Difference | Silence) -> None:
        around_ms = self._around_ms
        if around_ms is not None and at_ms > around_ms + AROUND_MS:
            self._is_open = False
            return
        if not self._is_open and (around_ms is None or at_ms >= around_ms - AROUND_MS):
            self._open(at_ms)
        if self._is_open:
            self._now_ms = max(self._now_ms, at_ms)
        if isinstance(happened, Difference):
            if self._is_open:
                self.trace.on_node(SIMULATOR, "replay differs", str(happened))
            return
        if isinstance(happened, Silence):
            self._on_silence(happened)
        else:
            self._happen(happened)

    def _open(self, at_ms: int) -> None:
        """The window begins: as things stand."""
        self.began_ms = self._now_ms = at_ms
        self._is_open = True
        for node, (kind, text) in self._nodes.items():
            self.trace.on_node(node, kind, text)
        if self._controller:
            self.trace.on_node(ZOOKEEPER, "controller seated", self._controller)
        for partition, (state, version) in self.stored.items():
            self.trace.on_stored(partition, state, version)
        for (node, partition), look in self._looks.items():
            self.trace.on_replica(node, partition, look)

    def _happen(self, happened: Happened) -> None:
        node = f"broker-{happened.broker_id}"
        told = happened.told
        match told:
            case Decision():
                self._on_decision(node, told)
            case Fetch():
                if not told.flags & REFUSED and happened.partition is not None:
                    self._on_fetch(node, happened.partition, told)
            case Check():
                if happened.partition is not None:
                    self._look(node, happened.partition)
            case dict():
                self._on_fact(node, happened, told)

    # -- a broker

    def _on_fact(self, node: str, happened: Happened, fact: dict[str, Any]) -> None:
        match fact["f"]:
            case "life" if not fact["again"] or node not in self._nodes:
                self._on_life(node, fact)
            case "end":
                self._on_node(node, "stopped", "in order")
            case "brokers":
                if self._nodes.get(node, ("", ""))[0] == "started":
                    self._on_node(node, "serves", "the controller has told it of the cluster")
                if self._is_open:
                    live = ", ".join(map(str, fact["live"])) or "nobody"
                    self.trace.on_node(node, "hears who lives", live)
            case "stop":
                partition = TopicPartition(fact["topic"], fact["partition"])
                self._looks.pop((node, partition), None)
                if self._is_open:
                    verb = "deletes" if fact["delete"] else "stops"
                    self.trace.on_node(node, "replica stopped", f"{verb} its replica of {partition}")
            case "asked" | "judged":
                partition = TopicPartition(fact["topic"], fact["partition"])
                self._next_versions[node, partition] = fact["version"] + 1
            case "partition" | "lead" | "follow" | "answer" if happened.partition is not None:
                if "state" in fact:
                    self._on_state(happened.partition.topic_partition, state_of(fact["state"]))
                self._look(node, happened.partition)

    def _on_silence(self, silence: Silence) -> None:
        node = f"broker-{silence.broker_id}"
        if silence.until_next_ms is None:
            if self._is_open:
                self.trace.on_node(node, "recording ends", "what came later is in no file that was read")
            return
        self.faults["killed"] += 1
        text = f"at this moment or later: it recorded no end, and its next life began {silence.until_next_ms} ms after"
        self._on_node(node, "killed", text)

    def _on_life(self, node: str, fact: dict[str, Any]) -> None:
        for key in [key for key in self._looks if key[0] == node]:
            del self._looks[key]
        self._nodes[node] = ("started", f"kavka {fact['kavka']}")
        if self._is_open:
            self.trace.on_broker_began(node, f"kavka {fact['kavka']}")

    def _on_node(self, node: str, kind: str, text: str) -> None:
        self._nodes[node] = (kind, text)
        if self._is_open:
            self.trace.on_node(node, kind, text)

    # -- replicas

    def _look(self, node: str, found: ReplayedPartition) -> None:
        partition, log = found.partition, found.log
        if found.is_lost or partition.leader_epoch < 0:
            return
        look = ReplicaLook(
            partition.is_leader,
            partition.leader_epoch,
            tuple(sorted(partition.isr_state.maximal_isr)),
            log.log_end_offset,
            log.high_watermark,
        )
        self._on_look(node, found.topic_partition, look)

    def _on_fetch(self, node: str, found: ReplayedPartition, fetch: Fetch) -> None:
        self._look(node, found)
        if fetch.flags & REPEATED:
            return  # It tells of what was seen before, and moves nothing.
        follower = f"broker-{fetch.broker_id}"
        before = self._looks.get((follower, found.topic_partition))
        epoch = found.partition.leader_epoch
        if follower in self._nodes:
            if before is None or before.is_leader or before.leader_epoch != epoch:
                return
        elif before is not None and before.leader_epoch > epoch:
            return
        high_watermark = min(fetch.offset, found.log.high_watermark)
        look = ReplicaLook(False, epoch, (), fetch.offset, high_watermark)
        self._on_look(follower, found.topic_partition, look)

    def _on_look(self, node: str, partition: TopicPartition, look: ReplicaLook) -> None:
        self._looks[node, partition] = look
        if self._is_open:
            self.trace.on_replica(node, partition, look)

    # -- what is stored

    def _on_state(self, partition: TopicPartition, state: LeaderAndIsr, controller_epoch: int = NO_EPOCH) -> None:
        if state.partition_epoch <= self._versions.get(partition, NO_EPOCH):
            return
        self._versions[partition] = state.partition_epoch
        stored = PartitionState(state.leader, state.leader_epoch, state.isr, controller_epoch)
        self.stored[partition] = (stored, state.partition_epoch)
        if self._is_open:
            self.trace.on_stored(partition, stored, state.partition_epoch)

    # -- decisions

    def _on_decision(self, node: str, decision: Decision) -> None:
        if decision.kind is DecisionKind.CONTROLLER_ELECTED:
            self._controller = f"{node}, controller epoch {decision.controller_epoch}"
            if self._is_open:
                self.trace.on_node(ZOOKEEPER, "controller seated", self._controller)
        if decision.partition is not None and decision.controller_epoch >= 0 and decision.kind in _WRITES:
            self._on_written(node, decision.partition, decision)
        if self._is_open:
            self.trace.on_decision(node, decision)

    def _on_written(self, node: str, partition: TopicPartition, decision: Decision) -> None:
        """The controller reports what it has just written."""
        version = self._next_versions.pop((node, partition), None)
        leader, leader_epoch, isr = (decision.after.get(name) for name in ("leader", "leader_epoch", "isr"))
        if (
            version is not None
            and isinstance(leader, int)
            and isinstance(leader_epoch, int)
            and isinstance(isr, list | tuple)
        ):
            members = broker_ids([each for each in isr if isinstance(each, int)])
            state = LeaderAndIsr(BrokerId(leader), leader_epoch, members, version)
            self._on_state(partition, state, decision.controller_epoch)


_WRITES: Final = (
    DecisionKind.LEADER_ELECTED,
    DecisionKind.LEADER_NOT_ELECTED,
    DecisionKind.ISR_SHRUNK,
    DecisionKind.ISR_EXPANDED,
)
"""Why-records of a controller that follow a write of a partition's state."""
