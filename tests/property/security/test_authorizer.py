"""The authorizer beside a brute force that knows no index: the same answers, whatever the lists."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from kavka.security.acls import Entry, Operation, Pattern, PatternType, Permission, ResourceType
from kavka.security.authorizer import AclIndex, Question, Rules, decide
from kavka.security.principals import Principal

OPERATIONS = [operation for operation in Operation if operation > Operation.ALL]
NAMES = ["a", "ab", "abc", "b", "*"]
patterns = st.builds(
    Pattern,
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
    st.sampled_from(NAMES),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
)
entries = st.builds(
    Entry,
    st.sampled_from(["User:alice", "User:bob", "User:*", "Group:alice"]),
    st.sampled_from(["*", "10.0.0.1", "10.0.0.2"]),
    st.sampled_from([Operation.ALL, *OPERATIONS]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
questions = st.builds(
    Question,
    st.sampled_from([Principal("User", "alice"), Principal("User", "bob"), Principal("Group", "alice")]),
    st.sampled_from(["10.0.0.1", "10.0.0.2"]),
    st.sampled_from(OPERATIONS),
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
    st.sampled_from(NAMES),
)


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
        if entry.principal in ("User:*", str(question.principal)) and entry.host in ("*", question.host)
    ]
    implied = {question.operation, Operation.ALL}
    if any(entry.permission is Permission.DENY and entry.operation in implied for entry in mine):
        return False
    if question.operation is Operation.DESCRIBE:
        implied |= {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    if question.operation is Operation.DESCRIBE_CONFIGS:
        implied |= {Operation.ALTER_CONFIGS}
    return any(entry.permission is Permission.ALLOW and entry.operation in implied for entry in mine)


@given(st.lists(st.tuples(patterns, entries), max_size=12), questions, st.booleans())
def test_the_index_decides_as_looking_at_each_entry_does(
    bindings: list[tuple[Pattern, Entry]], question: Question, allow_everyone: bool
) -> None:
    lists: dict[Pattern, set[Entry]] = {}
    for pattern, entry in bindings:
        lists.setdefault(pattern, set()).add(entry)
    verdict = decide(question, AclIndex().with_lists(lists), Rules(allow_everyone=allow_everyone))
    assert verdict.allowed is brute_force(question, bindings, allow_everyone=allow_everyone)
