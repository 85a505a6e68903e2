"""Records as text: kcat's formats, JSON lines, keys in lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.cli.topics.line_format import (
    InputRecord,
    MalformedLine,
    as_json,
    compile_format,
    from_json,
    parse_headers,
    plain,
    split_line,
    unescape,
)
from kavka.client.consumer import ConsumerRecord
from kavka.records.batch import TimestampType


def record(
    key: bytes | None = b"k", value: bytes | None = b"value", headers: tuple[tuple[str, bytes | None], ...] = ()
) -> ConsumerRecord:
    return ConsumerRecord("t", 3, 42, 1_700_000_000_000, key, value, headers, TimestampType.CREATE_TIME, 0)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("%s\\n", b"value\n"),
        ("%t/%p/%o@%T", b"t/3/42@1700000000000"),
        ("%k=%s (%K, %S)", b"k=value (1, 5)"),
        ("%h", b"a=1,b=NULL"),
        ("%R%s", b"\0\0\0\x05value"),
        ("100%% \\x41\\t\\\\", b"100% A\t\\"),
        ("", b""),
    ],
)
def test_formats(form: str, text: bytes) -> None:
    assert compile_format(form, null=b"NULL")(record(headers=(("a", b"1"), ("b", None)))) == text


def test_null_in_formats() -> None:
    assert compile_format("%k|%s|%K|%S", null=b"NULL")(record(None, None)) == b"NULL|NULL|-1|-1"
    assert compile_format("%R")(record(value=None)) == b"\xff\xff\xff\xff"


@pytest.mark.parametrize("form", ["%x", "%", "\\q", "\\x4", "\\"])
def test_formats_that_mean_nothing(form: str) -> None:
    with pytest.raises(MalformedLine):
        compile_format(form)


def test_plain_lines() -> None:
    assert plain(None, b"\n", null=b"")(record()) == b"value\n"
    assert plain(b": ", b"\0", null=b"-")(record(None, None)) == b"-: -\0"


def test_delimiters() -> None:
    assert unescape("\\r\\n\\0\\x1Fé") == b"\r\n\0\x1f\xc3\xa9"


@pytest.mark.parametrize(
    ("line", "empty_is_null", "expected"),
    [
        (b"k:v", False, (b"k", b"v")),
        (b"k:v:w", False, (b"k", b"v:w")),
        (b"no key", False, (None, b"no key")),
        (b":", False, (b"", b"")),
        (b":", True, (None, None)),
        (b"k:", True, (b"k", None)),
        (b"", False, (None, b"")),
        (b"", True, (None, None)),
    ],
)
def test_keys_in_lines(line: bytes, empty_is_null: bool, expected: tuple[bytes | None, bytes | None]) -> None:
    split = split_line(line, key_delimiter=b":", empty_is_null=empty_is_null, headers=())
    assert (split.key, split.value) == expected


def test_headers() -> None:
    assert parse_headers(["a=1=2", "b=", "c"]) == (("a", b"1=2"), ("b", b""), ("c", None))
    with pytest.raises(MalformedLine):
        parse_headers(["=x"])


@given(
    st.none() | st.binary(),
    st.none() | st.binary(),
    st.lists(st.tuples(st.text(st.characters(codec="utf-8")), st.none() | st.binary())),
)
def test_what_is_written_as_json_is_read_back(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    line = as_json(record(key, value, tuple(headers)))
    assert line.count(b"\n") == 1
    assert from_json(line) == InputRecord(key, value, tuple(headers), 3, 1_700_000_000_000)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"{}", InputRecord(None, None)),
        (b'{"value": {"a": [1, "\xc3\xa9"]}, "key": 5}', InputRecord(b"5", '{"a": [1, "é"]}'.encode())),
        (b'{"headers": {"a": "1", "b": null}}', InputRecord(None, None, (("a", b"1"), ("b", None)))),
        (b'{"headers": [["a", "1"]], "partition": 2}', InputRecord(None, None, (("a", b"1"),), 2)),
    ],
)
def test_json_written_by_others(line: bytes, expected: InputRecord) -> None:
    assert from_json(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[1]",
        b'{"partition": "1"}',
        b'{"timestamp": 1.5}',
        b'{"partition": true}',
        b'{"headers": [3]}',
        b'{"headers": [{"value": "x"}]}',
        b'{"key_base64": "*"}',
    ],
)
def test_json_that_is_no_record(line: bytes) -> None:
    with pytest.raises(MalformedLine):
        from_json(line)


def test_a_record_in_json_is_no_order_to_a_terminal() -> None:
    hostile = "a\x9b2J\u202e ä"
    line = as_json(record(key=hostile.encode(), value=hostile.encode(), headers=((hostile, hostile.encode()),)))
    assert line.decode().removesuffix("\n").isprintable()
    assert from_json(line).value == hostile.encode()
    assert from_json(line).headers == ((hostile, hostile.encode()),)
