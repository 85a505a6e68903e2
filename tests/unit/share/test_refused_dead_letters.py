"""A batch of dead letters that its leader refuses for what is in it takes no others with it. What stands in the way of
dead letters is waited for, where it may pass; what lasts is final, and named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kavka.broker.share.dead_letters import MOST_IN_BATCH
from kavka.errors import ErrorCode
from kavka.records.builder import BatchBuilder
from kavka.share.decide.dead_letters import MOST_TRIES, DeadLetters
from tests.kit.dead_letter_case import DeadLetterCase, rejected
from tests.kit.virtual_time import in_virtual_time


@pytest.mark.parametrize("count", [3, 5_000])
def test_only_the_records_of_the_refused_batch_are_given_up(count: int) -> None:
    case = DeadLetterCase()
    case.log.answer = lambda records: ErrorCode.MESSAGE_TOO_LARGE
    assert case.bury_now(rejected(0, count - 1)) == min(count, MOST_IN_BATCH)


def test_copies_that_are_refused_are_written_as_headers() -> None:
    builder = BatchBuilder()
    builder.append(1_000, b"k", b"v")
    case = DeadLetterCase(copies=True)
    case.source.add(0, 0, builder.build())
    case.log.answer = lambda records: ErrorCode.MESSAGE_TOO_LARGE if records[0].value else ErrorCode.NONE
    assert case.bury_now(rejected(0, 0)) == 1
    assert case.log.offsets() == [0]


def missing(case: DeadLetterCase, *, is_so: bool) -> None:
    case.is_there = not is_so


def not_allowed(case: DeadLetterCase, *, is_so: bool) -> None:
    case.is_allowed = not is_so


def not_set(case: DeadLetterCase, *, is_so: bool) -> None:
    case.letters = DeadLetters("" if is_so else "dlq.orders", prefix="dlq.")


def without_the_right(case: DeadLetterCase, *, is_so: bool) -> None:
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_so else ErrorCode.NONE
    case.log.answer = lambda records: error


CAUSES = {
    missing: "does not exist and auto create is disabled",
    not_allowed: "DLQ is not enabled on configured DLQ topic",
    not_set: "is empty",
    without_the_right: "dlq.orders-0 answered TOPIC_AUTHORIZATION_FAILED",
}


@pytest.mark.parametrize("cause", CAUSES)
def test_what_a_slow_zookeeper_tells_two_seconds_later_is_waited_for(cause: Callable[..., None]) -> None:
    case = DeadLetterCase()

    async def scenario() -> None:
        cause(case, is_so=True)
        asyncio.get_running_loop().call_later(2, lambda: cause(case, is_so=False))
        assert await case.bury(rejected(7, 8)) == 2

    in_virtual_time(scenario)
    assert case.log.offsets() == [7, 8]
    assert [decision.kind.value for decision in case.told] == ["dead letters written"]


@pytest.mark.parametrize("cause", CAUSES)
def test_what_lasts_is_final_and_named_and_the_next_do_not_wait_for_it(cause: Callable[..., None]) -> None:
    case = DeadLetterCase()
    cause(case, is_so=True)

    async def scenario() -> None:
        clock = asyncio.get_running_loop().time
        assert await case.bury(rejected(7, 8)) == 2
        assert (case.tries, 10 < clock() < 20) == (MOST_TRIES, True)
        assert CAUSES[cause] in case.told[-1].why
        began = clock()
        assert await case.bury(rejected(9, 9)) == 1
        assert (case.tries, clock()) == (MOST_TRIES + 1, began)
        cause(case, is_so=False)
        assert await case.bury(rejected(10, 10)) == 1

    in_virtual_time(scenario)
    assert case.log.offsets() == [10]
