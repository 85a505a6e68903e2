"""What a log remembers of its producers: the table of sequences, transactions, expiry and snapshots."""

import struct

import pytest
from crc32c import crc32c

from kavka.errors import ErrorCode, RecordsError
from kavka.log.decide import producer_state
from kavka.log.decide.producer_state import (
    BATCHES_RETAINED,
    MAX_SEQUENCE,
    MAX_VERIFICATIONS,
    AppendOrigin,
    BatchMetadata,
    CorruptSnapshot,
    ProducerEntry,
    ProducerState,
    Verification,
    format_snapshot,
    parse_snapshot,
)
from kavka.records.batch import BatchHeader, read_header
from kavka.records.control import ControlType, EndTransactionMarker
from tests.unit.log.log_support import NOW_MS, batch, has_open_transaction

CLIENT, COORDINATOR, REPLICATION = AppendOrigin.CLIENT, AppendOrigin.COORDINATOR, AppendOrigin.REPLICATION
COMMIT, ABORT = EndTransactionMarker(ControlType.COMMIT, 3), EndTransactionMarker(ControlType.ABORT, 3)


def header(
    count: int = 1, *, sequence: int = 0, epoch: int = 0, producer_id: int = 7, transactional: bool = False
) -> BatchHeader:
    return read_header(
        batch(count, producer_id=producer_id, epoch=epoch, sequence=sequence, transactional=transactional)
    )


def state_after(*headers: BatchHeader) -> ProducerState:
    state, offset = ProducerState(), 0
    for one in headers:
        state.append(one, offset)
        offset += one.last_offset_delta + 1
    return state


def refusal(state: ProducerState, one: BatchHeader, origin: AppendOrigin = CLIENT) -> ErrorCode:
    with pytest.raises(RecordsError) as refused:
        state.check(one, origin)
    return refused.value.code


def test_an_unknown_producer_may_start_with_any_sequence() -> None:
    assert ProducerState().check(header(sequence=41), CLIENT) is None


def test_the_next_sequence_is_new() -> None:
    assert state_after(header(3)).check(header(2, sequence=3), CLIENT) is None


@pytest.mark.parametrize("sequence", [0, 2, 30, MAX_SEQUENCE])
def test_a_producer_without_an_epoch_may_go_on_with_any_sequence(sequence: int) -> None:
    first = header(3)._replace(producer_epoch=-1)
    state = state_after(first)
    assert state.check(header(2, sequence=sequence)._replace(producer_epoch=-1), CLIENT) is None
    known = state.check(first, CLIENT)
    assert known is not None
    assert known.first_offset == 0


@pytest.mark.parametrize("sequence", [1, 2, 4, MAX_SEQUENCE])
def test_a_gap_or_an_overlap_is_out_of_order(sequence: int) -> None:
    state = state_after(header(3))
    assert refusal(state, header(1, sequence=sequence)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_retry_of_each_of_the_last_five_batches_is_a_duplicate_with_its_old_offsets() -> None:
    sent = [header(2, sequence=2 * number) for number in range(BATCHES_RETAINED)]
    state = state_after(*sent)
    found = [state.check(one, CLIENT) for one in sent]
    assert [(one.first_offset, one.last_offset) for one in found if one] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]


def test_a_retry_of_the_sixth_last_batch_is_out_of_order() -> None:
    state = state_after(*(header(sequence=number) for number in range(BATCHES_RETAINED + 1)))
    assert refusal(state, header(sequence=0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert len(state.producers[7].batches) == BATCHES_RETAINED


def test_a_batch_with_the_same_start_but_another_end_is_no_duplicate() -> None:
    assert refusal(state_after(header(3)), header(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_around_to_zero() -> None:
    state = state_after(header(2, sequence=MAX_SEQUENCE - 1))
    assert state.check(header(sequence=0), CLIENT) is None
    assert refusal(state, header(sequence=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_across_the_wrap_is_recognised_as_a_duplicate() -> None:
    across = header(5, sequence=MAX_SEQUENCE - 2)
    state = state_after(across)
    assert state.check(across, CLIENT) == BatchMetadata(1, 4, 4, NOW_MS + 4)
    assert state.check(header(sequence=2), CLIENT) is None


def test_an_older_epoch_is_fenced() -> None:
    state = state_after(header(epoch=4))
    assert refusal(state, header(epoch=3, sequence=1)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_epoch_below_that_of_no_producer_is_fenced_though_nobody_knows_the_producer() -> None:
    assert refusal(ProducerState(), header()._replace(producer_epoch=-2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert ProducerState().check(header()._replace(producer_epoch=-1), CLIENT) is None


def test_a_newer_epoch_starts_at_sequence_zero_and_forgets_the_old_batches() -> None:
    state = state_after(header(2, epoch=4))
    assert refusal(state, header(epoch=5, sequence=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(header(epoch=5), CLIENT) is None
    state.append(header(epoch=5), 2)
    assert len(state.producers[7].batches) == 1


def test_a_leaders_records_are_never_refused() -> None:
    state = state_after(header(epoch=4))
    for one in (header(epoch=3), header(epoch=4, sequence=9), header(epoch=4)):
        assert state.check(one, REPLICATION) is None


def test_a_coordinator_is_fenced_but_its_sequences_are_not_checked() -> None:
    state = state_after(header(epoch=4))
    assert state.check(header(epoch=4, sequence=9), COORDINATOR) is None
    assert refusal(state, header(epoch=3), COORDINATOR) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_plain_batch_inside_of_a_transaction_is_refused() -> None:
    state = state_after(header(transactional=True))
    assert refusal(state, header(sequence=1)) is ErrorCode.INVALID_TXN_STATE


def test_records_are_unstable_from_the_first_offset_of_the_oldest_open_transaction() -> None:
    state = ProducerState()
    state.append(header(producer_id=1, transactional=True), 10)
    state.append(header(producer_id=2, transactional=True), 11)
    state.append(header(producer_id=1, sequence=1, transactional=True), 12)
    assert state.first_unstable_offset == 10
    assert has_open_transaction(state, 1)


def test_a_transaction_stays_unstable_until_the_high_watermark_passes_its_marker() -> None:
    state = ProducerState()
    state.append(header(transactional=True), 10)
    assert state.end_transaction(header(), COMMIT, 11) is None
    assert state.first_unstable_offset == 10
    assert not has_open_transaction(state, 7)
    state.on_high_watermark(11)
    assert state.first_unstable_offset == 10
    state.on_high_watermark(12)
    assert state.first_unstable_offset == -1


def test_an_aborted_transaction_carries_the_stable_offset_that_others_leave() -> None:
    state = ProducerState()
    state.append(header(producer_id=1, transactional=True), 10)
    state.append(header(producer_id=2, transactional=True), 20)
    assert state.end_transaction(header(producer_id=2), ABORT, 30) == (2, 20, 30, 10)
    assert state.end_transaction(header(producer_id=1), ABORT, 31) == (1, 10, 31, 32)


def test_a_marker_without_a_transaction_only_notes_its_epochs() -> None:
    state = ProducerState()
    assert state.end_transaction(header(epoch=9), ABORT, 5) is None
    assert state.producers[7].producer_epoch == 9
    assert state.producers[7].coordinator_epoch == 3
    assert state.first_unstable_offset == -1


def test_a_marker_of_a_past_epoch_or_coordinator_is_fenced() -> None:
    state = state_after(header(epoch=4, transactional=True))
    with pytest.raises(RecordsError) as refused:
        state.check_marker(header(epoch=3), COMMIT, COORDINATOR)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    state.end_transaction(header(epoch=4), COMMIT, 1)
    with pytest.raises(RecordsError) as refused:
        state.check_marker(header(epoch=4), EndTransactionMarker(ControlType.ABORT, 2), COORDINATOR)
    assert refused.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    state.check_marker(header(epoch=3), EndTransactionMarker(ControlType.ABORT, 2), REPLICATION)


def test_a_marker_keeps_the_sequence_of_its_producer() -> None:
    state = state_after(header(3, transactional=True))
    state.end_transaction(header(), COMMIT, 3)
    assert state.check(header(sequence=3), CLIENT) is None
    assert refusal(state, header(sequence=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_silent_producer_expires_but_not_with_an_open_transaction() -> None:
    state = ProducerState()
    state.append(header(producer_id=1), 0)
    state.append(header(producer_id=2, transactional=True), 1)
    assert state.expire(NOW_MS + 999, 1_000) == []
    assert state.expire(NOW_MS + 1_000, 1_000) == [1]
    assert list(state.producers) == [2]


def test_a_snapshot_has_kafkas_bytes() -> None:
    state = state_after(header(3, sequence=5, epoch=2, transactional=True))
    row = struct.pack("!qhiqiqiq", 7, 2, 7, 2, 2, NOW_MS + 2, -1, 0)
    body = struct.pack("!i", 1) + row
    assert state.snapshot() == struct.pack("!hI", 1, crc32c(body)) + body


def test_a_snapshot_brings_back_the_last_batch_and_the_open_transactions_in_order() -> None:
    state = ProducerState()
    state.append(header(2, producer_id=2, transactional=True), 20)
    state.append(header(producer_id=1, epoch=3, sequence=8), 22)
    state.append(header(producer_id=1, epoch=3, sequence=9, transactional=True), 23)
    loaded = ProducerState()
    loaded.load(state.snapshot(), 24, NOW_MS, 1_000)
    assert loaded.end_offset == 24
    assert loaded.first_unstable_offset == 20
    assert loaded.check(header(producer_id=1, epoch=3, sequence=9, transactional=True), CLIENT) is not None
    assert loaded.check(header(producer_id=1, epoch=3, sequence=10, transactional=True), CLIENT) is None
    assert loaded.end_transaction(header(2, producer_id=2), ABORT, 24) == (2, 20, 24, 23)


def test_expired_producers_are_not_loaded() -> None:
    state = state_after(header())
    loaded = ProducerState()
    loaded.load(state.snapshot(), 1, NOW_MS + 1_000, 1_000)
    assert not loaded.producers


def test_an_empty_snapshot_has_ten_bytes() -> None:
    assert len(format_snapshot([])) == 10
    assert list(parse_snapshot(format_snapshot([]))) == []


def test_a_snapshot_with_any_bit_flipped_or_cut_anywhere_is_refused() -> None:
    data = state_after(header(), header(producer_id=8)).snapshot()
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1
        for bad in (bytes(flipped), data[:position]):
            with pytest.raises(CorruptSnapshot):
                parse_snapshot(bad)


def test_a_bad_snapshot_leaves_the_state_as_it_was() -> None:
    state = state_after(header())
    with pytest.raises(CorruptSnapshot):
        state.load(b"nonsense", 5, NOW_MS, 1_000)
    assert 7 in state.producers


# -- the begin of a transaction (KIP-890)


def verified(state: ProducerState, *, epoch: int = 0, sequence: int = 0, granted: bool = True) -> None:
    verification = state.verification(7, epoch, sequence, 0)
    assert verification is not None
    verification.is_granted = granted


@pytest.mark.parametrize("origin", [CLIENT, COORDINATOR])
def test_a_transaction_does_not_begin_unless_its_coordinator_said_so(origin: AppendOrigin) -> None:
    state = ProducerState()
    assert refusal(state, header(transactional=True), origin) is ErrorCode.INVALID_TXN_STATE
    verified(state, granted=False)
    assert refusal(state, header(transactional=True), origin) is ErrorCode.INVALID_TXN_STATE
    verified(state)
    assert state.check(header(transactional=True), origin) is None


def test_what_a_leader_wrote_is_not_asked_about() -> None:
    assert ProducerState().check(header(transactional=True), REPLICATION) is None


def test_a_verification_is_over_with_the_next_marker() -> None:
    state = ProducerState()
    verified(state)
    state.end_transaction(header(), ABORT, 5)
    assert refusal(state, header(transactional=True)) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("origin", [CLIENT, COORDINATOR])
def test_a_transaction_that_is_open_in_an_earlier_epoch_verifies_none_of_a_later_one(origin: AppendOrigin) -> None:
    state = state_after(header(transactional=True))
    following = header(epoch=1, transactional=True)
    assert refusal(state, following, origin) is ErrorCode.INVALID_TXN_STATE
    verified(state, epoch=1)
    assert state.check(following, origin) is None


def test_a_verification_stands_until_a_marker_or_the_first_record() -> None:
    state = ProducerState()

    def asked() -> Verification:
        verification = state.verification(7, 0, 0, NOW_MS)
        assert verification is not None
        return verification

    first = asked()
    assert state.stands(7, first)
    state.end_transaction(header(), ABORT, 5)
    assert not state.stands(7, first)
    second = asked()
    assert state.stands(7, second)
    assert not state.stands(7, first)
    state.append(header(transactional=True), 6)
    assert not state.stands(7, second)


def test_a_verification_is_good_for_one_transaction() -> None:
    state = ProducerState()
    verified(state)
    state.append(header(transactional=True), 0)
    assert state.verification(7, 0, 1, 0) is None, "it is open"
    assert state.check(header(sequence=1, transactional=True), CLIENT) is None
    state.end_transaction(header(), COMMIT, 1)
    assert refusal(state, header(sequence=1, transactional=True)) is ErrorCode.INVALID_TXN_STATE


def test_a_verification_is_good_for_its_epoch_and_gives_way_to_a_later_one() -> None:
    state = ProducerState()
    verified(state, epoch=1)
    assert refusal(state, header(epoch=0, transactional=True)) is ErrorCode.INVALID_TXN_STATE
    assert refusal(state, header(epoch=2, transactional=True)) is ErrorCode.INVALID_TXN_STATE
    stale = state.verification(7, 0, 0, 0)
    assert stale is not None
    assert stale.producer_epoch == 1
    verified(state, epoch=2, granted=False)
    assert refusal(state, header(epoch=1, transactional=True)) is ErrorCode.INVALID_TXN_STATE


def test_of_batches_that_wait_for_the_coordinator_the_first_comes_first() -> None:
    state = ProducerState()
    verified(state, sequence=0)
    verified(state, sequence=1)
    assert refusal(state, header(sequence=1, transactional=True)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(header(sequence=0, transactional=True), CLIENT) is None


def test_with_an_epoch_for_each_transaction_the_first_sequence_is_zero() -> None:
    """1. a batch is lost on its way; 2. the next one arrives. It was taken, and the first one refused for good."""
    late, first = header(sequence=1, transactional=True), header(transactional=True)
    for bumps_epoch in (False, True):
        state = ProducerState()
        verification = state.verification(7, 0, 1, 0, bumps_epoch=bumps_epoch)
        assert verification is not None
        verification.is_granted = True
        if bumps_epoch:
            assert refusal(state, late) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert state.check(late, COORDINATOR) is None, "a coordinator's own records have no sequences"
        else:
            assert state.check(late, CLIENT) is None, "retention may have taken what came before"
        assert state.check(first, CLIENT) is None


def test_a_transaction_has_no_epoch_of_its_own_unless_that_is_said() -> None:
    """As before transaction version 2: a first sequence may be any."""
    verification = ProducerState().verification(1, 0, 5, 1_000)
    assert verification is not None
    assert not verification.bumps_epoch


def test_verifications_are_bounded_and_expire() -> None:
    state = ProducerState()
    for producer_id in range(MAX_VERIFICATIONS + 1):
        granted = state.verification(producer_id, 0, 0, 1_000)
        assert granted is not None
        granted.is_granted = True
    assert refusal(state, header(producer_id=0, transactional=True)) is ErrorCode.INVALID_TXN_STATE
    assert state.check(header(producer_id=1, transactional=True), CLIENT) is None
    state.expire(2_000, 1_000)
    assert refusal(state, header(producer_id=1, transactional=True)) is ErrorCode.INVALID_TXN_STATE


def test_a_grant_is_for_the_epoch_that_was_asked_about() -> None:
    state = ProducerState()
    asked = state.verification(7, 2, 0, NOW_MS)
    assert asked is not None
    assert not asked.is_granted
    asked.grant(1)
    assert not asked.is_granted
    asked.grant(2)
    assert asked.is_granted


def test_of_several_batches_of_an_epoch_the_lowest_sequence_is_remembered() -> None:
    state = ProducerState()
    asked = state.verification(7, 2, 5, NOW_MS)
    assert asked is not None
    assert state.verification(7, 2, 3, NOW_MS) is asked
    assert state.verification(7, 2, 8, NOW_MS) is asked
    assert asked.lowest_sequence == 3


def test_a_verification_expires_by_its_age() -> None:
    state = ProducerState()
    asked = state.verification(7, 0, 0, NOW_MS)
    assert asked is not None
    state.expire(NOW_MS + 99, 100)
    assert state.verification(7, 0, 0, NOW_MS) is asked
    state.expire(NOW_MS + 100, 100)
    assert state.verification(7, 0, 0, NOW_MS) is not asked


def test_a_marker_of_the_same_coordinator_epoch_is_taken_and_its_time_is_the_producers() -> None:
    state = state_after(header(transactional=True))
    marker = header()._replace(max_timestamp=NOW_MS + 50)
    for offset in (1, 2):
        state.check_marker(marker, COMMIT, COORDINATOR)
        state.end_transaction(marker, COMMIT, offset)
    assert state.producers[7].last_timestamp == NOW_MS + 50


def test_an_aborted_transaction_beside_one_that_is_open_from_offset_zero_leaves_zero_stable() -> None:
    state = state_after(header(producer_id=8, transactional=True), header(transactional=True))
    aborted = state.end_transaction(header(), ABORT, 2)
    assert aborted is not None
    assert (aborted.first_offset, aborted.last_offset, aborted.last_stable_offset) == (1, 2, 0)


def test_a_snapshot_keeps_a_batch_and_a_transaction_at_offset_zero_and_none_of_a_producer_without() -> None:
    state = state_after(header(transactional=True))
    state.end_transaction(header(producer_id=9), COMMIT, 1)
    found = {entry.producer_id: entry for entry in parse_snapshot(state.snapshot())}
    assert (found[7].current_txn_first_offset, found[7].last_offset, found[7].last_sequence) == (0, 0, 0)
    assert (found[9].current_txn_first_offset, found[9].batches) == (-1, [])
    assert format_snapshot(found.values()) == state.snapshot()
    count = struct.unpack_from(">i", state.snapshot(), 6)
    assert count == (2,)


def test_a_snapshot_whose_count_is_not_that_of_its_rows_is_refused_although_its_crc_is_right() -> None:
    data = bytearray(state_after(header()).snapshot())
    data[6:10] = (2).to_bytes(4, "big")
    data[2:6] = crc32c(bytes(data[6:])).to_bytes(4, "big")
    with pytest.raises(CorruptSnapshot, match="2 producers do not fit"):
        parse_snapshot(bytes(data))


def test_a_state_that_is_cleared_knows_nothing_any_more() -> None:
    state = state_after(header(transactional=True), header(producer_id=8, transactional=True))
    state.end_transaction(header(producer_id=8), COMMIT, 2)
    asked = state.verification(9, 0, 0, NOW_MS)
    state.clear(12)
    assert (state.producers, state.end_offset, state.first_unstable_offset) == ({}, 12, -1)
    assert state.verification(9, 0, 0, NOW_MS) is not asked


def test_a_state_tells_of_nothing_at_first() -> None:
    state = ProducerState()
    assert (state.end_offset, state.producers, state.first_unstable_offset) == (0, {}, -1)


def test_the_last_offset_of_a_producer_is_that_of_its_last_batch() -> None:
    state = state_after(header(2), header(3, sequence=2))
    entry = state.entry(7)
    assert entry is not None
    assert (entry.last_offset, entry.last_sequence) == (4, 4)
    assert state.last_records()[7].data_offset == 4


def test_who_has_begun_takes_no_place_from_who_is_about_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "MAX_VERIFICATIONS", 2)
    state = ProducerState()
    first = state.verification(8, 0, 0, NOW_MS)
    verified(state)
    state.append(header(transactional=True), 0)
    state.verification(9, 0, 0, NOW_MS)
    assert state.verification(8, 0, 0, NOW_MS) is first


def test_a_producer_without_a_batch_has_no_offsets_in_a_snapshot() -> None:
    state = ProducerState()
    state.end_transaction(header(epoch=2), COMMIT, 5)
    row = struct.unpack_from("!qhiqiqiq", state.snapshot(), 10)
    assert row == (7, 2, -1, -1, 0, state.producers[7].last_timestamp, 3, -1)


def test_a_producer_whose_snapshot_knows_no_epoch_goes_on_with_any_sequence() -> None:
    """As Kafka takes it: nothing is known of it, as of one whose records are gone."""
    state = ProducerState()
    state.load(format_snapshot([ProducerEntry(7, last_timestamp=NOW_MS)]), 0, NOW_MS, 1_000)
    assert state.entry(7) is not None
    assert state.check(header(sequence=5), CLIENT) is None
