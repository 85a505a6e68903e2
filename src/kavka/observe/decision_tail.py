"""DecisionTail: the cluster's why-records, read as they are written.

Decides how far back they are read and how many are kept. Where the cluster has no topic of decisions (Apache Kafka, or
one broker alone) it says so, and looks again now and then.

    I1  At most MAX_DECISIONS are kept, the newest; each once, by time.
    I2  A failure of the cluster ends one attempt, never the tail: it goes on where it was.
    I3  What is new is what was read since, whatever time it bears: clocks of brokers differ, a broker may write down
        late what it decided, and whoever may write to the topic may write any time.

Source: kavka.decisions; docs/decisions.md.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import deque
from collections.abc import Callable
from typing import Final

from kavka.client.cluster import Cluster
from kavka.client.consumer import Consumer
from kavka.client.decisions import read_decisions
from kavka.client.settings import ConsumerSettings, OffsetReset
from kavka.decisions import DECISIONS_TOPIC, Decision, MalformedDecision, RecordedDecision, decode_decision
from kavka.errors import KavkaError
from kavka.model import TopicPartition
from kavka.observe.snapshot import NOT_READ, Reading

MAX_DECISIONS: Final = 20_000
LAST_HOUR_MS: Final = 3_600_000
CATCH_UP_S: Final = 10.0
LOOK_BACK_MS: Final = 24 * 3_600_000
POLL_RECORDS: Final = 1_000
LOOK_AGAIN_S: Final = 5.0
CLOCKS_APART_MS: Final = 300_000
"""By how much brokers' clocks may differ, so that an attempt that goes on passes over nothing."""
NO_TOPIC: Final = (
    "this cluster has no topic __kavka_decisions. Apache Kafka does not record its reasons, and a single kavka "
    "broker keeps its decisions in its log directory (kavka why --data DIRECTORY; kavka.decisions.topic.enable=true "
    "creates the topic)"
)


def topic_of(decision: Decision) -> str | None:
    """The topic that it is about: its partition's, or the one that was made, deleted or grown."""
    if decision.partition is not None:
        return decision.partition.topic
    named = decision.evidence.get("topic", decision.after.get("topic", decision.before.get("topic")))
    return named if isinstance(named, str) else None


class DecisionTail:
    """One cluster's decisions, the oldest first."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.reading = Reading(0, 0, NOT_READ)
        self._now_ms = now_ms
        self._by_time: list[tuple[int, str, RecordedDecision]] = []
        self._ids: set[str] = set()
        self._as_read: deque[RecordedDecision] = deque(maxlen=MAX_DECISIONS)
        self.count = 0
        """How many were read and kept so far: for `read_since`."""

    def recent(
        self,
        *,
        limit: int = 200,
        since_ms: int = 0,
        partition: TopicPartition | None = None,
        topic: str | None = None,
        group: str | None = None,
        matches: Callable[[RecordedDecision], bool] | None = None,
    ) -> list[RecordedDecision]:
        """The newest `limit` of those asked for, the newest first."""
        found: list[RecordedDecision] = []
        for at_ms, _, recorded in reversed(self._by_time):
            if at_ms < since_ms or len(found) >= limit:
                break
            decision = recorded.decision
            if (
                (partition is None or decision.partition == partition)
                and (topic is None or topic == topic_of(decision))
                and (group is None or decision.group == group)
                and (matches is None or matches(recorded))
            ):
                found.append(recorded)
        return found

    def read_since(self, count: int) -> list[RecordedDecision]:
        """What was read since `self.count` was `count`, in the order in which it was read; of more than MAX_DECISIONS
        the last."""
        fresh = min(self.count - count, len(self._as_read))
        return [self._as_read[place] for place in range(len(self._as_read) - fresh, len(self._as_read))]

    def find(self, decision_id: str) -> RecordedDecision | None:
        if decision_id not in self._ids:
            return None
        return next((each for _, name, each in reversed(self._by_time) if name == decision_id), None)

    def __len__(self) -> int:
        return len(self._by_time)

    def take(self, recorded: RecordedDecision) -> bool:
        """Keeps it; False where it is known already, or older than all of as many as are kept."""
        if recorded.decision_id in self._ids:
            return False
        insort(self._by_time, (recorded.decision.at_ms, recorded.decision_id, recorded), key=lambda each: each[:2])
        self._ids.add(recorded.decision_id)
        if len(self._by_time) > MAX_DECISIONS:
            _, oldest, _ = self._by_time.pop(0)
            self._ids.discard(oldest)
            if oldest == recorded.decision_id:
                return False
        self._as_read.append(recorded)
        self.count += 1
        return True

    async def follow(self, cluster: Cluster, has_topic: Callable[[], bool], on_new: Callable[[], None]) -> None:
        """Reads until it is cancelled."""
        while True:
            if not has_topic():
                self.reading = Reading(self.reading.read_at_ms, 0, NO_TOPIC)
                await asyncio.sleep(LOOK_AGAIN_S)
                continue
            try:
                await self._read(cluster, on_new)
            except (KavkaError, TimeoutError) as problem:
                self.reading = Reading(self.reading.read_at_ms, 0, str(problem) or "the cluster did not answer in time")
                await asyncio.sleep(LOOK_AGAIN_S)

    async def catch_up(self, cluster: Cluster) -> None:
        """Reads what was decided within the last LAST_HOUR_MS, once: for commands that look once."""
        began_ms = self._now_ms()
        try:
            async with asyncio.timeout(CATCH_UP_S):
                found = await read_decisions(cluster, began_ms - LAST_HOUR_MS)
        except (KavkaError, TimeoutError) as problem:
            self.reading = Reading(self.reading.read_at_ms, 0, str(problem) or "the cluster did not answer in time")
            return
        for recorded in found[-MAX_DECISIONS:]:
            self.take(recorded)
        self.reading = Reading(self._now_ms(), self._now_ms() - began_ms, "")

    async def _read(self, cluster: Cluster, on_new: Callable[[], None]) -> None:
        settings = ConsumerSettings(auto_offset_reset=OffsetReset.EARLIEST)
        now_ms = self._now_ms()
        last_ms = min(self._by_time[-1][0], now_ms) - CLOCKS_APART_MS if self._by_time else 0
        since_ms = max(last_ms, now_ms - LOOK_BACK_MS)
        async with Consumer(cluster, settings) as consumer:
            await consumer.assign_topic(DECISIONS_TOPIC)
            await consumer.seek_to_timestamp(max(since_ms, 0))
            while True:
                records = await consumer.poll(max_records=POLL_RECORDS)
                is_new = False
                for record in records:
                    try:
                        is_new |= record.value is not None and self.take(decode_decision(bytes(record.value)))
                    except MalformedDecision:
                        continue  # A later format: the others say what they say.
                self.reading = Reading(self._now_ms(), 0, "")
                if is_new:
                    on_new()
                    await asyncio.sleep(0)
