"""Access control lists: which principal may, or may not, do what to which resources, from where.

Decides what an entry, a pattern and a filter mean, and which of them match. Must not know who asks (authorizer), nor
where the lists are kept (`broker.authorization.acl_store`).

    binding = pattern (type, name, literal or prefixed) + entry (principal, host, operation, allow or deny)

    I1  a binding is concrete: no ANY, no MATCH, no UNKNOWN; only filters have those
    I2  a pattern matches a name if it is literal and equal, literal and "*", or prefixed and the name begins with it

Source: Kafka's org.apache.kafka.common.acl and .resource, with their numbers; org.apache.kafka.security.authorizer
.AclEntry for the operations that a type of resource knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple, Self

CLUSTER_NAME: Final = "kafka-cluster"
"""The only resource of type CLUSTER."""
WILDCARD: Final = "*"
"""A literal pattern of this name matches every resource of its type."""


class _Word(IntEnum):
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


class ResourceType(_Word):
    """What is protected."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Operation(_Word):
    """What is done to it."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class Permission(_Word):
    """Whether an entry allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class PatternType(_Word):
    """How a pattern's name is meant. ANY and MATCH are of filters: both kinds by this name, or all that would apply."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


TYPES_BY_WORD: Final[Mapping[str, ResourceType]] = {member.word: member for member in ResourceType if member > 1}
OPERATIONS_BY_WORD: Final[Mapping[str, Operation]] = {member.word: member for member in Operation if member > 1}
PERMISSIONS_BY_WORD: Final[Mapping[str, Permission]] = {member.word: member for member in Permission if member > 1}

KNOWN_OPERATIONS: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""Which operations a resource of a type knows: those that an answer shows as authorized (KIP-430)."""


class Pattern(NamedTuple):
    """Which resources a binding is about."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def matches(self, name: str) -> bool:
        """Whether it applies to a resource of this name, of its own type (I2)."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)

    def __str__(self) -> str:
        return f"{self.resource_type.word}:{self.pattern_type.name}:{self.name}"


class Entry(NamedTuple):
    """What a binding says. `principal` and `host` are texts as they are stored."""

    principal: str
    host: str
    operation: Operation
    permission: Permission


class Binding(NamedTuple):
    """One entry of one resource's list."""

    pattern: Pattern
    entry: Entry

    def __str__(self) -> str:
        entry = self.entry
        return (
            f"{entry.permission.word} {entry.operation.word} to {entry.principal} from host {entry.host} "
            f"on {self.pattern}"
        )

    def problem(self) -> str | None:
        """Why it cannot be kept, or None where it can."""
        pattern, entry = self
        if ResourceType.UNKNOWN is pattern.resource_type or Operation.UNKNOWN is entry.operation:
            return "ACL binding contains unknown elements"
        if Permission.UNKNOWN is entry.permission or PatternType.UNKNOWN is pattern.pattern_type:
            return "ACL binding contains unknown elements"
        if pattern.resource_type is ResourceType.ANY:
            return "resourceType must not be ANY"
        if pattern.pattern_type in (PatternType.ANY, PatternType.MATCH):
            return f"patternType must not be {pattern.pattern_type.name}"
        if entry.operation is Operation.ANY:
            return "operation must not be ANY"
        if entry.permission is Permission.ANY:
            return "permissionType must not be ANY"
        if pattern.resource_type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
            return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
        if not pattern.name:
            return "Invalid empty resource name"
        if "/" in pattern.name:
            return f"ACL binding contains invalid resource name: {pattern.name}"
        if ":" not in entry.principal:
            return f"expected a principal in the form Type:name, but got {entry.principal!r}"
        return None


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


class EntryFilter(NamedTuple):
    """Which entries are meant; None and ANY mean all."""

    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, entry: Entry) -> bool:
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )


class Filter(NamedTuple):
    """Which bindings are meant."""

    pattern: PatternFilter = PatternFilter()
    entry: EntryFilter = EntryFilter()

    def matches(self, binding: Binding) -> bool:
        return self.pattern.matches(binding.pattern) and self.entry.matches(binding.entry)

    @property
    def is_unknown(self) -> bool:
        """Whether it has an element that this broker does not know."""
        pattern, entry = self
        return (
            pattern.resource_type is ResourceType.UNKNOWN
            or pattern.pattern_type is PatternType.UNKNOWN
            or entry.operation is Operation.UNKNOWN
            or entry.permission is Permission.UNKNOWN
        )
