"""What a key or a value says: bytes of anybody's making as text that can be shown.

Decides which form bytes have, and what of them is shown. Must not know where they come from, nor HTML: what it returns
is text without control characters, which the page still escapes.

I1  Nothing that is shown acts: control characters, marks that turn the direction of writing and broken UTF-8 are shown
    by their codes.
I2  At most `SHOWN_CHARACTERS` are shown; `is_cut` and `size_bytes` say what is left out.
I3  Any bytes decode to something, in a time that their length bounds.

JSON is laid out anew but not changed: numbers stay as they were written, keys that are there twice stay twice.
"""

from __future__ import annotations

import json
import struct
from enum import Enum
from typing import Any, NamedTuple

from kavka.console.look.format import visible
from kavka.schema_registry.formats import Schema, SchemaMismatch, decode_with

SHOWN_CHARACTERS = 20_000
PREVIEW_CHARACTERS = 200
"""Of a value in a list."""
SHOWN_HEX_BYTES = 2_048
MOST_DECODED_BYTES = 2 * 1024 * 1024
"""Larger values are shown as text or bytes: to lay out JSON of any length would hold up everybody else."""
TOO_DEEP = "it is nested too deeply"
MAGIC = 0
_WIRE = struct.Struct("!bi")
_LEAST_PRINTABLE = 0.85
"""Share of characters that can be read from which bytes count as text."""
_HEX_ROW = 16


class Format(Enum):
    """How bytes are to be read."""

    AUTO = "auto"
    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    INTEGER = "integer"
    """Big-endian, signed, as Kafka's IntegerSerializer and LongSerializer write them."""


class Decoded(NamedTuple):
    """`kind` is null, empty, text, json, hex, integer, avro, protobuf or json schema; `schema` the registry's id and
    name where one was used; `problem` why it could not be read as was asked; `value` what JSON, Avro or Protobuf holds,
    for filters by field."""

    kind: str
    text: str
    size_bytes: int
    is_cut: bool = False
    schema: str = ""
    problem: str = ""
    value: Any = None

    @property
    def preview(self) -> str:
        """One line of it."""
        line = " ".join(self.text[: PREVIEW_CHARACTERS * 4].split())
        return line if len(line) <= PREVIEW_CHARACTERS else line[: PREVIEW_CHARACTERS - 1] + "…"


def schema_id(data: bytes | None) -> int | None:
    """The id of the schema that bytes in Confluent's wire format name; None for other bytes."""
    if data is None or len(data) < _WIRE.size:
        return None
    magic, number = _WIRE.unpack_from(data)
    return number if magic == MAGIC and number >= 0 else None


def decode(data: bytes | None, form: Format = Format.AUTO, *, schema: Schema | None = None) -> Decoded:
    """Reads bytes as asked; what does not read so is shown as text or bytes, with the reason."""
    if data is None:
        return Decoded("null", "", 0)
    if not data:
        return Decoded("empty", "", 0)
    match form:
        case Format.HEX:
            return _hex(data)
        case Format.TEXT:
            return _text(data)
        case Format.INTEGER:
            return _integer(data)
        case Format.JSON:
            return _json(data) or _auto(data)._replace(problem="this is not valid JSON")
        case Format.AUTO:
            if schema is not None and len(data) <= MOST_DECODED_BYTES:
                return _with_schema(data, schema)
            return _auto(data)


def field(value: Any, path: str) -> Any:
    """What stands at `a.b.0` in a decoded value; None where there is nothing.

    >>> field({"customer": {"names": ["Ada"]}}, "customer.names.0")
    'Ada'
    """
    for step in path.split("."):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and len(step) < 10 and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def beginning(value: Any, characters: int, *, indent: int | None = None) -> str:
    """A decoded value as JSON; of one that is longer at least so many characters. No more of it is written: what is
    nested deep is indented line by line, and may become a thousand times as long. Raises RecursionError, and TypeError
    or ValueError for what JSON has no word for.

    >>> beginning({"a": [1, 2]}, 5)
    '{"a": '
    """
    said, length = [], 0
    for piece in json.JSONEncoder(ensure_ascii=False, indent=indent, default=str).iterencode(value):
        said.append(piece)
        length += len(piece)
        if length >= characters:
            break
    return "".join(said)


def _auto(data: bytes) -> Decoded:
    return _json(data) or (_text(data) if _reads_as_text(data) else _hex(data))


def _with_schema(data: bytes, schema: Schema) -> Decoded:
    try:
        value = decode_with(schema, data[_WIRE.size :])
        text = beginning(value, SHOWN_CHARACTERS + 1, indent=2)
    except SchemaMismatch as problem:
        return _auto(data)._replace(problem=f"schema {schema.number} cannot decode it: {visible(problem)}")
    except (RecursionError, TypeError, ValueError):
        return _auto(data)._replace(problem=f"schema {schema.number} cannot decode it: {TOO_DEEP}")
    shown, is_cut = _shown(text)
    return Decoded(schema.kind.lower(), shown, len(data), is_cut, f"{schema.number} {schema.name}".strip(), "", value)


def _json(data: bytes) -> Decoded | None:
    if len(data) > MOST_DECODED_BYTES or data[:1] not in b'{["-0123456789tfn \t\r\n':
        return None
    try:
        text = data.decode()
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, (dict, list)):
        # A lone number or word is JSON, and text just as well.
        shown, is_cut = _shown(text)
        return Decoded("text", shown, len(data), is_cut, value=value)
    shown, is_cut = _shown(laid_out(text))
    return Decoded("json", shown, len(data), is_cut, value=value)


def laid_out(text: str) -> str:
    """JSON with a line for each entry, its tokens as they were.

    >>> print(laid_out('{"a": 1.10, "b": [], "a": "x, y"}'))
    {
      "a": 1.10,
      "b": [],
      "a": "x, y"
    }
    """
    out: list[str] = []
    depth = position = 0
    end = len(text)
    while position < end and len(out) < 2 * SHOWN_CHARACTERS:
        character = text[position]
        if character == '"':
            stop = position + 1
            while text[stop] != '"':
                stop += 2 if text[stop] == "\\" else 1
            out.append(text[position : stop + 1])
            position = stop
        elif character in "{[":
            after = position + 1
            while text[after].isspace():
                after += 1
            if text[after] in "}]":
                out.append(character + text[after])
                position = after
            else:
                depth += 1
                out.append(character + _line(depth))
        elif character in "}]":
            depth -= 1
            out.append(_line(depth) + character)
        elif character == ",":
            out.append("," + _line(depth))
        elif character == ":":
            out.append(": ")
        elif not character.isspace():
            out.append(character)
        position += 1
    return "".join(out)


def _line(depth: int) -> str:
    return "\n" + "  " * min(depth, 40)


def _text(data: bytes) -> Decoded:
    # Four bytes are enough for any character, so no more than these can be shown.
    is_cut = len(data) > 4 * SHOWN_CHARACTERS
    text = data[: 4 * SHOWN_CHARACTERS].decode("utf-8", "backslashreplace")
    shown, was_cut = _shown(text)
    return Decoded("text", shown, len(data), is_cut or was_cut)


def _integer(data: bytes) -> Decoded:
    if len(data) not in (1, 2, 4, 8):
        return _auto(data)._replace(problem=f"an integer has 1, 2, 4 or 8 bytes, and these are {len(data)}")
    value = int.from_bytes(data, "big", signed=True)
    return Decoded("integer", str(value), len(data), value=value)


def _hex(data: bytes) -> Decoded:
    rows = []
    for start in range(0, min(len(data), SHOWN_HEX_BYTES), _HEX_ROW):
        row = data[start : start + _HEX_ROW]
        readable = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        rows.append(f"{start:08x}  {row.hex(' '):<{3 * _HEX_ROW - 1}}  {readable}")
    return Decoded("hex", "\n".join(rows), len(data), len(data) > SHOWN_HEX_BYTES)


def _reads_as_text(data: bytes) -> bool:
    text = data[:4_096].decode("utf-8", "replace")
    # The sample may end inside a character.
    sample = text[:-1] if len(data) > 4_096 else text
    readable = sum((character.isprintable() and character != "\ufffd") or character in "\n\r\t" for character in sample)
    return readable >= _LEAST_PRINTABLE * len(sample)


def _shown(text: str) -> tuple[str, bool]:
    """What is shown of a text, and whether that is not all of it. No more of it is looked at than that."""
    shown = visible(text[: SHOWN_CHARACTERS + 1])
    return (shown[:SHOWN_CHARACTERS], True) if len(shown) > SHOWN_CHARACTERS else (shown, False)
