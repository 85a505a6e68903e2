"""DescribeTopicPartitions for a client that may see some topics: pages, and cursors at what it cannot see any more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.api.guards.guard import Then
from kavka.broker.api.loader import guard, handler
from kavka.broker.authorization.authorization import Authorization, AuthorizationPorts, Caller
from kavka.broker.authorization.denials import Denials
from kavka.decisions import forget
from kavka.errors import ErrorCode
from kavka.model import NO_LEADER, NO_TOPIC_ID, BrokerId
from kavka.protocol.api import ApiKey, RequestHeader
from kavka.protocol.connection import ConnectionContext, Request
from kavka.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kavka.security.authorizer import Question, Rule, Verdict

PARTITION = SimpleNamespace(
    replicas=(1,), state=SimpleNamespace(leader=NO_LEADER, leader_epoch=0, isr=(1,)), offline_replicas=()
)


class Hiding:
    """Allows everything but what is about `hidden`."""

    generation = 0

    def __init__(self, hidden: str) -> None:
        self.hidden = hidden

    def decide(self, question: Question) -> Verdict:
        return Verdict(question.name != self.hidden, Rule.ALLOWED)

    decide_on_any = decide


def broker(*names: str) -> Any:
    """With topics of two partitions."""
    topics = {
        name: SimpleNamespace(name=name, topic_id=NO_TOPIC_ID, is_internal=False, partitions=[PARTITION] * 2)
        for name in names
    }
    return SimpleNamespace(
        metadata=SimpleNamespace(topic=topics.get, topics=topics.values),
        config=SimpleNamespace(
            max_request_partition_size_limit=2000, kavka_eligible_leader_replicas_enable=False, security_protocols={}
        ),
        invalid_topic_name=lambda name: None,
    )


def ask(
    there: Any, *names: str, hidden: str = "", at: tuple[str, int] | None = None, limit: int = 2000
) -> tuple[list[tuple[str, ErrorCode, int]], tuple[str, int] | None]:
    """Each topic of the answer with its error and the number of its partitions, and where to go on."""
    message = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if at is None else Cursor(topic_name=at[0], partition_index=at[1]),
    )
    key = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    denials = Denials(BrokerId(1), forget, wall_ms=lambda: 0)
    denials.on_denied = lambda *_: None  # type: ignore[method-assign] - nobody reads the lines
    request = Request(RequestHeader(key, 0, 1, "client"), memoryview(b""), ConnectionContext("c", "10.0.0.1", 1, "C"))
    caller: Caller = Authorization(Hiding(hidden), AuthorizationPorts(lambda: 0, denials, frozenset())).caller(request)
    outcome = guard(key)(there, caller, message)
    answer: Any = outcome
    if outcome is None or isinstance(outcome, Then):
        answer = handler(key)(there, request, message)
        answer = answer if outcome is None else outcome.change(answer)
    topics = [(topic.name, ErrorCode(topic.error_code), len(topic.partitions)) for topic in answer.topics]
    cursor = answer.next_cursor
    return topics, None if cursor is None else (cursor.topic_name, cursor.partition_index)


def test_pages_of_all_topics_leave_out_what_is_hidden() -> None:
    there = broker("a", "b", "c")
    assert ask(there, hidden="b", limit=3) == ([("a", ErrorCode.NONE, 2), ("c", ErrorCode.NONE, 1)], ("c", 1))
    assert ask(there, hidden="b", at=("c", 1)) == ([("c", ErrorCode.NONE, 1)], None)


@pytest.mark.parametrize("names", [(), ("a", "b", "c")])
def test_a_cursor_at_a_topic_that_is_hidden_meanwhile_goes_on_behind_it(names: tuple[str, ...]) -> None:
    denied = [("b", ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0)] if names else []
    assert ask(broker("a", "b", "c"), *names, hidden="b", at=("b", 1)) == ([("c", ErrorCode.NONE, 2), *denied], None)


def test_a_cursor_at_a_topic_that_has_gone_meanwhile_goes_on_behind_it() -> None:
    assert ask(broker("a", "c"), at=("b", 1)) == ([("c", ErrorCode.NONE, 2)], None)


@pytest.mark.parametrize("at", [("z", 0), ("a", -1)])
def test_a_cursor_that_no_answer_named_is_refused_for_each_topic(at: tuple[str, int]) -> None:
    refused = [(name, ErrorCode.INVALID_REQUEST, 0) for name in ("b", "a", "hidden")]
    assert ask(broker("a", "b"), "b", "a", "hidden", hidden="hidden", at=at) == (refused, None)


def test_a_cursor_behind_the_last_partition_makes_no_room_for_others() -> None:
    topics, cursor = ask(broker("a", "b"), "a", "b", at=("a", 300), limit=1)
    assert (topics, cursor) == ([("a", ErrorCode.NONE, 0), ("b", ErrorCode.NONE, 1)], ("b", 1))
