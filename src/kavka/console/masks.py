"""Masks: which fields of a topic's messages are shown to those alone who have the word `unmasked` in their right.

Decides from patterns which keys, fields of keys and values, and headers are replaced by MASK. Must not know how bytes
are read (messages/masking.py), nor who asks.

    key, value           all of it
    value.customer.email the field `email` of `customer`, whatever it holds
    value.*.iban         `*` in a name is any text, `?` any character, `_` and `-` among them
    value.**.iban        `**` is any number of names, or none
    headers              the values of all headers
    headers.x-token      the value of this header; `*` and `?` as above

I1  More is masked rather than less. A list needs no name in a pattern: `cards.number` holds for each of several cards.
    It may have one, the place in the list: `cards.*.number` and `cards.0.number`, too. A name with dots in it counts as
    one and as several. Upper and lower case, `_` and `-`, and the ways in which Unicode writes the same letter make no
    difference: Protobuf and JSON write the same field in two ways. A text that begins like JSON, be it quoted once
    more, in hex or in base64, is masked whole where names are still to come: the field may be in it.
I2  What stands for a masked value tells nothing of it: neither its length, nor its type, nor whether it is null.
I3  Masks for the same topic add up.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple
from unicodedata import normalize

MASK: Final = "***"
MOST_MASKS: Final = 200
MOST_FIELDS: Final = 100
"""Of one mask."""
DEEPEST: Final = 20
"""Names in one pattern."""
ANY_DEPTH: Final = "**"
_NAME: Final = re.compile(r"[^\s\[\]]+")
_BEFORE_JSON: Final = ' \t\r\n\v\f\ufeff"\\'
_BEGINS: Final = re.compile(r'\s*[\[{]\s*["\[\]{}\-0-9tfn]')
_REMEMBERED: Final = 10_000
"""Steps from one name to the next that a topic's masks remember."""

MOST_COMPARISONS: Final = 200_000
"""Of names with patterns in one key or value: 0.1 to 0.5 s, while everybody waits. What needs more is hidden whole."""

Steps = tuple[str, ...]
State = frozenset[Steps]
"""What of each pattern is still to come."""
_HIDDEN: Final[State] = frozenset({()})


class TooLaborious(ValueError):
    """To mask this value takes too long."""


class Mask(NamedTuple):
    """Fields that are masked in messages of these topics. Patterns of topics and clusters are those of a shell."""

    fields: tuple[str, ...]
    cluster: str = "*"
    topics: tuple[str, ...] = ("*",)

    def is_on(self, cluster: str, topic: str) -> bool:
        return fnmatchcase(cluster, self.cluster) and any(fnmatchcase(topic, each) for each in self.topics)


class TopicMask:
    """All that is masked in one topic's messages. Two with the same fields are equal."""

    def __init__(self, fields: Sequence[str]) -> None:
        self.fields = tuple(dict.fromkeys(fields))
        patterns = [_parts(each) for each in self.fields]
        self._of = {part: frozenset(steps for name, steps in patterns if name == part) for part in ("key", "value")}
        self._headers = tuple(steps[0] if steps else "*" for name, steps in patterns if name == "headers")
        self._next: dict[tuple[State, str], State] = {}
        self._with_places: dict[State, bool] = {}
        self._left = 0
        """Comparisons that are left for the value that is being masked."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicMask) and self.fields == other.fields

    def __hash__(self) -> int:
        return hash(self.fields)

    def touches(self, part: str) -> bool:
        """Whether something of the key or the value is masked."""
        return bool(self._of[part])

    def hides(self, part: str) -> bool:
        """Whether all of the key or the value is masked."""
        return () in self._of[part]

    def has_header(self, name: str) -> bool:
        """Whether the value of this header is masked."""
        return any(_is_named(_plain(name), pattern) for pattern in self._headers)

    def masked(self, part: str, value: Any) -> Any:
        """The decoded key or value with MASK in place of what is masked. Raises RecursionError for one that is nested
        too deep, and TooLaborious for one with too many different names."""
        self._left = MOST_COMPARISONS
        return MASK if self.hides(part) else self._masked(value, self._of[part])

    def _masked(self, value: Any, state: State) -> Any:
        if not state:
            return value
        if isinstance(value, list):
            return self._masked_list(value, state)
        if isinstance(value, str):
            return MASK if _begins_like_json(value) else value
        if not isinstance(value, dict):
            return value
        made = {}
        for name, inner in value.items():
            after = self._after(state, name)
            made[name] = MASK if () in after else self._masked(inner, after)
        return made

    def _masked_list(self, value: list[Any], state: State) -> list[Any]:
        if not self._names_places(state):
            return [self._masked(each, state) for each in value]
        made = []
        for place, each in enumerate(value):
            after = state | self._after(state, str(place))
            made.append(MASK if () in after else self._masked(each, after))
        return made

    def _names_places(self, state: State) -> bool:
        """Whether something that is still to come may be the place of an entry in a list."""
        known = self._with_places.get(state)
        if known is None:
            known = any(part.isdecimal() or _is_wild(part) for steps in state for part in steps)
            if len(self._with_places) >= _REMEMBERED:
                self._with_places.clear()
            self._with_places[state] = known
        return known

    def _after(self, state: State, name: str) -> State:
        known = self._next.get((state, name))
        if known is None:
            self._left -= len(state) * (1 + name.count("."))
            if self._left < 0:
                raise TooLaborious(f"more than {MOST_COMPARISONS} comparisons of names")
            known = _after_name(state, name)
            if len(self._next) >= _REMEMBERED:
                self._next.clear()
            self._next[state, name] = known
        return known


def mask_of(masks: Sequence[Mask], cluster: str, topic: str) -> TopicMask | None:
    """What is masked in the messages of a topic; None where nothing is."""
    fields = [field for mask in masks if mask.is_on(cluster, topic) for field in mask.fields]
    return TopicMask(fields) if fields else None


def parse_mask(table: Mapping[str, Any]) -> Mask:
    """A mask as its table says it. Raises ValueError."""
    known = {"fields", "cluster", "topics"}
    unknown = [name for name in table if name not in known]
    if unknown:
        raise ValueError(f"unknown setting {unknown[0]!r}; known are {', '.join(sorted(known))}")
    fields, topics = _texts(table, "fields", None), _texts(table, "topics", ["*"])
    cluster = table.get("cluster", "*")
    if not isinstance(cluster, str) or not cluster:
        raise ValueError(f"cluster is {cluster!r}, expected a name or a pattern")
    if len(fields) > MOST_FIELDS:
        raise ValueError(f"{len(fields)} fields, expected at most {MOST_FIELDS}")
    for each in fields:
        _parts(each)
    return Mask(tuple(fields), cluster, tuple(topics))


def _texts(table: Mapping[str, Any], name: str, otherwise: list[str] | None) -> list[str]:
    found = table.get(name, otherwise)
    if not isinstance(found, list) or not found or not all(isinstance(each, str) and each for each in found):
        raise ValueError(f"{name} is {found!r}, expected a list of texts")
    return found


def _parts(field: str) -> tuple[str, Steps]:
    """Which part of a message, and the names that lead to the field. Raises ValueError."""
    part, dot, rest = field.partition(".")
    if part not in ("key", "value", "headers") or (dot and not rest):
        raise ValueError(f"{field!r} is no field: it begins with key, value or headers, as in value.customer.email")
    if not rest:
        return part, ()
    if not _NAME.fullmatch(rest):
        raise ValueError(f"{field!r} has a blank or a bracket in it: patterns are made of names, dots, * and ?")
    if part == "headers":
        return part, (_plain(rest),)  # Dots are common in names of headers.
    steps = tuple(_plain(rest).split("."))
    while steps and steps[-1] == ANY_DEPTH:
        steps = steps[:-1]
    if not all(map(_bare, steps)) or len(steps) > DEEPEST:
        raise ValueError(f"{field!r} has a name that is empty, or more than {DEEPEST} of them")
    return part, steps


def _plain(name: str) -> str:
    """Without differences of case, of `_` and `-`, and of how Unicode writes a letter."""
    return normalize("NFKC", normalize("NFKC", name).casefold()).replace("-", "_")


def _bare(name: str) -> str:
    return name.replace("_", "")


def _is_named(name: str, pattern: str) -> bool:
    """Both are plain. `_` may be missing in either, and `?` may stand for one that is there."""
    if pattern == "*":
        return True
    if "*" not in pattern and "?" not in pattern:
        return _bare(name) == _bare(pattern)
    return fnmatchcase(name, pattern) or (("_" in name or "_" in pattern) and fnmatchcase(_bare(name), _bare(pattern)))


def _is_wild(part: str) -> bool:
    return part != ANY_DEPTH and ("*" in part or "?" in part)


def _begins_like_json(text: str) -> bool:
    """As it is, as a text in a text, or as bytes that are shown in hex (Avro) or base64 (Protobuf)."""
    begin = text.lstrip(_BEFORE_JSON)[:40]
    if begin.startswith(("{", "[")):
        return True
    try:
        data = (
            bytes.fromhex(begin[2:]) if begin.startswith("0x") else b64decode(begin[: len(begin[:16]) // 4 * 4], "-_")
        )
    except (ValueError, binascii.Error):
        return False
    return _BEGINS.match(data.decode("latin-1")) is not None


def _after_name(state: State, name: str) -> State:
    """What is still to come after a name, and after each way to read one with dots in it; _HIDDEN where a pattern is at
    its end on the way."""
    name = _plain(name).strip("[]")  # Brackets are around extensions of Protobuf.
    *words, last = name.split(".")
    whole: State = _step(state, name) if words else frozenset()
    known = state
    for word in words:
        after = _step(known, word)
        if () in after:
            return _HIDDEN
        # `*` may stand for this word and for more of the name.
        known = after | {steps for steps in known if next((part for part in steps if part != ANY_DEPTH), "") == "*"}
    known = whole | _step(known, last)
    return _HIDDEN if () in known else known


def _step(state: State, word: str) -> State:
    """What is still to come after one name more; () where a pattern is at its end."""
    made: set[Steps] = set()
    for steps in state:
        rest = steps
        while rest and rest[0] == ANY_DEPTH:
            made.add(rest)
            rest = rest[1:]
        if rest and _is_named(word, rest[0]):
            made.add(rest[1:])
    return frozenset(made)
