"""Questions as flight recordings keep them: what is read back asks the same."""

from __future__ import annotations

import json

import pytest

from kavka.controller.decide.controlled_shutdown import Leaving
from kavka.controller.decide.eligible_leaders import LiveBrokers
from kavka.controller.decide.questions import Question, question_fields, question_of
from kavka.model import BrokerId


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


@pytest.mark.parametrize(
    "question",
    [
        LiveBrokers(ids(1, 2), ids(1), True, 7, ids(2), needed=2, unclean=ids(1)),
        Leaving(BrokerId(1), ids(1, 2), ids(1, 2, 3), ids(1), 7),
    ],
)
def test_a_question_that_went_through_json_is_the_same(question: Question) -> None:
    assert question_of(json.loads(json.dumps(question_fields(question)))) == question


def test_another_question_is_refused() -> None:
    with pytest.raises(KeyError):
        question_of({"question": "what is the time"})
