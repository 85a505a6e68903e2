"""One transactional id: which state follows which, with which epoch, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kavka.coordinator.transactions.decide.records import decode_transaction_record, transaction_record
from kavka.coordinator.transactions.decide.shard import TransactionShard, Transition
from kavka.coordinator.transactions.decide.state import (
    MAX_EPOCH,
    MOVES,
    ProducerIdAndEpoch,
    Transaction,
    TransactionState,
)
from kavka.errors import ErrorCode, InvariantViolation, RequestError
from kavka.model import TopicPartition

NAME = "tx"
OTHERS_ID = 99
NEW_ID = 70
NOW_MS = 1_000_000
TIMEOUT_MS = 60_000
A, B = TopicPartition("a", 0), TopicPartition("b", 1)
EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT


def known(state: TransactionState, *, epoch: int = 5, version: int = 0, **changes: object) -> Transaction:
    """Producer 7 in epoch 5, and the epoch before if it knows of that."""
    is_open = state is ONGOING or state.is_ending
    transaction = Transaction(
        NAME,
        7,
        epoch,
        TIMEOUT_MS,
        state,
        frozenset({A}) if is_open else frozenset(),
        NOW_MS - 10 if is_open else -1,
        NOW_MS - 10,
        version=version,
    )
    return replace(transaction, **changes)  # type: ignore[arg-type]


def shard(transaction: Transaction | None = None) -> TransactionShard:
    found = TransactionShard()
    if transaction is not None:
        found.replay(NAME, transaction)
    return found


def init(
    found: TransactionShard, expected: tuple[int, int] | None = None, *, version: int = 0, new_id: int | None = NEW_ID
) -> Transition:
    return found.init_producer_id(
        NAME,
        TIMEOUT_MS,
        None if expected is None else ProducerIdAndEpoch(*expected),
        new_producer_id=new_id,
        now_ms=NOW_MS,
        version=version,
    )


def add(found: TransactionShard, producer: tuple[int, int] = (7, 5), *partitions: TopicPartition) -> Transition:
    wanted = partitions or (B,)
    return found.add_partitions(NAME, ProducerIdAndEpoch(*producer), wanted, now_ms=NOW_MS, version=0)


def end(
    found: TransactionShard, producer: tuple[int, int] = (7, 5), *, commit: bool = True, version: int = 0
) -> Transition:
    return found.end_transaction(
        NAME, ProducerIdAndEpoch(*producer), commit=commit, new_producer_id=NEW_ID, now_ms=NOW_MS, version=version
    )


def refusal(decide: object, *args: object, **kwargs: object) -> ErrorCode:
    with pytest.raises(RequestError) as refused:
        decide(*args, **kwargs)  # type: ignore[operator]
    return refused.value.code


def outcome(decide: object, *args: object, **kwargs: object) -> object:
    """What is decided: (state, producer id, epoch), or the error."""
    try:
        decision = decide(*args, **kwargs)  # type: ignore[operator]
    except RequestError as refused:
        return refused.code
    if decision.transaction is None:
        return None
    found = decision.transaction
    return found.state, found.producer_id, found.producer_epoch


# -- InitProducerId


@pytest.mark.parametrize(
    ("transaction", "expected", "then"),
    [
        (None, None, (EMPTY, NEW_ID, 0)),
        (None, (3, 4), (EMPTY, NEW_ID, 0)),
        (known(EMPTY), None, (EMPTY, 7, 6)),
        (known(COMPLETE_COMMIT), None, (EMPTY, 7, 6)),
        (known(COMPLETE_ABORT), None, (EMPTY, 7, 6)),
        (known(PREPARE_COMMIT), None, ErrorCode.CONCURRENT_TRANSACTIONS),
        (known(PREPARE_ABORT), None, ErrorCode.CONCURRENT_TRANSACTIONS),
        (known(ONGOING), None, (PREPARE_ABORT, 7, 6)),
        (known(ONGOING, version=2), None, (PREPARE_ABORT, 7, 6)),
        (known(ONGOING), (7, 5), (PREPARE_ABORT, 7, 6)),
        # Of a former life: it must not abort what its successor has open, which Apache Kafka lets it do.
        (known(ONGOING), (7, 4), ErrorCode.PRODUCER_FENCED),
        (known(ONGOING, last_epoch=4), (7, 4), ErrorCode.PRODUCER_FENCED),
        (known(ONGOING), (7, 6), ErrorCode.PRODUCER_FENCED),
        (known(ONGOING, epoch=0, previous_producer_id=6), (6, MAX_EPOCH), ErrorCode.PRODUCER_FENCED),
        (known(EMPTY), (7, 5), (EMPTY, 7, 6)),
        (known(EMPTY), (7, 4), ErrorCode.PRODUCER_FENCED),
        (known(EMPTY, last_epoch=4), (7, 4), (EMPTY, 7, 5)),
        (known(EMPTY, last_epoch=4), (7, 3), ErrorCode.PRODUCER_FENCED),
        (known(EMPTY), (OTHERS_ID, 5), ErrorCode.PRODUCER_FENCED),
        (known(EMPTY, epoch=MAX_EPOCH), None, (EMPTY, NEW_ID, 0)),
        (known(EMPTY, epoch=MAX_EPOCH), (7, MAX_EPOCH), (EMPTY, NEW_ID, 0)),
        (known(EMPTY, epoch=MAX_EPOCH), (7, MAX_EPOCH - 1), ErrorCode.PRODUCER_FENCED),
        (known(COMPLETE_ABORT, epoch=MAX_EPOCH + 1), None, (EMPTY, NEW_ID, 0)),
        (known(ONGOING, epoch=MAX_EPOCH), None, (PREPARE_ABORT, 7, MAX_EPOCH + 1)),
        (
            known(EMPTY, epoch=0, previous_producer_id=6, last_epoch=MAX_EPOCH),
            (6, MAX_EPOCH),
            (EMPTY, 7, 0),
        ),
    ],
)
def test_a_producer_begins(transaction: Transaction | None, expected: tuple[int, int] | None, then: object) -> None:
    assert outcome(init, shard(transaction), expected) == then


def test_who_fences_an_open_transaction_asks_again() -> None:
    decision = init(shard(known(ONGOING)))
    assert decision.error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert decision.transaction is not None
    assert decision.transaction.partitions == {A}, "its partitions get markers"


def test_after_an_answer_was_lost_the_same_epoch_is_given_once_more_but_not_after_a_third_one_came() -> None:
    found = shard(known(EMPTY))
    first = init(found, (7, 5)).transaction
    found.replay(NAME, first)
    second = init(found, (7, 5)).transaction
    assert first is not None
    assert second is not None
    assert second.producer == first.producer == (7, 6)
    found.replay(NAME, init(found).transaction)
    assert refusal(init, found, (7, 6)) is ErrorCode.PRODUCER_FENCED


def test_a_producer_id_is_asked_for_only_where_one_is_needed() -> None:
    assert shard().needs_producer_id(NAME, None)
    assert not shard(known(EMPTY)).needs_producer_id(NAME, None)
    assert shard(known(EMPTY, epoch=MAX_EPOCH)).needs_producer_id(NAME, None)
    assert not shard(known(EMPTY, epoch=MAX_EPOCH)).needs_producer_id(NAME, ProducerIdAndEpoch(7, 3))
    assert shard(known(ONGOING, epoch=MAX_EPOCH)).needs_next_producer_id(NAME, 2)
    assert not shard(known(ONGOING, epoch=MAX_EPOCH)).needs_next_producer_id(NAME, 0)
    assert not shard().needs_next_producer_id(NAME, 2)


# -- partitions


@pytest.mark.parametrize(
    ("transaction", "producer", "then"),
    [
        (None, (7, 5), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (known(EMPTY), (OTHERS_ID, 5), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (known(EMPTY), (7, 4), ErrorCode.PRODUCER_FENCED),
        (known(EMPTY), (7, 6), ErrorCode.PRODUCER_FENCED),
        (known(EMPTY), (7, 5), (ONGOING, 7, 5)),
        (known(COMPLETE_COMMIT), (7, 5), (ONGOING, 7, 5)),
        (known(COMPLETE_ABORT), (7, 5), (ONGOING, 7, 5)),
        (known(ONGOING), (7, 5), (ONGOING, 7, 5)),
        (known(PREPARE_COMMIT), (7, 5), ErrorCode.CONCURRENT_TRANSACTIONS),
        (known(PREPARE_ABORT), (7, 5), ErrorCode.CONCURRENT_TRANSACTIONS),
        # Whoever asks may be the producer that the end makes.
        (known(PREPARE_COMMIT), (7, 4), ErrorCode.CONCURRENT_TRANSACTIONS),
        (
            known(PREPARE_COMMIT, epoch=MAX_EPOCH + 1, version=2, next_producer_id=NEW_ID),
            (NEW_ID, 0),
            ErrorCode.CONCURRENT_TRANSACTIONS,
        ),
    ],
)
def test_partitions_are_added(transaction: Transaction | None, producer: tuple[int, int], then: object) -> None:
    assert outcome(add, shard(transaction), producer) == then


def test_a_transaction_begins_with_its_first_partition_and_keeps_its_time() -> None:
    found = shard(known(COMPLETE_COMMIT))
    begun = add(found).transaction
    assert begun is not None
    assert (begun.started_ms, begun.partitions) == (NOW_MS, {B})
    found.replay(NAME, begun)
    more = found.add_partitions(NAME, ProducerIdAndEpoch(7, 5), [A], now_ms=NOW_MS + 9, version=0).transaction
    assert more is not None
    assert (more.started_ms, more.updated_ms, more.partitions) == (NOW_MS, NOW_MS + 9, {A, B})


def test_what_is_added_already_is_not_written_again() -> None:
    assert add(shard(known(ONGOING)), (7, 5), A) == Transition(None)


@pytest.mark.parametrize(
    ("transaction", "producer", "then"),
    [
        (None, (7, 5), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (known(ONGOING), (OTHERS_ID, 5), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (known(ONGOING), (7, 4), ErrorCode.PRODUCER_FENCED),
        (known(PREPARE_ABORT), (7, 5), ErrorCode.CONCURRENT_TRANSACTIONS),
        (known(ONGOING), (7, 5), {A: ErrorCode.NONE, B: ErrorCode.TRANSACTION_ABORTABLE}),
        (known(EMPTY), (7, 5), {A: ErrorCode.TRANSACTION_ABORTABLE, B: ErrorCode.TRANSACTION_ABORTABLE}),
    ],
)
def test_verification(transaction: Transaction | None, producer: tuple[int, int], then: object) -> None:
    def verified() -> object:
        try:
            return shard(transaction).verify(NAME, ProducerIdAndEpoch(*producer), [A, B])
        except RequestError as refused:
            return refused.code

    assert verified() == then


# -- the end

MAPPING, FENCED = ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED
CONCURRENT, INVALID = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize(
    ("transaction", "producer", "on_commit", "on_abort"),
    [
        (None, (7, 5), MAPPING, MAPPING),
        (known(ONGOING), (OTHERS_ID, 5), MAPPING, MAPPING),
        (known(ONGOING), (7, 4), FENCED, FENCED),
        (known(ONGOING), (7, 6), FENCED, FENCED),
        (known(EMPTY), (7, 5), INVALID, INVALID),
        (known(ONGOING), (7, 5), (PREPARE_COMMIT, 7, 5), (PREPARE_ABORT, 7, 5)),
        (known(PREPARE_COMMIT), (7, 5), CONCURRENT, CONCURRENT),
        (known(PREPARE_ABORT), (7, 5), CONCURRENT, CONCURRENT),
        (known(COMPLETE_COMMIT), (7, 5), None, INVALID),
        (known(COMPLETE_ABORT), (7, 5), INVALID, None),
    ],
)
def test_the_end_before_version_2(
    transaction: Transaction | None, producer: tuple[int, int], on_commit: object, on_abort: object
) -> None:
    assert outcome(end, shard(transaction), producer, commit=True) == on_commit
    assert outcome(end, shard(transaction), producer, commit=False) == on_abort


@pytest.mark.parametrize(
    ("transaction", "producer", "on_commit", "on_abort"),
    [
        (None, (7, 5), MAPPING, MAPPING),
        (known(ONGOING), (OTHERS_ID, 5), MAPPING, MAPPING),
        (known(ONGOING), (7, 4), FENCED, FENCED),
        (known(ONGOING), (7, 6), FENCED, FENCED),
        (known(EMPTY), (7, 5), INVALID, (PREPARE_ABORT, 7, 6)),
        (known(ONGOING), (7, 5), (PREPARE_COMMIT, 7, 6), (PREPARE_ABORT, 7, 6)),
        (known(PREPARE_COMMIT), (7, 4), CONCURRENT, CONCURRENT),
        (known(COMPLETE_COMMIT, version=2), (7, 4), None, INVALID),
        (known(COMPLETE_ABORT, version=2), (7, 4), INVALID, None),
        (known(COMPLETE_COMMIT, version=2), (7, 3), FENCED, FENCED),
        # The epoch of now is of another producer, whose end did not raise it: Apache Kafka tells it to the former one.
        (known(COMPLETE_COMMIT), (7, 4), FENCED, FENCED),
        (known(COMPLETE_ABORT), (7, 4), FENCED, FENCED),
        # The epoch of now is that of the next transaction, which has nothing in it yet.
        (known(COMPLETE_COMMIT), (7, 5), INVALID, (PREPARE_ABORT, 7, 6)),
        (known(COMPLETE_ABORT), (7, 5), INVALID, (PREPARE_ABORT, 7, 6)),
        (known(COMPLETE_COMMIT, epoch=0, version=2, previous_producer_id=6), (6, MAX_EPOCH), None, INVALID),
        (known(COMPLETE_COMMIT, epoch=0, version=2, previous_producer_id=6), (6, MAX_EPOCH - 1), MAPPING, MAPPING),
        (known(COMPLETE_COMMIT, epoch=0, previous_producer_id=6), (6, MAX_EPOCH), FENCED, FENCED),
    ],
)
def test_the_end_with_version_2(
    transaction: Transaction | None, producer: tuple[int, int], on_commit: object, on_abort: object
) -> None:
    assert outcome(end, shard(transaction), producer, commit=True, version=2) == on_commit
    assert outcome(end, shard(transaction), producer, commit=False, version=2) == on_abort


# What a producer aborts that has begun another transaction, in which there is nothing yet (before version 2).


@pytest.mark.parametrize("refused_in", [PREPARE_COMMIT, PREPARE_ABORT])
@pytest.mark.parametrize("is_writing", [True, False], ids=["its end is being written", "its markers are"])
def test_a_producer_that_is_told_to_come_again_may_abort_what_it_has_begun(
    refused_in: TransactionState, is_writing: bool
) -> None:
    """librdkafka: commit; begin; produce, AddPartitions is refused with CONCURRENT_TRANSACTIONS; abort. Apache Kafka
    answers INVALID_TXN_STATE once the commit is complete, which ends the producer."""
    found = shard(known(refused_in))
    if is_writing:
        found.begin(NAME)
    assert refusal(add, found) is CONCURRENT
    assert refusal(end, found, commit=False) is CONCURRENT, "not before the one before is complete"
    found.end(NAME)
    found.replay(NAME, known(refused_in).completed(NOW_MS))
    assert end(found, commit=False) == Transition(None)
    assert end(found, commit=False) == Transition(None), "the answer may be lost"
    assert refusal(init, found, (7, 4)) is FENCED


@pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_a_producer_whose_partitions_could_not_be_added_may_abort(state: TransactionState) -> None:
    """The record was not written: nothing is open, and the producer gives up."""
    found = shard(known(state))
    assert add(found).transaction is not None
    assert end(found, commit=False) == Transition(None)


def test_only_who_has_begun_another_transaction_aborts_nothing() -> None:
    completed = known(PREPARE_COMMIT).completed(NOW_MS)
    found = shard(known(PREPARE_COMMIT))
    for is_writing in (False, True):
        if is_writing:
            found.begin(NAME)
        assert refusal(add, found, (7, 4)) is CONCURRENT
        assert refusal(add, found, (OTHERS_ID, 5)) is CONCURRENT
    found.end(NAME)
    found.replay(NAME, completed)
    assert refusal(end, found, commit=False) is INVALID


def test_what_was_begun_is_forgotten_with_the_next_outcome() -> None:
    """A producer whose commit was answered, and which then asks to abort it, is told that it cannot."""
    found = shard(known(PREPARE_COMMIT))
    assert refusal(add, found) is CONCURRENT
    for transaction in (known(COMPLETE_COMMIT), known(ONGOING), known(PREPARE_COMMIT), known(COMPLETE_COMMIT)):
        found.replay(NAME, transaction)
    assert refusal(end, found, commit=False) is INVALID


def test_a_partition_that_comes_late_while_the_outcome_is_written_begins_nothing() -> None:
    """The producer waits for the answer to its EndTxn: what arrives now is of the same transaction."""
    found = shard(known(ONGOING))
    found.begin(NAME)
    assert refusal(add, found) is CONCURRENT
    found.end(NAME)
    found.replay(NAME, known(PREPARE_COMMIT))
    found.replay(NAME, known(COMPLETE_COMMIT))
    assert refusal(end, found, commit=False) is INVALID


def test_a_commit_of_what_was_begun_is_refused_where_nothing_was_committed() -> None:
    found = shard(known(PREPARE_ABORT))
    assert refusal(add, found) is CONCURRENT
    found.replay(NAME, known(COMPLETE_ABORT))
    assert refusal(end, found, commit=True) is INVALID


def test_with_version_2_the_last_epoch_is_followed_by_another_producer_id() -> None:
    found = shard(known(ONGOING, epoch=MAX_EPOCH, version=2))
    prepared = end(found, (7, MAX_EPOCH), version=2).transaction
    assert prepared is not None
    assert prepared.producer == (7, MAX_EPOCH + 1), "markers are of the former id"
    assert prepared.next_producer_id == NEW_ID
    completed = prepared.completed(NOW_MS)
    assert (completed.producer, completed.previous_producer_id) == ((NEW_ID, 0), 7)
    found.replay(NAME, completed)
    assert end(found, (7, MAX_EPOCH), version=2) == Transition(None), "asked again, it is told again"


def test_the_end_forgets_the_partitions_and_keeps_the_epoch() -> None:
    prepared = end(shard(known(ONGOING))).transaction
    assert prepared is not None
    assert prepared.partitions == {A}
    completed = prepared.completed(NOW_MS + 5)
    assert completed.state is COMPLETE_COMMIT
    assert (completed.partitions, completed.producer, completed.updated_ms) == (frozenset(), (7, 5), NOW_MS + 5)
    aborted = known(PREPARE_ABORT).completed(NOW_MS)
    assert aborted.state is COMPLETE_ABORT


# -- what is under way


def test_while_a_record_is_on_its_way_nothing_else_is_decided() -> None:
    for version in (0, 2):
        found = shard(known(ONGOING))
        found.begin(NAME)
        assert refusal(init, found) is CONCURRENT
        assert refusal(add, found) is CONCURRENT
        assert refusal(end, found, version=version) is CONCURRENT
        assert found.timed_out(NOW_MS + TIMEOUT_MS) == []
        assert found.abort_timed_out(NAME, NOW_MS + TIMEOUT_MS, version, new_producer_id=None) == Transition(None)
        found.end(NAME)
        assert outcome(end, found, version=version) == (PREPARE_COMMIT, 7, 5 + version // 2)


def test_an_id_that_is_new_is_under_way_too() -> None:
    found = shard()
    found.begin(NAME)
    assert refusal(init, found) is CONCURRENT


# -- time


def test_a_transaction_times_out_after_its_own_time_and_fences_its_producer() -> None:
    found = shard(known(ONGOING))
    assert found.timed_out(NOW_MS - 10 + TIMEOUT_MS) == []
    late = NOW_MS - 10 + TIMEOUT_MS + 1
    assert found.timed_out(late) == [NAME]
    fenced = found.abort_timed_out(NAME, late, 0, new_producer_id=None).transaction
    assert fenced is not None
    assert (fenced.state, fenced.producer) == (PREPARE_ABORT, (7, 6))
    found.replay(NAME, fenced)
    assert refusal(end, found) is FENCED
    found.replay(NAME, fenced.completed(late))
    assert refusal(end, found) is FENCED
    assert refusal(init, found, (7, 5)) is FENCED


@pytest.mark.parametrize("version", [0, 2])
def test_with_version_2_in_force_the_producer_of_a_transaction_that_timed_out_goes_on(version: int) -> None:
    """Whichever version its client has: it asks what became of its transaction (EndTxn 5), or for its next epoch."""
    found = shard(known(ONGOING, version=version))
    late = NOW_MS - 10 + TIMEOUT_MS + 1
    fenced = found.abort_timed_out(NAME, late, 2, new_producer_id=None).transaction
    assert fenced is not None
    assert (fenced.state, fenced.producer, fenced.version) == (PREPARE_ABORT, (7, 6), 2)
    found.replay(NAME, fenced)
    found.replay(NAME, fenced.completed(late))
    assert refusal(end, found, version=2) is INVALID, "it is not committed"
    assert end(found, commit=False, version=2) == Transition(None)
    assert refusal(end, found, commit=False) is FENCED, "before version 2 no end brings another epoch"
    assert outcome(init, found, (7, 5)) == (EMPTY, 7, 6)
    assert outcome(init, found, (7, 4)) is FENCED


def test_with_version_2_in_force_a_producer_that_aborts_what_it_has_open_gets_its_next_epoch() -> None:
    found = shard(known(ONGOING, version=2))
    fenced = init(found, (7, 5), version=2)
    assert fenced.error is CONCURRENT
    assert fenced.transaction is not None
    found.replay(NAME, fenced.transaction)
    found.replay(NAME, fenced.transaction.completed(NOW_MS))
    assert outcome(init, found, (7, 5), version=2) == (EMPTY, 7, 6)
    assert outcome(init, found, version=2) == (EMPTY, 7, 7), "another one takes over"


def test_with_version_2_in_force_another_producer_id_follows_where_the_last_epoch_is_fenced() -> None:
    last, late = known(ONGOING, epoch=MAX_EPOCH, version=2), NOW_MS - 10 + TIMEOUT_MS + 1
    by_time = shard(last).abort_timed_out(NAME, late, 2, new_producer_id=NEW_ID).transaction
    by_another = init(shard(last), version=2).transaction
    for fenced in (by_time, by_another):
        assert fenced is not None
        assert (fenced.producer, fenced.next_producer_id) == ((7, MAX_EPOCH + 1), NEW_ID)
        found = shard(fenced.completed(late))
        assert found.transactions[NAME].producer == (NEW_ID, 0)
        assert end(found, (7, MAX_EPOCH), commit=False, version=2) == Transition(None)
        assert outcome(init, found, (7, MAX_EPOCH), version=2) == (EMPTY, NEW_ID, 0)
        assert outcome(init, found, version=2) == (EMPTY, NEW_ID, 1)
    without = shard(last).abort_timed_out(NAME, late, 2, new_producer_id=None).transaction
    assert without is not None
    assert without.next_producer_id == -1
    earlier = shard(last).abort_timed_out(NAME, late, 1, new_producer_id=NEW_ID).transaction
    assert earlier is not None
    assert earlier.next_producer_id == -1


@pytest.mark.parametrize("state", [EMPTY, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_only_open_transactions_time_out(state: TransactionState) -> None:
    assert shard(known(state)).timed_out(NOW_MS * 2) == []


@pytest.mark.parametrize(
    ("state", "expires"),
    [
        (EMPTY, True),
        (COMPLETE_COMMIT, True),
        (COMPLETE_ABORT, True),
        (ONGOING, False),
        (PREPARE_COMMIT, False),
        (PREPARE_ABORT, False),
    ],
)
def test_ids_expire_when_nothing_is_open(state: TransactionState, expires: bool) -> None:
    found = shard(known(state))
    assert found.expired(NOW_MS - 11 + 500, 500) == []
    assert found.expired(NOW_MS - 10 + 500, 500) == ([NAME] if expires else [])


# -- the table


def test_every_other_move_is_a_bug() -> None:
    for state in TransactionState:
        transaction = known(state)
        moves = {
            ONGOING: lambda t: t.with_partitions(frozenset({B}), NOW_MS, 0),
            PREPARE_COMMIT: lambda t: t.prepared(commit=True, now_ms=NOW_MS, version=0),
            PREPARE_ABORT: lambda t: t.prepared(commit=False, now_ms=NOW_MS, version=0),
            EMPTY: lambda t: t.with_next_epoch(1, None, NOW_MS, 0),
        }
        for goal, move in moves.items():
            if goal in MOVES[state]:
                assert move(transaction).state is goal
            else:
                with pytest.raises(InvariantViolation):
                    move(transaction)


def test_an_outcome_that_is_prepared_is_never_taken_back() -> None:
    assert MOVES[PREPARE_COMMIT] == {COMPLETE_COMMIT}
    assert MOVES[PREPARE_ABORT] == {COMPLETE_ABORT}


def test_states_have_kafkas_names_and_numbers() -> None:
    assert [(state.value, state.title) for state in TransactionState] == [
        (0, "Empty"),
        (1, "Ongoing"),
        (2, "PrepareCommit"),
        (3, "PrepareAbort"),
        (4, "CompleteCommit"),
        (5, "CompleteAbort"),
        (6, "Dead"),
        (7, "PrepareEpochFence"),
    ]


def test_an_exhausted_epoch_is_remembered_for_who_names_it() -> None:
    """Who asks with that epoch and does not hear the answer asks with it again (KIP-360)."""
    exhausted = known(COMPLETE_COMMIT, epoch=MAX_EPOCH)
    named = init(shard(exhausted), (7, MAX_EPOCH)).transaction
    unnamed = init(shard(exhausted)).transaction
    assert named is not None
    assert unnamed is not None
    assert (named.producer_id, named.producer_epoch, named.last_epoch) == (NEW_ID, 0, MAX_EPOCH)
    assert (unnamed.producer_id, unnamed.producer_epoch, unnamed.last_epoch) == (NEW_ID, 0, -1)


def test_a_last_epoch_is_that_of_the_former_producer_id_and_of_nobody_else() -> None:
    moved = known(EMPTY, epoch=0, previous_producer_id=3)
    assert refusal(init, shard(moved), (OTHERS_ID, MAX_EPOCH)) is ErrorCode.PRODUCER_FENCED
    assert refusal(init, shard(moved), (3, 4)) is ErrorCode.PRODUCER_FENCED
    exhausted = known(EMPTY, epoch=MAX_EPOCH, previous_producer_id=3)
    assert refusal(init, shard(exhausted), (OTHERS_ID, MAX_EPOCH)) is ErrorCode.PRODUCER_FENCED


def test_another_producer_does_not_end_a_transaction_of_epoch_0() -> None:
    fresh = known(COMPLETE_COMMIT, epoch=0, version=2, previous_producer_id=3)
    for producer in ((OTHERS_ID, 0), (OTHERS_ID, MAX_EPOCH), (3, 0)):
        assert refusal(end, shard(fresh), producer, version=2) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert end(shard(fresh), (3, MAX_EPOCH), version=2).transaction is None, "its end was decided before"


def test_an_end_keeps_the_last_epoch_before_version_2_and_makes_one_with_it() -> None:
    before = end(shard(known(ONGOING, last_epoch=4))).transaction
    after = end(shard(known(ONGOING, last_epoch=4)), version=2).transaction
    assert before is not None
    assert after is not None
    assert (before.producer_epoch, before.last_epoch) == (5, 4)
    assert (after.producer_epoch, after.last_epoch) == (6, 5)


def test_an_end_keeps_the_time_of_the_beginning_and_an_abort_of_nothing_begins_at_once() -> None:
    ended = end(shard(known(ONGOING)), version=2).transaction
    nothing = end(shard(known(COMPLETE_COMMIT)), commit=False, version=2).transaction
    assert ended is not None
    assert nothing is not None
    assert (ended.started_ms, nothing.started_ms) == (NOW_MS - 10, NOW_MS)


def test_of_the_last_epoch_there_is_no_next_one() -> None:
    with pytest.raises(InvariantViolation, match="which is the last"):
        known(EMPTY, epoch=MAX_EPOCH).with_next_epoch(TIMEOUT_MS, None, NOW_MS, 0)


@pytest.mark.parametrize(("version", "kept"), [(0, (-1, -1)), (1, (3, 8)), (2, (3, 8))])
def test_producer_ids_before_and_after_stand_in_records_that_have_fields_for_them(
    version: int, kept: tuple[int, int]
) -> None:
    transaction = known(PREPARE_COMMIT, previous_producer_id=3, next_producer_id=8)
    record = transaction_record(transaction, transaction_version=version)
    found = decode_transaction_record(record.key, record.value)
    assert found is not None
    assert found.transaction is not None
    assert (found.transaction.previous_producer_id, found.transaction.next_producer_id) == kept
