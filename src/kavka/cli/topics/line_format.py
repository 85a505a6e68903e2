r"""How records are written as text and bytes, and read from them: kcat's format strings, JSON, keys in lines.

Decides what a format string means and how a line becomes key, value and headers. Must not know where bytes come from
or go to.

    %s %S  value, its length (-1 for null)       %t  topic       %T  timestamp in ms
    %k %K  key, its length (-1 for null)         %p  partition   %h  headers as name=value,...
    %R     length of the value as 4 bytes, big-endian            %o  offset      %%  a percent sign
    %d     how often it was delivered (share groups)
    \n \r \t \\ \xHH  the usual escapes

I1. A line that `as_json` wrote, `from_json` reads back into the same key, value, headers, partition and timestamp.

Source: kcat(1), options -f, -D, -K, -Z and -J.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kavka.cli.output import json_text

if TYPE_CHECKING:
    from kavka.client.consumer import ConsumerRecord
    from kavka.client.share_consumer import ShareRecord

Header = tuple[str, bytes | None]
Writer = Callable[["ConsumerRecord | ShareRecord"], bytes]
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", "0": b"\0"}


class InputRecord(NamedTuple):
    """A record to produce. `partition` and `timestamp_ms` are None where the line does not say."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class MalformedLine(ValueError):
    """A line of input, or a format, that means nothing."""


def unescape(text: str) -> bytes:
    r"""The bytes that a delimiter or a piece of a format stands for; \n, \r, \t, \\, \0 and \xHH are escapes."""
    out = bytearray()
    position = 0
    while position < len(text):
        sign = text[position]
        position += 1
        if sign != "\\":
            out += sign.encode()
            continue
        escape = text[position : position + 1]
        position += 1
        if escape == "x":
            digits = text[position : position + 2]
            if len(digits) != 2 or not all(d in "0123456789abcdefABCDEF" for d in digits):
                raise MalformedLine(f"\\x{digits} is not \\x and two hexadecimal digits")
            out.append(int(digits, 16))
            position += 2
        elif escape in _ESCAPES:
            out += _ESCAPES[escape]
        else:
            raise MalformedLine(f"unknown escape \\{escape}; a backslash is written \\\\")
    return bytes(out)


def compile_format(text: str, *, null: bytes = b"", delivered: bool = False) -> Writer:
    """A function that writes one record as `text` says; `null` stands for a null key or value. `delivered`: the records
    are a share group's, and have a count of deliveries. Raises MalformedLine."""
    tokens: dict[str, Writer] = {
        "s": lambda record: null if record.value is None else record.value,
        "S": lambda record: _length(record.value),
        "R": lambda record: (-1 if record.value is None else len(record.value)).to_bytes(4, "big", signed=True),
        "k": lambda record: null if record.key is None else record.key,
        "K": lambda record: _length(record.key),
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "T": lambda record: b"%d" % record.timestamp_ms,
        "h": lambda record: b",".join(
            name.encode() + b"=" + (null if value is None else value) for name, value in record.headers
        ),
    }
    if delivered:
        tokens["d"] = lambda record: b"%d" % record.delivery_count  # type: ignore[union-attr]  # the caller's word
    parts: list[bytes | Writer] = []
    literal = ""
    position = 0
    while position < len(text):
        if text[position] != "%":
            literal += text[position : position + 2] if text[position] == "\\" else text[position]
            position += 2 if text[position] == "\\" else 1
            continue
        token = text[position + 1 : position + 2]
        position += 2
        if token == "%":
            literal += "%"
        elif token in tokens:
            parts += [unescape(literal), tokens[token]]
            literal = ""
        elif token == "d":
            raise MalformedLine(
                "%d is how often a record was delivered, and only a share group counts that: add --share GROUP"
            )
        else:
            raise MalformedLine(f"unknown token %{token}; choose from %s %S %R %k %K %t %p %o %T %h %%")
    parts.append(unescape(literal))

    def write(record: ConsumerRecord | ShareRecord) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(record) for part in parts)

    return write


def plain(key_delimiter: bytes | None, delimiter: bytes, *, null: bytes) -> Writer:
    """Writes the value, behind the key where there is a delimiter for it."""

    def value_only(record: ConsumerRecord | ShareRecord) -> bytes:
        return (null if record.value is None else record.value) + delimiter

    def with_key(record: ConsumerRecord | ShareRecord) -> bytes:
        assert key_delimiter is not None
        return (null if record.key is None else record.key) + key_delimiter + value_only(record)

    return value_only if key_delimiter is None else with_key


def as_json(record: ConsumerRecord | ShareRecord) -> bytes:
    """One line of JSON; a share group's record has delivery_count. Bytes that are no UTF-8 stand base64-encoded under
    value_base64, key_base64."""
    fields: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        **_text_or_base64("key", record.key),
        **_text_or_base64("value", record.value),
        "headers": [{"name": name, **_text_or_base64("value", value)} for name, value in record.headers],
    }
    delivery_count = getattr(record, "delivery_count", None)
    if delivery_count is not None:
        fields["delivery_count"] = delivery_count
    return json_text(fields).encode() + b"\n"


def from_json(line: bytes) -> InputRecord:
    """The record in a line of JSON: key, value, headers, partition, timestamp; all may be missing."""
    try:
        fields = json.loads(line)
    except ValueError as problem:
        raise MalformedLine(f"not JSON: {problem}") from problem
    if not isinstance(fields, dict):
        raise MalformedLine('a record is an object such as {"key": "k", "value": "v"}')
    headers: list[Header] = []
    entries = fields.get("headers") or []
    for entry in entries.items() if isinstance(entries, dict) else entries:
        if isinstance(entry, dict):
            headers.append((_text_field(entry, "name"), _bytes_field(entry, "value")))
        elif isinstance(entry, list | tuple) and len(entry) == 2 and isinstance(entry[0], str):
            headers.append((entry[0], _bytes_field({"value": entry[1]}, "value")))
        else:
            raise MalformedLine(f"{entry!r} is not a header")
    return InputRecord(
        _bytes_field(fields, "key"),
        _bytes_field(fields, "value"),
        tuple(headers),
        _number_field(fields, "partition"),
        _number_field(fields, "timestamp"),
    )


def split_line(
    line: bytes, *, key_delimiter: bytes | None, empty_is_null: bool, headers: tuple[Header, ...]
) -> InputRecord:
    """The record in a line of text; without the delimiter in it, all of the line is the value."""
    key: bytes | None = None
    value: bytes | None = line
    if key_delimiter is not None:
        before, found, after = line.partition(key_delimiter)
        if found:
            key, value = before, after
    if empty_is_null:
        key, value = key or None, value or None
    return InputRecord(key, value, headers)


def parse_headers(texts: Sequence[str]) -> tuple[Header, ...]:
    """Headers from name=value texts; a name without = has a null value."""
    headers: list[Header] = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not name:
            raise MalformedLine(f"header {text!r} is not NAME=VALUE")
        headers.append((name, value.encode() if equals else None))
    return tuple(headers)


def _length(data: bytes | None) -> bytes:
    return b"-1" if data is None else b"%d" % len(data)


def _text_or_base64(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _bytes_field(fields: dict[str, object], name: str) -> bytes | None:
    encoded = fields.get(f"{name}_base64")
    if isinstance(encoded, str):
        try:
            return base64.b64decode(encoded, validate=True)
        except ValueError as problem:
            raise MalformedLine(f"{name}_base64: {problem}") from problem
    value = fields.get(name)
    if value is None or isinstance(value, str):
        return None if value is None else value.encode("utf-8", "surrogatepass")
    return json.dumps(value, ensure_ascii=False).encode()


def _text_field(fields: dict[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise MalformedLine(f"{name} of a header is missing")
    return value


def _number_field(fields: dict[str, object], name: str) -> int | None:
    value = fields.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise MalformedLine(f"{name} is {value!r}, not a whole number")
