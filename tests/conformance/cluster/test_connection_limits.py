"""max.connections where brokers have a listener of their own: it stays a way in, for them and for an administrator."""

from __future__ import annotations

import select
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from kavka.protocol import messages as m
from kavka.protocol.messages import incremental_alter_configs_request as ia
from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.kit.broker_client import BrokerClient
from tests.kit.kavka_process import HOST, KavkaProcess
from tests.kit.ports import free_port
from tests.kit.process_cluster import eventually

MAX_CONNECTIONS = 10
CLIENTS = 20
BROKER = 4


class Doors(NamedTuple):
    """The ports of a broker's two listeners, and how many threads serve the first."""

    clients: int
    brokers: int
    threads: int


@pytest.fixture(
    params=[
        "kavka",
        pytest.param("kavka-threads", marks=pytest.mark.thorough),
        pytest.param("zk", id="kafka-3.9", marks=pytest.mark.kafka),
        pytest.param("kraft", id="kafka-4.3", marks=pytest.mark.kafka),
    ]
)
def doors(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """A broker with `max.connections`, whose brokers' listener is the second one."""
    directory = tmp_path_factory.mktemp("doors")
    clients = free_port(following=(1, 100, 200))
    listeners = f"CLIENTS://{HOST}:{clients},BROKERS://{HOST}:{clients + 1}"
    settings = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
        "max.connections": str(MAX_CONNECTIONS),
        "num.network.threads": "3" if request.param == "kavka-threads" else "1",
    }
    doors = Doors(clients, clients + 1, int(settings["num.network.threads"]))
    if request.param.startswith("kavka"):
        with KavkaProcess(directory / "data", port=clients, settings=settings):
            yield doors
        return
    if request.param == "kraft":
        settings["listeners"] += f",CONTROLLER://{HOST}:{clients + 200}"
    try:
        kafka = ApacheKafka(
            directory / "apache", mode=request.param, settings=settings, heap="-Xmx256M -Xms128M", port=clients
        )
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with kafka:
        yield doors


QUESTION = m.ApiVersionsRequest()


def answered(clients: list[BrokerClient]) -> list[BrokerClient]:
    """Those that the broker has sent something to, or closed."""
    readable, _, _ = select.select([client.socket for client in clients], [], [], 0)
    return [client for client in clients if client.socket in readable]


def is_served(client: BrokerClient) -> bool:
    """Whether what has come is an answer, not the end."""
    return len(client.socket.recv(1 << 20)) > 0


def test_the_brokers_listener_is_a_way_in_and_costs_the_client_that_was_idle_for_longest(doors: Doors) -> None:
    with ExitStack() as stack:

        def connect(port: int) -> BrokerClient:
            return stack.enter_context(BrokerClient(port))

        first = connect(doors.clients)
        assert first.ask(QUESTION, 0).error_code == 0
        others = [connect(doors.clients) for _ in range(CLIENTS)]
        for client in others:
            client.send(QUESTION, 0)
        # Half of the places go to clients; a few may go to the broker's own connections.
        eventually("clients are in", lambda: len(answered(others)) >= MAX_CONNECTIONS // 2)
        administrators = [connect(doors.brokers) for _ in range(MAX_CONNECTIONS // 2)]
        assert {each.ask(QUESTION, 0).error_code for each in administrators} == {0}
        eventually("a client was closed", lambda: answered([first]) or doors.threads > 1)
        assert doors.threads > 1 or not is_served(first)
        served = answered(others)
        assert len(served) < MAX_CONNECTIONS
        # Whoever is in can undo it.
        change = ia.AlterableConfig(name="max.connections", config_operation=0, value="100")
        resource = ia.AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[change])
        (outcome,) = administrators[0].ask(m.IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        assert outcome.error_code == 0, outcome
        eventually("all others are served, or were", lambda: len(answered(others)) == CLIENTS)
        assert {each.ask(QUESTION, 0).error_code for each in administrators} == {0}


def test_a_lower_limit_closes_clients_that_are_too_many_and_no_broker(doors: Doors) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(BrokerClient(doors.clients)) for _ in range(4)]
        brokers = [stack.enter_context(BrokerClient(doors.brokers)) for _ in range(3)]
        for client in (*clients, *brokers):
            assert client.ask(QUESTION, 0).error_code == 0
        change = ia.AlterableConfig(name="max.connections", config_operation=0, value="3")
        resource = ia.AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[change])
        (outcome,) = brokers[0].ask(m.IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        assert outcome.error_code == 0, outcome
        eventually("all clients were closed", lambda: len(answered(clients)) == 4)
        assert not any(is_served(client) for client in clients)
        assert [broker.ask(QUESTION, 0).error_code for broker in brokers] == [0, 0, 0]
