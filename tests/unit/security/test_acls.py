"""What patterns, filters and words of access control lists mean."""

from __future__ import annotations

import pytest

from kavka.security.acls import (
    KNOWN_OPERATIONS,
    OPERATIONS_BY_WORD,
    Binding,
    Entry,
    EntryFilter,
    Filter,
    Operation,
    Permission,
)
from kavka.security.resource_patterns import TYPES_BY_WORD, Pattern, PatternFilter, PatternType, ResourceType

T = ResourceType.TOPIC
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
READ = Entry("User:a", "*", Operation.READ, Permission.ALLOW)


def test_words_are_those_that_kafka_writes() -> None:
    assert sorted(TYPES_BY_WORD) == ["Cluster", "DelegationToken", "Group", "Topic", "TransactionalId", "User"]
    assert OPERATIONS_BY_WORD["IdempotentWrite"] is Operation.IDEMPOTENT_WRITE
    assert Permission.ALLOW.word == "Allow"
    assert set(KNOWN_OPERATIONS) == set(TYPES_BY_WORD.values())


def test_numbers_that_nothing_has_are_unknown() -> None:
    assert ResourceType.of(99) is ResourceType.UNKNOWN
    assert Operation.of(99) is Operation.UNKNOWN
    assert Permission.of(99) is Permission.UNKNOWN
    assert PatternType.of(99) is PatternType.UNKNOWN


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        (Pattern(T, "orders"), "orders", True),
        (Pattern(T, "orders"), "orders-1", False),
        (Pattern(T, "*"), "orders", True),
        (Pattern(T, "orders", PREFIXED), "orders-1", True),
        (Pattern(T, "orders", PREFIXED), "orders", True),
        (Pattern(T, "rders", PREFIXED), "orders", False),
        (Pattern(T, "*", PREFIXED), "orders", False),
        (Pattern(T, "*", PREFIXED), "*orders", True),
    ],
)
def test_a_pattern_matches_by_name_star_or_prefix(pattern: Pattern, name: str, matches: bool) -> None:
    assert pattern.matches(name) is matches


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (PatternFilter(), {"a", "*", "a-", "g"}),
        (PatternFilter(T), {"a", "*", "a-"}),
        (PatternFilter(T, "a"), {"a"}),
        (PatternFilter(T, "a-"), {"a-"}),
        (PatternFilter(T, "a-", LITERAL), set()),
        (PatternFilter(T, "a-", PREFIXED), {"a-"}),
        (PatternFilter(T, "a-1", PatternType.MATCH), {"*", "a-"}),
        (PatternFilter(T, "a", PatternType.MATCH), {"a", "*"}),
        (PatternFilter(T, None, PatternType.MATCH), {"a", "*", "a-"}),
        (PatternFilter(T, None, PREFIXED), {"a-"}),
    ],
)
def test_a_filter_finds_what_kafkas_finds(wanted: PatternFilter, found: set[str]) -> None:
    patterns = [Pattern(T, "a"), Pattern(T, "*"), Pattern(T, "a-", PREFIXED), Pattern(ResourceType.GROUP, "g")]
    assert {pattern.name for pattern in patterns if wanted.matches(pattern)} == found


def test_an_entry_filter_compares_what_it_names() -> None:
    assert EntryFilter().matches(READ)
    assert EntryFilter("User:a", "*", Operation.READ, Permission.ALLOW).matches(READ)
    assert not EntryFilter("User:b").matches(READ)
    assert not EntryFilter(host="10.0.0.1").matches(READ)
    assert not EntryFilter(operation=Operation.ALL).matches(READ)
    assert not EntryFilter(permission=Permission.DENY).matches(READ)


def test_a_filter_knows_the_patterns_that_it_names() -> None:
    assert PatternFilter(T, "a", LITERAL).patterns() == (Pattern(T, "a"),)
    assert PatternFilter(T, "a").patterns() == (Pattern(T, "a"), Pattern(T, "a", PREFIXED))
    assert PatternFilter(T, "a", PatternType.MATCH).patterns() == ()
    assert PatternFilter(T).patterns() == ()
    assert Filter(PatternFilter(ResourceType.UNKNOWN)).is_unknown
    assert not Filter().is_unknown


@pytest.mark.parametrize(
    ("pattern", "entry", "problem"),
    [
        (Pattern(T, "a"), READ, None),
        (Pattern(ResourceType.CLUSTER, "kafka-cluster"), READ, None),
        (Pattern(ResourceType.CLUSTER, "mine"), READ, "only valid name"),
        (Pattern(T, ""), READ, "empty"),
        (Pattern(T, "a/b"), READ, "invalid resource name"),
        (Pattern(ResourceType.UNKNOWN, "a"), READ, "unknown elements"),
        (Pattern(ResourceType.ANY, "a"), READ, "ANY"),
        (Pattern(T, "a", PatternType.MATCH), READ, "MATCH"),
        (Pattern(T, "a", PatternType.ANY), READ, "ANY"),
        (Pattern(T, "a", PatternType.UNKNOWN), READ, "unknown elements"),
        (Pattern(T, "a"), READ._replace(operation=Operation.ANY), "operation"),
        (Pattern(T, "a"), READ._replace(operation=Operation.UNKNOWN), "unknown elements"),
        (Pattern(T, "a"), READ._replace(permission=Permission.ANY), "permissionType"),
        (Pattern(T, "a"), READ._replace(permission=Permission.UNKNOWN), "unknown elements"),
        (Pattern(T, "a"), READ._replace(principal="alice"), "Type:name"),
    ],
)
def test_only_a_concrete_binding_can_be_kept(pattern: Pattern, entry: Entry, problem: str | None) -> None:
    found = Binding(pattern, entry).problem()
    assert (found is None) if problem is None else (found is not None and problem in found)
