"""Whatever is asked for, limited, killed and run again: a stream reads no offset twice, and all that it took on."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.errors import ConfigError
from kavka.model import TopicPartition
from kavka_spark import backfill
from kavka_spark.backfill import MOST_RANGES, Range, Ranges

NAMES = [TopicPartition("t", 0), TopicPartition("t", 1)]
BEGAN = dict.fromkeys(NAMES, 40)
OFFSET = st.integers(0, 45)
REQUEST = st.dictionaries(st.sampled_from(NAMES), st.tuples(OFFSET, OFFSET), max_size=2)
STEP = st.tuples(REQUEST, st.lists(st.integers(0, 15), min_size=1, max_size=6), st.booleans())
"""What is asked for, how far each range goes, and whether the driver is killed before the micro-batch is done."""


def _checkpointed(ranges: Ranges) -> Ranges:
    return backfill.from_json(json.loads(json.dumps(backfill.to_json(ranges))))


@given(st.lists(STEP, max_size=12))
def test_no_offset_is_read_twice_and_all_that_was_taken_on_is_read(steps: list[object]) -> None:
    there: Ranges = {}
    read: Counter[tuple[TopicPartition, int]] = Counter()
    taken_on: set[tuple[TopicPartition, int]] = set()
    for wanted, sizes, is_killed in steps:  # type: ignore[misc]
        planned: Ranges = backfill.joined(there)
        try:
            planned = backfill.added(planned, wanted, BEGAN)
        except ConfigError:
            continue
        taken_on |= {(name, at) for name, every in planned.items() for each in every for at in range(*each[:2])}
        whole = backfill.whole(planned)
        begins = backfill.starts(there, whole)
        ends = {
            part: min(begins[part] + sizes[number % len(sizes)], each.end)
            for number, (part, each) in enumerate(((n, e.first), e) for n in whole for e in whole[n])
        }
        end = _checkpointed(backfill.read_until(whole, ends))
        spans = backfill.read_between(there, end)
        assert backfill.read_between(end, end) == []
        if is_killed:
            assert backfill.read_between(_checkpointed(there), end) == spans, "the same micro-batch, run again"
        read.update((name, at) for name, first, last in spans for at in range(first, last))
        there = end
    spans = backfill.read_between(there, backfill.whole(backfill.joined(there)))
    read.update((name, at) for name, first, last in spans for at in range(first, last))
    assert set(read) == taken_on
    assert set(read.values()) <= {1}
    assert all(at < BEGAN[name] for name, at in read)


def test_the_number_of_ranges_is_bounded() -> None:
    there: Ranges = {}
    for number in range(MOST_RANGES):
        there = backfill.added(there, {NAMES[0]: (2 * number, 2 * number + 1)}, {NAMES[0]: 10_000})
    with pytest.raises(ConfigError, match="fill in larger ones"):
        backfill.added(there, {NAMES[0]: (9_000, 9_001)}, {NAMES[0]: 10_000})


def test_ranges_that_touch_and_were_read_become_one() -> None:
    ranges = {NAMES[0]: (Range(0, 10, 10), Range(10, 20, 20), Range(20, 30, 25))}
    assert backfill.joined(ranges) == {NAMES[0]: (Range(0, 20, 20), Range(20, 30, 25))}
