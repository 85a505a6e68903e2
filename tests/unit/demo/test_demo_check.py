"""The demo's judgement: what it must not let pass."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from demo.demo import Check, Failed
from demo.flights import Flight, read_flights

FLIGHTS = [Flight(b"UA%d" % (row % 2), b"{%d}" % row, [("row", b"%d" % row)], 1000 + row) for row in range(4)]
# Rows of the key UA0 are in partition 0, those of UA1 in partition 1.
PLACES = {0: (0, 0), 1: (1, 0), 2: (0, 1), 3: (1, 1)}


def records() -> list[SimpleNamespace]:
    """What a consumer hands out when all is well."""
    return [
        SimpleNamespace(
            partition=PLACES[row][0],
            offset=PLACES[row][1],
            key=flight.key,
            value=flight.value,
            headers=tuple(flight.headers),
            timestamp=flight.timestamp_ms,
        )
        for row, flight in enumerate(FLIGHTS)
    ]


def judge(found: list[SimpleNamespace]) -> None:
    check = Check(FLIGHTS, PLACES)
    for record in found:
        check.take(record)
    check.finish()


def test_what_was_acknowledged_and_is_equal_to_the_file_passes() -> None:
    judge(records())


def lose_the_last(found: list[SimpleNamespace]) -> None:
    found.pop()


def change_a_value(found: list[SimpleNamespace]) -> None:
    found[1].value = b"{7}"


def change_a_header(found: list[SimpleNamespace]) -> None:
    found[1].headers = (*found[1].headers, ("more", b""))


def change_a_timestamp(found: list[SimpleNamespace]) -> None:
    found[1].timestamp += 1


def lose_the_key(found: list[SimpleNamespace]) -> None:
    found[1].key = None


def add_a_record_twice(found: list[SimpleNamespace]) -> None:
    found.append(SimpleNamespace(**{**vars(found[3]), "offset": 2}))


def swap_two_rows(found: list[SimpleNamespace]) -> None:
    found[0].offset, found[2].offset = found[2].offset, found[0].offset
    found[0], found[2] = found[2], found[0]


def skip_an_offset(found: list[SimpleNamespace]) -> None:
    found[2].offset = 2


def bring_a_row_of_no_file(found: list[SimpleNamespace]) -> None:
    found[0].headers = [("row", b"99")]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lose_the_last, "1 acknowledged records are missing: rows 3"),
        (change_a_value, "is not row 1 of the file"),
        (change_a_header, "is not row 1 of the file"),
        (change_a_timestamp, "is not row 1 of the file"),
        (lose_the_key, "is not row 1 of the file"),
        (add_a_record_twice, "holds row 3 after row 3"),
        (swap_two_rows, "holds row 0 after row 2"),
        (skip_an_offset, "came when offset 1 was next"),
        (bring_a_row_of_no_file, "is not in the file"),
    ],
)
def test_anything_else_fails(spoil: Callable[[list[SimpleNamespace]], None], said: str) -> None:
    found = records()
    spoil(found)
    with pytest.raises(Failed, match=said):
        judge(found)


def test_the_first_flight_is_the_first_line_of_the_file() -> None:
    (flight,) = read_flights(1)
    assert flight.key == b"UA1545"
    assert flight.headers == [("row", b"0"), ("origin", b"EWR"), ("dest", b"IAH")]
    assert flight.timestamp_ms == 1357034400000
    assert b'"dep_time":"517"' in flight.value
