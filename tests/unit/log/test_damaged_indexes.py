"""Index files that are missing, cut, longer, of zeros or garbage: searches by time and ages are as without damage.

Not told from a whole one, as with Kafka: a time index that lost entries at its end and ends between two, or whose last
entry is another that could be right.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
import structlog

from kavka.log.log_loader import load_log
from kavka.log.segment import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TimestampedOffset
from kavka.log.unified_log import UnifiedLog
from tests.unit.log.log_support import (
    NOW_MS,
    PARTITION,
    append,
    batch,
    find_time,
    log_directory,
    new_log,
    offsets,
    request,
)

COUNT = 24
TIMES = {
    "rising": [NOW_MS + 10 * number for number in range(COUNT)],
    "falling": [NOW_MS - 10 * number for number in range(COUNT)],
    "in any order": [NOW_MS + Random(number).randrange(500) for number in range(COUNT)],
    "with the largest late": [NOW_MS + number + 900 * (number % 8 == 7) for number in range(COUNT)],
}
WIDTHS = {OFFSET_INDEX_SUFFIX: 8, TIME_INDEX_SUFFIX: 12}
DAMAGES: dict[str, Callable[[bytes, int], bytes | None]] = {
    "missing": lambda data, width: None,
    "empty": lambda data, width: b"",
    "cut in an entry": lambda data, width: data[:-1],
    "a byte longer": lambda data, width: data + b"\1",
    "zeros behind it": lambda data, width: data + bytes(5 * width),
    "a part of an entry of zeros behind it": lambda data, width: data + bytes(width - 1),
    "zeros": lambda data, width: bytes(len(data)),
    "one entry of zeros": lambda data, width: bytes(width),
    "twice": lambda data, width: data + data,
    "reversed": lambda data, width: b"".join(data[at : at + width] for at in range(len(data) - width, -1, -width)),
    "entries of ones": lambda data, width: b"\xff" * (len(data) + width),
    "garbage": lambda data, width: bytes(Random(2).randrange(256) for _ in range(len(data) + 3 * width)),
}


class Known(NamedTuple):
    """What is told of a log's times."""

    found: list[TimestampedOffset | None]
    largest: TimestampedOffset | None
    ages: list[int]
    offsets: list[int]


def known_of(log: UnifiedLog, times: list[int], *, ages_first: bool) -> Known:
    """`ages_first`: the segments load what they know of themselves before a search brings what it has read."""
    ages = [segment.age_from_ms for segment in log.segments] if ages_first else []
    asked = sorted({time + later for time in times[::3] for later in (0, 1)} | {0, NOW_MS + 10_000})
    found = [find_time(log, time) for time in asked]
    largest = find_time(log, None)
    return Known(found, largest, ages or [segment.age_from_ms for segment in log.segments], offsets(log))


def loaded(path: Path, log: UnifiedLog, *, was_clean: bool) -> UnifiedLog:
    files = load_log(log_directory(path), request(log.config, was_clean=was_clean, recovery_point=COUNT))
    found = UnifiedLog(PARTITION, files, log.config, now_ms=NOW_MS)
    found.set_high_watermark(found.log_end_offset)
    return found


def damaged(path: Path, whole: Path, suffix: str, damage: Callable[[bytes, int], bytes | None]) -> Iterator[Path]:
    """Copies of the directory `whole`; in each of them the index of another segment is damaged."""
    for index in sorted(whole.glob(f"*{suffix}")):
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(whole, path)
        data = damage(index.read_bytes(), WIDTHS[suffix])
        if data is None:
            (path / index.name).unlink()
        else:
            (path / index.name).write_bytes(data)
        yield path


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("suffix", WIDTHS)
def test_what_is_told_of_times_is_the_same_whatever_became_of_an_index(
    tmp_path: Path, suffix: str, damage: str
) -> None:
    for number, times in enumerate(TIMES.values()):
        whole = tmp_path / f"whole-{number}"
        log = new_log(whole, segment_bytes=800, index_interval_bytes=150)
        append(log, *(batch([b"x" * 20], timestamp=time) for time in times))
        log.close(NOW_MS)
        expected = known_of(loaded(whole, log, was_clean=True), times, ages_first=True)
        assert expected.ages == [
            max(times[base:end])
            for base, end in zip(
                [segment.base_offset for segment in log.segments],
                [*(segment.base_offset for segment in log.segments[1:]), COUNT],
                strict=True,
            )
        ]
        for place, path in enumerate(damaged(tmp_path / "damaged", whole, suffix, DAMAGES[damage])):
            for ages_first in (False, True):
                found = loaded(path, log, was_clean=bool(place % 2))
                assert known_of(found, times, ages_first=ages_first) == expected, f"{number} {path} {ages_first}"


def test_the_largest_time_is_found_though_an_index_promises_a_larger_one(tmp_path: Path) -> None:
    """An entry that could be right, but no record has its time: all of that segment is read."""
    log = new_log(tmp_path, segment_bytes=800, index_interval_bytes=150)
    append(log, *(batch([b"x" * 20], timestamp=time) for time in TIMES["rising"]))
    log.close(NOW_MS)
    index = tmp_path / f"{0:020d}{TIME_INDEX_SUFFIX}"
    index.write_bytes(index.read_bytes() + (NOW_MS + 99_999).to_bytes(8, "big") + (99).to_bytes(4, "big"))
    assert find_time(loaded(tmp_path, log, was_clean=True), None) == (NOW_MS + 10 * (COUNT - 1), COUNT - 1, 0)


def test_the_largest_time_is_found_though_an_offset_index_says_another_place(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=800, index_interval_bytes=150)
    times = [*TIMES["rising"][:6], NOW_MS + 9_999, *TIMES["rising"][6:]]
    append(log, *(batch([b"x" * 20], timestamp=time) for time in times))
    log.close(NOW_MS)
    index = tmp_path / f"{0:020d}{OFFSET_INDEX_SUFFIX}"
    data = index.read_bytes()
    index.write_bytes(b"".join(data[at : at + 7] + bytes([data[at + 7] ^ 1]) for at in range(0, len(data), 8)))
    assert find_time(loaded(tmp_path, log, was_clean=True), None) == (NOW_MS + 9_999, 6, 0)


def test_a_segment_of_the_begin_of_time_has_its_index_believed(tmp_path: Path) -> None:
    log = new_log(tmp_path, index_interval_bytes=150)
    append(log, batch([b"x"], timestamp=0))
    log.close(NOW_MS)
    (segment,) = loaded(tmp_path, log, was_clean=True).segments
    assert [tuple(entry) for entry in segment.time_index] == [(0, 0)]
    assert segment.index_entries == 0
    assert find_time(loaded(tmp_path, log, was_clean=True), 0) == (0, 0, 0)


@pytest.mark.parametrize(("times", "is_doubted"), [([0], False), ([1], True), ([1, 2], True), ([-1], False)])
def test_one_entry_of_zeros_is_believed_of_records_of_the_begin_of_time_alone(
    tmp_path: Path, times: list[int], is_doubted: bool
) -> None:
    log = new_log(tmp_path)
    append(log, *(batch([b"x"], timestamp=time) for time in times))
    log.close(NOW_MS)
    (tmp_path / f"{0:020d}{TIME_INDEX_SUFFIX}").write_bytes(bytes(12))
    with structlog.testing.capture_logs() as lines:
        largest = loaded(tmp_path, log, was_clean=True).segments[0].max_timestamp
    assert largest == (max(times) if is_doubted else 0)
    assert [line["why"] for line in lines] == ["time index: zeros for records with timestamps"] * is_doubted
