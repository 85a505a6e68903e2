"""The authorizer beside a brute force that knows no index: the same answers, whatever the lists."""

from __future__ import annotations

import random
from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.security.acls import Entry, Operation, Permission
from kavka.security.authorizer import AclIndex, Question, Rules, decide, decide_on_any, remedy
from kavka.security.principals import Principal
from kavka.security.resource_patterns import Pattern, PatternType, ResourceType

OPERATIONS = [operation for operation in Operation if operation > Operation.ALL]
NAMES = ["a", "ab", "abc", "b", "*", "*a", "ü", "ü注", "A", ""]
TYPES = [ResourceType.TOPIC, ResourceType.GROUP]
PATTERN_TYPES = [PatternType.LITERAL, PatternType.PREFIXED]
OF_ENTRIES = ["User:alice", "User:bob", "User:*", "Group:alice"]
HOSTS_OF_ENTRIES = ["*", "10.0.0.1", "10.0.0.2", "::1", "no address"]
PERMISSIONS = [Permission.ALLOW, Permission.DENY]
PRINCIPALS = [Principal("User", "alice"), Principal("User", "bob"), Principal("Group", "alice")]
HOSTS = ["10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1"]
MOST_ENTRIES = 12

patterns = st.builds(Pattern, st.sampled_from(TYPES), st.sampled_from(NAMES), st.sampled_from(PATTERN_TYPES))
entries = st.builds(
    Entry,
    st.sampled_from(OF_ENTRIES),
    st.sampled_from(HOSTS_OF_ENTRIES),
    st.sampled_from([Operation.ALL, *OPERATIONS]),
    st.sampled_from(PERMISSIONS),
)
questions = st.builds(
    Question,
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from(TYPES),
    st.sampled_from(NAMES),
)


def hosts(question: Question) -> tuple[str, ...]:
    return ("*", question.host, "::1") if question.host.endswith(":1") else ("*", question.host)


def brute_force_on_any(question: Question, bindings: Iterable[tuple[Pattern, Entry]], *, allow_everyone: bool) -> bool:
    """AclAuthorizer.authorizeByResourceType, with no table but the bindings themselves."""

    def names(permission: Permission, pattern_type: PatternType) -> set[str]:
        return {
            pattern.name
            for pattern, entry in bindings
            if pattern.resource_type == question.resource_type
            and pattern.pattern_type == pattern_type
            and entry.permission == permission
            and entry.principal in ("User:*", str(question.principal))
            and entry.host in hosts(question)
            and entry.operation in (question.operation, Operation.ALL)
        }

    deny_literals = names(Permission.DENY, PatternType.LITERAL)
    if "*" in deny_literals:
        return False
    if allow_everyone:
        return True
    deny_prefixes = names(Permission.DENY, PatternType.PREFIXED)

    def is_dominated(name: str) -> bool:
        return any(name[: length + 1] in deny_prefixes for length in range(len(name)))

    prefixes = names(Permission.ALLOW, PatternType.PREFIXED)
    if any(not is_dominated(prefix) for prefix in prefixes):
        return True
    literals = names(Permission.ALLOW, PatternType.LITERAL)
    return any(name == "*" or (name not in deny_literals and not is_dominated(name)) for name in literals)


def brute_force(question: Question, bindings: Iterable[tuple[Pattern, Entry]], *, allow_everyone: bool) -> bool:
    def named(pattern: Pattern) -> bool:
        if pattern.pattern_type is PatternType.PREFIXED:
            return question.name.startswith(pattern.name)
        return pattern.name in ("*", question.name)

    about = [entry for pattern, entry in bindings if pattern.resource_type == question.resource_type and named(pattern)]
    if not about:
        return allow_everyone
    mine = [
        entry
        for entry in about
        if entry.principal in ("User:*", str(question.principal)) and entry.host in hosts(question)
    ]
    implied = {question.operation, Operation.ALL}
    if any(entry.permission is Permission.DENY and entry.operation in implied for entry in mine):
        return False
    if question.operation is Operation.DESCRIBE:
        implied |= {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    if question.operation is Operation.DESCRIBE_CONFIGS:
        implied |= {Operation.ALTER_CONFIGS}
    return any(entry.permission is Permission.ALLOW and entry.operation in implied for entry in mine)


def lists_of(bindings: Iterable[tuple[Pattern, Entry]]) -> dict[Pattern, set[Entry]]:
    lists: dict[Pattern, set[Entry]] = {}
    for pattern, entry in bindings:
        lists.setdefault(pattern, set()).add(entry)
    return lists


some_bindings = st.lists(st.tuples(patterns, entries), max_size=MOST_ENTRIES)


def assert_decides_alike(bindings: list[tuple[Pattern, Entry]], question: Question, *, allow_everyone: bool) -> None:
    index = AclIndex().with_lists(lists_of(bindings))
    rules = Rules(allow_everyone=allow_everyone)
    by_looking = brute_force(question, bindings, allow_everyone=allow_everyone)
    assert decide(question, index, rules).allowed is by_looking, (bindings, question, allow_everyone)
    by_looking_at_any = brute_force_on_any(question, bindings, allow_everyone=allow_everyone)
    assert decide_on_any(question, index, rules).allowed is by_looking_at_any, (bindings, question, allow_everyone)


@settings(max_examples=500, deadline=None)
@given(some_bindings, questions, st.booleans())
def test_the_index_decides_as_looking_at_each_entry_does(
    bindings: list[tuple[Pattern, Entry]], question: Question, allow_everyone: bool
) -> None:
    assert_decides_alike(bindings, question, allow_everyone=allow_everyone)


def test_ten_thousand_random_lists_decide_as_looking_at_each_entry_does() -> None:
    """Drawn without hypothesis, which takes twenty times as long for each; the first test makes a failure small."""
    draw = random.Random(39)
    one = draw.choice

    def binding() -> tuple[Pattern, Entry]:
        operation = one([Operation.ALL, *OPERATIONS])
        entry = Entry(one(OF_ENTRIES), one(HOSTS_OF_ENTRIES), operation, one(PERMISSIONS))
        return Pattern(one(TYPES), one(NAMES), one(PATTERN_TYPES)), entry

    for _ in range(10_000):
        bindings = [binding() for _ in range(draw.randrange(MOST_ENTRIES + 1))]
        question = Question(one(PRINCIPALS), one(HOSTS), one(OPERATIONS), one(TYPES), one(NAMES))
        assert_decides_alike(bindings, question, allow_everyone=one([True, False]))


@settings(deadline=None)
@given(some_bindings, questions, st.booleans())
def test_the_remedy_is_one(bindings: list[tuple[Pattern, Entry]], question: Question, allow_everyone: bool) -> None:
    rules = Rules(allow_everyone=allow_everyone)
    index = AclIndex().with_lists(lists_of(bindings))
    if decide(question, index, rules).allowed:
        return
    removed, added = remedy(question, index, rules)
    left = lists_of(each for each in bindings if each not in removed)
    if added is not None:
        assert not decide(question, AclIndex().with_lists(left), rules).allowed
        left.setdefault(added.pattern, set()).add(added.entry)
    assert decide(question, AclIndex().with_lists(left), rules).allowed


@settings(deadline=None)
@given(st.lists(st.tuples(patterns, st.frozensets(entries, max_size=2)), max_size=20), patterns)
def test_an_index_that_is_changed_is_the_one_that_is_made_at_once(
    changes: list[tuple[Pattern, frozenset[Entry]]], probe: Pattern
) -> None:
    changed, lists = AclIndex(), dict[Pattern, frozenset[Entry]]()
    for pattern, found in changes:
        changed = changed.with_lists({pattern: found})
        lists.pop(pattern, None)
        if found:
            lists[pattern] = found
    at_once = AclIndex(lists)
    assert changed.lists == at_once.lists
    for index in (changed, at_once):
        found_here = set(index.matching(probe.resource_type, probe.name))
        assert found_here == {
            (pattern, entries)
            for pattern, entries in lists.items()
            if pattern.resource_type == probe.resource_type and pattern.matches(probe.name)
        }
