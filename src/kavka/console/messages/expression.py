"""Expression: a filter in CEL, Google's Common Expression Language, over one record at a time.

Decides what an expression may use, and how much of it is worked out. Must not know how records are read.

    key, value   JSON, Avro and Protobuf as maps and lists; text as text; integers as integers; null
    headers      a map of texts
    partition, offset, size (bytes of the value), time (a timestamp)

I1  An expression ends: CEL has no loops but its macros (all, exists, map, filter) over lists and maps that are there.
    Of these an expression has MOST_MACROS at most, and a record with so many elements that two of them in one another
    would take long (MOST_ELEMENTS) is not worked out, but counted.
I2  A search spends EXPRESSION_S on its expression at most, and lets others go on after SLICE_S.
I3  A record for which the expression fails (no such field, a text compared with a number) does not match, and is
    counted.

Source: https://github.com/google/cel-spec; the package common-expression-language, whose work is done in Rust: 0.1 ms
a record.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kavka.errors import KavkaError

if TYPE_CHECKING:
    from kavka.client.consumer import ConsumerRecord
    from kavka.console.messages.decoding import Decoded

LONGEST: Final = 1_000
"""Characters."""
MOST_MACROS: Final = 2
MOST_ELEMENTS: Final[Mapping[int, int]] = {0: 100_000, 1: 50_000, 2: 400}
"""Elements of a record, by how many macros the expression has: one takes 2 us for each, two 2 us for each pair."""
EXPRESSION_S: Final = 5.0
SLICE_S: Final = 0.05
MOST_NAMES: Final = 200
MOST_TOPICS: Final = 200
DEEPEST: Final = 6
"""Levels of names that are offered."""
NAMES: Final = ("key", "value", "headers", "partition", "offset", "size", "time")
_MACROS: Final = ("all", "exists", "exists_one", "map", "filter")
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
            raise WrongExpression(_in_short(str(wrong))) from None
        self._macros = _macros_in(text)
        if self._macros > MOST_MACROS:
            raise WrongExpression(f"at most {MOST_MACROS} of {', '.join(_MACROS)} are taken in one expression")
        unknown = sorted(set(self._program.variables()) - {*NAMES} - _bound_in(text))
        if unknown:
            raise WrongExpression(f"there is no {unknown[0]}: a record has {', '.join(NAMES)}")
        self.text = text
        self.failed = 0
        self.too_large = 0
        self.example = ""
        self._spent_s = 0.0
        self._slice_s = 0.0

    async def matches(self, record: ConsumerRecord, key: Decoded, value: Decoded) -> bool:
        """Whether the record is one that the expression is true for. Raises TooSlow (I2)."""
        if self._spent_s > EXPRESSION_S:
            raise TooSlow(f"the expression took more than {EXPRESSION_S:g} s: make it simpler, or look at less")
        if self._slice_s > SLICE_S:
            self._slice_s = 0.0
            await asyncio.sleep(0)
        began = time.perf_counter()
        try:
            return self._worked_out(record, key, value)
        finally:
            took = time.perf_counter() - began
            self._spent_s += took
            self._slice_s += took

    def _worked_out(self, record: ConsumerRecord, key: Decoded, value: Decoded) -> bool:
        most = MOST_ELEMENTS[self._macros]
        known = [_Counted(most).of(said) for said in (_said(key), _said(value))]
        if any(each is _TOO_LARGE for each in known):
            self.too_large += 1
            return False
        context = {
            "key": known[0],
            "value": known[1],
            "headers": {name: (data or b"").decode(errors="replace") for name, data in record.headers},
            "partition": record.partition,
            "offset": record.offset,
            "size": len(record.value or b""),
            "time": _moment(record.timestamp_ms),
        }
        try:
            return self._program.execute(context) is True
        except (KeyError, TypeError, ValueError, RuntimeError, ArithmeticError, IndexError) as wrong:
            self.failed += 1
            self.example = _in_short(f"no such field: {wrong}" if isinstance(wrong, KeyError) else str(wrong))
            return False


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
    """A decoded value as CEL takes it, so far as it has no more than `most` elements."""

    def __init__(self, most: int) -> None:
        self._left = most

    def of(self, value: Any) -> Any:
        try:
            return self._made(value)
        except OverflowError:
            return _TOO_LARGE
        except RecursionError:
            return _TOO_LARGE

    def _made(self, value: Any) -> Any:
        self._left -= 1
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
    import re

    return len(re.findall(rf"\.\s*(?:{'|'.join(_MACROS)})\s*\(", text))


def _bound_in(text: str) -> set[str]:
    """Names that macros bind, as x in `list.exists(x, x > 1)`."""
    import re

    return set(re.findall(rf"\.\s*(?:{'|'.join(_MACROS)})\s*\(\s*([A-Za-z_]\w*)\s*,", text))


def _in_short(text: str) -> str:
    return " ".join(text.split())[:300]
