"""`kavka why denied`: the commands that would allow what was denied."""

from __future__ import annotations

from kavka.cli.security.denied import allowing, principal_named
from kavka.cli.understand.story import Subject
from kavka.decisions import Decision, DecisionKind
from kavka.model import BrokerId


def denied(api: str, operation: str, kind: str, name: str, who: str = "User:bob", remedy: str = "") -> Decision:
    facts = {"principal": who, "api": api, "operation": operation, "resource_type": kind, "resource": name}
    remedy = remedy or "kavka acls add --allow-principal ..."
    return Decision(DecisionKind.ACCESS_DENIED, 5, BrokerId(1), "no", evidence={**facts, "remedy": remedy})


SEES_NO_TOPIC = denied("METADATA", "Describe", "Topic", "orders")
MAY_WRITE_NOWHERE = denied("INIT_PRODUCER_ID", "Write", "Topic", "")
BOB = "kavka acls add --allow-principal User:bob"


def test_who_may_not_see_a_topic_may_want_to_read_or_to_write() -> None:
    assert list(allowing([SEES_NO_TOPIC])) == [
        f"{BOB} --operation Read --topic orders   # to read; with a group, add --group NAME",
        f"{BOB} --operation Write --topic orders   # to write",
    ]


def test_nobody_is_let_write_to_a_topic_of_the_brokers() -> None:
    looks = denied("METADATA", "Describe", "Topic", "__kavka_decisions")
    (line,) = allowing([looks])
    assert line.startswith(f"{BOB} --operation Read --topic __kavka_decisions ")


def test_a_producer_gets_the_right_on_its_topic_and_none_on_the_cluster() -> None:
    assert list(allowing([SEES_NO_TOPIC, MAY_WRITE_NOWHERE])) == [f"{BOB} --operation Write --topic orders"]
    assert list(allowing([MAY_WRITE_NOWHERE])) == [
        f"{BOB} --operation Write --topic TOPIC   # TOPIC: what it writes to"
    ]
    looks_at_settings = denied("DESCRIBE_CONFIGS", "DescribeConfigs", "Topic", "orders")
    assert len(list(allowing([SEES_NO_TOPIC, looks_at_settings]))) == 3, "settings say nothing of reading or writing"
    produced = denied("PRODUCE", "Write", "Topic", "orders")
    assert list(allowing([MAY_WRITE_NOWHERE, produced])) == [f"{BOB} --operation Write --topic orders"]


def test_a_consumer_gets_its_topic_and_its_group_at_once() -> None:
    looks_for_group = denied("FIND_COORDINATOR", "Describe", "Group", "bob's readers")
    line = f"{BOB} --operation Read --topic orders --group 'bob'\"'\"'s readers'"
    assert list(allowing([SEES_NO_TOPIC, looks_for_group])) == [line]


def test_a_transaction_gets_its_id_and_its_topic_at_once() -> None:
    looks_for_id = denied("FIND_COORDINATOR", "Describe", "TransactionalId", "pay")
    writes = denied("ADD_PARTITIONS_TO_TXN", "Write", "Topic", "orders")
    assert list(allowing([looks_for_id, writes])) == [f"{BOB} --operation Write --transactional-id pay --topic orders"]


def test_operations_on_one_thing_are_one_command_and_the_cluster_comes_last() -> None:
    lists = denied("LIST_GROUPS", "Describe", "Cluster", "kafka-cluster")
    told = [lists, denied("X", "Alter", "Topic", "a"), denied("X", "DescribeConfigs", "Topic", "a")]
    assert list(allowing([*told, denied("X", "Describe", "Topic", "a")])) == [
        f"{BOB} --operation Alter --operation DescribeConfigs --topic a",
        f"{BOB} --operation Describe --cluster",
    ]


def test_what_denies_is_removed_first_and_principals_do_not_mix() -> None:
    removal = "kavka acls remove --deny-principal User:eve --operation Read --topic a"
    eve = denied("FETCH", "Read", "Topic", "a", "User:eve", removal)
    told = [denied("FETCH", "Read", "Topic", "a"), denied("FETCH", "Read", "Topic", "b", "User:ann"), eve, eve]
    assert list(allowing(told)) == [
        removal,
        f"{BOB} --operation Read --topic a",
        "kavka acls add --allow-principal User:ann --operation Read --topic b",
    ]


def test_what_no_list_can_allow_has_no_command() -> None:
    refused = denied("X", "ClusterAction", "Cluster", "kafka-cluster")
    evidence = {name: fact for name, fact in refused.evidence.items() if name != "remedy"}
    assert list(allowing([refused._replace(evidence=evidence)])) == []


def test_a_principal_without_its_type_is_a_user() -> None:
    assert principal_named("alice") == principal_named("User:alice") == "User:alice"
    assert str(Subject(denied=True, principal="User:alice")) == "requests that were denied to User:alice"
