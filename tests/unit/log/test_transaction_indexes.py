"""The transaction index survives what other indexes do: power cuts, half writes, truncations and damage."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from kavka.log.decide.indexes import AbortedTransaction, aborted_bytes
from kavka.log.decide.producer_state import AppendOrigin
from kavka.log.log_config import LogConfig
from kavka.log.log_loader import create_log, load_log
from kavka.log.segment import LogDirectory, OpenSegments
from kavka.log.unified_log import UnifiedLog
from kavka.records.control import ControlType
from kavka.simulator.host.disk import SimulatedDisk
from tests.unit.log.log_support import NOW_MS, PARTITION, append, batch, load, marker, new_log, reopen, request

FIRST, SECOND, THIRD = (1, 0, 6, 7), (2, 7, 13, 14), (3, 14, 20, 21)
END = 21


def abort_three(log: UnifiedLog) -> None:
    """Three aborted transactions of three batches of two records; 6 segments at 300 bytes each, or one."""
    for producer_id in (1, 2, 3):
        for number in range(3):
            append(log, batch(2, producer_id=producer_id, sequence=2 * number, transactional=True))
        data = marker(ControlType.ABORT, producer_id=producer_id)
        log.append_as_leader(data, 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.advance_high_watermark(log.log_end_offset)
    assert log.aborted_transactions(0, END) == [FIRST, SECOND, THIRD]


def entry(*fields: int) -> bytes:
    return aborted_bytes(AbortedTransaction(*fields))


WHOLE = entry(*FIRST) + entry(*SECOND) + entry(*THIRD)
DAMAGES = {
    "torn": WHOLE[:50],
    "one byte too many": WHOLE + b"\0",
    "garbage": b"garbage",
    "another version": b"\1" + WHOLE[1:],
    "zeros": bytes(34),
    "twice": WHOLE + WHOLE,
    "out of order": entry(*SECOND) + entry(*FIRST),
}


@pytest.mark.parametrize("segment_bytes", [300, 1 << 20])
@pytest.mark.parametrize("known", [{}, {"recovery_point": END}, {"was_clean": True, "recovery_point": END}])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_transaction_index_is_built_anew(
    tmp_path: Path, segment_bytes: int, known: dict[str, Any], damage: str
) -> None:
    log = new_log(tmp_path, segment_bytes=segment_bytes)
    abort_three(log)
    log.close(NOW_MS)
    paths = sorted(tmp_path.glob("*.txnindex"))
    right = [path.read_bytes() for path in paths]
    for path in paths:
        path.write_bytes(DAMAGES[damage])
    found, loaded = load(log, **known)
    assert found.aborted_transactions(0, END) == [FIRST, SECOND, THIRD]
    assert [path.read_bytes() for path in paths] == right
    if "was_clean" in known:
        assert {reason.what for reason in loaded.reasons} == {"transaction index rebuilt"}


@pytest.mark.parametrize("left", ["nothing", "one entry", "entries of records that are gone"])
def test_recovery_begins_with_an_empty_transaction_index(tmp_path: Path, left: str) -> None:
    log = new_log(tmp_path)
    abort_three(log)
    (path,) = tmp_path.glob("*.txnindex")
    assert path.read_bytes() == WHOLE
    if left == "nothing":
        path.unlink()
    elif left == "one entry":
        path.write_bytes(entry(*FIRST))
    else:
        with (tmp_path / "00000000000000000000.log").open("r+b") as file:
            file.truncate(file.seek(0, 2) - 1)
    found = reopen(log)
    kept = WHOLE[:68] if left.startswith("entries") else WHOLE
    assert path.read_bytes() == kept
    assert found.aborted_transactions(0, END) == [FIRST, SECOND, THIRD][: len(kept) // 34]


def test_an_index_that_is_damaged_later_is_built_anew_by_its_reader(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    abort_three(log)
    (path,) = tmp_path.glob("*.txnindex")
    path.unlink()
    found = reopen(log, was_clean=True, recovery_point=END)
    path.write_bytes(WHOLE[:50])
    assert found.aborted_transactions(0, END) == [FIRST, SECOND, THIRD]
    assert path.read_bytes() == WHOLE


def test_a_truncation_takes_the_entries_behind_it(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    abort_three(log)
    log.truncate_to(13, NOW_MS)
    (path,) = tmp_path.glob("*.txnindex")
    assert path.read_bytes() == entry(*FIRST)
    assert log.aborted_transactions(0, END) == [FIRST]


def test_a_half_written_entry_is_not_left_between_others(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(2, producer_id=9, transactional=True))
    segment = log.segments[0]
    segment.add_aborted(AbortedTransaction(*FIRST))
    (path,) = tmp_path.glob("*.txnindex")
    path.write_bytes(WHOLE[:50])
    segment.add_aborted(AbortedTransaction(*SECOND))
    assert path.read_bytes() == WHOLE[:68]


class _Process:
    """All that the disk asks of a process: it lives."""

    is_killed = False


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("segment_bytes", [300, 1 << 20])
def test_what_was_flushed_is_in_the_transaction_index_after_a_power_cut(seed: int, segment_bytes: int) -> None:
    disk = SimulatedDisk(random.Random(seed))
    process: Any = _Process()
    filesystem = disk.port(process)
    filesystem.make_directory("/orders-0")
    filesystem.sync_directory("/")
    directory = LogDirectory(filesystem, "/orders-0", OpenSegments(100))
    config = LogConfig(segment_bytes=segment_bytes)
    log = UnifiedLog(PARTITION, create_log(directory, request(config)), config, now_ms=NOW_MS)
    append(log, batch(1))
    log.flush(NOW_MS)
    for producer_id in (1, 2, 3):
        append(log, batch(2, producer_id=producer_id, transactional=True))
        data = marker(ControlType.ABORT, producer_id=producer_id)
        log.append_as_leader(data, 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
        log.advance_high_watermark(log.log_end_offset)
    expected = log.aborted_transactions(0, END)
    assert len(expected) == 3
    log.roll(NOW_MS)
    log.flush(NOW_MS)
    disk.power_cut()
    directory = LogDirectory(disk.port(process), "/orders-0", OpenSegments(100))
    loaded = load_log(directory, request(config, recovery_point=log.recovery_point))
    found = UnifiedLog(PARTITION, loaded, config, now_ms=NOW_MS)
    assert found.aborted_transactions(0, END) == expected
