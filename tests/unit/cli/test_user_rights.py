"""What the options of `kavka users add` mean."""

from __future__ import annotations

import pytest

from kavka.cli.output import Failure
from kavka.cli.security.user_rights import require_file_name, rights
from kavka.security.acls import Operation
from kavka.security.resource_patterns import PatternType, ResourceType


def said(*allowed: str, groups: tuple[str, ...] = ()) -> set[tuple[ResourceType, str, PatternType, Operation]]:
    return {
        (pattern.resource_type, pattern.name, pattern.pattern_type, entry.operation)
        for pattern, entry in rights("alice", allowed, groups)
    }


def test_words_topics_and_prefixes() -> None:
    assert said("read:orders-*", "WRITE:t", "all:*") == {
        (ResourceType.TOPIC, "*", PatternType.LITERAL, Operation.ALL),
        (ResourceType.TOPIC, "t", PatternType.LITERAL, Operation.WRITE),
        (ResourceType.TOPIC, "orders-", PatternType.PREFIXED, Operation.READ),
    }


def test_a_group_is_read() -> None:
    assert said(groups=("billing", "audit-*")) == {
        (ResourceType.GROUP, "billing", PatternType.LITERAL, Operation.READ),
        (ResourceType.GROUP, "audit-", PatternType.PREFIXED, Operation.READ),
    }


def test_rights_are_this_users_and_from_everywhere() -> None:
    ((_, entry),) = rights("alice", ["read:t"], ())
    assert (entry.principal, entry.host) == ("User:alice", "*")


@pytest.mark.parametrize("text", ["orders", "read:", "eat:orders", ":orders"])
def test_what_is_no_right_is_refused(text: str) -> None:
    with pytest.raises(Failure):
        rights("alice", [text], ())


@pytest.mark.parametrize("name", ["../alice", "a/b", ".alice", "", "al ice"])
def test_a_name_that_leads_elsewhere_is_no_files(name: str) -> None:
    with pytest.raises(Failure):
        require_file_name(name)
