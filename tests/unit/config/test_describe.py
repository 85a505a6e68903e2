"""DescribeConfigs' answers by hand; tests/conformance/config compares them with Apache Kafka's."""

from __future__ import annotations

from kavka.config import BrokerConfig
from kavka.config.describe import (
    ConfigSource,
    Synonym,
    broker_documentation,
    describe_broker,
    describe_broker_default,
    describe_client_metrics,
    describe_group,
    describe_topic,
    topic_documentation,
)

STATIC, DEFAULT = ConfigSource.STATIC_BROKER_CONFIG, ConfigSource.DEFAULT_CONFIG


def test_synonyms_stand_in_the_order_of_power() -> None:
    broker = BrokerConfig.from_properties(
        {"log.retention.ms": "3", "log.retention.hours": "2"},
        dynamic={"log.retention.ms": "5"},
        dynamic_default={"log.retention.ms": "4"},
    )
    (entry,) = describe_topic({"retention.ms": "6"}, broker, ["retention.ms"])
    assert entry.synonyms == (
        Synonym("retention.ms", "6", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        Synonym("log.retention.ms", "5", ConfigSource.DYNAMIC_BROKER_CONFIG),
        Synonym("log.retention.ms", "4", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        Synonym("log.retention.ms", "3", STATIC),
        Synonym("log.retention.hours", "2", STATIC),
        Synonym("log.retention.hours", "168", DEFAULT),
    )
    assert (entry.value, entry.source, entry.is_default) == ("6", ConfigSource.DYNAMIC_TOPIC_CONFIG, False)


def test_a_password_never_leaves() -> None:
    broker = BrokerConfig.from_properties({"ssl.keystore.password": "xyzzy", "my.secret": "hush"})
    entries = describe_broker(broker)
    assert "xyzzy" not in repr(entries)
    assert "hush" not in repr(entries)
    assert [e.name for e in entries if e.sensitive and e.source is STATIC] == ["ssl.keystore.password", "my.secret"]


def test_internal_settings_are_shown_once_they_are_set() -> None:
    name = "log.initial.task.delay.ms"
    assert describe_broker(BrokerConfig.from_properties({}), [name]) == []
    (entry,) = describe_broker(BrokerConfig.from_properties({name: "5"}), [name])
    assert (entry.value, entry.read_only) == ("5", True)


def test_kavkas_own_settings_are_described_too() -> None:
    (entry,) = describe_broker(BrokerConfig.from_properties({}), ["kavka.max.receiving.bytes"])
    assert (entry.value, entry.source) == (str(256 << 20), DEFAULT)
    assert broker_documentation(entry.name)


def test_the_default_of_all_brokers_has_only_what_is_set_at_run_time() -> None:
    broker = BrokerConfig.from_properties({"message.max.bytes": "9"}, dynamic_default={"message.max.bytes": "8"})
    (entry,) = describe_broker_default(broker)
    expected = Synonym("message.max.bytes", "8", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    assert (entry.value, entry.synonyms) == ("8", (expected,))
    assert describe_broker_default(broker, ["log.dirs"]) == []


def test_a_group_falls_back_to_the_brokers_settings() -> None:
    broker = BrokerConfig.from_properties({"group.consumer.session.timeout.ms": "50000"})
    names = ["consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "share.isolation.level"]
    session, heartbeat, isolation = sorted(
        describe_group({"consumer.heartbeat.interval.ms": "6000"}, broker, names), key=lambda e: names.index(e.name)
    )
    assert (session.value, session.source) == ("50000", STATIC)
    assert (heartbeat.value, heartbeat.source) == ("6000", ConfigSource.DYNAMIC_GROUP_CONFIG)
    assert (isolation.value, isolation.source) == ("read_uncommitted", DEFAULT)


def test_a_metrics_subscription() -> None:
    interval, match, metrics = describe_client_metrics({"metrics": "org.apache.kafka."})
    assert (interval.value, interval.source) == ("300000", DEFAULT)
    assert (match.value, metrics.value) == ("", "org.apache.kafka.")
    assert metrics.source is ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG


def test_documentation_of_unknown_names_is_missing() -> None:
    assert topic_documentation("no.such") is None
    assert broker_documentation("no.such") is None
    assert broker_documentation("listener.name.internal.max.connections") == broker_documentation("max.connections")
