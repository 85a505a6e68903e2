"""Timestamp types have the numbers of Kafka's, and the bit of the attributes that says them."""

from __future__ import annotations

import pytest

from kavka.records import batch
from kavka.records.builder import BatchBuilder, seal


@pytest.mark.parametrize(("number", "name"), [(0, "CREATE_TIME"), (1, "LOG_APPEND_TIME")])
def test_a_type_has_kafkas_number_and_its_bit_is_the_fourth(number: int, name: str) -> None:
    assert batch.TimestampType(number).name == name
    assert batch.TimestampType[name] == number
    header = batch.read_header(BatchBuilder().build())._replace(attributes=number << 3)
    found = batch.read_header(seal(header, b"")).timestamp_type
    assert (int(found), found.name) == (number, name)


def test_there_are_two() -> None:
    assert [kind.name for kind in batch.TimestampType] == ["CREATE_TIME", "LOG_APPEND_TIME"]
