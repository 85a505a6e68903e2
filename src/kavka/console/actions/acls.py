"""AddAcl, RemoveAcl: who may do what, changed one list at a time.

Decides which bindings a form means, and what they change for whom. What a binding means is `kavka.security`'s. Must not
know pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from kavka.client.acl_admin import AclAdmin
from kavka.console.actions.action import Action, ActionRefused, Change, Field, Preview, Values, Warned, quoted, text
from kavka.observe.health.report import Statement
from kavka.security.acls import (
    KNOWN_OPERATIONS,
    OPERATIONS_BY_WORD,
    PERMISSIONS_BY_WORD,
    Binding,
    Entry,
    EntryFilter,
    Filter,
    Operation,
    Permission,
)
from kavka.security.authorizer import who_may
from kavka.security.resource_patterns import (
    CLUSTER_NAME,
    TYPES_BY_WORD,
    WILDCARD,
    Pattern,
    PatternFilter,
    PatternType,
    ResourceType,
)

if TYPE_CHECKING:
    from kavka.console.clusters import ClusterWatch

T = TypeVar("T")
KINDS: Final = tuple(word for word, kind in TYPES_BY_WORD.items() if kind in KNOWN_OPERATIONS)
PATTERNS: Final = ("literal", "prefixed")
PERMISSIONS: Final = ("Allow", "Deny")
EVERYBODY: Final = "User:*"
MOST_OPERATIONS: Final = 20
_OPTIONS: Final = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}


class Wanted(NamedTuple):
    """What a form names: one pattern, one principal, some operations."""

    pattern: Pattern
    entries: tuple[Entry, ...]

    @property
    def bindings(self) -> tuple[Binding, ...]:
        return tuple(Binding(self.pattern, entry) for entry in self.entries)


class _OfAcls(Action):
    """What adding and removing have in common."""

    role, section = "admin", "access"

    def topics(self, values: Values) -> None:
        return None

    async def look(self, watch: ClusterWatch, values: Values) -> str:
        pattern = wanted(values).pattern
        return "\n".join(map(str, await _about(watch, pattern)))

    def link(self, base: str, values: Values) -> str:
        return f"{base}/access"


class AddAcl(_OfAcls):
    name, title = "add-acl", "Add access control lists"

    async def fields(self, watch: ClusterWatch, values: Values) -> Sequence[Field]:
        return (
            Field("principal", "Who", value=values.get("principal", "User:"), hint="User:alice; User:* is everybody."),
            Field("permission", "Permission", "choice", values.get("permission", PERMISSIONS[0]), "", PERMISSIONS),
            Field(
                "operations",
                "Operations",
                value=values.get("operations", "Read"),
                hint="Separated by commas: Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, "
                "AlterConfigs, IdempotentWrite, ClusterAction, or All.",
                required=True,
            ),
            Field("kind", "Kind of resource", "choice", values.get("kind", "Topic"), "", KINDS),
            Field(
                "resource",
                "Name of the resource",
                value=values.get("resource", ""),
                hint="* for all of this kind. Empty for the cluster.",
            ),
            Field(
                "pattern",
                "The name is",
                "choice",
                values.get("pattern", PATTERNS[0]),
                "prefixed: it stands for all names that begin with it.",
                PATTERNS,
            ),
            Field("host", "From host", value=values.get("host", WILDCARD), hint="An address; * for any."),
        )

    async def preview(self, watch: ClusterWatch, values: Values) -> Preview:
        asked = wanted(values)
        there = await _about(watch, asked.pattern)
        new = [each for each in asked.bindings if each not in there]
        if not new:
            raise ActionRefused("nothing changes: these access control lists are there already")
        return Preview(
            f"access to {asked.pattern}",
            Statement("Access control lists that are added: {n}.", {"n": len(new)}),
            (
                *(Change("Access control list", "", str(each)) for each in new),
                *_effect(asked.pattern, there, [*there, *new]),
            ),
            tuple(_warnings(watch, asked)),
            _commands("add", watch, asked),
            before="\n".join(map(str, there)),
            wanted="\n".join(map(str, new)),
            button="Add them",
            undo=_commands("remove", watch, asked)[:1],
        )

    async def execute(self, watch: ClusterWatch, values: Values) -> None:
        await AclAdmin(watch.cluster).add(wanted(values).bindings)


class RemoveAcl(_OfAcls):
    name, title = "remove-acl", "Remove an access control list"

    async def fields(self, watch: ClusterWatch, values: Values) -> Sequence[Field]:
        names = ("principal", "permission", "operations", "kind", "resource", "pattern", "host")
        asked = wanted(values)
        told = tuple(word for each in asked.bindings for word in ("Access control list", str(each)))
        return (
            Field("facts", "", "facts", choices=told),
            *(Field(name, "", "hidden", values.get(name, "")) for name in names),
        )

    async def preview(self, watch: ClusterWatch, values: Values) -> Preview:
        asked = wanted(values)
        there = await _about(watch, asked.pattern)
        gone = [each for each in asked.bindings if each in there]
        if not gone:
            raise ActionRefused("this access control list no longer exists")
        left = [each for each in there if each not in gone]
        warnings = []
        if not left:
            text_ = "No list covers it then: only super users may use it, or everybody if the brokers allow that."
            warnings.append(Warned("warn", Statement(text_)))
        if any(each.entry.permission is Permission.DENY for each in gone):
            warnings.append(Warned("warn", Statement("Another list may then allow what it denies.")))
        return Preview(
            f"access to {asked.pattern}",
            Statement("Access control lists that are removed: {n}.", {"n": len(gone)}),
            (*(Change("Access control list", str(each), "") for each in gone), *_effect(asked.pattern, there, left)),
            tuple(warnings),
            _commands("remove", watch, asked),
            before="\n".join(map(str, there)),
            wanted="\n".join(map(str, left)),
            button="Remove it",
            is_danger=True,
            undo=_commands("add", watch, asked)[:1],
        )

    async def execute(self, watch: ClusterWatch, values: Values) -> None:
        filters = [Filter(PatternFilter(*pattern), EntryFilter(*entry)) for pattern, entry in wanted(values).bindings]
        await AclAdmin(watch.cluster).remove(filters)


def wanted(values: Values) -> Wanted:
    """Raises ActionRefused where a form means no access control list."""
    kind = _one_of(values, "kind", TYPES_BY_WORD, "the kind of resource")
    name = values.get("resource", "").strip()
    if kind is ResourceType.CLUSTER:
        name = CLUSTER_NAME
    if not name:
        raise ActionRefused("the resource's name is missing; * means all of this kind")
    pattern_type = _one_of(values, "pattern", {each: PatternType[each.upper()] for each in PATTERNS}, "the pattern")
    entries = _entries_wanted(values, kind)
    found = Wanted(Pattern(kind, name, pattern_type), tuple(dict.fromkeys(entries)))
    for binding in found.bindings:
        problem = binding.problem()
        if problem is not None:
            raise ActionRefused(problem)
    if entries and entries[0].principal.endswith(":"):
        raise ActionRefused("the principal has no name: User:alice, or User:* for everybody")
    return found


def _entries_wanted(values: Values, kind: ResourceType) -> list[Entry]:
    """One for each operation. Raises ActionRefused."""
    permission = _one_of(values, "permission", PERMISSIONS_BY_WORD, "the permission")
    principal, host = text(values, "principal", "the principal"), values.get("host", "").strip() or WILDCARD
    known = {Operation.ALL, *KNOWN_OPERATIONS.get(kind, ())}
    entries = []
    words = [word.strip() for word in text(values, "operations", "the operation").split(",") if word.strip()]
    for word in words[:MOST_OPERATIONS]:
        operation = OPERATIONS_BY_WORD.get(word)
        if operation is None or operation not in known:
            fitting = ", ".join(sorted(each.word for each in known))
            raise ActionRefused(f"{word[:40]!r} is no operation on a {kind.word}: {fitting}")
        entries.append(Entry(principal, host, operation, permission))
    return entries


def _one_of(values: Values, field: str, known: Mapping[str, T], what: str) -> T:
    word = values.get(field, "").strip()
    if word not in known:
        raise ActionRefused(f"{what} is {word[:40]!r}: one of {', '.join(known)} is needed")
    return known[word]


async def _about(watch: ClusterWatch, pattern: Pattern) -> list[Binding]:
    """All lists that apply to the one resource that the pattern names; of a pattern of several, its own."""
    kind, name, pattern_type = pattern
    if is_one_resource(pattern):
        pattern_type = PatternType.MATCH
    return await AclAdmin(watch.cluster).find(Filter(PatternFilter(kind, name, pattern_type)))


def is_one_resource(pattern: Pattern) -> bool:
    return pattern.pattern_type is PatternType.LITERAL and pattern.name != WILDCARD


def _effect(pattern: Pattern, before: Sequence[Binding], after: Sequence[Binding]) -> list[Change]:
    """What principals may do with the resource before and after, of those for whom that changes."""
    if not is_one_resource(pattern):
        return []
    old, new = _allowed(pattern, before), _allowed(pattern, after)
    return [
        Change(f"{who} may", old.get(who, "nothing"), new.get(who, "nothing"))
        for who in sorted({*old, *new})
        if old.get(who, "nothing") != new.get(who, "nothing")
    ]


def _allowed(pattern: Pattern, bindings: Sequence[Binding]) -> dict[str, str]:
    found = {}
    for each in who_may(bindings, pattern.resource_type, pattern.name):
        who = each.principal if each.host == WILDCARD else f"{each.principal} from {each.host}"
        words = ", ".join(operation.word for operation in each.may) or "nothing"
        found[who] = "everything" if each.may_everything else words
    return found


def _warnings(watch: ClusterWatch, asked: Wanted) -> Sequence[Warned]:
    found = []
    pattern, first = asked.pattern, asked.entries[0]
    if pattern.pattern_type is PatternType.PREFIXED and pattern.resource_type is ResourceType.TOPIC:
        n = sum(name.startswith(pattern.name) for name in watch.snapshot.topics)
        text_ = "It stands for every topic that begins with {name}: {n} now, and those that are made later."
        found.append(Warned("warn", Statement(text_, {"name": pattern.name, "n": n})))
    if first.principal == EVERYBODY and first.permission is Permission.ALLOW:
        text_ = "User:* is everybody, including those who have not logged in, where a listener accepts them."
        found.append(Warned("bad", Statement(text_)))
    if first.permission is Permission.DENY:
        text_ = "A denial wins over all that other lists allow. Only super users are exempt from it."
        found.append(Warned("warn", Statement(text_)))
    if pattern.resource_type is ResourceType.CLUSTER and first.permission is Permission.ALLOW:
        text_ = (
            "A right on the cluster reaches further than one topic: Alter lets somebody change access control lists."
        )
        found.append(Warned("bad", Statement(text_)))
    return found


def _commands(verb: str, watch: ClusterWatch, asked: Wanted) -> tuple[str, ...]:
    pattern, first = asked.pattern, asked.entries[0]
    resource = "--cluster"
    if pattern.resource_type is not ResourceType.CLUSTER:
        resource = f"{_OPTIONS[pattern.resource_type]} {quoted(pattern.name)}"
    may = "allow" if first.permission is Permission.ALLOW else "deny"
    words = [f"--{may}-principal {quoted(first.principal)}"]
    words += [f"--{may}-host {quoted(first.host)}"] if first.host != WILDCARD else []
    words += [f"--operation {each.operation.word}" for each in asked.entries]
    words.append(resource)
    words += ["--resource-pattern-type prefixed"] if pattern.pattern_type is PatternType.PREFIXED else []
    line, bootstrap = " ".join(words), watch.settings.bootstrap
    yes = " --yes" if verb == "remove" else ""
    return (
        f"kavka acls {verb} {line}{yes} -b {bootstrap}",
        f"kafka-acls.sh --bootstrap-server {bootstrap} --{verb} {line}",
    )
