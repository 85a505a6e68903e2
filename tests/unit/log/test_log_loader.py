"""What a log starts with: each thing that a loaded log says of itself, and edges that `test_log_recovery` has not."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from kavka.errors import CorruptRecords
from kavka.log.decide.checkpoint import LEADER_EPOCH_CHECKPOINT, format_epochs
from kavka.log.decide.indexes import AbortedTransaction, CorruptIndex
from kavka.log.decide.leader_epochs import EpochEntry
from kavka.log.decide.producer_state import AppendOrigin, ProducerState
from kavka.log.log_config import LogConfig
from kavka.log.log_loader import (
    LoadedLog,
    RecoveryReason,
    check_aborted,
    create_log,
    load_log,
    rebuild_aborted,
    rebuild_producers,
    replay_producers,
)
from kavka.log.segment import Segment
from kavka.log.unified_log import UnifiedLog
from kavka.records.batch import read_header
from kavka.records.builder import BatchBuilder, ProducerStamp, seal
from kavka.records.control import ControlType
from tests.unit.log.log_support import (
    NOW_MS,
    append,
    batch,
    has_open_transaction,
    load,
    log_directory,
    marker,
    new_log,
    offsets,
    request,
)
from tests.unit.log.noting_disk import NotingFileSystem

LOG = f"{0:020d}.log"
SIZE = len(batch(2, key=b"k"))
LAST_BASE = 2**63 - 2**31
"""The last segment of which all offsets are numbers of 63 bits could begin here."""


def filled(path: Path, batches: int = 6, **settings: object) -> UnifiedLog:
    """Batches of two records, two in a segment."""
    log = new_log(path, **({"segment_bytes": 2 * SIZE} | settings))
    append(log, *(batch(2, key=b"k") for _ in range(batches)))
    return log


def loaded(path: Path, config: LogConfig | None = None, **known: int | bool) -> LoadedLog:
    return load_log(log_directory(path), request(config or LogConfig(), **known))


# -- new logs


@pytest.mark.parametrize("start", [0, 50])
def test_a_new_log_is_empty_at_its_start_and_has_nothing_to_sync(tmp_path: Path, start: int) -> None:
    made = create_log(log_directory(tmp_path), request(LogConfig(), log_start_offset=start, roll_jitter_ms=7))
    assert (made.log_start_offset, made.log_end_offset, made.recovery_point) == (start, start, start)
    assert (made.producers.end_offset, made.epochs.entries, made.snapshots.offsets) == (start, [], [])
    assert (made.epochs_on_disk, made.directory_changed, made.files_to_sync, made.unsynced_cut) == (
        True,
        False,
        (),
        None,
    )
    (segment,) = made.segments
    assert (segment.base_offset, segment.created_ms, segment.roll_jitter_ms) == (start, NOW_MS, 7)
    assert create_log(log_directory(tmp_path), request(LogConfig())).segments[0].roll_jitter_ms == 0


def test_segments_that_are_found_are_rolled_with_the_jitter_that_was_drawn(tmp_path: Path) -> None:
    filled(tmp_path)
    assert [segment.roll_jitter_ms for segment in loaded(tmp_path, roll_jitter_ms=7).segments] == [7, 7, 7]
    assert [segment.roll_jitter_ms for segment in loaded(tmp_path).segments] == [0, 0, 0]
    (anew,) = loaded(tmp_path, roll_jitter_ms=7, log_start_offset=99).segments
    assert len(anew.directory.open_segments) == 1, "those that were dropped are open no more"
    assert (anew.base_offset, anew.roll_jitter_ms, anew.created_ms) == (99, 7, NOW_MS)


# -- names


@pytest.mark.parametrize(("offset", "is_taken"), [(LAST_BASE - 1, True), (LAST_BASE, True), (LAST_BASE + 1, False)])
def test_a_segment_begins_where_all_of_its_offsets_are_numbers(tmp_path: Path, offset: int, is_taken: bool) -> None:
    path = tmp_path / f"{offset:020d}.log"
    path.write_bytes(b"")
    found = loaded(tmp_path, was_clean=True)
    assert (found.log_end_offset, path.exists()) == (offset if is_taken else 0, True)


@pytest.mark.parametrize(
    "name",
    ["1.log", f"{9:019d}.log", f"{9:021d}.log", f"{9:020d}.logs", f"{9:020d}log", "٠" * 20 + ".log", "x" * 20 + ".log"],
)
def test_only_twenty_digits_and_the_ending_are_a_segments_name(tmp_path: Path, name: str) -> None:
    filled(tmp_path)
    (tmp_path / name).write_bytes(b"")
    found = loaded(tmp_path)
    assert (found.log_end_offset, found.reasons, (tmp_path / name).exists()) == (12, [], True)


@pytest.mark.parametrize("suffix", ["index", "timeindex", "txnindex"])
def test_an_index_without_a_segment_goes_and_nothing_of_the_records_does(tmp_path: Path, suffix: str) -> None:
    filled(tmp_path).close(NOW_MS)
    stray = tmp_path / f"{77:020d}.{suffix}"
    stray.write_bytes(b"")
    with structlog.testing.capture_logs() as lines:
        found = loaded(tmp_path, was_clean=True)
    (reason,), (line,) = found.reasons, lines
    assert reason == ("index without a segment removed", str(stray), f"no {77:020d}.log", -1, 0)
    assert line == {
        "event": reason.what,
        "log_level": "warning",
        "logger": "kavka.log.log_loader",
        "path": reason.path,
        "why": reason.why,
        "offset": -1,
        "cut_bytes": 0,
    }
    assert not stray.exists()
    assert (found.unsynced_cut, found.directory_changed) == (None, True)


def test_leftovers_are_gone_for_good_only_once_the_names_are_synced(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close(NOW_MS)
    assert not loaded(tmp_path, was_clean=True).directory_changed
    for name in (f"{2:020d}.log.deleted", f"{2:020d}.index.cleaned", "leader-epoch-checkpoint.tmp"):
        (tmp_path / name).write_bytes(b"")
        assert loaded(tmp_path, was_clean=True).directory_changed
        assert not (tmp_path / name).exists()


# -- swaps that a stop came into


def cleaned(path: Path, name: str, *bases: int, count: int = 2) -> None:
    (path / name).write_bytes(b"".join(batch(count, base_offset=base, key=b"k", leader_epoch=0) for base in bases))


def test_a_swap_takes_the_place_of_what_it_covers_and_of_nothing_else(tmp_path: Path) -> None:
    """Segments at 0, 4, 8 and 12; the swap begins at 4 and ends at 8, before the third."""
    log = filled(tmp_path, 7, cleanup_compact=True)
    log.close(NOW_MS)
    cleaned(tmp_path, f"{4:020d}.log.swap", 6)
    (tmp_path / f"{4:020d}.index.swap").write_bytes(b"")
    found, result = load(log, was_clean=True)
    assert offsets(found) == [0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13]
    replaced = [reason for reason in result.reasons if reason.what == "segment replaced"]
    assert [(Path(reason.path).name, reason.why, reason.offset) for reason in replaced] == [
        (f"{4:020d}.{suffix}", "a compaction had written its successor", -1) for suffix in ("index", "log", "timeindex")
    ]
    assert (tmp_path / f"{4:020d}.index").read_bytes() == b""
    assert [segment.base_offset for segment in found.segments] == [0, 4, 8, 12]


@pytest.mark.parametrize(("last", "bases"), [(7, [4, 8, 12]), (8, [4, 12]), (11, [4, 12]), (12, [4])])
def test_a_swap_covers_the_segments_that_begin_up_to_its_last_offset(
    tmp_path: Path, last: int, bases: list[int]
) -> None:
    log = filled(tmp_path, 7, cleanup_compact=True)
    log.close(NOW_MS)
    cleaned(tmp_path, f"{4:020d}.log.swap", last, count=1)
    assert [segment.base_offset for segment in load(log, was_clean=True)[0].segments] == [0, *bases]


def test_two_swaps_take_the_place_of_all_between_them(tmp_path: Path) -> None:
    """A segment that was split."""
    log = filled(tmp_path, 7, cleanup_compact=True)
    log.close(NOW_MS)
    cleaned(tmp_path, f"{0:020d}.log.swap", 0)
    cleaned(tmp_path, f"{8:020d}.log.swap", 10)
    found = load(log, was_clean=True)[0]
    assert [segment.base_offset for segment in found.segments] == [0, 8, 12]
    assert offsets(found) == [0, 1, 10, 11, 12, 13]


def test_a_swap_of_which_only_an_index_is_left_gets_its_name(tmp_path: Path) -> None:
    """The stop came between the renames of its files."""
    log = filled(tmp_path, 7, cleanup_compact=True)
    log.close(NOW_MS)
    (tmp_path / f"{4:020d}.timeindex").rename(tmp_path / f"{4:020d}.timeindex.swap")
    found, result = load(log, was_clean=True)
    assert (offsets(found), result.reasons) == ([*range(14)], [])
    assert (tmp_path / f"{4:020d}.timeindex").exists()
    assert not list(tmp_path.glob("*.swap"))


@pytest.mark.parametrize(
    ("cleaned_at", "swap_at", "is_believed"), [(4, 4, False), (4, 8, False), (8, 4, True), (5, 4, True)]
)
def test_a_swap_at_or_behind_what_is_not_cleaned_yet_is_not_believed(
    tmp_path: Path, cleaned_at: int, swap_at: int, is_believed: bool
) -> None:
    """KAFKA-6264: of a split all new segments are renamed to .swap in order from the last."""
    log = filled(tmp_path, 7, cleanup_compact=True)
    log.close(NOW_MS)
    for at in (12, cleaned_at):
        (tmp_path / f"{at:020d}.log.cleaned").write_bytes(b"")
    cleaned(tmp_path, f"{swap_at:020d}.log.swap", swap_at + 2)
    found = offsets(load(log, was_clean=True)[0])
    assert found == [offset for offset in range(14) if not is_believed or offset not in (swap_at, swap_at + 1)]
    assert not [*tmp_path.glob("*.swap"), *tmp_path.glob("*.cleaned")]


@pytest.mark.parametrize("name", ["x" * 20 + ".log.swap", f"{2**63:020d}.log.swap", "short.log.swap"])
def test_a_swap_whose_name_no_offset_has_goes(tmp_path: Path, name: str) -> None:
    log = filled(tmp_path)
    (tmp_path / name).write_bytes(batch(2))
    assert offsets(load(log)[0]) == [*range(12)]
    assert not (tmp_path / name).exists()


def test_a_swap_of_nothing_covers_one_offset(tmp_path: Path) -> None:
    """Compaction left nothing of its segment. What begins behind its first offset may be another one."""
    log = filled(tmp_path, 4, segment_bytes=100, cleanup_compact=True)
    log.close(NOW_MS)
    (tmp_path / f"{2:020d}.log.swap").write_bytes(b"")
    for at in (3, 4):
        (tmp_path / f"{at:020d}.log").write_bytes(batch(1, base_offset=at, leader_epoch=0))
    found = loaded(tmp_path, log.config, was_clean=True)
    assert [(segment.base_offset, segment.size > 0) for segment in found.segments] == [
        (0, True),
        (2, False),
        (3, True),
        (4, True),
        (6, True),
    ]


# -- recovery


def test_where_nothing_was_lost_a_reason_names_no_offset() -> None:
    assert RecoveryReason("what", "path", "why") == ("what", "path", "why", -1, 0)


def write_log(path: Path, base_offset: int, *batches: bytes | bytearray) -> None:
    (path / f"{base_offset:020d}.log").write_bytes(b"".join(batches))


def one(offset: int, *, count: int = 1, leader_epoch: int = 0, **fields: int) -> bytearray:
    return batch(count, base_offset=offset, leader_epoch=leader_epoch, **fields)  # type: ignore[arg-type]


def cut(path: Path, **known: int | bool) -> tuple[int, list[tuple[str, int]]]:
    """The log end that is found, and what was done: ("segment cut", offset)."""
    found = loaded(path, **known)
    return found.log_end_offset, [(reason.what, reason.offset) for reason in found.reasons]


WIDEST = (1 << 31) - 1
"""What an index entry holds at most, above the base offset of its segment."""


@pytest.mark.parametrize(("last", "is_good"), [(100 + WIDEST, True), (100 + WIDEST + 1, False)])
def test_an_offset_that_no_index_entry_holds_is_damage(tmp_path: Path, last: int, is_good: bool) -> None:
    write_log(tmp_path, 100, one(100), one(last - 1, count=2))
    if is_good:
        assert cut(tmp_path) == (last + 1, [])
    else:
        found = loaded(tmp_path)
        assert (found.log_end_offset, found.recovery_point, found.unsynced_cut) == (101, 100, 101)
        (reason,) = found.reasons
        assert reason[2:] == (f"the batch at position {len(one(0))} has the offset {last}", 101, len(one(0, count=2)))


@pytest.mark.parametrize(("following", "is_good"), [(4, True), (3, False)])
def test_a_segment_ends_before_the_next_one_begins(tmp_path: Path, following: int, is_good: bool) -> None:
    write_log(tmp_path, 0, one(0, count=2), one(2, count=2))
    write_log(tmp_path, following, one(following))
    assert cut(tmp_path) == ((5, []) if is_good else (2, [("segment cut", 2), ("segment dropped", following)]))


@pytest.mark.parametrize(
    ("bases", "end", "why"),
    [
        ([0, 1, 0], 2, "goes back to offset 0 from 2"),
        ([0, 1, 1], 2, "goes back to offset 1 from 2"),
        ([0, 9, 2], 1, "goes back to offset 2 from 10; the one before had jumped ahead"),
        ([0, 9, 10, 3], 11, "goes back to offset 3 from 11"),
        ([9, 0], 0, "goes back to offset 0 from 10; the one before had jumped ahead"),
        ([0, 5, 6], 7, None),
    ],
)
def test_of_offsets_that_go_back_the_one_that_lies_is_cut_off(
    tmp_path: Path, bases: list[int], end: int, why: str | None
) -> None:
    write_log(tmp_path, 0, *(one(base) for base in bases))
    found = loaded(tmp_path)
    assert found.log_end_offset == end
    assert [reason.why for reason in found.reasons] == (
        [] if why is None else [f"the batch at position {(len(bases) - 1) * len(one(0))} {why}"]
    )


@pytest.mark.parametrize(
    ("batches", "why"),
    [
        ([one(50)], "the batch at position 0 goes back to offset 50 from 100"),
        ([b"\x07" * 200], f"no batch at position 0: magic 7, batch length {0x07070707}"),
        ([b"\x07" * 20], "20 bytes at position 0 are not a batch header"),
    ],
)
def test_nothing_is_left_where_the_first_batch_is_none(tmp_path: Path, batches: list[bytes], why: str) -> None:
    write_log(tmp_path, 100, *batches)
    found = loaded(tmp_path)
    size = sum(map(len, batches))
    assert found.reasons == [("segment cut", str(tmp_path / f"{100:020d}.log"), why, 100, size)]
    assert (found.log_end_offset, (tmp_path / f"{100:020d}.log").stat().st_size) == (100, 0)


@pytest.mark.parametrize(("gap", "is_hole"), [(0, False), (1, True), (WIDEST, True), (WIDEST + 1, False)])
def test_a_gap_between_segments_is_a_loss_unless_no_index_could_hold_it(
    tmp_path: Path, gap: int, is_hole: bool
) -> None:
    """A segment is named for the log end; but for its first batch where that is too far from it. Between the last two
    segments too."""
    write_log(tmp_path, 0, one(0), one(1))
    write_log(tmp_path, 2, one(2), one(3))
    write_log(tmp_path, 4 + gap, one(4 + gap))
    found = loaded(tmp_path)
    if is_hole:
        assert found.log_end_offset == 4
        first, dropped = found.reasons
        assert first == ("segment cut", str(tmp_path / f"{2:020d}.log"), f"the next one begins at {4 + gap}", 4, 0)
        size = len(one(0))
        why = f"the segment before it was cut at {2 * size}"
        assert dropped == ("segment dropped", str(tmp_path / f"{4 + gap:020d}.log"), why, 4 + gap, size)
    else:
        assert (found.log_end_offset, found.reasons) == (5 + gap, [])


@pytest.mark.parametrize(
    ("known", "is_hole"),
    [
        ({"recovery_point": 8}, True),
        ({"recovery_point": 9}, False),
        ({"log_start_offset": 8}, True),
        ({"log_start_offset": 9}, False),
    ],
)
def test_a_gap_below_what_was_durable_is_none_that_a_power_cut_made(
    tmp_path: Path, known: dict[str, int], is_hole: bool
) -> None:
    write_log(tmp_path, 0, one(0), one(1))
    write_log(tmp_path, 9, one(9))
    directory = log_directory(tmp_path)
    config = LogConfig()
    asked = request(config, **known)
    if known.get("recovery_point") == 9:
        assert load_log(directory, asked).log_end_offset == 10, "the first segment is not looked at"
        return
    found = load_log(directory, asked)
    if "log_start_offset" in known and is_hole:
        assert (found.log_start_offset, found.log_end_offset) == (8, 8), "nothing reaches the log start"
    else:
        assert found.log_end_offset == (2 if is_hole else 10)


@pytest.mark.parametrize(("cleaned_to", "is_hole"), [(None, True), (0, True), (1, False)])
def test_where_compaction_has_been_a_gap_is_none(tmp_path: Path, cleaned_to: int | None, is_hole: bool) -> None:
    write_log(tmp_path, 0, one(0), one(1))
    write_log(tmp_path, 9, one(9))
    asked = request(LogConfig())._replace(cleaned_to=cleaned_to)
    assert load_log(log_directory(tmp_path), asked).log_end_offset == (2 if is_hole else 10)


@pytest.mark.parametrize(("recovery_point", "is_met"), [(7, True), (8, False), (9, False)])
def test_recovery_begins_with_the_segment_of_the_recovery_point(
    tmp_path: Path, recovery_point: int, is_met: bool
) -> None:
    """Segments at 0, 4 and 8; a batch of the second one is damaged."""
    log = filled(tmp_path, 6)
    path = tmp_path / f"{4:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    found = loaded(tmp_path, log.config, recovery_point=recovery_point)
    assert found.log_end_offset == (6 if is_met else 12)
    assert found.recovery_point == (6 if is_met else recovery_point)


def test_a_control_batch_that_says_nothing_ends_the_log(tmp_path: Path) -> None:
    """Its CRC is right; Kafka's recovery cuts there too."""
    builder = BatchBuilder()
    builder.append(NOW_MS, b"no", b"marker")
    bad = builder.build(ProducerStamp(7, 0, -1, is_transactional=True, is_control=True), base_offset=1)
    write_log(tmp_path, 0, one(0), bad, one(2))
    found = loaded(tmp_path)
    assert found.log_end_offset == 1
    (reason,) = found.reasons
    assert (reason.what, reason.offset, reason.cut_bytes) == ("segment cut", 1, len(bad) + len(one(2)))
    assert "without a control record" in reason.why


@pytest.mark.parametrize("preallocate", [True, False])
def test_room_that_a_kill_left_reserved_is_given_back_where_nothing_more_is_written(
    tmp_path: Path, preallocate: bool
) -> None:
    filled(tmp_path)
    disk = NotingFileSystem()
    found = load_log(log_directory(tmp_path, disk), request(LogConfig(preallocate=preallocate)))
    assert found.reasons == []
    assert disk.take("cut") == ([f"{0:020d}.log", f"{4:020d}.log"] if preallocate else [])


# -- leader epochs


def write_epochs(path: Path, *entries: tuple[int, int]) -> None:
    (path / LEADER_EPOCH_CHECKPOINT).write_bytes(format_epochs([EpochEntry(*entry) for entry in entries]))


@pytest.mark.parametrize(
    ("entries", "log_start", "left", "is_on_disk"),
    [
        ([(1, 0), (2, 4)], 0, [(1, 0), (2, 4)], True),
        ([(1, 0), (2, 4), (9, 12), (10, 99)], 0, [(1, 0), (2, 4)], False),
        ([(1, 0), (2, 4)], 6, [(2, 6)], False),
        ([(1, 0), (2, 4)], 3, [(1, 3), (2, 4)], False),
    ],
)
def test_epochs_are_those_of_offsets_that_the_log_has(
    tmp_path: Path, entries: list[tuple[int, int]], log_start: int, left: list[tuple[int, int]], is_on_disk: bool
) -> None:
    filled(tmp_path).close(NOW_MS)
    write_epochs(tmp_path, *entries)
    found = loaded(tmp_path, was_clean=True, log_start_offset=log_start)
    assert (found.epochs.entries, found.epochs_on_disk) == (left, is_on_disk)


@pytest.mark.parametrize(
    ("checkpointed", "found"),
    [
        # 3 is behind the last record before the batch at 4, 3 inside of it is not: other records have come there.
        ([(1, 0), (5, 3)], [(1, 0), (5, 4)]),
        ([(1, 0), (5, 4)], [(1, 0), (5, 4)]),
        ([(1, 0), (5, 5)], [(1, 0), (5, 5)]),
        ([(1, 0), (3, 4), (5, 6)], [(1, 0), (3, 4), (5, 6)]),
        ([(1, 0), (3, 4), (5, 7)], [(1, 0), (5, 6)]),
        ([(1, 0), (3, 4), (4, 6)], [(1, 0), (5, 6)]),
        ([], [(1, 0), (5, 6)]),
    ],
)
def test_where_an_epoch_began_is_believed_between_the_records_around_it(
    tmp_path: Path, checkpointed: list[tuple[int, int]], found: list[tuple[int, int]]
) -> None:
    """Compaction may have taken the first records of an epoch, or all of one. Records: epoch 1 up to 3, epoch 5 from 6
    on, or from 4 on."""
    begin = 4 if checkpointed[-1:] == [(5, 3)] or checkpointed[-1:] == [(5, 4)] else 6
    write_log(tmp_path, 0, one(0, count=4, leader_epoch=1), one(begin, count=2, leader_epoch=5), one(8, leader_epoch=5))
    write_epochs(tmp_path, *checkpointed)
    assert loaded(tmp_path, LogConfig(cleanup_compact=True)).epochs.entries == found


def test_where_damage_hides_the_epochs_none_is_known(tmp_path: Path) -> None:
    """A clean stop is believed, so that recovery does not cut there."""
    log = filled(tmp_path)
    log.close(NOW_MS)
    (tmp_path / LEADER_EPOCH_CHECKPOINT).unlink()
    path = tmp_path / f"{4:020d}.log"
    data = bytearray(path.read_bytes())
    data[16] = 9
    path.write_bytes(data)
    found = loaded(tmp_path, log.config, was_clean=True)
    assert found.epochs.entries == []
    first, second = found.reasons
    checkpoint = str(tmp_path / LEADER_EPOCH_CHECKPOINT)
    assert first[:3] == ("leader epochs read from the records", checkpoint, "there is none")
    assert second[:2] == ("leader epochs unknown", checkpoint)
    assert "no batch at position 0" in second.why


# -- producers


def test_producers_are_those_of_all_records_also_before_the_recovery_point(tmp_path: Path) -> None:
    """Without the snapshots: three producers, the first of them 0, in a segment each."""
    log = new_log(tmp_path, segment_bytes=100)
    for producer_id in range(3):
        append(log, batch(2, producer_id=producer_id))
    append(log, batch(2))
    for is_there in (True, False):
        for known in ({}, {"recovery_point": 2}, {"recovery_point": 5}, {"was_clean": True}):
            if not is_there:
                for path in tmp_path.glob("*.snapshot"):
                    path.unlink()
                if known == {"was_clean": True}:
                    continue  # A clean stop that leaves no snapshot had no producer.
            found = loaded(tmp_path, log.config, **known)
            assert sorted(found.producers.producers) == [0, 1, 2], known
            assert [entry.last_offset for entry in found.producers.entries()] == [1, 3, 5]
            assert found.producers.end_offset == 8


def test_recovery_makes_a_snapshot_for_each_segment_that_it_read_but_the_first(tmp_path: Path) -> None:
    """What they say of producers is what was written before them, whatever lay there."""
    log = new_log(tmp_path, segment_bytes=100)
    for number in range(4):
        append(log, batch(2, producer_id=7, sequence=2 * number))
    right = {path.name: path.read_bytes() for path in tmp_path.glob("*.snapshot")}
    assert sorted(int(Path(name).stem) for name in right) == [2, 4, 6]
    for known, kept in ((0, []), (3, [2])):
        for name in right:
            if int(Path(name).stem) not in kept:
                (tmp_path / name).write_bytes(b"torn")
        found = loaded(tmp_path, log.config, recovery_point=known)
        assert found.snapshots.offsets == [2, 4, 6]
        assert {path.name: path.read_bytes() for path in tmp_path.glob("*.snapshot")} == right


def test_snapshots_that_belong_to_nothing_go(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=100)
    for number in range(3):
        append(log, batch(2, producer_id=7, sequence=2 * number))
    log.close(NOW_MS)
    state = (tmp_path / f"{6:020d}.snapshot").read_bytes()
    for offset in (1, 3, 9):
        (tmp_path / f"{offset:020d}.snapshot").write_bytes(state)
    assert loaded(tmp_path, log.config, was_clean=True).snapshots.offsets == [2, 4, 6]


def test_a_log_that_stopped_cleanly_without_a_snapshot_has_no_producer(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(2), batch(2))
    log.close(NOW_MS)
    disk = NotingFileSystem()
    found = load_log(log_directory(tmp_path, disk), request(log.config, was_clean=True))
    assert (found.producers.end_offset, found.producers.entries()) == (4, [])
    assert [name for what, name in disk.notes if what == "read" and name.endswith(".snapshot")] == []


def test_the_records_of_a_log_that_stopped_cleanly_are_not_asked_for_producers(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(2, producer_id=5), batch(2))
    log.close(NOW_MS)
    for path in tmp_path.glob("*.snapshot"):
        path.unlink()
    assert loaded(tmp_path, log.config, was_clean=True).producers.entries() == []
    assert [entry.producer_id for entry in loaded(tmp_path, log.config).producers.entries()] == [5]


def test_producers_are_rebuilt_from_a_snapshot_and_what_came_since(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=200)
    for number in range(6):
        append(log, batch(2, producer_id=number % 2, sequence=number // 2 * 2))
    for end, last_offsets in ((12, {0: 9, 1: 11}), (8, {0: 5, 1: 7}), (4, {0: 1, 1: 3}), (0, {})):
        log._snapshots.remove_above(end)
        state = ProducerState()
        rebuild_producers(state, log._snapshots, log.segments, start_offset=0, end_offset=end, now_ms=NOW_MS)
        assert state.end_offset == end
        assert {entry.producer_id: entry.last_offset for entry in state.entries()} == last_offsets


def test_a_gap_between_segments_and_batches_without_producers_hide_no_later_one(tmp_path: Path) -> None:
    write_log(tmp_path, 0, one(0, producer_id=1))
    write_log(tmp_path, 10, one(10), one(11, producer_id=2))
    write_log(tmp_path, 12, one(12))
    segments = [Segment.open(log_directory(tmp_path), base, now_ms=NOW_MS) for base in (0, 10, 12)]
    state = ProducerState()
    state.end_offset = 7
    replay_producers(state, segments, 13)
    assert [entry.producer_id for entry in state.entries()] == [2]


def test_damage_behind_the_offset_up_to_which_producers_are_told_is_not_met(tmp_path: Path) -> None:
    batches = [one(number, producer_id=number) for number in range(3)]
    batches[2][16] = 9  # Of no format.
    write_log(tmp_path, 0, *batches)
    segment = Segment.open(log_directory(tmp_path), 0, now_ms=NOW_MS)
    state = ProducerState()
    replay_producers(state, [segment], 1)
    assert [entry.producer_id for entry in state.entries()] == [0]
    with pytest.raises(CorruptRecords):
        replay_producers(state, [segment], 3)


def transaction_segments(path: Path, disk: NotingFileSystem) -> UnifiedLog:
    """Segments at 0, 3, 6 and 9: in each a batch [n, n + 1] of a transaction of producer n / 3, and its marker."""
    log = new_log(path, filesystem=disk)
    for producer_id in range(4):
        append(log, batch(2, producer_id=producer_id, transactional=True))
        end = marker(ControlType.ABORT, producer_id=producer_id)
        log.append_as_leader(end, 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
        log.roll(NOW_MS)
    append(log, batch())
    return log


def replayed(log: UnifiedLog, begin: int, up_to: int) -> ProducerState:
    state = ProducerState()
    state.end_offset = begin
    replay_producers(state, log.segments, up_to)
    assert state.end_offset == up_to
    return state


@pytest.mark.parametrize(
    ("begin", "up_to", "ended", "still_open"),
    [
        (0, 13, [0, 1, 2, 3], []),
        (0, 12, [0, 1, 2, 3], []),
        (0, 11, [0, 1, 2], [3]),
        (0, 10, [0, 1, 2], [3]),
        (0, 9, [0, 1, 2], []),
        (3, 9, [1, 2], []),
        (4, 9, [1, 2], []),
        (5, 9, [1, 2], []),
        (6, 9, [2], []),
        (9, 9, [], []),
        (0, 0, [], []),
    ],
)
def test_producers_are_replayed_from_where_they_are_up_to_an_offset(
    tmp_path: Path, begin: int, up_to: int, ended: list[int], still_open: list[int]
) -> None:
    """A batch that begins before belongs to it where one of its offsets does not; of a marker alone its producer is
    known."""
    log = transaction_segments(tmp_path, NotingFileSystem())
    state = replayed(log, begin, up_to)
    assert sorted(state.producers) == sorted([*ended, *still_open])
    assert [number for number in range(4) if has_open_transaction(state, number)] == still_open
    with_records = [number for number in (*ended, *still_open) if state.producers[number].batches]
    assert with_records == [number for number in (*ended, *still_open) if 3 * number + 1 >= begin]


def test_of_segments_that_tell_nothing_new_none_is_read(tmp_path: Path) -> None:
    disk = NotingFileSystem()
    log = transaction_segments(tmp_path, disk)
    disk.take()
    replayed(log, 6, 9)
    assert set(disk.take("read")) == {f"{6:020d}.log"}
    replayed(log, 12, 13)
    assert set(disk.take("read")) == {f"{12:020d}.log"}
    path = Path(log.segments[3].path(".log"))
    path.write_bytes(b"\xff" * path.stat().st_size)
    assert sorted(replayed(log, 0, 9).producers) == [0, 1, 2]


def test_an_emptied_marker_ends_nothing_and_is_read_by_nobody(tmp_path: Path) -> None:
    header = read_header(marker(ControlType.COMMIT, producer_id=1))
    emptied = seal(header._replace(base_offset=2, record_count=0), b"")
    write_log(tmp_path, 0, batch(2, producer_id=1, transactional=True), emptied, one(3))
    found = loaded(tmp_path)
    assert (found.log_end_offset, has_open_transaction(found.producers, 1)) == (4, True)


# -- transaction indexes


def aborted(first: int, last: int, stable: int | None = None) -> AbortedTransaction:
    return AbortedTransaction(7, first, last, last + 1 if stable is None else stable)


@pytest.mark.parametrize(
    ("entries", "following"),
    [
        ([], None),
        ([], 0),
        ([aborted(0, 1)], None),
        ([aborted(0, 1)], 2),
        ([aborted(3, 5), aborted(0, 6), aborted(7, 9)], 10),
        ([aborted(3, 5, stable=0)], None),
        ([aborted(3, 5, stable=6)], None),
    ],
)
def test_entries_of_a_transaction_index_that_can_be_right(
    entries: list[AbortedTransaction], following: int | None
) -> None:
    check_aborted(entries, following)


@pytest.mark.parametrize(
    ("entries", "following", "why"),
    [
        ([aborted(-1, 1)], None, "cannot follow the end of a transaction at -1"),
        ([aborted(5, 5)], None, "cannot follow the end of a transaction at -1"),
        ([aborted(6, 5)], None, "cannot follow the end of a transaction at -1"),
        ([aborted(3, 5), aborted(4, 5)], None, "cannot follow the end of a transaction at 5"),
        ([aborted(3, 5), aborted(0, 2)], None, "cannot follow the end of a transaction at 5"),
        ([aborted(3, 5, stable=-1)], None, "cannot follow the end of a transaction at -1"),
        ([aborted(3, 5, stable=7)], None, "cannot follow the end of a transaction at -1"),
        ([aborted(3, 5)], 5, "does not end before the segment at 5"),
        ([aborted(3, 5)], 4, "does not end before the segment at 4"),
    ],
)
def test_entries_that_contradict_each_other_or_their_segment(
    entries: list[AbortedTransaction], following: int | None, why: str
) -> None:
    with pytest.raises(CorruptIndex) as damage:
        check_aborted(entries, following)
    assert str(damage.value) == f"transaction index: {entries[-1]} {why}"


def test_a_transaction_index_that_is_built_anew_says_what_the_lost_one_did(tmp_path: Path) -> None:
    """Also behind records of a transaction of nobody, which Apache Kafka takes too: they are of none."""
    log = new_log(tmp_path)
    append(log, batch(transactional=True), batch(2, producer_id=7, transactional=True))
    log.append_as_leader(marker(ControlType.ABORT, producer_id=7), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    (segment,) = log.segments
    expected = [AbortedTransaction(7, 1, 3, 4)]
    assert segment.aborted_transactions == expected
    assert rebuild_aborted([segment], 0) == expected


def test_the_transaction_index_of_one_segment_is_built_from_it_and_those_before(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(2, producer_id=0, transactional=True), batch())
    log.roll(NOW_MS)
    append(log, batch(2, producer_id=4, transactional=True), batch())
    for producer_id, kind in ((0, ControlType.ABORT), (4, ControlType.COMMIT)):
        log.append_as_leader(marker(kind, producer_id=producer_id), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.roll(NOW_MS)
    append(log, batch())
    expected = [AbortedTransaction(0, 0, 6, 3)]
    segments = [Segment.open(log_directory(tmp_path), base, now_ms=NOW_MS) for base in (0, 3, 8)]
    assert [rebuild_aborted(segments, number) for number in range(3)] == [[], expected, []]
    assert [segment.aborted_transactions for segment in segments] == [[], expected, []]
    disk = NotingFileSystem()
    rebuild_aborted([Segment.open(log_directory(tmp_path, disk), base, now_ms=NOW_MS) for base in (0, 3, 8)], 0)
    assert set(disk.take("read")) == {f"{0:020d}.log"}


@pytest.mark.parametrize("number", range(5))
def test_an_entry_that_ends_behind_its_segment_is_seen_in_each_segment_but_the_last(
    tmp_path: Path, number: int
) -> None:
    log = transaction_segments(tmp_path, NotingFileSystem())
    append(log, batch(2, producer_id=4, transactional=True))
    log.append_as_leader(marker(ControlType.ABORT, producer_id=4), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.close(NOW_MS)
    base = log.segments[number].base_offset
    log.segments[number].set_aborted([AbortedTransaction(number, base, base + 3, base + 4)])
    found = loaded(tmp_path, log.config, was_clean=True)
    whys = [(reason.what, Path(reason.path).name) for reason in found.reasons]
    assert whys == ([("transaction index rebuilt", f"{base:020d}.txnindex")] if number < 4 else [])


@pytest.mark.parametrize("is_readable", [True, False])
def test_a_transaction_index_that_cannot_be_right_is_built_anew_or_left_to_its_readers(
    tmp_path: Path, is_readable: bool
) -> None:
    """Its entries end behind the next segment's begin. A clean stop is believed: damaged records are not met before."""
    log = transaction_segments(tmp_path, NotingFileSystem())
    log.close(NOW_MS)
    index = tmp_path / f"{3:020d}.txnindex"
    right = index.read_bytes()
    log.segments[1].set_aborted([AbortedTransaction(1, 3, 6, 7)])
    if not is_readable:
        path = tmp_path / f"{0:020d}.log"
        data = bytearray(path.read_bytes())
        data[16] = 9
        path.write_bytes(data)
    found = loaded(tmp_path, log.config, was_clean=True)
    built, *others = found.reasons
    assert built[:2] == ("transaction index rebuilt", str(index))
    assert "does not end before the segment at 6" in built.why
    if is_readable:
        assert (others, index.read_bytes()) == ([], right)
    else:
        (unbuilt,) = others
        assert unbuilt[:2] == ("transaction index not built", str(tmp_path / f"{3:020d}.log"))
        assert "no batch at position 0" in unbuilt.why
