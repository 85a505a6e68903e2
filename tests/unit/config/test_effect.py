"""Every setting is in force, or marked with the reason why it is not; what is not supported is refused everywhere."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from kavka.config import BrokerConfig, effect
from kavka.config.alter import Change, Operation, alter_broker_incrementally, alter_topic_incrementally
from kavka.config.broker_settings import BrokerSettings, DynamicOnlySettings
from kavka.config.describe import broker_documentation, topic_documentation
from kavka.config.effect import Effect, standing
from kavka.config.group import BOUNDED
from kavka.config.setting import AnySetting, InvalidValue, Mode, Type
from kavka.config.topic import TopicConfig, TopicSetting, TopicSettings, unusable_overrides, validate_overrides
from kavka.errors import ConfigError, ErrorCode, RequestError

SOURCES = Path(effect.__file__).resolve().parents[1]
TABLES_AND_RULES = ("broker_settings.py", "documentation.py", "effect.py", "describe.py", "alter.py", "setting.py")
"""Modules of config/ in which a setting's name says nothing about who obeys it."""
HOLDERS = ("config", "configs", "broker_config", "static", "changed", "topic", "self", "settings")
"""What values of settings are read from: `config.x`, `self.config.x`, `ports.config().x`, `configs.topic(name).x`."""


@cache
def read_by_code(*, in_config: bool) -> frozenset[str]:
    """Attributes that the code inside or outside of config/ reads of something that may hold settings, and all texts
    that may name one."""
    found: set[str] = set()
    for path in SOURCES.rglob("*.py"):
        if (path.parent.name == "config") is not in_config or "messages" in path.parts:
            continue
        if not in_config or path.name not in TABLES_AND_RULES:
            found.update(_read_in(ast.parse(path.read_text()), self_counts=in_config))
    return frozenset(found)


def _read_in(tree: ast.AST, *, self_counts: bool) -> Iterator[str]:
    docstrings = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            holder = _last_name(node.value)
            if holder in HOLDERS and (holder != "self" or self_counts):
                yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.removeprefix("_").removesuffix("_config") or name
        case ast.Call(func=called):
            return _last_name(called)
    return ""


def is_read(row: AnySetting) -> bool:
    return any(
        word in read_by_code(in_config=in_config) for word in (row.attribute, row.name) for in_config in (True, False)
    )


def broker_rows_of_topics() -> dict[str, TopicSetting[object]]:
    return {
        row.broker_setting: row
        for row in TopicSettings.rows.values()
        if isinstance(row, TopicSetting) and row.broker_setting is not None
    }


@pytest.mark.parametrize("name", BrokerSettings.rows)
def test_a_brokers_setting_is_read_by_the_code_or_marked(name: str) -> None:
    row = BrokerSettings.rows[name]
    if standing(name, BrokerSettings).effect in (Effect.NONE, Effect.REFUSED):
        return
    for_topics = broker_rows_of_topics().get(name)
    assert is_read(row if for_topics is None else for_topics) or is_held_for_groups(name)


def is_held_for_groups(name: str) -> bool:
    """Whether code outside of config/ asks `config.group.held` for it, by the name that it has for a group."""
    for_a_group = name.removeprefix("group.")
    return for_a_group in BOUNDED and for_a_group in read_by_code(in_config=False)


@pytest.mark.parametrize("name", TopicSettings.rows)
def test_a_topics_setting_is_read_by_the_code_or_marked(name: str) -> None:
    marked = standing(name, TopicSettings).effect is not Effect.IN_FORCE
    row = TopicSettings.rows[name]
    assert marked or is_read(row)


@pytest.mark.parametrize("name", DynamicOnlySettings.rows)
def test_a_setting_of_run_time_only_is_read_by_the_code(name: str) -> None:
    assert name in read_by_code(in_config=False)


def test_what_is_marked_as_without_effect_is_not_read_by_the_code() -> None:
    for name, row in BrokerSettings.rows.items():
        if standing(name, BrokerSettings).effect is Effect.NONE:
            assert row.attribute not in read_by_code(in_config=False), f"{name} is read: take its mark out of effect.py"


def test_each_mark_belongs_to_a_row_and_no_row_has_two() -> None:
    marks = [
        *(name for _, names in effect._WITHOUT_EFFECT for name in names.split()),
        *effect._REFUSED,
        *effect._START_ONLY,
    ]
    assert [name for name, times in Counter(marks).items() if times > 1] == []
    assert set(marks) <= set(BrokerSettings.rows)
    of_topics = [*(name for _, names in effect._TOPIC_WITHOUT_EFFECT for name in names.split()), *effect._TOPIC_REFUSED]
    assert [name for name, times in Counter(of_topics).items() if times > 1] == []
    assert set(of_topics) <= set(TopicSettings.rows)


def test_every_mark_says_why_in_sentences() -> None:
    for table in (BrokerSettings, TopicSettings):
        for name in table.rows:
            found = standing(name, table)
            if found.effect in (Effect.NONE, Effect.REFUSED):
                assert found.why.endswith("."), name
                assert found.why[0].isupper(), name


def another_value(row: AnySetting) -> str:
    """A value in range that is not the default."""
    match row.kind:
        case Type.BOOLEAN:
            return "false" if row.default else "true"
        case Type.INT | Type.LONG:
            return "7"
        case Type.LIST if row.name == "process.roles":
            return "broker"
        case _:
            return "com.example.Other"


@pytest.mark.parametrize("name", effect._REFUSED)
def test_what_is_not_supported_is_refused_at_start_with_the_consequence(name: str) -> None:
    row, refusal = BrokerSettings.rows[name], effect._REFUSED[name]
    text = another_value(row)
    with pytest.raises(InvalidValue) as refused:
        BrokerConfig.from_properties({name: text})
    assert str(refused.value) == f"Invalid value {text} for configuration {name}: {refusal.otherwise} {refusal.instead}"
    harmless = row.format(row.default)
    BrokerConfig.from_properties({} if harmless is None else {name: harmless})


@pytest.mark.parametrize("name", effect._REFUSED)
def test_what_is_not_supported_is_refused_at_run_time(name: str) -> None:
    row = BrokerSettings.rows[name]
    with pytest.raises(RequestError) as refused:
        changed(name, another_value(row))
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    if row.mode is not Mode.READ_ONLY:
        assert effect._REFUSED[name].otherwise in (refused.value.message or "")


@pytest.mark.parametrize(
    ("name", "text", "consequence"),
    [
        ("replica.selector.class", "com.example.Selector", "consumers would read from leaders only"),
        ("group.consumer.assignors", "uniform,com.example.Assignor", "groups would get another assignment"),
    ],
)
def test_a_java_class_that_is_not_built_is_refused(name: str, text: str, consequence: str) -> None:
    with pytest.raises(InvalidValue, match=r"com\.example") as refused:
        BrokerConfig.from_properties({name: text})
    assert consequence in str(refused.value)


def test_what_a_file_sets_without_effect_is_named() -> None:
    texts = {"num.io.threads": "8", "num.partitions": "3", "ssl.client.auth": "none", "my.own": "x"}
    assert BrokerConfig.from_properties(texts).without_effect == ("num.io.threads", "ssl.client.auth")


def test_an_unsupported_setting_is_refused_for_a_single_listener_too() -> None:
    with pytest.raises(InvalidValue, match="User:ANONYMOUS"):
        BrokerConfig.from_properties({"listener.name.plaintext.principal.builder.class": "com.example.Builder"})


def changed(name: str, text: str) -> dict[str, str]:
    broker = BrokerConfig.from_properties({"broker.id": "1"})
    return alter_broker_incrementally([Change(name, Operation.SET, text)], {}, broker, per_broker=True)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("num.io.threads", "16"),
        ("background.threads", "15"),
        ("log.cleaner.io.buffer.size", "1000000"),
        ("log.message.downconversion.enable", "false"),
        ("remote.fetch.max.wait.ms", "100"),
        ("ssl.client.auth", "required"),
        ("sasl.kerberos.kinit.cmd", "/bin/kinit"),
        ("listener.name.plaintext.ssl.client.auth", "required"),
    ],
)
def test_what_has_no_effect_is_not_changed_at_run_time_and_the_reason_is_given(name: str, text: str) -> None:
    with pytest.raises(RequestError) as refused:
        changed(name, text)
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    why = BrokerConfig.from_properties({}).why_without_effect(name)
    assert why is not None
    assert refused.value.message == f"{name} would have no effect: {why}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("listeners", "PLAINTEXT://:9093"),
        ("advertised.listeners", "PLAINTEXT://h:1"),
        ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT"),
        ("num.network.threads", "4"),
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("listener.name.plaintext.sasl.enabled.mechanisms", "PLAIN"),
    ],
)
def test_what_is_read_at_the_start_only_is_not_changed_at_run_time(name: str, text: str) -> None:
    with pytest.raises(RequestError) as refused:
        changed(name, text)
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    assert refused.value.message == (
        f"{name} cannot change while the broker runs: {effect.start_only(name)} "
        "Set it in the broker's file, and restart the broker."
    )


@pytest.mark.parametrize("name", sorted(effect.IDLE_IN_KAFKA_TOO))
def test_what_changes_nothing_in_a_running_kafka_either_is_taken(name: str) -> None:
    assert standing(name, BrokerSettings).effect is Effect.NONE
    assert changed(name, "1") == {name: "1"}
    with pytest.raises(RequestError):
        changed(name, "soon")
    with pytest.raises(RequestError, match="at default cluster level"):
        alter_broker_incrementally([Change(name, Operation.SET, "1")], {}, BrokerConfig(), per_broker=False)


def test_every_setting_that_kafka_changes_at_run_time_changes_here_or_says_why_not() -> None:
    for name, row in BrokerSettings.rows.items():
        if row.mode is Mode.READ_ONLY:
            with pytest.raises(RequestError, match="Cannot update these configs dynamically"):
                changed(name, row.format(row.default) or "")


@pytest.mark.parametrize("name", effect._TOPIC_REFUSED)
def test_a_topic_may_not_ask_for_what_is_not_supported(name: str) -> None:
    broker, text = BrokerConfig(), another_value(TopicSettings.rows[name])
    with pytest.raises(ConfigError):
        validate_overrides({name: text}, broker)
    with pytest.raises(RequestError) as refused:
        alter_topic_incrementally("orders", {}, [Change(name, Operation.SET, text)], broker)
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    harmless = TopicSettings.rows[name].format(TopicSettings.rows[name].default)
    validate_overrides({name: harmless}, broker)


def test_a_refused_topic_setting_says_what_would_happen_and_what_to_do() -> None:
    with pytest.raises(InvalidValue) as refused:
        validate_overrides({"local.retention.ms": "1000"}, BrokerConfig())
    assert str(refused.value) == (
        "Invalid value 1000 for configuration local.retention.ms: There is no remote log storage. Only "
        "retention.ms removes segments, so they would stay longer than this. Leave the setting out, and lower "
        "retention.ms where the disks are too small."
    )


def test_a_topic_from_elsewhere_that_asks_for_it_is_served_all_the_same() -> None:
    # What Apache Kafka once wrote into ZooKeeper must not keep a partition offline.
    assert TopicConfig({"remote.storage.enable": "true"}, BrokerConfig()).remote_storage_enable


def test_what_a_topic_from_elsewhere_asks_for_in_vain_is_named() -> None:
    found = {"remote.storage.enable": "true", "local.retention.ms": "-2", "retention.ms": "5", "segment.bytes": "many"}
    named = unusable_overrides(found)
    assert list(named) == ["remote.storage.enable", "segment.bytes"]
    assert "no segment would be copied" in named["remote.storage.enable"]


def test_documentation_says_what_has_no_effect_and_what_is_refused() -> None:
    assert (broker_documentation("num.io.threads") or "").endswith(f"No effect here: {effect._THREADS}")
    assert "Not supported: " in (broker_documentation("zookeeper.ssl.crl.enable") or "")
    assert "Other classes are refused: " in (broker_documentation("authorizer.class.name") or "")
    assert "In force at start only: " in (broker_documentation("num.network.threads") or "")
    assert "No effect here: " in (topic_documentation("message.format.version") or "")
    assert "here" not in (topic_documentation("min.insync.replicas") or "")
