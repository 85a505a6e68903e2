"""Scenarios of settings: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import alter_configs_request, describe_configs_request, incremental_alter_configs_request
from tests.conformance.wire.scenario import scenario, served_versions
from tests.conformance.wire.wire_session import WireSession

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
DEFAULT_CONFIG = 5
TOPIC_KEYS = ("cleanup.policy", "retention.ms", "segment.bytes", "compression.type", "unclean.leader.election.enable")
BROKER_KEYS = (
    "broker.rack",
    "log.cleaner.threads",
    "log.retention.hours",
    "log.retention.ms",
    "log.roll.hours",
    "log.roll.ms",
    "message.max.bytes",
    "background.threads",
    "ssl.keystore.password",
    "ssl.protocol",
    "auto.create.topics.enable",
    "compression.type",
    "log.cleanup.policy",
    "log.cleaner.min.cleanable.ratio",
)


def describe(*resources: tuple[int, str, Sequence[str] | None], **more: Any) -> Any:
    dc = describe_configs_request
    return m.DescribeConfigsRequest(
        resources=[
            dc.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=None if keys is None else list(keys)
            )
            for kind, name, keys in resources
        ],
        **more,
    )


NEWER_THAN_THE_RECORDING: Final = frozenset({"errors.deadletterqueue.group.enable"})
"""Settings of topics that Apache Kafka has since 4.4."""


def _is_recorded(part: Any) -> bool:
    return getattr(part, "name", None) not in NEWER_THAN_THE_RECORDING


@scenario(ApiKey.DESCRIBE_CONFIGS)
def describe_configs_of_topics(session: WireSession, version: int) -> None:
    topic = session.topic(retention_ms="5000", cleanup_policy="compact,delete")
    session.record("some", describe((TOPIC, topic, TOPIC_KEYS)), version)
    session.record("with synonyms", describe((TOPIC, topic, TOPIC_KEYS), include_synonyms=True), version)
    session.record("with documentation", describe((TOPIC, topic, TOPIC_KEYS), include_documentation=True), version)
    session.record("unknown key", describe((TOPIC, topic, ["no.such.key"])), version)
    session.record("empty list of keys", describe((TOPIC, topic, [])), version, keep=_is_recorded)
    session.record("all", describe((TOPIC, topic, None), include_synonyms=True), version, keep=_is_recorded)
    session.record("unknown topic", describe((TOPIC, session.name("unknown"), None)), version)
    session.record("illegal topic", describe((TOPIC, "no spaces", None)), version)
    session.record("empty topic", describe((TOPIC, "", None)), version)
    session.record("topic twice", describe((TOPIC, topic, TOPIC_KEYS[:1]), (TOPIC, topic, TOPIC_KEYS[:1])), version)


@scenario(ApiKey.DESCRIBE_CONFIGS)
def describe_configs_of_brokers(session: WireSession, version: int) -> None:
    broker = str(session.broker_id)
    session.record("some", describe((BROKER, broker, BROKER_KEYS)), version)
    session.record("with synonyms", describe((BROKER, broker, BROKER_KEYS), include_synonyms=True), version)
    session.record("defaults of the cluster", describe((BROKER, "", BROKER_KEYS)), version)
    session.record("unknown broker", describe((BROKER, "4711", None)), version)
    session.record("not a number", describe((BROKER, "one", None)), version)
    session.record("unknown kind", describe((3, "x", None)), version)


@scenario(ApiKey.DESCRIBE_CONFIGS, min_version=4)
def describe_every_default_of_brokers(session: WireSession, version: int) -> None:
    """A step for each setting that has its default."""
    everything = describe((BROKER, str(session.broker_id), None), include_synonyms=True, include_documentation=True)
    (result,) = session.connection.ask(everything, version).results
    for config in sorted(result.configs, key=lambda config: config.name):
        if config.config_source == DEFAULT_CONFIG:
            session.keep_answer(config.name, config, version)


def alter(kind: int, name: str, configs: dict[str, str | None], *, validate_only: bool = False) -> Any:
    ac = alter_configs_request
    entries = [ac.AlterableConfig(name=key, value=value) for key, value in configs.items()]
    resource = ac.AlterConfigsResource(resource_type=kind, resource_name=name, configs=entries)
    return m.AlterConfigsRequest(resources=[resource], validate_only=validate_only)


def dynamic_configs(session: WireSession, step: str, topic: str, expected: dict[str, str]) -> None:
    """Waits until the topic's own settings are those expected, and records them."""

    def found() -> dict[str, str]:
        (result,) = session.connection.ask(describe((TOPIC, topic, None)), 1).results
        return {config.name: config.value for config in result.configs if config.config_source == 1}

    session.until(lambda: found() == expected)
    session.recorded[step] = found()


@scenario(ApiKey.ALTER_CONFIGS)
def alter_configs(session: WireSession, version: int) -> None:
    topic = session.topic(segment_ms="60000")
    session.record("only validated", alter(TOPIC, topic, {"retention.ms": "1"}, validate_only=True), version)
    dynamic_configs(session, "nothing changed", topic, {"segment.ms": "60000"})
    session.record("another set", alter(TOPIC, topic, {"retention.ms": "5000"}), version)
    dynamic_configs(session, "the old ones are gone", topic, {"retention.ms": "5000"})
    session.record("none", alter(TOPIC, topic, {}), version)
    dynamic_configs(session, "all gone", topic, {})
    session.record("unknown setting", alter(TOPIC, topic, {"no.such": "1"}), version)
    session.record("malformed value", alter(TOPIC, topic, {"retention.ms": "soon"}), version)
    session.record("null value", alter(TOPIC, topic, {"retention.ms": None}), version)
    session.record("out of range", alter(TOPIC, topic, {"segment.bytes": "1"}), version)
    session.record("unknown topic", alter(TOPIC, session.name("unknown"), {"retention.ms": "5000"}), version)
    session.record("illegal topic", alter(TOPIC, "no spaces", {"retention.ms": "5000"}), version)
    session.record("empty topic", alter(TOPIC, "", {"retention.ms": "5000"}), version)
    session.record("unknown kind", alter(3, "x", {"a": "b"}), version)


@scenario(ApiKey.ALTER_CONFIGS)
def alter_configs_wrongly_of_unknown_topics(session: WireSession, version: int) -> None:
    """A request that says nothing that could be said of any topic."""
    name = session.name("unknown")
    session.record("null value", alter(TOPIC, name, {"retention.ms": None}), version)
    session.record("malformed value", alter(TOPIC, name, {"retention.ms": "soon"}), version)
    session.record("unknown setting", alter(TOPIC, name, {"no.such": "1"}), version)


@scenario(ApiKey.ALTER_CONFIGS)
def alter_configs_of_brokers(session: WireSession, version: int) -> None:
    broker = str(session.broker_id)

    def ask(step: str, name: str, configs: dict[str, str | None]) -> None:
        session.record(step, alter(BROKER, name, configs, validate_only=True), version)

    ask("dynamic", broker, {"log.cleaner.backoff.ms": "20000"})
    ask("dynamic, cluster-wide", "", {"log.cleaner.backoff.ms": "20000"})
    ask("read-only", broker, {"log.dirs": "/elsewhere"})
    ask("malformed", broker, {"log.cleaner.backoff.ms": "soon"})
    ask("unknown broker", "4711", {"log.cleaner.backoff.ms": "20000"})
    ask("not a number", "one", {"log.cleaner.backoff.ms": "20000"})


Operation = tuple[str, int, str | None]


def change(kind: int, name: str, *operations: Operation, times: int = 1, validate_only: bool = False) -> Any:
    ia = incremental_alter_configs_request
    entries = [ia.AlterableConfig(name=key, config_operation=what, value=value) for key, what, value in operations]
    resource = ia.AlterConfigsResource(resource_type=kind, resource_name=name, configs=entries)
    return m.IncrementalAlterConfigsRequest(resources=[resource] * times, validate_only=validate_only)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def incremental_alter_configs(session: WireSession, version: int) -> None:
    topic = session.topic(segment_ms="60000")

    def ask(step: str, *operations: Operation, validate_only: bool = False) -> None:
        session.record(step, change(TOPIC, topic, *operations, validate_only=validate_only), version)

    ask("only validated", ("retention.ms", SET, "1"), validate_only=True)
    ask("set one, delete one", ("retention.ms", SET, "5000"), ("segment.ms", DELETE, None))
    dynamic_configs(session, "then", topic, {"retention.ms": "5000"})
    ask("append to the default", ("cleanup.policy", APPEND, "compact"))
    dynamic_configs(session, "appended", topic, {"retention.ms": "5000", "cleanup.policy": "delete,compact"})
    ask("append what is there", ("cleanup.policy", APPEND, "compact"))
    dynamic_configs(session, "still", topic, {"retention.ms": "5000", "cleanup.policy": "delete,compact"})
    ask("subtract", ("cleanup.policy", SUBTRACT, "delete"))
    dynamic_configs(session, "subtracted", topic, {"retention.ms": "5000", "cleanup.policy": "compact"})
    ask("subtract what is not there", ("cleanup.policy", SUBTRACT, "delete"))
    ask("delete what is not set", ("segment.ms", DELETE, None))
    ask("delete with a value", ("retention.ms", DELETE, "5000"))
    dynamic_configs(session, "deleted", topic, {"cleanup.policy": "compact"})
    ask("set to null", ("retention.ms", SET, None))
    ask("append to what is no list", ("retention.ms", APPEND, "1"))
    ask("unknown operation", ("retention.ms", 9, "1"))
    ask("unknown setting", ("no.such", SET, "1"))
    ask("delete an unknown setting", ("no.such", DELETE, None))
    ask("malformed value", ("retention.ms", SET, "soon"))
    ask("the same setting twice", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    ask("no operations", *())


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def incremental_alter_configs_of_others(session: WireSession, version: int) -> None:
    topic, broker = session.topic(), str(session.broker_id)
    good = ("retention.ms", SET, "5000")
    session.record("unknown topic", change(TOPIC, session.name("unknown"), good), version)
    session.record("illegal topic", change(TOPIC, "no spaces", good), version)
    session.record("empty topic", change(TOPIC, "", good), version)
    session.record("unknown kind", change(3, "x", good), version)
    session.record("topic twice", change(TOPIC, topic, good, times=2), version)

    def ask(step: str, name: str, operation: Operation) -> None:
        session.record(step, change(BROKER, name, operation, validate_only=True), version)

    ask("broker", broker, ("log.cleaner.backoff.ms", SET, "20000"))
    ask("cluster-wide", "", ("log.cleaner.backoff.ms", SET, "20000"))
    ask("read-only", broker, ("log.dirs", SET, "/elsewhere"))
    ask("broker, malformed", broker, ("log.cleaner.backoff.ms", SET, "soon"))
    ask("broker, unknown setting", broker, ("no.such", SET, "1"))
    ask("unknown broker", "4711", ("log.cleaner.backoff.ms", SET, "20000"))
    ask("broker, not a number", "one", ("log.cleaner.backoff.ms", SET, "20000"))
    ask("fewer connections", "", ("max.connections", SET, "1000"))
    ask("no connections", "", ("max.connections", SET, "0"))
    ask("fewer connections of a listener", broker, ("listener.name.plaintext.max.connections", SET, "1000"))
    ask("no connections of a listener", "", ("listener.name.plaintext.max.connections", SET, "0"))


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def incremental_alter_wrongly_of_unknown_topics(session: WireSession, version: int) -> None:
    """A request that says nothing that could be said of any topic."""

    def ask(step: str, *operations: Operation) -> None:
        session.record(step, change(TOPIC, session.name("unknown"), *operations), version)

    ask("set to null", ("retention.ms", SET, None))
    ask("append to what is no list", ("retention.ms", APPEND, "1"))
    ask("subtract from what is no list", ("retention.ms", SUBTRACT, "1"))
    ask("the same setting twice", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    ask("malformed value", ("retention.ms", SET, "soon"))
    ask("unknown setting", ("no.such", SET, "1"))
    ask("nothing wrong", ("retention.ms", SET, "5000"))
    ask("no operations", *())


# ---- groups and subscriptions to clients' metrics, which Kafka has without ZooKeeper only ----------------------------


def has_groups_with_settings(session: WireSession) -> bool:
    return ApiKey.LIST_CONFIG_RESOURCES in served_versions(session)


@scenario(ApiKey.DESCRIBE_CONFIGS)
def describe_configs_without_a_name(session: WireSession, version: int) -> None:
    if has_groups_with_settings(session):
        session.record("group", describe((GROUP, "", None)), version)
        session.record("metrics subscription", describe((CLIENT_METRICS, "", None)), version)


@scenario(ApiKey.DESCRIBE_CONFIGS)
def describe_configs_of_groups(session: WireSession, version: int) -> None:
    """Settings that only groups have stand for themselves among the synonyms."""
    if not has_groups_with_settings(session):
        return
    group, keys = (
        session.name("group"),
        ("share.auto.offset.reset", "share.isolation.level", "share.session.timeout.ms"),
    )
    session.record("defaults", describe((GROUP, group, keys), include_synonyms=True), version)
    session.connection.ask(change(GROUP, group, ("share.auto.offset.reset", SET, "earliest")), 1)
    asked = describe((GROUP, group, keys), include_synonyms=True)
    session.until(lambda: "earliest" in repr(session.connection.ask(asked, version)))
    session.record("one set", asked, version)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def alter_configs_of_groups(session: WireSession, version: int) -> None:
    if not has_groups_with_settings(session):
        return
    group = session.name("group")
    setting = "consumer.session.timeout.ms"

    def ask(step: str, *operations: Operation, name: str = group) -> None:
        session.record(step, change(GROUP, name, *operations), version)

    ask("set", (setting, SET, "50000"))
    ask("out of the broker's bounds", (setting, SET, "1"))
    ask("malformed", (setting, SET, "soon"))
    ask("unknown setting", ("no.such", SET, "1"))
    ask("null", (setting, SET, None))
    ask("no list", (setting, APPEND, "50000"))
    ask("no name", (setting, SET, "50000"), name="")
    ask("nothing for no name", name="")
    odd = session.name("a/b %2F ü")
    ask("odd name", (setting, SET, "50000"), name=odd)
    ask("name of slashes", (setting, SET, "50000"), name=session.name("/x//") + "/")
    ask("two dots", (setting, SET, "50000"), name="..")
    asked = describe((GROUP, odd, [setting]))
    session.until(lambda: session.connection.ask(asked, 4).results[0].configs[0].value == "50000")
    session.record("described", asked, 4)
    session.connection.ask(change(GROUP, "..", (setting, DELETE, None)), 1)


@scenario(ApiKey.ALTER_CONFIGS)
def replace_configs_of_groups_and_subscriptions(session: WireSession, version: int) -> None:
    if not has_groups_with_settings(session):
        return
    group, setting = session.name("group"), "consumer.session.timeout.ms"
    session.record("only validated", alter(GROUP, group, {setting: "50000"}, validate_only=True), version)
    session.record("set", alter(GROUP, group, {setting: "50000"}), version)
    asked = describe((GROUP, group, [setting, "share.auto.offset.reset"]))
    session.until(lambda: "50000" in repr(session.connection.ask(asked, 4)))
    session.record("another", alter(GROUP, group, {"share.auto.offset.reset": "earliest"}), version)
    session.until(lambda: "earliest" in repr(session.connection.ask(asked, 4)))
    session.record("the first one is gone", asked, 4)
    session.record("out of the broker's bounds", alter(GROUP, group, {setting: "1"}), version)
    session.record("malformed", alter(GROUP, group, {setting: "soon"}), version)
    session.record("unknown setting", alter(GROUP, group, {"no.such": "1"}), version)
    session.record("null", alter(GROUP, group, {setting: None}), version)
    session.record("no name", alter(GROUP, "", {setting: "50000"}), version)
    metrics = session.name("metrics")
    session.record("subscription", alter(CLIENT_METRICS, metrics, {"interval.ms": "1000"}), version)
    session.record("interval too short", alter(CLIENT_METRICS, metrics, {"interval.ms": "99"}), version)
    session.record("unknown to subscriptions", alter(CLIENT_METRICS, metrics, {"no.such": "1"}), version)
    session.record("no name of a subscription", alter(CLIENT_METRICS, "", {"interval.ms": "1000"}), version)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def alter_configs_of_metrics_subscriptions(session: WireSession, version: int) -> None:
    if not has_groups_with_settings(session):
        return
    name = session.name("metrics")

    def ask(step: str, *operations: Operation, name: str = name) -> None:
        session.record(step, change(CLIENT_METRICS, name, *operations), version)

    ask("set", ("interval.ms", SET, "1000"))
    ask("interval too short", ("interval.ms", SET, "99"))
    ask("interval too long", ("interval.ms", SET, "3600001"))
    ask("malformed", ("interval.ms", SET, "soon"))
    ask("unknown setting", ("no.such", SET, "1"))
    ask("unknown thing to match", ("match", SET, "client_shoe_size=.*"))
    ask("no pattern", ("match", SET, "client_id=["))
    ask("no name", ("interval.ms", SET, "1000"), name="")
    ask("odd name", ("interval.ms", SET, "1000"), name=session.name("a/b"))


# ---- loggers of a broker ------------------------------------------------------------------------------------------

ROOT = "root"


def levels(session: WireSession, version: int = 4) -> dict[str, str]:
    """Every logger of the broker with the level that is in force."""
    (result,) = session.connection.ask(describe((BROKER_LOGGER, str(session.broker_id), None)), version).results
    assert result.error_code == 0, result
    return {config.name: config.value for config in result.configs}


def set_levels(session: WireSession, *changes: tuple[str, int, str | None], broker: str = "", **more: Any) -> Any:
    ia = incremental_alter_configs_request
    entries = [ia.AlterableConfig(name=name, config_operation=what, value=value) for name, what, value in changes]
    resource = ia.AlterConfigsResource(
        resource_type=BROKER_LOGGER, resource_name=broker or str(session.broker_id), configs=entries
    )
    return m.IncrementalAlterConfigsRequest(resources=[resource], **more)


def heir_of_root(session: WireSession) -> str:
    """A logger that has the root's level, whatever that is."""
    candidates: set[str] = set()
    for level in ("ERROR", "TRACE"):
        session.connection.ask(set_levels(session, (ROOT, SET, level)), 1)
        found = {name for name, value in levels(session).items() if value == level and name != ROOT}
        candidates = candidates & found if candidates else found
    return min(candidates)


@scenario(ApiKey.DESCRIBE_CONFIGS, min_version=1)
def describe_broker_loggers(session: WireSession, version: int) -> None:
    broker = str(session.broker_id)
    before = levels(session)[ROOT]
    session.connection.ask(set_levels(session, (ROOT, SET, "INFO")), 1)
    try:
        session.record("root", describe((BROKER_LOGGER, broker, [ROOT])), version)
        session.record("with synonyms", describe((BROKER_LOGGER, broker, [ROOT]), include_synonyms=True), version)
        if version >= 3:
            documented = describe((BROKER_LOGGER, broker, [ROOT]), include_documentation=True)
            session.record("with documentation", documented, version)
        session.record("no such logger", describe((BROKER_LOGGER, broker, ["no.such.logger"])), version)
        session.record("another broker", describe((BROKER_LOGGER, "4711", None)), version)
        session.record("not a number", describe((BROKER_LOGGER, "one", None)), version)
        session.record("no broker", describe((BROKER_LOGGER, "", None)), version)
        every = levels(session, version)
        session.recorded["all"] = [ROOT in every, len(every) > 1]
        listed = describe((BROKER_LOGGER, broker, [])), version
        session.recorded["an empty list means all"] = len(session.connection.ask(*listed).results[0].configs) > 1
    finally:
        session.connection.ask(set_levels(session, (ROOT, SET, before)), 1)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def alter_broker_loggers(session: WireSession, version: int) -> None:
    before = levels(session)[ROOT]
    try:
        one = heir_of_root(session)

        def ask(step: str, *changes: tuple[str, int, str | None], **more: Any) -> None:
            session.record(step, set_levels(session, *changes, **more), version)
            now = levels(session)
            session.recorded[f"{step}: levels"] = {"root": now[ROOT], "one": now[one]}

        ask("root", (ROOT, SET, "DEBUG"))
        ask("one", (one, SET, "TRACE"))
        ask("only validated", (one, SET, "WARN"), validate_only=True)
        ask("both", (ROOT, SET, "ERROR"), (one, SET, "FATAL"))
        ask("removed", (one, DELETE, None))
        ask("removed again", (one, DELETE, ""))
        ask("set again", (one, SET, "INFO"))
        ask("root removed", (ROOT, DELETE, None))
        ask("unknown logger", ("no.such.logger", SET, "INFO"))
        ask("unknown logger removed", ("no.such.logger", DELETE, None))
        ask("empty logger", ("", SET, "INFO"))
        for level in ("LOUD", "debug", "", "OFF", "ALL", "WARNING"):
            ask(f"level {level or 'of no letters'}", (one, SET, level))
        ask("null level", (one, SET, None))
        ask("append", (one, APPEND, "INFO"))
        ask("subtract", (one, SUBTRACT, "INFO"))
        ask("unknown operation", (one, 9, "INFO"))
        ask("good beside bad", (one, SET, "WARN"), (ROOT, SET, "LOUD"))
        ask("twice", (one, SET, "WARN"), (one, SET, "WARN"))
        ask("another broker", (one, SET, "WARN"), broker="4711")
        ask("not a number", (one, SET, "WARN"), broker="one")
        ask("nothing")
        session.connection.ask(set_levels(session, (one, DELETE, None)), 1)
    finally:
        session.connection.ask(set_levels(session, (ROOT, SET, before)), 1)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def alter_broker_loggers_of_no_broker(session: WireSession, version: int) -> None:
    ia = incremental_alter_configs_request
    change = ia.AlterableConfig(name=ROOT, config_operation=SET, value="INFO")
    resource = ia.AlterConfigsResource(resource_type=BROKER_LOGGER, resource_name="", configs=[change])
    session.record("no broker", m.IncrementalAlterConfigsRequest(resources=[resource]), version)


@scenario(ApiKey.ALTER_CONFIGS)
def legacy_alter_configs_of_broker_loggers(session: WireSession, version: int) -> None:
    session.record("set", alter(BROKER_LOGGER, str(session.broker_id), {ROOT: "INFO"}), version)
    session.record("none", alter(BROKER_LOGGER, str(session.broker_id), {}), version)
    session.record("another broker", alter(BROKER_LOGGER, "4711", {ROOT: "INFO"}), version)


@scenario(ApiKey.LIST_CONFIG_RESOURCES, min_version=1)
def list_config_resources(session: WireSession, version: int) -> None:
    for step, kinds in (("brokers", [BROKER]), ("loggers of brokers", [BROKER_LOGGER]), ("unknown kind", [9])):
        session.record(step, m.ListConfigResourcesRequest(resource_types=kinds), version)
    session.record("two kinds", m.ListConfigResourcesRequest(resource_types=[BROKER_LOGGER, BROKER]), version)
