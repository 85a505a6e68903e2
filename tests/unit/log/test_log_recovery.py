"""What a log is after its broker was killed, or its files were damaged: the longest good prefix, and a reason."""

import shutil
from pathlib import Path

import pytest

from kavka.errors import RecordsError
from kavka.log.decide.producer_state import AppendOrigin
from kavka.log.log_loader import MARK_IGNORED, RecoveryReason
from kavka.log.unified_log import UnifiedLog
from kavka.records.control import ControlType
from tests.unit.log.log_support import NOW_MS, append, batch, find_time, load, marker, new_log, offsets, reopen

SMALL_SEGMENTS = {"segment_bytes": 400, "index_interval_bytes": 100}
LOG = "00000000000000000000.log"
SIZE = len(batch(2))


def filled(path: Path, batches: int = 20, **settings: object) -> UnifiedLog:
    """A log with `batches` batches of two records each, several segments by default."""
    log = new_log(path, **(SMALL_SEGMENTS | settings))
    append(log, *(batch(2) for _ in range(batches)))
    return log


def whats(reasons: list[RecoveryReason]) -> list[str]:
    return [reason.what for reason in reasons]


def change(path: Path, position: int, mask: int = 0x01) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= mask
    path.write_bytes(data)


def test_everything_written_is_there_after_a_kill(tmp_path: Path) -> None:
    log = filled(tmp_path)
    found, loaded = load(log)
    assert offsets(found) == list(range(40))
    assert loaded.reasons == []
    assert [segment.base_offset for segment in found.segments] == [segment.base_offset for segment in log.segments]


def test_everything_written_is_there_after_a_clean_stop_without_reading_it(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close(NOW_MS)
    # What a clean stop leaves is believed: a damaged batch in the middle is met only by who reads it.
    change(tmp_path / LOG, 70)
    found, loaded = load(log, was_clean=True, recovery_point=40)
    assert (found.log_end_offset, found.recovery_point, loaded.reasons) == (40, 40, [])


def test_a_mark_is_not_believed_where_the_last_segment_cannot_be_read_and_that_one_alone_is_recovered(
    tmp_path: Path,
) -> None:
    log = filled(tmp_path)
    last = log.segments[-1]
    log.close(NOW_MS)
    change(tmp_path / LOG, SIZE + 70)  # what the mark still vouches for
    change(Path(last.path(".log")), last.size - SIZE + 16, 0x08)  # the magic of its last batch
    found, loaded = load(log, was_clean=True, recovery_point=40)
    assert (found.log_end_offset, found.recovery_point) == (38, last.base_offset)
    assert loaded.reasons[0][:2] == (MARK_IGNORED, last.path(".log"))
    assert whats(loaded.reasons) == [MARK_IGNORED, "segment cut"]


def test_a_flush_after_a_kill_syncs_what_a_clean_stop_would_have_left_durable(tmp_path: Path) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    append(log, *(batch(2, producer_id=1, sequence=2 * number) for number in range(12)))
    second, third = (segment.base_offset for segment in log.segments[1:3])
    log.close(NOW_MS)
    stopped = load(log, was_clean=True, recovery_point=24)[1]
    assert (stopped.directory_changed, stopped.files_to_sync, stopped.unsynced_cut) == (False, (), None)
    killed = load(log, recovery_point=third)[1]
    assert killed.directory_changed
    names = [int(Path(path).stem) for path in killed.files_to_sync]
    assert names == [base for base in (segment.base_offset for segment in log.segments) if base >= third]
    assert second in killed.snapshots.offsets


def test_a_power_cut_may_bring_back_what_recovery_cut_off_of_the_first_batch_on(tmp_path: Path) -> None:
    log = filled(tmp_path, 2)
    change(tmp_path / LOG, 70)
    assert load(log)[1].unsynced_cut == 0


@pytest.mark.parametrize("cut", [0, 1, 11, 60, 61, SIZE - 1, SIZE, SIZE + 1, 2 * SIZE - 1])
def test_a_torn_tail_is_cut_at_the_last_whole_batch(tmp_path: Path, cut: int) -> None:
    log = filled(tmp_path, 2)
    with open(tmp_path / LOG, "r+b") as file:
        file.truncate(cut)
    found, loaded = load(log)
    whole = cut // SIZE
    assert offsets(found) == list(range(2 * whole))
    assert (tmp_path / LOG).stat().st_size == whole * SIZE
    if cut % SIZE:
        (reason,) = loaded.reasons
        assert (reason.what, reason.offset, reason.cut_bytes) == ("segment cut", 2 * whole, cut % SIZE)
    append(found, batch(2))
    assert offsets(found) == list(range(2 * whole + 2))


def test_zeros_behind_the_records_are_cut_off(tmp_path: Path) -> None:
    log = filled(tmp_path, 2)
    with open(tmp_path / LOG, "ab") as file:
        file.write(bytes(4_096))
    found, loaded = load(log)
    assert offsets(found) == [0, 1, 2, 3]
    assert [reason.cut_bytes for reason in loaded.reasons] == [4_096]


def test_a_damaged_batch_takes_all_that_is_behind_it_along(tmp_path: Path) -> None:
    log = filled(tmp_path)
    per_segment = log.segments[0].size // SIZE
    change(tmp_path / LOG, SIZE + 70)
    found, loaded = load(log)
    assert offsets(found) == [0, 1]
    assert whats(loaded.reasons) == ["segment cut"] + ["segment dropped"] * (len(log.segments) - 1)
    assert loaded.reasons[0].cut_bytes == (per_segment - 1) * SIZE
    assert "CRC" in loaded.reasons[0].why
    assert sorted(path.name for path in tmp_path.glob("*.log")) == [LOG]


def test_an_empty_segment_before_others_ends_the_log(tmp_path: Path) -> None:
    log = filled(tmp_path)
    emptied = log.segments[1].base_offset
    (tmp_path / f"{emptied:020d}.log").write_bytes(b"")
    found, loaded = load(log)
    assert offsets(found) == list(range(emptied))
    assert loaded.reasons[0].why == "it is empty and segments follow"


def test_a_segment_that_a_power_cut_took_with_its_name_ends_the_log(tmp_path: Path) -> None:
    log = filled(tmp_path)
    gone, following = (segment.base_offset for segment in log.segments[1:3])
    (tmp_path / f"{gone:020d}.log").unlink()
    found, loaded = load(log, recovery_point=gone)
    assert offsets(found) == list(range(gone))
    assert f"the next one begins at {following}" in [reason.why for reason in loaded.reasons]


def test_a_segment_that_lost_its_last_whole_batch_ends_the_log(tmp_path: Path) -> None:
    log = filled(tmp_path)
    following = log.segments[1].base_offset
    with open(tmp_path / LOG, "r+b") as file:
        file.truncate(log.segments[0].size - SIZE)
    found, loaded = load(log)
    assert offsets(found) == list(range(following - 2))
    assert loaded.reasons[0].why == f"the next one begins at {following}"


def test_a_loss_between_segments_is_seen_behind_any_offset(tmp_path: Path) -> None:
    log, start = new_log(tmp_path, **SMALL_SEGMENTS), 1 << 40
    log.truncate_fully_and_start_at(start, NOW_MS)
    append(log, *(batch(2) for _ in range(20)))
    gone = log.segments[1].base_offset
    Path(log.segments[1].path(".log")).unlink()
    found, _ = load(log, recovery_point=start, log_start_offset=start)
    assert offsets(found) == list(range(start, gone))


def test_a_copy_of_a_log_that_was_compacted_once_keeps_its_gaps_after_a_kill(tmp_path: Path) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    bases = [3 * number for number in range(20)]
    for base in bases:
        log.append_as_follower(batch(2, base_offset=base), NOW_MS)
    assert len(log.segments) > 3
    found, loaded = load(log)
    assert offsets(found) == [offset for base in bases for offset in (base, base + 1)]
    assert loaded.reasons == []


def test_records_behind_a_log_start_that_lies_in_a_gap_are_there_after_a_kill(tmp_path: Path) -> None:
    """A truncation to a log start inside of a batch takes the whole batch, and leaves the log end where it was."""
    log = filled(tmp_path, 6)
    log.advance_high_watermark(12)
    assert log.delete_records(7)
    log.truncate_to(7, NOW_MS)
    log.roll(NOW_MS)
    append(log, *(batch(2) for _ in range(3)))
    found, loaded = load(log, log_start_offset=7)
    assert offsets(found) == list(range(7, 13))
    assert loaded.reasons == []


def test_compaction_may_leave_a_gap_between_segments(tmp_path: Path) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS, cleanup_compact=True)
    append(log, *(batch(2, key=b"k") for _ in range(20)))
    gone, following = (segment.base_offset for segment in log.segments[1:3])
    (tmp_path / f"{gone:020d}.log").unlink()
    assert offsets(load(log)[0]) == [*range(gone), *range(following, 40)]


def test_compaction_may_leave_an_empty_segment_before_others(tmp_path: Path) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS, cleanup_compact=True)
    append(log, *(batch(2, key=b"k") for _ in range(20)))
    first, second = (segment.base_offset for segment in log.segments[1:3])
    (tmp_path / f"{first:020d}.log").write_bytes(b"")
    found, loaded = load(log)
    assert offsets(found) == [*range(first), *range(second, 40)]
    assert loaded.reasons == []


def test_damage_below_the_recovery_point_is_left_alone(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.flush(NOW_MS)
    change(tmp_path / LOG, SIZE + 70)
    found, loaded = load(log, recovery_point=log.recovery_point)
    assert (found.log_end_offset, loaded.reasons) == (40, [])


def test_a_base_offset_that_goes_back_is_damage(tmp_path: Path) -> None:
    log = filled(tmp_path, 4)
    change(tmp_path / LOG, 2 * SIZE + 7, 0x07)  # offset 4 becomes 3
    found, loaded = load(log)
    assert offsets(found) == [0, 1, 2, 3]
    assert "goes back to offset 3" in loaded.reasons[0].why


def test_a_base_offset_that_jumps_ahead_of_the_next_batch_is_damage(tmp_path: Path) -> None:
    log = filled(tmp_path, 4)
    change(tmp_path / LOG, SIZE + 6)  # offset 2 becomes 258
    found, loaded = load(log)
    assert offsets(found) == [0, 1]
    assert "had jumped ahead" in loaded.reasons[0].why


def test_a_base_offset_beyond_the_next_segment_is_damage(tmp_path: Path) -> None:
    log = filled(tmp_path)
    last = log.segments[0].size - SIZE
    change(tmp_path / LOG, last + 7, 0x40)
    found, _ = load(log)
    assert offsets(found) == list(range(2 * last // SIZE))


def test_the_gaps_of_a_compacted_log_are_no_damage(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for base in (3, 10, 11):
        log.append_as_follower(batch(1, base_offset=base), NOW_MS)
    found, loaded = load(log)
    assert offsets(found) == [3, 10, 11]
    assert loaded.reasons == []


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "garbage", "shifted"])
def test_a_lost_or_lying_index_changes_no_answer(tmp_path: Path, suffix: str, damage: str) -> None:
    log = filled(tmp_path)
    log.close(NOW_MS)
    for path in tmp_path.glob(f"*.{suffix}"):
        data = path.read_bytes()
        if damage == "missing":
            path.unlink()
        elif damage == "shifted":
            path.write_bytes(bytes([*data[:-1], data[-1] ^ 0x09]) if data else data)
        else:
            path.write_bytes({"empty": b"", "cut": data[:-3], "garbage": bytes(range(7, 247)) * 2}[damage])
    found, loaded = load(log, was_clean=True, recovery_point=40)
    assert (loaded.reasons, found.log_end_offset) == ([], 40)
    assert offsets(found, max_bytes=250) == list(range(40))
    for offset in range(40):
        one = found.read(offset, 1, max_offset=40, min_one_batch=True)
        assert one.next_offset == (offset // 2 + 1) * 2


def in_seconds(path: Path, count: int, **settings: object) -> UnifiedLog:
    """A log with two segments: a record of 500 bytes for each of `count` seconds."""
    log = new_log(path, segment_bytes=20_000, **settings)
    append(log, *(batch([b"x" * 500], timestamp=NOW_MS + 1000 * number) for number in range(count)))
    assert len(log.segments) == 2
    return log


def found_by_time(log: UnifiedLog, count: int) -> list[int]:
    found = [find_time(log, NOW_MS + 1000 * number) for number in range(count)]
    return [-1 if hit is None else hit.offset for hit in found]


@pytest.mark.parametrize("interval", [4096, 1 << 20])
def test_largest_timestamps_are_known_after_a_kill_a_flush_and_another_kill(tmp_path: Path, interval: int) -> None:
    log = in_seconds(tmp_path, 60, index_interval_bytes=interval)
    largest = [segment.max_timestamp for segment in log.segments]
    time_index = tmp_path / "00000000000000000000.timeindex"
    # A power cut brings back what a truncation had left behind: what is known of earlier records.
    time_index.write_bytes((NOW_MS + 1000).to_bytes(8, "big") + (1).to_bytes(4, "big"))
    recovered = reopen(log)
    recovered.flush(NOW_MS)
    again = reopen(recovered, recovery_point=recovered.recovery_point)
    assert found_by_time(again, 60) == list(range(60))
    assert [segment.max_timestamp for segment in again.segments] == largest


def test_largest_timestamps_are_known_where_the_indexes_were_let_go_before_a_roll_or_a_stop(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=20_000)
    for number in range(60):
        append(log, batch([b"x" * 500], timestamp=NOW_MS + 1000 * number))
        # More segments are open than may be: this one has no index in memory until its next entry is due.
        log.flush(NOW_MS)
        log.segments[-1].release()
    largest = [segment.max_timestamp for segment in log.segments]
    log.close(NOW_MS)
    again = reopen(log, was_clean=True, recovery_point=60)
    assert [segment.max_timestamp for segment in again.segments] == largest
    assert found_by_time(again, 60) == list(range(60))


def test_indexes_that_belong_to_no_segment_are_removed(tmp_path: Path) -> None:
    log = filled(tmp_path, 2)
    stray = tmp_path / "00000000000000000077.index"
    stray.write_bytes(b"")
    _, loaded = load(log)
    assert whats(loaded.reasons) == ["index without a segment removed"]
    assert not stray.exists()


def test_the_log_goes_on_without_a_segment_that_somebody_removed(tmp_path: Path) -> None:
    log = filled(tmp_path)
    gone = log.segments[1]
    (tmp_path / f"{gone.base_offset:020d}.log").unlink()
    found, loaded = load(log, recovery_point=40)
    lost = range(gone.base_offset, log.segments[2].base_offset)
    assert offsets(found) == [offset for offset in range(40) if offset not in lost]
    assert "index without a segment removed" in whats(loaded.reasons)


def test_a_log_whose_first_segments_are_gone_starts_later(tmp_path: Path) -> None:
    log = filled(tmp_path)
    (tmp_path / LOG).unlink()
    found, _ = load(log)
    assert found.log_start_offset == log.segments[1].base_offset


def test_records_that_do_not_reach_the_log_start_are_dropped(tmp_path: Path) -> None:
    log = filled(tmp_path)
    found, loaded = load(log, log_start_offset=100)
    assert (found.log_start_offset, found.log_end_offset) == (100, 100)
    assert set(whats(loaded.reasons)) == {"segment dropped"}
    append(found, batch(2))
    assert offsets(reopen(found, log_start_offset=100)) == [100, 101]


def test_of_records_that_do_not_reach_the_log_start_no_producer_and_no_epoch_is_left(tmp_path: Path) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    append(log, *(batch(2, producer_id=1, sequence=2 * number) for number in range(12)), leader_epoch=3)
    log.close(NOW_MS)
    found, _ = load(log, log_start_offset=100)
    assert (found.epoch_entries, list(found.producers.producers)) == ([], [])
    assert list(tmp_path.glob("*.snapshot")) == []


def test_a_checkpointed_log_start_is_kept(tmp_path: Path) -> None:
    log = filled(tmp_path)
    found = reopen(log, log_start_offset=5)
    assert found.log_start_offset == 5
    assert offsets(found) == list(range(5, 40))


def test_an_empty_directory_is_an_empty_log(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    found, loaded = load(log)
    assert (found.log_start_offset, found.log_end_offset, loaded.reasons) == (0, 0, [])


def test_the_recovery_point_is_not_above_what_was_recovered(tmp_path: Path) -> None:
    log = filled(tmp_path)
    found = reopen(log, recovery_point=1_000)
    assert found.recovery_point == 40
    assert reopen(log, recovery_point=0).recovery_point == 0


# -- epochs


@pytest.mark.parametrize("data", [None, b"", b"garbage", b"0\n3\n0 0\n"])
def test_lost_leader_epochs_are_read_from_the_records(tmp_path: Path, data: bytes | None) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    for epoch in range(6):
        append(log, *(batch(2) for _ in range(3)), leader_epoch=epoch)
    expected = log.epoch_entries
    log.close(NOW_MS)
    path = tmp_path / "leader-epoch-checkpoint"
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)
    found, loaded = load(log, was_clean=True, recovery_point=36)
    assert found.epoch_entries == expected
    assert whats(loaded.reasons) == ["leader epochs read from the records"]
    found.close(NOW_MS)
    assert load(found, was_clean=True, recovery_point=36)[1].reasons == []


def test_epochs_that_were_not_written_down_before_a_kill_are_recovered(tmp_path: Path) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    append(log, *(batch(2) for _ in range(6)), leader_epoch=1)
    log.flush(NOW_MS)
    append(log, *(batch(2) for _ in range(6)), leader_epoch=2)
    assert reopen(log, recovery_point=12).epoch_entries == [(1, 0), (2, 12)]


def test_epochs_written_down_before_a_truncation_are_not_believed(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(2), leader_epoch=5)
    log.flush(NOW_MS)
    log.truncate_to(0, NOW_MS)
    log.append_as_follower(batch(2, leader_epoch=3), NOW_MS)
    assert reopen(log, recovery_point=log.recovery_point).epoch_entries == [(3, 0)]


def keyed(at: int, epoch: int) -> bytearray:
    return batch(2, base_offset=at, leader_epoch=epoch, key=b"k")


def test_an_epoch_whose_first_records_compaction_took_begins_where_it_did(tmp_path: Path) -> None:
    """1. Epoch 3 begins at 2; compaction takes its first records, and all of epoch 4. 2. The broker is killed before
    the recovery point is behind them. 3. It leads, and the leader of epoch 1 comes back with records that it alone has:
    it must cut off all from 2 on."""
    log = new_log(tmp_path, cleanup_compact=True)
    epochs = {0: 1, 2: 3, 4: 3, 6: 4, 8: 5, 10: 5, 12: 6}
    for at, epoch in epochs.items():
        log.append_as_follower(keyed(at, epoch), NOW_MS)
    log.flush(NOW_MS)
    expected = log.epoch_entries
    assert expected == [(1, 0), (3, 2), (4, 6), (5, 8), (6, 12)]
    (tmp_path / LOG).write_bytes(b"".join(keyed(at, epochs[at]) for at in (0, 4, 10, 12)))
    found = reopen(log)
    assert found.log_end_offset == 14
    assert found.epoch_entries == expected
    # Also where a segment ends with what compaction took.
    (tmp_path / LOG).write_bytes(keyed(0, 1))
    (tmp_path / "00000000000000000004.log").write_bytes(b"".join(keyed(at, epochs[at]) for at in (4, 10, 12)))
    assert reopen(found).epoch_entries == expected


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ({0: 1, 2: 1, 4: 3, 6: 4}, [(1, 0), (3, 4), (4, 6)]),
        ({0: 1, 4: 3, 6: 4}, [(1, 0), (3, 4), (4, 6)]),
    ],
    ids=["whole", "with a gap where epoch 2 would be"],
)
def test_epochs_of_before_a_truncation_are_not_believed_where_other_records_follow(
    tmp_path: Path, records: dict[int, int], expected: list[tuple[int, int]]
) -> None:
    log = new_log(tmp_path, cleanup_compact=True)
    for at, epoch in ((0, 1), (2, 2), (4, 4)):
        log.append_as_follower(keyed(at, epoch), NOW_MS)
    log.flush(NOW_MS)
    (tmp_path / LOG).write_bytes(b"".join(keyed(at, epoch) for at, epoch in records.items()))
    assert reopen(log).epoch_entries == expected


def test_epochs_behind_the_recovered_end_are_forgotten(tmp_path: Path) -> None:
    log = filled(tmp_path, 2)
    append(log, batch(2), leader_epoch=7)
    log.close(NOW_MS)
    with open(tmp_path / LOG, "r+b") as file:
        file.truncate(2 * SIZE)
    assert reopen(log).epoch_entries == [(0, 0)]


# -- producers and transactions


def test_producers_are_known_again_after_a_kill(tmp_path: Path) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    append(log, *(batch(2, producer_id=1, sequence=2 * number) for number in range(12)))
    found = reopen(log)
    assert found.append_as_leader(batch(2, producer_id=1, sequence=22), 0, NOW_MS).first_offset == 22
    with pytest.raises(RecordsError):
        found.append_as_leader(batch(2, producer_id=1, sequence=25), 0, NOW_MS)
    assert found.append_as_leader(batch(2, producer_id=1, sequence=24), 0, NOW_MS).first_offset == 24


def test_a_clean_stop_leaves_a_snapshot_so_that_nothing_is_read_again(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(2, producer_id=1))
    log.close(NOW_MS)
    assert (tmp_path / "00000000000000000002.snapshot").exists()
    found = reopen(log, was_clean=True, recovery_point=2)
    assert found.append_as_leader(batch(2, producer_id=1), 0, NOW_MS).is_duplicate


def test_a_log_that_no_producer_id_ever_wrote_to_leaves_no_snapshot(tmp_path: Path) -> None:
    log = filled(tmp_path, 2)
    log.close(NOW_MS)
    assert list(tmp_path.glob("*.snapshot")) == []


@pytest.mark.parametrize("damage", ["missing", "cut", "flipped"])
def test_a_bad_snapshot_is_replaced_by_an_older_one_and_the_records(tmp_path: Path, damage: str) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    append(log, *(batch(2, producer_id=1, sequence=2 * number) for number in range(12)))
    log.close(NOW_MS)
    snapshot = tmp_path / "00000000000000000024.snapshot"
    data = snapshot.read_bytes()
    if damage == "missing":
        snapshot.unlink()
    else:
        snapshot.write_bytes(data[:-1] if damage == "cut" else data[:20] + bytes([data[20] ^ 1]) + data[21:])
    found, loaded = load(log, was_clean=True, recovery_point=24)
    assert whats(loaded.reasons) == ([] if damage == "missing" else ["producer snapshot not used"])
    assert found.append_as_leader(batch(2, producer_id=1, sequence=22), 0, NOW_MS).is_duplicate


def test_without_any_snapshot_the_producers_are_read_from_all_records(tmp_path: Path) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    append(log, *(batch(2, producer_id=1, sequence=2 * number) for number in range(12)))
    for path in tmp_path.glob("*.snapshot"):
        path.unlink()
    found = reopen(log, recovery_point=20)
    assert found.append_as_leader(batch(2, producer_id=1, sequence=22), 0, NOW_MS).is_duplicate


def test_open_and_aborted_transactions_are_known_again_after_a_kill(tmp_path: Path) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS)
    append(log, *(batch(2, producer_id=1, sequence=2 * number, transactional=True) for number in range(6)))
    log.append_as_leader(marker(ControlType.ABORT, producer_id=1), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    append(log, *(batch(2, producer_id=2, sequence=2 * number, transactional=True) for number in range(6)))
    log.advance_high_watermark(log.log_end_offset)
    aborted = log.aborted_transactions(0, 99)
    for path in tmp_path.glob("*.txnindex"):
        path.write_bytes(b"garbage")
    found = reopen(log)
    assert found.aborted_transactions(0, 99) == aborted == [(1, 0, 12, 13)]
    assert found.last_stable_offset == log.last_stable_offset == 13


def test_a_producer_is_as_far_as_the_records_that_recovery_kept(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, *(batch(2, producer_id=1, sequence=2 * number) for number in range(3)))
    log.close(NOW_MS)
    with open(tmp_path / LOG, "r+b") as file:
        file.truncate(2 * SIZE + 9)
    found = reopen(log)
    assert found.append_as_leader(batch(2, producer_id=1, sequence=4), 0, NOW_MS).first_offset == 4
    assert not (tmp_path / "00000000000000000006.snapshot").exists()


def test_a_snapshot_of_what_was_cut_off_is_gone_before_other_records_come_there(tmp_path: Path) -> None:
    """A start that took it would know the producer of records that the log no longer has."""
    log = new_log(tmp_path)
    append(log, batch(2, producer_id=7))
    append(log, batch(2, producer_id=8))
    log.roll(NOW_MS)
    append(log, batch(1, producer_id=8, sequence=2))
    log.roll(NOW_MS)
    log.truncate_to(2, NOW_MS)
    assert [path.name for path in tmp_path.glob("*.snapshot") if int(path.stem) > 2] == []
    append(log, batch(2, producer_id=9))
    append(log, batch(1, producer_id=9, sequence=2))
    found = reopen(log, recovery_point=log.log_end_offset)
    assert sorted(found.producers.producers) == [7, 9]


def test_a_snapshot_that_a_power_cut_brought_back_is_not_taken_for_one_of_todays_records(tmp_path: Path) -> None:
    """1. a clean stop writes a snapshot at offset 4; 2. the records from 2 on are cut off, and the snapshot with them;
    3. others come there; 4. power is lost: the records are there, and so is the snapshot again, whose removal was not
    synced. A stop that ends at 4, too, would leave it as its own."""
    log = new_log(tmp_path)
    append(log, batch(2, producer_id=7), batch(2, producer_id=8))
    log.close(NOW_MS)
    snapshot = tmp_path / "00000000000000000004.snapshot"
    stale = snapshot.read_bytes()
    log = reopen(log, was_clean=True, recovery_point=4)
    log.truncate_to(2, NOW_MS)
    append(log, batch(2, producer_id=9))
    snapshot.write_bytes(stale)
    found = reopen(log, recovery_point=0)
    assert sorted(found.producers.producers) == [7, 9]
    found.close(NOW_MS)
    again = reopen(found, was_clean=True, recovery_point=4)
    assert sorted(again.producers.producers) == [7, 9]


def test_a_snapshot_from_before_a_log_was_begun_anew_opens_no_transaction_again(tmp_path: Path) -> None:
    """1. a follower has a transaction open; 2. its leader has deleted all that the follower has, the marker too, so the
    follower begins anew where the leader's log begins; 3. power is lost, and with it the removal of the snapshot.
    Nobody would ever end that transaction: as a leader it would have kept readers of committed records waiting."""
    log = new_log(tmp_path)
    append(log, batch(2, producer_id=7, transactional=True))
    log.close(NOW_MS)
    snapshot = tmp_path / "00000000000000000002.snapshot"
    stale = snapshot.read_bytes()
    log = reopen(log, was_clean=True, recovery_point=2)
    log.truncate_fully_and_start_at(500, NOW_MS)
    append(log, batch(2, producer_id=9))
    snapshot.write_bytes(stale)
    found = reopen(log, recovery_point=0)
    found.advance_high_watermark(502)
    assert sorted(found.producers.producers) == [9]
    assert found.last_stable_offset == 502
    assert not snapshot.exists()


# -- leftovers


def test_half_deleted_and_half_cleaned_files_are_removed(tmp_path: Path) -> None:
    log = filled(tmp_path, 2)
    names = ["00000000000000000009.log.deleted", "00000000000000000009.log.cleaned", "leader-epoch-checkpoint.tmp"]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    found, loaded = load(log)
    assert offsets(found) == [0, 1, 2, 3]
    assert not any((tmp_path / name).exists() for name in names)
    assert loaded.reasons == []


@pytest.mark.parametrize("offset", [10**20 - 1, 10**19, 2**63, 2**63 - 1])
def test_a_file_whose_name_no_offset_has_is_left_alone(tmp_path: Path, offset: int) -> None:
    log = filled(tmp_path)
    path = tmp_path / f"{offset:020d}.log"
    path.write_bytes(b"")
    found, loaded = load(log)
    assert (loaded.log_end_offset, loaded.reasons) == (40, [])
    append(found, batch(2))
    assert offsets(found) == list(range(42))
    assert path.exists()


def test_a_directory_among_the_files_is_left_alone(tmp_path: Path) -> None:
    log = filled(tmp_path, 2)
    names = [
        "of.tmp",
        "00000000000000000009.log.deleted",
        f"{LOG}.swap",
        "00000000000000000009.timeindex",
        "lost+found",
    ]
    for name in names:
        (tmp_path / name).mkdir()
    found, loaded = load(log)
    assert offsets(found) == [0, 1, 2, 3]
    assert all((tmp_path / name).is_dir() for name in names)
    assert loaded.reasons == []


def test_a_finished_compaction_takes_the_place_of_the_segments_it_cleaned(tmp_path: Path) -> None:
    log = filled(tmp_path)
    second = log.segments[2].base_offset
    log.close(NOW_MS)
    cleaned = new_log(tmp_path / "elsewhere")
    cleaned.append_as_follower(batch(1, base_offset=1), NOW_MS)
    cleaned.append_as_follower(batch(1, base_offset=second - 1), NOW_MS)
    shutil.move(tmp_path / "elsewhere" / LOG, tmp_path / f"{LOG}.swap")
    shutil.rmtree(tmp_path / "elsewhere")
    found, loaded = load(log)
    assert offsets(found) == [1, second - 1, *range(second, 40)]
    assert "segment replaced" in whats(loaded.reasons)
    assert not list(tmp_path.glob("*.swap"))
    assert not (tmp_path / LOG).with_suffix(".index").exists(), "that of the old one"


def test_a_compaction_covers_all_offsets_of_its_last_batch_and_the_first_one_where_nothing_stayed(
    tmp_path: Path,
) -> None:
    log = new_log(tmp_path, **SMALL_SEGMENTS, cleanup_compact=True)
    append(log, *(batch(2, key=b"k") for _ in range(20)))
    log.close(NOW_MS)
    first, second, third = (segment.base_offset for segment in log.segments[1:])
    kept = batch(third - first, base_offset=first, key=b"k")
    (tmp_path / f"{first:020d}.log.swap").write_bytes(kept)
    assert offsets(reopen(log)) == list(range(40))
    assert not (tmp_path / f"{second:020d}.log").exists()
    (tmp_path / f"{LOG}.swap").write_bytes(b"")
    assert offsets(reopen(log)) == list(range(first, 40))
    assert not (tmp_path / LOG).with_suffix(".index").exists(), "that of the old one"


def test_a_split_is_undone_from_its_first_unfinished_segment_on(tmp_path: Path) -> None:
    log = filled(tmp_path, 4)
    for offset, suffix in ((2, "cleaned"), (6, "cleaned"), (4, "swap")):
        (tmp_path / f"{offset:020d}.log.{suffix}").write_bytes(batch(2, base_offset=offset))
    assert offsets(reopen(log)) == list(range(8))
    assert sorted(path.name for path in tmp_path.glob("*.log*")) == sorted(
        Path(segment.path(".log")).name for segment in log.segments
    )


def test_an_unfinished_split_is_undone(tmp_path: Path) -> None:
    log = filled(tmp_path, 2)
    (tmp_path / "00000000000000000000.log.swap").write_bytes(bytes(batch(1)))
    (tmp_path / "00000000000000000000.log.cleaned").write_bytes(b"")
    assert offsets(reopen(log)) == [0, 1, 2, 3]
    assert not list(tmp_path.glob("*.swap"))
