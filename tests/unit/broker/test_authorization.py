"""Sessions and what they remember, rows for every API, denials counted and not repeated."""

from __future__ import annotations

import subprocess
import tracemalloc
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.api.loader import guard
from kavka.broker.api.records import offset_for_leader_epoch
from kavka.broker.api_rights import API_RIGHTS
from kavka.broker.api_table import SERVED
from kavka.broker.authorization import authorization as room
from kavka.broker.authorization.authorization import Authorization, AuthorizationPorts
from kavka.broker.authorization.denials import MAX_RECORDED, Denials
from kavka.broker.authorization.plugins import load
from kavka.broker.dispatcher import Dispatcher
from kavka.broker.late import Late
from kavka.broker.quotas.client_quotas import ClientQuotas, QuotaPorts
from kavka.broker.reads.fetch_session import FetchSessionCache
from kavka.config.broker import BrokerConfig
from kavka.decisions import REPEATED_INTERVAL_MS, Decision, DecisionKind, decode_decision, encode_decision
from kavka.decisions import RecordedDecision as Recorded
from kavka.errors import ConfigError, ProtocolViolation
from kavka.model import BrokerId
from kavka.protocol.api import ApiKey, RequestHeader
from kavka.protocol.codec import decode, encode
from kavka.protocol.connection import ConnectionContext, Request, Response
from kavka.protocol.messages import (
    ControlledShutdownRequest,
    DeleteAclsRequest,
    FetchRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    OffsetForLeaderEpochRequest,
    WriteTxnMarkersRequest,
)
from kavka.security.acls import Operation
from kavka.security.authorizer import Question, Rule, Verdict
from kavka.security.resource_patterns import ResourceType

READ, TOPIC, GROUP = Operation.READ, ResourceType.TOPIC, ResourceType.GROUP


class Fixed:
    """An authorizer that says one thing, and notes what it is asked."""

    def __init__(self, *, allows: bool = True) -> None:
        self.generation = 0
        self.allows = allows
        self.asked: list[Question] = []

    def decide(self, question: Question) -> Verdict:
        self.asked.append(question)
        return Verdict(self.allows, Rule.ALLOWED if self.allows else Rule.NOT_ALLOWED)

    decide_on_any = decide


class Failing(Fixed):
    def decide(self, question: Question) -> Verdict:
        raise RuntimeError("broken")

    decide_on_any = decide


class Now:
    ms = 0


def new(authorizer: Any) -> tuple[Authorization, list[Decision], type[Now]]:
    recorded: list[Decision] = []
    Now.ms = 0
    denials = Denials(BrokerId(1), recorded.append, wall_ms=lambda: 5)
    ports = AuthorizationPorts(lambda: Now.ms, denials, frozenset({"BROKERS"}))
    return Authorization(authorizer, ports), recorded, Now


def request(message: Any, key: ApiKey, version: int, *, listener: str = "PLAINTEXT", host: str = "10.0.0.1") -> Request:
    header = RequestHeader(key, version, 1, "client")
    return Request(header, memoryview(encode(message, version)), ConnectionContext("c", host, 1, listener))


HEARTBEAT = request(HeartbeatRequest(group_id="g"), ApiKey.HEARTBEAT, 3)


@pytest.mark.parametrize(
    ("replica_id", "allows", "hastened"), [(3, True, [3]), (3, False, []), (-2, True, []), (-1, True, [])]
)
def test_only_a_follower_has_what_it_waits_for_answered(replica_id: int, allows: bool, hastened: list[int]) -> None:
    """By a question about nothing. A client must not: each answer has the follower ask anew."""
    found: list[int] = []
    broker = SimpleNamespace(
        authorization=new(Fixed(allows=allows))[0],
        replicas=SimpleNamespace(followers=SimpleNamespace(hasten=found.append)),
    )
    nothing = OffsetForLeaderEpochRequest(replica_id=replica_id, topics=[])

    answer = offset_for_leader_epoch.handle(broker, request(nothing, ApiKey.OFFSET_FOR_LEADER_EPOCH, 4), nothing)  # type: ignore[arg-type]

    assert found == hastened
    assert answer.topics == []


@pytest.mark.parametrize("key", sorted(SERVED))
def test_every_api_that_is_served_has_a_row_and_a_guard(key: int) -> None:
    assert key in API_RIGHTS
    assert callable(guard(ApiKey(key)))


def test_only_apis_that_are_served_have_rows() -> None:
    assert set(API_RIGHTS) == {int(key) for key in SERVED}


def test_an_api_without_a_row_is_not_served_with_an_authorizer(monkeypatch: pytest.MonkeyPatch) -> None:
    authorization, _, _ = new(Fixed())
    broker = SimpleNamespace(authorization=authorization, quotas=Late(object))
    dispatcher = Dispatcher(broker)  # type: ignore[arg-type]
    monkeypatch.delitem(API_RIGHTS, ApiKey.HEARTBEAT)  # type: ignore[arg-type]
    with pytest.raises(ProtocolViolation, match="no row of rights"):
        dispatcher.handle(HEARTBEAT)


def test_what_is_refused_never_reaches_the_handler() -> None:
    authorization, _, _ = new(Fixed(allows=False))
    # A broker that has nothing: its handlers would fail.
    broker = SimpleNamespace(authorization=authorization, quotas=Late(object))
    dispatcher = Dispatcher(broker)  # type: ignore[arg-type]
    answer = dispatcher.handle(HEARTBEAT)
    body = b"".join(bytes(chunk) for chunk in answer.chunks)  # type: ignore[union-attr, arg-type]
    assert decode(HeartbeatResponse, memoryview(body), 3).error_code == 30
    refused = dispatcher.handle(request(DeleteAclsRequest(), ApiKey.DELETE_ACLS, 3))
    assert refused.chunks  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("message", "key", "version"),
    [
        (ControlledShutdownRequest(), ApiKey.CONTROLLED_SHUTDOWN, 3),
        (WriteTxnMarkersRequest(), ApiKey.WRITE_TXN_MARKERS, 1),
        (FetchRequest(replica_id=3, max_bytes=1), ApiKey.FETCH, 12),
        (OffsetForLeaderEpochRequest(replica_id=3), ApiKey.OFFSET_FOR_LEADER_EPOCH, 4),
    ],
)
def test_who_asks_what_only_brokers_may_is_not_exempt_from_quotas(message: Any, key: ApiKey, version: int) -> None:
    for allows in (False, True):
        authorization, _, _ = new(Fixed(allows=allows))
        ports = QuotaPorts(BrokerId(1), lambda: 0, count(0, 200_000_000).__next__, lambda: 0, lambda decision: None)
        quotas = ClientQuotas(BrokerConfig.from_properties({}), ports)
        quotas.on_entity("users/<default>", {"request_percentage": "1"})
        late = Late(lambda: quotas)  # noqa: B023
        late()
        followers = SimpleNamespace(hasten=lambda broker_id: None)
        replicas = SimpleNamespace(now_ms=lambda: 0, fetch_as_follower=lambda *_: [], followers=followers)
        broker = SimpleNamespace(
            authorization=authorization,
            quotas=late,
            config=BrokerConfig.from_properties({}),
            replicas=replicas,
            fetch_sessions=FetchSessionCache(0, Random(1)),
            transaction_coordinator=SimpleNamespace(),
        )
        answered = Dispatcher(broker).handle(request(message, key, version, listener="BROKERS"))  # type: ignore[arg-type]
        if key in (ApiKey.FETCH, ApiKey.OFFSET_FOR_LEADER_EPOCH) or not allows:
            assert isinstance(answered, Response)
            assert (answered.mute_ms > 0) is not allows


def test_decisions_are_remembered_until_the_generation_rises(monkeypatch: pytest.MonkeyPatch) -> None:
    authorizer = Fixed()
    authorization, _, _ = new(authorizer)
    caller = authorization.caller(HEARTBEAT)
    assert all(caller.may(READ, TOPIC, "a") for _ in range(3))
    assert len(authorizer.asked) == 1
    authorizer.generation, authorizer.allows = 1, False
    assert not caller.may(READ, TOPIC, "a", quietly=True)
    monkeypatch.setattr(room, "MAX_DECISIONS", 2)
    for name in "abcdef":
        caller.may(READ, TOPIC, name, quietly=True)
    assert len(caller.session.decisions) <= 2


def test_sessions_are_those_of_a_principal_at_a_host_and_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    authorization, _, _ = new(Fixed())
    first = authorization.caller(HEARTBEAT).session
    assert authorization.caller(HEARTBEAT).session is first
    other = authorization.caller(request(HeartbeatRequest(), ApiKey.HEARTBEAT, 3, host="10.0.0.2")).session
    assert other is not first
    monkeypatch.setattr(room, "MAX_SESSIONS", 2)
    for host in range(20):
        authorization.caller(request(HeartbeatRequest(), ApiKey.HEARTBEAT, 3, host=f"10.0.1.{host}"))
        assert len(authorization._sessions) == 2


def test_what_all_sessions_remember_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MAX_REMEMBERED", 5)
    authorization, _, _ = new(Fixed())
    asked = [request(HeartbeatRequest(), ApiKey.HEARTBEAT, 3, host=f"10.0.0.{host}") for host in range(3)]
    for name in "abcdefghijk":
        for each in asked:
            assert authorization.caller(each).may(READ, TOPIC, name)
            kept = [authorization.caller(other).session.decisions for other in asked]
            assert sum(map(len, kept)) <= 5


def test_more_sessions_than_are_remembered_ask_anew_about_some_not_about_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve sessions ask in turn about as many names as ten may have remembered: when there were too many, all of them
    were forgotten, so that after each tenth turn everybody began from nothing."""
    monkeypatch.setattr(room, "MAX_REMEMBERED", 1_000)
    authorizer = Fixed()
    authorization, _, _ = new(authorizer)
    asked = [request(HeartbeatRequest(), ApiKey.HEARTBEAT, 3, host=f"10.0.0.{host}") for host in range(12)]
    rounds, names = 50, [f"topic-{number}" for number in range(100)]
    for _ in range(rounds):
        for each in asked:
            authorization.caller(each).allowed(READ, TOPIC, names)
    assert len(authorizer.asked) < rounds * len(asked) * len(names) * 0.6


def test_decisions_of_an_earlier_generation_count_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change of a list has a session ask anew; after five of them others' decisions were forgotten for it."""
    monkeypatch.setattr(room, "MAX_REMEMBERED", 10)
    authorizer = Fixed()
    authorization, _, _ = new(authorizer)
    other = request(HeartbeatRequest(), ApiKey.HEARTBEAT, 3, host="10.0.0.2")
    for generation in range(20):
        authorizer.generation = generation
        for each in (HEARTBEAT, other):
            authorization.caller(each).allowed(READ, TOPIC, "abcde")
    authorizer.asked.clear()
    for each in (HEARTBEAT, other):
        authorization.caller(each).allowed(READ, TOPIC, "abcde")
    assert authorizer.asked == []


def test_a_session_that_asks_about_more_names_than_it_may_remember_keeps_the_younger_half(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "MAX_DECISIONS", 4)
    authorizer = Fixed()
    authorization, _, _ = new(authorizer)
    caller = authorization.caller(HEARTBEAT)
    for name in "abcde":
        caller.may(READ, TOPIC, name)
    authorizer.asked.clear()
    for name in "cde":
        caller.may(READ, TOPIC, name)
    assert authorizer.asked == []


def test_whoever_is_forgotten_while_its_request_is_handled_remembers_nothing_that_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A session that is out of the table would keep what it is told, and nobody would ever forget that."""
    monkeypatch.setattr(room, "MAX_SESSIONS", 1)
    authorization, _, _ = new(Fixed())
    caller = authorization.caller(HEARTBEAT)
    authorization.caller(request(HeartbeatRequest(), ApiKey.HEARTBEAT, 3, host="10.0.0.2"))
    assert caller.may(READ, TOPIC, "a")
    assert caller.session.decisions == {}


def test_names_as_long_as_the_wire_allows_are_not_kept() -> None:
    """Ten thousand names of 32 KB: 330 MB for each session, of anybody who may send a request at all."""
    authorizer = Fixed(allows=False)
    authorization, recorded, _ = new(authorizer)
    caller = authorization.caller(HEARTBEAT)
    tracemalloc.start()
    try:
        for number in range(300):
            assert not caller.may(READ, GROUP, f"{number:<30000}", quietly=bool(number % 2))
        kept, _most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        authorizer.asked.clear()
    assert len(recorded) == MAX_RECORDED
    assert kept - 30_000 * 300 * 2 < 2_000_000, "of the authorizer's own list two questions each are left out"
    assert max(len(str(decision)) for decision in recorded) < 2_000
    assert len({decision.evidence["resource"] for decision in recorded}) == MAX_RECORDED


def test_an_authorizer_that_fails_refuses() -> None:
    authorization, recorded, _ = new(Failing())
    caller = authorization.caller(HEARTBEAT)
    assert not caller.may(READ, TOPIC, "a")
    assert not caller.may_on_any(Operation.WRITE, TOPIC)
    assert "the authorizer failed" in recorded[0].why


def test_a_denial_is_recorded_once_a_minute_with_the_count_of_the_others() -> None:
    authorization, recorded, now = new(Fixed(allows=False))
    caller = authorization.caller(HEARTBEAT)
    for _ in range(5):
        caller.may(READ, TOPIC, "orders")
    caller.may(READ, TOPIC, "quiet", quietly=True)
    assert len(recorded) == 1
    now.ms = REPEATED_INTERVAL_MS
    caller.may(READ, TOPIC, "orders")
    assert [each.evidence["unrecorded_before"] for each in recorded] == [0, 4]
    decision = recorded[0]
    assert decision.kind is DecisionKind.ACCESS_DENIED
    assert decision.why == (
        "User:ANONYMOUS from host 10.0.0.1 may not Read on Topic orders (HEARTBEAT): no ACL allows it"
    )
    remedy = "kavka acls add --allow-principal User:ANONYMOUS --operation Read --topic orders"
    assert decision.evidence["remedy"] == remedy
    assert decode_decision(encode_decision(Recorded("1", decision))).decision == decision


def test_a_producer_that_may_write_nowhere_needs_a_right_on_its_topic_and_none_on_the_cluster() -> None:
    authorization, recorded, _ = new(Fixed(allows=False))
    authorization.caller(HEARTBEAT).may_on_any(Operation.WRITE, TOPIC)
    remedy = "kavka acls add --allow-principal User:ANONYMOUS --operation Write --topic TOPIC"
    assert recorded[0].evidence["remedy"] == remedy


def test_denials_of_one_kind_have_the_same_host_and_api() -> None:
    authorization, recorded, _ = new(Fixed(allows=False))
    elsewhere = request(HeartbeatRequest(group_id="g"), ApiKey.HEARTBEAT, 3, host="10.0.0.2")
    leave = request(HeartbeatRequest(group_id="g"), ApiKey.LEAVE_GROUP, 3)
    for each in (HEARTBEAT, elsewhere, leave, HEARTBEAT, elsewhere, leave):
        authorization.caller(each).may(READ, TOPIC, "orders")
    found = [(each.evidence["host"], each.evidence["api"]) for each in recorded]
    assert found == [("10.0.0.1", "HEARTBEAT"), ("10.0.0.2", "HEARTBEAT"), ("10.0.0.1", "LEAVE_GROUP")]


def test_one_caller_cannot_have_a_record_made_of_every_name_it_thinks_of() -> None:
    authorization, recorded, now = new(Fixed(allows=False))
    caller = authorization.caller(HEARTBEAT)
    for index in range(5 * MAX_RECORDED):
        caller.may(READ, TOPIC, f"t{index}")
    assert len(recorded) == MAX_RECORDED
    other = authorization.caller(request(HeartbeatRequest(), ApiKey.HEARTBEAT, 3, host="10.0.0.2"))
    other.may(READ, TOPIC, "t0")
    assert len(recorded) == MAX_RECORDED + 1
    now.ms = REPEATED_INTERVAL_MS
    caller.may(READ, TOPIC, "again")
    assert recorded[-1].evidence["unrecorded_before"] == 4 * MAX_RECORDED


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("orders", "orders"),
        ("it's; rm -rf ~ #", "'it'\"'\"'s; rm -rf ~ #'"),
        ("a b$(id)`id`", "'a b$(id)`id`'"),
        ("\x1b[2Jx'\\\ny", "$'\\x1b[2Jx\\'\\\\\\ny'"),
        ("注文", "'注文'"),
    ],
)
def test_a_name_is_one_word_of_the_command_and_nothing_that_a_terminal_obeys(name: str, word: str) -> None:
    authorization, recorded, _ = new(Fixed(allows=False))
    authorization.caller(HEARTBEAT).may(READ, GROUP, name)
    command = str(recorded[0].evidence["remedy"])
    assert command == f"kavka acls add --allow-principal User:ANONYMOUS --operation Read --group {word}"
    echoed = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True)
    assert echoed.stdout.decode().split("\0")[-2] == name
    assert recorded[0].why.isprintable()


def test_a_broker_only_request_on_a_listener_of_clients_leaves_a_record_that_says_so() -> None:
    authorization, recorded, _ = new(Fixed())
    dispatcher = Dispatcher(SimpleNamespace(authorization=authorization, quotas=Late(object)))  # type: ignore[arg-type]
    dispatcher.handle(request(ControlledShutdownRequest(), ApiKey.CONTROLLED_SHUTDOWN, 3))
    (decision,) = recorded
    assert decision.why == (
        "User:ANONYMOUS from host 10.0.0.1 may not ClusterAction on Cluster kafka-cluster (CONTROLLED_SHUTDOWN): "
        "only brokers send it, and listener PLAINTEXT is not theirs"
    )
    assert "remedy" not in decision.evidence


def test_brokers_are_known_by_their_listener() -> None:
    authorization, _, _ = new(Fixed())
    there = request(HeartbeatRequest(), ApiKey.HEARTBEAT, 3, listener="BROKERS")
    assert authorization.caller(there).is_broker()
    assert not authorization.caller(HEARTBEAT).is_broker()


def test_only_known_authorizers_and_entry_points_may_be_named() -> None:
    for name in ("", "kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer"):
        assert BrokerConfig.from_properties({"authorizer.class.name": name}).authorizer_class_name == name
    BrokerConfig.from_properties({"authorizer.class.name": "entrypoint:mine"})
    for name in ("org.apache.kafka.metadata.authorizer.StandardAuthorizer", "my.Authorizer"):
        with pytest.raises(ConfigError, match="its rules would not hold"):
            BrokerConfig.from_properties({"authorizer.class.name": name})


def test_an_entry_point_that_nobody_offers_is_refused() -> None:
    with pytest.raises(ConfigError, match="no installed package offers the entry point 'mine'"):
        load("mine", {})
