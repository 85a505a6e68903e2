"""What groups and subscriptions to clients' metrics may set."""

from __future__ import annotations

import pytest

from kavka.config.alter import (
    Change,
    Operation,
    alter_client_metrics,
    alter_client_metrics_incrementally,
    alter_group,
    alter_group_incrementally,
)
from kavka.config.broker import BrokerConfig
from kavka.errors import RequestError

BROKER = BrokerConfig.from_properties({"zookeeper.connect": "localhost"})


def set_to(name: str, value: str | None) -> list[Change]:
    return [Change(name, Operation.SET, value)]


def test_a_group_sets_what_the_broker_allows() -> None:
    set_once = alter_group_incrementally("g", {}, set_to("consumer.session.timeout.ms", "50000"), BROKER)
    assert set_once == {"consumer.session.timeout.ms": "50000"}
    again = alter_group_incrementally("g", set_once, set_to("consumer.heartbeat.interval.ms", "6000"), BROKER)
    assert again == {**set_once, "consumer.heartbeat.interval.ms": "6000"}
    standbys = alter_group_incrementally("g", {}, set_to("streams.num.standby.replicas", "2"), BROKER)
    assert standbys == {"streams.num.standby.replicas": "2"}
    removal = [Change("consumer.session.timeout.ms", Operation.DELETE, None)]
    assert alter_group_incrementally("g", set_once, removal, BROKER) == {}


@pytest.mark.parametrize(
    ("group", "name", "value"),
    [
        ("", "consumer.session.timeout.ms", "50000"),
        ("g", "consumer.session.timeout.ms", "60001"),
        ("g", "consumer.session.timeout.ms", "44999"),
        ("g", "consumer.session.timeout.ms", "soon"),
        ("g", "consumer.session.timeout.ms", None),
        ("g", "retention.ms", "1"),
        ("g", "streams.session.timeout.ms", "60001"),
        ("g", "streams.heartbeat.interval.ms", "4999"),
        ("g", "streams.assignment.interval.ms", "15001"),
        ("g", "streams.num.standby.replicas", "3"),
        ("g", "streams.num.standby.replicas", "-1"),
        ("g", "streams.initial.rebalance.delay.ms", "-1"),
        ("g", "share.session.timeout.ms", "44999"),
        ("g", "share.heartbeat.interval.ms", "15001"),
        ("g", "share.assignment.interval.ms", "15001"),
        ("g", "share.record.lock.duration.ms", "14999"),
        ("g", "share.delivery.count.limit", "11"),
        ("g", "share.partition.max.record.locks", "4001"),
    ],
)
def test_a_group_sets_nothing_else(group: str, name: str, value: str | None) -> None:
    with pytest.raises(RequestError) as refused:
        alter_group_incrementally(group, {}, set_to(name, value), BROKER)
    with pytest.raises(RequestError) as refused_too:
        alter_group(group, [(name, value)], {}, BROKER)
    assert (refused_too.value.code, refused_too.value.message) == (refused.value.code, refused.value.message)


def test_all_that_a_group_or_a_subscription_sets_can_be_replaced_at_once() -> None:
    before = {"consumer.session.timeout.ms": "50000"}
    entries = [("consumer.heartbeat.interval.ms", "6000")]
    assert alter_group("g", entries, before, BROKER) == dict(entries)
    assert alter_group("g", [], before, BROKER) == {}
    assert alter_client_metrics("s", [("interval.ms", "1000")]) == {"interval.ms": "1000"}
    assert alter_client_metrics("s", []) == {}


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_a_session_is_longer_than_the_time_between_heartbeats(kind: str) -> None:
    session, interval = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
    broker = BrokerConfig.from_properties({f"group.{kind}.min.session.timeout.ms": "1000"})
    for texts, name, value in (
        ({}, session, "5000"),
        ({}, session, "4000"),
        ({session: "6000"}, interval, "6000"),
        ({interval: "7000"}, session, "7000"),
    ):
        with pytest.raises(RequestError, match="must be greater than"):
            alter_group_incrementally("g", texts, set_to(name, value), broker)
    assert alter_group_incrementally("g", {}, set_to(session, "5001"), broker) == {session: "5001"}


def test_a_subscription_says_what_of_whom_and_how_often() -> None:
    changes = [
        Change("metrics", Operation.SET, "org.apache.kafka.consumer."),
        Change("interval.ms", Operation.SET, "100"),
        Change("match", Operation.SET, "client_id=app-[0-9]+, client_source_port=4711"),
    ]
    said = alter_client_metrics_incrementally("s", {}, changes)
    assert said["interval.ms"] == "100"
    appended = alter_client_metrics_incrementally("s", said, [Change("metrics", Operation.APPEND, "x")])
    assert appended["metrics"] == "org.apache.kafka.consumer.,x"


@pytest.mark.parametrize(
    ("subscription", "name", "value"),
    [
        ("", "interval.ms", "1000"),
        ("s", "interval.ms", "99"),
        ("s", "interval.ms", "3600001"),
        ("s", "match", "client_id"),
        ("s", "match", "client_id=("),
        ("s", "match", "colour=red"),
        ("s", "match", f"client_id={'x' * 1001}"),
        ("s", "retention.ms", "1"),
    ],
)
def test_a_subscription_says_nothing_else(subscription: str, name: str, value: str) -> None:
    with pytest.raises(RequestError):
        alter_client_metrics_incrementally(subscription, {}, set_to(name, value))
    with pytest.raises(RequestError):
        alter_client_metrics(subscription, [(name, value)])
