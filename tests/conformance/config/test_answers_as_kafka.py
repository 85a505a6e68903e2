"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and CreateTopics: Apache Kafka 3.9, running, against ours.

Each case is sent to Kafka and given to `kavka.config`; codes, words, values, sources, synonyms have to be the same.
What differs on purpose stands in the tables named DIFFERENT, with its reason.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kavka.config import BrokerConfig
from kavka.config.alter import (
    Change,
    alter_broker,
    alter_broker_incrementally,
    alter_topic,
    alter_topic_incrementally,
    is_this_broker,
)
from kavka.config.broker_settings import BrokerSettings
from kavka.config.describe import (
    ConfigEntry,
    broker_documentation,
    describe_broker,
    describe_broker_default,
    describe_topic,
    topic_documentation,
)
from kavka.config.effect import IDLE_IN_KAFKA_TOO, Effect, standing, start_only, without_effect
from kavka.config.properties import parse_properties
from kavka.config.setting import AnySetting, Type
from kavka.config.topic import TopicSettings, validate_overrides
from kavka.errors import ConfigError, RequestError
from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.conformance.config.kafka_configs import BROKER, BROKER_ID, TOPIC, Answer, KafkaConfigs

pytestmark = pytest.mark.kafka
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
INVALID_CONFIG, INVALID_REQUEST, UNKNOWN_SERVER_ERROR = 40, 42, -1
EXTRA = {
    "log.retention.minutes": "5000",
    "log.roll.hours": "100",
    "my.own.setting": "abc",
    "ssl.keystore.password": "secret",
    "message.max.bytes": "2000000",
    "authorizer.class.name": "",
    "log.cleanup.policy": "compact, delete",
    "listener.name.plaintext.max.connections": "50",
    "listener.name.plaintext.plain.sasl.jaas.config": "hidden",
}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    try:
        broker = ApacheKafka(tmp_path_factory.mktemp("configs") / "zk", settings=EXTRA, heap="-Xmx512M -Xms256M")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with broker:
        yield broker


@pytest.fixture(scope="module")
def peer(kafka: ApacheKafka) -> Iterator[KafkaConfigs]:
    client = KafkaConfigs(kafka.bootstrap)
    yield client
    client.close()


@pytest.fixture(scope="module")
def ours(kafka: ApacheKafka) -> BrokerConfig:
    return BrokerConfig.from_properties(parse_properties((kafka.data_dir / "broker-1.properties").read_text()))


def new_topic(peer: KafkaConfigs, overrides: dict[str, str | None] | None = None) -> str:
    topic = f"topic-{next(_numbers)}"
    assert peer.create_topic(topic, overrides or {}) == Answer(0, None)
    return topic


def as_kafka_shows(entry: ConfigEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.read_only,
        "config_source": int(entry.source),
        "is_sensitive": entry.sensitive,
        "config_type": int(entry.type_code),
        "synonyms": [{"name": s.name, "value": s.value, "source": int(s.source)} for s in entry.synonyms],
    }


def assert_same(entries: list[ConfigEntry], kafka: dict[str, dict[str, Any]]) -> None:
    """Same names, and for each the same answer but for the documentation, which is in our own words."""
    assert {entry.name for entry in entries} == set(kafka)
    for entry in entries:
        answer = {name: value for name, value in kafka[entry.name].items() if name != "documentation"}
        assert as_kafka_shows(entry) == answer


def shown_by_3_9(ours: BrokerConfig, entries: list[ConfigEntry]) -> list[ConfigEntry]:
    """Without what only 4.x or kavka has: kavka answers for these as well, on purpose."""
    rows = {**TopicSettings.rows, **ours.rows}
    return [e for e in entries if not (e.name.startswith("kavka.") or (e.name in rows and rows[e.name].newer))]


def with_newer_groups(configs: dict[str, Any]) -> dict[str, Any]:
    """What 3.9 would say if it served groups of the newer protocols, as 4.x and kavka do."""
    for name, default in {
        "group.coordinator.rebalance.protocols": "classic,consumer,streams",
        "group.share.partition.max.record.locks": "2000",
    }.items():
        served = configs[name]
        served["value"] = default
        for synonym in served["synonyms"]:
            synonym["value"] = default
    return configs


def judged(alter: Callable[[], dict[str, str]]) -> tuple[Answer, dict[str, str] | None]:
    """What our room answers to a change, and what it makes of the settings; None where it refuses."""
    try:
        return Answer(0, None), alter()
    except RequestError as refused:
        return Answer(refused.code, refused.message), None


def eventually(condition: Callable[[], bool]) -> None:
    """Waits until Kafka has read its own change back from ZooKeeper."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "Kafka did not take the change over in 60 s"
        time.sleep(0.05)


# DescribeConfigs


def test_a_broker_is_described_as_by_kafka(peer: KafkaConfigs, ours: BrokerConfig) -> None:
    answer, configs = peer.describe(BROKER, "1")
    assert answer.code == 0
    assert_same(shown_by_3_9(ours, describe_broker(ours)), with_newer_groups(configs))
    for name, config in configs.items():
        assert bool(broker_documentation(name)) or not config["documentation"], name


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"flush.ms": "1000", "cleanup.policy": "delete , compact", "segment.bytes": " 100 "},
        {"retention.ms": "-1", "segment.ms": "5", "segment.jitter.ms": "1", "min.cleanable.dirty.ratio": "0.25"},
        {"leader.replication.throttled.replicas": "0:1,1:2", "preallocate": "TRUE", "max.message.bytes": "+7"},
    ],
)
def test_a_topic_is_described_as_by_kafka(peer: KafkaConfigs, ours: BrokerConfig, overrides: dict[str, str]) -> None:
    answer, configs = peer.describe(TOPIC, new_topic(peer, dict(overrides)))
    assert answer.code == 0
    assert_same(shown_by_3_9(ours, describe_topic(overrides, ours)), configs)
    assert all(topic_documentation(name) for name in configs)


def test_chosen_names_only(peer: KafkaConfigs, ours: BrokerConfig) -> None:
    topic = new_topic(peer)
    for names in (["flush.ms", "no.such"], []):  # an empty list means all to Kafka, against its protocol's words
        assert_same(shown_by_3_9(ours, describe_topic({}, ours, names)), peer.describe(TOPIC, topic, names)[1])
    names = ["log.retention.ms", "broker.id", "my.own.setting"]
    assert_same(describe_broker(ours, names), peer.describe(BROKER, "1", names)[1])


@pytest.mark.parametrize("name", ["2", "abc", "-5"])
def test_another_brokers_name_is_refused_as_by_kafka(peer: KafkaConfigs, name: str) -> None:
    kafka = peer.describe(BROKER, name)[0]
    with pytest.raises(RequestError) as refused:
        is_this_broker(name, BROKER_ID, describing=True)
    assert Answer(refused.value.code, refused.value.message) == kafka
    kafka = peer.alter_incrementally(BROKER, name, [], validate=True)
    with pytest.raises(RequestError) as refused:
        is_this_broker(name, BROKER_ID)
    assert Answer(refused.value.code, refused.value.message) == kafka


def test_changes_at_run_time_are_described_as_by_kafka(peer: KafkaConfigs, ours: BrokerConfig) -> None:
    per_broker = {
        "log.retention.ms": "10000",
        "message.max.bytes": "1500000",
        "leader.replication.throttled.rate": "1000",
        "not.a.setting": "x",
    }
    default = {"log.retention.ms": "20000", "log.flush.interval.ms": "4"}
    topic = new_topic(peer, {"flush.ms": "77"})
    assert peer.alter(BROKER, "1", list(per_broker.items()), validate=False).code == 0
    assert peer.alter(BROKER, "", list(default.items()), validate=False).code == 0
    try:
        eventually(lambda: peer.describe(BROKER, "1")[1]["log.flush.interval.ms"]["value"] == "4")
        eventually(lambda: peer.describe(BROKER, "1")[1]["log.retention.ms"]["value"] == "10000")
        changed = ours.with_dynamic(dynamic=per_broker, dynamic_default=default)
        kafka = peer.describe(BROKER, "1")[1]
        # Kafka forgets the file's text for a setting once a stronger synonym is set at run time; kavka keeps it.
        assert kafka["log.retention.minutes"]["value"] is None
        kafka["log.retention.minutes"]["value"] = "5000"
        assert_same(shown_by_3_9(ours, describe_broker(changed)), with_newer_groups(kafka))
        assert_same(describe_broker_default(changed), peer.describe(BROKER, "")[1])
        assert_same(shown_by_3_9(ours, describe_topic({"flush.ms": "77"}, changed)), peer.describe(TOPIC, topic)[1])
    finally:
        assert peer.alter(BROKER, "1", [], validate=False).code == 0
        assert peer.alter(BROKER, "", [], validate=False).code == 0
        eventually(lambda: peer.describe(BROKER, "1")[1]["log.retention.ms"]["value"] is None)


# CreateTopics

CREATED_WITH: list[dict[str, str | None]] = [
    {"nope": "1"},
    {"": "x"},
    {"segment.bytes": "13"},
    {"segment.bytes": "14"},
    {"segment.bytes": "abc"},
    {"segment.bytes": ""},
    {"segment.bytes": "1_000"},
    {"segment.bytes": "+1000"},
    {"segment.bytes": "0x10"},
    {"segment.bytes": "2147483647"},
    {"segment.bytes": "2147483648"},
    {"retention.ms": "9223372036854775807"},
    {"retention.ms": "9223372036854775808"},
    {"retention.ms": "-2"},
    {"retention.ms": None},
    {"cleanup.policy": "foo"},
    {"cleanup.policy": ""},
    {"cleanup.policy": "delete,delete"},
    {"cleanup.policy": "compact, delete"},
    {"min.insync.replicas": "0"},
    {"preallocate": "yes"},
    {"preallocate": " TRUE "},
    {"compression.type": "lzo"},
    {"compression.type": ""},
    {"compression.gzip.level": "0"},
    {"compression.gzip.level": "-1"},
    {"compression.zstd.level": "23"},
    {"min.cleanable.dirty.ratio": "1.5"},
    {"min.cleanable.dirty.ratio": "-0.1"},
    {"min.cleanable.dirty.ratio": "x"},
    {"min.cleanable.dirty.ratio": "0.5d"},
    {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "50"},
    {"message.timestamp.type": "createtime"},
    {"message.timestamp.difference.max.ms": "-1"},
    {"message.format.version": "1.0"},
    {"message.format.version": "3.9-IV0"},
    {"message.format.version": "9.9"},
    {"leader.replication.throttled.replicas": "abc"},
    {"leader.replication.throttled.replicas": "*"},
    {"leader.replication.throttled.replicas": "0:1,"},
    {"leader.replication.throttled.replicas": "0:1, x"},
    {"local.retention.ms": "-3"},
    {"remote.storage.enable": "true"},
    {"remote.log.copy.disable": "true"},
    {"remote.log.copy.disable": "false"},
    {"flush.messages": "0"},
    {"unclean.leader.election.enable": ""},
]


@pytest.mark.parametrize("overrides", CREATED_WITH, ids=str)
def test_a_new_topics_overrides_are_judged_as_by_kafka(
    peer: KafkaConfigs, ours: BrokerConfig, overrides: dict[str, str | None]
) -> None:
    answer = Answer(0, None)
    try:
        validate_overrides(overrides, ours)
    except ConfigError as refused:
        answer = Answer(INVALID_CONFIG, str(refused))
    assert answer == peer.create_topic(f"topic-{next(_numbers)}", overrides)


@pytest.mark.parametrize("overrides", [{"local.retention.ms": "10"}, {"local.retention.bytes": "10"}], ids=str)
def test_what_kafka_takes_though_it_has_no_remote_storage_is_refused(
    peer: KafkaConfigs, ours: BrokerConfig, overrides: dict[str, str | None]
) -> None:
    assert peer.create_topic(f"topic-{next(_numbers)}", overrides) == Answer(0, None)
    with pytest.raises(ConfigError, match=r"There is no remote log storage\. Only retention"):
        validate_overrides(overrides, ours)


# AlterConfigs

REPLACED_WITH: list[list[tuple[str, str | None]]] = [
    [],
    [("flush.ms", "5"), ("retention.ms", "100")],
    [("flush.ms", " 6 ")],
    [("nope", "1")],
    [("flush.ms", "x")],
    [("flush.ms", None), ("retention.ms", None)],
    [("segment.bytes", "1")],
    [("flush.ms", "1"), ("flush.ms", "2")],
    [("min.compaction.lag.ms", "100"), ("max.compaction.lag.ms", "50")],
    [("remote.storage.enable", "true")],
    [("leader.replication.throttled.replicas", "abc")],
]


@pytest.mark.parametrize("entries", REPLACED_WITH, ids=str)
def test_a_topic_is_altered_as_by_kafka(
    peer: KafkaConfigs, ours: BrokerConfig, entries: list[tuple[str, str | None]]
) -> None:
    topic = new_topic(peer, {"index.interval.bytes": "9"})
    kafka = peer.alter(TOPIC, topic, entries, validate=False)
    answer, overrides = judged(lambda: alter_topic(topic, entries, ours))
    assert answer == kafka
    assert_topic_becomes(peer, topic, {"index.interval.bytes": "9"} if overrides is None else overrides, ours)


def test_a_topic_resource_without_a_name_is_refused_as_by_kafka(peer: KafkaConfigs, ours: BrokerConfig) -> None:
    kafka = peer.alter(TOPIC, "", [("flush.ms", "1")], validate=False)
    with pytest.raises(RequestError) as refused:
        alter_topic("", [("flush.ms", "1")], ours)
    assert Answer(refused.value.code, refused.value.message) == kafka
    with pytest.raises(RequestError) as refused:
        alter_topic_incrementally("", {}, [Change("flush.ms", SET, "1")], ours)
    assert Answer(refused.value.code, refused.value.message) == kafka


# IncrementalAlterConfigs

CHANGED_BY: list[list[tuple[str, int, str | None]]] = [
    [],
    [("flush.ms", SET, "5"), ("flush.ms", SET, "6")],
    [("flush.ms", SET, None), ("retention.ms", APPEND, None)],
    [("flush.ms", SET, "x")],
    [("flush.ms", SET, " 77 ")],
    [("flush.ms", DELETE, None)],
    [("index.interval.bytes", DELETE, "ignored")],
    [("flush.ms", APPEND, "5")],
    [("flush.ms", SUBTRACT, "5")],
    [("nope", SET, "1")],
    [("nope", DELETE, None)],
    [("cleanup.policy", APPEND, "compact")],
    [("cleanup.policy", APPEND, "delete")],
    [("cleanup.policy", APPEND, "foo")],
    [("cleanup.policy", SUBTRACT, "compact")],
    [("cleanup.policy", SUBTRACT, "delete")],
    [("cleanup.policy", SET, "compact , delete")],
    [("leader.replication.throttled.replicas", APPEND, "0:1")],
    [("follower.replication.throttled.replicas", APPEND, "1:2,3:4")],
    [("follower.replication.throttled.replicas", APPEND, "1:2, 3:4")],
    [("follower.replication.throttled.replicas", SUBTRACT, "1:2")],
    [("follower.replication.throttled.replicas", SUBTRACT, "5:6")],
    [("flush.ms", SET, "5"), ("retention.ms", SET, "6"), ("segment.bytes", SET, "1")],
]


@pytest.mark.parametrize("changes", CHANGED_BY, ids=str)
def test_a_topic_is_altered_incrementally_as_by_kafka(
    peer: KafkaConfigs, ours: BrokerConfig, changes: list[tuple[str, int, str | None]]
) -> None:
    before = {"index.interval.bytes": "9", "follower.replication.throttled.replicas": "1:2,7:8"}
    topic = new_topic(peer, dict(before))
    kafka = peer.alter_incrementally(TOPIC, topic, changes, validate=False)
    wanted = [Change(*change) for change in changes]
    answer, overrides = judged(lambda: alter_topic_incrementally(topic, before, wanted, ours))
    assert answer == kafka
    assert_topic_becomes(peer, topic, before if overrides is None else overrides, ours)


DIFFERENT: list[tuple[list[tuple[str, int, str | None]], Answer]] = [
    ([("nope", APPEND, "1")], Answer(INVALID_CONFIG, "Unknown config name: nope")),
    ([("nope", SUBTRACT, "1")], Answer(INVALID_CONFIG, "Unknown config name: nope")),
    ([("flush.ms", 7, "1")], Answer(INVALID_REQUEST, "Unknown operation 7 for config key: flush.ms")),
]


@pytest.mark.parametrize(("changes", "answer"), DIFFERENT, ids=str)
def test_where_kafka_fails_without_a_word_kavka_says_why(
    peer: KafkaConfigs, ours: BrokerConfig, changes: list[tuple[str, int, str | None]], answer: Answer
) -> None:
    kafka = peer.alter_incrementally(TOPIC, new_topic(peer), changes, validate=False)
    assert kafka == Answer(UNKNOWN_SERVER_ERROR, None)
    with pytest.raises(RequestError) as refused:
        alter_topic_incrementally("t", {}, [Change(*change) for change in changes], ours)
    assert Answer(refused.value.code, refused.value.message) == answer


def assert_topic_becomes(peer: KafkaConfigs, topic: str, overrides: dict[str, str], ours: BrokerConfig) -> None:
    expected = {entry.name: entry.value for entry in describe_topic(overrides, ours) if entry.source == 1}

    def overridden() -> dict[str, str | None]:
        configs = peer.describe(TOPIC, topic)[1]
        return {name: config["value"] for name, config in configs.items() if config["config_source"] == 1}

    eventually(lambda: overridden() == expected)


BROKER_SET_TO: list[dict[str, str]] = [
    {"log.retention.ms": "10000"},
    {"log.retention.ms": "abc"},
    {"log.retention.ms": "-2"},
    {"log.retention.hours": "10"},
    {"broker.id": "10"},
    {"nope": "10"},
    {"num.io.threads": "100"},
    {"num.io.threads": "2"},
    {"num.io.threads": "0"},
    {"num.replica.fetchers": "0"},
    {"num.replica.fetchers": "2"},
    {"log.cleaner.threads": "5"},
    {"log.cleaner.threads": "2"},
    {"max.connections": "-1"},
    {"max.connections.per.ip.overrides": "127.0.0.1:5,localhost:6"},
    {"max.connections.per.ip.overrides": "a b:5,127.0.0.1:6,[::1]:7"},
    {"max.connections.per.ip.overrides": "no.such.host.invalid:5,::1:6"},
    {"ssl.keystore.location": "/x"},
    {"flush.ms": "1"},
    {"leader.replication.throttled.rate": "1000"},
    {"log.message.timestamp.type": "x"},
    {"min.insync.replicas": "0"},
    {"min.insync.replicas": "2"},
    {"unclean.leader.election.enable": "true"},
    {"compression.type": "bad"},
    {"log.flush.interval.ms": "0"},
    {"listener.name.plaintext.max.connections": "4"},
    {"listener.name.foo.max.connections": "x"},
    {"remote.log.manager.copy.max.bytes.per.second": "0"},
]
JAVA_AROUND_A_REFUSAL = (
    "Invalid value org.apache.kafka.common.config.ConfigException: ",
    (" for configuration Invalid dynamic configuration"),
)


@pytest.mark.parametrize("resource", ["1", ""])
@pytest.mark.parametrize("texts", BROKER_SET_TO, ids=str)
def test_a_broker_is_altered_as_by_kafka(
    peer: KafkaConfigs, ours: BrokerConfig, resource: str, texts: dict[str, str]
) -> None:
    """Kafka wraps some refusals into Java's class names; kavka answers with what is inside."""
    kafka = peer.alter_incrementally(BROKER, resource, [(n, SET, v) for n, v in texts.items()], validate=True)
    if kafka.message and kafka.message.startswith(JAVA_AROUND_A_REFUSAL[0]):
        inside = kafka.message.removeprefix(JAVA_AROUND_A_REFUSAL[0]).removesuffix(JAVA_AROUND_A_REFUSAL[1])
        kafka = kafka._replace(message=inside)
    if kafka.message:
        kafka = kafka._replace(message=kafka.message.replace("HashSet(", "Set("))
    changes = [Change(name, SET, value) for name, value in texts.items()]
    entries = list(texts.items())
    expected = (kafka, texts if kafka.code == 0 else None)
    per_broker = bool(resource)
    assert judged(lambda: alter_broker_incrementally(changes, {}, ours, per_broker=per_broker)) == expected
    assert judged(lambda: alter_broker(entries, {}, ours, per_broker=per_broker)) == expected


OF_A_KIND = {
    "advertised.listeners": "PLAINTEXT://127.0.0.1:9092",
    "ssl.engine.factory.class": "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory",
}


def a_value_of(row: AnySetting) -> str:
    """One that Kafka can make something of."""
    if row.name in OF_A_KIND:
        return OF_A_KIND[row.name]
    if row.default is not None:
        return row.format(row.default) or ""
    return "1000" if row.kind in (Type.INT, Type.SHORT, Type.LONG, Type.DOUBLE) else "some"


@pytest.mark.parametrize("resource", ["1", ""])
def test_every_setting_is_changed_as_by_kafka_or_the_reason_is_given(
    peer: KafkaConfigs, ours: BrokerConfig, resource: str
) -> None:
    """What Kafka refuses is refused with the same words; what it takes is taken, or is known not to change here."""
    for name, row in BrokerSettings.rows.items():
        if row.newer or name.startswith("kavka."):
            continue
        value = a_value_of(row)
        kafka = peer.alter_incrementally(BROKER, resource, [(name, SET, value)], validate=True)
        answer, _ = judged(
            lambda: alter_broker([(name, value)], {}, ours, per_broker=bool(resource))  # noqa: B023
        )
        if kafka.code != 0:
            words = (kafka.message or "").replace("HashSet(", "Set(")
            assert (name, answer) == (name, Answer(kafka.code, words))
        elif answer.code != 0:
            is_refused = standing(name, BrokerSettings).effect is Effect.REFUSED
            assert name not in IDLE_IN_KAFKA_TOO
            assert row.sensitive or without_effect(name) or start_only(name) or is_refused, (name, answer)


NOT_CHANGED_HERE = [
    # Kafka takes them. Here nothing would follow, and the answer says so.
    ({"num.io.threads": "9"}, "num.io.threads would have no effect: One thread"),
    ({"background.threads": "11"}, "background.threads would have no effect: One thread"),
    ({"listener.name.foo.ssl.client.auth": "none"}, "This broker has no listener foo"),
    ({"listener.name.foo.max.connections": "4"}, "This broker has no listener foo"),
    ({"listener.name.foo.ssl.protocol": "TLSv1.2"}, "This broker has no listener foo"),
    ({"listeners": "PLAINTEXT://127.0.0.1:9999"}, "A running broker keeps the listeners that it began with. Set it in"),
    ({"remote.log.manager.copy.max.bytes.per.second": "10"}, "It governs remote log storage"),
    ({"log.local.retention.bytes": "10", "log.retention.bytes": "50"}, "There is no remote log storage"),
]


@pytest.mark.parametrize(("texts", "words"), NOT_CHANGED_HERE, ids=str)
def test_changes_after_which_nothing_would_be_different_are_refused_with_the_reason(
    peer: KafkaConfigs, ours: BrokerConfig, texts: dict[str, str], words: str
) -> None:
    assert peer.alter_incrementally(BROKER, "1", [(n, SET, v) for n, v in texts.items()], validate=True).code == 0
    with pytest.raises(RequestError) as refused:
        alter_broker(list(texts.items()), {}, ours, per_broker=True)
    assert refused.value.code == INVALID_REQUEST
    assert words in refused.value.message


WORDED_DIFFERENTLY = [
    # Kafka's words are those of a Java assertion.
    ({"log.retention.ms": "0"}, "Invalid value 0 for configuration log.retention.ms: Value must be unlimited"),
    ({"log.roll.ms": "0"}, "Invalid value 0 for configuration log.roll.ms: Value must be at least 1"),
    # Kafka: For input string: "x".
    ({"max.connections.per.ip.overrides": "127.0.0.1:x"}, "'127.0.0.1:x' is not host:number"),
    # Kafka has rules for what is not supported here at all.
    ({"log.local.retention.ms": "1000000000000"}, "There is no remote log storage"),
    ({"log.local.retention.bytes": "100", "log.retention.bytes": "50"}, "There is no remote log storage"),
    # Kafka's words begin with "requirement failed".
    ({"max.connections.per.ip": "0"}, "Value can be 0 only where max.connections.per.ip.overrides is set"),
    # Kafka names the class that it could not load.
    ({"metric.reporters": "a.b.C"}, "Set(metric.reporters) failed: no such class"),
]


@pytest.mark.parametrize(("texts", "words"), WORDED_DIFFERENTLY, ids=str)
def test_refusals_in_other_words(peer: KafkaConfigs, ours: BrokerConfig, texts: dict[str, str], words: str) -> None:
    kafka = peer.alter_incrementally(BROKER, "1", [(n, SET, v) for n, v in texts.items()], validate=True)
    with pytest.raises(RequestError) as refused:
        alter_broker(list(texts.items()), {}, ours, per_broker=True)
    assert refused.value.code == kafka.code
    assert words in refused.value.message
