"""What `kavka up --brokers N` makes of its options and of a data directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kavka.cli.run.start import Start, WrongUsage, has_cluster
from kavka.cli.run.start_cluster import TooFewBrokers, broker_count, require_free_ports, settings_of_broker
from kavka.config.broker import BrokerConfig
from kavka.errors import AddressUnavailable
from tests.kit.ports import free_port


def of(plan: Start, broker_id: int, count: int) -> BrokerConfig:
    return BrokerConfig.from_properties(settings_of_broker(plan, broker_id, count))


def lay(data: Path, *names: str) -> None:
    for name in names:
        (data / name).mkdir(parents=True)


def test_brokers_have_ids_ports_and_directories_of_their_own_and_one_zookeeper() -> None:
    configs = [of(Start(port=9092, data="/d"), broker_id, 3) for broker_id in (1, 2, 3)]
    assert [config.broker_id for config in configs] == [1, 2, 3]
    assert [str(config.listener_endpoints[0]) for config in configs] == [
        "PLAINTEXT://127.0.0.1:9092",
        "PLAINTEXT://127.0.0.1:9093",
        "PLAINTEXT://127.0.0.1:9094",
    ]
    assert [config.log_directories for config in configs] == [
        ("/d/broker-1/logs",),
        ("/d/broker-2/logs",),
        ("/d/broker-3/logs",),
    ]
    assert {config.kavka_zookeeper_data_dir for config in configs} == {"/d/kavka-zookeeper"}


@pytest.mark.parametrize(("count", "replicas", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)])
def test_topics_have_as_many_replicas_as_there_can_be_and_survive_the_loss_of_one_broker(
    count: int, replicas: int, in_sync: int
) -> None:
    config = of(Start(), 1, count)
    assert config.offsets_topic_replication_factor == replicas
    assert config.transaction_state_log_replication_factor == replicas
    assert config.transaction_state_log_min_isr == in_sync
    assert config.default_replication_factor == replicas
    assert config.min_insync_replicas == in_sync


def test_what_is_set_holds_for_all_brokers() -> None:
    plan = Start(
        settings=("default.replication.factor=1", "min.insync.replicas=1", "offsets.topic.replication.factor=2")
    )
    for broker_id in (1, 2, 3):
        config = of(plan, broker_id, 3)
        assert (config.default_replication_factor, config.offsets_topic_replication_factor) == (1, 2)
        assert config.min_insync_replicas == 1


@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_an_ipv6_address_may_stand_in_brackets(host: str) -> None:
    config = of(Start(host=host, advertise="fe80::2"), 1, 3)
    assert str(config.listener_endpoints[0]) == "PLAINTEXT://[::1]:9092"
    assert str(config.advertised_endpoints[0]) == "PLAINTEXT://[fe80::2]:9092"


@pytest.mark.parametrize(
    "setting", ["broker.id=7", "node.id=7", "listeners=PLAINTEXT://:1", "log.dirs=/x", "zookeeper.connect=h:2181"]
)
def test_what_brokers_cannot_have_in_common_is_wrong_usage(setting: str) -> None:
    with pytest.raises(WrongUsage, match="kavka server"):
        settings_of_broker(Start(settings=(setting,)), 1, 3)


@pytest.mark.parametrize(
    ("advertise", "told"),
    [("kafka.example.com", "PLAINTEXT://kafka.example.com:9094"), ("h:31000", "PLAINTEXT://h:31002")],
)
def test_each_broker_tells_clients_a_port_of_its_own(advertise: str, told: str) -> None:
    config = of(Start(host="0.0.0.0", advertise=advertise), 3, 3)
    assert str(config.advertised_endpoints[0]) == told


def test_a_new_directory_has_one_broker_unless_more_are_asked_for(tmp_path: Path) -> None:
    assert broker_count(Start(data=str(tmp_path / "new"))) == 1
    assert broker_count(Start(data=str(tmp_path / "new"), brokers=3)) == 3


def test_a_directory_comes_back_with_the_brokers_that_it_has(tmp_path: Path) -> None:
    lay(tmp_path, "broker-1/logs", "broker-2/logs", "broker-3/logs", "broker-x", "kavka-zookeeper")
    assert broker_count(Start(data=str(tmp_path))) == 3
    assert has_cluster(Start(data=str(tmp_path)))


def test_a_directory_grows_and_broker_1_stays_where_a_single_one_was(tmp_path: Path) -> None:
    lay(tmp_path, "logs", "kavka-zookeeper")
    plan = Start(data=str(tmp_path), brokers=3)
    assert not has_cluster(plan)
    assert broker_count(plan) == 3
    assert of(plan, 1, 3).log_directories == (str(tmp_path / "logs"),)
    assert of(plan, 2, 3).log_directories == (str(tmp_path / "broker-2" / "logs"),)
    assert of(plan, 1, 3).kavka_zookeeper_data_dir == str(tmp_path / "kavka-zookeeper")


@pytest.mark.parametrize("asked", [1, 2])
def test_fewer_brokers_than_a_directory_has_are_refused(tmp_path: Path, asked: int) -> None:
    lay(tmp_path, "broker-1/logs", "broker-2/logs", "broker-3/logs")
    with pytest.raises(TooFewBrokers, match=f"has 3 brokers, and --brokers is {asked}"):
        broker_count(Start(data=str(tmp_path), brokers=asked))


def test_a_port_that_is_taken_is_named_with_the_broker_that_needs_it() -> None:
    import socket

    port = free_port(following=[1, 2])
    with (
        socket.create_server(("127.0.0.1", port + 2)),
        pytest.raises(
            AddressUnavailable, match=f"{port + 2} for broker 3: port {port + 2} is taken: process {os.getpid()} "
        ),
    ):
        require_free_ports(Start(port=port), 3)


@pytest.mark.parametrize(
    "plan", [Start(port=65534, brokers=3), Start(port=9092, brokers=3, zookeeper_port=9093)], ids=["too high", "twice"]
)
def test_ports_that_there_cannot_be_are_wrong_usage(plan: Start) -> None:
    with pytest.raises(WrongUsage):
        require_free_ports(plan, 3)


def test_several_brokers_start_without_typer_and_rich_too(tmp_path: Path) -> None:
    program = (
        "import sys; from kavka.cli.run.start import quick_start;"
        "from kavka.cli.run.start_cluster import settings_of_broker;"
        "settings_of_broker(quick_start(['up', '-n', '3']), 1, 3);"
        "print([name for name in ('typer', 'rich', 'kavka.cli.app') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert answer.stdout == "[]\n"
