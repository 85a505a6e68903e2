"""BrokerConfig: which text counts, what follows from several, what is refused."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kavka.config import BrokerConfig
from kavka.config.broker import setting_named, synonyms
from kavka.config.listeners import Endpoint
from kavka.config.setting import InvalidValue
from kavka.errors import ConfigError


def config(**texts: str) -> BrokerConfig:
    return BrokerConfig.from_properties({name.replace("_", "."): text for name, text in texts.items()})


def test_defaults_are_kafkas() -> None:
    broker = config()
    assert broker.log_segment_bytes == 1 << 30
    assert broker.log_retention_time_ms == 168 * 3_600_000
    assert broker.log_roll_time_ms == 168 * 3_600_000
    assert broker.log_roll_jitter_time_ms == 0
    assert broker.log_flush_time_ms == (1 << 63) - 1
    assert broker.log_directories == ("/tmp/kafka-logs",)
    assert broker.listener_endpoints == (Endpoint("PLAINTEXT", "", 9092, "PLAINTEXT"),)
    assert broker.advertised_endpoints == broker.listener_endpoints
    assert broker.inter_broker_listener == "PLAINTEXT"
    assert broker.zookeeper_connection_time_ms == 18_000


def test_a_config_does_not_change() -> None:
    with pytest.raises(AttributeError, match="does not change"):
        config().broker_id = 5


def test_unknown_names_are_kept_and_ignored() -> None:
    broker = BrokerConfig.from_properties({"b.x": "1", "listener.name.plaintext.max.connections": "4", "a.x": "2"})
    assert broker.unknown == ("b.x", "a.x")


@pytest.mark.parametrize(
    ("texts", "time_ms"),
    [
        ({"log.retention.ms": "5", "log.retention.minutes": "6", "log.retention.hours": "7"}, 5),
        ({"log.retention.minutes": "6", "log.retention.hours": "7"}, 360_000),
        ({"log.retention.hours": "7"}, 25_200_000),
        ({"log.retention.ms": "-1"}, -1),
        ({"log.retention.ms": "-7"}, -1),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_retention_by_ms_over_minutes_over_hours(texts: dict[str, str], time_ms: int) -> None:
    assert BrokerConfig.from_properties(texts).log_retention_time_ms == time_ms


def test_the_finer_setting_of_two_counts() -> None:
    broker = config(log_roll_ms="1", log_roll_hours="2", log_roll_jitter_ms="3", log_flush_interval_ms="4")
    assert (broker.log_roll_time_ms, broker.log_roll_jitter_time_ms, broker.log_flush_time_ms) == (1, 3, 4)
    broker = config(log_roll_hours="2", log_roll_jitter_hours="1", log_flush_scheduler_interval_ms="9")
    assert broker.log_roll_time_ms == 7_200_000
    assert broker.log_roll_jitter_time_ms == 3_600_000
    assert broker.log_flush_time_ms == 9


def test_timestamps_fall_back_to_the_setting_for_both_directions() -> None:
    broker = config(log_message_timestamp_difference_max_ms="7", log_message_timestamp_after_max_ms="8")
    assert broker.log_message_timestamp_before_limit_ms == 7
    assert broker.log_message_timestamp_after_limit_ms == 8


@pytest.mark.setting("log.dir", "log.dirs")
def test_log_directories() -> None:
    assert config(log_dir="/a,/b").log_directories == ("/a", "/b")
    assert config(log_dir="/a", log_dirs=" /b , /c").log_directories == ("/b", "/c")


@pytest.mark.parametrize("name", ["broker.id", "node.id"])
def test_broker_id_and_node_id_are_one(name: str) -> None:
    broker = BrokerConfig.from_properties({name: "7"})
    assert (broker.broker_id, broker.node_id) == (7, 7)


def test_what_was_set_at_run_time_lies_over_the_file_and_this_brokers_over_all_brokers() -> None:
    broker = BrokerConfig.from_properties(
        {"message.max.bytes": "1", "log.retention.minutes": "1", "num.io.threads": "9"},
        dynamic_default={"message.max.bytes": "2", "num.io.threads": "10", "broker.id": "5", "odd": "x"},
        dynamic={"message.max.bytes": "3", "log.retention.ms": "4"},
    )
    assert (broker.message_max_bytes, broker.num_io_threads, broker.log_retention_time_ms) == (3, 10, 4)
    assert broker.broker_id == -1
    changed = broker.with_dynamic(dynamic={})
    assert (changed.message_max_bytes, changed.log_retention_time_ms) == (2, 60_000)
    assert broker.message_max_bytes == 3


def test_several_listeners() -> None:
    broker = config(
        listeners="PLAINTEXT://:9092, internal://[::1]:9093,SSL://10.0.0.1:0",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,SSL:SSL,INTERNAL:SASL_PLAINTEXT",
        advertised_listeners="PLAINTEXT://kafka.example.com:19092,INTERNAL://[::1]:9093",
        inter_broker_listener_name="internal",
    )
    assert broker.listener_endpoints == (
        Endpoint("PLAINTEXT", "", 9092, "PLAINTEXT"),
        Endpoint("INTERNAL", "::1", 9093, "SASL_PLAINTEXT"),
        Endpoint("SSL", "10.0.0.1", 0, "SSL"),
    )
    assert [str(endpoint) for endpoint in broker.advertised_endpoints] == [
        "PLAINTEXT://kafka.example.com:19092",
        "INTERNAL://[::1]:9093",
    ]
    assert broker.inter_broker_listener == "INTERNAL"


def test_an_ipv4_and_an_ipv6_address_may_share_a_port() -> None:
    broker = config(
        listeners="A://127.0.0.1:9092,B://[::1]:9092",
        listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT",
        inter_broker_listener_name="A",
    )
    assert len(broker.listener_endpoints) == 2


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (
            {"log.segment.bytes": "13"},
            "Invalid value 13 for configuration log.segment.bytes: Value must be at least 14",
        ),
        ({"log.retention.ms": "0"}, "log.retention.ms: Value must be unlimited (-1) or at least 1"),
        ({"log.retention.hours": "0"}, "log.retention.hours: Value must be unlimited"),
        ({"log.roll.ms": "0"}, "log.roll.ms: Value must be at least 1"),
        ({"log.dirs": " , "}, "log.dirs: At least one log directory"),
        ({"listeners": ""}, "listeners: At least one listener"),
        ({"listeners": "9092"}, "'9092' is not NAME://host:port"),
        ({"listeners": "PLAINTEXT://:65536"}, "is not NAME://host:port with a port from 0 to 65535"),
        ({"listeners": "PLAINTEXT://:-1"}, "is not NAME://host:port"),
        ({"listeners": "OTHER://:9092"}, "no security protocol is defined for listener OTHER"),
        ({"listeners": "PLAINTEXT://:1,plaintext://:2"}, "each listener must have a different name"),
        ({"listeners": "PLAINTEXT://:1,SSL://:1"}, "each listener must have a different port, found 1 twice"),
        ({"listener.security.protocol.map": "PLAINTEXT:HTTP"}, "'PLAINTEXT:HTTP' is not NAME:PROTOCOL"),
        ({"listener.security.protocol.map": "A:SSL,a:SSL"}, "A is mapped twice"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "nobody can connect to the meta-address 0.0.0.0"),
        ({"advertised.listeners": "SSL://h:1"}, "listeners has none named SSL"),
        (
            {"inter.broker.listener.name": "SSL"},
            "inter.broker.listener.name: brokers would speak to each other through a",
        ),
        (
            {"listeners": "SASL_SSL://:1"},
            "Invalid value PLAINTEXT (the default) for configuration security.inter.broker.protocol: brokers would "
            "speak to each other through a listener PLAINTEXT, and advertised.listeners has only SASL_SSL; set "
            "inter.broker.listener.name=SASL_SSL, for example",
        ),
        (
            {"listeners": "PLAINTEXT://:1", "security.inter.broker.protocol": "SSL"},
            "Invalid value SSL for configuration security.inter.broker.protocol: brokers would",
        ),
        (
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "Only one of inter.broker.listener.name and security.inter.broker.protocol",
        ),
        ({"broker.id": "1001"}, "at least -1 and no more than reserved.broker.max.id=1000"),
        ({"broker.id": "-1", "broker.id.generation.enable": "false"}, "broker.id: Value must be at least 0"),
        ({"broker.id": "1", "node.id": "2"}, "Value must be that of node.id, which is 2"),
        ({"replica.fetch.wait.max.ms": "30001"}, "Value must be at least that of replica.fetch.wait.max.ms"),
        ({"queued.max.request.bytes": "5"}, "at least that of socket.request.max.bytes"),
        ({"log.cleaner.dedupe.buffer.size": "5"}, "at least that of log.cleaner.threads x 1048576"),
        ({"group.min.session.timeout.ms": "9999999"}, "at least that of group.min.session.timeout.ms"),
        ({"group.consumer.session.timeout.ms": "5"}, "at least that of group.consumer.min.session.timeout.ms"),
        ({"connection.failed.authentication.delay.ms": "600001"}, "connections.max.idle.ms"),
        ({"offsets.commit.required.acks": "4"}, "offsets.topic.replication.factor, which is 3"),
        ({"control.plane.listener.name": "CONTROL"}, "a listener of advertised.listeners, which has PLAINTEXT"),
        ({"control.plane.listener.name": "plaintext"}, "different listener than inter.broker.listener.name"),
        ({"early.start.listeners": "PLAINTEXT, EARLY"}, "listeners has none named EARLY"),
        ({"offsets.topic.compression.codec": "5"}, "0 for none, 1 for gzip, 2 for snappy, 3 for lz4, 4 for zstd"),
        ({"max.connections.per.ip.overrides": "h:x"}, "'h:x' is not host:number"),
        ({"max.connections.per.ip.overrides": "a b:5,[::1]:6"}, "contains invalid addresses : a b,[::1]"),
        ({"max.connections.per.ip": "0"}, "Value can be 0 only where max.connections.per.ip.overrides is set"),
        ({"process.roles": "broker"}, "There are no KRaft roles"),
        ({"listener.name.plaintext.max.connections": "x"}, "Not a number of type INT"),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "Disabling the 'classic' protocol is not supported."),
        ({"group.coordinator.rebalance.protocols": "classic,raft"}, "String must be one of"),
    ],
)
def test_what_a_broker_must_not_start_with(texts: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.from_properties(texts)
    assert words in str(refused.value)


@pytest.mark.parametrize("protocols", ["classic", "classic,consumer", "classic,consumer,streams", "share,classic"])
def test_protocols_of_groups_that_kafka_knows_may_be_named(protocols: str) -> None:
    config = BrokerConfig.from_properties({"group.coordinator.rebalance.protocols": protocols})
    assert list(config.group_coordinator_rebalance_protocols) == protocols.split(",")


def test_a_listener_may_have_a_bound_on_its_connections_that_changes_at_run_time() -> None:
    listeners = {
        "listeners": "CLIENTS://:1,BROKERS://:2,OTHERS://:3",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,OTHERS:PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
        "listener.name.clients.max.connections": "5",
        "listener.name.others.max.connections": "6",
    }
    config = BrokerConfig.from_properties(listeners)
    assert config.max_connections_of_listeners == {"CLIENTS": 5, "OTHERS": 6}
    laid_over = BrokerConfig.from_properties(
        listeners,
        dynamic={"listener.name.clients.max.connections": "7"},
        dynamic_default={"listener.name.clients.max.connections": "8", "listener.name.others.max.connections": "9"},
    )
    assert laid_over.max_connections_of_listeners == {"CLIENTS": 7, "OTHERS": 9}


def test_a_bad_text_set_at_run_time_is_refused() -> None:
    with pytest.raises(InvalidValue):
        config().with_dynamic(dynamic={"message.max.bytes": "x"})


def test_connections_per_ip() -> None:
    assert config(max_connections_per_ip_overrides="10.0.0.1:5, h:6").connections_per_ip_overrides == {
        "10.0.0.1": 5,
        "h": 6,
    }
    alone = config(max_connections_per_ip="0", max_connections_per_ip_overrides="::1:5")
    assert alone.connections_per_ip_overrides == {"::1": 5}


def test_synonyms_and_the_row_behind_a_listeners_setting() -> None:
    assert synonyms("log.retention.hours") == ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    assert synonyms("broker.id") == ("broker.id",)
    name = "listener.name.internal.scram-sha-256.sasl.jaas.config"
    assert synonyms(name) == (name, "sasl.jaas.config")
    row = setting_named(name)
    assert row is not None
    assert row.sensitive
    assert setting_named("listener.name.internal.no.such") is None


def test_importing_the_settings_loads_no_documentation() -> None:
    program = "import sys, kavka.config; print('kavka.config.documentation' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"


@pytest.mark.parametrize(
    ("listeners", "advertised", "found"),
    [
        ("PLAINTEXT://127.0.0.1:1", "", []),
        ("PLAINTEXT://127.9.9.9:1", "", []),
        ("PLAINTEXT://[::1]:1", "", []),
        ("PLAINTEXT://localhost:1", "", []),
        ("PLAINTEXT://:1", "PLAINTEXT://localhost:1", ["PLAINTEXT://:1"]),
        ("PLAINTEXT://10.0.0.1:1", "", ["PLAINTEXT://10.0.0.1:1"]),
        ("PLAINTEXT://127.0.0.1.example.com:1", "", ["PLAINTEXT://127.0.0.1.example.com:1"]),
        ("PLAINTEXT://127.0.0.1:1", "PLAINTEXT://broker.example.com:9", ["PLAINTEXT://broker.example.com:9"]),
        ("PLAINTEXT://127.0.0.1:1,SSL://10.0.0.1:2", "", []),
        (
            "PLAINTEXT://127.0.0.1:1,SASL_PLAINTEXT://10.0.0.1:2",
            "",
            ["SASL_PLAINTEXT://10.0.0.1:2"],
        ),
    ],
)
@pytest.mark.setting("kavka.refuse.insecure.listeners")
def test_listeners_in_clear_that_others_reach_are_found_and_refused_where_asked(
    listeners: str, advertised: str, found: list[str]
) -> None:
    settings = {"listeners": listeners, "sasl.enabled.mechanisms": "SCRAM-SHA-512"}
    if advertised:
        settings["advertised.listeners"] = advertised
    if "SSL:" in listeners:
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": "x.pem"}
    assert [str(each) for each in BrokerConfig.from_properties(settings).clear_text_endpoints] == found
    strict = {**settings, "kavka.refuse.insecure.listeners": "true"}
    if found:
        with pytest.raises(ConfigError, match="is not of the loopback"):
            BrokerConfig.from_properties(strict)
    else:
        BrokerConfig.from_properties(strict)
