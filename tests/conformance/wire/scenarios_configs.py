"""Scenarios of settings: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scenario import scenario
from wire_session import WireSession

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import alter_configs_request, describe_configs_request, incremental_alter_configs_request

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


@scenario(ApiKey.DESCRIBE_CONFIGS)
def describe_configs_of_topics(session: WireSession, version: int) -> None:
    topic = session.topic(retention_ms="5000", cleanup_policy="compact,delete")
    session.record("some", describe((TOPIC, topic, TOPIC_KEYS)), version)
    session.record("with synonyms", describe((TOPIC, topic, TOPIC_KEYS), include_synonyms=True), version)
    session.record("with documentation", describe((TOPIC, topic, TOPIC_KEYS), include_documentation=True), version)
    session.record("unknown key", describe((TOPIC, topic, ["no.such.key"])), version)
    session.record("empty list of keys", describe((TOPIC, topic, [])), version)
    session.record("all", describe((TOPIC, topic, None), include_synonyms=True), version)
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
