"""StreamsTopics: internal topics of Kafka Streams applications, which brokers create (KIP-1071).

Decides which of the topics that a group lacks are asked for now, and remembers why one could not be created, so that
members learn it. Must not know groups, or how a topic is created.

    I1  a topic's creation is under way at most once
    I2  a topic that could not be created is not asked for again before its failure is forgotten
    I3  at most MOST_FAILURES failures are known; the one to be forgotten next gives its place up
    I4  one heartbeat has at most MOST_AT_ONCE topics asked for; the others wait for the next

Source: Kafka's AutoTopicCreationManager and ExpiringErrorCache (KIP-1071).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from kavka.controller.decide.topic_plans import UNSET, TopicRequest
from kavka.coordinator.groups.streams.decide.topology import InternalTopic
from kavka.errors import ErrorCode
from kavka.logger import Logger

logger = Logger(__name__)

MOST_FAILURES: Final = 1_000
"""Kafka's number."""
MOST_AT_ONCE: Final = MOST_FAILURES
"""So that all that fails can be remembered (I2). Kafka has no such bound."""


class _Failure(NamedTuple):
    error: ErrorCode
    until_ms: int


class StreamsTopics:
    """`create` creates topics, and returns an error for each that could not be; `spawn` runs a coroutine beside;
    `now_ms` is the monotonic clock."""

    def __init__(
        self,
        create: Callable[[Sequence[TopicRequest]], Awaitable[Mapping[str, ErrorCode]]],
        spawn: Callable[[Coroutine[None, None, None]], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._create = create
        self._spawn = spawn
        self._now_ms = now_ms
        self._under_way: set[str] = set()
        self._failures: dict[str, _Failure] = {}

    def ask(self, missing: Mapping[str, InternalTopic], *, remember_ms: int) -> None:
        """Starts to create what is neither under way nor failed in the last `remember_ms`."""
        failed = self.failures(missing)
        open_ones = (topic for name, topic in missing.items() if name not in self._under_way and name not in failed)
        wanted = list(islice(open_ones, MOST_AT_ONCE))
        if wanted:
            self._under_way.update(topic.name for topic in wanted)
            self._spawn(self._ask(wanted, remember_ms))

    def failures(self, names: Iterable[str]) -> dict[str, ErrorCode]:
        """Those of these topics that could not be created a short time ago."""
        now_ms = self._now_ms()
        known = ((name, self._failures.get(name)) for name in names)
        return {name: failure.error for name, failure in known if failure is not None and failure.until_ms > now_ms}

    async def _ask(self, wanted: Sequence[InternalTopic], remember_ms: int) -> None:
        try:
            errors = await self._create(
                [
                    TopicRequest(
                        topic.name,
                        topic.partition_count,
                        topic.replication_factor or UNSET,
                        config=dict(topic.settings),
                    )
                    for topic in wanted
                ]
            )
        finally:
            self._under_way.difference_update(topic.name for topic in wanted)
        for name, error in errors.items():
            logger.warning("internal topic of a streams group not created", topic=name, why=error.name)
        self._remember(errors, remember_ms)

    def _remember(self, errors: Mapping[str, ErrorCode], remember_ms: int) -> None:
        now_ms = self._now_ms()
        known = {name: failure for name, failure in self._failures.items() if failure.until_ms > now_ms}
        known.update((name, _Failure(error, now_ms + remember_ms)) for name, error in errors.items())
        by_end = sorted(known, key=lambda name: known[name].until_ms)
        self._failures = {name: known[name] for name in by_end[-MOST_FAILURES:]}
