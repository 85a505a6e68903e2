"""TransactionShard: the transactional ids of one partition of `__transaction_state`.

Decides the answer to each request about a transactional id, and the state that follows. A decision changes nothing: the
state changes in `replay`, after the record is committed. So live work and loading after a failover are one path. Must
not know: the log, futures, where markers go.

    I1  a transactional id has at most one record being written (`begin` to `end`); requests that come meanwhile, or
        while markers are being written, get CONCURRENT_TRANSACTIONS and change nothing
    I2  only a request with the current producer id and epoch changes anything (P5); a client that asks twice, because
        an answer was lost, gets two answers. That holds for InitProducerId, too: 1. a producer is taken over by another
        one, which begins a transaction; 2. the first one, which wants to go on after an error, asks for the epoch after
        its own (KIP-360). Apache Kafka aborts the transaction and fences the second one, before it tells the first one
        with its next try that it is fenced: then nobody is left
    I3  no request turns one prepared outcome into the other (P4)
    I4  before version 2 the abort of an empty transaction succeeds, if its producer has asked to add partitions since
        the previous outcome. The interleaving, with librdkafka: 1. a commit is answered, and its markers are being
        written; 2. the producer begins again, and AddPartitions gets CONCURRENT_TRANSACTIONS; 3. the application
        aborts; 4. the commit is complete. Apache Kafka takes the abort as one of the committed transaction and answers
        INVALID_TXN_STATE, which ends the producer. A producer that asks to add partitions knows of its commit. One that
        did not ask is refused as by Kafka: it may not know that its records are visible. Kept in memory: a coordinator
        that takes over answers as Kafka does
    I5  an epoch that InitProducerId gave to one producer is not told to another one as that of its ended transaction
        (P2): 1. a producer of version 2 is taken over by one of version 0, which aborts a transaction: its epoch stays;
        2. the first one is fenced, and aborts its own with the epoch before (EndTxn 5). Apache Kafka takes that for a
        retry, and gives it the epoch of the second one: from then on the two write, and commit, as one. Only after an
        end that raised the epoch, whose transaction is of version 2, is it one

Refusals are `RequestError`s, in Kafka's order: unknown or fenced, concurrent, not valid. Who adds partitions, or ends
with version 2, may have an id that the transaction gets with its end: there concurrent comes first.

    request            who it must be                                          what else is refused
    InitProducerId     nobody, or (id, epoch) of now, or of the last epoch     CONCURRENT_TRANSACTIONS while it ends;
                       (KIP-360): PRODUCER_FENCED                              an open transaction is aborted first
    AddPartitions      INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED            CONCURRENT_TRANSACTIONS, before the two
    EndTxn             the same two; with version 2 the epoch before, once it  INVALID_TXN_STATE where there is nothing
                       has ended, and CONCURRENT_TRANSACTIONS first            to end, or it ended the other way (I4)
    verification       the same two                                            TRANSACTION_ABORTABLE: not in it

Source: Kafka's TransactionCoordinator and TransactionStateManager, 3.9 and 4.x.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kavka.coordinator.transactions.decide.state import (
    BUMPS_EPOCH,
    MAX_EPOCH,
    ProducerIdAndEpoch,
    Transaction,
    TransactionState,
)
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

_COMPLETE: Final = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


class Transition(NamedTuple):
    """`transaction` is the state to write; None if nothing changes. `error` is answered once it is committed."""

    transaction: Transaction | None
    error: ErrorCode = ErrorCode.NONE


class TransactionShard:
    """Transactions by id."""

    def __init__(self) -> None:
        self.transactions: dict[str, Transaction] = {}
        self._under_way: set[str] = set()
        self._begun: set[str] = set()
        """Ids whose producer of now has asked to add partitions, and none was added yet (I4)."""

    # -- the log

    def begin(self, transactional_id: str) -> None:
        """A record of this id is about to be written (I1)."""
        self._under_way.add(transactional_id)

    def end(self, transactional_id: str) -> None:
        """It is known what became of the record."""
        self._under_way.discard(transactional_id)

    def replay(self, transactional_id: str, transaction: Transaction | None) -> None:
        """Applies a committed record; None: the id is forgotten."""
        if transaction is None or transaction.state not in _COMPLETE:
            self._begun.discard(transactional_id)
        if transaction is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = transaction

    def is_writing(self, transactional_id: str) -> bool:
        """True while a record of this id is being written."""
        return transactional_id in self._under_way

    def is_under_way(self, transactional_id: str) -> bool:
        """True while a record or markers are being written."""
        if transactional_id in self._under_way:
            return True
        known = self.transactions.get(transactional_id)
        return known is not None and known.state.is_ending

    def ending(self) -> list[Transaction]:
        """Those whose outcome is decided and whose markers may not all be written."""
        return [transaction for transaction in self.transactions.values() if transaction.state.is_ending]

    # -- producers

    def needs_producer_id(self, transactional_id: str, expected: ProducerIdAndEpoch | None) -> bool:
        """Whether `init_producer_id` gives a new producer id."""
        known = self.transactions.get(transactional_id)
        if known is None:
            return True
        return known.is_epoch_exhausted and (expected is None or expected.epoch == known.producer_epoch)

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        *,
        new_producer_id: int | None,
        now_ms: int,
        version: int,
    ) -> Transition:
        """A producer begins. `expected` is what it believes to be (KIP-360); `new_producer_id` is used where
        `needs_producer_id` says so."""
        if self.is_under_way(transactional_id):
            raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS)
        known = self.transactions.get(transactional_id)
        if known is None:
            assert new_producer_id is not None
            known = Transaction(transactional_id, new_producer_id, NO_PRODUCER_EPOCH, timeout_ms)
        elif expected is not None and not _may_be(known, expected):
            raise RequestError(ErrorCode.PRODUCER_FENCED)
        if known.state is TransactionState.ONGOING:
            if expected is not None and expected != known.producer:
                raise RequestError(ErrorCode.PRODUCER_FENCED)
            following = _following(known, version, new_producer_id)
            return Transition(known.fenced(now_ms, version, following), ErrorCode.CONCURRENT_TRANSACTIONS)
        if known.is_epoch_exhausted and (expected is None or expected.epoch == known.producer_epoch):
            assert new_producer_id is not None
            return Transition(
                known.with_producer_id(
                    new_producer_id, timeout_ms, now_ms, version, keeps_last_epoch=expected is not None
                )
            )
        expected_epoch = None if expected is None else expected.epoch
        if known.is_epoch_exhausted:
            # Of an exhausted epoch there is no next one; who has another epoch than that is of a former life.
            raise RequestError(ErrorCode.PRODUCER_FENCED)
        return Transition(known.with_next_epoch(timeout_ms, expected_epoch, now_ms, version))

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        *,
        now_ms: int,
        version: int,
    ) -> Transition:
        """Partitions that the producer is going to write to."""
        self.on_begun(transactional_id, producer)
        # First: its end may have given the producer another id, which the transaction has once it is complete.
        if self.is_under_way(transactional_id):
            raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS)
        known = self._of(transactional_id, producer.producer_id)
        if known.producer_epoch != producer.epoch or known.is_given_to_nobody:
            raise RequestError(ErrorCode.PRODUCER_FENCED)
        wanted = frozenset(partitions)
        if known.state is TransactionState.ONGOING and wanted <= known.partitions:
            return Transition(None)
        return Transition(known.with_partitions(wanted, now_ms, version))

    def on_begun(self, transactional_id: str, producer: ProducerIdAndEpoch) -> None:
        """The producer has asked to add partitions: it has begun a transaction, whatever becomes of that (I4).

        Not while its transaction is open: that is more of the same, or comes late while the outcome is being written.
        """
        known = self.transactions.get(transactional_id)
        if known is not None and known.producer == producer and known.state is not TransactionState.ONGOING:
            self._begun.add(transactional_id)

    def verify(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Which partitions are part of the producer's open transaction (KIP-890)."""
        known = self._of(transactional_id, producer.producer_id)
        if known.producer_epoch != producer.epoch or known.is_given_to_nobody:
            raise RequestError(ErrorCode.PRODUCER_FENCED)
        if known.state.is_ending:
            raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return {
            partition: ErrorCode.NONE if partition in known.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }

    def needs_next_producer_id(self, transactional_id: str, version: int) -> bool:
        """Whether the end of the transaction needs a producer id for the next one."""
        known = self.transactions.get(transactional_id)
        return version >= BUMPS_EPOCH and known is not None and known.is_epoch_exhausted

    def end_transaction(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        *,
        commit: bool,
        new_producer_id: int | None,
        now_ms: int,
        version: int,
    ) -> Transition:
        """The producer commits or aborts. If there is nothing to write, the end was decided before and is only answered
        again."""
        if version >= BUMPS_EPOCH:
            return self._end_and_bump(
                transactional_id, producer, commit=commit, new_producer_id=new_producer_id, now_ms=now_ms
            )
        known = self._of(transactional_id, producer.producer_id)
        if known.producer_epoch != producer.epoch or known.is_given_to_nobody:
            raise RequestError(ErrorCode.PRODUCER_FENCED)
        if self.is_under_way(transactional_id):
            raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if known.state is TransactionState.ONGOING:
            return Transition(known.prepared(commit=commit, now_ms=now_ms, version=version))
        if known.state is _complete(commit=commit) or (not commit and transactional_id in self._begun):
            return Transition(None)
        raise RequestError(ErrorCode.INVALID_TXN_STATE)

    def _end_and_bump(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        *,
        commit: bool,
        new_producer_id: int | None,
        now_ms: int,
    ) -> Transition:
        """With transaction version 2: the epoch of now ends what is open, or aborts nothing; the epoch before asks
        again how its transaction ended."""
        if self.is_under_way(transactional_id):
            raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS)
        known = self.transactions.get(transactional_id)
        if known is None:
            raise RequestError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        moved_on = (
            known.previous_producer_id == producer.producer_id
            and producer.epoch == MAX_EPOCH
            and known.producer_epoch == 0
        )
        if known.producer_id != producer.producer_id and not moved_on:
            raise RequestError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        is_bumped = known.state in _COMPLETE and known.version >= BUMPS_EPOCH  # I5
        is_retry = is_bumped and (moved_on or known.producer_epoch == producer.epoch + 1)
        if known.is_given_to_nobody or (not is_retry and known.producer != producer):
            raise RequestError(ErrorCode.PRODUCER_FENCED)
        if is_retry:
            if known.state is _complete(commit=commit):
                return Transition(None)
            raise RequestError(ErrorCode.INVALID_TXN_STATE)
        if commit and known.state is not TransactionState.ONGOING:
            raise RequestError(ErrorCode.INVALID_TXN_STATE)
        next_producer_id = NO_PRODUCER_ID
        if known.is_epoch_exhausted:
            assert new_producer_id is not None
            next_producer_id = new_producer_id
        return Transition(
            known.prepared(commit=commit, now_ms=now_ms, version=BUMPS_EPOCH, next_producer_id=next_producer_id)
        )

    def _of(self, transactional_id: str, producer_id: int) -> Transaction:
        known = self.transactions.get(transactional_id)
        if known is None or known.producer_id != producer_id:
            raise RequestError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return known

    # -- time

    def timed_out(self, now_ms: int) -> list[str]:
        """Open transactions whose time is over."""
        return [
            transactional_id
            for transactional_id, transaction in self.transactions.items()
            if transaction.is_timed_out(now_ms) and transactional_id not in self._under_way
        ]

    def abort_timed_out(
        self, transactional_id: str, now_ms: int, version: int, *, new_producer_id: int | None
    ) -> Transition:
        """Aborts a transaction if its time is over, and fences its producer. `new_producer_id` is used where
        `needs_next_producer_id` says so; without one its producer ends with the transaction."""
        known = self.transactions.get(transactional_id)
        if known is None or transactional_id in self._under_way or not known.is_timed_out(now_ms):
            return Transition(None)
        return Transition(known.fenced(now_ms, version, _following(known, version, new_producer_id)))

    def expired(self, now_ms: int, expiration_ms: int) -> list[str]:
        """Ids that were not used for `expiration_ms`."""
        return [
            transactional_id
            for transactional_id, transaction in self.transactions.items()
            if transaction.is_expired(now_ms, expiration_ms) and transactional_id not in self._under_way
        ]


def _may_be(known: Transaction, expected: ProducerIdAndEpoch) -> bool:
    """Whether who says to be `expected` may be the producer of now: the epoch is looked at later."""
    return (
        known.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == known.producer_id
        or (expected.producer_id == known.previous_producer_id and expected.epoch >= MAX_EPOCH)
    )


def _following(known: Transaction, version: int, new_producer_id: int | None) -> int:
    """The producer id that takes over with the end of a transaction that is fenced."""
    if version < BUMPS_EPOCH or new_producer_id is None or not known.is_epoch_exhausted:
        return NO_PRODUCER_ID
    return new_producer_id


def _complete(*, commit: bool) -> TransactionState:
    return TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
