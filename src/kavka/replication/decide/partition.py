"""Partition: one replica's view of a partition that it hosts: its role, its log, who is in sync, what is committed.

Decides: whether this broker may append or serve reads (role and leader epoch), when an append is refused for want of
in-sync replicas, who should leave or join the ISR, and where the high watermark stands. Must not know: who waits for it
(the purgatory), who asked (the protocol), how a proposed ISR travels (isr_changes), or where the state comes from (the
controller).

    I1  only a leader appends, and only records of its own leader epoch; a follower appends only what the leader of its
        own leader epoch sent
    I2  a leader's high watermark is at most the least log end offset over the maximal ISR (isr.py) and over caught-up
        replicas that wait to join it; it is never above the leader's own log end
    I3  within one leader epoch the high watermark never falls
    I4  what a consumer reads lies below the high watermark (read_committed: below the last stable offset)
    I5  a leader epoch or partition epoch, once seen, is never followed by a lower one
    I6  a replica is proposed for the ISR only if, in this leader epoch, it fetched at or above the high watermark and
        the start of the epoch (KAFKA-7128), is alive, is not shutting down and is no former self (KIP-841, KIP-903)
    I7  at most one proposal is in flight; an answer to another one, or of an older version, changes nothing

While fewer replicas are in sync than min.insync.replicas asks for, the high watermark stands still: what is written
then could be lost with one replica (KIP-966). Apache Kafka 3.9 does so at once; here a new leader may still raise it up
to the start of its epoch, so that what was acknowledged before it was elected stays readable. With
`kavka.eligible.leader.replicas.enable` it does not move at all: the controller counts on it when it has a replica lead
that left the ISR then.

Where this differs from Kafka: the same state announced again keeps a proposal in flight pending (there it forgets that
the set may have grown); an answer that shows another leader ends the reign at once; what followers had fetched in an
earlier epoch never counts.

Source: Kafka's Partition, 3.9; KIP-101 and KIP-320 for epochs, KIP-207 for list offsets; article 003 for the ISR.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kavka.decisions import Decision, DecisionKind, Fact, RecordDecision, forget
from kavka.errors import ErrorCode, InvariantViolation, OffsetOutOfRange, RequestError
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
)
from kavka.replication.decide.isr import CommittedIsr, IsrProposal, IsrState, PendingExpand, PendingShrink
from kavka.replication.decide.lag_policy import LagPolicy, TimeLagPolicy
from kavka.replication.decide.partition_snapshot import PartitionSnapshot, RemoteSnapshot
from kavka.replication.decide.replica import NO_BROKER_EPOCH, AllEligible, RemoteReplica, ReplicaEligibility

if TYPE_CHECKING:
    from kavka.filesystem import Buffer
    from kavka.log.unified_log import AppendResult, ReadResult, UnifiedLog

ACKS_ALL = -1
REFUSED_PROPOSAL_PAUSE_MS = 500
"""How long a leader waits before it proposes again after a refusal: followers fetch more often than that."""
RECORD_INTERVAL_MS = 1_000
MAX_RECORD_INTERVAL_MS = 60_000
"""Refusals of one kind are recorded at most so often per partition, half as often each time while they go on; the next
record says how many there were."""


class Role(Enum):
    """What this broker is for the partition. A leader that learned of another one is NONE until it is told more."""

    NONE = "none"
    LEADER = "leader"
    FOLLOWER = "follower"


@dataclass(frozen=True, slots=True)
class PartitionRules:
    """What holds for all partitions of a broker. `holds_under_min_isr` is kavka.eligible.leader.replicas.enable."""

    lag_policy: LagPolicy = TimeLagPolicy(30_000)  # noqa: RUF009 - an immutable value
    eligibility: ReplicaEligibility = AllEligible()  # noqa: RUF009
    record: RecordDecision = forget
    holds_under_min_isr: bool = False


class PartitionAppend(NamedTuple):
    """What an append did: the log's result, and whether the high watermark rose with it."""

    result: AppendResult
    high_watermark_advanced: bool


class EpochEndOffset(NamedTuple):
    """The answer to OffsetForLeaderEpoch: the largest epoch not above the one asked for, and where it ends."""

    leader_epoch: LeaderEpoch
    end_offset: Offset


class LeadershipChange(NamedTuple):
    """What `become_leader` did. Where `is_stale` nothing was changed."""

    is_stale: bool
    is_new_epoch: bool = False
    was_leader: bool = False
    high_watermark_advanced: bool = False


class FollowingChange(NamedTuple):
    """What `become_follower` did. Where `is_stale` nothing was changed.

    `needs_truncation`: the leader epoch is another one, so what is fetched next must begin with the check where the
    logs part, even if the leader is the same as before (KAFKA-7164). The fetcher must be started again with it.
    """

    is_stale: bool
    needs_truncation: bool = False
    was_leader: bool = False


class FollowerFetchResult(NamedTuple):
    """What a follower's fetch moved. `log_start_moved`: the follower's own, and with it maybe the low watermark."""

    high_watermark_advanced: bool
    proposal: IsrProposal | None
    log_start_moved: bool = False


class IsrChange(NamedTuple):
    """What the answer to a proposal changed. `lost_leadership`: it showed that another broker leads."""

    isr_changed: bool = False
    high_watermark_advanced: bool = False
    lost_leadership: bool = False


_NOTHING = IsrChange()
_SURELY_NOT_STORED = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)
"""Refusals that say: your version is the current one, and nothing was stored, now or before."""


class Partition:
    """One hosted replica. `min_insync_replicas` follows the topic's configuration.

    All `now_ms` of one partition come from one clock, which never jumps: lags are measured on it. `wall_ms` is the time
    that its log stamps records with and ages segments by, and nothing here is measured on it. With both from the wall
    clock, a leader alone in the ISR whose clock is set back an hour waits that hour for a follower that is long gone,
    and shows no reader what it acknowledges.
    """

    __slots__ = (
        "_alone",
        "_hw_floor",
        "_in_flight",
        "_is_leader",
        "_isr",
        "_last_recorded",
        "_may_propose_ms",
        "_newest_epoch",
        "_remotes",
        "_role",
        "_rules",
        "_suppressed",
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
        # By kind: when it was recorded last, and how long the next one must wait.
        self._last_recorded: dict[DecisionKind, tuple[int, int]] = {}
        self._suppressed: dict[DecisionKind, int] = {}

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
        """Below it no replica on a live broker has records any more; -1 while one has not said where its log starts."""
        low_watermark = self.log.log_start_offset
        for replica in self._remotes.values():
            if (
                replica.log_start_offset < low_watermark
                and self._rules.eligibility.standing(replica.broker_id) is not None
            ):
                low_watermark = replica.log_start_offset
        return low_watermark

    def wants(self, proposal: IsrProposal) -> bool:
        """Whether `proposal` is the one that an answer is awaited for."""
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
            tuple(
                RemoteSnapshot(
                    remote.broker_id,
                    remote.log_start_offset,
                    remote.log_end_offset,
                    remote.last_fetch_leader_end_offset,
                    remote.last_caught_up_ms,
                    remote.last_fetch_ms,
                    remote.broker_epoch,
                )
                for remote in self._remotes.values()
            ),
            self._hw_floor,
            self._may_propose_ms,
            tuple((kind, at_ms, interval_ms) for kind, (at_ms, interval_ms) in self._last_recorded.items()),
            tuple(self._suppressed.items()),
        )

    def restore(self, snapshot: PartitionSnapshot) -> None:
        """Is from now on what the snapshot was taken of. The log is the caller's to bring to where it was then."""
        self._assign(snapshot.replicas, snapshot.adding, snapshot.removing)
        self.min_insync_replicas = snapshot.min_insync_replicas
        self.state = snapshot.state
        self.leader_epoch_start_offset = snapshot.leader_epoch_start_offset
        for remote in snapshot.remotes:
            replica = self._remotes[remote.broker_id]
            replica.log_start_offset = remote.log_start_offset
            replica.log_end_offset = remote.log_end_offset
            replica.last_fetch_leader_end_offset = remote.last_fetch_leader_end_offset
            replica.last_caught_up_ms = remote.last_caught_up_ms
            replica.last_fetch_ms = remote.last_fetch_ms
            replica.broker_epoch = remote.broker_epoch
        self._in_flight = snapshot.in_flight
        self._newest_epoch = snapshot.newest_epoch
        self._hw_floor = snapshot.hw_floor
        self._may_propose_ms = snapshot.may_propose_ms
        self._last_recorded = {kind: (at_ms, interval_ms) for kind, at_ms, interval_ms in snapshot.last_recorded}
        self._suppressed = dict(snapshot.suppressed)
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
            # What followers had fetched in an earlier reign says nothing about this one.
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
        if is_new_epoch:
            self._record(
                DecisionKind.LEADERSHIP_TAKEN,
                f"the controller made broker {self.local_broker_id} the leader in epoch {state.leader_epoch}; its log "
                f"ends at {self.log.log_end_offset}, {self.log.high_watermark} of it known as committed",
                now_ms,
                before={"leader": before.leader, "leader_epoch": before.leader_epoch},
                after={"leader": state.leader, "leader_epoch": state.leader_epoch, "isr": list(state.isr)},
                evidence={"is_new": is_new, "partition_epoch": state.partition_epoch, "replicas": list(replicas)},
            )
        return LeadershipChange(
            is_stale=False,
            is_new_epoch=is_new_epoch,
            was_leader=was_leader,
            high_watermark_advanced=self._maybe_advance_high_watermark(now_ms),
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
        if needs_truncation or state.leader != before.leader:
            self._record(
                DecisionKind.FOLLOWING,
                f"broker {self.local_broker_id} follows broker {state.leader} in leader epoch {state.leader_epoch}"
                + (", and looks first where their logs part" if needs_truncation else ""),
                now_ms,
                before={"leader": before.leader, "leader_epoch": before.leader_epoch},
                after={"leader": state.leader, "leader_epoch": state.leader_epoch},
            )
        return FollowingChange(
            is_stale=False,
            needs_truncation=needs_truncation or state.leader != before.leader,
            was_leader=was_leader,
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
        """Takes over who the replicas are. One that is taken out is forgotten: put back, it begins anew."""
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
        return PartitionAppend(result, self._alone and self._maybe_advance_high_watermark(now_ms))

    def _refuse_produce(self, now_ms: int) -> None:
        isr, needed = self.state.isr, self.effective_min_isr
        why = f"{self.topic_partition} has {len(isr)} in-sync replicas, min.insync.replicas asks for {needed}"
        self._record_refusal(
            DecisionKind.PRODUCE_REFUSED,
            why,
            now_ms,
            evidence={
                "isr": list(isr),
                "min_insync_replicas": self.min_insync_replicas,
                "high_watermark": self.log.high_watermark,
                "log_end_offset": self.log.log_end_offset,
            },
        )
        raise RequestError(ErrorCode.NOT_ENOUGH_REPLICAS, why)

    def has_enough_replicas(self) -> bool:
        """Whether the ISR still meets min.insync.replicas: asked again when an acks=all append is committed."""
        return len(self._isr.maximal_isr) >= self.min_insync_replicas or (
            len(self._isr.maximal_isr) >= self.effective_min_isr
        )

    # -- following

    def append_as_follower(self, records: Buffer, *, leader_epoch: LeaderEpoch, wall_ms: int) -> AppendResult | None:
        """Appends what the leader of `leader_epoch` sent; None where this broker no longer follows in that epoch, or
        where there is no whole batch. Raises `CorruptRecords` or `StorageError` as the log does."""
        if self._role is not Role.FOLLOWER or leader_epoch != self.state.leader_epoch:
            return None
        return self.log.append_as_follower(records, wall_ms)

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
        """The replica on `broker_id`, which fetches in `current_leader_epoch` (-1: it does not say).

        Raises `RequestError`: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER; for a broker that is
        no replica here (yet) UNKNOWN_LEADER_EPOCH, or NOT_LEADER_OR_FOLLOWER where it tells no epoch, as Kafka does.
        """
        known = self.state.leader_epoch
        if current_leader_epoch >= 0 and current_leader_epoch != known:
            code = ErrorCode.FENCED_LEADER_EPOCH if current_leader_epoch < known else ErrorCode.UNKNOWN_LEADER_EPOCH
            self._record_refusal(
                DecisionKind.FENCED,
                f"broker {broker_id} fetched in leader epoch {current_leader_epoch}, broker {self.local_broker_id} "
                f"is in {known}: {code.name}",
                now_ms,
                evidence={"fetching_broker": broker_id, "asked_epoch": current_leader_epoch, "error": code.name},
            )
            raise RequestError(
                code, f"{self.topic_partition} is in leader epoch {known}, {current_leader_epoch} was asked for"
            )
        if not self._is_leader:
            self._refuse_leader()
        replica = self._remotes.get(broker_id)
        if replica is None:
            code = ErrorCode.UNKNOWN_LEADER_EPOCH if current_leader_epoch >= 0 else ErrorCode.NOT_LEADER_OR_FOLLOWER
            raise RequestError(code, f"broker {broker_id} is no replica of {self.topic_partition}: {self.replicas}")
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
        standing = self._rules.eligibility.standing(broker_id)
        if standing is not None and standing.broker_epoch > broker_epoch:
            why = (
                f"a fetch of broker {broker_id} with broker epoch {broker_epoch} comes from before its restart: it is "
                f"registered with {standing.broker_epoch}"
            )
            self._record_refusal(
                DecisionKind.FENCED,
                why,
                now_ms,
                evidence={
                    "fetching_broker": broker_id,
                    "broker_epoch": broker_epoch,
                    "registered_epoch": standing.broker_epoch,
                },
            )
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER, why)

    def diverging_epoch(self, last_fetched_epoch: LeaderEpoch, offset: Offset) -> EpochEndOffset | None:
        """Where a reader's log left this one, None if it did not (KIP-320).

        `last_fetched_epoch` is the epoch of the record before `offset` in the reader's log, -1 if it does not say.
        Raises `OffsetOutOfRange` where nothing is known of that epoch any more.
        """
        if last_fetched_epoch < 0:
            return None
        end = self.end_offset_for_epoch(last_fetched_epoch)
        if end.end_offset < 0:
            raise OffsetOutOfRange(f"{self.topic_partition} knows no epoch up to {last_fetched_epoch}")
        if offset < self.log.log_start_offset:
            raise OffsetOutOfRange(f"{self.topic_partition}: offset {offset} is below {self.log.log_start_offset}")
        if end.leader_epoch < last_fetched_epoch or end.end_offset < offset:
            return end
        return None

    def end_offset_for_epoch(self, leader_epoch: LeaderEpoch) -> EpochEndOffset:
        """The end of the largest epoch that is not above `leader_epoch`; (-1, -1) where none is known."""
        epoch, end_offset = self.log.end_offset_for_epoch(leader_epoch)
        return EpochEndOffset(epoch, end_offset)

    @property
    def offsets_lag(self) -> bool:
        """Whether the high watermark of this leader may still lie below what an earlier one showed to consumers.

        A new leader's does until it has reached the start of its epoch: who asks for the latest offset meanwhile is
        told OFFSET_NOT_AVAILABLE, lest the offset seem to go back (KIP-207).
        """
        return self._is_leader and self.leader_epoch_start_offset > self.log.high_watermark

    def check_epoch(self, current_leader_epoch: LeaderEpoch) -> None:
        """Refuses a request that was meant for another reign. -1 (an old client that does not say) passes."""
        known = self.state.leader_epoch
        if current_leader_epoch < 0 or current_leader_epoch == known:
            return
        code = ErrorCode.FENCED_LEADER_EPOCH if current_leader_epoch < known else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise RequestError(
            code, f"{self.topic_partition} is in leader epoch {known}, {current_leader_epoch} was asked for"
        )

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
        """The ISR without those who lag, if any do; or once more a change whose fate is open and that nobody carries.

        To be asked every replica.lag.time.max.ms / 2.
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
        return self._propose_shrink(isr.isr, leaving, strangers, now_ms)

    def _propose_shrink(
        self, isr: tuple[BrokerId, ...], leaving: list[RemoteReplica], strangers: list[BrokerId], now_ms: int
    ) -> IsrProposal:
        end_offset, policy = self.log.log_end_offset, self._rules.lag_policy
        gone = (*(replica.broker_id for replica in leaving), *strangers)
        remaining = tuple(broker_id for broker_id in isr if broker_id not in gone)
        reasons = [f"broker {r.broker_id} {policy.why(r, end_offset, now_ms)}" for r in leaving]
        reasons += [f"broker {broker_id} is no replica any more" for broker_id in strangers]
        evidence: dict[str, Fact] = self._offsets()
        for replica in leaving:
            evidence[f"broker_{replica.broker_id}_log_end_offset"] = replica.log_end_offset
            evidence[f"broker_{replica.broker_id}_last_caught_up_ms"] = replica.last_caught_up_ms
            evidence[f"broker_{replica.broker_id}_last_fetch_ms"] = replica.last_fetch_ms
        decision = self._decision(
            DecisionKind.ISR_SHRUNK,
            "; ".join(reasons),
            now_ms,
            before={"isr": list(isr)},
            after={"isr": list(remaining)},
            evidence=evidence,
        )
        proposal = self._proposal(remaining, decision)
        self._move(PendingShrink(isr, gone, proposal))
        return proposal

    def _propose_expand(self, replica: RemoteReplica, now_ms: int) -> IsrProposal | None:
        """The ISR with `replica`, where it may join (I6)."""
        isr, log = self._isr, self.log
        if self._in_flight is not None or not isinstance(isr, CommittedIsr) or now_ms < self._may_propose_ms:
            return None
        end_offset = replica.log_end_offset
        if end_offset < log.high_watermark or end_offset < self.leader_epoch_start_offset:
            return None
        # One look at the cluster for both questions: alive and staying, and the same self that has fetched.
        standing = self._rules.eligibility.standing(replica.broker_id)
        if not replica.is_eligible(standing):
            return None
        joined = (*isr.isr, replica.broker_id)
        decision = self._decision(
            DecisionKind.ISR_EXPANDED,
            f"broker {replica.broker_id} has caught up: its log ends at {end_offset}, the high watermark is "
            f"{log.high_watermark}",
            now_ms,
            before={"isr": list(isr.isr)},
            after={"isr": list(joined)},
            evidence={
                **self._offsets(),
                "joining": replica.broker_id,
                "log_end_offset_of_joining": end_offset,
                "broker_epoch_of_joining": replica.broker_epoch,
            },
        )
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
            standing = self._rules.eligibility.standing(broker_id)
            return NO_BROKER_EPOCH if standing is None else standing.broker_epoch
        replica = self._remotes.get(broker_id)
        return NO_BROKER_EPOCH if replica is None else replica.broker_epoch

    # -- answers to a proposal

    def on_isr_committed(self, proposal: IsrProposal, state: LeaderAndIsr, *, now_ms: int) -> IsrChange:
        """`state` is stored, by this proposal or one like it."""
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
        self._record_refusal(
            DecisionKind.ISR_CHANGE_REFUSED,
            f"the ISR {list(proposal.isr)} was refused with {error.name}: {proposal.decision.why}",
            now_ms,
            before={"isr": list(self.state.isr)},
            after={} if current is None else {"isr": list(current.isr), "leader": current.leader},
            evidence={"error": error.name, "partition_epoch": proposal.partition_epoch, "isr": list(proposal.isr)},
        )
        if current is not None:
            return self._adopt(proposal, current, now_ms)
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            # The controller's word of that epoch is on its way, as a rule; if not, see `resign_if_fenced`.
            self._newest_epoch = max(self._newest_epoch, proposal.leader_epoch + 1)
        if error in _SURELY_NOT_STORED and self._is_pending(proposal):
            self._move(CommittedIsr(self.state.isr))
            for replica in self._remotes.values():
                if replica.broker_id in proposal.isr and not replica.in_maximal_isr:
                    replica.forget_caught_up()
            return IsrChange(isr_changed=True, high_watermark_advanced=self._maybe_advance_high_watermark(now_ms))
        # Another request, sent again or by another controller, may have stored it: the maximal ISR stays. The
        # controller's next word decides, or the same proposal once more (`propose_shrink`).
        return _NOTHING

    def on_isr_unknown(self, proposal: IsrProposal) -> IsrChange:
        """No answer: the maximal ISR stays as it is, and the proposal in flight, to be sent again."""
        return _NOTHING

    def resign_if_fenced(self, now_ms: int) -> bool:
        """Leads no longer where the controller refused this leader epoch as over, and its word of the next one did not
        come; whether that is so. To be asked with `propose_shrink`.

        A leader that the controller cannot reach would go on taking records with acks=1, all of which are lost.
        """
        known = self.state.leader_epoch
        if not self._is_leader or self._newest_epoch <= known:
            return False
        self._record(
            DecisionKind.FENCED,
            f"broker {self.local_broker_id} led in epoch {known}, which the controller says is over, and heard of no "
            "other: it takes and gives no records until it does",
            now_ms,
            evidence={"leader_epoch": known, "later_epoch": self._newest_epoch},
        )
        self._take_role(Role.NONE)
        return True

    def raise_high_watermark(self, now_ms: int) -> bool:
        """Whether it rose because a replica that it waited for is too late by now, or gone."""
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
        if stored.isr != before and set(stored.isr) == set(proposal.isr):
            self._rules.record(proposal.decision)
        return IsrChange(isr_changed=True, high_watermark_advanced=self._maybe_advance_high_watermark(now_ms))

    def _abdicate(self, stored: LeaderAndIsr) -> IsrChange:
        """Another broker leads, and the controller's word is still on its way: nothing is served until it comes."""
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
        self._check_members(least)
        log.advance_high_watermark(least)
        self._hw_floor = log.high_watermark
        return True

    def _waits_to_join(self, replica: RemoteReplica, end_offset: Offset, now_ms: int) -> bool:
        """Whether a replica outside of the ISR is so close that the high watermark waits for it: else it would never
        catch up with a high watermark that runs ahead. One that may not join must not hold it (KAFKA-15021)."""
        return self._rules.lag_policy.is_in_sync(replica, end_offset, now_ms) and replica.is_eligible(
            self._rules.eligibility.standing(replica.broker_id)
        )

    def _check_members(self, high_watermark: Offset) -> None:
        """R8: every member of the maximal ISR that is a replica has what is about to be committed."""
        for broker_id in self._isr.maximal_isr:
            if broker_id == self.local_broker_id:
                continue
            replica = self._remotes.get(broker_id)
            if replica is not None and replica.log_end_offset < high_watermark:
                raise InvariantViolation(
                    f"{self.topic_partition}: high watermark {high_watermark} is above the log end "
                    f"{replica.log_end_offset} of broker {broker_id}, which may be in the ISR"
                )

    # -- why-records

    def _offsets(self) -> dict[str, Fact]:
        return {
            "high_watermark": self.log.high_watermark,
            "log_end_offset": self.log.log_end_offset,
            "leader_epoch_start_offset": self.leader_epoch_start_offset,
        }

    def _decision(
        self,
        kind: DecisionKind,
        why: str,
        now_ms: int,
        *,
        before: dict[str, Fact] | None = None,
        after: dict[str, Fact] | None = None,
        evidence: dict[str, Fact] | None = None,
    ) -> Decision:
        return Decision(
            kind,
            now_ms,
            self.local_broker_id,
            why,
            partition=self.topic_partition,
            leader_epoch=self.state.leader_epoch,
            before=before or {},
            after=after or {},
            evidence=evidence or {},
        )

    def _record(
        self,
        kind: DecisionKind,
        why: str,
        now_ms: int,
        *,
        before: dict[str, Fact] | None = None,
        after: dict[str, Fact] | None = None,
        evidence: dict[str, Fact] | None = None,
    ) -> None:
        self._rules.record(self._decision(kind, why, now_ms, before=before, after=after, evidence=evidence))

    def _record_refusal(
        self,
        kind: DecisionKind,
        why: str,
        now_ms: int,
        *,
        before: dict[str, Fact] | None = None,
        after: dict[str, Fact] | None = None,
        evidence: dict[str, Fact] | None = None,
    ) -> None:
        """Records a refusal, unless one of its kind was recorded just before: clients repeat what was refused."""
        last_ms, interval_ms = self._last_recorded.get(kind, (None, RECORD_INTERVAL_MS))
        since_ms = None if last_ms is None else now_ms - last_ms
        if since_ms is not None and 0 <= since_ms < interval_ms:
            self._suppressed[kind] = self._suppressed.get(kind, 0) + 1
            return
        goes_on = since_ms is not None and since_ms < 2 * interval_ms and kind in self._suppressed
        next_interval_ms = min(2 * interval_ms, MAX_RECORD_INTERVAL_MS) if goes_on else RECORD_INTERVAL_MS
        self._last_recorded[kind] = (now_ms, next_interval_ms)
        more = self._suppressed.pop(kind, 0)
        facts = dict(evidence or {})
        if more:
            facts["not_recorded_since"] = more
        self._record(kind, why, now_ms, before=before, after=after, evidence=facts)
