"""Scenarios of settings in layers: a topic's own, the broker's at run time, the default of all brokers at run time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import alter_configs_request, incremental_alter_configs_request
from tests.conformance.wire.scenario import scenario
from tests.conformance.wire.scenarios_configs import (
    APPEND,
    BROKER,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC,
    Operation,
    alter,
    change,
    describe,
)
from tests.conformance.wire.wire_session import WireSession

BROKER_KEYS = (
    "log.cleaner.threads",
    "log.retention.ms",
    "log.retention.minutes",
    "log.retention.hours",
    "log.cleanup.policy",
    "message.max.bytes",
    "num.io.threads",
    "unclean.leader.election.enable",
)
TOPIC_KEYS = ("cleanup.policy", "max.message.bytes", "retention.ms", "unclean.leader.election.enable")
LAYERS = ("log.retention.ms", "log.cleanup.policy", "message.max.bytes", "log.cleaner.threads", "num.io.threads")


@contextmanager
def layers(session: WireSession) -> Iterator[None]:
    """Whatever was set at run time is taken back at the end."""
    try:
        yield
    finally:
        for name in ("", str(session.broker_id)):
            session.connection.ask(change(BROKER, name, *((key, DELETE, None) for key in LAYERS)), 1)
        session.until(lambda: dynamic(session) == {})


def dynamic(session: WireSession) -> dict[str, Any]:
    """What is set at run time of `LAYERS`."""
    answer = session.connection.ask(describe((BROKER, str(session.broker_id), LAYERS)), 1)
    return {config.name: config.value for config in answer.results[0].configs if config.config_source in (2, 3)}


@scenario(ApiKey.DESCRIBE_CONFIGS)
def describe_configs_in_layers(session: WireSession, version: int) -> None:
    topic, broker = session.topic(), str(session.broker_id)

    def look(step: str) -> None:
        session.record(f"{step}: broker", describe((BROKER, broker, BROKER_KEYS), include_synonyms=True), version)
        session.record(f"{step}: all brokers", describe((BROKER, "", BROKER_KEYS), include_synonyms=True), version)
        session.record(f"{step}: topic", describe((TOPIC, topic, TOPIC_KEYS), include_synonyms=True), version)

    with layers(session):
        session.connection.ask(
            change(BROKER, "", ("log.retention.ms", SET, "7000000"), ("message.max.bytes", SET, "999999")), 1
        )
        session.until(lambda: "message.max.bytes" in dynamic(session))
        look("for all")
        session.connection.ask(
            change(BROKER, broker, ("log.retention.ms", SET, "8000000"), ("log.cleaner.threads", SET, "2")), 1
        )
        session.until(lambda: dynamic(session).get("log.retention.ms") == "8000000")
        look("for one, too")
        session.connection.ask(change(TOPIC, topic, ("retention.ms", SET, "9000000")), 1)
        asked = describe((TOPIC, topic, ["retention.ms"]))
        session.until(lambda: session.connection.ask(asked, 1).results[0].configs[0].value == "9000000")
        look("for the topic, too")
        session.connection.ask(change(BROKER, "", ("log.retention.ms", DELETE, None)), 1)
        session.until(lambda: "7000000" not in repr(session.connection.ask(describe((BROKER, "", LAYERS)), 1)))
        look("not for all")


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def alter_dynamic_settings_of_brokers(session: WireSession, version: int) -> None:
    broker = str(session.broker_id)

    def ask(step: str, name: str, *operations: Operation, then: dict[str, str] | None = None) -> None:
        session.record(step, change(BROKER, name, *operations), version)
        if then is not None:
            session.until(lambda: dynamic(session) == then)
            session.recorded[f"{step}: then"] = dynamic(session)

    with layers(session):
        ask(
            "list appended to",
            "",
            ("log.cleanup.policy", APPEND, "compact"),
            then={"log.cleanup.policy": "delete,compact"},
        )
        ask(
            "list subtracted from",
            "",
            ("log.cleanup.policy", SUBTRACT, "delete"),
            then={"log.cleanup.policy": "compact"},
        )
        ask("all of a list subtracted", "", ("log.cleanup.policy", SUBTRACT, "compact"))
        ask("list deleted", "", ("log.cleanup.policy", DELETE, None), then={})
        ask("append to what is no list", "", ("log.cleaner.threads", APPEND, "1"))
        ask("append to what is not there", "", ("no.such", APPEND, "1"))
        ask("delete what is not there", "", ("no.such", DELETE, None), then={})
        ask("delete what is read-only", broker, ("log.dirs", DELETE, None), then={})
        ask("for one broker, as for all", "", ("listeners", SET, "PLAINTEXT://localhost:1"))
        ask("threads, none", "", ("num.io.threads", SET, "0"))
        ask("threads, more than twice", "", ("num.io.threads", SET, "99"))
        ask("good beside bad", "", ("log.cleaner.threads", SET, "2"), ("message.max.bytes", SET, "many"), then={})
        ask("good beside read-only", "", ("message.max.bytes", SET, "999999"), ("broker.id", SET, "7"), then={})
        ask("set twice", "", ("message.max.bytes", SET, "1"), ("message.max.bytes", SET, "2"))
        ask("null", "", ("message.max.bytes", SET, None))
        ask("negative", "", ("message.max.bytes", SET, "-1"))
        ask("leading zero", "+" + broker, ("message.max.bytes", SET, "999999"))
        ask("negative broker", "-1", ("message.max.bytes", SET, "999999"))
        ask("throttle", broker, ("leader.replication.throttled.rate", SET, "-1"))
        ask("nothing", "")


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def incremental_alter_lists_of_topics(session: WireSession, version: int) -> None:
    topic = session.topic()
    key = "leader.replication.throttled.replicas"

    def ask(step: str, *operations: Operation) -> None:
        session.record(step, change(TOPIC, topic, *operations), version)
        session.record(f"{step}: described", describe((TOPIC, topic, [key, "cleanup.policy"])), 4)

    ask("append", (key, APPEND, "0:1"))
    ask("append two, one known", (key, APPEND, "0:1,1:1"))
    ask("append one twice", (key, APPEND, "2:1,2:1"))
    ask("append all", (key, APPEND, "*"))
    ask("set all", (key, SET, "*"))
    ask("subtract all", (key, SUBTRACT, "*"))
    ask("append a bad one", (key, APPEND, "a"))
    ask("set empty", (key, SET, ""))
    ask("subtract from nothing", (key, SUBTRACT, "0:1"))
    ask("append to the default", ("cleanup.policy", APPEND, "delete"))
    ask("subtract the default", ("cleanup.policy", SUBTRACT, "delete"))
    ask("append the other", ("cleanup.policy", APPEND, "compact"))
    ask("append unknown", ("cleanup.policy", APPEND, "burn"))
    ask("append to unknown", ("no.such", APPEND, "1"))
    ask("null appended", ("cleanup.policy", APPEND, None))
    ask("append and set", ("cleanup.policy", SET, "compact"), (key, APPEND, "0:1"))


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def incremental_alter_several_resources(session: WireSession, version: int) -> None:
    one, two, broker = session.topic("one"), session.topic("two"), str(session.broker_id)
    ia = incremental_alter_configs_request

    def resource(kind: int, name: str, *operations: Operation) -> Any:
        entries = [ia.AlterableConfig(name=key, config_operation=what, value=value) for key, what, value in operations]
        return ia.AlterConfigsResource(resource_type=kind, resource_name=name, configs=entries)

    def ask(step: str, *resources: Any, **more: Any) -> None:
        session.record(step, m.IncrementalAlterConfigsRequest(resources=list(resources), **more), version)
        for name in (one, two):
            answer = session.connection.ask(describe((TOPIC, name, ["retention.ms"])), 1)
            session.recorded[f"{step}: {name[:3]}"] = answer.results[0].configs[0].value

    good, bad = ("retention.ms", SET, "5000"), ("retention.ms", SET, "soon")
    ask("good beside bad", resource(TOPIC, one, good), resource(TOPIC, two, bad))
    ask("one twice beside a good one", *[resource(TOPIC, one, bad)] * 2, resource(TOPIC, two, good))
    ask("of all kinds", resource(TOPIC, one, ("retention.ms", DELETE, "")), resource(BROKER, broker), resource(3, "x"))
    ask("nothing")
    ask("kind 0", resource(0, one, good))
    ask("negative kind", resource(-1, one, good))


@scenario(ApiKey.ALTER_CONFIGS, beside=ApiKey.CONTROLLED_SHUTDOWN)
def alter_dynamic_settings_of_brokers_at_once(session: WireSession, version: int) -> None:
    """Of ZooKeeper clusters: KRaft keeps min.insync.replicas as a default of all brokers, which must stay (KIP-966)."""
    broker = str(session.broker_id)

    def ask(step: str, name: str, configs: dict[str, str | None], then: dict[str, str] | None = None) -> None:
        session.record(step, alter(BROKER, name, configs), version)
        if then is not None:
            session.until(lambda: dynamic(session) == then)
            session.recorded[f"{step}: then"] = dynamic(session)

    with layers(session):
        ask("for all", "", {"log.retention.ms": "7000000"}, {"log.retention.ms": "7000000"})
        ask("another for all", "", {"message.max.bytes": "999999"}, {"message.max.bytes": "999999"})
        ask(
            "for one",
            broker,
            {"log.retention.ms": "8000000"},
            {"log.retention.ms": "8000000", "message.max.bytes": "999999"},
        )
        ask("good beside bad", "", {"log.retention.ms": "1", "log.cleaner.threads": "0"})
        ask("null", "", {"log.retention.ms": None})
        ask("none for one", broker, {}, {"message.max.bytes": "999999"})
        ask("none for all", "", {}, {})


@scenario(ApiKey.ALTER_CONFIGS)
def alter_configs_of_several_resources(session: WireSession, version: int) -> None:
    one, two = session.topic("one", segment_ms="60000"), session.topic("two", segment_ms="60000")
    ac = alter_configs_request

    def resource(name: str, configs: list[tuple[str, str | None]], kind: int = TOPIC) -> Any:
        entries = [ac.AlterableConfig(name=key, value=value) for key, value in configs]
        return ac.AlterConfigsResource(resource_type=kind, resource_name=name, configs=entries)

    def ask(step: str, *resources: Any) -> None:
        session.record(step, m.AlterConfigsRequest(resources=list(resources)), version)

    ask("good beside bad", resource(one, [("retention.ms", "5000")]), resource(two, [("retention.ms", "soon")]))
    ask("a setting twice", resource(one, [("retention.ms", "5000"), ("retention.ms", "6000")]))
    ask("nothing")
    for step, name in (("first", one), ("second", two)):
        session.record(step, describe((TOPIC, name, ["retention.ms", "segment.ms"])), 4)


@scenario(ApiKey.DESCRIBE_CONFIGS)
def describe_configs_of_odd_shapes(session: WireSession, version: int) -> None:
    topic, broker = session.topic(), str(session.broker_id)
    one = ["retention.ms"]
    session.record("nothing", describe(), version)
    session.record("a key twice", describe((TOPIC, topic, one * 2)), version)
    session.record("a key in capitals", describe((TOPIC, topic, ["RETENTION.MS"])), version)
    session.record("known and unknown", describe((TOPIC, topic, one), (TOPIC, session.name("unknown"), one)), version)
    session.record(
        "topic and broker", describe((TOPIC, topic, one), (BROKER, broker, ["log.dirs"])), version, keep=_no_dirs
    )
    session.record("signed broker", describe((BROKER, "+" + broker, ["log.cleaner.threads"])), version)
    session.record("negative broker", describe((BROKER, "-1", ["log.cleaner.threads"])), version)
    session.record("spaces", describe((BROKER, " ", ["log.cleaner.threads"])), version)
    session.record("kind 0", describe((0, topic, one)), version)
    session.record("negative kind", describe((-1, topic, one)), version)
    session.record("dots", describe((TOPIC, "..", one)), version)


def _no_dirs(struct: Any) -> bool:
    return getattr(struct, "name", "") != "log.dirs"
