"""Columns: what of each record a list shows, in which order, and the fields of keys, values and headers among it.

Decides what an address may ask for, and what stands in a column of its own. Must not know pages, nor masks: it is given
what may be seen.

    time partition offset key value format headers size    what every record has
    value.customer.id, key.id, value.items.0.sku           a field of decoded JSON, Avro or Protobuf
    headers.trace                                          the first header of this name
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.console.look.format import visible
from kavka.console.messages.decoding import PREVIEW_CHARACTERS, Decoded, beginning, field

if TYPE_CHECKING:
    from kavka.records.record import Header

BUILT_IN: Final = ("time", "partition", "offset", "key", "value", "format", "headers", "size")
PARTS: Final = ("key", "value", "headers")
MOST_FIELDS: Final = 12
LONGEST_NAME: Final = 200


class Columns(NamedTuple):
    """`shown`: of BUILT_IN, in its order; `offset` is always there, as it leads to the record. `fields` come after."""

    shown: tuple[str, ...] = BUILT_IN
    fields: tuple[str, ...] = ()

    @property
    def is_default(self) -> bool:
        return self == Columns()


class WrongColumn(ValueError):
    """There is no such column; the message says what there is."""


def columns_of(chosen: Iterable[str], fields: str) -> Columns:
    """What an address asks for; nothing chosen: all. Raises WrongColumn.

    >>> columns_of(["time", "value"], "value.total headers.trace")
    Columns(shown=('time', 'offset', 'value'), fields=('value.total', 'headers.trace'))
    """
    wanted = {name for each in chosen for name in each.split(",") if name}
    unknown = sorted(wanted.difference(BUILT_IN))
    if unknown:
        raise WrongColumn(f"there is no column {unknown[0][:40]!r}: there are {', '.join(BUILT_IN)}")
    names = tuple(dict.fromkeys(fields.replace(",", " ").split()))
    for name in names:
        part, dot, path = name.partition(".")
        if part not in PARTS or not dot or not path:
            raise WrongColumn(f"{name[:40]!r} names no field: write value.NAME, key.NAME or headers.NAME")
        if len(name) > LONGEST_NAME:
            raise WrongColumn(f"the name of a field has at most {LONGEST_NAME} characters")
    if len(names) > MOST_FIELDS:
        raise WrongColumn(f"at most {MOST_FIELDS} fields have a column of their own")
    shown = tuple(name for name in BUILT_IN if not wanted or name in wanted or name == "offset")
    return Columns(shown, names)


def cells(fields: Sequence[str], key: Decoded, value: Decoded, headers: Sequence[Header]) -> tuple[str, ...]:
    """What stands in these columns, one line each; '' where a record has no such field."""
    found = []
    for name in fields:
        part, _, path = name.partition(".")
        if part == "headers":
            data = next((data for each, data in headers if each == path), None)
            found.append(_cell((data or b"").decode("utf-8", "replace")))
        else:
            found.append(_cell(field((key if part == "key" else value).value, path)))
    return tuple(found)


def _cell(value: object) -> str:
    if value is None:
        return ""
    said = value if isinstance(value, str) else _beginning(value)
    line = " ".join(visible(said[: PREVIEW_CHARACTERS * 4]).split())
    return line if len(line) <= PREVIEW_CHARACTERS else line[: PREVIEW_CHARACTERS - 1] + "…"


def _beginning(value: object) -> str:
    """Of the value as JSON, no more than is shown: it may have megabytes, in each of 12 columns of 200 records."""
    try:
        return beginning(value, PREVIEW_CHARACTERS * 4 + 1)
    except (RecursionError, TypeError, ValueError):
        return "…"
