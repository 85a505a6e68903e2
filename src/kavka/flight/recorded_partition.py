"""RecordedPartition: a `Partition` that writes its inputs into a flight recording, and decides nothing by itself.

Decides which inputs are worth an entry. What an entry leaves out must follow from the others:

    I1  an input's entry comes after the decisions that it led to, and before the next input's. Inputs do not nest. So
        the recording is given the decisions before the entry, and a result carries none of those any more
    I2  appends have no entry: every entry carries the log's end, and nothing but the end of the log depends on them.
        The path of a produce request is the `Partition`'s own
    I3  a fetch has none that repeats the one before, of a member of the ISR that has all: it moves two times and
        decides nothing (`is_in_maximal_isr`, the same offset, which is the log's end). The latest of such fetches is
        told before anything that may depend on those times: the same replica's next fetch that differs, the timer's
        look for who lags, the controller's word, an answer to a proposal
    I4  before the first entry in each file of the ring stands the whole partition, so that the file can be read alone

Must not know bytes or files (flight_recorder.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from kavka.flight.format import (
    BROKEN,
    PROPOSED,
    REFUSED,
    REPEATED,
    RESIGNED,
    Fetch,
    snapshot_fields,
    state_fields,
)
from kavka.model import NO_OFFSET, BrokerId, LeaderAndIsr, Offset, TopicPartition
from kavka.replication.decide.partition import Partition
from kavka.replication.decide.partition_results import (
    NOTHING_MOVED,
    FollowerFetchResult,
    FollowingChange,
    IsrChange,
    LeadershipChange,
    PartitionRefusal,
    Resignation,
)
from kavka.replication.decide.partition_rules import PartitionRules
from kavka.replication.decide.replica import RemoteReplica

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable, Mapping

    from kavka.decisions import Decision
    from kavka.errors import ErrorCode
    from kavka.log.unified_log import UnifiedLog
    from kavka.replication.decide.isr_states import IsrProposal


class Recording(Protocol):
    """Where entries go. `file` is another number for each file of the ring; it changes between inputs only."""

    file: int

    def fetch(self, entry: Fetch) -> None: ...

    def check(
        self, number: int, at_ms: int, log_end_offset: Offset, high_watermark: Offset, flags: int, *, only_raised: bool
    ) -> None: ...

    def fact(self, fact: Mapping[str, Any]) -> None: ...

    def decided(self, decisions: Iterable[Decision]) -> None: ...


class RecordedPartition(Partition):
    """`number` names the partition in this life of the broker."""

    __slots__ = ("_file", "_number", "_recording", "_told_ms")

    def __init__(  # noqa: PLR0913 - the arguments of a Partition, and two of its own
        self,
        recording: Recording,
        number: int,
        topic_partition: TopicPartition,
        topic_id: uuid.UUID,
        log: UnifiedLog,
        *,
        local_broker_id: BrokerId,
        min_insync_replicas: int,
        rules: PartitionRules | None = None,
    ) -> None:
        super().__init__(
            topic_partition,
            topic_id,
            log,
            local_broker_id=local_broker_id,
            min_insync_replicas=min_insync_replicas,
            rules=rules,
        )
        self._recording = recording
        self._number = number
        self._file = -1
        self._told_ms: dict[BrokerId, int] = {}
        """The time of each follower's last fetch that the recording knows."""

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
        before = self._begin_fact()
        change = super().become_leader(state, replicas, adding=adding, removing=removing, now_ms=now_ms, is_new=is_new)
        self._recording.decided(change.decisions)
        self._end_fact("lead", now_ms, before, {**_order(state, replicas, adding, removing), "new": is_new})
        return change._replace(decisions=())

    def become_follower(
        self,
        state: LeaderAndIsr,
        replicas: tuple[BrokerId, ...],
        *,
        adding: tuple[BrokerId, ...] = (),
        removing: tuple[BrokerId, ...] = (),
        now_ms: int,
    ) -> FollowingChange:
        before = self._begin_fact()
        change = super().become_follower(state, replicas, adding=adding, removing=removing, now_ms=now_ms)
        self._recording.decided(change.decisions)
        self._end_fact("follow", now_ms, before, _order(state, replicas, adding, removing))
        return change._replace(decisions=())

    # -- followers

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
        replica = self.remote_replica(broker_id)
        assert replica is not None
        if self._file == self._recording.file and replica.says_the_same(
            fetch_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=leader_end_offset,
            broker_epoch=broker_epoch,
        ):  # I3
            replica.on_same_fetch(now_ms)
            return NOTHING_MOVED
        self._begin(replica)
        flags, result = BROKEN, None
        try:
            result = super().record_follower_fetch(
                broker_id,
                broker_epoch,
                fetch_offset,
                leader_end_offset=leader_end_offset,
                log_start_offset=log_start_offset,
                now_ms=now_ms,
            )
            flags = PROPOSED if result.proposal is not None else 0
        except PartitionRefusal as refusal:
            flags = REFUSED
            self._recording.decided(refusal.decisions)
            refusal.decisions = ()
            raise
        finally:
            entry = Fetch(
                self._number,
                broker_id,
                now_ms,
                fetch_offset,
                leader_end_offset,
                log_start_offset,
                broker_epoch,
                self.log.high_watermark,
                flags,
            )
            self._tell_fetch(entry, replica, result)
        return result

    # -- the timer

    def propose_shrink(self, now_ms: int) -> IsrProposal | None:
        if not self.is_leader or len(self.replicas) < 2:
            return super().propose_shrink(now_ms)
        self._begin_all()
        flags, proposal = BROKEN, None
        try:
            proposal = super().propose_shrink(now_ms)
            flags = PROPOSED if proposal is not None else 0
        finally:
            self._tell_check(now_ms, flags)
            if proposal is not None:
                self._tell_proposal(proposal)
        return proposal

    def resign_if_fenced(self, now_ms: int) -> Resignation | None:
        if not self.is_leader:
            return super().resign_if_fenced(now_ms)
        self._begin_all()
        resigned = super().resign_if_fenced(now_ms)
        if resigned is None:
            return None
        self._recording.decided(resigned.decisions)
        self._tell_check(now_ms, RESIGNED)
        return Resignation(())

    def raise_high_watermark(self, now_ms: int) -> bool:
        if not self.is_leader:
            return super().raise_high_watermark(now_ms)
        self._begin_all()
        raised = super().raise_high_watermark(now_ms)
        if raised:
            self._tell_check(now_ms, 0, only_raised=True)
        return raised

    # -- answers to a proposal

    def on_isr_committed(self, proposal: IsrProposal, state: LeaderAndIsr, *, now_ms: int) -> IsrChange:
        before, answer = self._begin_fact(), {"of": self._of(proposal), "is": "committed", "state": state_fields(state)}
        change = super().on_isr_committed(proposal, state, now_ms=now_ms)
        self._recording.decided(change.decisions)
        self._end_fact("answer", now_ms, before, answer)
        return change._replace(decisions=())

    def on_isr_rejected(
        self, proposal: IsrProposal, current: LeaderAndIsr | None, error: ErrorCode, *, now_ms: int
    ) -> IsrChange:
        before = self._begin_fact()
        answer: dict[str, Any] = {"of": self._of(proposal), "is": "rejected", "error": error.name}
        if current is not None:
            answer["state"] = state_fields(current)
        change = super().on_isr_rejected(proposal, current, error, now_ms=now_ms)
        self._recording.decided(change.decisions)
        self._end_fact("answer", now_ms, before, answer)
        return change._replace(decisions=())

    def _of(self, proposal: IsrProposal) -> str:
        """Which proposal it is: the one that an answer is awaited for, or one that nobody wants any more."""
        return "awaited" if self.wants(proposal) else "another"

    # -- entries

    def _begin(self, replica: RemoteReplica) -> None:
        """Before an input that depends on nothing but what `replica` did before (I3, I4)."""
        if self._file != self._recording.file:
            self._tell_whole()
        elif replica.last_fetch_ms != self._told_ms.get(replica.broker_id):
            self._tell_repeated(replica)

    def _begin_all(self) -> None:
        """Before an input that may depend on the times of all."""
        if self._file != self._recording.file:
            self._tell_whole()
            return
        told_ms = self._told_ms
        for replica in self.remote_replicas():
            if replica.last_fetch_ms != told_ms.get(replica.broker_id):
                self._tell_repeated(replica)

    def _begin_fact(self) -> dict[str, Any]:
        self._begin_all()
        log = self.log
        return {"end": log.log_end_offset, "hw": log.high_watermark, "start": log.log_start_offset}

    def _end_fact(self, name: str, now_ms: int, before: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        self._retell()
        self._recording.fact(
            {
                "f": name,
                "p": self._number,
                "at": now_ms,
                **before,
                "min": self.min_insync_replicas,
                **values,
                "then": self.log.high_watermark,
            }
        )

    def _tell_whole(self) -> None:
        recording, log = self._recording, self.log
        self._file = recording.file
        recording.fact(
            {
                "f": "partition",
                "p": self._number,
                "topic": self.topic_partition.topic,
                "partition": self.topic_partition.partition,
                "id": self.topic_id.hex,
                "end": log.log_end_offset,
                "hw": log.high_watermark,
                "log_start": log.log_start_offset,
                **snapshot_fields(self.snapshot()),
            }
        )
        self._retell()

    def _tell_repeated(self, replica: RemoteReplica) -> None:
        self._told_ms[replica.broker_id] = replica.last_fetch_ms
        self._recording.fetch(
            Fetch(
                self._number,
                replica.broker_id,
                replica.last_fetch_ms,
                replica.log_end_offset,
                replica.last_fetch_leader_end_offset,
                replica.log_start_offset,
                replica.broker_epoch,
                NO_OFFSET,
                REPEATED,
            )
        )

    def _retell(self) -> None:
        self._told_ms = {replica.broker_id: replica.last_fetch_ms for replica in self.remote_replicas()}

    def _tell_fetch(self, entry: Fetch, replica: RemoteReplica, result: FollowerFetchResult | None) -> None:
        self._told_ms[replica.broker_id] = replica.last_fetch_ms
        self._recording.fetch(entry)
        if result is not None and result.proposal is not None:
            self._tell_proposal(result.proposal)

    def _tell_check(self, now_ms: int, flags: int, *, only_raised: bool = False) -> None:
        log = self.log
        self._recording.check(
            self._number, now_ms, log.log_end_offset, log.high_watermark, flags, only_raised=only_raised
        )

    def _tell_proposal(self, proposal: IsrProposal) -> None:
        self._recording.fact(
            {"f": "proposal", "p": self._number, "isr": proposal.new_isr, "on": proposal.partition_epoch}
        )


def _order(
    state: LeaderAndIsr,
    replicas: tuple[BrokerId, ...],
    adding: tuple[BrokerId, ...],
    removing: tuple[BrokerId, ...],
) -> dict[str, Any]:
    return {"state": state_fields(state), "replicas": replicas, "adding": adding, "removing": removing}
