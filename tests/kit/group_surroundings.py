"""What a group coordinator is given in tests: topics that are made by hand, limits, and a log in memory."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace

from kavka.coordinator.groups.classic.decide.membership import GroupLimits
from kavka.coordinator.groups.consumer.decide.group import ConsumerGroupLimits
from kavka.coordinator.groups.consumer.decide.target_assignment import TopicInfo
from kavka.coordinator.groups.consumer.flow import Surroundings
from kavka.coordinator.shared.decide.records import CoordinatorRecord, OpenTransaction
from kavka.errors import ErrorCode

CONSUMER_LIMITS = ConsumerGroupLimits(
    session_timeout_ms=45_000,
    heartbeat_interval_ms=5_000,
    max_size=100,
    assignors=("uniform", "range"),
    assignment_interval_ms=0,
    regex_refresh_interval_ms=600_000,
    upgrade_allowed=True,
    downgrade_allowed=True,
)


class HandMadeTopics:
    """Topics by name and number of partitions; the id of the n-th that was made is n."""

    def __init__(self, **counts: int) -> None:
        self.version = 0
        self._topics: dict[str, TopicInfo] = {}
        self._made = 0
        for name, count in counts.items():
            self.put(name, count)

    def put(self, name: str, count: int) -> uuid.UUID:
        """Makes a topic, or gives it another number of partitions."""
        known = self._topics.get(name)
        if known is None:
            self._made += 1
        topic_id = uuid.UUID(int=self._made) if known is None else known.topic_id
        self._topics[name] = TopicInfo(topic_id, count)
        self.version += 1
        return topic_id

    def remove(self, name: str) -> None:
        del self._topics[name]
        self.version += 1

    def topic(self, name: str) -> TopicInfo | None:
        return self._topics.get(name)

    def name(self, topic_id: uuid.UUID) -> str | None:
        return next((name for name, topic in self._topics.items() if topic.topic_id == topic_id), None)

    def names(self) -> Sequence[str]:
        return list(self._topics)


class OffsetsLog:
    """`__consumer_offsets` in memory, for one partition.

    `error` answers the next append. Its records are not in the log then; with `keeps_failed` they are, but for
    NOT_ENOUGH_REPLICAS, as with a leader that does not know the outcome. `delay_s` is how long a write takes; None: it
    is committed at once, as with one replica. `uncommitted`: how many records at the end are not committed yet.
    """

    def __init__(self, *, delay_s: float | None, keeps_failed: bool = False) -> None:
        self.records: list[CoordinatorRecord] = []
        self.error = ErrorCode.NONE
        self.delay_s = delay_s
        self._keeps_failed = keeps_failed
        self._being_written = 0
        self.uncommitted = 0

    def append(
        self, partition: int, records: Sequence[CoordinatorRecord], *, producer_id: int = -1, producer_epoch: int = -1
    ) -> Awaitable[ErrorCode]:
        return self._append(records)

    async def _append(self, records: Sequence[CoordinatorRecord]) -> ErrorCode:
        error, self.error = self.error, ErrorCode.NONE
        if error is ErrorCode.NONE or (self._keeps_failed and error is not ErrorCode.NOT_ENOUGH_REPLICAS):
            self.records.extend(records)
        if self.delay_s is not None:
            self._being_written += 1
            try:
                await asyncio.sleep(self.delay_s)
            finally:
                self._being_written -= 1
        return error

    async def at_rest(self) -> None:
        """Waits until its writer knows of every record that is in the log."""
        while self._being_written:
            assert self.delay_s is not None
            await asyncio.sleep(self.delay_s)

    def ends(self, partition: int) -> tuple[int, int] | None:
        return len(self.records) - self.uncommitted, len(self.records)

    async def settle(self, partition: int) -> bool:
        return True

    async def read(self, partition: int) -> AsyncIterator[Sequence[CoordinatorRecord] | OpenTransaction]:
        yield self.compacted()

    def compacted(self) -> list[CoordinatorRecord]:
        """The last record of every key, where it stood."""
        last = {record.key: place for place, record in enumerate(self.records)}
        return [record for place, record in enumerate(self.records) if last[record.key] == place]


def group_surroundings(
    topics: HandMadeTopics | None = None,
    *,
    limits: ConsumerGroupLimits = CONSUMER_LIMITS,
    wall_ms: Callable[[], int] = lambda: 1_700_000_000_000,
    **changed: object,
) -> Surroundings:
    """Surroundings with these topics; `changed` replaces single limits."""
    settled = replace(limits, **changed)  # type: ignore[arg-type]  # names of limits
    return Surroundings(
        topics or HandMadeTopics(),
        limits=lambda _group_id: settled,
        classic_limits=GroupLimits(10, 1_800_000, 0, 100),
        is_enabled=lambda: True,
        wall_ms=wall_ms,
        random=random.Random(1),
    )
