"""Rare states that a campaign must reach: a state that was never reached was never tested.

Decides whether a state was reached, and counts it. It sees what can be seen from outside: decisions with their kinds
and evidence, log lines, exchanges on the wire, state znodes as they are stored, replicas as the observer looks at them.
Production code knows nothing of it.

    I1  counting changes nothing in a run: no chance is drawn, nothing is written
    I2  a state that is not in STATES cannot be counted: a name that is misspelt fails

Source: docs/design/known-bugs.md, whose rows S1 to S49 say which states they need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kavka.decisions import Decision, DecisionKind
from kavka.errors import ErrorCode
from kavka.model import NO_LEADER, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.replication.decide.isr_states import CommittedIsr, PendingExpand, PendingShrink

if TYPE_CHECKING:
    from kavka.model import LeaderEpoch, Offset
    from kavka.simulator.host.wire import Exchange
    from kavka.simulator.rules.replica_view import Look, Seen
    from kavka.zookeeper.znodes import PartitionState

STATES: Final[Mapping[str, str]] = {
    # Divergence and truncation.
    "truncation in three epochs": "a log that holds records of three epochs or more is cut (S1-S3)",
    "epoch unknown to the leader": "a follower's last epoch is one that its leader never had (S3)",
    "truncation within an epoch": "follower and leader have the epoch, and it ends earlier at the leader (S2)",
    "truncation of a former leader": "what a leader had taken alone is cut when it follows (article 001)",
    "epoch without a record": "a leader is deposed before it has appended anything (S4)",
    "follower missed an epoch": "a replica hears of an epoch that is not the next one (S6)",
    "same leader in a later epoch": "an election names who led before (S6)",
    "fetch that has diverged": "a leader's answer says where the logs part (S10)",
    "fetch behind the log's end": "a follower asks for an offset that its leader does not have (S12)",
    # The ISR.
    "expansion under way": "a member is proposed and nobody knows whether it is stored (S14)",
    "shrink under way": "somebody is proposed to leave and nobody knows whether that is stored (S15)",
    "order during an ISR change": "LeaderAndIsr comes while an AlterPartition is in flight (S17)",
    "ISR change sent again": "no answer came, or none that tells: the same proposal goes out again (S16)",
    "ISR change stored before": "a proposal whose answer was lost is found stored already (S16)",
    "ISR change of an old version": "the controller refuses a proposal that builds on an older state (S16)",
    "ISR change of a deposed leader": "the controller refuses a proposal of an epoch that is over (S8)",
    "ISR change by an old broker epoch": "the controller refuses a leader's former self (S18)",
    "joins no ISR": "the controller refuses a member that is dead, leaving, or a former self (S18, S20)",
    "join below the epoch's start": "a follower fetches that may not join: the epoch's start is above it (S13)",
    "ISR is the leader alone": "everybody else has left the ISR (S24)",
    "ISR full again": "an ISR that was the leader alone has all replicas again",
    "last member kept": "no member of the ISR is left alive, and the last one stays in it (article 001, case C)",
    "high watermark rose by a shrink": "who left the ISR had held the high watermark (S15)",
    "high watermark behind the true one": "a new leader knows less as committed than an earlier one did (S13)",
    "commits held below min.insync.replicas": "a leader has records that its small ISR may not commit (S21)",
    # Leaders.
    "two leaders": "two brokers hold themselves for leaders of one partition (S8)",
    "no leader": "a partition has no leader: nobody of its ISR lives",
    "leader resigned": "a leader that was refused as deposed stops by itself",
    "election for a dead leader": "an offline election",
    "election of the preferred leader": "leadership goes back to the first replica (S34)",
    "election at a controlled shutdown": "a leader that leaves hands over",
    "election by a reassignment": "the leader is not among the new replicas",
    "leader elected that was outside": "a replica leads again that had left the ISR and come back",
    # Fencing.
    "fetch of an older epoch": "a follower is refused: it has not heard of the newer epoch (S8)",
    "fetch of a later epoch": "a leader is asked in an epoch that it has not heard of",
    "fetch of a former self": "a fetch from before the follower's restart is refused (S18)",
    "follower fenced": "a follower hears that its leader knows a later epoch",
    "order of an old controller": "a broker refuses what a former controller sends (S25)",
    "order for a former life": "a broker refuses what was meant for itself before its restart (S26)",
    "fetch at who does not lead": "a fetch is answered NOT_LEADER_OR_FOLLOWER",
    "produce at who does not lead": "a producer is answered NOT_LEADER_OR_FOLLOWER",
    # Producers and consumers.
    "produce without enough replicas": "NOT_ENOUGH_REPLICAS: nothing is appended (S24)",
    "too few replicas after the append": "NOT_ENOUGH_REPLICAS_AFTER_APPEND: the outcome is open (S23)",
    "leader deposed with a produce waiting": "acks=all waits, and its leader leads no longer",
    "produce timed out": "acks=all was not committed in the producer's time",
    "duplicate batch answered": "a batch that is in the log is sent again and answered with its offset",
    "duplicate batch after a leader change": "so by a later leader (S42)",
    "batch out of sequence": "a batch before it was not appended: refused (P1)",
    "offset not available": "the latest offset is asked for before a new leader has reached its epoch's start (S13)",
    "fetch of an unknown topic": "a broker is asked for a topic that it has not heard of, or no longer has (S36)",
    "topic made anew": "a topic gets the name of one that was deleted (S36)",
    # The controller.
    "controller changed": "another broker becomes the controller",
    "controller resigned": "a controller finds itself deposed (S25)",
    "controller gone between write and order": "a leader is stored whose order the next controller sends (S33)",
    "broker unreachable within its session": "a dead broker is found so before its session ends",
    "broker bounced within its session": "a broker is registered anew before its former life was noticed (S26)",
    "broker came back in its session": "who refused connections takes them again",
    "shutdown not complete": "a controlled shutdown leaves partitions whose leader could not go",
    "no preferred election": "the preferred leader may not lead: not alive, or not in the ISR (S34)",
    # Reassignment.
    "reassignment cancelled": "a partition stays where it was (S19)",
    "reassignment replaced": "another target is given while one is under way",
    "reassignment over two controllers": "one controller starts it, another one finishes it",
    "replica removed and back": "a broker that a reassignment took a replica from gets it again (S19)",
    # ZooKeeper.
    "session expired": "a broker's session ends while it lives (S28)",
    "registered again": "so it registers anew, in the same life",
    "ZooKeeper connection lost": "a broker's connection breaks; writes in flight have an unknown outcome",
    "ZooKeeper session went on": "another connection takes the session over",
    "former registration removed": "a restarted broker finds its former self's znode (S28)",
    # Disks.
    "recovery after a crash": "logs are loaded that were not closed",
    "torn tail cut": "the end of a segment is no whole batch (S37)",
    "records lost with the power": "a replica is back with less than it had",
    "producer snapshot not used": "a snapshot of producers is damaged or late (S43)",
    "log deleted": "a replica's log is removed from disk",
    "log directory offline": "a disk fails under a broker that runs (S39)",
    "replica on a failed disk": "who asks for it is answered KAFKA_STORAGE_ERROR (S39)",
    # Transactions.
    "producer fenced": "a transactional producer is refused, as a later one has its id (S48)",
    "transaction still ending": "the next one is begun before the markers of the last one are written (S46)",
    "marker at who does not lead": "a marker's partition has another leader by now (S46)",
    "transaction coordinator moved": "a producer asks a broker that coordinates its transactions no longer (S46)",
    "batch of no transaction": "a transactional batch comes when its transaction is over: refused (S44)",
    "offset fetch before the marker": "offsets are asked for that an open transaction may change (S49)",
    # Groups.
    "group rebalanced": "members come or go",
    "group coordinator moved": "a member asks a broker that coordinates its group no longer",
    "group being loaded": "a member asks a coordinator that still reads the group's log",
    "member of an old generation": "a member is refused that does not know of the rebalance (G2)",
    "member unknown": "a member is refused that its coordinator has given up",
}
"""What each name stands for."""

REACHED_SHARE: Final = 0.9
"""Of all states, in a campaign of 300 seeds."""

_BY_LINE: Final[Mapping[str, str]] = {
    "isr change sent again": "ISR change sent again",
    "controlled shutdown not complete": "shutdown not complete",
    "registered again": "registered again",
    "ZooKeeper connection lost": "ZooKeeper connection lost",
    "ZooKeeper session went on": "ZooKeeper session went on",
    "ZooKeeper session expired": "session expired",
    "former registration removed": "former registration removed",
    "segment cut": "torn tail cut",
    "producer snapshot not used": "producer snapshot not used",
    "log deleted": "log deleted",
}

_BY_DECISION: Final[Mapping[DecisionKind, str]] = {
    DecisionKind.PRODUCE_REFUSED: "produce without enough replicas",
    DecisionKind.CONTROLLER_RESIGNED: "controller resigned",
    DecisionKind.BROKER_UNREACHABLE: "broker unreachable within its session",
    DecisionKind.REASSIGNMENT_CANCELLED: "reassignment cancelled",
    DecisionKind.GROUP_REBALANCED: "group rebalanced",
    DecisionKind.LOG_DIRECTORY_OFFLINE: "log directory offline",
}

_BY_ELECTION: Final[Mapping[str, str]] = {
    "offline": "election for a dead leader",
    "preferred": "election of the preferred leader",
    "controlled shutdown": "election at a controlled shutdown",
    "reassignment": "election by a reassignment",
}

_ORDERS: Final = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA)
_GROUP_REQUESTS: Final = (
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
)
_TRANSACTION_REQUESTS: Final = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
)
_NO_TRANSACTION: Final = (
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)

_BY_ANSWER: Final[Mapping[tuple[ApiKey, int], str]] = {
    (ApiKey.PRODUCE, ErrorCode.NOT_LEADER_OR_FOLLOWER): "produce at who does not lead",
    (ApiKey.PRODUCE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND): "too few replicas after the append",
    (ApiKey.PRODUCE, ErrorCode.REQUEST_TIMED_OUT): "produce timed out",
    (ApiKey.PRODUCE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER): "batch out of sequence",
    (ApiKey.FETCH, ErrorCode.NOT_LEADER_OR_FOLLOWER): "fetch at who does not lead",
    (ApiKey.FETCH, ErrorCode.FENCED_LEADER_EPOCH): "fetch of an older epoch",
    (ApiKey.FETCH, ErrorCode.UNKNOWN_LEADER_EPOCH): "fetch of a later epoch",
    (ApiKey.FETCH, ErrorCode.OFFSET_OUT_OF_RANGE): "fetch behind the log's end",
    (ApiKey.FETCH, ErrorCode.UNKNOWN_TOPIC_ID): "fetch of an unknown topic",
    (ApiKey.FETCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION): "fetch of an unknown topic",
    (ApiKey.FETCH, ErrorCode.KAFKA_STORAGE_ERROR): "replica on a failed disk",
    (ApiKey.PRODUCE, ErrorCode.KAFKA_STORAGE_ERROR): "replica on a failed disk",
    (ApiKey.LIST_OFFSETS, ErrorCode.OFFSET_NOT_AVAILABLE): "offset not available",
    (ApiKey.ALTER_PARTITION, ErrorCode.INVALID_UPDATE_VERSION): "ISR change of an old version",
    (ApiKey.ALTER_PARTITION, ErrorCode.FENCED_LEADER_EPOCH): "ISR change of a deposed leader",
    (ApiKey.ALTER_PARTITION, ErrorCode.STALE_BROKER_EPOCH): "ISR change by an old broker epoch",
    (ApiKey.ALTER_PARTITION, ErrorCode.INELIGIBLE_REPLICA): "joins no ISR",
    **{(key, ErrorCode.STALE_CONTROLLER_EPOCH): "order of an old controller" for key in _ORDERS},
    **{(key, ErrorCode.STALE_BROKER_EPOCH): "order for a former life" for key in _ORDERS},
    **{(key, ErrorCode.NOT_COORDINATOR): "group coordinator moved" for key in _GROUP_REQUESTS},
    **{(key, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS): "group being loaded" for key in _GROUP_REQUESTS},
    **{(key, ErrorCode.ILLEGAL_GENERATION): "member of an old generation" for key in _GROUP_REQUESTS},
    **{(key, ErrorCode.UNKNOWN_MEMBER_ID): "member unknown" for key in _GROUP_REQUESTS},
    **{(key, ErrorCode.PRODUCER_FENCED): "producer fenced" for key in _TRANSACTION_REQUESTS},
    **{(key, ErrorCode.INVALID_PRODUCER_EPOCH): "producer fenced" for key in _TRANSACTION_REQUESTS},
    **{(key, ErrorCode.CONCURRENT_TRANSACTIONS): "transaction still ending" for key in _TRANSACTION_REQUESTS},
    **{(key, ErrorCode.NOT_COORDINATOR): "transaction coordinator moved" for key in _TRANSACTION_REQUESTS},
    **{(ApiKey.PRODUCE, code): "batch of no transaction" for code in _NO_TRANSACTION},
    (ApiKey.WRITE_TXN_MARKERS, ErrorCode.NOT_LEADER_OR_FOLLOWER): "marker at who does not lead",
    (ApiKey.OFFSET_FETCH, ErrorCode.UNSTABLE_OFFSET_COMMIT): "offset fetch before the marker",
}


class States:
    """Counts the states of one run. `seen` gives a replica as the observer knows it; `topic_of` a topic's name."""

    def __init__(self, replicas: Mapping[TopicPartition, Mapping[int, Seen]], topic_of: Callable[[Any], str]) -> None:
        self.counts: Counter[str] = Counter()
        self._replicas = replicas
        self._topic_of = topic_of
        self._started_by: dict[TopicPartition, int] = {}
        """Reassignments under way: the controller epoch that started them."""
        self._orders_due: dict[TopicPartition, tuple[LeaderEpoch, int]] = {}
        """Leaders stored that nobody was told of yet: leader epoch and controller epoch."""
        self._left: dict[tuple[TopicPartition, int], None] = {}
        """Members that left an ISR."""
        self._removed: dict[tuple[TopicPartition, int], None] = {}
        self._alone: dict[TopicPartition, None] = {}
        self._led: dict[tuple[TopicPartition, int], None] = {}
        """Replicas that led when they were seen last, or have not been cut since."""
        self._controller_epoch = -1

    def reach(self, name: str) -> None:
        """The state was reached once more."""
        assert name in STATES, name
        self.counts[name] += 1

    # -- what brokers say

    def on_line(self, _level: str, event: str, keys: Mapping[str, Any]) -> None:
        """A broker's log line."""
        name = _BY_LINE.get(event)
        if name is not None:
            self.reach(name)
        elif event == "logs loaded" and not keys["clean"] and keys["logs"]:
            self.reach("recovery after a crash")

    def on_decision(self, decision: Decision) -> None:
        """A broker's decision."""
        kind, evidence, partition = decision.kind, decision.evidence, decision.partition
        name = _BY_DECISION.get(kind)
        if name is not None:
            self.reach(name)
        match kind:
            case DecisionKind.FENCED:
                self._on_fenced(evidence)
            case DecisionKind.LOG_TRUNCATED:
                self._on_truncated(evidence)
            case DecisionKind.LEADER_ELECTED:
                self.reach(_BY_ELECTION[str(evidence["election"])])
            case DecisionKind.LEADER_NOT_ELECTED:
                self.reach("no preferred election" if evidence.get("election") == "preferred" else "no leader")
            case DecisionKind.BROKER_CAME:
                if "anew" in decision.why:
                    self.reach("broker bounced within its session")
                elif "again" in decision.why:
                    self.reach("broker came back in its session")
            case DecisionKind.REASSIGNMENT_STARTED if partition is not None:
                if decision.before["adding"] or decision.before["removing"]:
                    self.reach("reassignment replaced")
                self._started_by[partition] = decision.controller_epoch
            case DecisionKind.REASSIGNMENT_FINISHED if partition is not None:
                if self._started_by.pop(partition, decision.controller_epoch) != decision.controller_epoch:
                    self.reach("reassignment over two controllers")

    def _on_fenced(self, evidence: Mapping[str, Any]) -> None:
        if "registered_epoch" in evidence:
            self.reach("fetch of a former self")
        elif "later_epoch" in evidence:
            self.reach("leader resigned")
        elif "fetch_offset" in evidence:
            self.reach("follower fenced")

    def _on_truncated(self, evidence: Mapping[str, Any]) -> None:
        if "asked_epoch" in evidence:
            is_known = evidence["leader_known_epoch"] == evidence["asked_epoch"]
            self.reach("truncation within an epoch" if is_known else "epoch unknown to the leader")

    # -- what is stored

    def on_stored(self, partition: TopicPartition, before: PartitionState | None, state: PartitionState) -> None:
        """A partition's state znode was written."""
        isr = state.isr
        if state.leader == NO_LEADER and len(isr) == 1:
            self.reach("last member kept")
        if state.leader == NO_LEADER:
            self.reach("no leader")
        if before is None:
            return
        for member in before.isr:
            if member not in isr:
                self._left[partition, member] = None
        if state.leader_epoch > before.leader_epoch and state.leader != NO_LEADER:
            self._orders_due[partition] = (state.leader_epoch, state.controller_epoch)
            if state.leader == before.leader:
                self.reach("same leader in a later epoch")
            if (partition, state.leader) in self._left:
                self.reach("leader elected that was outside")
        if tuple(isr) == (state.leader,) and len(before.isr) > 1:
            self.reach("ISR is the leader alone")
            self._alone[partition] = None

    def on_assigned(self, partition: TopicPartition, before: tuple[int, ...], replicas: tuple[int, ...]) -> None:
        """A partition's replicas are others."""
        for broker_id in before:
            if broker_id not in replicas:
                self._removed[partition, broker_id] = None
        for broker_id in replicas:
            if broker_id not in before and (partition, broker_id) in self._removed:
                self.reach("replica removed and back")

    def on_controller(self, epoch: int) -> None:
        """A broker became the controller in this epoch."""
        if self._controller_epoch >= 0:
            self.reach("controller changed")
        self._controller_epoch = epoch

    # -- what replicas are

    def on_look(
        self, seen: Seen, before: Look | None, look: Look, stored: PartitionState | None, bound: Offset
    ) -> None:
        """A replica changed. `bound` is the partition's true high watermark."""
        if look.is_leader:
            self._led[seen.partition.topic_partition, seen.broker.broker_id] = None
        if before is None:
            return
        if look.state is not before.state:
            self._on_role(seen, before, look, bound)
        if look.isr is not before.isr:
            self._on_isr(seen, before, look)
        if look.is_leader and stored is not None and look.log_end_offset > look.high_watermark:
            partition = seen.partition
            if len(look.state.isr) < partition.effective_min_isr and look.log_end_offset != before.log_end_offset:
                self.reach("commits held below min.insync.replicas")

    def _on_role(self, seen: Seen, before: Look, look: Look, bound: Offset) -> None:
        partition = seen.partition
        if look.state.leader_epoch > before.state.leader_epoch + 1 and before.state.leader_epoch >= 0:
            self.reach("follower missed an epoch")
        if look.is_leader and not before.is_leader:
            if look.high_watermark < bound:
                self.reach("high watermark behind the true one")
            others = self._replicas.get(partition.topic_partition, {}).values()
            if any(other is not seen and other.look is not None and other.look.is_leader for other in others):
                self.reach("two leaders")
        elif before.is_leader and not look.is_leader:
            entries = partition.log.epoch_entries
            if entries and entries[-1] == (before.state.leader_epoch, before.log_end_offset):
                self.reach("epoch without a record")

    def _on_isr(self, seen: Seen, before: Look, look: Look) -> None:
        match look.isr:
            case PendingExpand():
                self.reach("expansion under way")
            case PendingShrink():
                self.reach("shrink under way")
            case CommittedIsr(isr):
                partition = seen.partition
                if isinstance(before.isr, PendingShrink) and look.high_watermark > before.high_watermark:
                    self.reach("high watermark rose by a shrink")
                is_full = look.is_leader and len(isr) == len(partition.replicas) > 1
                if is_full and partition.topic_partition in self._alone:
                    self.reach("ISR full again")
                    del self._alone[partition.topic_partition]

    def on_cut(self, seen: Seen, epochs: int) -> None:
        """A replica's log was truncated. It held records of this number of epochs."""
        if epochs >= 3:
            self.reach("truncation in three epochs")
        replica = (seen.partition.topic_partition, seen.broker.broker_id)
        if replica in self._led:
            del self._led[replica]
            self.reach("truncation of a former leader")

    # -- what is asked and answered

    def on_request(self, exchange: Exchange) -> None:
        """A broker is asked."""
        match exchange.key:
            case ApiKey.PRODUCE:
                self._on_produce(exchange)
            case ApiKey.FETCH:
                self._on_fetch(exchange)
            case ApiKey.LEADER_AND_ISR:
                self._on_order(exchange)
            case ApiKey.ALTER_PARTITION:
                self._on_proposals(exchange)

    def _on_produce(self, exchange: Exchange) -> None:
        hosted = exchange.broker.broker
        if hosted is None:
            return
        for topic in exchange.request.topic_data:
            for data in topic.partition_data:
                partition = hosted.replicas.partition(topic.name, data.index)
                if partition is not None and partition.is_leader:
                    exchange.leader_ends[partition.topic_partition] = partition.log.log_end_offset

    def _on_fetch(self, exchange: Exchange) -> None:
        request = exchange.request
        replica = request.replica_state
        follower = request.replica_id if replica is None else replica.replica_id
        hosted = exchange.broker.broker
        if follower < 0 or hosted is None or not request.topics:
            return
        for topic in request.topics:
            name = self._topic_of(topic.topic_id) if topic.topic_id.int else topic.topic
            for asked in topic.partitions:
                partition = hosted.replicas.partition(name, asked.partition)
                if partition is None or not partition.is_leader or follower in partition.state.isr:
                    continue
                if partition.log.high_watermark <= asked.fetch_offset < partition.leader_epoch_start_offset:
                    self.reach("join below the epoch's start")

    def _on_order(self, exchange: Exchange) -> None:
        hosted, request = exchange.broker.broker, exchange.request
        for topic in request.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                due = self._orders_due.get(partition)
                if due is not None and state.leader_epoch >= due[0]:
                    del self._orders_due[partition]
                    if request.controller_epoch > due[1]:
                        self.reach("controller gone between write and order")
                found = hosted.replicas.partition(*partition) if hosted is not None else None
                if found is not None and not isinstance(found.isr_state, CommittedIsr):
                    self.reach("order during an ISR change")

    def _on_proposals(self, exchange: Exchange) -> None:
        hosted = exchange.broker.broker
        controller = hosted.controller if hosted is not None else None
        if controller is None or not controller.is_active:
            return
        states = controller.context.states
        for topic in exchange.request.topics:
            name = self._topic_of(topic.topic_id) if topic.topic_id.int else topic.topic_name
            for proposed in topic.partitions:
                known = states.get(TopicPartition(name, proposed.partition_index))
                if known is None or known.state.leader_epoch != proposed.leader_epoch:
                    continue
                isr = proposed.new_isr or [member.broker_id for member in proposed.new_isr_with_epochs]
                if proposed.partition_epoch < known.version and sorted(isr) == sorted(known.state.isr):
                    self.reach("ISR change stored before")

    def on_answer(self, exchange: Exchange) -> None:
        """A broker answers."""
        key, answer = exchange.key, exchange.answer
        if key is ApiKey.PRODUCE:
            self._on_produced(exchange)
            return
        if key is ApiKey.FETCH:
            codes = [answer.error_code] if answer.error_code else []
            for topic in answer.responses:
                for data in topic.partitions:
                    if data.error_code:
                        codes.append(data.error_code)
                    if data.diverging_epoch is not None and data.diverging_epoch.end_offset >= 0:
                        self.reach("fetch that has diverged")
        else:
            codes = [code for code in exchange.errors() if code]
        for code in codes:
            name = _BY_ANSWER.get((key, code))
            if name is not None:
                self.reach(name)

    def _on_produced(self, exchange: Exchange) -> None:
        for topic in exchange.answer.responses:
            for data in topic.partition_responses:
                partition = TopicPartition(topic.name, data.index)
                end = exchange.leader_ends.get(partition)
                if data.error_code:
                    name = _BY_ANSWER.get((ApiKey.PRODUCE, data.error_code))
                    if name is not None:
                        self.reach(name)
                    if data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and end is not None:
                        self.reach("leader deposed with a produce waiting")
                elif end is not None and data.base_offset < end:
                    self._on_duplicate(exchange, partition, data.base_offset)

    def _on_duplicate(self, exchange: Exchange, partition: TopicPartition, offset: Offset) -> None:
        self.reach("duplicate batch answered")
        hosted = exchange.broker.broker
        found = hosted.replicas.partition(*partition) if hosted is not None else None
        if found is not None and found.log.leader_epoch_at(offset) < found.leader_epoch:
            self.reach("duplicate batch after a leader change")
