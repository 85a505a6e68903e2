"""Watches a simulated cluster after every step, sees what no broker can see, and reports which rule was broken.

Decides whether a run was right. It sees the partitions of every live broker, the znodes, and the answers to clients. It
keeps three ghost variables that no broker may read: `acked`, `consumed` and the true high watermark.

    R1   every member of the stored ISR has, below a leader's high watermark, what the leader has there
    R2   so has everybody whom that leader itself holds for in sync, also where another one leads by now
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
    R20  in the end all comes together: leaders, ISRs, logs, what brokers tell clients, and no replica left over
    R21  a reassignment ends when all of its targets have been in the ISR, or with the replicas that there were
    R22  a log that failed takes nothing any more; records are only removed where somebody asked for it

Beside it stand the rules of logs (`log_rules`: R2, R4, R11, R13, R16, R22), of joining and leading (`join_rules`: R10,
R12, R21), of fencing (`fencing_rules`: R14), of access (`access_rules`: R23 to R26), sessions (`session_rules`: R27 to
R29), connections (`connection_rules`: R30, R31) and what fetches leave out (`idle_rules`: R32).

To stay cheap it looks only at what a step may have touched: the partitions of the broker whose turn it was, and the
znodes if the tree's zxid moved; of a log only the batches that are new (`LogMirror`). What it sees change (a state
stored, a high watermark, an acknowledgement, a record read) goes into `digest`: two runs can be compared. Topics come
and go: what is known of one is forgotten with its znode.

Source: docs/design/rules.md; hachikuji's and Vanlightly's TLA+ models for the ghosts.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from kavka.model import NO_LEADER, LeaderEpoch, Offset, TopicPartition
from kavka.simulator.host.trace import ZOOKEEPER, ReplicaLook
from kavka.simulator.rules.access_rules import AccessRules
from kavka.simulator.rules.fencing_rules import FencingRules
from kavka.simulator.rules.group_rules import TOPIC as OFFSETS_TOPIC
from kavka.simulator.rules.group_rules import GroupRules
from kavka.simulator.rules.idle_rules import IdleRules
from kavka.simulator.rules.join_rules import JoinRules
from kavka.simulator.rules.log_mirror import LogMirror, differ
from kavka.simulator.rules.log_rules import LogRules
from kavka.simulator.rules.rare_states import States
from kavka.simulator.rules.replica_view import Look, Seen, Stored, View
from kavka.simulator.rules.replica_view import Violation as Violation
from kavka.simulator.rules.share_log import DEAD_LETTERS
from kavka.simulator.rules.share_log import TOPIC as SHARE_TOPIC
from kavka.simulator.rules.share_rules import ShareRules
from kavka.simulator.rules.streams_rules import StreamsRules
from kavka.simulator.rules.transaction_rules import LEDGER, TransactionRules
from kavka.zookeeper.znode_paths import (
    CONTROLLER_EPOCH_PATH,
    CONTROLLER_PATH,
    TOPICS_PATH,
    partition_state_path,
    topic_path,
)
from kavka.zookeeper.znodes import (
    ControllerNode,
    MalformedZNode,
    PartitionState,
    TopicAssignment,
    decode_controller_epoch,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from kavka.replication.decide.partition import Partition
    from kavka.simulator.host.broker import SimulatedBroker
    from kavka.simulator.host.trace import Trace
    from kavka.simulator.host.wire import Watcher
    from kavka.simulator.host.zookeeper import SimulatedZooKeeper
    from kavka.zookeeper.decide.node import Node


class _Reassignment(NamedTuple):
    """A change of replicas under way. `was_complete`: all targets were in the ISR at some time since it began."""

    before: frozenset[int]
    target: frozenset[int]
    was_complete: bool = False


_glance = attrgetter(
    "log.log_end_offset", "log.high_watermark", "log.log_start_offset", "log.failure", "state", "_isr", "_is_leader"
)
"""All that a step may have changed of a partition, in one call: it is made for each of a broker's, after each step."""


class _Hosts(NamedTuple):
    """What a broker hosts, as it was found last, and with which set of topics (the pzxid of their parent)."""

    partitions: list[Partition]
    topics: int
    seen: list[Seen]
    watched: list[Partition]
    """Those of `seen`."""
    looks: list[object]
    """What `_glance` saw of them last."""


class Observer(View):
    """The observer of one simulation, for all of its topics."""

    def __init__(self, zookeeper: SimulatedZooKeeper, *, allow_loss: bool = False, trace: Trace | None = None) -> None:
        super().__init__(allow_loss=allow_loss)
        self._zookeeper = zookeeper
        self._trace = trace
        self.states = States(self.replicas, self.topic_name)
        self._logs = LogRules(self)
        self._joins = JoinRules(self)
        self._idle = IdleRules(self)
        self.groups = GroupRules(self)
        self.watchers: list[Watcher] = [self.states, self._joins, FencingRules(self), self.groups]
        self.access = AccessRules(self, zookeeper)
        self.watchers.append(self.access)
        self.transactions = TransactionRules(self)
        self.watchers.append(self.transactions)
        self.shares = ShareRules(self)
        self.watchers.append(self.shares)
        self.streams = StreamsRules(self, self.groups)
        self.watchers.append(self.streams)
        """Who is told of what is asked and answered."""
        self._zxid = -1
        self._topics_pzxid = -1
        self._topics: list[str] = []
        self._lives: dict[int, int] = {}
        self._hosts: dict[int, _Hosts] = {}
        self._topic_nodes: dict[str, tuple[int, int]] = {}
        self._partitions_of: dict[str, list[TopicPartition]] = {}
        self._reassignments: dict[TopicPartition, _Reassignment] = {}
        self._removable: dict[TopicPartition, Offset] = {}
        """Below which offset somebody asked for records to be removed."""
        self._former_names: dict[str, None] = {}
        self._retained: dict[str, None] = {}
        """Topics from which retention may remove what is committed."""
        self._leaders: dict[tuple[TopicPartition, LeaderEpoch], int] = {}
        self._controllers: dict[int, int] = {}
        self.acked: dict[TopicPartition, dict[Offset, bytes]] = {}
        self._last_acked: dict[TopicPartition, Offset] = {}
        self._lost_in: dict[tuple[int, TopicPartition], LeaderEpoch] = {}
        """In which leader epoch, as it was stored, a replica lost power last."""
        self.consumed: dict[TopicPartition, dict[Offset, bytes]] = {}
        self.events_checked = 0
        """Steps after which the rules were evaluated for what the step may have touched."""
        self.changes_checked = 0
        """How many of them changed something that a rule speaks of."""

    @property
    def controller(self) -> int:
        """The controller according to ZooKeeper; -1 if there is none."""
        if not self._zookeeper.is_serving:
            return -1
        node = self._zookeeper.embedded.database.tree.by_path.get(CONTROLLER_PATH)
        return ControllerNode.decode(node.data).broker_id if node is not None else -1

    def paths_below(self, path: str) -> list[str]:
        """The znodes right below `path`, as ZooKeeper has them."""
        node = self._zookeeper.embedded.database.tree.by_path.get(path) if self._zookeeper.is_serving else None
        return [f"{path}/{name}" for name in node.child_names()] if node is not None else []

    # -- after a step

    def check_broker(self, broker: SimulatedBroker, now_ms: int) -> None:
        """Checks what the broker's step may have changed."""
        self.now_ms = now_ms
        self.events_checked += 1
        hosted = broker.hosted
        if hosted is None:
            return
        if self._lives.get(broker.broker_id) != broker.life:
            self._lives[broker.broker_id] = broker.life
            self._hosts.pop(broker.broker_id, None)
            for seen_replicas in self.replicas.values():
                former = seen_replicas.pop(broker.broker_id, None)
                if former is not None:
                    self._logs.on_life_over(broker.broker_id, former, is_whole=True)
        hosts = self._hosts.get(broker.broker_id)
        partitions = [*hosted.replicas.partitions()]
        if hosts is None or hosts.partitions != partitions or hosts.topics != self._topics_pzxid:
            for gone in set(hosts.partitions).difference(partitions) if hosts is not None else ():
                self._idle.on_gone(broker.broker_id, gone)
            hosts = self._hosts[broker.broker_id] = self._find_hosts(broker, partitions)
        looks = [*map(_glance, hosts.watched)]
        if looks == hosts.looks:
            return
        before, hosts.looks[:] = [*hosts.looks] or [None] * len(looks), looks
        for seen, now, then in zip(hosts.seen, looks, before, strict=True):
            if now != then:
                self.check_znodes(now_ms)
                self._check_replica(broker.broker_id, seen, seen.look)

    def _find_hosts(self, broker: SimulatedBroker, partitions: list[Partition]) -> _Hosts:
        """What of this, all that the broker hosts, is of topics that are known here."""
        found: list[Seen] = []
        for partition in partitions:
            topic_partition = partition.topic_partition
            if topic_partition.topic not in self._topic_nodes:
                continue
            replicas = self.replicas.setdefault(topic_partition, {})
            seen = replicas.get(broker.broker_id)
            if seen is None or seen.partition is not partition:
                seen = replicas[broker.broker_id] = Seen(partition, broker)
                seen.is_leaving = broker.broker_id not in self.assigned.get(topic_partition, ())
            found.append(seen)
        return _Hosts(partitions, self._topics_pzxid, found, [seen.partition for seen in found], [])

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
        topics = nodes.get(TOPICS_PATH)
        if topics is None:
            return
        if topics.pzxid != self._topics_pzxid:
            self._topics_pzxid = topics.pzxid
            for topic in [topic for topic in self._topic_nodes if topic_path(topic) not in nodes]:
                self._forget(topic)
            self._topics = topics.child_names()
        for topic in self._topics:
            node = nodes[topic_path(topic)]
            known = self._topic_nodes.get(topic)
            if known != (node.mzxid, node.czxid):
                if known is not None and known[1] != node.czxid:
                    self._forget(topic)  # Deleted and made again at once.
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
        if topic not in self._topic_nodes and topic in self._former_names:
            self.states.reach("topic made anew")
        self._topic_nodes[topic] = (node.mzxid, node.czxid)
        self.topic_ids[topic] = assignment.topic_id
        self._partitions_of[topic] = [TopicPartition(topic, index) for index in assignment.partitions]
        for index, replicas in assignment.partitions.items():
            partition = TopicPartition(topic, index)
            for broker_id in self.assigned.get(partition, ()):
                if broker_id not in replicas:
                    self._logs.on_removed(broker_id, partition)
            self.states.on_assigned(partition, self.assigned.get(partition, ()), tuple(replicas))
            self.assigned[partition] = tuple(replicas)
            adding, removing = assignment.adding_replicas.get(index, ()), assignment.removing_replicas.get(index, ())
            self._on_replicas(partition, frozenset(replicas), frozenset(adding), frozenset(removing))
            self.note(f"assigned {partition} {tuple(replicas)}")

    def _on_replicas(
        self, partition: TopicPartition, replicas: frozenset[int], adding: frozenset[int], removing: frozenset[int]
    ) -> None:
        """R21: what replicas a reassignment ends with."""
        under_way = self._reassignments.pop(partition, None)
        if adding or removing:
            moved = self._reassignments[partition] = _Reassignment(replicas - adding, replicas - removing)
            self._on_isr_of_reassigned(partition, moved)
        elif under_way is not None and replicas != under_way.before:
            is_right = replicas == under_way.target and under_way.was_complete
            self.require("R21", is_right, f"{partition}: {under_way} ended with {sorted(replicas)}")

    def _on_isr_of_reassigned(self, partition: TopicPartition, moved: _Reassignment) -> None:
        stored = self.stored.get(partition)
        if stored is not None and moved.target <= set(stored.state.isr):
            self._reassignments[partition] = moved._replace(was_complete=True)

    @property
    def reassignments(self) -> list[TopicPartition]:
        """What is moving."""
        return list(self._reassignments)

    def _forget(self, topic: str) -> None:
        """The topic was deleted. A later topic with its name is another one."""
        if self._trace is not None:
            self._trace.on_topic_removed(topic)
        self._former_names[topic] = None
        self._hosts.clear()
        self._partitions_of.pop(topic, None)
        self._topic_nodes.pop(topic, None)
        self.topic_ids.pop(topic, None)
        self._retained.pop(topic, None)
        tables: tuple[dict[TopicPartition, Any], ...] = (
            self.replicas,
            self.stored,
            self.assigned,
            self._reassignments,
            self._removable,
            self.stands_last,
            self.true_high_watermark,
            self.committed,
            self.acked,
            self._last_acked,
            self.consumed,
        )
        for table in tables:
            for partition in [partition for partition in table if partition.topic == topic]:
                del table[partition]
        self._logs.forget(topic)
        self._joins.forget(topic)
        for key in [key for key in self._leaders if key[0].topic == topic]:
            del self._leaders[key]
        for held in [held for held in self.powerless if held[1].topic == topic]:
            del self.powerless[held]
        for lost in [lost for lost in self._lost_in if lost[1].topic == topic]:
            del self._lost_in[lost]
        self.note(f"deleted {topic}")

    def _check_state(self, partition: TopicPartition, node: Node) -> None:
        before = self.stored.get(partition)
        if before is not None and before.version == node.version:
            return
        state = PartitionState.decode(partition, node.data)
        replicas = self.assigned[partition]
        self.stored[partition] = Stored(state, node.version)
        self.note(f"stored {partition} {state.leader} {state.leader_epoch} {state.isr} {node.version}")
        if self._trace is not None:
            self._trace.on_stored(partition, state, node.version)
        self.states.on_stored(partition, before.state if before is not None else None, state)
        self.require("R3", state.leader == NO_LEADER or state.leader in state.isr, f"{partition}: {state}")
        self.require("R3", bool(state.isr) and set(state.isr) <= set(replicas), f"{partition}: {state} of {replicas}")
        if before is not None:
            rises = state.leader_epoch >= before.state.leader_epoch and node.version > before.version
            self.require("R13", rises, f"{partition}: {state} after {before.state}")
        if state.leader != NO_LEADER:
            holder = self._leaders.setdefault((partition, state.leader_epoch), state.leader)
            self.require("R13", holder == state.leader, f"{partition}: {holder} and {state.leader} in one epoch")
        if before is not None and node.version == before.version + 1:
            self._joins.on_stored(partition, before.state, state)
        moved = self._reassignments.get(partition)
        if moved is not None and not moved.was_complete:
            self._on_isr_of_reassigned(partition, moved)
        for broker_id in replicas:
            if broker_id not in state.isr:  # Noticed: it must have all before it is a member again.
                self.powerless.pop((broker_id, partition), None)
        self.note_last_standing(partition, had_leader=before is None or before.state.leader != NO_LEADER)
        if not self.allows_loss(partition):
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
            self.states.on_controller(epoch)
            if self._trace is not None:
                self._trace.on_node(ZOOKEEPER, "controller seated", f"broker-{broker_id}, controller epoch {epoch}")
        self.require("R15", known == broker_id, f"brokers {known} and {broker_id} in controller epoch {epoch}")

    def _check_replica(self, broker_id: int, seen: Seen, before: Look | None) -> None:
        partition = seen.partition
        log = partition.log
        look = seen.look = Look(
            log.log_end_offset,
            log.high_watermark,
            partition.state,
            partition.is_leader,
            partition.isr_state,
            log.failure is not None,
        )
        topic_partition = partition.topic_partition
        seen.is_former = partition.topic_id != self.topic_ids.get(topic_partition.topic)
        if seen.is_former:
            return
        self.changes_checked += 1
        if self._trace is not None:
            epoch, isr = look.state.leader_epoch, look.isr.isr
            shown = ReplicaLook(look.is_leader, epoch, isr, look.log_end_offset, look.high_watermark)
            self._trace.on_replica(f"broker-{broker_id}", topic_partition, shown)
        if look.has_failed:
            grew = before is not None and before.has_failed and look.log_end_offset > before.log_end_offset
            self.require("R22", not grew, f"{seen.name}: {log.failure}, and then it took more: {before} to {look}")
            return
        if before is not None and look.log_end_offset < before.log_end_offset:
            self.states.on_cut(seen, len(set(seen.mirror.epochs)))
            self._logs.on_cut(broker_id, seen, before, look)
        if before is None or look.log_end_offset != before.log_end_offset or look.state is not before.state:
            seen.follow()
            if before is None and self._logs.on_return(broker_id, seen):
                self.states.reach("records lost with the power")
            self._logs.on_change(seen, before, look)
        if before is None or look.isr is not before.isr:
            self._joins.on_isr(seen, look)
        stored = self.stored.get(topic_partition)
        self.states.on_look(
            seen, before, look, stored.state if stored is not None else None, self.bound(topic_partition)
        )
        if before is None or look.high_watermark != before.high_watermark or look.is_leader is not before.is_leader:
            self.note(f"{seen.name} leads {look.is_leader} {look.high_watermark} of {look.log_end_offset}")
        if not log.log_start_offset <= look.high_watermark <= look.log_end_offset:
            self.require("R9", holds=False, text=f"{seen.name}: start {log.log_start_offset}, {look}")
        if look.is_leader:
            self._check_leader(broker_id, seen, before, look)
        elif not self.allows_loss(topic_partition):
            self._compare(broker_id, topic_partition, look.high_watermark, "R4", seen.name)
        if not self.allows_loss(topic_partition) and (before is None or look.log_end_offset < before.log_end_offset):
            self._check_member(topic_partition, broker_id)
        self._idle.on_change(seen)

    def _check_member(self, partition: TopicPartition, broker_id: int) -> None:
        """R6, and with it R1: a running member of the stored ISR has all that is committed, and nothing else there."""
        seen = self.replicas.get(partition, {}).get(broker_id)
        stored, committed = self.stored.get(partition), self.committed.get(partition)
        if seen is None or stored is None or committed is None or broker_id not in stored.state.isr:
            return
        if not seen.is_present or not committed.ends:
            return
        seen.follow()
        difference = differ(committed, seen.mirror, committed.end)
        if (broker_id, partition) in self.powerless:
            if not difference:
                del self.powerless[broker_id, partition]
            return
        if difference:
            text = f"{seen.name}, in the ISR {stored.state.isr}, lacks committed records: {difference}"
            self.require("R6", holds=False, text=text)

    def _check_leader(self, broker_id: int, seen: Seen, before: Look | None, look: Look) -> None:
        topic_partition, name = seen.partition.topic_partition, seen.name
        is_same_epoch = before is not None and before.is_leader and before.state.leader_epoch == look.state.leader_epoch
        if before is not None and is_same_epoch:
            self.require("R9", look.high_watermark >= before.high_watermark, f"{name}: HW fell, {before} to {look}")
        stored = self.stored.get(topic_partition)
        if stored is None or self.allows_loss(topic_partition):
            return
        if stored.state.leader == broker_id and stored.state.leader_epoch == look.state.leader_epoch:
            self._joins.on_leader(broker_id, seen, tuple(stored.state.isr))
            true_high_watermark = self.true_high_watermark.get(topic_partition, 0)
            if look.log_end_offset < true_high_watermark:
                self.require("R5", holds=False, text=f"{name}: {look}, true HW {true_high_watermark}")
            self._check_committed(topic_partition, seen)
            if not set(stored.state.isr) <= set(look.isr.maximal_isr):
                self.require(
                    "R8", holds=False, text=f"{name}: stored ISR {stored.state.isr}, maximal ISR {look.isr.maximal_isr}"
                )
        if before is None or not is_same_epoch or look.high_watermark != before.high_watermark:
            self._on_high_watermark(broker_id, seen, look.high_watermark, stored)

    def _on_high_watermark(self, broker_id: int, seen: Seen, high_watermark: Offset, stored: Stored) -> None:
        partition, mirror = seen.partition.topic_partition, seen.mirror
        replicas = self.replicas[partition]
        for member in dict.fromkeys((*stored.state.isr, *seen.partition.state.isr)):
            # R1, R2: what is committed here is there. A member that is down is looked at when it comes back.
            other = replicas.get(member)
            if member == broker_id or other is None or not other.is_present:
                continue
            if (member, partition) in self.powerless:
                continue
            if (
                member not in stored.state.isr
                and self._lost_in.get((member, partition), -1) >= seen.partition.leader_epoch
            ):
                continue  # What the leader knows of it may be from before: it has not heard yet that it is no member.
            if other.has_moved:
                other.follow()
            difference = differ(mirror, other.mirror, high_watermark)
            if difference:
                text = f"{seen.name}: member {member} of {stored.state.isr} is not the same {difference}"
                self.require("R1" if member in stored.state.isr else "R2", holds=False, text=text)
        known = self.true_high_watermark.get(partition, 0)
        if high_watermark > known:
            self.true_high_watermark[partition] = high_watermark
            if partition.topic == OFFSETS_TOPIC:
                batches = seen.batches(known, high_watermark)
                self.groups.on_committed(partition, batches)
                self.streams.on_committed(batches)
            elif partition.topic == SHARE_TOPIC:
                self.shares.on_committed(seen.batches(known, high_watermark))
            elif partition.topic == DEAD_LETTERS:
                self.shares.on_dead_letters(seen.batches(known, high_watermark))
            elif partition.topic == LEDGER:
                batches = seen.batches(known, high_watermark)
                self.transactions.on_committed(partition, batches)
                self.shares.readable.on_committed(partition, batches)
            committed = self.committed.get(partition)
            if committed is None:
                committed = self.committed[partition] = LogMirror()
            committed.extend(mirror, high_watermark)

    def _check_committed(self, partition: TopicPartition, seen: Seen) -> None:
        """R5: the true leader has every record that was ever committed, and not others in their place."""
        committed, mirror = self.committed.get(partition), seen.mirror
        if committed is not None and committed.ends:
            difference = differ(committed, mirror, committed.end)
            if difference:
                self.require("R5", holds=False, text=f"{seen.name}: not what was committed, {difference}")

    def _compare(self, broker_id: int, partition: TopicPartition, high_watermark: Offset, rule: str, name: str) -> None:
        replicas = self.replicas[partition]
        mirror = replicas[broker_id].mirror
        for other_id, other in replicas.items():
            if other_id == broker_id or not other.is_present:
                continue
            difference = differ(mirror, other.mirror, min(high_watermark, other.partition.log.high_watermark))
            if difference:
                self.require(rule, holds=False, text=f"{name} and broker {other_id} differ {difference}")

    def on_power_cut(self, broker_id: int) -> None:
        """Until the broker is back, it is unknown what its disk holds."""
        self._on_lost(broker_id, disk=False)

    def on_disk_damaged(self, broker_id: int) -> None:
        """As a power cut, but of what was durable there may be nothing either: somebody replaced or damaged a disk."""
        self._on_lost(broker_id, disk=True)

    def _on_lost(self, broker_id: int, *, disk: bool) -> None:
        self._hosts.pop(broker_id, None)
        for partition, replicas in self.replicas.items():
            former = replicas.pop(broker_id, None)
            if former is not None:
                self._logs.on_life_over(broker_id, former, is_whole=False)
            self.powerless[broker_id, partition] = None
            if partition in self.stored:
                self._lost_in[broker_id, partition] = self.stored[partition].state.leader_epoch
        self._logs.on_lost(broker_id, disk=disk)

    def bears_loss_at(self, broker_id: int) -> bool:
        """Whether all that is committed would be there without what this broker has: for each of its partitions another
        member of the ISR has it, which runs and lost nothing itself."""
        return all(
            any(
                member != broker_id and (member, partition) not in self.powerless and self._has(member, partition)
                for member in stored.state.isr
            )
            for partition, stored in self.stored.items()
            if broker_id in self.assigned.get(partition, ())
        )

    def _has(self, broker_id: int, partition: TopicPartition) -> bool:
        seen = self.replicas.get(partition, {}).get(broker_id)
        return seen is not None and seen.is_present

    def on_delete_records(self, partition: TopicPartition, before: Offset) -> None:
        """Somebody asks for the records below an offset to be removed."""
        self._removable[partition] = max(before, self._removable.get(partition, 0))

    def on_retention(self, topic: str) -> None:
        """Somebody asks for a retention that removes records of the topic."""
        self._retained[topic] = None

    @property
    def partition_counts(self) -> dict[str, int]:
        """How many partitions each topic has, as it is stored."""
        return {topic: len(partitions) for topic, partitions in self._partitions_of.items()}

    def judged_topic_id(self, topic: str) -> UUID | None:
        """The topic's id, where what clients are told by this name can be about no other topic: none had it before."""
        return None if topic in self._former_names else self.topic_id(topic)

    # -- what clients were told

    def on_acked(self, partition: TopicPartition, offset: Offset, value: bytes, sent_after: Offset) -> None:
        """`value` was acknowledged with acks=all at `offset`; `sent_after` is the highest offset of this partition that
        any client had been told of before this one was sent."""
        bound = self.true_high_watermark.get(partition, 0)
        if partition in self.stands_last:
            return
        self.require("R16", self.allow_loss or offset < bound, f"{partition}: {offset} acknowledged, true HW {bound}")
        self.require("R17", offset > sent_after, f"{partition}: {offset} was sent after {sent_after} was known")
        known = self.acked.setdefault(partition, {}).setdefault(offset, value)
        self.require("R18", known == value, f"{partition}: {offset} acknowledged for {known!r} and {value!r}")
        self._logs.on_acked(partition, offset)
        self._last_acked[partition] = max(offset, self.last_acked(partition))
        self.note(f"acked {partition} {offset}")

    def last_acked(self, partition: TopicPartition) -> Offset:
        return self._last_acked.get(partition, -1)

    def on_consumed(self, partition: TopicPartition, offset: Offset, value: bytes) -> None:
        if partition in self.stands_last:
            return
        bound = self.true_high_watermark.get(partition, 0)
        self.require("R19", self.allow_loss or offset < bound, f"{partition}: {offset} was read, true HW {bound}")
        known = self.consumed.setdefault(partition, {}).setdefault(offset, value)
        self.require("R18", self.allow_loss or known == value, f"{partition}: {offset} was {known!r}, is {value!r}")
        self.note(f"read {partition} {offset}")

    # -- at the end

    def check_nothing_lost(self, values: dict[TopicPartition, dict[Offset, bytes]]) -> None:
        """R7: every acknowledged record is at its offset. `values`: what a reader found in the end."""
        for partition, acked in self.acked.items():
            if partition in self.stands_last:
                continue
            found = values.get(partition, {})
            start = self._start_of(partition)
            for offset, value in acked.items():
                if offset < start:
                    continue
                self.require(
                    "R7", found.get(offset) == value, f"{partition}: {offset} is {found.get(offset)!r}, not {value!r}"
                )
            times: dict[bytes, int] = {}
            for value in found.values():
                times[value] = times.get(value, 0) + 1
            doubled = [value for value in acked.values() if times.get(value, 0) > 1]
            self.require("P1", not doubled, f"{partition}: written twice: {doubled[:5]}")

    def log_starts(self) -> dict[TopicPartition, Offset]:
        """Where the log of each partition begins at its leader, of those that are seen."""
        found = {}
        for partition, stored in self.stored.items():
            seen = self.replicas.get(partition, {}).get(stored.state.leader)
            if seen is not None:
                found[partition] = seen.partition.log.log_start_offset
        return found

    def _start_of(self, partition: TopicPartition) -> Offset:
        """Where the leader's log begins: not behind what somebody asked for (R22)."""
        seen = self.replicas.get(partition, {}).get(self.stored[partition].state.leader)
        if seen is None:
            return 0
        start = seen.partition.log.log_start_offset
        bound = self._removable.get(partition, 0)
        is_asked_for = start <= bound or partition.topic in self._retained
        self.require("R22", is_asked_for, f"{seen.name} begins at {start}, {bound} was asked for")
        return start
