"""Resource patterns: which resources a list is about: one by its name, all whose names begin so, or all of a type.

Decides which names a pattern matches, and which patterns apply to a name: `Pattern.matches` and `applying` are the same
rule, asked from both sides. Must not know who may do what there (`acls`, `authorizer`).

    I1  a pattern matches a name if it is literal and equal, literal and "*", or prefixed and the name begins with it

Source: Kafka's org.apache.kafka.common.resource, with its numbers; AclAuthorizer.matchingAcls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, Self, TypeAlias

CLUSTER_NAME: Final = "kafka-cluster"
"""The only resource of type CLUSTER."""
WILDCARD: Final = "*"
"""A literal pattern of this name matches every resource of its type."""


class Word(IntEnum):
    """A number of Kafka's, with the word that Kafka writes for it: TRANSACTIONAL_ID is "TransactionalId"."""

    # Of the number, as of any int: Enum's own is a call in Python, and every question looks words up.
    __hash__ = int.__hash__

    @classmethod
    def of(cls, number: int) -> Self:
        """The member with a request's number. UNKNOWN, which is 0 in each of these, if none has it."""
        try:
            return cls(number)
        except ValueError:
            return cls(0)

    @property
    def word(self) -> str:
        return "".join(part.capitalize() for part in self.name.split("_"))


class ResourceType(Word):
    """What is protected."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(Word):
    """How a pattern's name is meant. ANY and MATCH are of filters: both kinds by this name, or all that would apply."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


TYPES_BY_WORD: Final[Mapping[str, ResourceType]] = {member.word: member for member in ResourceType if member > 1}


class Pattern(NamedTuple):
    """Which resources a binding is about."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def matches(self, name: str) -> bool:
        """Whether it applies to a resource of this name, of its own type (I1)."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)

    def __str__(self) -> str:
        return f"{self.resource_type.word}:{self.pattern_type.name}:{self.name}"


PatternKey: TypeAlias = tuple[ResourceType, str, PatternType]
"""A pattern as a plain tuple: it costs a third, and most are never looked at."""
_LITERAL: Final = PatternType.LITERAL
_PREFIXED: Final = PatternType.PREFIXED


def applying(resource_type: ResourceType, name: str, prefix_lengths: Iterable[int]) -> list[PatternKey]:
    """All patterns that match a resource (I1), whether there are such or not: literal of that name, literal "*", and
    prefixes of it. `prefix_lengths` are those that prefixed patterns of the type have, in ascending order."""
    keys: list[PatternKey] = [(resource_type, name, _LITERAL)]
    if name != WILDCARD:
        keys.append((resource_type, WILDCARD, _LITERAL))
    size = len(name)
    for length in prefix_lengths:
        if length > size:
            break
        keys.append((resource_type, name[:length], _PREFIXED))
    return keys


class PatternFilter(NamedTuple):
    """Which patterns are meant; a name that is None means all."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY

    def matches(self, pattern: Pattern) -> bool:
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type is PatternType.MATCH:
            return self.name is None or pattern.matches(self.name)
        return self.pattern_type in (PatternType.ANY, pattern.pattern_type) and self.name in (None, pattern.name)

    def patterns(self) -> tuple[Pattern, ...]:
        """The patterns that it can match where these are known by its own words alone; none where they are not."""
        if self.resource_type is ResourceType.ANY or self.name is None:
            return ()
        if self.pattern_type is PatternType.ANY:
            kinds = (PatternType.LITERAL, PatternType.PREFIXED)
            return tuple(Pattern(self.resource_type, self.name, kind) for kind in kinds)
        if self.pattern_type is PatternType.MATCH:
            return ()
        return (Pattern(self.resource_type, self.name, self.pattern_type),)
