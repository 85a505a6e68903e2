"""Watches a simulated cluster after every step, with eyes that no broker has, and says which rule was broken.

Decides whether a run was right. It sees every live broker's partitions, the znodes as they are, and what clients were
told; it keeps the ghosts of reliability.md: `acked`, `consumed` and the true high watermark, which no broker may read.

    R1   every member of the stored ISR has, below a leader's high watermark, what the leader has there
    R3   a leader is in the ISR; the ISR is not empty and made of replicas
    R4   two replicas are equal below the lesser of their high watermarks
    R5   who leads in the stored epoch has everything that ever was committed
    R6   so has every running member of the stored ISR, unless it lost power and nobody noticed yet
    R8   the leader's maximal ISR holds the stored ISR
    R9   log start <= HW <= LEO; a leader's HW never falls in its epoch
    R13  leader epochs and partition epochs only rise; one leader per epoch
    R15  one controller per controller epoch
    R16  what was acknowledged with acks=all lies below a high watermark that some leader had
    R17  what was sent after an acknowledgement lies behind it
    R18  an offset never shows two values; offsets of a reader rise
    R19  a reader sees only what is committed

To stay cheap it looks only at what a step may have touched: the partitions of the broker whose turn it was, and the
znodes if the tree's zxid moved; of a log only the batches that are new. A replica's log is kept as a chain of
digests, one for each batch end, so that two logs are compared below any batch end by one look each. What it sees change
(a state stored, a high watermark, an acknowledgement, a record read) goes into `digest`: two runs can be compared.

Source: reliability.md 1a; hachikuji's and Vanlightly's TLA+ models for the ghosts.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kavka.model import NO_LEADER, LeaderEpoch, Offset, TopicPartition
from kavka.records.batch import iterate_batches
from kavka.simulator.trace import ZOOKEEPER, ReplicaLook
from kavka.zookeeper.znodes import (
    CONTROLLER_EPOCH_PATH,
    CONTROLLER_PATH,
    ControllerNode,
    MalformedZNode,
    PartitionState,
    TopicAssignment,
    decode_controller_epoch,
    partition_state_path,
    topic_path,
)

if TYPE_CHECKING:
    import uuid
    from collections.abc import Mapping

    from kavka.log.unified_log import UnifiedLog
    from kavka.model import LeaderAndIsr
    from kavka.replication.isr import IsrState
    from kavka.replication.partition import Partition
    from kavka.simulator.broker import SimulatedBroker
    from kavka.simulator.trace import Trace
    from kavka.simulator.zookeeper import SimulatedZooKeeper
    from kavka.zookeeper.tree import Node

READ_BYTES: Final = 64 * 1024 * 1024


class Violation(Exception):
    """A rule was broken. `rule` is its name in reliability.md."""

    def __init__(self, rule: str, at_ms: int, text: str) -> None:
        super().__init__(f"{rule} at {at_ms} ms: {text}")
        self.rule = rule
        self.at_ms = at_ms


class LogMirror:
    """What an observer knows of one replica's log: batch ends, and the digest of all that lies below each."""

    __slots__ = ("digests", "ends", "start")

    def __init__(self) -> None:
        self.start: Offset = 0
        self.ends: list[Offset] = []
        self.digests: list[int] = []

    @property
    def end(self) -> Offset:
        return self.ends[-1] if self.ends else self.start

    def follow(self, log: UnifiedLog) -> bool:
        """Takes over what changed; whether anything did."""
        if log.log_end_offset == self.end and log.log_start_offset == self.start and self._last_is_there(log):
            return False
        if log.log_start_offset != self.start:
            self._restart(log)
        keep = bisect_right(self.ends, log.log_end_offset)
        del self.ends[keep:], self.digests[keep:]
        while self.ends and not self._last_is_there(log):
            self.ends.pop()
            self.digests.pop()
        offset = self.end
        digest = self.digests[-1] if self.digests else 0
        while offset < log.log_end_offset:
            result = log.read(offset, READ_BYTES, max_offset=log.log_end_offset, min_one_batch=True)
            for chunk in result.chunks:
                for batch in iterate_batches(memoryview(chunk.tobytes())):
                    header = batch.header
                    identity = (header.base_offset, header.partition_leader_epoch, header.crc)
                    digest = zlib.crc32(repr(identity).encode(), digest)
                    self.ends.append(header.last_offset + 1)
                    self.digests.append(digest)
            offset = result.next_offset
        return True

    def _restart(self, log: UnifiedLog) -> None:
        """The log starts elsewhere: digests begin anew there."""
        self.start = log.log_start_offset
        self.ends.clear()
        self.digests.clear()

    def _last_is_there(self, log: UnifiedLog) -> bool:
        """Whether the last batch known is still the one that the log has there."""
        if not self.ends:
            return True
        begin = self.ends[-2] if len(self.ends) > 1 else self.start
        if self.ends[-1] > log.log_end_offset or begin < log.log_start_offset:
            return False
        before = self.digests[-2] if len(self.digests) > 1 else 0
        result = log.read(begin, 1, max_offset=log.log_end_offset, min_one_batch=True)
        for chunk in result.chunks:
            for batch in iterate_batches(memoryview(chunk.tobytes())):
                header = batch.header
                identity = (header.base_offset, header.partition_leader_epoch, header.crc)
                return zlib.crc32(repr(identity).encode(), before) == self.digests[-1]
        return False

    def take_over(self, other: LogMirror, bound: Offset) -> None:
        """Becomes what `other` has below `bound`. What is the same already is not copied again."""
        keep = bisect_right(other.ends, bound)
        have = len(self.ends)
        if self.start != other.start or have > keep or (have and self.digests[-1] != other.digests[have - 1]):
            self.start, have = other.start, 0
            self.ends.clear()
            self.digests.clear()
        self.ends += other.ends[have:keep]
        self.digests += other.digests[have:keep]

    def digest_below(self, offset: Offset) -> tuple[Offset, int]:
        """(batch end, digest of all below it) for the last batch that ends at or before `offset`."""
        index = bisect_right(self.ends, offset)
        return (self.ends[index - 1], self.digests[index - 1]) if index else (self.start, 0)


class _Look(NamedTuple):
    """What was seen of a replica last."""

    log_end_offset: Offset
    high_watermark: Offset
    state: LeaderAndIsr
    is_leader: bool
    isr: IsrState


class _Seen:
    """A replica in one life of its broker, as the observer knows it."""

    __slots__ = ("look", "mirror", "name", "partition")

    def __init__(self, partition: Partition, broker_id: int) -> None:
        self.partition = partition
        self.name = f"{partition.topic_partition} at broker {broker_id}"
        self.mirror = LogMirror()
        self.look: _Look | None = None


class _Stored(NamedTuple):
    """A partition's state znode."""

    state: PartitionState
    version: int


class Observer:
    """The watching eye of one simulation. `allow_loss` (unclean elections, more crashes than min.insync.replicas bears)
    leaves out the rules that do not hold then."""

    def __init__(
        self, zookeeper: SimulatedZooKeeper, *, topics: list[str], allow_loss: bool = False, trace: Trace | None = None
    ) -> None:
        self._zookeeper = zookeeper
        self._trace = trace
        self._topics = topics
        self._allow_loss = allow_loss
        self._zxid = -1
        self._replicas: dict[TopicPartition, dict[int, _Seen]] = {}
        self._lives: dict[int, int] = {}
        self._powerless: dict[tuple[int, TopicPartition], None] = {}
        """Replicas that lost power and have not been seen with all that is committed since."""
        self._topic_nodes: dict[str, tuple[int, int]] = {}
        self._partitions_of: dict[str, list[TopicPartition]] = {}
        self.stored: dict[TopicPartition, _Stored] = {}
        self._assigned: dict[TopicPartition, tuple[int, ...]] = {}
        self._topic_ids: dict[str, uuid.UUID | None] = {}
        self._leaders: dict[tuple[TopicPartition, LeaderEpoch], int] = {}
        self._controllers: dict[int, int] = {}
        self.true_high_watermark: dict[TopicPartition, Offset] = {}
        self._committed: dict[TopicPartition, LogMirror] = {}
        """The log below the true high watermark, as the leader that raised it last had it."""
        self.acked: dict[TopicPartition, dict[Offset, bytes]] = {}
        self._last_acked: dict[TopicPartition, Offset] = {}
        self.consumed: dict[TopicPartition, dict[Offset, bytes]] = {}
        self.events_checked = 0
        """Steps after which the rules were evaluated for what the step may have touched."""
        self.changes_checked = 0
        """How many of them changed something that a rule speaks of."""
        self.digest = 0
        self.now_ms = 0

    def note(self, event: str) -> None:
        """Makes `event` part of the digest."""
        self.digest = zlib.crc32(f"{self.now_ms} {event}".encode(), self.digest)

    @property
    def controller(self) -> int:
        """Who holds the controller's seat, as ZooKeeper has it; -1 for nobody."""
        if not self._zookeeper.is_serving:
            return -1
        node = self._zookeeper.embedded.database.tree.by_path.get(CONTROLLER_PATH)
        return ControllerNode.decode(node.data).broker_id if node is not None else -1

    # -- after a step

    def check_broker(self, broker: SimulatedBroker, now_ms: int) -> None:
        """Looks at what the broker's step may have changed."""
        self.now_ms = now_ms
        self.events_checked += 1
        hosted = broker.broker
        if hosted is None:
            return
        if self._lives.get(broker.broker_id) != broker.life:
            self._lives[broker.broker_id] = broker.life
            for seen_replicas in self._replicas.values():
                seen_replicas.pop(broker.broker_id, None)
        for partition in hosted.replicas.partitions():
            topic_partition = partition.topic_partition
            replicas = self._replicas.get(topic_partition)
            if replicas is None:
                if topic_partition.topic not in self._topics:
                    continue
                replicas = self._replicas[topic_partition] = {}
            seen = replicas.get(broker.broker_id)
            if seen is None or seen.partition is not partition:
                seen = replicas[broker.broker_id] = _Seen(partition, broker.broker_id)
            look, log = seen.look, partition.log
            if (
                look is None
                or look.isr is not partition.isr_state
                or look.state is not partition.state
                or look.log_end_offset != log.log_end_offset
                or look.high_watermark != log.high_watermark
                or look.is_leader is not partition.is_leader
            ):
                self.check_znodes(now_ms)
                self._check_replica(broker.broker_id, seen, look)

    def check_znodes(self, now_ms: int) -> None:
        """Takes over what ZooKeeper has now."""
        self.now_ms = now_ms
        if not self._zookeeper.is_serving:
            return
        tree = self._zookeeper.embedded.database.tree
        if tree.zxid == self._zxid:
            return
        self._zxid = tree.zxid
        self.changes_checked += 1
        nodes = tree.by_path
        self._check_controller(nodes)
        for topic in self._topics:
            node = nodes.get(topic_path(topic))
            if node is None:
                if self._topic_nodes.pop(topic, None) is not None:
                    self._forget(topic)
                continue
            if self._topic_nodes.get(topic) != (node.mzxid, node.czxid):
                self._on_assignment(topic, node)
            for partition in self._partitions_of.get(topic, ()):
                state_node = nodes.get(partition_state_path(partition))
                if state_node is not None:
                    self._check_state(partition, state_node)

    def _on_assignment(self, topic: str, node: Node) -> None:
        """A topic is new, or its replicas are others."""
        try:
            assignment = TopicAssignment.decode(topic, node.data)
        except MalformedZNode:
            return
        self._topic_nodes[topic] = (node.mzxid, node.czxid)
        self._topic_ids[topic] = assignment.topic_id
        self._partitions_of[topic] = [TopicPartition(topic, index) for index in assignment.partitions]
        for index, replicas in assignment.partitions.items():
            partition = TopicPartition(topic, index)
            self._assigned[partition] = tuple(replicas)
            self.note(f"assigned {partition} {tuple(replicas)}")

    def _forget(self, topic: str) -> None:
        """The topic was deleted: what is made under its name later is another one."""
        self._partitions_of.pop(topic, None)
        tables: tuple[dict[TopicPartition, Any], ...] = (
            self._replicas,
            self.stored,
            self._assigned,
            self.true_high_watermark,
            self._committed,
            self.acked,
            self._last_acked,
            self.consumed,
        )
        for table in tables:
            for partition in [partition for partition in table if partition.topic == topic]:
                del table[partition]
        for key in [key for key in self._leaders if key[0].topic == topic]:
            del self._leaders[key]
        self.note(f"deleted {topic}")

    def _check_state(self, partition: TopicPartition, node: Node) -> None:
        before = self.stored.get(partition)
        if before is not None and before.version == node.version:
            return
        state = PartitionState.decode(partition, node.data)
        replicas = self._assigned[partition]
        self.stored[partition] = _Stored(state, node.version)
        self.note(f"stored {partition} {state.leader} {state.leader_epoch} {state.isr} {node.version}")
        if self._trace is not None:
            self._trace.on_stored(partition, state, node.version)
        self._require("R3", state.leader == NO_LEADER or state.leader in state.isr, f"{partition}: {state}")
        self._require("R3", bool(state.isr) and set(state.isr) <= set(replicas), f"{partition}: {state} of {replicas}")
        if before is not None:
            rises = state.leader_epoch >= before.state.leader_epoch and node.version > before.version
            self._require("R13", rises, f"{partition}: {state} after {before.state}")
        if state.leader != NO_LEADER:
            holder = self._leaders.setdefault((partition, state.leader_epoch), state.leader)
            self._require("R13", holder == state.leader, f"{partition}: {holder} and {state.leader} in one epoch")
        if not self._allow_loss:
            for broker_id in state.isr:
                self._check_member(partition, broker_id)

    def _check_controller(self, nodes: Mapping[str, Node]) -> None:
        holder, epoch_node = nodes.get(CONTROLLER_PATH), nodes.get(CONTROLLER_EPOCH_PATH)
        if holder is None or epoch_node is None:
            return
        epoch = decode_controller_epoch(epoch_node.data)
        broker_id = ControllerNode.decode(holder.data).broker_id
        known = self._controllers.get(epoch)
        if known is None:
            self._controllers[epoch] = known = broker_id
            self.note(f"controller {broker_id} epoch {epoch}")
            if self._trace is not None:
                self._trace.on_node(ZOOKEEPER, "controller seated", f"broker-{broker_id}, controller epoch {epoch}")
        self._require("R15", known == broker_id, f"brokers {known} and {broker_id} in controller epoch {epoch}")

    def _check_replica(self, broker_id: int, seen: _Seen, before: _Look | None) -> None:
        partition = seen.partition
        log = partition.log
        look = seen.look = _Look(
            log.log_end_offset, log.high_watermark, partition.state, partition.is_leader, partition.isr_state
        )
        topic_partition = partition.topic_partition
        if partition.topic_id != self._topic_ids.get(topic_partition.topic):
            return  # A replica of a topic that had this name before.
        self.changes_checked += 1
        if self._trace is not None:
            epoch, isr = look.state.leader_epoch, look.isr.isr
            shown = ReplicaLook(look.is_leader, epoch, isr, look.log_end_offset, look.high_watermark)
            self._trace.on_replica(f"broker-{broker_id}", topic_partition, shown)
        if before is None or look.log_end_offset != before.log_end_offset or look.state is not before.state:
            seen.mirror.follow(log)
        if before is None or look.high_watermark != before.high_watermark or look.is_leader is not before.is_leader:
            self.note(f"{seen.name} leads {look.is_leader} {look.high_watermark} of {look.log_end_offset}")
        if not log.log_start_offset <= look.high_watermark <= look.log_end_offset:
            self._require("R9", holds=False, text=f"{seen.name}: start {log.log_start_offset}, {look}")
        if look.is_leader:
            self._check_leader(broker_id, seen, before, look)
        elif not self._allow_loss:
            self._compare(broker_id, topic_partition, look.high_watermark, "R4", seen.name)
        if not self._allow_loss and (before is None or look.log_end_offset < before.log_end_offset):
            self._check_member(topic_partition, broker_id)

    def _check_member(self, partition: TopicPartition, broker_id: int) -> None:
        """R6, and with it R1: a running member of the stored ISR has all that is committed, and nothing else there."""
        seen = self._replicas.get(partition, {}).get(broker_id)
        stored, committed = self.stored.get(partition), self._committed.get(partition)
        if seen is None or stored is None or committed is None or broker_id not in stored.state.isr:
            return
        if not self._is_present(seen) or not committed.ends:
            return
        seen.mirror.follow(seen.partition.log)
        if seen.mirror.start != committed.start:
            return
        end, digest = committed.ends[-1], committed.digests[-1]
        has_all = seen.mirror.digest_below(end) == (end, digest)
        if (broker_id, partition) in self._powerless:
            if has_all:
                del self._powerless[broker_id, partition]
            return
        if not has_all:
            self._require(
                "R6",
                holds=False,
                text=f"{seen.name}, in the ISR {stored.state.isr}, lacks committed records below {end}",
            )

    def _check_leader(self, broker_id: int, seen: _Seen, before: _Look | None, look: _Look) -> None:
        topic_partition, name = seen.partition.topic_partition, seen.name
        is_same_reign = before is not None and before.is_leader and before.state.leader_epoch == look.state.leader_epoch
        if before is not None and is_same_reign:
            self._require("R9", look.high_watermark >= before.high_watermark, f"{name}: HW fell, {before} to {look}")
        stored = self.stored.get(topic_partition)
        if stored is None or self._allow_loss:
            return
        if stored.state.leader == broker_id and stored.state.leader_epoch == look.state.leader_epoch:
            true_high_watermark = self.true_high_watermark.get(topic_partition, 0)
            if look.log_end_offset < true_high_watermark:
                self._require("R5", holds=False, text=f"{name}: {look}, true HW {true_high_watermark}")
            self._check_committed(topic_partition, seen)
            if not set(stored.state.isr) <= set(look.isr.maximal_isr):
                self._require(
                    "R8", holds=False, text=f"{name}: stored ISR {stored.state.isr}, maximal ISR {look.isr.maximal_isr}"
                )
        if before is None or not is_same_reign or look.high_watermark != before.high_watermark:
            self._on_high_watermark(broker_id, seen, look.high_watermark, stored)

    def _on_high_watermark(self, broker_id: int, seen: _Seen, high_watermark: Offset, stored: _Stored) -> None:
        partition, mirror = seen.partition.topic_partition, seen.mirror
        replicas = self._replicas[partition]
        here = mirror.digest_below(high_watermark)
        for member in stored.state.isr:
            # R1: what is committed here is there. A member that is down is looked at when it comes back.
            other = replicas.get(member)
            if member == broker_id or other is None or not self._is_present(other):
                continue
            if (member, partition) in self._powerless:
                continue
            other.mirror.follow(other.partition.log)
            there = other.mirror.digest_below(high_watermark)
            if here != there and mirror.start == other.mirror.start:
                self._require(
                    "R1",
                    holds=False,
                    text=f"{seen.name}: below {high_watermark} member {member} of {stored.state.isr} has {there}, "
                    f"not {here}",
                )
        if high_watermark > self.true_high_watermark.get(partition, 0):
            self.true_high_watermark[partition] = high_watermark
            committed = self._committed.get(partition)
            if committed is None:
                committed = self._committed[partition] = LogMirror()
            committed.take_over(mirror, high_watermark)

    def _check_committed(self, partition: TopicPartition, seen: _Seen) -> None:
        """R5: the true leader has every record that was ever committed, and not others in their place."""
        committed, mirror = self._committed.get(partition), seen.mirror
        if committed is not None and committed.ends and committed.start == mirror.start:
            end, digest = committed.ends[-1], committed.digests[-1]
            if mirror.digest_below(end) != (end, digest):
                self._require("R5", holds=False, text=f"{seen.name}: differs below the true HW {end}")

    def _compare(self, broker_id: int, partition: TopicPartition, high_watermark: Offset, rule: str, name: str) -> None:
        replicas = self._replicas[partition]
        mirror = replicas[broker_id].mirror
        for other_id, other in replicas.items():
            if other_id == broker_id or not self._is_present(other):
                continue
            bound = min(high_watermark, other.partition.log.high_watermark)
            if other.mirror.start == mirror.start:
                here, there = mirror.digest_below(bound), other.mirror.digest_below(bound)
                if here != there:
                    self._require(
                        rule, holds=False, text=f"{name}: below {bound} broker {other_id} has {there}, not {here}"
                    )

    @staticmethod
    def _is_present(seen: _Seen) -> bool:
        return seen.look is not None and not seen.partition.log.failure

    def on_power_cut(self, broker_id: int) -> None:
        """What the broker's disk holds is not known until it is back."""
        for partition, replicas in self._replicas.items():
            replicas.pop(broker_id, None)
            self._powerless[broker_id, partition] = None

    # -- what clients were told

    def on_acked(self, partition: TopicPartition, offset: Offset, value: bytes, sent_after: Offset) -> None:
        """`value` was acknowledged with acks=all at `offset`; `sent_after` is the highest offset of this partition that
        any client had been told of before this one was sent."""
        bound = self.true_high_watermark.get(partition, 0)
        self._require("R16", self._allow_loss or offset < bound, f"{partition}: {offset} acknowledged, true HW {bound}")
        self._require("R17", offset > sent_after, f"{partition}: {offset} was sent after {sent_after} was known")
        known = self.acked.setdefault(partition, {}).setdefault(offset, value)
        self._require("R18", known == value, f"{partition}: {offset} acknowledged for {known!r} and {value!r}")
        self._last_acked[partition] = max(offset, self.last_acked(partition))
        self.note(f"acked {partition} {offset}")

    def last_acked(self, partition: TopicPartition) -> Offset:
        return self._last_acked.get(partition, -1)

    def on_consumed(self, partition: TopicPartition, offset: Offset, value: bytes) -> None:
        bound = self.true_high_watermark.get(partition, 0)
        self._require("R19", self._allow_loss or offset < bound, f"{partition}: {offset} was read, true HW {bound}")
        known = self.consumed.setdefault(partition, {}).setdefault(offset, value)
        self._require("R18", self._allow_loss or known == value, f"{partition}: {offset} was {known!r}, is {value!r}")
        self.note(f"read {partition} {offset}")

    # -- at the end

    def check_converged(self, brokers: dict[int, SimulatedBroker]) -> list[str]:
        """What is missing for R20, in words; empty when everything has come together."""
        missing: list[str] = []
        for partition, stored in self.stored.items():
            replicas = self._assigned[partition]
            if stored.state.leader == NO_LEADER or set(stored.state.isr) != set(replicas):
                missing.append(f"{partition}: leader {stored.state.leader}, ISR {stored.state.isr} of {replicas}")
                continue
            logs = {}
            for replica in replicas:
                self.check_broker(brokers[replica], self.now_ms)
                hosted = brokers[replica].broker
                found = hosted.replicas.partition(*partition) if hosted is not None else None
                if found is None:
                    missing.append(f"{partition}: not at broker {replica}")
                    continue
                mirror = self._replicas[partition][replica].mirror
                mirror.follow(found.log)
                logs[replica] = (mirror.end, mirror.digests[-1:], found.log.high_watermark)
            if len({repr(value) for value in logs.values()}) > 1:
                missing.append(f"{partition}: logs differ: {logs}")
        return missing

    def check_nothing_lost(self, values: dict[TopicPartition, dict[Offset, bytes]]) -> None:
        """R7: every acknowledged record is where it was said to be. `values`: what a reader found in the end."""
        for partition, acked in self.acked.items():
            found = values.get(partition, {})
            for offset, value in acked.items():
                self._require(
                    "R7", found.get(offset) == value, f"{partition}: {offset} is {found.get(offset)!r}, not {value!r}"
                )
            times: dict[bytes, int] = {}
            for value in found.values():
                times[value] = times.get(value, 0) + 1
            doubled = [value for value in acked.values() if times.get(value, 0) > 1]
            self._require("P1", not doubled, f"{partition}: written twice: {doubled[:5]}")

    def _require(self, rule: str, holds: bool, text: str) -> None:
        if not holds:
            raise Violation(rule, self.now_ms, text)
