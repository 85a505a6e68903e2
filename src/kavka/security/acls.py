"""Access control lists: which principal may, or may not, do what to which resources, from where.

Decides what an entry and a filter mean, and which of them match. Which resources a pattern matches is decided in
`resource_patterns`. Must not know who asks (`authorizer`), nor where the lists are kept
(`broker.authorization.acl_store`).

    binding = pattern (type, name, literal or prefixed) + entry (principal, host, operation, allow or deny)

    I1  a binding is concrete: no ANY, no MATCH, no UNKNOWN; only filters have those

Source: Kafka's org.apache.kafka.common.acl, with its numbers; org.apache.kafka.security.authorizer.AclEntry for the
operations that a type of resource knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kavka.security.resource_patterns import CLUSTER_NAME, Pattern, PatternFilter, PatternType, ResourceType, Word


class Operation(Word):
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


class Permission(Word):
    """Whether an entry allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


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
