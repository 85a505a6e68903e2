"""eventually: what is not yet, and what is a mistake."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.kit.process_cluster import eventually


def answering(*answers: object) -> object:
    """A probe that gives or raises these, one at a time."""
    left = list(answers)

    def probe() -> object:
        answer = left.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return probe


def test_what_a_cluster_refuses_for_a_moment_is_asked_for_again() -> None:
    refused = KafkaException(KafkaError(KafkaError.NOT_COORDINATOR))
    probe = answering(refused, None, ConnectionRefusedError(), AssertionError(), "there")
    assert eventually("it", probe, every_s=0) == "there"  # type: ignore[arg-type]


def test_a_mistake_of_the_tests_own_is_not_waited_for() -> None:
    with pytest.raises(TypeError):
        eventually("it", answering(TypeError()))  # type: ignore[arg-type]


def test_what_does_not_come_is_named_with_what_was_found_last() -> None:
    with pytest.raises(AssertionError, match=r"the topic: not in 0 s; last: \[\]"):
        eventually("the topic", list, timeout_s=0)
