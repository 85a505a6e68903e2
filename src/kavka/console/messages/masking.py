"""Masking: a record as somebody may see it who may not see all of it.

Decides what takes the place of a record's bytes, before anything else looks at them: filters, expressions, pages,
exports and downloads are given what `seen` makes, and so can tell nothing of what is masked, not by an answer "no
record was found" either. Must not know which fields are masked (masks.py), nor pages.

I1  What is not understood is hidden whole: bytes that are neither JSON nor read by a schema with names for its fields,
    longer than MOST_DECODED_BYTES, of more than MOST_NODES values, of too many names, or nested too deep.
I2  What is shown is written anew from decoded values, of which the masked ones are gone: no byte of the record is
    copied. Numbers stay as they were written; of a name that is there twice the last counts.
I3  Null and empty values are told as such: a tombstone is one, whatever is masked.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from kavka.client.consumer import ConsumerRecord
from kavka.console.masks import MASK, TopicMask
from kavka.console.messages.decoding import MOST_DECODED_BYTES
from kavka.schema_registry.formats import Schema, SchemaMismatch, decode_with

MOST_NODES: Final = 50_000
HIDDEN: Final = MASK.encode()
PREFIX_BYTES: Final = 5
"""Before what a schema is for: Confluent's magic byte and the schema's id."""


class Seen(NamedTuple):
    """A record whose bytes are those that may be seen. `unread`: key or value, where it is hidden whole because it was
    not understood."""

    record: ConsumerRecord
    unread: tuple[str, ...] = ()


def seen(record: ConsumerRecord, mask: TopicMask, *, key: Schema | None, value: Schema | None) -> Seen:
    """The record under a mask. key, value: the schemas that they name, where there are such."""
    unread = []
    parts = {}
    for part, data, schema in (("key", record.key, key), ("value", record.value, value)):
        if not data or not mask.touches(part):
            parts[part] = data
        elif mask.hides(part):
            parts[part] = HIDDEN
        else:
            made = _masked(data, schema, mask, part)
            parts[part] = HIDDEN if made is None else made
            unread += [part] * (made is None)
    headers = tuple((name, HIDDEN if data and mask.has_header(name) else data) for name, data in record.headers)
    return Seen(record._replace(key=parts["key"], value=parts["value"], headers=headers), tuple(unread))


def _masked(data: bytes, schema: Schema | None, mask: TopicMask, part: str) -> bytes | None:
    """The key or value as JSON, without what is masked; None where it is not understood."""
    if len(data) > MOST_DECODED_BYTES:
        return None
    try:
        if schema is None:
            value = json.loads(data.decode(), parse_float=_Written)
        elif schema.parsed is None and schema.kind != "JSON":
            return None  # Protobuf without a descriptor: its fields have numbers instead of names.
        else:
            value = decode_with(schema, data[PREFIX_BYTES:])
        if not isinstance(value, (dict, list)) or _nodes(value) > MOST_NODES:
            return None
        return _bytes_of(mask.masked(part, value))
    except (SchemaMismatch, ValueError, RecursionError):
        return None


class _Written(float):
    """A number of JSON that knows how it was written: 1.10."""

    def __new__(cls, text: str) -> _Written:
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str


def _nodes(value: Any) -> int:
    count, left = 0, [value]
    while left and count <= MOST_NODES:
        each = left.pop()
        count += 1
        if isinstance(each, dict):
            left += each.values()
        elif isinstance(each, list):
            left += each
    return count


def _bytes_of(value: Any) -> bytes:
    try:
        return _text(value, is_ascii=False).encode()
    except UnicodeEncodeError:
        return _text(value, is_ascii=True).encode()  # Half a pair of UTF-16, which JSON may write and UTF-8 may not.


def _text(value: Any, *, is_ascii: bool) -> str:
    if isinstance(value, dict):
        names = {name: json.dumps(name, ensure_ascii=is_ascii) for name in value}
        return "{" + ", ".join(f"{names[name]}: {_text(each, is_ascii=is_ascii)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_text(each, is_ascii=is_ascii) for each in value) + "]"
    return value.text if isinstance(value, _Written) else json.dumps(value, ensure_ascii=is_ascii, default=str)
