"""What is said of a setting that a broker refused, in whichever words it did."""

from __future__ import annotations

import pytest

from kavka.cli.setting_hints import setting_hint, unknown_note
from kavka.config.broker_settings import BrokerSettings
from kavka.config.similar import similar_name
from kavka.config.topic import TopicSettings


@pytest.mark.parametrize(
    ("message", "problem", "next_step"),
    [
        (
            "Cannot update these configs dynamically: Set(num.partitions)",
            "num.partitions cannot be changed while the broker runs",
            "set it in the broker's file",
        ),
        (
            "Invalid config value for resource ConfigResource(type=TOPIC, name='t'): Invalid value 99999999999 for "
            "configuration segment.bytes: Not a number of type INT",
            "segment.bytes=99999999999: out of range",
            "segment.bytes takes a whole number from 14 to 2147483647",
        ),
        (
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
            "retention.ms=abc: not a number",
            "retention.ms takes a whole number from -1 to 9223372036854775807",
        ),
        (
            "Invalid value compct for configuration cleanup.policy: String must be one of: compact, delete",
            "cleanup.policy=compct: String must be one of: compact, delete",
            "cleanup.policy takes some of compact, delete",
        ),
        (
            "Unknown topic config name: retention.mss",
            "there is no setting retention.mss of topics",
            "did you mean retention.ms?",
        ),
        (
            "Unknown topic config name: num.partitions",
            "there is no setting num.partitions of topics",
            "it is a setting of brokers: name one with --broker",
        ),
        (
            "Unknown topic config name: log.retention.ms",
            "there is no setting log.retention.ms of topics",
            "it is the brokers' default for retention.ms, which topics have",
        ),
        (
            "Unknown topic config name: share.auto.offset.reset",
            "there is no setting share.auto.offset.reset of topics",
            "it is a setting of groups: name one with --group",
        ),
        (
            "Unknown group config name: share.auto.ofset.reset",
            "there is no setting share.auto.ofset.reset of groups",
            "did you mean share.auto.offset.reset?",
        ),
        (
            "Unknown group config name: group.share.session.timeout.ms",
            "there is no setting group.share.session.timeout.ms of groups",
            "the brokers' default is group.share.session.timeout.ms; a group's own is share.session.timeout.ms",
        ),
        (
            "Unknown group config name: retention.ms",
            "there is no setting retention.ms of groups",
            "it is a setting of topics: name one with --topic",
        ),
        (
            "Unknown group config name: num.partitions",
            "there is no setting num.partitions of groups",
            "it is a setting of brokers: name one with --broker",
        ),
        ("Unknown group config name: frobnicate", "there is no setting frobnicate of groups", "`kavka configs"),
        (
            "Invalid value 1 for configuration consumer.session.timeout.ms: Value must be at least 45 and at most 60",
            "consumer.session.timeout.ms=1: Value must be at least 45 and at most 60",
            "the brokers' group.consumer.min.session.timeout.ms and group.consumer.max.session.timeout.ms set these",
        ),
        (
            "Invalid value 9 for configuration streams.num.standby.replicas: Value must be at least 0 and at most 2",
            "streams.num.standby.replicas=9: Value must be at least 0 and at most 2",
            "the brokers' group.streams.max.standby.replicas sets this bound",
        ),
        (
            "Invalid value first for configuration share.auto.offset.reset: String must be one of: latest, earliest",
            "share.auto.offset.reset=first: String must be one of: latest, earliest",
            "share.auto.offset.reset takes text, in latest, earliest, by_duration",
        ),
        ("Unknown topic config name: frobnicate", "there is no setting frobnicate of topics", "`kavka configs"),
    ],
)
def test_kafkas_messages_become_a_problem_and_a_next_step(message: str, problem: str, next_step: str) -> None:
    hint = setting_hint(message)
    assert hint is not None
    assert hint.problem == problem
    assert hint.next_step.startswith(next_step)


@pytest.mark.parametrize(
    "message",
    [
        "Unexpected resource type UNKNOWN for resource workers",
        "Unsupported resource type: UNKNOWN",
        "Unknown resource type 32",
    ],
)
def test_a_cluster_without_settings_of_groups_is_called_that(message: str) -> None:
    """The words of Apache Kafka 3.9, which knows no such type: the first describes, the last changes."""
    hint = setting_hint(message)
    assert hint is not None
    assert hint.problem == "this cluster has no settings of groups"
    assert "Apache Kafka from 4.0 on" in hint.next_step


def test_other_messages_stay_as_they_are() -> None:
    assert setting_hint("Topic name is invalid: the empty string is not allowed") is None
    assert setting_hint("Invalid value 1 for configuration no.such.name: no") is None
    assert setting_hint("Unknown resource type 7") is None


def test_misspelt_names_are_recognized_and_others_are_not() -> None:
    for wrong, meant in (
        ("num.partition", "num.partitions"),
        ("min.insync.replica", "min.insync.replicas"),
        ("log.retention.mss", "log.retention.ms"),
        ("auto.create.topic.enable", "auto.create.topics.enable"),
    ):
        assert similar_name(wrong, BrokerSettings.rows) == meant
    assert similar_name("my.plugins.flag", BrokerSettings.rows) is None
    assert unknown_note("listener.name.internal.ssl.client.auth") is None
    assert unknown_note("share.auto.offset.reset") == (
        "share.auto.offset.reset is a setting of groups: name one with --group."
    )
    assert unknown_note("num.partition") == "kavka knows no setting num.partition; did you mean num.partitions?"


def test_no_setting_is_refused_with_what_it_would_take() -> None:
    for row in TopicSettings.rows.values():
        hint = setting_hint(f"Invalid value x for configuration {row.name}: no")
        assert hint is not None
        assert "None" not in hint.next_step
