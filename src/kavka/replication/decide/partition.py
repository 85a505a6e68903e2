"""Partition: one replica's view of a partition that it hosts: its role, its log, who is in sync, what is committed.

Decides: whether this broker may append or serve reads (role and leader epoch), when an append is refused for want of
in-sync replicas, who should leave or join the ISR, and where the high watermark stands. Must not know: who waits for it
(the purgatory), who asked (the protocol), how a proposed ISR travels (isr_changes), or where the state comes from (the
controller).

    I1  only a leader appends, and only records of its own leader epoch; a follower appends only what the leader of its
        own leader epoch sent, and nothing of a later one
    I2  a leader's high watermark is at most the least log end offset over the maximal ISR (isr.py) and over caught-up
        replicas that wait to join it; it is never above the leader's own log end
    I3  within one leader epoch the high watermark never falls
    I4  what a consumer reads lies below the high watermark (read_committed: below the last stable offset)
    I5  a leader epoch or partition epoch, once seen, is never followed by a lower one
    I6  a replica is proposed for the ISR only if, in this leader epoch, it fetched at or above the high watermark and
        the start of the epoch (KAFKA-7128), is alive, is not shutting down and is no former self (KIP-841, KIP-903)
    I7  at most one proposal is in flight; an answer to another one, or of an older version, changes nothing

While fewer replicas are in sync than min.insync.replicas, the high watermark stands still: records that are written
then could be lost with one replica (KIP-966). Apache Kafka 3.9 stops it at once. Here a new leader may still raise it
up to the start of its epoch, so that records acknowledged before its election stay readable. With
`kavka.eligible.leader.replicas.enable` it does not move at all: the controller relies on that when it elects a replica
that left the ISR at that time.

Differences from Kafka: if the controller announces the same state again, a proposal in flight stays pending (Kafka's
leader forgets that the set may have grown). An answer that shows another leader ends the leadership at once. What
followers fetched in an earlier epoch never counts.

Source: Kafka's Partition, 3.9; KIP-101 and KIP-320 for epochs, KIP-207 for list offsets; article 003 for the ISR.
"""

from __future__ import annotations

import uuid
from enum import Enum
from typing import TYPE_CHECKING

from kavka.decisions import Decision, DecisionKind
from kavka.errors import ErrorCode, InvariantViolation, RequestError
from kavka.log.decide.producer_state import AppendOrigin
from kavka.model import (
    NO_EPOCH,
    NO_LEADER,
    NO_OFFSET,
    BrokerId,
    LeaderAndIsr,
    LeaderEpoch,
    Offset,
    TopicPartition,
    new_tuple,
)
from kavka.replication.decide import partition_reasons as reasons
from kavka.replication.decide.isr_states import CommittedIsr, IsrProposal, IsrState, PendingExpand, PendingShrink
from kavka.replication.decide.partition_results import (
    NOTHING_MOVED,
    FollowerFetchResult,
    FollowingChange,
    IsrChange,
    LeadershipChange,
    PartitionAppend,
    PartitionRefusal,
    Resignation,
)
from kavka.replication.decide.partition_rules import PartitionRules
from kavka.replication.decide.partition_snapshot import PartitionSnapshot, RemoteSnapshot
from kavka.replication.decide.refusals import Refusals
from kavka.replication.decide.replica import NO_BROKER_EPOCH, RemoteReplica

if TYPE_CHECKING:
    from kavka.filesystem import Buffer
    from kavka.log.log_results import AppendResult, ReadResult
    from kavka.log.unified_log import UnifiedLog

ACKS_ALL = -1
REFUSED_PROPOSAL_PAUSE_MS = 500
"""How long a leader waits before it proposes again after a refusal: followers fetch more often than that."""


class Role(Enum):
    """What this broker is for the partition. A leader that learns of another leader is NONE until the controller's next
    order."""

    NONE = "none"
    LEADER = "leader"
    FOLLOWER = "follower"


_NOTHING = IsrChange()
_SURELY_NOT_STORED = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)
"""Refusals that say: your version is the current one, and nothing was stored, now or before."""


class Partition:
    """One hosted replica. One class: appends, fetches, time and the controller move the same ISR and high watermark.
    `min_insync_replicas` follows the topic's configuration.

    All `now_ms` of one partition come from one clock that never jumps; lags are measured with it. `wall_ms` is the time
    with which the log stamps records and ages segments; nothing here is measured with it. If both came from the wall
    clock, a leader alone in the ISR whose clock is set back by an hour would wait that hour for a follower that is long
    gone, and readers would not see what it acknowledges.
    """

    __slots__ = (
        "_alone",
        "_hw_floor",
        "_in_flight",
        "_is_leader",
        "_isr",
        "_may_propose_ms",
        "_newest_epoch",
        "_refusals",
        "_remotes",
        "_role",
        "_rules",
        "adding",
        "leader_epoch_start_offset",
        "local_broker_id",
        "log",
        "min_insync_replicas",
        "removing",
        "replicas",
        "state",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: uuid.UUID,
        log: UnifiedLog,
        *,
        local_broker_id: BrokerId,
        min_insync_replicas: int,
        rules: PartitionRules | None = None,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.local_broker_id = local_broker_id
        self.min_insync_replicas = min_insync_replicas
        self.replicas: tuple[BrokerId, ...] = ()
        self.adding: tuple[BrokerId, ...] = ()
        self.removing: tuple[BrokerId, ...] = ()
        # The committed state: `state.isr` is the committed ISR.
        self.state = LeaderAndIsr(NO_LEADER, NO_EPOCH, (), -1)
        self.leader_epoch_start_offset: Offset = NO_OFFSET
        self._rules = rules or PartitionRules()
        self._role = Role.NONE
        self._is_leader = False  # of `_role`, for the path of every request
        self._isr: IsrState = CommittedIsr(())
        self._in_flight: IsrProposal | None = None
        # The highest leader epoch that was heard of, by whatever way.
        self._newest_epoch = NO_EPOCH
        self._remotes: dict[BrokerId, RemoteReplica] = {}
        # The maximal ISR is this broker: an append may commit at once.
        self._alone = False
        self._hw_floor: Offset = 0
        self._may_propose_ms = 0
        self._refusals = Refusals()

    # -- questions

    @property
    def role(self) -> Role:
        return self._role

    @property
    def is_leader(self) -> bool:
        return self._is_leader

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self.state.leader_epoch

    @property
    def isr_state(self) -> IsrState:
        return self._isr

    @property
    def effective_min_isr(self) -> int:
        """min.insync.replicas, but no more than there are replicas."""
        return min(self.min_insync_replicas, len(self.replicas))

    @property
    def is_under_min_isr(self) -> bool:
        return len(self.state.isr) < min(self.min_insync_replicas, len(self.replicas))

    def remote_replicas(self) -> list[RemoteReplica]:
        """The followers as this leader sees them, in the order of the assignment."""
        return list(self._remotes.values())

    def remote_replica(self, broker_id: BrokerId) -> RemoteReplica | None:
        return self._remotes.get(broker_id)

    @property
    def low_watermark(self) -> Offset:
        """No replica on a live broker has records below this offset; -1 while a replica's log start is unknown."""
        low_watermark = self.log.log_start_offset
        for replica in self._remotes.values():
            if (
                replica.log_start_offset < low_watermark
                and self._rules.eligibility.status(replica.broker_id) is not None
            ):
                low_watermark = replica.log_start_offset
        return low_watermark

    def wants(self, proposal: IsrProposal) -> bool:
        """True if this leader waits for an answer to `proposal`."""
        return self._in_flight is proposal

    # -- all of it as a value

    def snapshot(self) -> PartitionSnapshot:
        """All that is remembered beside the log."""
        return PartitionSnapshot(
            self._role.value,
            self.state,
            self.replicas,
            self.adding,
            self.removing,
            self.min_insync_replicas,
            self.leader_epoch_start_offset,
            self._isr,
            self._in_flight,
            self._newest_epoch,
            tuple(RemoteSnapshot.of(remote) for remote in self._remotes.values()),
            self._hw_floor,
            self._may_propose_ms,
            self._refusals.intervals(),
            self._refusals.counts(),
        )

    def restore(self, snapshot: PartitionSnapshot) -> None:
        """Takes over the state in the snapshot. The caller must bring the log to its state at that time."""
        self._assign(snapshot.replicas, snapshot.adding, snapshot.removing)
        self.min_insync_replicas = snapshot.min_insync_replicas
        self.state = snapshot.state
        self.leader_epoch_start_offset = snapshot.leader_epoch_start_offset
        for remote in snapshot.remotes:
            remote.give_to(self._remotes[remote.broker_id])
        self._in_flight = snapshot.in_flight
        self._newest_epoch = snapshot.newest_epoch
        self._hw_floor = snapshot.hw_floor
        self._may_propose_ms = snapshot.may_propose_ms
        self._refusals.restore(snapshot.last_recorded, snapshot.suppressed)
        self._take_role(Role(snapshot.role))
        self._move(snapshot.isr)

    # -- the controller's word

    def become_leader(
        self,
        state: LeaderAndIsr,
        replicas: tuple[BrokerId, ...],
        *,
        adding: tuple[BrokerId, ...] = (),
        removing: tuple[BrokerId, ...] = (),
        now_ms: int,
        is_new: bool = False,
    ) -> LeadershipChange:
        """Leads from now on, in `state.leader_epoch`.

        An older leader or partition epoch than the one known changes nothing (I5); the same leader epoch again only
        refreshes the assignment and the ISR. `is_new`: the partition was just created.
        """
        if self._is_stale(state):
            return LeadershipChange(is_stale=True)
        was_leader = self._is_leader
        before = self.state
        is_new_epoch = state.leader_epoch > before.leader_epoch or not was_leader
        self._assign(replicas, adding, removing)
        if is_new_epoch:
            start = self.log.log_end_offset
            # At once, not with the first record (KAFKA-7415): a follower may ask for the end of the epoch before.
            self.log.assign_epoch_start_offset(state.leader_epoch, start)
            self.leader_epoch_start_offset = start
            self._hw_floor = self.log.high_watermark
            self._may_propose_ms = 0
            # What followers had fetched in an earlier epoch says nothing about this one.
            for broker_id, replica in self._remotes.items():
                replica.reset(now_ms, in_sync=broker_id in state.isr, keep_caught_up=was_leader)
        self._newest_epoch = max(self._newest_epoch, state.leader_epoch)
        if is_new_epoch or state.partition_epoch > before.partition_epoch:
            # A proposal builds on an older version: stored before this state or never.
            self._move(CommittedIsr(state.isr))
            if is_new_epoch:
                self._in_flight = None
        # The same version again tells nothing about a proposal in flight: it stays pending (R8).
        self.state = state
        self._take_role(Role.LEADER)
        decisions = (reasons.leadership_taken(self, before, now_ms, is_new=is_new),) if is_new_epoch else ()
        return LeadershipChange(
            is_stale=False,
            is_new_epoch=is_new_epoch,
            was_leader=was_leader,
            high_watermark_advanced=self._maybe_advance_high_watermark(now_ms),
            decisions=decisions,
        )

    def become_follower(
        self,
        state: LeaderAndIsr,
        replicas: tuple[BrokerId, ...],
        *,
        adding: tuple[BrokerId, ...] = (),
        removing: tuple[BrokerId, ...] = (),
        now_ms: int,
    ) -> FollowingChange:
        """Follows `state.leader` from now on (-1: nobody leads). An older epoch changes nothing (I5)."""
        if self._is_stale(state):
            return FollowingChange(is_stale=True)
        before, was_leader = self.state, self._is_leader
        needs_truncation = self._role is not Role.FOLLOWER or state.leader_epoch > before.leader_epoch
        self._assign(replicas, adding, removing)
        self._newest_epoch = max(self._newest_epoch, state.leader_epoch)
        self.state = state
        self.leader_epoch_start_offset = NO_OFFSET
        self._in_flight = None
        self._move(CommittedIsr(state.isr))
        self._take_role(Role.FOLLOWER)
        is_news = needs_truncation or state.leader != before.leader
        return FollowingChange(
            is_stale=False,
            needs_truncation=is_news,
            was_leader=was_leader,
            decisions=(reasons.following(self, before, now_ms, needs_truncation=needs_truncation),) if is_news else (),
        )

    def _is_stale(self, state: LeaderAndIsr) -> bool:
        return (
            state.leader_epoch < self.state.leader_epoch
            or state.leader_epoch < self._newest_epoch
            or state.partition_epoch < self.state.partition_epoch
        )

    def _assign(
        self, replicas: tuple[BrokerId, ...], adding: tuple[BrokerId, ...], removing: tuple[BrokerId, ...]
    ) -> None:
        """Takes over the list of replicas. A replica that is removed is forgotten; if it is added again, it starts from
        nothing."""
        self.replicas, self.adding, self.removing = replicas, adding, removing
        known = self._remotes
        self._remotes = {
            broker_id: known.get(broker_id) or RemoteReplica(broker_id)
            for broker_id in replicas
            if broker_id != self.local_broker_id
        }

    def _take_role(self, role: Role) -> None:
        self._role = role
        self._is_leader = role is Role.LEADER

    def _move(self, isr: IsrState) -> None:
        """The only place where the ISR's state changes."""
        maximal = isr.maximal_isr
        self._isr = isr
        self._alone = maximal == (self.local_broker_id,)
        for broker_id, replica in self._remotes.items():
            replica.in_maximal_isr = broker_id in maximal

    # -- appending as a leader

    def append_as_leader(
        self,
        records: Buffer,
        *,
        required_acks: int,
        now_ms: int,
        wall_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> PartitionAppend:
        """Appends what a producer sent, or a coordinator of this broker wrote.

        Raises `RequestError` (NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS), `RecordsError` from the log's checks, or
        `StorageError`; nothing was appended then.
        """
        if not self._is_leader:
            self._refuse_leader()
        state = self.state
        if required_acks == ACKS_ALL and len(state.isr) < self.min_insync_replicas and self.is_under_min_isr:
            self._refuse_produce(now_ms)
        result = self.log.append_as_leader(records, state.leader_epoch, wall_ms, origin=origin)
        # With others in the ISR the leader's own append raises nothing: they cannot have it yet.
        return new_tuple(PartitionAppend, (result, self._alone and self._maybe_advance_high_watermark(now_ms)))

    def _refuse_produce(self, now_ms: int) -> None:
        kind = DecisionKind.PRODUCE_REFUSED
        decisions = self._refusals.decide(kind, now_ms, lambda: reasons.produce_refused(self, now_ms))
        raise PartitionRefusal(ErrorCode.NOT_ENOUGH_REPLICAS, reasons.too_few_in_sync(self), decisions)

    def has_enough_replicas(self) -> bool:
        """True while the ISR meets min.insync.replicas. Asked again when an acks=all append is committed."""
        return len(self._isr.maximal_isr) >= self.min_insync_replicas or (
            len(self._isr.maximal_isr) >= self.effective_min_isr
        )

    # -- following

    def append_as_follower(self, records: Buffer, *, leader_epoch: LeaderEpoch, wall_ms: int) -> AppendResult | None:
        """Appends what the leader of `leader_epoch` sent; None if this broker no longer follows in that epoch, or
        where there is no whole batch. Raises `CorruptRecords` or `StorageError` as the log does.

        A batch of a later epoch, and all behind it, is left out: 1. the leader answers with a part of its file; 2. the
        network is slow; 3. the leader learns that another broker leads, truncates, and appends what that one sends;
        4. the rest of the answer is read from there. It may begin anywhere in the new leader's log, also behind records
        that differ here, and a follower that has a record of the new epoch finds no divergence any more (KAFKA-18723).
        """
        if self._role is not Role.FOLLOWER or leader_epoch != self.state.leader_epoch:
            return None
        return self.log.append_as_follower(records, wall_ms, last_epoch=leader_epoch)

    def set_follower_high_watermark(self, leader_high_watermark: Offset) -> bool:
        """Takes over the leader's high watermark, as far as this log reaches; whether it rose.

        It does not fall where a new leader's is lower: what was committed stays so, and consumers that read here may
        have seen it. Only a truncation takes it back.
        """
        if self._role is not Role.FOLLOWER:
            return False
        return self.log.advance_high_watermark(leader_high_watermark)

    def advance_log_start(self, leader_log_start_offset: Offset) -> bool:
        """Forgets what the leader has forgotten, as far as this log reaches; whether the log start moved."""
        if self._role is not Role.FOLLOWER:
            return False
        return self.log.advance_log_start_offset(leader_log_start_offset)

    # -- reading

    def read(
        self,
        offset: Offset,
        max_bytes: int,
        *,
        current_leader_epoch: LeaderEpoch,
        read_committed: bool,
        min_one_batch: bool,
        only_leader: bool = True,
    ) -> ReadResult:
        """Record batches from `offset` for a consumer, below this replica's high watermark (I4).

        Without `only_leader` a follower serves too (KIP-392). Raises `RequestError` (NOT_LEADER_OR_FOLLOWER,
        FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH) or `OffsetOutOfRange`.
        """
        if current_leader_epoch >= 0:
            self.check_epoch(current_leader_epoch)
        if not self._is_leader and (only_leader or self._role is Role.NONE):
            self._refuse_leader()
        log = self.log
        bound = log.last_stable_offset if read_committed else log.high_watermark
        return log.read_records(offset, max_bytes, max_offset=bound, min_one_batch=min_one_batch)

    def read_as_follower(self, offset: Offset, max_bytes: int, *, min_one_batch: bool) -> ReadResult:
        """Record batches from `offset` up to the log end, for a replica. Raises `OffsetOutOfRange`.

        The caller has asked `follower` before.
        """
        log = self.log
        return log.read(offset, max_bytes, max_offset=log.log_end_offset, min_one_batch=min_one_batch)

    def follower(self, broker_id: BrokerId, current_leader_epoch: LeaderEpoch, now_ms: int) -> RemoteReplica:
        """The replica on `broker_id`, which fetches in `current_leader_epoch` (-1: the request has none).

        Raises `RequestError`: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER; for a broker that is
        not a replica here (yet) UNKNOWN_LEADER_EPOCH, or NOT_LEADER_OR_FOLLOWER if its request has no epoch, as in
        Kafka.
        """
        known = self.state.leader_epoch
        if current_leader_epoch >= 0 and current_leader_epoch != known:
            code, why = self._another_epoch(current_leader_epoch)
            decisions = self._refusals.decide(
                DecisionKind.FENCED,
                now_ms,
                lambda: reasons.fetched_in_another_epoch(self, broker_id, current_leader_epoch, code, now_ms),
            )
            raise PartitionRefusal(code, why, decisions)
        if not self._is_leader:
            self._refuse_leader()
        replica = self._remotes.get(broker_id)
        if replica is None:
            code = ErrorCode.UNKNOWN_LEADER_EPOCH if current_leader_epoch >= 0 else ErrorCode.NOT_LEADER_OR_FOLLOWER
            raise RequestError(code, f"broker {broker_id} is not a replica of {self.topic_partition}: {self.replicas}")
        return replica

    def record_follower_fetch(
        self,
        broker_id: BrokerId,
        broker_epoch: int,
        fetch_offset: Offset,
        *,
        leader_end_offset: Offset,
        log_start_offset: Offset = 0,
        now_ms: int,
    ) -> FollowerFetchResult:
        """Notes that a follower has everything below `fetch_offset`, and what follows from it.

        `leader_end_offset` is this log's end when the fetch was read. Call it after `follower` passed, and not for a
        fetch whose log has diverged: its offset means nothing (KAFKA-13141). Raises `RequestError`
        (NOT_LEADER_OR_FOLLOWER) for a broker's former self.
        """
        replica = self._remotes[broker_id]
        if replica.says_the_same(
            fetch_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=leader_end_offset,
            broker_epoch=broker_epoch,
        ):
            replica.on_same_fetch(now_ms)
            return NOTHING_MOVED
        if not 0 <= fetch_offset <= self.log.log_end_offset:
            raise InvariantViolation(
                f"{self.topic_partition}: a fetch of broker {broker_id} at {fetch_offset} was read, the log ends at "
                f"{self.log.log_end_offset}"
            )
        if broker_epoch != NO_BROKER_EPOCH and broker_epoch != replica.broker_epoch:
            self._check_broker_epoch(broker_id, broker_epoch, now_ms)
        log_start_moved = log_start_offset != replica.log_start_offset
        moved = replica.on_fetch(
            fetch_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=leader_end_offset,
            broker_epoch=broker_epoch,
            now_ms=now_ms,
        )
        proposal = None
        if not replica.in_maximal_isr and broker_id not in self.state.isr:
            proposal = self._propose_expand(replica, now_ms)
        advanced = moved and self._maybe_advance_high_watermark(now_ms)
        return FollowerFetchResult(advanced, proposal, log_start_moved)

    def _check_broker_epoch(self, broker_id: BrokerId, broker_epoch: int, now_ms: int) -> None:
        status = self._rules.eligibility.status(broker_id)
        if status is not None and status.broker_epoch > broker_epoch:
            epochs = (broker_epoch, status.broker_epoch)
            decisions = self._refusals.decide(
                DecisionKind.FENCED,
                now_ms,
                lambda: reasons.fetched_before_restart(self, broker_id, epochs, now_ms),
            )
            why = reasons.sent_before_restart(broker_id, epochs)
            raise PartitionRefusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, why, decisions)

    @property
    def offsets_lag(self) -> bool:
        """True while this leader's high watermark may be lower than the one that an earlier leader showed to consumers.

        That is so until it has reached the start of the leader's epoch. A client that asks for the latest offset
        meanwhile gets OFFSET_NOT_AVAILABLE, so that the offset does not seem to go back (KIP-207).
        """
        return self._is_leader and self.leader_epoch_start_offset > self.log.high_watermark

    def check_epoch(self, current_leader_epoch: LeaderEpoch) -> None:
        """Refuses a request that was meant for another leader epoch. -1 (from an old client, which sends none)
        passes."""
        if current_leader_epoch >= 0 and current_leader_epoch != self.state.leader_epoch:
            raise RequestError(*self._another_epoch(current_leader_epoch))

    def _another_epoch(self, asked: LeaderEpoch) -> tuple[ErrorCode, str]:
        known = self.state.leader_epoch
        code = ErrorCode.FENCED_LEADER_EPOCH if asked < known else ErrorCode.UNKNOWN_LEADER_EPOCH
        return code, f"{self.topic_partition} is in leader epoch {known}; the request names {asked}"

    def check_leads(self, current_leader_epoch: LeaderEpoch = NO_EPOCH) -> None:
        """Raises `RequestError` unless this broker leads the partition in `current_leader_epoch`."""
        self.check_epoch(current_leader_epoch)
        if not self._is_leader:
            self._refuse_leader()

    def check_serves(self, current_leader_epoch: LeaderEpoch = NO_EPOCH) -> None:
        """Raises `RequestError` unless this broker leads or follows the partition in `current_leader_epoch`."""
        self.check_epoch(current_leader_epoch)
        if self._role is Role.NONE:
            self._refuse_leader()

    def _refuse_leader(self) -> None:
        raise RequestError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"broker {self.local_broker_id} does not lead {self.topic_partition}; broker {self.state.leader} does",
        )

    # -- who is in sync

    def propose_shrink(self, now_ms: int) -> IsrProposal | None:
        """Proposes an ISR without the replicas that lag. Repeats a pending change whose outcome is unknown and that no
        request carries.

        Call it every replica.lag.time.max.ms / 2.
        """
        if not self._is_leader or self._in_flight is not None:
            return None
        isr = self._isr
        if not isinstance(isr, CommittedIsr):
            self._in_flight = isr.proposal
            return isr.proposal
        if self._alone:
            return None
        end_offset, policy = self.log.log_end_offset, self._rules.lag_policy
        leaving = [
            replica
            for replica in self._remotes.values()
            if replica.in_maximal_isr and not policy.is_in_sync(replica, end_offset, now_ms)
        ]
        # A member of the ISR that is no replica any more: a reassignment took it out.
        strangers = [
            broker_id for broker_id in isr.isr if broker_id != self.local_broker_id and broker_id not in self._remotes
        ]
        if not leaving and not strangers:
            return None
        gone = (*(replica.broker_id for replica in leaving), *strangers)
        remaining = tuple(broker_id for broker_id in isr.isr if broker_id not in gone)
        decision = reasons.isr_shrunk(self, leaving, strangers, self._rules.lag_policy, now_ms)
        proposal = self._proposal(remaining, decision)
        self._move(PendingShrink(isr.isr, gone, proposal))
        return proposal

    def _propose_expand(self, replica: RemoteReplica, now_ms: int) -> IsrProposal | None:
        """Proposes an ISR with `replica`, if it may join (I6)."""
        isr, log = self._isr, self.log
        if self._in_flight is not None or not isinstance(isr, CommittedIsr) or now_ms < self._may_propose_ms:
            return None
        end_offset = replica.log_end_offset
        if end_offset < log.high_watermark or end_offset < self.leader_epoch_start_offset:
            return None
        # One look at the cluster for both questions: alive and staying, and the same self that has fetched.
        status = self._rules.eligibility.status(replica.broker_id)
        if not replica.is_eligible(status):
            return None
        joined = (*isr.isr, replica.broker_id)
        decision = reasons.isr_expanded(self, replica, now_ms)
        proposal = self._proposal(joined, decision)
        self._move(PendingExpand(isr.isr, replica.broker_id, proposal))
        return proposal

    def _proposal(self, isr: tuple[BrokerId, ...], decision: Decision) -> IsrProposal:
        if self.local_broker_id not in isr:
            raise InvariantViolation(f"{self.topic_partition}: leader {self.local_broker_id} proposes an ISR of {isr}")
        proposal = self._in_flight = IsrProposal(
            self.topic_partition,
            self.topic_id,
            self.local_broker_id,
            self.state.leader_epoch,
            self.state.partition_epoch,
            tuple((broker_id, self._broker_epoch(broker_id)) for broker_id in isr),
            decision,
        )
        return proposal

    def _broker_epoch(self, broker_id: BrokerId) -> int:
        if broker_id == self.local_broker_id:
            status = self._rules.eligibility.status(broker_id)
            return NO_BROKER_EPOCH if status is None else status.broker_epoch
        replica = self._remotes.get(broker_id)
        return NO_BROKER_EPOCH if replica is None else replica.broker_epoch

    # -- answers to a proposal

    def on_isr_committed(self, proposal: IsrProposal, state: LeaderAndIsr, *, now_ms: int) -> IsrChange:
        """`state` is stored, by this proposal or by an equal one."""
        if not self._take_answer(proposal):
            return _NOTHING
        return self._adopt(proposal, state, now_ms)

    def on_isr_rejected(
        self, proposal: IsrProposal, current: LeaderAndIsr | None, error: ErrorCode, *, now_ms: int
    ) -> IsrChange:
        """The proposal was refused; `current` is what is stored, if the answer says."""
        if not self._take_answer(proposal):
            return _NOTHING
        self._may_propose_ms = now_ms + REFUSED_PROPOSAL_PAUSE_MS
        kind = DecisionKind.ISR_CHANGE_REFUSED
        decisions = self._refusals.decide(
            kind, now_ms, lambda: reasons.isr_change_refused(self, proposal, current, error, now_ms)
        )
        if current is not None:
            change = self._adopt(proposal, current, now_ms)
            return change._replace(decisions=(*decisions, *change.decisions))
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            # The controller's word of that epoch is on its way, as a rule; if not, see `resign_if_fenced`.
            self._newest_epoch = max(self._newest_epoch, proposal.leader_epoch + 1)
        if error in _SURELY_NOT_STORED and self._is_pending(proposal):
            self._move(CommittedIsr(self.state.isr))
            for replica in self._remotes.values():
                if replica.broker_id in proposal.isr and not replica.in_maximal_isr:
                    replica.forget_caught_up()
            return IsrChange(
                isr_changed=True,
                high_watermark_advanced=self._maybe_advance_high_watermark(now_ms),
                decisions=decisions,
            )
        # Another request, sent again or by another controller, may have stored it: the maximal ISR stays. The
        # controller's next word decides, or the same proposal once more (`propose_shrink`).
        return IsrChange(decisions=decisions)

    def on_isr_unknown(self, proposal: IsrProposal) -> IsrChange:
        """No answer: the maximal ISR stays as it is, and the proposal in flight, to be sent again."""
        return _NOTHING

    def resign_if_fenced(self, now_ms: int) -> Resignation | None:
        """Stops leading if the controller answered that this leader epoch is over, and its order for the next one has
        not come. None if the partition goes on leading, or did not lead. Call it with `propose_shrink`.

        Otherwise a leader that the controller cannot reach would accept records with acks=1 and lose all of them.
        """
        known = self.state.leader_epoch
        if not self._is_leader or self._newest_epoch <= known:
            return None
        self._take_role(Role.NONE)
        return Resignation((reasons.resigned(self, self._newest_epoch, now_ms),))

    def raise_high_watermark(self, now_ms: int) -> bool:
        """Raises the high watermark if a replica that it waited for lags too much by now, or is gone. Returns whether
        it rose."""
        return self._is_leader and self._maybe_advance_high_watermark(now_ms)

    def _take_answer(self, proposal: IsrProposal) -> bool:
        if self._in_flight is not proposal:
            return False
        self._in_flight = None
        return self._is_leader and proposal.leader_epoch == self.state.leader_epoch

    def _is_pending(self, proposal: IsrProposal) -> bool:
        return not isinstance(self._isr, CommittedIsr) and self._isr.proposal is proposal

    def _adopt(self, proposal: IsrProposal, stored: LeaderAndIsr, now_ms: int) -> IsrChange:
        """Takes over what is stored, unless something newer is known already."""
        known = self.state
        if stored.leader_epoch < known.leader_epoch or stored.partition_epoch < known.partition_epoch:
            return _NOTHING
        if stored.leader_epoch > known.leader_epoch or stored.leader != self.local_broker_id:
            return self._abdicate(stored)
        before = known.isr
        self.state = stored
        self._move(CommittedIsr(stored.isr))
        is_proposed = stored.isr != before and set(stored.isr) == set(proposal.isr)
        return IsrChange(
            isr_changed=True,
            high_watermark_advanced=self._maybe_advance_high_watermark(now_ms),
            decisions=(proposal.decision,) if is_proposed else (),
        )

    def _abdicate(self, stored: LeaderAndIsr) -> IsrChange:
        """Another broker leads, and the controller's order has not come yet: serve nothing until it comes."""
        self._newest_epoch = max(self._newest_epoch, stored.leader_epoch)
        self._take_role(Role.NONE)
        return IsrChange(lost_leadership=True)

    # -- the high watermark

    def _maybe_advance_high_watermark(self, now_ms: int) -> bool:
        log = self.log
        high_watermark = log.high_watermark
        if high_watermark < self._hw_floor:
            raise InvariantViolation(
                f"{self.topic_partition}: the high watermark fell from {self._hw_floor} to {high_watermark} in leader "
                f"epoch {self.state.leader_epoch}"
            )
        end_offset = least = log.log_end_offset
        for replica in self._remotes.values():
            if replica.log_end_offset < least and (
                replica.in_maximal_isr or self._waits_to_join(replica, end_offset, now_ms)
            ):
                least = replica.log_end_offset
        if least <= high_watermark:
            return False
        if len(self.state.isr) < self.min_insync_replicas and self.is_under_min_isr:
            if self._rules.holds_under_min_isr:
                return False
            least = min(least, self.leader_epoch_start_offset)
            if least <= high_watermark:
                return False
        if not self._alone:
            self._check_members(least)
        log.advance_high_watermark(least)
        self._hw_floor = log.high_watermark
        return True

    def _waits_to_join(self, replica: RemoteReplica, end_offset: Offset, now_ms: int) -> bool:
        """True if a replica outside of the ISR is so close that the high watermark waits for it; otherwise it could
        never catch up with a rising high watermark. A replica that may not join must not hold it back (KAFKA-15021).
        One that was refused may have stopped with its last fetch: it holds nothing until it fetches after the pause."""
        if replica.last_fetch_ms < self._may_propose_ms:
            return False
        return self._rules.lag_policy.is_in_sync(replica, end_offset, now_ms) and replica.is_eligible(
            self._rules.eligibility.status(replica.broker_id)
        )

    def _check_members(self, high_watermark: Offset) -> None:
        """R8: every replica in the maximal ISR has the records that are about to be committed."""
        for broker_id in self._isr.maximal_isr:
            if broker_id == self.local_broker_id:
                continue
            replica = self._remotes.get(broker_id)
            if replica is not None and replica.log_end_offset < high_watermark:
                raise InvariantViolation(
                    f"{self.topic_partition}: high watermark {high_watermark} is above the log end "
                    f"{replica.log_end_offset} of broker {broker_id}, which may be in the ISR"
                )
