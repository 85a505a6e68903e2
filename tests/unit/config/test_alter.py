"""Altering by hand; tests/conformance/config compares many more cases with Apache Kafka."""

from __future__ import annotations

import pytest

from kavka.config import BrokerConfig, TopicConfig
from kavka.config.alter import (
    Change,
    Operation,
    alter_broker,
    alter_broker_incrementally,
    alter_topic,
    alter_topic_incrementally,
    is_this_broker,
    usable_at_run_time,
)
from kavka.errors import ErrorCode, RequestError

BROKER = BrokerConfig.from_properties({"log.cleanup.policy": "compact"})


def test_a_replacement_forgets_what_it_does_not_name() -> None:
    assert alter_topic("t", [("flush.ms", "5")], BROKER) == {"flush.ms": "5"}
    assert alter_topic("t", [], BROKER) == {}


def test_an_increment_keeps_what_it_does_not_name() -> None:
    changes = [Change("flush.ms", Operation.DELETE, None), Change("segment.ms", Operation.SET, "7")]
    altered = alter_topic_incrementally("t", {"flush.ms": "1", "retention.ms": "2"}, changes, BROKER)
    assert altered == {"retention.ms": "2", "segment.ms": "7"}
    assert TopicConfig(altered, BROKER).segment_ms == 7


def test_a_list_grows_from_kafkas_default_not_from_the_brokers_setting() -> None:
    append = [Change("cleanup.policy", Operation.APPEND, "compact")]
    assert alter_topic_incrementally("t", {}, append, BROKER) == {"cleanup.policy": "delete,compact"}


def test_subtracting_takes_one_of_each() -> None:
    subtract = [Change("leader.replication.throttled.replicas", Operation.SUBTRACT, "0:1, 9:9")]
    current = {"leader.replication.throttled.replicas": "0:1,1:2,0:1"}
    assert alter_topic_incrementally("t", current, subtract, BROKER) == {
        "leader.replication.throttled.replicas": "1:2,0:1"
    }


def test_a_refused_change_leaves_what_was_there() -> None:
    current = {"flush.ms": "1"}
    with pytest.raises(RequestError) as refused:
        alter_topic_incrementally("t", current, [Change("flush.ms", Operation.SET, "x")], BROKER)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert current == {"flush.ms": "1"}


def test_what_is_set_at_run_time_for_a_broker_grows_from_what_was_set() -> None:
    append = [Change("log.cleanup.policy", Operation.APPEND, "delete")]
    current = {"log.cleanup.policy": "compact"}
    expected = {"log.cleanup.policy": "compact,delete"}
    assert alter_broker_incrementally(append, current, BROKER, per_broker=True) == expected
    assert alter_broker_incrementally(append, {}, BROKER, per_broker=False) == {"log.cleanup.policy": "delete"}


def test_what_another_broker_set_meanwhile_stays() -> None:
    # 1. Another broker sets message.max.bytes for all. 2. This one is asked to set another, and was not told yet.
    change = [Change("log.retention.ms", Operation.SET, "5")]
    current = {"message.max.bytes": "7", "num.io.threads": "16"}
    after = alter_broker_incrementally(change, current, BROKER, per_broker=False)
    assert after == {**current, "log.retention.ms": "5"}


def test_of_what_is_found_the_usable_is_obeyed_and_the_rest_named() -> None:
    found = {
        "log.retention.ms": "5",
        "num.io.threads": "16",
        "my.own.setting": "x",
        "listeners": "PLAINTEXT://:1",
        "log.segment.bytes": "many",
        "broker.rack": "r",
        "log.local.retention.ms": "5",
    }
    usable, refused = usable_at_run_time(found, per_broker=True)
    assert usable == {"log.retention.ms": "5", "num.io.threads": "16", "my.own.setting": "x"}
    assert refused == {
        "listeners": "A running broker keeps the listeners that it began with.",
        "log.segment.bytes": "Invalid value many for configuration log.segment.bytes: Not a number of type INT",
        "broker.rack": "Cannot update these configs dynamically: Set(broker.rack)",
        "log.local.retention.ms": refused["log.local.retention.ms"],
    }
    assert "There is no remote log storage" in refused["log.local.retention.ms"]


def test_passwords_are_not_taken_at_run_time() -> None:
    with pytest.raises(RequestError, match="put them into the broker's file") as refused:
        alter_broker([("listener.name.plaintext.ssl.keystore.password", "x")], {}, BROKER, per_broker=True)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_throttles_may_be_set_for_all_brokers() -> None:
    rates = [("leader.replication.throttled.rate", "5")]
    assert alter_broker(rates, {}, BROKER, per_broker=False) == dict(rates)


def test_which_broker_a_name_means() -> None:
    assert is_this_broker("7", 7)
    assert not is_this_broker("", 7)
    for name in ("8", "x", "1e3"):
        with pytest.raises(RequestError):
            is_this_broker(name, 7)
