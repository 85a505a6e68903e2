"""Expression: a filter in CEL, Google's Common Expression Language, over one record at a time.

Decides what an expression may use, and how much of it is worked out. Must not know how records are read.

    key, value   JSON, Avro and Protobuf as maps and lists; text as text; integers as integers; null
    headers      a map of texts
    partition, offset, size (bytes of the value), time (a timestamp)

I1  The console works out by itself only what takes no time: operators and CHEAP functions, over a record that is small
    for the expression's length (MOST_WORK), because each of them may copy all of the record. Anything else, as macros
    (all, exists, map, filter) and regular expressions, is worked out apart (apart.py), within bounds on its time and
    memory. A record that is beyond those, or has more than MOST_ELEMENTS, does not match, and is counted.
I2  A search spends EXPRESSION_S on its expression at most, and lets others go on after SLICE_S.
I3  A record for which the expression fails (no such field, a text compared with a number) does not match, and is
    counted.

An expression of one macro is not bounded by the number of its steps: `value.items.map(x, value.items + value.items)`
copies the list for each of its elements, and 500 elements take half a minute.

Source: https://github.com/google/cel-spec; the package common-expression-language, whose work is done in Rust: 0.1 ms
a record.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kavka.console.messages.apart import Answer, Apart
from kavka.console.messages.expression_process import FAILURES, short
from kavka.errors import KavkaError

if TYPE_CHECKING:
    from kavka.client.consumer import ConsumerRecord
    from kavka.console.messages.decoding import Decoded

LONGEST: Final = 1_000
"""Characters."""
MOST_MACROS: Final = 2
MOST_ELEMENTS: Final = 100_000
MOST_WORK: Final = 200_000
"""Characters of an expression times elements of a record, of which 100 characters of text are one: some 10 ms."""
CHEAP: Final = frozenset(
    ["has", "size", "contains", "startsWith", "endsWith", "int", "uint", "double", "string", "bool", "timestamp"]
)
EXPRESSION_S: Final = 5.0
SLICE_S: Final = 0.05
MOST_NAMES: Final = 200
MOST_TOPICS: Final = 200
DEEPEST: Final = 6
"""Levels of names that are offered."""
NAMES: Final = ("key", "value", "headers", "partition", "offset", "size", "time")
_MACROS: Final = ("all", "exists", "exists_one", "existsOne", "map", "filter")
_LARGEST: Final = 2**63 - 1


class WrongExpression(KavkaError):
    """It is no expression, or one that is not allowed; the message says why."""


class TooSlow(KavkaError):
    """The search's time for its expression is over."""


class Expression:
    """One expression of one search. `failed` counts records that it failed for, `example` says how the last one did."""

    def __init__(self, text: str) -> None:
        """Raises WrongExpression."""
        import cel  # late: only who filters by an expression needs it

        if len(text) > LONGEST:
            raise WrongExpression(f"the expression has {len(text)} characters; at most {LONGEST} are taken")
        if "\n" in text and "//" in text:
            # A comment ends with its line: between a dot and the name of a macro it would hide the macro from I1.
            raise WrongExpression("an expression of several lines takes no //: write it in one line")
        try:
            self._program = cel.compile(text)
        except ValueError as wrong:
            raise WrongExpression(short(wrong)) from None
        if _macros_in(text) > MOST_MACROS:
            raise WrongExpression(f"at most {MOST_MACROS} of {', '.join(_MACROS)} are taken in one expression")
        unknown = sorted(set(self._program.variables()) - {*NAMES} - _bound_in(text))
        if unknown:
            raise WrongExpression(f"there is no {unknown[0]}: a record has {', '.join(NAMES)}")
        self.text = text
        # A comment could stand between a name and what it calls.
        self._is_cheap = CHEAP.issuperset(re.findall(r"(\w+)\s*\(", text)) and "//" not in text
        self.failed = 0
        self.too_large = 0
        self.example = ""
        self._spent_s = 0.0
        self._slice_s = 0.0

    async def matches(self, record: ConsumerRecord, key: Decoded, value: Decoded, apart: Apart) -> bool:
        """Whether the record is one that the expression is true for. Raises TooSlow (I2)."""
        if self._spent_s > EXPRESSION_S:
            raise TooSlow(f"the expression took more than {EXPRESSION_S:g} s: make it simpler, or look at less")
        if self._slice_s > SLICE_S:
            self._slice_s = 0.0
            await asyncio.sleep(0)
        began = time.perf_counter()
        counted = _Counted(MOST_ELEMENTS)
        known = _names(record, counted.of(_said(key)), counted.of(_said(value)))
        if any(each is _TOO_LARGE for each in known.values()):
            self.too_large += 1
            return False
        if self._is_cheap and counted.weight * len(self.text) <= MOST_WORK:
            answer = self._here(known)
            self._spend(time.perf_counter() - began)
        else:
            self._spend(time.perf_counter() - began)
            answer = await apart.work_out(self.text, known)
            self._spent_s += answer.took_s
        if answer.is_given_up:
            self.too_large += 1
        elif answer.is_true is None:
            self.failed += 1
            self.example = answer.why
        return answer.is_true is True

    def _spend(self, took_s: float) -> None:
        self._spent_s += took_s
        self._slice_s += took_s

    def _here(self, known: dict[str, object]) -> Answer:
        try:
            return Answer(self._program.execute(known) is True, "", 0.0)
        except FAILURES as failed:
            return Answer(None, short(failed), 0.0)


def _names(record: ConsumerRecord, key: object, value: object) -> dict[str, object]:
    """What an expression knows of a record: NAMES."""
    return {
        "key": key,
        "value": value,
        "headers": {name: (data or b"").decode(errors="replace") for name, data in record.headers},
        "partition": record.partition,
        "offset": record.offset,
        "size": len(record.value or b""),
        "time": _moment(record.timestamp_ms),
    }


def _moment(timestamp_ms: int) -> datetime | None:
    """A producer may write any time, that of the year 292,278,994 too."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1_000, UTC) if timestamp_ms >= 0 else None
    except (ValueError, OverflowError, OSError):
        return None


class FieldNames:
    """The names of fields that records of a topic were seen to have, to be offered: `value.customer.id`."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, dict[str, None]] = OrderedDict()

    def take(self, topic: str, part: str, value: Any) -> None:
        names = self._of.setdefault(topic, {})
        self._of.move_to_end(topic)
        while len(self._of) > MOST_TOPICS:
            self._of.popitem(last=False)
        _take(names, part, value, 0)

    def of(self, topic: str) -> list[str]:
        return sorted(self._of.get(topic, ()))


def _take(names: dict[str, None], place: str, value: Any, depth: int) -> None:
    if not isinstance(value, dict) or depth >= DEEPEST:
        return
    for name, inner in value.items():
        if len(names) >= MOST_NAMES:
            return
        if not isinstance(name, str) or len(name) > 100:
            continue
        here = f"{place}.{name}" if name.isidentifier() and name.isascii() else f"{place}[{_quoted(name)}]"
        names.setdefault(here)
        _take(names, here, inner, depth + 1)


def _quoted(name: str) -> str:
    import json

    return json.dumps(name, ensure_ascii=False)


class _Large:
    """Stands for a value of too many elements."""


_TOO_LARGE: Final = _Large()


class _Counted:
    """Decoded values as CEL takes them, so far as they have no more than `most` elements. `weight`: their elements, and
    one more for each 100 characters of text."""

    def __init__(self, most: int) -> None:
        self._left = most
        self.weight = 0

    def of(self, value: Any) -> Any:
        try:
            return self._made(value)
        except OverflowError:
            return _TOO_LARGE
        except RecursionError:
            return _TOO_LARGE

    def _made(self, value: Any) -> Any:
        self._left -= 1
        self.weight += 1 + (len(value) // 100 if isinstance(value, (str, bytes)) else 0)
        if self._left < 0:
            raise OverflowError
        if isinstance(value, dict):
            return {str(name): self._made(each) for name, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._made(each) for each in value]
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _LARGEST:
            return float(value) if abs(value) < 1 << 1_000 else str(value)
        if value is None or isinstance(value, (bool, int, float, str, bytes)):
            return value
        return str(value)  # A decimal or a date of a schema.


def _said(decoded: Decoded) -> Any:
    if decoded.value is not None:
        return decoded.value
    return None if decoded.kind == "null" else decoded.text


def _macros_in(text: str) -> int:
    return len(re.findall(rf"\.\s*(?:{'|'.join(_MACROS)})\s*\(", text))


def _bound_in(text: str) -> set[str]:
    """Names that macros bind, as x in `list.exists(x, x > 1)`."""
    return set(re.findall(rf"\.\s*(?:{'|'.join(_MACROS)})\s*\(\s*([A-Za-z_]\w*)\s*,", text))
