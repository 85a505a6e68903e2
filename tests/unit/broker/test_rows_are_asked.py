"""Each API asks exactly what its row says: every guard with every answer, compared with the table of rights.

The requests are made up from the messages' tables, each in all its versions, and the authorizer that is asked notes the
questions. What handlers show is not there, so that guards that filter an answer are given one.
"""

from __future__ import annotations

import asyncio
import random
import sys
import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.api import acknowledgements
from kavka.broker.api.guards.guard import Then
from kavka.broker.api.loader import guard
from kavka.broker.api.records import fetch
from kavka.broker.api.streams import streams_group_heartbeat
from kavka.broker.api_rights import API_RIGHTS
from kavka.broker.api_table import SERVED
from kavka.broker.authorization.authorization import Authorization, AuthorizationPorts, Caller
from kavka.broker.authorization.denials import Denials
from kavka.broker.share.sessions import PartitionId
from kavka.decisions import DECISIONS_TOPIC, forget
from kavka.errors import ErrorCode, RequestError
from kavka.model import NO_TOPIC_ID, BrokerId, TopicPartition
from kavka.protocol.api import ApiKey, RequestHeader, api
from kavka.protocol.connection import ConnectionContext, Request
from kavka.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from kavka.protocol.messages.produce_request import PartitionProduceData, TopicProduceData
from kavka.protocol.samples import sample
from kavka.replication.decide.fetching import FetchSpec
from kavka.security.acls import Operation
from kavka.security.authorizer import Question, Rule, Verdict
from kavka.security.resource_patterns import ResourceType

SAMPLES = 3
Right = tuple[Operation, ResourceType]
DENIALS = Denials(BrokerId(1), forget, wall_ms=lambda: 0)
DENIALS.on_denied = lambda *_: None  # type: ignore[method-assign] - nobody reads as many lines as there are questions


class Recording:
    """Allows what is not in `refused`, and notes what it is asked."""

    generation = 0

    def __init__(self, refused: frozenset[Right]) -> None:
        self.refused = refused
        self.asked: set[Right] = set()

    def decide(self, question: Question) -> Verdict:
        right = (question.operation, question.resource_type)
        self.asked.add(right)
        return Verdict(right not in self.refused, Rule.ALLOWED)

    decide_on_any = decide


def broker() -> Any:
    """What guards look at: every id is a topic's, no topic exists by name, this is the controller."""

    def topic_name(topic_id: uuid.UUID) -> str | None:
        return "named" if topic_id.int else None

    metadata = SimpleNamespace(
        topic_name=topic_name,
        topics_version=0,
        topic=lambda name: None,
        topics=list,
        partition=lambda name, index: None,
    )
    return SimpleNamespace(
        metadata=metadata,
        controller=SimpleNamespace(is_active=True),
        config=SimpleNamespace(
            delete_topic_enable=True,
            auto_create_topics_enable=True,
            security_protocols={"BROKERS": "SASL_SSL", "CLIENTS": "SASL_PLAINTEXT"},
        ),
        first_metadata=SimpleNamespace(is_there=True),
        serves_consumer_groups=lambda: True,
        serves_share_groups=lambda: True,
        serves_streams_groups=lambda: True,
        invalid_topic_name=lambda name: None,
        transactions=SimpleNamespace(on_begun=lambda transactional_id, producer: None),
    )


def callers(key: ApiKey, version: int, refused: frozenset[Right]) -> Iterator[tuple[Recording, Caller]]:
    for listener in ("BROKERS", "CLIENTS"):
        recording = Recording(refused)
        authorization = Authorization(recording, AuthorizationPorts(lambda: 0, DENIALS, frozenset({"BROKERS"})))
        header = RequestHeader(key, version, 1, "client")
        context = ConnectionContext("c", "10.0.0.1", 1, listener)
        yield recording, authorization.caller(Request(header, memoryview(b""), context))


def shaped(key: ApiKey, message: Any, turn: int) -> Any:
    """The message with what chance hardly ever finds: kinds of resources, and what only brokers send."""
    match key:
        case ApiKey.PRODUCE:
            records = bytearray(100)
            records[16], records[22] = 2, 16  # a batch of magic 2 that is transactional
            data = PartitionProduceData(index=0, records=memoryview(records))
            names = ("orders", DECISIONS_TOPIC)
            message.transactional_id = "x"
            message.topic_data = [
                TopicProduceData(name=name, topic_id=uuid.UUID(int=1), partition_data=[data]) for name in names
            ]
        case ApiKey.FIND_COORDINATOR:
            message.key_type = turn % 3
            message.coordinator_keys = ["k"]
        case ApiKey.DESCRIBE_CONFIGS | ApiKey.ALTER_CONFIGS | ApiKey.INCREMENTAL_ALTER_CONFIGS:
            resource = new_resource(message)
            message.resources = [resource(kind) for kind in (2, 4, 8, 16, 32)]
    return message


def new_resource(message: Any) -> Any:
    """Makes a resource of a kind, for the message's list."""
    module = sys.modules[type(message).__module__]
    made = getattr(module, "DescribeConfigsResource", None) or module.AlterConfigsResource
    return lambda kind: made(resource_type=kind, resource_name=f"r{kind}")


def asked_by(key: ApiKey) -> set[Right]:
    """Every right that the guard of an API asks for, in all its versions, whatever it is answered."""
    row = API_RIGHTS[key].items
    asked: set[Right] = set()
    dice = random.Random(int(key))
    refusals = [frozenset[Right](), frozenset(row), *(frozenset({right}) for right in row), *(row - {r} for r in row)]
    for version in range(SERVED[key].min_version, SERVED[key].max_version + 1):
        for refused in refusals:
            for turn in range(SAMPLES):
                for recording, caller in callers(key, version, refused):
                    message = shaped(key, sample(api(key).request_type, version, dice), turn)
                    outcome = guard(key)(broker(), caller, message)
                    if hasattr(outcome, "__await__"):
                        outcome = asyncio.run(outcome)
                    if isinstance(outcome, Then):
                        answer = sample(api(key).response_type, version, dice)
                        if hasattr(answer, "error_code"):
                            answer.error_code = ErrorCode.NONE
                        outcome.change(answer)
                    asked |= recording.asked
    return asked


ASKED_BY_HANDLERS = {ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE, ApiKey.STREAMS_GROUP_HEARTBEAT}
"""What these are about is in a session, not in the request; or, of the last one, follows from the group."""


@pytest.mark.parametrize("key", sorted(set(SERVED) - ASKED_BY_HANDLERS))
def test_a_guard_asks_exactly_what_the_row_of_its_api_says(key: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # What else a client may do, which an answer shows, is asked of every operation there is, and refuses nothing.
    monkeypatch.setattr(Caller, "operations", lambda *_: 0)
    assert asked_by(ApiKey(key)) == API_RIGHTS[key].items


def test_fetch_asks_what_its_row_says() -> None:
    spec = FetchSpec(TopicPartition("orders", 0), NO_TOPIC_ID, 0, 1, -1, -1, -1)
    asked: set[Right] = set()
    for recording, caller in callers(ApiKey.FETCH, 12, frozenset()):
        assert fetch._ask(caller, [spec], to_follower=True) == ([spec], [])
        assert fetch._ask(caller, [spec], to_follower=False) == ([spec], [])
        asked |= recording.asked
    assert asked == API_RIGHTS[ApiKey.FETCH].items
    for _, caller in callers(ApiKey.FETCH, 12, API_RIGHTS[ApiKey.FETCH].items):
        for to_follower in (True, False):
            left, (denied,) = fetch._ask(caller, [spec], to_follower=to_follower)
            assert not left
            assert denied.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_the_guard_and_the_handler_of_streams_groups_ask_what_their_row_says() -> None:
    key = ApiKey.STREAMS_GROUP_HEARTBEAT
    asked = asked_by(key)
    on_cluster = (Operation.CREATE, ResourceType.CLUSTER)
    for refused, expected in (
        (frozenset[Right](), []),
        (frozenset({on_cluster}), []),
        (frozenset({on_cluster, (Operation.CREATE, ResourceType.TOPIC)}), ["a", "b"]),
    ):
        for recording, caller in callers(key, 0, refused):
            assert streams_group_heartbeat.not_to_create(caller, ["a", "b"]) == expected
            asked |= recording.asked
    assert asked == API_RIGHTS[key].items


@pytest.mark.parametrize("key", [ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE])
def test_share_requests_ask_what_their_rows_say(key: ApiKey) -> None:
    partition = PartitionId(uuid.UUID(int=1), 0)
    surroundings, asked = broker(), set[Right]()
    request: Any = None

    def ask(caller: Caller) -> Any:
        surroundings.authorization = SimpleNamespace(caller=lambda _request: caller)
        acknowledgements.check_member(surroundings, request, "workers", "member")
        return acknowledgements.readable(surroundings, request, [partition])[1]

    for recording, caller in callers(key, 1, frozenset()):
        assert ask(caller) == {partition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        asked |= recording.asked
    assert asked == API_RIGHTS[key].items
    for _, caller in callers(key, 1, frozenset({(Operation.READ, ResourceType.TOPIC)})):
        assert ask(caller) == {partition: ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    for _, caller in callers(key, 1, frozenset({(Operation.READ, ResourceType.GROUP)})):
        with pytest.raises(RequestError) as refused:
            ask(caller)
        assert refused.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize(("is_controller", "code"), [(False, "NOT_CONTROLLER"), (True, "CLUSTER_AUTHORIZATION_FAILED")])
def test_only_the_controller_asks_who_may_change_credentials(is_controller: bool, code: str) -> None:
    # KafkaApis.handleAlterUserScramCredentialsRequest: first `controller.isActive`, then Alter on the cluster.
    key = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    surroundings = broker()
    surroundings.controller.is_active = is_controller
    deletions = [ScramCredentialDeletion(name=name, mechanism=1) for name in ("alice", "bob", "alice")]
    message = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=[])
    for recording, caller in callers(key, 0, frozenset(API_RIGHTS[key].items)):
        answer = guard(key)(surroundings, caller, message)
        assert [(each.user, each.error_code) for each in answer.results] == [
            ("alice", ErrorCode[code]),
            ("bob", ErrorCode[code]),
        ]
        assert bool(recording.asked) is is_controller


@pytest.mark.parametrize("key", sorted(key for key, row in API_RIGHTS.items() if row.whole))
def test_a_request_that_is_refused_as_a_whole_can_be_answered_in_every_version(key: int) -> None:
    from kavka.broker.api.loader import whole_refusal
    from kavka.protocol.codec import encode

    dice = random.Random(key)
    for version in range(SERVED[key].min_version, SERVED[key].max_version + 1):
        for _ in range(SAMPLES):
            assert encode(whole_refusal(ApiKey(key), sample(api(key).request_type, version, dice)), version)
