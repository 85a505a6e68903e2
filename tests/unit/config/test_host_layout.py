"""The brokers of one host out of one file: what each has of its own, and which files cannot be shared."""

from __future__ import annotations

import pytest

from kavka.config.host_layout import HostLayout, lay_out, why_other
from kavka.errors import ConfigError

FILE = {
    "broker.id": "11",
    "zookeeper.connect": "z:2181",
    "listeners": "PLAINTEXT://:9092",
    "log.dirs": "/d1,/d2/",
    "num.partitions": "6",
}


def layout(count: int = 3, **texts: str) -> HostLayout:
    named = {name.replace("_", "."): text for name, text in texts.items()}
    return lay_out({**FILE, **named}, count, host_name="machine-a")


def test_ids_ports_and_directories_follow_from_the_first_and_all_else_is_shared() -> None:
    brokers = layout().brokers
    assert [broker.broker_id for broker in brokers] == [broker.config.broker_id for broker in brokers] == [11, 12, 13]
    assert [broker.config.listener_endpoints[0].port for broker in brokers] == [9092, 9093, 9094]
    assert brokers[1].config.log_directories == ("/d1/broker-12", "/d2/broker-12")
    assert {broker.config.num_partitions for broker in brokers} == {6}
    assert [broker.address for broker in brokers] == ["127.0.0.1:9092", "127.0.0.1:9093", "127.0.0.1:9094"]


def test_the_rack_is_the_host_unless_the_file_has_one() -> None:
    assert {broker.config.broker_rack for broker in layout().brokers} == {"machine-a"}
    assert layout(broker_rack="zone-1").rack == "zone-1"


def test_every_listener_and_its_advertised_port_move_along() -> None:
    second = layout(
        2,
        listeners="PLAINTEXT://[::1]:9092,SSL://:9192",
        advertised_listeners="PLAINTEXT://kafka.example.com:19092,SSL://kafka.example.com:19192",
    ).brokers[1]
    assert [(each.host, each.port) for each in second.config.listener_endpoints] == [("::1", 9093), ("", 9193)]
    assert [each.port for each in second.config.advertised_endpoints] == [19093, 19193]
    assert second.address == "kafka.example.com:19093"


def test_the_hosts_metrics_have_the_files_port_and_the_brokers_those_behind_it_on_the_loopback() -> None:
    found = layout(2, kavka_metrics_port="9200", kavka_metrics_host="10.0.0.1")
    assert found.metrics is not None
    assert (found.metrics.host, found.metrics.port, found.metrics.of_brokers) == (
        "10.0.0.1",
        9200,
        {11: 9201, 12: 9202},
    )
    second = found.brokers[1].config
    assert (second.kavka_metrics_host, second.kavka_metrics_port) == ("127.0.0.1", 9202)
    assert layout().metrics is None


def test_cordoned_directories_are_the_brokers_own() -> None:
    assert layout(cordoned_log_dirs="/d2").brokers[0].config.cordoned_log_directories == ("/d2/broker-11",)
    everything = layout(cordoned_log_dirs="*").brokers[0].config
    assert everything.cordoned_log_directories == everything.log_directories


def test_a_file_with_the_other_name_of_the_id_will_do() -> None:
    written = {name: text for name, text in FILE.items() if name != "broker.id"}
    found = lay_out({**written, "node.id": "5"}, 2, host_name="a")
    assert found.broker_ids == (5, 6)
    assert found.brokers[1].settings["node.id"] == "6"


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"broker.id": "-1"}, "broker.id: brokers of one host need the first one's id"),
        ({"zookeeper.connect": ""}, "zookeeper.connect: the brokers of a host are processes of their own"),
        ({"listeners": "PLAINTEXT://:0"}, "brokers of one host need a port"),
        ({"listeners": "PLAINTEXT://:65534"}, "3 brokers need the ports up to 65536"),
        (
            {"listeners": "PLAINTEXT://:9092,SSL://:9094"},
            "3 brokers need ports 9094 to 9096, and port 9094 is one of PLAINTEXT ports 9092 to 9094",
        ),
        ({"kavka.metrics.port": "9091"}, "3 brokers need ports 9091 to 9094, and port 9092 is one of PLAINTEXT"),
        ({"kavka.abandoned.log.dirs": "/d3"}, "start that broker once with `kavka server`"),
        ({"broker.id": "999"}, "broker.id"),
        ({"num.partitions": "0"}, "num.partitions"),
    ],
)
def test_what_cannot_be_shared_is_refused(texts: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        lay_out({**FILE, **texts}, 3, host_name="a")
    assert said in str(refused.value)


@pytest.mark.parametrize("count", [0, 257])
def test_a_host_has_a_bounded_number_of_brokers(count: int) -> None:
    with pytest.raises(ConfigError, match="1 to 256"):
        layout(count)


def test_two_listeners_may_share_a_port_by_their_kind_of_address() -> None:
    both = "PLAINTEXT://127.0.0.1:9092,V6://[::1]:9092"
    mapped = "PLAINTEXT:PLAINTEXT,V6:PLAINTEXT"
    second = layout(2, listeners=both, listener_security_protocol_map=mapped).brokers[1]
    assert [each.port for each in second.config.listener_endpoints] == [9093, 9093]


def test_a_restart_takes_over_settings_but_not_other_brokers_directories_or_metrics() -> None:
    running = layout()
    assert why_other(running, layout(num_partitions="9", listeners="PLAINTEXT://:9392")) is None
    assert "11 to 13, and would be 11 to 12" in str(why_other(running, layout(2)))
    assert "log.dirs is" in str(why_other(running, layout(log_dirs="/d3")))
    assert "metrics" in str(why_other(running, layout(kavka_metrics_port="9200")))
