"""AutoCreation: topics that brokers create because a client's Metadata request named them.

Decides what to answer the client and which topics to create. Must not know how a topic is created.

A client that names a missing topic gets LEADER_NOT_AVAILABLE, and the broker creates the topic meanwhile; the client
asks again, as with Apache Kafka 3.9. Apache Kafka 4 says UNKNOWN_TOPIC_OR_PARTITION. To some clients that is the end:
the leader of a group of kafka-go's then assigns no partitions, and its members wait for good. A full answer would be a
moment faster. But clients also ask in this way whether a topic exists, and would hear of a topic that nobody has
created yet: kafka-go's tests would find deleted topics again.

Two failures are answered at once. INVALID_TOPIC_EXCEPTION: no topic can have the name, or it clashes with an existing
topic ("a.b" and "a_b" are one name to metrics); Kafka 3.9 does the same, Kafka 4 lets clients ask until they give up.
INVALID_REPLICATION_FACTOR: there are fewer brokers than replicas, as in earlier versions of Kafka. Later failures are
logged; a client that asks again starts anew.

    I1  A topic's creation is under way at most once.
    I2  At most MAX_WAITING topics wait to be created; a name beyond is UNKNOWN_TOPIC_OR_PARTITION, and nothing is
        begun for it until it is asked for again.

Source: Kafka's AutoTopicCreationManager.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Final

from kavka.errors import ErrorCode
from kavka.logger import Logger

logger = Logger(__name__)

MAX_WAITING: Final = 1_000


class AutoCreation:
    """`refusal` says why a topic cannot be created, None if it can; `create` creates topics, and returns an error
    for each that could not be; `spawn` runs a coroutine beside."""

    def __init__(
        self,
        *,
        refusal: Callable[[str], ErrorCode | None],
        create: Callable[[Sequence[str]], Awaitable[Mapping[str, ErrorCode]]],
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self._refusal = refusal
        self._create = create
        self._spawn = spawn
        self._waiting: dict[str, None] = {}
        self._under_way: frozenset[str] = frozenset()

    def ask(self, names: Iterable[str]) -> dict[str, ErrorCode]:
        """The error for each topic that a client named. Starts to create those that can be created."""
        answers = {name: self._refusal(name) for name in names}
        for name, refusal in answers.items():
            if refusal is None and name not in self._under_way and len(self._waiting) < MAX_WAITING:
                self._waiting[name] = None
        if self._waiting and not self._under_way:
            self._begin()
            self._spawn(self._create_waiting())
        return {name: refusal or self._progress(name) for name, refusal in answers.items()}

    def _progress(self, name: str) -> ErrorCode:
        if name in self._under_way or name in self._waiting:
            return ErrorCode.LEADER_NOT_AVAILABLE
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _begin(self) -> None:
        self._under_way = frozenset(self._waiting)
        self._waiting.clear()

    async def _create_waiting(self) -> None:
        try:
            while self._under_way:
                for name, error in (await self._create(sorted(self._under_way))).items():
                    logger.warning("topic not created for a client that named it", topic=name, why=error.name)
                self._begin()
        finally:
            self._under_way = frozenset()
