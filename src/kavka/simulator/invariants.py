"""Watches a simulated cluster after every step, with eyes that no broker has, and says which rule was broken.

Decides whether a run was right. It sees every live broker's partitions, the znodes as they are, and what clients were
told; it keeps the ghosts of reliability.md: `acked`, `consumed` and the true high watermark, which no broker may read.

    R1   every member of the stored ISR has, below a leader's high watermark, what the leader has there
    R3   a leader is in the ISR; the ISR is not empty and made of replicas
    R4   two replicas are equal below the lesser of their high watermarks
    R5   who leads in the stored epoch has everything that ever was committed
    R8   the leader's maximal ISR holds the stored ISR
    R9   log start <= HW <= LEO; a leader's HW never falls in its epoch
    R13  leader epochs and partition epochs only rise; one leader per epoch
    R15  one controller per controller epoch
    R16  what was acknowledged with acks=all lies below a high watermark that some leader had
    R17  what was sent after an acknowledgement lies behind it
    R18  an offset never shows two values; offsets of a reader rise
    R19  a reader sees only what is committed

To stay cheap it looks only at what a step may have touched: the partitions of the broker whose turn it was, and the
znodes if the tree's zxid moved; of a log only the batches that are new. A replica's log is kept as a chain of digests,
one for each batch end, so that two logs are compared below any batch end by one look each.

Source: reliability.md 1a; hachikuji's and Vanlightly's TLA+ models for the ghosts.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.model import NO_LEADER, BrokerId, LeaderEpoch, Offset, TopicPartition
from kavka.records.batch import iterate_batches
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
    from kavka.log.unified_log import UnifiedLog
    from kavka.replication.partition import Partition
    from kavka.simulator.broker import SimulatedBroker
    from kavka.simulator.zookeeper import SimulatedZooKeeper

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

    def digest_below(self, offset: Offset) -> tuple[Offset, int]:
        """(batch end, digest of all below it) for the last batch that ends at or before `offset`."""
        index = bisect_right(self.ends, offset)
        return (self.ends[index - 1], self.digests[index - 1]) if index else (self.start, 0)


class _Look(NamedTuple):
    """What was seen of a replica last: if it is the same again, there is nothing to check."""

    log_end_offset: Offset
    high_watermark: Offset
    leader_epoch: LeaderEpoch
    is_leader: bool
    maximal_isr: tuple[BrokerId, ...]
    last_epoch: LeaderEpoch


class _Seen:
    """A replica, as the observer knows it."""

    __slots__ = ("life", "look", "mirror", "partition")

    def __init__(self, life: int, partition: Partition) -> None:
        self.life = life
        self.partition = partition
        self.mirror = LogMirror()
        self.look: _Look | None = None


class _Stored(NamedTuple):
    """A partition's state znode."""

    state: PartitionState
    version: int


class Observer:
    """The watching eye of one simulation. `allow_loss` (unclean elections, more crashes than min.insync.replicas bears)
    leaves out the rules that do not hold then."""

    def __init__(self, zookeeper: SimulatedZooKeeper, *, topics: list[str], allow_loss: bool = False) -> None:
        self._zookeeper = zookeeper
        self._topics = topics
        self._allow_loss = allow_loss
        self._zxid = -1
        self._replicas: dict[tuple[int, TopicPartition], _Seen] = {}
        self.stored: dict[TopicPartition, _Stored] = {}
        self._assigned: dict[TopicPartition, tuple[int, ...]] = {}
        self._leaders: dict[tuple[TopicPartition, LeaderEpoch], int] = {}
        self._controllers: dict[int, int] = {}
        self.true_high_watermark: dict[TopicPartition, Offset] = {}
        self._committed: dict[TopicPartition, LogMirror] = {}
        """The log below the true high watermark, as the leader that raised it last had it."""
        self.acked: dict[TopicPartition, dict[Offset, bytes]] = {}
        self._last_acked: dict[TopicPartition, Offset] = {}
        self.consumed: dict[TopicPartition, dict[Offset, bytes]] = {}
        self.events_checked = 0
        self.now_ms = 0

    # -- after a step

    def check_broker(self, broker: SimulatedBroker, now_ms: int) -> None:
        """Looks at what the broker's step may have changed."""
        self.now_ms = now_ms
        hosted = broker.broker
        if hosted is None:
            return
        self.check_znodes(now_ms)
        for partition in hosted.replicas.partitions():
            if partition.topic_partition.topic in self._topics:
                self._check_replica(broker, partition)

    def check_znodes(self, now_ms: int) -> None:
        """Takes over what ZooKeeper has now."""
        self.now_ms = now_ms
        if not self._zookeeper.is_serving:
            return
        tree = self._zookeeper.embedded.database.tree
        if tree.zxid == self._zxid:
            return
        self._zxid = tree.zxid
        self.events_checked += 1
        nodes = tree.by_path
        self._check_controller(nodes)
        for topic in self._topics:
            node = nodes.get(topic_path(topic))
            if node is None:
                continue
            try:
                assignment = TopicAssignment.decode(topic, node.data)
            except MalformedZNode:
                continue
            for index, replicas in assignment.partitions.items():
                self._check_state(TopicPartition(topic, index), tuple(replicas), nodes)

    def _check_state(self, partition: TopicPartition, replicas: tuple[int, ...], nodes: object) -> None:
        assert isinstance(nodes, dict)
        node = nodes.get(partition_state_path(partition))
        if node is None:
            return
        state = PartitionState.decode(partition, node.data)
        before = self.stored.get(partition)
        if before is not None and before.version == node.version:
            return
        self.stored[partition] = _Stored(state, node.version)
        self._assigned[partition] = replicas
        self._require("R3", state.leader == NO_LEADER or state.leader in state.isr, f"{partition}: {state}")
        self._require("R3", bool(state.isr) and set(state.isr) <= set(replicas), f"{partition}: {state} of {replicas}")
        if before is not None:
            rises = state.leader_epoch >= before.state.leader_epoch and node.version > before.version
            self._require("R13", rises, f"{partition}: {state} after {before.state}")
        if state.leader != NO_LEADER:
            holder = self._leaders.setdefault((partition, state.leader_epoch), state.leader)
            self._require("R13", holder == state.leader, f"{partition}: {holder} and {state.leader} in one epoch")

    def _check_controller(self, nodes: object) -> None:
        assert isinstance(nodes, dict)
        holder, epoch_node = nodes.get(CONTROLLER_PATH), nodes.get(CONTROLLER_EPOCH_PATH)
        if holder is None or epoch_node is None:
            return
        epoch = decode_controller_epoch(epoch_node.data)
        broker_id = ControllerNode.decode(holder.data).broker_id
        known = self._controllers.setdefault(epoch, broker_id)
        self._require("R15", known == broker_id, f"brokers {known} and {broker_id} in controller epoch {epoch}")

    def _check_replica(self, broker: SimulatedBroker, partition: Partition) -> None:
        key = (broker.broker_id, partition.topic_partition)
        seen = self._replicas.get(key)
        if seen is None or seen.life != broker.life or seen.partition is not partition:
            seen = self._replicas[key] = _Seen(broker.life, partition)
        log = partition.log
        look = _Look(
            log.log_end_offset,
            log.high_watermark,
            partition.leader_epoch,
            partition.is_leader,
            partition.isr_state.maximal_isr if partition.is_leader else (),
            log.latest_epoch or -1,
        )
        before, seen.look = seen.look, look
        if look == before:
            return
        self.events_checked += 1
        if before is None or look.log_end_offset != before.log_end_offset or look.last_epoch != before.last_epoch:
            seen.mirror.follow(log)
        name = f"{partition.topic_partition} at broker {broker.broker_id}"
        ordered = log.log_start_offset <= look.high_watermark <= look.log_end_offset
        self._require("R9", ordered, f"{name}: start {log.log_start_offset}, {look}")
        if look.is_leader:
            self._check_leader(broker, partition, before, look, name)
        elif not self._allow_loss:
            self._compare(broker.broker_id, partition.topic_partition, look.high_watermark, "R4", name)

    def _check_leader(
        self, broker: SimulatedBroker, partition: Partition, before: _Look | None, look: _Look, name: str
    ) -> None:
        topic_partition = partition.topic_partition
        if before is not None and before.is_leader and before.leader_epoch == look.leader_epoch:
            self._require("R9", look.high_watermark >= before.high_watermark, f"{name}: HW fell, {before} to {look}")
        stored = self.stored.get(topic_partition)
        if stored is None or self._allow_loss:
            return
        is_true_leader = (
            stored.state.leader == broker.broker_id and stored.state.leader_epoch == partition.state.leader_epoch
        )
        if is_true_leader:
            true_high_watermark = self.true_high_watermark.get(topic_partition, 0)
            self._require(
                "R5", look.log_end_offset >= true_high_watermark, f"{name}: {look}, true HW {true_high_watermark}"
            )
            self._check_committed(topic_partition, broker.broker_id, name)
            stored_isr = set(stored.state.isr)
            covered = stored_isr <= set(look.maximal_isr)
            self._require("R8", covered, f"{name}: stored ISR {stored.state.isr}, maximal ISR {look.maximal_isr}")
        if before is None or look.high_watermark != before.high_watermark or look.leader_epoch != before.leader_epoch:
            self._on_high_watermark(broker.broker_id, topic_partition, look.high_watermark, stored, name)

    def _on_high_watermark(
        self, broker_id: int, partition: TopicPartition, high_watermark: Offset, stored: _Stored, name: str
    ) -> None:
        mirror = self._replicas[broker_id, partition].mirror
        for member in stored.state.isr:
            # R1: what is committed here is there. A member that is down is looked at when it comes back.
            other = self._replicas.get((member, partition))
            if member != broker_id and other is not None and self._is_present(other):
                other.mirror.follow(other.partition.log)
                here, there = mirror.digest_below(high_watermark), other.mirror.digest_below(high_watermark)
                same_start = mirror.start == other.mirror.start
                self._require(
                    "R1",
                    not same_start or here == there,
                    f"{name}: below {high_watermark} member {member} of {stored.state.isr} has {there}, not {here}",
                )
        if high_watermark > self.true_high_watermark.get(partition, 0):
            self.true_high_watermark[partition] = high_watermark
            committed = self._committed.setdefault(partition, LogMirror())
            committed.start = mirror.start
            keep = bisect_right(mirror.ends, high_watermark)
            committed.ends, committed.digests = mirror.ends[:keep], mirror.digests[:keep]

    def _check_committed(self, partition: TopicPartition, broker_id: int, name: str) -> None:
        """R5: the true leader has every record that was ever committed, and not others in their place."""
        committed = self._committed.get(partition)
        mirror = self._replicas[broker_id, partition].mirror
        if committed is not None and committed.ends and committed.start == mirror.start:
            end, digest = committed.ends[-1], committed.digests[-1]
            self._require("R5", mirror.digest_below(end) == (end, digest), f"{name}: differs below the true HW {end}")

    def _compare(self, broker_id: int, partition: TopicPartition, high_watermark: Offset, rule: str, name: str) -> None:
        mirror = self._replicas[broker_id, partition].mirror
        for (other_id, other_partition), other in self._replicas.items():
            if other_partition != partition or other_id == broker_id or not self._is_present(other):
                continue
            bound = min(high_watermark, other.partition.log.high_watermark)
            if other.mirror.start == mirror.start:
                here, there = mirror.digest_below(bound), other.mirror.digest_below(bound)
                self._require(rule, here == there, f"{name}: below {bound} broker {other_id} has {there}, not {here}")

    @staticmethod
    def _is_present(seen: _Seen) -> bool:
        return seen.look is not None and not seen.partition.log.failure

    def on_power_cut(self, broker_id: int) -> None:
        """What the broker's disk holds is not known until it is back."""
        for key in [key for key in self._replicas if key[0] == broker_id]:
            del self._replicas[key]

    # -- what clients were told

    def on_acked(self, partition: TopicPartition, offset: Offset, value: bytes, sent_after: Offset) -> None:
        """`value` was acknowledged with acks=all at `offset`; `sent_after` is the highest offset of this partition that
        the same client had been told of before it sent this one."""
        bound = self.true_high_watermark.get(partition, 0)
        self._require("R16", self._allow_loss or offset < bound, f"{partition}: {offset} acknowledged, true HW {bound}")
        self._require("R17", offset > sent_after, f"{partition}: {offset} was sent after {sent_after} was known")
        known = self.acked.setdefault(partition, {}).setdefault(offset, value)
        self._require("R18", known == value, f"{partition}: {offset} acknowledged for {known!r} and {value!r}")

    def last_acked(self, partition: TopicPartition) -> Offset:
        return max(self.acked.get(partition, {}), default=-1)

    def on_consumed(self, partition: TopicPartition, offset: Offset, value: bytes) -> None:
        bound = self.true_high_watermark.get(partition, 0)
        self._require("R19", self._allow_loss or offset < bound, f"{partition}: {offset} was read, true HW {bound}")
        known = self.consumed.setdefault(partition, {}).setdefault(offset, value)
        self._require("R18", self._allow_loss or known == value, f"{partition}: {offset} was {known!r}, is {value!r}")

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
                hosted = brokers[replica].broker
                found = hosted.replicas.partition(*partition) if hosted is not None else None
                if found is None:
                    missing.append(f"{partition}: not at broker {replica}")
                    continue
                mirror = LogMirror()
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
