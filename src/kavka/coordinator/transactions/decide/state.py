"""Transaction: what the coordinator knows of one transactional id, and how that may change.

Decides which states follow which, and what each change does to producer id, epoch, partitions and times. Must not know
the log, who asks, or where the partitions are. A `Transaction` is a value: a change makes another one, which counts
when its record is committed.

    state                  what moves it                                                to
    EMPTY                  a producer begins again (InitProducerId)                     EMPTY
                           partitions are added                                         ONGOING
                           an abort of nothing (transaction version 2)                  PREPARE_ABORT
                           unused for transactional.id.expiration.ms                    DEAD
    ONGOING                partitions are added                                         ONGOING
                           EndTxn                                                       PREPARE_COMMIT, PREPARE_ABORT
                           the time-out, or another producer's InitProducerId (`fence`) PREPARE_ABORT
    PREPARE_COMMIT         all partitions have their markers                            COMPLETE_COMMIT
    PREPARE_ABORT          all partitions have their markers                            COMPLETE_ABORT
    COMPLETE_COMMIT/ABORT  as EMPTY
    DEAD                   its record is a tombstone; the id is forgotten

    I1  an outcome that was prepared is never taken back (P4)
    I2  a producer epoch only rises for one producer id; after MAX_EPOCH comes another producer id with epoch 0 (P2)
    I3  partitions are known from their addition to the end of the transaction, and only then

PREPARE_EPOCH_FENCE, in which Apache Kafka is for the moment between a fence and its PREPARE_ABORT, is one step here; it
is never in a record there either, and keeps its number and name for those who ask for it.

With transaction version 2 each end raises the epoch (KIP-890): whatever comes late with the former one is refused.

Source: KIP-98, KIP-360, KIP-890; Kafka's TransactionMetadata and TransactionState.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, NamedTuple

from kavka.errors import ErrorCode, InvariantViolation, RequestError
from kavka.model import TopicPartition
from kavka.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

MAX_EPOCH: Final = 32_766
"""The last epoch that a client is given: one more fences it, and is the last in 16 bits."""
NEVER_MS: Final = -1
BUMPS_EPOCH: Final = 2
"""The transaction version from which on the end of a transaction raises the epoch."""


class TransactionState(IntEnum):
    """States under the numbers that their records have."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """The name that ListTransactions and DescribeTransactions give: CompleteCommit."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_ending(self) -> bool:
        """Whether the outcome is decided and markers are on their way."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open or ending."""
        return self in _IDLE


_IDLE: Final = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
_AFTER_IDLE: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT, TransactionState.DEAD}
)
MOVES: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: _AFTER_IDLE,
    TransactionState.ONGOING: frozenset(
        {TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}
    ),
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.COMPLETE_COMMIT}),
    TransactionState.PREPARE_ABORT: frozenset({TransactionState.COMPLETE_ABORT}),
    TransactionState.COMPLETE_COMMIT: _AFTER_IDLE,
    TransactionState.COMPLETE_ABORT: _AFTER_IDLE,
    TransactionState.DEAD: frozenset(),
    TransactionState.PREPARE_EPOCH_FENCE: frozenset(),
}


class ProducerIdAndEpoch(NamedTuple):
    """Which producer, in which life."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transactional id. Times are milliseconds since 1970, NEVER_MS where there is none.

    `last_epoch` is the epoch before `producer_epoch`, if whoever holds that one may ask for the present one once more
    (its answer was lost); it is in no record, and forgotten when the coordinator moves. `next_producer_id` is the
    producer id that takes over when the transaction is complete, because the present one's epochs are used up.
    `version` is the transaction version that the producer works with.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NEVER_MS
    updated_ms: int = NEVER_MS
    last_epoch: int = NO_PRODUCER_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    version: int = 0

    @property
    def producer(self) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= MAX_EPOCH

    @property
    def is_given_to_nobody(self) -> bool:
        """True if a fence, or an end, has raised the last usable epoch. No client may get the epoch after it, because
        there is no further epoch to end its transaction with: 1. A transaction with MAX_EPOCH times out. 2. Its
        producer aborts it, and would get that epoch. 3. It begins the next transaction. 4. That one could neither end
        nor time out. With transaction version 2 another producer id follows, where one can be had."""
        return self.producer_epoch > MAX_EPOCH

    def is_timed_out(self, now_ms: int) -> bool:
        return self.state is TransactionState.ONGOING and self.started_ms + self.timeout_ms < now_ms

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        return self.state.is_idle and self.updated_ms <= now_ms - expiration_ms

    # -- changes

    def with_next_epoch(self, timeout_ms: int, expected_epoch: int | None, now_ms: int, version: int) -> Transaction:
        """A producer begins with the next epoch; one that was given an epoch and did not hear of it, with the same.

        `expected_epoch` is what the producer believes to have (KIP-360). Raises `RequestError`: PRODUCER_FENCED.
        """
        if self.is_epoch_exhausted:
            raise InvariantViolation(f"{self.transactional_id!r} has epoch {self.producer_epoch}, which is the last")
        is_new = self.producer_epoch == NO_PRODUCER_EPOCH
        if expected_epoch is None:
            epoch, last_epoch = self.producer_epoch + 1, NO_PRODUCER_EPOCH
        elif is_new or expected_epoch == self.producer_epoch:
            epoch, last_epoch = self.producer_epoch + 1, self.producer_epoch
        elif expected_epoch == self.last_epoch:
            epoch, last_epoch = self.producer_epoch, self.last_epoch
        else:
            raise RequestError(ErrorCode.PRODUCER_FENCED)
        return self._move(
            TransactionState.EMPTY,
            producer_epoch=epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=NEVER_MS,
            updated_ms=now_ms,
            version=version,
        )

    def with_producer_id(
        self, producer_id: int, timeout_ms: int, now_ms: int, version: int, *, keeps_last_epoch: bool
    ) -> Transaction:
        """A producer begins with another producer id, because the epochs of the present one are used up."""
        return self._move(
            TransactionState.EMPTY,
            producer_id=producer_id,
            previous_producer_id=self.producer_id,
            producer_epoch=0,
            last_epoch=self.producer_epoch if keeps_last_epoch else NO_PRODUCER_EPOCH,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=NEVER_MS,
            updated_ms=now_ms,
            version=version,
        )

    def with_partitions(self, partitions: frozenset[TopicPartition], now_ms: int, version: int) -> Transaction:
        """Partitions are part of the transaction, which begins with the first of them."""
        return self._move(
            TransactionState.ONGOING,
            partitions=self.partitions | partitions,
            started_ms=now_ms if self.state.is_idle else self.started_ms,
            updated_ms=now_ms,
            version=version,
        )

    def prepared(
        self, *, commit: bool, now_ms: int, version: int, next_producer_id: int = NO_PRODUCER_ID
    ) -> Transaction:
        """The outcome is decided, as its producer asked for it."""
        bumps = version >= BUMPS_EPOCH
        return self._move(
            TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            producer_epoch=self.producer_epoch + 1 if bumps else self.producer_epoch,
            last_epoch=self.producer_epoch if bumps else self.last_epoch,
            next_producer_id=next_producer_id,
            # Who aborts nothing began and ends at once.
            started_ms=now_ms if self.state.is_idle else self.started_ms,
            updated_ms=now_ms,
            version=version,
        )

    def fenced(self, now_ms: int, version: int, next_producer_id: int = NO_PRODUCER_ID) -> Transaction:
        """The transaction is aborted without its producer, whose epoch is fenced.

        With transaction version 2, the level in force, the end is as one that its producer asked for: that one may ask
        what became of it, or for its next epoch, and goes on.
        """
        bumps = version >= BUMPS_EPOCH
        return self._move(
            TransactionState.PREPARE_ABORT,
            producer_epoch=min(self.producer_epoch, MAX_EPOCH) + 1,
            last_epoch=self.producer_epoch if bumps else NO_PRODUCER_EPOCH,
            next_producer_id=next_producer_id,
            updated_ms=now_ms,
            version=version if bumps else self.version,
        )

    def completed(self, now_ms: int) -> Transaction:
        """All partitions have their markers."""
        change: dict[str, int] = {}
        if self.next_producer_id != NO_PRODUCER_ID:
            change = {
                "producer_id": self.next_producer_id,
                "previous_producer_id": self.producer_id,
                "producer_epoch": 0,
                "next_producer_id": NO_PRODUCER_ID,
            }
        return self._move(
            TransactionState.COMPLETE_COMMIT
            if self.state is TransactionState.PREPARE_COMMIT
            else TransactionState.COMPLETE_ABORT,
            partitions=frozenset(),
            updated_ms=now_ms,
            **change,
        )

    def _move(self, state: TransactionState, **change: object) -> Transaction:
        """The only place where a transaction gets another state."""
        if state not in MOVES[self.state]:
            raise InvariantViolation(f"{self.transactional_id!r} cannot go from {self.state.name} to {state.name}")
        return replace(self, state=state, **change)  # type: ignore[arg-type]  # the callers above name fields
