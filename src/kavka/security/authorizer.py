"""Authorizer: may this principal, from this host, do this to that resource? The decision, and its reason.

Decides as Kafka 3.9's AclAuthorizer. Must not know who asks it, nor where the lists come from: an `AclIndex` is a
snapshot that never changes, with its generation.

    1  a super user may do everything; nothing else is looked at
    2  the lists that match: literal of that name, literal "*", and each prefixed pattern that the name begins with
    3  no list matches, for whatever principal: allow.everyone.if.no.acl.found decides
    4  a DENY that fits denies. It fits by principal or "User:*", by host or "*", by operation or All
    5  an ALLOW that fits allows. Describe is also allowed by Read, Write, Delete and Alter; DescribeConfigs by
       AlterConfigs. A DENY implies nothing
    6  else it is denied

    I1  the order of entries is of no consequence
    I2  a decision rests on one snapshot

Source: kafka.security.authorizer.AclAuthorizer (authorizeAction, authorizeByResourceType).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from kavka.security.acls import (
    WILDCARD,
    Binding,
    Entry,
    Filter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from kavka.security.principals import ANY_HOST, EVERYBODY, Principal, host_text

_IMPLIED: Final[Mapping[Operation, tuple[Operation, ...]]] = {
    Operation.DESCRIBE: (Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
}
"""By which operations' ALLOW an operation is allowed, where that is more than its own."""
_EVERYBODY: Final = str(EVERYBODY)


class Rule(Enum):
    """Which rule decided."""

    SUPER_USER = "super user"
    NO_ACL_ALLOWS = "no ACL for the resource, and allow.everyone.if.no.acl.found is true"
    NO_ACL = "no ACL for the resource"
    DENIED = "denied by an ACL"
    ALLOWED = "allowed by an ACL"
    NOT_ALLOWED = "no ACL of the resource allows it"
    REFUSED = "the authorizer refused it"
    """Of an authorizer of one's own that gives no other reason, or that failed."""


class Verdict(NamedTuple):
    """The decision. `binding` is the one that decided, or after a refusal the nearest one that does not fit, with what
    keeps it from fitting in `misfit`."""

    allowed: bool
    rule: Rule
    binding: Binding | None = None
    misfit: str = ""


class Question(NamedTuple):
    """What is asked: may `principal`, from `host`, do this to that resource?"""

    principal: Principal
    host: str
    operation: Operation
    resource_type: ResourceType
    name: str

    def remedy(self) -> Binding:
        """The smallest binding that would allow it, if no other denies it."""
        entry = Entry(str(self.principal), ANY_HOST, self.operation, Permission.ALLOW)
        return Binding(Pattern(self.resource_type, self.name), entry)


class Rules(NamedTuple):
    """The settings super.users and allow.everyone.if.no.acl.found."""

    super_users: frozenset[Principal] = frozenset()
    allow_everyone: bool = False


_NO_ENTRIES: Final[frozenset[Entry]] = frozenset()


@dataclass(frozen=True, slots=True)
class AclIndex:
    """All lists, as they are at a generation. A list without entries is not there."""

    lists: Mapping[Pattern, frozenset[Entry]] = field(default_factory=dict)
    generation: int = 0
    _prefix_lengths: Mapping[ResourceType, tuple[int, ...]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        lengths: dict[ResourceType, set[int]] = {}
        for pattern in self.lists:
            if pattern.pattern_type is PatternType.PREFIXED:
                lengths.setdefault(pattern.resource_type, set()).add(len(pattern.name))
        ordered = {kind: tuple(sorted(found)) for kind, found in lengths.items()}
        object.__setattr__(self, "_prefix_lengths", ordered)

    def with_lists(self, changed: Mapping[Pattern, Iterable[Entry]]) -> AclIndex:
        """The next generation, in which these lists are replaced."""
        lists = dict(self.lists)
        for pattern, entries in changed.items():
            found = frozenset(entries)
            if found:
                lists[pattern] = found
            else:
                lists.pop(pattern, None)
        return AclIndex(lists, self.generation + 1)

    def matching(self, resource_type: ResourceType, name: str) -> Iterator[tuple[Pattern, frozenset[Entry]]]:
        """The lists that apply to a resource."""
        lists = self.lists
        literal = Pattern(resource_type, name)
        if literal in lists:
            yield literal, lists[literal]
        wildcard = Pattern(resource_type, WILDCARD)
        if name != WILDCARD and wildcard in lists:
            yield wildcard, lists[wildcard]
        size = len(name)
        for length in self._prefix_lengths.get(resource_type, ()):
            if length > size:
                break
            prefix = Pattern(resource_type, name[:length], PatternType.PREFIXED)
            if prefix in lists:
                yield prefix, lists[prefix]

    def bindings(self, wanted: Filter | None = None) -> Iterator[Binding]:
        """All bindings, or those of a filter, in the order of their patterns."""
        for pattern in sorted(self.lists):
            if wanted is None or wanted.pattern.matches(pattern):
                for entry in sorted(self.lists[pattern]):
                    if wanted is None or wanted.entry.matches(entry):
                        yield Binding(pattern, entry)


def decide(question: Question, index: AclIndex, rules: Rules) -> Verdict:
    """May it be done?"""
    if question.principal in rules.super_users:
        return Verdict(True, Rule.SUPER_USER)
    found = [
        Binding(pattern, entry)
        for pattern, entries in index.matching(question.resource_type, question.name)
        for entry in entries
    ]
    if not found:
        return Verdict(rules.allow_everyone, Rule.NO_ACL_ALLOWS if rules.allow_everyone else Rule.NO_ACL)
    denying = (question.operation, Operation.ALL)
    allowing = (*_IMPLIED.get(question.operation, (question.operation,)), Operation.ALL)
    allowed: Binding | None = None
    for binding in found:
        entry = binding.entry
        if entry.permission is Permission.DENY and _fits(entry, question, denying):
            return Verdict(False, Rule.DENIED, binding)
        if allowed is None and entry.permission is Permission.ALLOW and _fits(entry, question, allowing):
            allowed = binding
    if allowed is not None:
        return Verdict(True, Rule.ALLOWED, allowed)
    nearest, misfit = _nearest(question, found, allowing)
    return Verdict(False, Rule.NOT_ALLOWED, nearest, misfit)


def decide_on_any(question: Question, index: AclIndex, rules: Rules) -> Verdict:
    """May it be done to some resource of the type? The question's name is not looked at.

    A DENY on "*" denies, and allow.everyone.if.no.acl.found allows before any other DENY is looked at. Else one ALLOW
    is enough whose pattern no DENY covers: none on the same literal name, none on a prefix of it. An ALLOW on "*" is
    covered by none of these. No operation is implied here.
    """
    if question.principal in rules.super_users:
        return Verdict(True, Rule.SUPER_USER)
    operations = (question.operation, Operation.ALL)
    denies: dict[Pattern, Binding] = {}
    allows: list[Binding] = []
    for pattern, entries in index.lists.items():
        if pattern.resource_type is not question.resource_type:
            continue
        for entry in entries:
            if not _fits(entry, question, operations):
                continue
            if entry.permission is Permission.DENY:
                denies[pattern] = Binding(pattern, entry)
            elif entry.permission is Permission.ALLOW:
                allows.append(Binding(pattern, entry))
    everywhere = denies.get(Pattern(question.resource_type, WILDCARD))
    if everywhere is not None:
        return Verdict(False, Rule.DENIED, everywhere)
    if rules.allow_everyone:
        return Verdict(True, Rule.NO_ACL_ALLOWS)
    covered: Binding | None = None
    for binding in allows:
        cover = _cover(binding.pattern, denies)
        if cover is None:
            return Verdict(True, Rule.ALLOWED, binding)
        covered = cover
    return Verdict(False, Rule.NO_ACL if covered is None else Rule.DENIED, covered)


def _cover(pattern: Pattern, denies: Mapping[Pattern, Binding]) -> Binding | None:
    """The DENY under which nothing of the pattern is left."""
    kind, name = pattern.resource_type, pattern.name
    if pattern.pattern_type is PatternType.LITERAL:
        if name == WILDCARD:
            return None
        if pattern in denies:
            return denies[pattern]
    for length in range(1, len(name) + 1):
        prefix = Pattern(kind, name[:length], PatternType.PREFIXED)
        if prefix in denies:
            return denies[prefix]
    return None


def _fits(entry: Entry, question: Question, operations: tuple[Operation, ...]) -> bool:
    return entry.operation in operations and _fits_principal(entry, question) and _fits_host(entry, question)


def _fits_principal(entry: Entry, question: Question) -> bool:
    return entry.principal == _EVERYBODY or entry.principal == str(question.principal)


def _fits_host(entry: Entry, question: Question) -> bool:
    return entry.host == ANY_HOST or host_text(entry.host) == host_text(question.host)


def _nearest(
    question: Question, found: Iterable[Binding], operations: tuple[Operation, ...]
) -> tuple[Binding | None, str]:
    """Of the ALLOWs that match the name the one that lacks least: host, then operation, then principal."""
    best: tuple[int, Binding, str] | None = None
    for binding in found:
        entry = binding.entry
        if entry.permission is not Permission.ALLOW:
            continue
        misfits = []
        cost = 0
        if not _fits_host(entry, question):
            misfits.append(f"it is for host {entry.host}")
            cost += 1
        if entry.operation not in operations:
            misfits.append(f"it allows {entry.operation.word} only")
            cost += 2
        if not _fits_principal(entry, question):
            misfits.append(f"it is for {entry.principal}")
            cost += 4
        if best is None or (cost, binding) < best[:2]:
            best = (cost, binding, " and ".join(misfits))
    return (None, "") if best is None else best[1:]
