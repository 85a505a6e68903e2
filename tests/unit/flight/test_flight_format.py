"""The bytes of a flight recording: what is whole is read, what is not is named."""

from __future__ import annotations

import pytest

from kavka.decisions import Decision, DecisionKind, RecordedDecision
from kavka.flight.format import (
    CHECK,
    CHECK_FIELDS,
    FETCH,
    FETCH_FIELDS,
    HEADER,
    MAGIC,
    MAX_PAYLOAD_BYTES,
    RAISED,
    Block,
    Check,
    Cut,
    Fetch,
    MalformedEntry,
    blocks,
    encode_block,
    encode_fact,
    encode_recorded,
    entries,
)
from kavka.model import BrokerId, TopicPartition

SEEN = Fetch(7, BrokerId(2), 1_000, 40, 41, 0, 12, 40, 0)
DECISION = RecordedDecision(
    "", Decision(DecisionKind.ISR_SHRUNK, 1_001, BrokerId(1), "2 is late", TopicPartition("t", 0), evidence={"a": 1})
)


def test_entries_come_back_in_their_order() -> None:
    data = (
        encode_fact({"f": "end", "at": 5})
        + FETCH_FIELDS.pack(FETCH, *SEEN)
        + CHECK_FIELDS.pack(CHECK, 7, 1_002, 41, 40, 4)
        + CHECK_FIELDS.pack(RAISED, 7, 1_003, 41, 41, 0)
        + encode_recorded(DECISION)
    )

    assert list(entries(data)) == [
        {"f": "end", "at": 5},
        SEEN,
        Check(7, 1_002, 41, 40, 4, only_raised=False),
        Check(7, 1_003, 41, 41, 0, only_raised=True),
        DECISION,
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"\x09",
        FETCH_FIELDS.pack(FETCH, *SEEN)[:-1],
        encode_fact({"f": "end"})[:-1],
        encode_fact({"f": 7}),
        encode_fact({}),
        b"\x01\x00\x00\x00\x02[]",
        b"\x05\x00\x00\x00\x02{}",
        b"\x01\xff\xff\xff\xff{}",
    ],
)
def test_an_entry_that_nobody_writes_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedEntry):
        list(entries(data))


def test_a_torn_block_is_passed_over_to_the_next_one() -> None:
    first, torn, last = (encode_block(encode_fact({"f": "end", "at": at}), at, at) for at in range(3))

    found = list(blocks(first + torn[:-3] + last))

    assert [type(each) for each in found] == [Block, Cut, Block]
    gap = found[1]
    assert isinstance(gap, Cut)
    assert (gap.position, gap.until) == (len(first), len(first) + len(torn) - 3)
    assert [each.wall_ms for each in found if isinstance(each, Block)] == [0, 2]


def test_every_byte_that_is_wrong_costs_its_own_block_at_the_most() -> None:
    three = [encode_block(encode_fact({"f": "end", "at": at}), at, at) for at in range(3)]
    whole = b"".join(three)
    for position in range(len(whole)):
        broken = bytearray(whole)
        broken[position] ^= 0x20

        read = [each for each in blocks(bytes(broken)) if isinstance(each, Block)]

        assert len(read) >= 2, position


def test_a_file_that_ends_in_a_block_says_so() -> None:
    block = encode_block(encode_fact({"f": "end"}), 1, 1)

    (cut,) = blocks(block[: HEADER.size + 2])

    assert isinstance(cut, Cut)
    assert "the file ends" in cut.why


def test_a_length_that_no_block_has_is_not_believed() -> None:
    (cut,) = blocks(HEADER.pack(MAGIC, MAX_PAYLOAD_BYTES + 1, 0, 0, 0) + bytes(100))

    assert isinstance(cut, Cut)
    assert "longer than any" in cut.why


def test_a_recording_of_a_later_format_is_named_as_one() -> None:
    data = encode_block(encode_fact({"f": "end", "at": 5}), 1, 1)
    later = MAGIC[:-1] + b"2" + data[len(MAGIC) :]

    (found,) = blocks(later)

    assert found == Cut(0, len(later), "its format is 2, and this version of kavka reads format 1")
