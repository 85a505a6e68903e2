"""Questions as flight recordings keep them: what is read back asks the same."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kavka.controller.decide.controlled_shutdown import Leaving
from kavka.controller.decide.eligible_leaders import LiveBrokers
from kavka.controller.decide.questions import Question, question_fields, question_of
from kavka.controller.decide.reassignment import Beginning, Settling
from kavka.controller.decide.requested_election import Wished
from kavka.model import NO_LEADER, BrokerId
from kavka.zookeeper.znodes import RECOVERING, PartitionState


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


@pytest.mark.parametrize(
    "question",
    [
        LiveBrokers(ids(1, 2), ids(1), True, 7, ids(2), needed=2, unclean=ids(1)),
        Leaving(BrokerId(1), ids(1, 2), ids(1, 2, 3), ids(1), 7),
        Wished("unclean", ids(1, 2), ids(2), ids(2), 7),
        Beginning(7),
        Settling(ids(1, 2), ids(1, 2, 3), 7),
    ],
)
def test_a_question_that_went_through_json_is_the_same(question: Question) -> None:
    assert question_of(json.loads(json.dumps(question_fields(question)))) == question


STATE = PartitionState(BrokerId(1), 3, ids(1, 2), 6)


@pytest.mark.parametrize(
    ("question", "then"),
    [
        (LiveBrokers(ids(1, 2), ids(2), False, 7, ()), PartitionState(BrokerId(2), 4, ids(2), 7)),
        (LiveBrokers(ids(1, 2), ids(1, 2), False, 7, ()), None),
        (Leaving(BrokerId(1), ids(1, 2), ids(1, 2), ids(1), 7), PartitionState(BrokerId(2), 4, ids(2), 7)),
        (Leaving(BrokerId(3), ids(1, 2), ids(1, 2), ids(3), 7), None),
        (Wished("preferred", ids(2, 1), ids(1, 2), (), 7), PartitionState(BrokerId(2), 4, ids(1, 2), 7)),
        (Wished("preferred", ids(2, 1), ids(1), (), 7), None),
        (Wished("unclean", ids(3, 4), ids(3, 4), (), 7), PartitionState(BrokerId(3), 4, ids(3), 7, RECOVERING)),
        (Wished("unclean", ids(3, 4), ids(3, 4), ids(4), 7), PartitionState(BrokerId(4), 4, ids(4), 7)),
        (Beginning(7), PartitionState(BrokerId(1), 4, ids(1, 2), 7)),
        (Settling(ids(2), ids(2), 7), PartitionState(BrokerId(2), 4, ids(2), 7)),
        (Settling(ids(3), ids(3), 7), None),
    ],
)
def test_what_becomes_of_a_partition_follows_from_the_question_alone(
    question: Question, then: PartitionState | None
) -> None:
    change = question.answer(STATE)
    assert (None if change is None else change.state) == then


@pytest.mark.parametrize(
    "question",
    [
        LiveBrokers(ids(1, 2), ids(2), False, 7, ()),
        LiveBrokers(ids(1, 2), ids(1), False, 7, ()),
        LiveBrokers(ids(1, 2), ids(3), False, 7, ()),
        Leaving(BrokerId(1), ids(1, 2), ids(1, 2), ids(1), 7),
        Leaving(BrokerId(2), ids(1, 2), ids(1, 2), ids(2), 7),
        Wished("preferred", ids(2, 1), ids(1, 2), (), 7),
        Wished("unclean", ids(2, 3), ids(2, 3), (), 7),
        Wished("unclean", ids(3, 4), ids(3, 4), ids(4), 7),
        Beginning(7),
        Settling(ids(1), ids(1), 7),
        Settling(ids(2), ids(2), 7),
    ],
)
def test_kip704_a_partition_that_recovers_goes_on_recovering_whoever_leads_it(question: Question) -> None:
    """Only a leader says that its recovery is over (Election.leaderForOffline: "keep the previous recovery state")."""
    change = question.answer(replace(STATE, leader_recovery_state=RECOVERING))
    assert change is not None
    assert change.state.leader_recovery_state == RECOVERING


def test_where_eligible_replicas_are_not_kept_they_lead_nothing_and_nobody_is_asked_how_it_stopped() -> None:
    asked = LiveBrokers(ids(1, 2, 3), ids(1, 2), False, 7, (), unclean=ids(1))
    assert asked.needed == -1
    assert asked.answer(STATE) is None
    change = asked._replace(live=ids(3)).answer(replace(STATE, eligible_leader_replicas=ids(3)))
    assert change is not None
    assert (change.state.leader, change.state.isr) == (NO_LEADER, ids(1, 2))


def test_another_question_is_refused() -> None:
    with pytest.raises(KeyError):
        question_of({"question": "what is the time"})
