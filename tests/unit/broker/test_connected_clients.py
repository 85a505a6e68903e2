"""Who writes and reads at a broker: what is remembered of connections, for how long, how much, and who is told."""

from __future__ import annotations

import asyncio
import random
import uuid
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kavka.broker.api.cluster import describe_cluster
from kavka.broker.api.guards import configs
from kavka.broker.authorization.authorization import Authorization, AuthorizationPorts
from kavka.broker.authorization.denials import Denials
from kavka.broker.reads.fetch_session import FetchSessionCache
from kavka.broker.share.sessions import PartitionId, ShareSession
from kavka.broker.telemetry import connected_clients
from kavka.broker.telemetry.connected_clients import Client, ConnectedClients
from kavka.decisions import forget
from kavka.errors import ErrorCode
from kavka.model import NO_TOPIC_ID, BrokerId, TopicPartition
from kavka.protocol.api import ApiKey, RequestHeader
from kavka.protocol.codec import decode, encode
from kavka.protocol.connection import ConnectionContext, Request
from kavka.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kavka.protocol.messages.describe_cluster_response import DescribeClusterResponse
from kavka.replication.decide.fetching import FetchSpec
from kavka.security.acls import Operation
from kavka.security.authorizer import Question, Rule, Verdict

ORDERS, AUDIT = uuid.UUID(int=1), uuid.UUID(int=2)
NAMES = {ORDERS: "orders", AUDIT: "audit"}


def batch(producer_id: int, size: int = 100) -> memoryview:
    records = bytearray(size)
    records[43:51] = producer_id.to_bytes(8, "big", signed=True)
    return memoryview(records)


def spec(name: str, partition: int, topic_id: uuid.UUID = NO_TOPIC_ID) -> FetchSpec:
    return FetchSpec(TopicPartition(name, partition), topic_id, 0, 1, -1, -1, 0)


class World:
    def __init__(self) -> None:
        self.sessions = FetchSessionCache(10, random.Random(1))
        self.clients = ConnectedClients(self.sessions.sessions, NAMES.get, lambda topic, partition: partition < 10)

    def request(self, client_id: str = "app", port: int = 1) -> Request:
        context = ConnectionContext(f"c{port}", "10.0.0.7", port, "CLIENTS", principal="User:ada")
        context.client_software_name, context.client_software_version = "librdkafka", "2.3.0"
        return Request(RequestHeader(ApiKey.PRODUCE, 9, 1, client_id), memoryview(b""), context)

    def told(self, *topics: str) -> list[Client]:
        return [each for each in self.clients.told(topics) if each is not None]


def test_what_a_connection_wrote_is_told_with_its_producer_and_forgotten_with_the_connection() -> None:
    world = World()
    request = world.request()
    for now_ms in (1_000, 2_000):
        world.clients.wrote(request, "orders", 3, batch(77), now_ms)
    world.clients.wrote(request, "audit", 0, batch(-1), 1_500)
    (client,) = world.told("orders")
    (use,) = client.topics
    assert (client.client_id, use.topic, use.writes, use.reads) == ("app", "orders", ((3, 77, 2_000, 200),), ())
    assert {use.topic for use in world.told()[0].topics} == {"orders", "audit"}
    assert world.told("others") == []
    request.context.end()
    assert (len(world.clients), world.told()) == (0, [])


def test_reads_are_those_of_the_session_as_it_is_now() -> None:
    world = World()
    request = world.request()
    wanted = [spec("", 0, ORDERS), spec("", 1, ORDERS)]
    session = world.sessions.context(0, 0, wanted, (), 0, by_topic_id=True)
    world.clients.read(request, session.session_id, session.specs)
    assert world.told("orders")[0].topics[0].reads == (0, 1)
    world.sessions.context(session.session_id, 1, [spec("", 2, AUDIT)], [(ORDERS.int, 0)], 0, by_topic_id=True)
    assert [(use.topic, use.reads) for use in world.told()[0].topics] == [("orders", (1,)), ("audit", (2,))]
    world.sessions.context(session.session_id, -1, [], (), 0, by_topic_id=True)
    assert world.told() == [], "the session was closed"


def test_without_a_session_the_last_fetch_counts_and_partitions_that_are_not_here_do_not() -> None:
    world = World()
    request = world.request()
    world.clients.read(request, 0, [spec("orders", 0), spec("orders", 99)])
    world.clients.read(request, 0, [spec("orders", 1), spec("orders", 99)])
    assert world.told("orders")[0].topics[0].reads == (1,)


def test_a_member_of_a_share_group_reads_what_its_share_session_holds() -> None:
    world = World()
    session = ShareSession("g", "m", lambda lost: None, lambda: 0)
    session.change([PartitionId(ORDERS, 4)], ())
    world.clients.shared(world.request(), session)
    assert world.told("orders")[0].topics[0].reads == (4,)
    session.is_over = True
    assert world.told() == []


def test_what_all_connections_are_remembered_for_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connected_clients, "MOST_PLACES", 3)
    world = World()
    first, second = world.request(port=1), world.request(port=2)
    for partition in range(5):
        world.clients.wrote(first, "orders", partition, batch(1), 1)
    world.clients.read(second, 0, [spec("orders", 0)])
    assert world.clients.is_full
    assert [len(use.writes) for client in world.told() for use in client.topics] == [3]
    first.context.end()
    world.clients.read(second, 0, [spec("orders", 0)])
    assert not world.clients.is_full
    assert world.told()[0].topics[0].reads == (0,)


def test_a_client_id_of_any_length_makes_no_answer_long() -> None:
    world = World()
    world.clients.wrote(world.request("x" * 32_000), "orders", 0, batch(1), 1)
    assert world.told()[0].client_id == "x" * 250


class Asked:
    generation = 0

    def __init__(self, *, allows: bool) -> None:
        self.allows = allows
        self.operations: list[Operation] = []

    def decide(self, question: Question) -> Verdict:
        self.operations.append(question.operation)
        return Verdict(self.allows, Rule.ALLOWED)

    decide_on_any = decide


@pytest.mark.parametrize("allows", [True, False])
def test_only_who_may_describe_the_cluster_is_told_of_clients(*, allows: bool) -> None:
    asked = Asked(allows=allows)
    denials = Denials(BrokerId(1), forget, wall_ms=lambda: 0)
    authorization = Authorization(cast(Any, asked), AuthorizationPorts(lambda: 0, denials, frozenset()))
    caller = authorization.caller(World().request())
    plain = configs.describe_cluster(cast(Any, None), caller, DescribeClusterRequest())
    assert (plain, asked.operations) == (None, [])
    answer = configs.describe_cluster(cast(Any, None), caller, DescribeClusterRequest(kavka_clients_of=[]))
    assert set(asked.operations) == {Operation.DESCRIBE}
    assert (answer is None) == allows
    if not allows:
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert answer.kavka_clients is None


def test_the_answer_has_clients_only_where_it_was_asked_for_them_and_at_most_so_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    for port in range(4):
        world.clients.wrote(world.request(port=port), "orders", 0, batch(port), 1)
    node = SimpleNamespace(cluster_id="c", controller_id=1)
    broker = cast(Any, SimpleNamespace(metadata=node, connected_clients=world.clients))
    monkeypatch.setattr(describe_cluster, "reachable_brokers", lambda metadata, request: [])
    plain = describe_cluster.handle(broker, world.request(), DescribeClusterRequest())
    assert isinstance(plain, DescribeClusterResponse)
    assert plain.kavka_clients is None

    def ask(*topics: str) -> DescribeClusterResponse:
        message = decode(
            DescribeClusterRequest, memoryview(encode(DescribeClusterRequest(kavka_clients_of=list(topics)), 0)), 0
        )
        answer = asyncio.run(cast(Any, describe_cluster.handle(broker, world.request(), message)))
        return decode(DescribeClusterResponse, memoryview(encode(answer, 0)), 0)

    told = ask("orders")
    assert told.kavka_clients is not None
    assert [each.port for each in told.kavka_clients] == [0, 1, 2, 3]
    one = told.kavka_clients[1]
    assert (one.principal, one.software_name, one.software_version) == ("User:ada", "librdkafka", "2.3.0")
    assert ask("audit").kavka_clients == []
    monkeypatch.setattr(connected_clients, "MOST_CLIENTS", 2)
    few = ask()
    assert few.kavka_clients is not None
    assert (len(few.kavka_clients), few.kavka_has_more_clients) == (2, True)
