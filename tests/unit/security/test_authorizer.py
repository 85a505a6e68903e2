"""The decision, case by case, as Kafka 3.9's AclAuthorizer has it."""

from __future__ import annotations

import pytest

from kavka.security.acls import Binding, Entry, Filter, Operation, Permission
from kavka.security.authorizer import (
    MAX_REMOVED,
    AclIndex,
    Question,
    Remedy,
    Rule,
    Rules,
    Verdict,
    decide,
    decide_on_any,
    remedy_on_any,
)
from kavka.security.principals import Principal
from kavka.security.resource_patterns import CLUSTER_NAME, Pattern, PatternType, ResourceType

ALICE = Principal("User", "alice")
T, PREFIXED = ResourceType.TOPIC, PatternType.PREFIXED
NO_RULES = Rules()


def allow(operation: Operation, principal: str = "User:alice", host: str = "*") -> Entry:
    return Entry(principal, host, operation, Permission.ALLOW)


def deny(operation: Operation, principal: str = "User:alice", host: str = "*") -> Entry:
    return Entry(principal, host, operation, Permission.DENY)


def index(lists: dict[Pattern, set[Entry]]) -> AclIndex:
    return AclIndex().with_lists(lists)


def ask(
    acls: AclIndex,
    operation: Operation,
    name: str = "orders",
    *,
    principal: Principal = ALICE,
    host: str = "10.0.0.1",
    rules: Rules = NO_RULES,
    kind: ResourceType = T,
) -> Verdict:
    return decide(Question(principal, host, operation, kind, name), acls, rules)


def test_a_super_user_may_do_what_an_acl_denies() -> None:
    acls = index({Pattern(T, "orders"): {deny(Operation.ALL)}})
    assert ask(acls, Operation.READ, rules=Rules(frozenset({ALICE}))) == Verdict(True, Rule.SUPER_USER)
    assert not ask(acls, Operation.READ, rules=Rules(frozenset({Principal("Group", "alice")}))).allowed


def test_without_a_list_the_setting_decides() -> None:
    assert ask(AclIndex(), Operation.READ).rule is Rule.NO_ACL
    assert ask(AclIndex(), Operation.READ, rules=Rules(allow_everyone=True)).allowed


def test_a_list_for_somebody_else_ends_what_the_setting_allows() -> None:
    acls = index({Pattern(T, "orders"): {allow(Operation.READ, "User:bob")}})
    assert not ask(acls, Operation.READ, rules=Rules(allow_everyone=True)).allowed
    assert ask(acls, Operation.READ, "other", rules=Rules(allow_everyone=True)).allowed


def test_deny_wins_whatever_the_order_and_the_pattern() -> None:
    acls = index({Pattern(T, "orders"): {allow(Operation.READ)}, Pattern(T, "ord", PREFIXED): {deny(Operation.READ)}})
    verdict = ask(acls, Operation.READ)
    assert verdict.rule is Rule.DENIED
    assert verdict.binding is not None
    assert verdict.binding.pattern == Pattern(T, "ord", PREFIXED)


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_describe_is_implied_by_what_needs_it(operation: Operation) -> None:
    assert ask(index({Pattern(T, "orders"): {allow(operation)}}), Operation.DESCRIBE).allowed


def test_describe_configs_is_implied_by_alter_configs_and_by_nothing_else() -> None:
    assert ask(index({Pattern(T, "orders"): {allow(Operation.ALTER_CONFIGS)}}), Operation.DESCRIBE_CONFIGS).allowed
    assert not ask(index({Pattern(T, "orders"): {allow(Operation.ALTER)}}), Operation.DESCRIBE_CONFIGS).allowed
    assert not ask(index({Pattern(T, "orders"): {allow(Operation.CREATE)}}), Operation.DESCRIBE).allowed


def test_a_deny_implies_nothing() -> None:
    acls = index({Pattern(T, "orders"): {deny(Operation.READ), allow(Operation.WRITE)}})
    assert ask(acls, Operation.DESCRIBE).allowed
    assert not ask(acls, Operation.READ).allowed


def test_all_fits_every_operation_in_both_directions() -> None:
    assert ask(index({Pattern(T, "orders"): {allow(Operation.ALL)}}), Operation.ALTER_CONFIGS).allowed
    acls = index({Pattern(T, "orders"): {deny(Operation.ALL), allow(Operation.DESCRIBE)}})
    assert not ask(acls, Operation.DESCRIBE).allowed


def test_everybody_means_principals_of_every_type() -> None:
    acls = index({Pattern(T, "orders"): {allow(Operation.READ, "User:*")}})
    assert ask(acls, Operation.READ, principal=Principal("Group", "g")).allowed
    acls = index({Pattern(T, "orders"): {allow(Operation.READ, "Group:*")}})
    assert not ask(acls, Operation.READ, principal=Principal("Group", "g")).allowed


def test_a_host_is_compared_as_an_address() -> None:
    acls = index({Pattern(T, "orders"): {allow(Operation.READ, host="0:0:0:0:0:0:0:1")}})
    assert ask(acls, Operation.READ, host="::1").allowed
    assert not ask(acls, Operation.READ, host="::2").allowed
    acls = index({Pattern(T, "orders"): {allow(Operation.READ), deny(Operation.ALL, "User:*", "10.0.0.9")}})
    assert ask(acls, Operation.READ, host="::ffff:10.0.0.9").rule is Rule.DENIED


def test_lists_of_another_type_are_not_looked_at() -> None:
    acls = index({Pattern(ResourceType.GROUP, "orders"): {allow(Operation.READ)}})
    assert ask(acls, Operation.READ).rule is Rule.NO_ACL
    assert not ask(acls, Operation.CREATE, CLUSTER_NAME, kind=ResourceType.CLUSTER).allowed


def test_a_refusal_names_the_nearest_acl_and_why_it_does_not_fit() -> None:
    acls = index(
        {
            Pattern(T, "orders"): {allow(Operation.READ, "User:bob")},
            Pattern(T, "ord", PREFIXED): {allow(Operation.READ, host="10.0.0.7")},
        }
    )
    verdict = ask(acls, Operation.READ)
    assert verdict.rule is Rule.NOT_ALLOWED
    assert verdict.binding is not None
    assert verdict.binding.entry.host == "10.0.0.7"
    assert verdict.misfit == "it is for host 10.0.0.7"


def test_the_remedy_allows_what_was_refused() -> None:
    question = Question(ALICE, "10.0.0.1", Operation.WRITE, T, "orders")
    remedy = question.remedy()
    assert decide(question, index({remedy.pattern: {remedy.entry}}), NO_RULES).allowed


def test_the_remedy_of_a_right_on_any_topic_is_one_on_a_topic_and_what_denies_it_goes() -> None:
    asked = Question(ALICE, "10.0.0.1", Operation.WRITE, T, "")
    some = asked._replace(name="orders")
    assert remedy_on_any(asked, some, index({}), NO_RULES) == Remedy((), some.remedy())

    everywhere = Binding(Pattern(T, "*"), deny(Operation.WRITE))
    denied = index({everywhere.pattern: {everywhere.entry}, Pattern(T, "a"): {allow(Operation.WRITE)}})
    assert not decide_on_any(asked, denied, NO_RULES).allowed
    assert remedy_on_any(asked, some, denied, NO_RULES) == Remedy((everywhere,), None)

    covers = [Binding(Pattern(T, "a" * size, PREFIXED), deny(Operation.WRITE)) for size in range(1, 30)]
    many = index({each.pattern: {each.entry} for each in covers} | {Pattern(T, "a" * 40): {allow(Operation.WRITE)}})
    removed, added = remedy_on_any(asked, some, many, NO_RULES)
    assert (len(removed), added) == (MAX_REMOVED, some.remedy())


def test_each_change_is_a_generation_and_leaves_the_former_one_as_it_was() -> None:
    before = index({Pattern(T, "orders"): {allow(Operation.READ)}})
    after = before.with_lists({Pattern(T, "orders"): ()})
    assert (before.generation, after.generation) == (1, 2)
    assert len(list(before.bindings(Filter()))) == 1
    assert not after.lists


# -- on any resource of a type


def ask_on_any(acls: AclIndex, *, rules: Rules = NO_RULES) -> bool:
    return decide_on_any(Question(ALICE, "10.0.0.1", Operation.WRITE, T, ""), acls, rules).allowed


@pytest.mark.parametrize(
    ("lists", "allowed"),
    [
        ({}, False),
        ({Pattern(T, "a"): {allow(Operation.WRITE)}}, True),
        ({Pattern(T, "a"): {allow(Operation.READ)}}, False),
        ({Pattern(T, "a"): {allow(Operation.ALL, "User:*")}}, True),
        ({Pattern(ResourceType.GROUP, "a"): {allow(Operation.WRITE)}}, False),
        ({Pattern(T, "a"): {allow(Operation.WRITE)}, Pattern(T, "*"): {deny(Operation.WRITE)}}, False),
        ({Pattern(T, "a"): {allow(Operation.WRITE), deny(Operation.ALL)}}, False),
        ({Pattern(T, "a"): {allow(Operation.WRITE)}, Pattern(T, "b"): {deny(Operation.WRITE)}}, True),
        ({Pattern(T, "ab"): {allow(Operation.WRITE)}, Pattern(T, "a", PREFIXED): {deny(Operation.WRITE)}}, False),
        (
            {Pattern(T, "a", PREFIXED): {allow(Operation.WRITE)}, Pattern(T, "ab", PREFIXED): {deny(Operation.WRITE)}},
            True,
        ),
        (
            {Pattern(T, "ab", PREFIXED): {allow(Operation.WRITE)}, Pattern(T, "a", PREFIXED): {deny(Operation.WRITE)}},
            False,
        ),
        ({Pattern(T, "*"): {allow(Operation.WRITE)}, Pattern(T, "*", PREFIXED): {deny(Operation.WRITE)}}, True),
        ({Pattern(T, "a", PREFIXED): {allow(Operation.WRITE)}, Pattern(T, "a"): {deny(Operation.WRITE)}}, True),
    ],
)
def test_on_any_resource_one_allow_that_no_deny_covers_is_enough(
    lists: dict[Pattern, set[Entry]], allowed: bool
) -> None:
    assert ask_on_any(index(lists)) is allowed


def test_on_any_resource_the_setting_allows_before_other_denies_are_looked_at() -> None:
    everyone = Rules(allow_everyone=True)
    assert ask_on_any(index({Pattern(T, "a"): {deny(Operation.WRITE)}}), rules=everyone)
    assert not ask_on_any(index({Pattern(T, "*"): {deny(Operation.WRITE)}}), rules=everyone)
    assert ask_on_any(index({Pattern(T, "*"): {deny(Operation.WRITE)}}), rules=Rules(frozenset({ALICE})))
