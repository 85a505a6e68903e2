"""Masks: which fields of a topic's messages are shown to those alone who have the word `unmasked` in their right.

Decides from patterns which keys, fields of keys and values, and headers are replaced by MASK. Must not know how bytes
are read (messages/masking.py), nor who asks.

    key, value           all of it
    value.customer.email the field `email` of `customer`, whatever it holds
    value.*.iban         `*` in a name is any text, `?` any character
    value.**.iban        `**` is any number of names, or none
    headers              the values of all headers
    headers.x-token      the value of this header; `*` and `?` as above

I1  More is masked rather than less. A list has no names of its own: a pattern for `cards.number` holds for each of
    several cards. A name with dots in it counts as several. Upper and lower case, `_` and `-` make no difference:
    Protobuf and JSON write the same field in two ways. A text that begins like JSON where names are still to come is
    masked whole: the field may be in it.
I2  What stands for a masked value tells nothing of it: neither its length, nor its type, nor whether it is null.
I3  Masks for the same topic add up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

MASK: Final = "***"
MOST_MASKS: Final = 200
MOST_FIELDS: Final = 100
"""Of one mask."""
DEEPEST: Final = 20
"""Names in one pattern."""
ANY_DEPTH: Final = "**"
_NAME: Final = re.compile(r"[^\s\[\]]+")
_REMEMBERED: Final = 10_000
"""Steps from one name to the next that a topic's masks remember."""

Steps = tuple[str, ...]
State = frozenset[Steps]
"""What of each pattern is still to come."""
_HIDDEN: Final[State] = frozenset({()})


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
        return any(fnmatchcase(_folded(name), pattern) for pattern in self._headers)

    def masked(self, part: str, value: Any) -> Any:
        """The decoded key or value with MASK in place of what is masked. Raises RecursionError for one that is nested
        too deep."""
        return MASK if self.hides(part) else self._masked(value, self._of[part])

    def _masked(self, value: Any, state: State) -> Any:
        if not state:
            return value
        if isinstance(value, list):
            return [self._masked(each, state) for each in value]
        if isinstance(value, str):
            return MASK if value.lstrip().startswith(("{", "[")) else value
        if not isinstance(value, dict):
            return value
        made = {}
        for name, inner in value.items():
            after = self._after(state, name)
            made[name] = MASK if () in after else self._masked(inner, after)
        return made

    def _after(self, state: State, name: str) -> State:
        known = self._next.get((state, name))
        if known is None:
            known = state
            for word in _folded(name).split("."):
                known = _step(known, word)
                if () in known:
                    known = _HIDDEN
                    break
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
        return part, (_folded(rest),)  # Dots are common in names of headers.
    steps = tuple(_folded(each) for each in rest.split("."))
    while steps and steps[-1] == ANY_DEPTH:
        steps = steps[:-1]
    if not all(steps) or len(steps) > DEEPEST:
        raise ValueError(f"{field!r} has a name that is empty, or more than {DEEPEST} of them")
    return part, steps


def _folded(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "")


def _step(state: State, word: str) -> State:
    """What is still to come after one name more; () where a pattern is at its end."""
    made: set[Steps] = set()
    for steps in state:
        rest = steps
        while rest and rest[0] == ANY_DEPTH:
            made.add(rest)
            rest = rest[1:]
        if rest and fnmatchcase(word, rest[0]):
            made.add(rest[1:])
    return frozenset(made)
