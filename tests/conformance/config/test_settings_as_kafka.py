"""Every row of the tables against Kafka's own tables, read out of the jars of 3.9 and 4.x by a small Java program."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kavka.config.broker_settings import BrokerSettings, DynamicOnlySettings
from kavka.config.group import ClientMetricsSettings, GroupSettings
from kavka.config.setting import MEDIUM, AnySetting, Mode, Release, ThrottledReplicas, Type
from kavka.config.topic import TopicSetting, TopicSettings
from tests.apache_kafka import PeerMissing, installed

pytestmark = pytest.mark.kafka
PROGRAM = Path(__file__).resolve().parents[3] / "tools" / "config_facts" / "ConfigFacts.java"
MODES = {Mode.READ_ONLY: "read-only", Mode.PER_BROKER: "per-broker", Mode.CLUSTER_WIDE: "cluster-wide"}

Facts = dict[str, Any]


def facts_of(mode: str) -> Facts:
    try:
        jars = installed(mode)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    command = ["java", "-cp", f"{jars}/*", str(PROGRAM)]
    facts: Facts = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=100).stdout)
    return facts


@pytest.fixture(scope="module")
def kafka_3_9() -> Facts:
    return facts_of("zk")


@pytest.fixture(scope="module")
def kafka_4() -> Facts:
    return facts_of("kraft")


def our_facts(row: AnySetting, kafka: Facts) -> Facts:
    """A row in the shape of Kafka's facts; ranges that Kafka words in its own way are taken from `kafka`."""
    valid = None if row.valid is None else str(row.valid)
    if isinstance(row.valid, Release):
        assert kafka["valid"].startswith("[0.8.0, 0.8.1"), row
        valid = kafka["valid"]
    elif isinstance(row.valid, ThrottledReplicas) or (kafka["valid"] or "").startswith("The default value of -1"):
        valid = kafka["valid"]
    elif valid == "non-empty":
        valid = "non-empty string"
    elif (kafka["valid"] or "").startswith("(case insensitive) "):
        valid = f"(case insensitive) {valid}"
    elif row.name == "share.auto.offset.reset":
        valid = f"[{valid}]"
    return {
        "type": row.kind.name,
        "default": row.format(row.default),
        "valid": valid,
        "importance": row.importance.name,
        "internal": row.internal,
    }


def kafka_facts(kafka: Facts) -> Facts:
    """Kafka's facts; that a text must not be null, or a list not empty, is the type's business here."""
    facts = {name: kafka[name] for name in ("type", "default", "valid", "importance", "internal")}
    if facts["valid"] in ("", "non-null string", "non-empty list"):
        facts["valid"] = None
    return facts


OF_THE_AUTHORIZER = frozenset({"super.users", "allow.everyone.if.no.acl.found"})
"""What AclAuthorizer reads from the broker's file itself: Kafka has no definition of them to compare with."""


OF_4_4 = {
    # Dead letters (KIP-1191), as GroupCoordinatorConfig, GroupConfig and LogConfig of Apache Kafka 4.4.0 define them:
    # (type, default). All are of medium importance and have no range; those of brokers may be set cluster-wide.
    "errors.deadletterqueue.auto.create.topics.enable": (Type.BOOLEAN, False),
    "errors.deadletterqueue.topic.name.prefix": (Type.STRING, "dlq."),
    "errors.deadletterqueue.topic.name": (Type.STRING, ""),
    "errors.deadletterqueue.copy.record.enable": (Type.BOOLEAN, False),
    "errors.deadletterqueue.group.enable": (Type.BOOLEAN, False),
}
"""What the two releases that are asked here do not have yet."""


def test_settings_of_dead_letters_are_those_of_4_4() -> None:
    rows = {**BrokerSettings.rows, **TopicSettings.rows, **GroupSettings.rows}
    assert {name: (rows[name].kind, rows[name].default) for name in OF_4_4} == OF_4_4
    assert {rows[name].importance for name in OF_4_4} == {MEDIUM}


def test_broker_settings_are_those_of_3_9_and_what_4_added(kafka_3_9: Facts, kafka_4: Facts) -> None:
    ours = {
        name: row
        for name, row in BrokerSettings.rows.items()
        if not name.startswith("kavka.") and name not in OF_THE_AUTHORIZER
    }
    assert {name for name, row in ours.items() if not row.newer} == set(kafka_3_9["broker"])
    newer = {name for name, row in ours.items() if row.newer} - set(OF_4_4)
    assert newer == set(kafka_4["broker"]) - set(kafka_3_9["broker"])


OF_THE_NEWER_GROUPS = {
    "group.coordinator.rebalance.protocols": "classic,consumer,streams",
    "group.consumer.migration.policy": "bidirectional",
    "group.share.partition.max.record.locks": "2000",
}
"""Where kavka's default is not 3.9's: groups of the newer protocols are served, as by 4.x, whose range it is."""


def test_every_broker_setting_has_kafkas_type_default_range_and_importance(kafka_3_9: Facts, kafka_4: Facts) -> None:
    for name, row in BrokerSettings.rows.items():
        if not name.startswith("kavka.") and name not in OF_THE_AUTHORIZER and name not in OF_4_4:
            kafka = (kafka_4 if row.newer else kafka_3_9)["broker"][name]
            expected = kafka_facts(kafka)
            if name in OF_THE_NEWER_GROUPS:
                valid = kafka_facts(kafka_4["broker"][name])["valid"]
                expected |= {"default": OF_THE_NEWER_GROUPS[name], "valid": valid}
            assert (name, our_facts(row, kafka)) == (name, expected)
            assert (name, MODES[row.mode]) == (name, kafka["mode"])


def test_topic_settings_are_those_of_3_9(kafka_3_9: Facts) -> None:
    assert set(TopicSettings.rows) - set(OF_4_4) == set(kafka_3_9["topic"])
    for name, row in TopicSettings.rows.items():
        if name in OF_4_4:
            continue
        kafka = kafka_3_9["topic"][name]
        assert (name, our_facts(row, kafka)) == (name, kafka_facts(kafka))
        assert isinstance(row, TopicSetting)
        assert (name, row.broker_setting) == (name, kafka.get("synonyms", [None])[0])


def test_settings_of_groups_and_metrics_subscriptions_are_those_of_4(kafka_4: Facts) -> None:
    for table, key in ((GroupSettings, "group"), (ClientMetricsSettings, "client_metrics")):
        assert set(table.rows) - set(OF_4_4) == set(kafka_4[key])
        for name, row in table.rows.items():
            if name in OF_4_4:
                continue
            assert (name, our_facts(row, kafka_4[key][name])) == (name, kafka_facts(kafka_4[key][name]))


def test_settings_that_exist_at_run_time_only(kafka_3_9: Facts) -> None:
    kafka = kafka_3_9["dynamic_broker_extra"]
    assert set(DynamicOnlySettings.rows) == set(kafka) - set(kafka_3_9["broker"])
    for name, row in DynamicOnlySettings.rows.items():
        assert (name, row.kind) == (name, Type[kafka[name]["type"]])
        assert (name, row.format(row.default)) == (name, kafka[name]["default"])
