"""Records as CSV, JSON lines and Parquet: whole, as they were written, harmless in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json

import pytest

pytest.importorskip("starlette")

from kavka.client.consumer import ConsumerRecord
from kavka.console.messages.decoding import Format, decode
from kavka.console.messages.export import CHUNK, COLUMNS, Kind, Row, lines, parquet
from kavka.records.batch import TimestampType


def row(value: bytes | None, key: bytes | None = b"k", offset: int = 5, form: Format = Format.AUTO) -> Row:
    record = ConsumerRecord(
        "a", 1, offset, 1_700_000_000_123, key, value, (("h", b"\xff"),), TimestampType.CREATE_TIME, 0
    )
    return Row(record, decode(key), decode(value, form))


def as_json(*rows: Row) -> list[dict[str, object]]:
    return [json.loads(line) for line in b"".join(lines(rows, Kind.JSON_LINES)).decode().splitlines()]


def as_csv(*rows: Row) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(b"".join(lines(rows, Kind.CSV)).decode(), newline="")))


class TestJsonLines:
    def test_json_stays_as_it_was_written_in_one_line(self) -> None:
        text = '{\n "price": 1.10,\r\n "big": 100000000000000000001, "s": "a\\nb"\n}'
        line = b"".join(lines([row(text.encode())], Kind.JSON_LINES)).decode()
        assert line.count("\n") == 1
        assert '"price": 1.10' in line
        assert "100000000000000000001" in line
        (told,) = as_json(row(text.encode()))
        assert told["value"] == {"price": 1.1, "big": 100000000000000000001, "s": "a\nb"}
        assert (told["partition"], told["offset"], told["timestamp"]) == (1, 5, "2023-11-14T22:13:20.123+00:00")

    def test_what_is_no_text_is_base64_and_null_is_null(self) -> None:
        told = as_json(row(b"\xff\x00"), row(None, None))
        assert told[0]["value"] == {"base64": "/wA="}
        assert told[0]["headers"] == [["h", {"base64": "/w=="}]]
        assert (told[1]["key"], told[1]["value"]) == (None, None)

    def test_a_long_text_is_not_cut(self) -> None:
        (told,) = as_json(row(b"x" * 100_000))
        assert told["value"] == "x" * 100_000

    def test_an_integer_is_a_number_where_it_was_asked_for(self) -> None:
        (told,) = as_json(row((7).to_bytes(8, "big"), form=Format.INTEGER))
        assert told["value"] == 7


class TestCsv:
    def test_line_breaks_quotes_and_commas_come_back(self) -> None:
        (told,) = as_csv(row(b'a,"b"\nc'))
        assert told["value"] == 'a,"b"\nc'
        assert tuple(told) == COLUMNS

    def test_what_a_spreadsheet_would_carry_out_has_an_apostrophe(self) -> None:
        told = as_csv(row(b"=1+1"), row(b"-5.2e3"), row(b"@cmd", key=b"+x"), row("\uff1d1+1".encode()), row(b"\n=1"))
        assert [each["value"] for each in told] == ["'=1+1", "-5.2e3", "'@cmd", "'\uff1d1+1", "'\n=1"]
        assert told[2]["key"] == "'+x"

    def test_all_rows_of_several_pieces_are_there(self) -> None:
        told = as_csv(*(row(b"v", offset=number) for number in range(2 * CHUNK + 1)))
        assert [int(each["offset"]) for each in told] == list(range(2 * CHUNK + 1))


def test_parquet_has_the_bytes_themselves() -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    table = pq.read_table(io.BytesIO(parquet([row(b"\xff\x00"), row(b'{"a": 1}'), row(None, None)])))
    assert table.column("value").to_pylist() == [b"\xff\x00", b'{"a": 1}', None]
    assert table.column("value_text").to_pylist() == ["base64:/wA=", '{"a": 1}', None]
    assert table.column("headers").to_pylist()[0] == [{"name": "h", "value": b"\xff"}]
    assert table.column("timestamp").to_pylist()[0].isoformat() == "2023-11-14T22:13:20.123000+00:00"


def test_a_time_of_no_year_is_left_out() -> None:
    of = row(b"v")
    told = as_json(of._replace(record=of.record._replace(timestamp_ms=2**62)))
    assert told[0]["timestamp"] is None
