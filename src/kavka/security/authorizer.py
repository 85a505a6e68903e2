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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from kavka.security.acls import KNOWN_OPERATIONS, Binding, Entry, Filter, Operation, Permission
from kavka.security.principals import ANY_HOST, EVERYBODY, Principal, host_text
from kavka.security.resource_patterns import WILDCARD, Pattern, PatternKey, PatternType, ResourceType, applying

_IMPLIED: Final[Mapping[Operation, tuple[Operation, ...]]] = {
    Operation.DESCRIBE: (Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
}
"""By which operations' ALLOW an operation is allowed, where that is more than its own."""
_ALLOWING: Final[Mapping[Operation, tuple[Operation, ...]]] = {
    operation: (*_IMPLIED.get(operation, (operation,)), Operation.ALL) for operation in Operation
}
"""By which operations' ALLOW an operation is allowed. Those that deny it, itself and All, are among them."""
_EVERYBODY: Final = str(EVERYBODY)
MAX_REMOVED: Final = 10
"""Denials that a remedy of `remedy_on_any` removes at most: each is a look at all lists."""


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
    WRONG_LISTENER = "only brokers send it, and this is no listener of theirs"


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


class Remedy(NamedTuple):
    """What would allow what was refused: the bindings that deny it go, and one is added. None is added where nothing
    else refuses it then."""

    removed: tuple[Binding, ...]
    added: Binding | None


class Rules(NamedTuple):
    """The settings super.users and allow.everyone.if.no.acl.found."""

    super_users: frozenset[Principal] = frozenset()
    allow_everyone: bool = False


_ByEntry = dict[tuple[str, Operation], list[Binding]]
_Lists = list[tuple[PatternKey, frozenset[Entry]]]


@dataclass(frozen=True, slots=True)
class AclIndex:
    """All lists, as they are at a generation. A list without entries is not there."""

    lists: Mapping[Pattern, frozenset[Entry]] = field(default_factory=dict)
    generation: int = 0
    _prefixes: Mapping[ResourceType, Mapping[int, int]] = field(init=False, default_factory=dict, compare=False)
    """By type, the lengths of prefixes in order, and how many prefixes have each."""
    _by_entry: dict[ResourceType, _ByEntry] = field(init=False, default_factory=dict, compare=False)
    """By type, principal and operation; made when it is first asked for."""

    def __post_init__(self) -> None:
        self._count_prefixes({}, added=self.lists, removed=())

    def with_lists(self, changed: Mapping[Pattern, Iterable[Entry]]) -> AclIndex:
        """The next generation, in which these lists are replaced. Takes a copy of a table, and no look at each list."""
        lists = dict(self.lists)
        added, removed = [], []
        for pattern, entries in changed.items():
            found = frozenset(entries)
            if found:
                if pattern not in lists:
                    added.append(pattern)
                lists[pattern] = found
            elif lists.pop(pattern, None) is not None:
                removed.append(pattern)
        index = AclIndex(generation=self.generation + 1)
        object.__setattr__(index, "lists", lists)
        index._count_prefixes(self._prefixes, added=added, removed=removed)
        return index

    def _count_prefixes(
        self,
        before: Mapping[ResourceType, Mapping[int, int]],
        *,
        added: Iterable[Pattern],
        removed: Iterable[Pattern],
    ) -> None:
        counts = {resource_type: dict(lengths) for resource_type, lengths in before.items()}
        for patterns, step in ((added, 1), (removed, -1)):
            for resource_type, name, pattern_type in patterns:
                if pattern_type is PatternType.PREFIXED:
                    lengths = counts.setdefault(resource_type, {})
                    lengths[len(name)] = lengths.get(len(name), 0) + step
        ordered = {
            resource_type: {length: lengths[length] for length in sorted(lengths) if lengths[length]}
            for resource_type, lengths in counts.items()
        }
        object.__setattr__(self, "_prefixes", ordered)

    def matching(self, resource_type: ResourceType, name: str) -> list[tuple[Pattern, frozenset[Entry]]]:
        """The lists that apply to a resource."""
        return [(Pattern(*key), entries) for key, entries in self.about(resource_type, name)]

    def about(self, resource_type: ResourceType, name: str) -> _Lists:
        """As `matching`, with the patterns as plain tuples."""
        lists: Mapping[PatternKey, frozenset[Entry]] = self.lists  # type: ignore[assignment] # a Pattern is such a tuple
        keys = applying(resource_type, name, self._prefixes.get(resource_type, ()))
        return [(key, lists[key]) for key in keys if key in lists]

    def fitting(self, question: Question, operations: Iterable[Operation]) -> Iterator[Binding]:
        """The entries of whatever resource of the question's type that fit its principal and host."""
        by_entry = self._by_entry.get(question.resource_type)
        if by_entry is None:
            by_entry = self._by_entry[question.resource_type] = {}
            for pattern, entries in self.lists.items():
                if pattern.resource_type is question.resource_type:
                    for entry in entries:
                        by_entry.setdefault((entry.principal, entry.operation), []).append(Binding(pattern, entry))
        for principal in dict.fromkeys((str(question.principal), _EVERYBODY)):
            for operation in operations:
                for binding in by_entry.get((principal, operation), ()):
                    if _fits_host(binding.entry, question):
                        yield binding

    def bindings(self, wanted: Filter | None = None) -> Iterator[Binding]:
        """All bindings, or those of a filter, in the order of their patterns."""
        for pattern in sorted(self.lists):
            if wanted is None or wanted.pattern.matches(pattern):
                for entry in sorted(self.lists[pattern]):
                    if wanted is None or wanted.entry.matches(entry):
                        yield Binding(pattern, entry)


def decide(question: Question, index: AclIndex, rules: Rules) -> Verdict:
    """May it be done?"""
    if rules.super_users and question.principal in rules.super_users:
        return Verdict(True, Rule.SUPER_USER)
    return _decide_among(index.about(question.resource_type, question.name), question, rules)


def remedy(question: Question, index: AclIndex, rules: Rules) -> Remedy:
    """What would allow it."""
    found = index.about(question.resource_type, question.name)
    denying = (question.operation, Operation.ALL)
    removed = [
        Binding(Pattern(*key), entry)
        for key, entries in found
        for entry in entries
        if entry.permission is Permission.DENY and _fits(entry, question, denying)
    ]
    left = [(key, entries.difference(each.entry for each in removed if each.pattern == key)) for key, entries in found]
    is_enough = _decide_among([each for each in left if each[1]], question, rules).allowed
    return Remedy(tuple(sorted(removed)), None if is_enough else question.remedy())


def remedy_on_any(question: Question, some: Question, index: AclIndex, rules: Rules) -> Remedy:
    """What would allow what `decide_on_any` refused: the bindings that deny it go, and if that is not enough the right
    on one resource is added, which `some` stands for."""
    removed: list[Binding] = []
    while len(removed) < MAX_REMOVED:
        verdict = decide_on_any(question, index, rules)
        if verdict.allowed:
            return Remedy(tuple(sorted(removed)), None)
        if verdict.rule is not Rule.DENIED or verdict.binding is None:
            break
        removed.append(verdict.binding)
        pattern, entry = verdict.binding
        index = index.with_lists({pattern: index.lists[pattern] - {entry}})
    return Remedy(tuple(sorted(removed)), some.remedy())


class Access(NamedTuple):
    """What one principal may do to a resource from one host, and what lists deny it by name. Host "*" stands for all
    that no list names."""

    principal: str
    host: str
    may: tuple[Operation, ...]
    denied: tuple[Operation, ...]
    may_everything: bool


def who_may(bindings: Sequence[Binding], resource_type: ResourceType, name: str) -> list[Access]:
    """By principal and host, as far as the bindings name them, what lists allow. "User:*" stands for all that no
    binding names. The bindings are all that are about the resource."""
    known = KNOWN_OPERATIONS[resource_type]
    lists: _Lists = [(binding.pattern, frozenset((binding.entry,))) for binding in bindings]
    found = []
    principals = {binding.entry.principal for binding in bindings if ":" in binding.entry.principal}
    for principal in sorted(principals, key=lambda each: (each == _EVERYBODY, each)):
        hosts = {binding.entry.host for binding in bindings if binding.entry.principal in (principal, _EVERYBODY)} | {
            ANY_HOST
        }
        shown: Access | None = None
        for host in sorted(hosts):  # "*" comes first.
            asked = [Question(Principal.parse(principal), host, each, resource_type, name) for each in known]
            verdicts = {question.operation: _decide_among(lists, question, Rules()) for question in asked}
            may = tuple(each for each, verdict in verdicts.items() if verdict.allowed)
            denied = tuple(each for each, verdict in verdicts.items() if verdict.rule is Rule.DENIED)
            access = Access(principal, host, may, denied, len(may) == len(known))
            if shown is None:
                shown = access
            if access is shown or (access.may, access.denied) != (shown.may, shown.denied):
                found.append(access)
    return found


def _decide_among(found: _Lists, question: Question, rules: Rules) -> Verdict:
    if not found:
        return Verdict(rules.allow_everyone, Rule.NO_ACL_ALLOWS if rules.allow_everyone else Rule.NO_ACL)
    principal, host, operation, _resource_type, _name = question
    who = f"{principal.kind}:{principal.name}"
    allowing = _ALLOWING[operation]
    allowed: tuple[PatternKey, Entry] | None = None
    for key, entries in found:
        for entry in entries:
            whom, where, what, permission = entry
            if (whom != who and whom != _EVERYBODY) or what not in allowing:
                continue
            if where != ANY_HOST and where != host and host_text(where) != host_text(host):
                continue
            if permission is Permission.DENY:
                if what is operation or what is Operation.ALL:
                    return Verdict(False, Rule.DENIED, Binding(Pattern(*key), entry))
            elif allowed is None and permission is Permission.ALLOW:
                allowed = (key, entry)
    if allowed is not None:
        return Verdict(True, Rule.ALLOWED, Binding(Pattern(*allowed[0]), allowed[1]))
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
    for binding in index.fitting(question, operations):
        if binding.entry.permission is Permission.DENY:
            denies[binding.pattern] = binding
        elif binding.entry.permission is Permission.ALLOW:
            allows.append(binding)
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


def _nearest(question: Question, found: _Lists, operations: tuple[Operation, ...]) -> tuple[Binding | None, str]:
    """Of the ALLOWs that match the name the one that lacks least: host, then operation, then principal."""
    best: tuple[int, Binding, str] | None = None
    for binding in (Binding(Pattern(*key), entry) for key, entries in found for entry in entries):
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
