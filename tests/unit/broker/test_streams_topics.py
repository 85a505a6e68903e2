"""Internal topics that cannot be created: what is asked for again, and what is remembered of them."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence

from kavka.broker.topics.streams_topics import MOST_AT_ONCE, MOST_FAILURES, StreamsTopics
from kavka.controller.decide.topic_plans import TopicRequest
from kavka.coordinator.groups.streams.decide.topology import InternalTopic
from kavka.errors import ErrorCode

REMEMBER_MS = 100


class Refusing:
    """Creates nothing, and counts how often it was asked for each topic."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.now_ms = 0
        self.topics = StreamsTopics(self._create, self._run, lambda: self.now_ms)

    async def _create(self, wanted: Sequence[TopicRequest]) -> Mapping[str, ErrorCode]:
        self.asked.extend(topic.name for topic in wanted)
        return dict.fromkeys((topic.name for topic in wanted), ErrorCode.POLICY_VIOLATION)

    def _run(self, work: Coroutine[None, None, None]) -> None:
        try:
            work.send(None)
        except StopIteration:
            return
        raise AssertionError("it waits for something")


def internal(count: int, *, first: int = 0) -> dict[str, InternalTopic]:
    names = [f"store-{number}-changelog" for number in range(first, first + count)]
    return {name: InternalTopic(name, 1, 0, ()) for name in names}


def test_one_heartbeat_has_only_so_many_topics_created_that_each_failure_can_be_remembered() -> None:
    """With 20,000 that could not be created, each heartbeat asked for 19,000 again and took seconds."""
    refusing, missing = Refusing(), internal(3 * MOST_AT_ONCE)
    refusing.topics.ask(missing, remember_ms=REMEMBER_MS)
    assert refusing.asked == list(missing)[:MOST_AT_ONCE]
    assert list(refusing.topics.failures(missing)) == refusing.asked
    refusing.topics.ask(missing, remember_ms=REMEMBER_MS)
    assert refusing.asked == list(missing)[: 2 * MOST_AT_ONCE]


def test_what_failed_is_asked_for_again_when_it_is_forgotten() -> None:
    refusing, missing = Refusing(), internal(2)
    refusing.topics.ask(missing, remember_ms=REMEMBER_MS)
    refusing.topics.ask(missing, remember_ms=REMEMBER_MS)
    assert len(refusing.asked) == 2
    refusing.now_ms = REMEMBER_MS
    assert refusing.topics.failures(missing) == {}
    refusing.topics.ask(missing, remember_ms=REMEMBER_MS)
    assert len(refusing.asked) == 4


def test_the_failure_to_be_forgotten_next_gives_its_place_up() -> None:
    refusing = Refusing()
    long, short = internal(MOST_FAILURES - 1), internal(2, first=MOST_FAILURES)
    refusing.topics.ask(long, remember_ms=2 * REMEMBER_MS)
    refusing.topics.ask(short, remember_ms=REMEMBER_MS)
    assert len(refusing.topics.failures(long)) == MOST_FAILURES - 1
    assert len(refusing.topics.failures(short)) == 1
