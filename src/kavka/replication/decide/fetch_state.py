"""FetchState: how far one partition follows its leader, and what each answer of the leader changes.

Decides where a follower fetches from, what it must truncate first, when it asks again after an error, and when it stops
asking. Must not know connections, sessions, clocks or disks: the caller carries out the truncations that it returns,
and reports each with `on_truncated`.

    I1  a state lives for one leader epoch: it never gets an answer to a request of another epoch (KAFKA-7786)
    I2  a log is truncated only where the leader of the same epoch says that the logs diverge, or where its log ends
        (R11)
    I3  an answer that says where the logs diverge counts for nothing else: its high watermark is not taken over
        (KAFKA-14704), and its fetch offset is not progress (KAFKA-13141)
    I4  the last fetched epoch is that of the log's last record, also after empty answers (KAFKA-15510)
    I5  one partition's error is its own: it waits or fails alone (KAFKA-4384, KAFKA-9617)

The stages, and what leads from one to the other:

    (must follow)     -- the log knows epochs, answers tell where logs part     -> FETCHING
    (must follow)     -- the log knows epochs, older protocol                   -> ASKING_EPOCH
    (must follow)     -- the log knows no epoch: cut at the high watermark      -> FETCHING
    ASKING_EPOCH      -- the leader has the epoch, or knows nothing             -> FETCHING, after a truncation
    ASKING_EPOCH      -- the leader has an earlier one                          -> ASKING_EPOCH, after a truncation
    FETCHING          -- records, or none                                       -> FETCHING
    FETCHING          -- the logs part                                          -> FETCHING, after a truncation
    FETCHING          -- the offset is outside of the leader's log              -> ASKING_OFFSETS
    ASKING_OFFSETS    -- the leader's offsets                                   -> FETCHING, after a truncation or none
    any               -- an error that passes                                   -> the same, after a back-off
    any               -- fenced in the present epoch, or the own disk failed    -> FAILED
    FAILED            -- must follow in another epoch                           -> from the start

There are two kinds of errors that pass. If a leader does not know yet that it leads (or a follower, that another broker
leads), the error passes within milliseconds: the first back-off is short, and each further one twice as long. All other
errors wait for replica.fetch.backoff.ms.

Source: Kafka's AbstractFetcherThread, ReplicaFetcherThread and PartitionFetchState, 3.9; KIP-101, KIP-279, KIP-320.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.errors import ErrorCode, InvariantViolation
from kavka.model import BrokerId, LeaderEpoch, Offset
from kavka.replication.decide.partition import Partition
from kavka.replication.decide.partition_results import EpochEndOffset

if TYPE_CHECKING:
    from kavka.decisions import Facts

FIRST_BACKOFF_MS: Final = 10
"""After the first answer of a leader that does not know it yet. It is doubled up to replica.fetch.backoff.ms."""

_PASSES_SOON: Final = (
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.OFFSET_NOT_AVAILABLE,
)


class Stage(Enum):
    """What the partition waits for."""

    ASKING_EPOCH = "asking where its last epoch ends"
    FETCHING = "fetching"
    ASKING_OFFSETS = "asking where the leader's log begins and ends"
    FAILED = "failed"


_MOVES: Final = frozenset(
    {
        (Stage.ASKING_EPOCH, Stage.FETCHING),
        (Stage.FETCHING, Stage.ASKING_OFFSETS),
        (Stage.ASKING_OFFSETS, Stage.FETCHING),
        (Stage.ASKING_EPOCH, Stage.FAILED),
        (Stage.FETCHING, Stage.FAILED),
        (Stage.ASKING_OFFSETS, Stage.FAILED),
    }
)


class Followed(NamedTuple):
    """A partition that is to be fetched from `leader`, who leads it in `leader_epoch`."""

    partition: Partition
    leader: BrokerId
    leader_epoch: LeaderEpoch


class Truncation(NamedTuple):
    """What to remove from a log: everything from `offset`; or, if it `restarts`, everything, to continue at
    `offset`."""

    offset: Offset
    why: str
    evidence: Facts
    restarts: bool = False
    is_complete: bool = True
    """False: the logs may part still earlier, and the leader is asked again."""


class FetchState:
    """One followed partition. `topic_id` is zero if the topic has none."""

    __slots__ = (
        "_backoff_ms",
        "_stage",
        "delayed_until_ms",
        "fetch_offset",
        "lag",
        "last_error",
        "last_fetched_epoch",
        "leader_epoch",
        "partition",
        "topic_id",
        "topic_partition",
        "truncates_on_fetch",
    )

    def __init__(self, partition: Partition, leader_epoch: LeaderEpoch, *, truncates_on_fetch: bool) -> None:
        """Call `begin` next. `truncates_on_fetch`: fetch answers of this version say where the logs diverge."""
        self.partition = partition
        self.topic_partition = partition.topic_partition
        self.topic_id = partition.topic_id
        self.leader_epoch = leader_epoch
        self.truncates_on_fetch = truncates_on_fetch
        self._stage = Stage.FETCHING
        log = partition.log
        self.fetch_offset: Offset = log.log_end_offset
        self.last_fetched_epoch = log.latest_epoch
        self.lag: int | None = None
        """How far the leader's high watermark was ahead at the last answer; None before the first."""
        self.delayed_until_ms = 0
        self.last_error: str | None = None
        self._backoff_ms = 0

    @property
    def stage(self) -> Stage:
        return self._stage

    @property
    def is_caught_up(self) -> bool:
        """True if this log has all records that the last answer showed as committed. Then it is not throttled."""
        return self.lag is not None and self.lag <= 0

    def is_ready(self, now_ms: int) -> bool:
        """Whether anything may be asked for it now."""
        return self._stage is not Stage.FAILED and self.delayed_until_ms <= now_ms

    def is_due(self, now_ms: int) -> bool:
        """Whether it is to be fetched now."""
        return self._stage is Stage.FETCHING and self.delayed_until_ms <= now_ms

    def begin(self) -> Truncation | None:
        """The first step in a leader epoch."""
        log = self.partition.log
        if log.latest_epoch >= 0:
            if not self.truncates_on_fetch:
                self._stage = Stage.ASKING_EPOCH
            return None
        # Nothing tells in which epochs the records were written, so there is nothing to compare: what is known to be
        # committed stays. An empty log has nothing above it either.
        if log.high_watermark >= log.log_end_offset:
            return None
        return Truncation(
            log.high_watermark,
            f"the log has no leader epochs: only records below its high watermark {log.high_watermark} are kept",
            self._evidence(),
        )

    # -- answers to Fetch

    def on_records(self, next_offset: Offset, last_epoch: LeaderEpoch, leader_high_watermark: Offset) -> None:
        """The records of an answer are appended. The log ends at `next_offset` now; its last record is of `last_epoch`.

        An answer without records is one with the same offset, and its epoch is that of the log (I4).
        """
        self.fetch_offset = next_offset
        if last_epoch >= 0:
            self.last_fetched_epoch = last_epoch
        self.lag = max(0, leader_high_watermark - next_offset)
        self._go_on()

    def on_diverging(self, leader: EpochEndOffset) -> Truncation:
        """The leader's last epoch not above the last fetched one ends before this log does."""
        return self._truncation_for(leader, self.last_fetched_epoch)

    def on_error(self, code: ErrorCode, *, backoff_ms: int, now_ms: int) -> None:
        """The leader answered with `code`. `backoff_ms` is replica.fetch.backoff.ms."""
        self.last_error = code.name
        if code is ErrorCode.FENCED_LEADER_EPOCH:
            self._move(Stage.FAILED)
        elif code is ErrorCode.OFFSET_OUT_OF_RANGE and self._stage is Stage.FETCHING:
            self._move(Stage.ASKING_OFFSETS)
        elif code in _PASSES_SOON:
            self._backoff_ms = min(max(FIRST_BACKOFF_MS, 2 * self._backoff_ms), backoff_ms)
            self.delayed_until_ms = now_ms + self._backoff_ms
        else:
            self.delay(code.name, backoff_ms=backoff_ms, now_ms=now_ms)

    def delay(self, why: str, *, backoff_ms: int, now_ms: int) -> None:
        """Waits `backoff_ms` before the next request for it: its records cannot be used, or its leader cannot serve
        them."""
        self.last_error = why
        self._backoff_ms = backoff_ms
        self.delayed_until_ms = now_ms + backoff_ms

    def fail(self, why: str) -> None:
        """Sends no further request for it in this leader epoch."""
        self.last_error = why
        if self._stage is not Stage.FAILED:
            self._move(Stage.FAILED)

    # -- answers to OffsetForLeaderEpoch and ListOffsets

    def on_epoch_end(self, leader: EpochEndOffset) -> Truncation:
        """Where the leader's last epoch not above `last_fetched_epoch` ends; (-1, -1) if it knows none."""
        return self._truncation_for(leader, self.last_fetched_epoch)

    def on_leader_end(self, leader_end_offset: Offset) -> Truncation | None:
        """The offset asked for is not in the leader's log, which ends at `leader_end_offset`.

        A leader with a shorter log was elected uncleanly: the follower removes what the leader lacks, and no more
        (KAFKA-2143). None if the leader's log is not shorter; then `on_leader_start` comes next.
        """
        log = self.partition.log
        if leader_end_offset >= log.log_end_offset:
            return None
        return Truncation(
            leader_end_offset,
            f"the leader's log ends at {leader_end_offset}, this one at {log.log_end_offset}: the leader was elected "
            "without records that are here",
            self._evidence(leader_end_offset=leader_end_offset),
        )

    def on_leader_start(self, leader_start_offset: Offset) -> Truncation | None:
        """The leader's log begins at `leader_start_offset`. If that is after this log's end, nothing here is of use:
        the log starts again there, with its high watermark (KAFKA-9491). Otherwise it continues at its end."""
        log = self.partition.log
        if leader_start_offset <= log.log_end_offset:
            return None
        return Truncation(
            leader_start_offset,
            f"the leader's log begins at {leader_start_offset}, behind this log's end {log.log_end_offset}: what lies "
            "between was deleted there",
            self._evidence(leader_start_offset=leader_start_offset),
            restarts=True,
        )

    def on_truncated(self, truncation: Truncation | None, *, backoff_ms: int, now_ms: int) -> None:
        """The log was truncated (or need not be): continues from its present end."""
        log = self.partition.log
        is_same = (self.fetch_offset, self.last_fetched_epoch) == (log.log_end_offset, log.latest_epoch)
        stage, self.lag = self._stage, None
        self.fetch_offset = log.log_end_offset
        self.last_fetched_epoch = log.latest_epoch
        if stage is Stage.ASKING_OFFSETS or (
            stage is Stage.ASKING_EPOCH and (truncation is None or truncation.is_complete or log.latest_epoch < 0)
        ):
            self._move(Stage.FETCHING)
            self._go_on()
        elif is_same:
            # The answer changed nothing, so the next question would be the same one.
            self.delay("the leader's answer leaves the log as it is", backoff_ms=backoff_ms, now_ms=now_ms)

    # -- inside

    def _truncation_for(self, leader: EpochEndOffset, asked_epoch: LeaderEpoch) -> Truncation:
        """Where to truncate this log, given the end of the leader's largest epoch not above `asked_epoch`."""
        log = self.partition.log
        end_offset = log.log_end_offset
        evidence = self._evidence(
            asked_epoch=asked_epoch, leader_known_epoch=leader.leader_epoch, leader_epoch_end=leader.end_offset
        )
        if leader.end_offset < 0:
            return Truncation(
                log.high_watermark,
                f"the leader knows nothing of epoch {asked_epoch} or earlier ones: only what is below the high "
                f"watermark {log.high_watermark} is kept",
                evidence,
            )
        own_epoch, own_end = log.end_offset_for_epoch(leader.leader_epoch)
        if own_end < 0:
            return Truncation(
                min(leader.end_offset, end_offset),
                f"the leader's epoch {leader.leader_epoch} ends at {leader.end_offset}, and this log knows no epoch "
                "that late",
                evidence,
            )
        if own_epoch != leader.leader_epoch:
            return Truncation(
                min(own_end, end_offset),
                f"the leader has epoch {leader.leader_epoch} where this log has {own_epoch}, which ends at {own_end}: "
                "the logs diverge there or before",
                evidence,
                is_complete=False,
            )
        return Truncation(
            min(own_end, leader.end_offset, end_offset),
            f"epoch {own_epoch} ends at {leader.end_offset} in the leader's log and at {own_end} in this one",
            evidence,
        )

    def _evidence(self, **facts: int) -> Facts:
        log = self.partition.log
        return {
            "log_end_offset": log.log_end_offset,
            "high_watermark": log.high_watermark,
            "log_start_offset": log.log_start_offset,
            "latest_epoch": log.latest_epoch,
            **facts,
        }

    def _go_on(self) -> None:
        if self._backoff_ms:
            self._backoff_ms = self.delayed_until_ms = 0
            self.last_error = None

    def _move(self, stage: Stage) -> None:
        """The only place that changes the stage, by the table above."""
        if stage is self._stage:
            return
        if (self._stage, stage) not in _MOVES:
            raise InvariantViolation(f"{self.topic_partition}: cannot go from {self._stage.value} to {stage.value}")
        self._stage = stage
