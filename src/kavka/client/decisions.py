"""Reads the brokers' decisions (why-records): from the topic `__kavka_decisions`, or from rings in log directories.

Decides which records are decisions, and returns a decision that was written twice only once. Must not know what they
mean; `kavka.decisions` defines their form.
"""

from __future__ import annotations

from collections.abc import Iterable

from kavka.client.cluster import Cluster
from kavka.client.consumer import Consumer
from kavka.client.settings import ConsumerSettings, OffsetReset
from kavka.decisions import DECISIONS_TOPIC, MalformedDecision, RecordedDecision, decode_decision

POLL_RECORDS = 5_000


async def read_decisions(cluster: Cluster, since_ms: int) -> list[RecordedDecision]:
    """All decisions in the topic from `since_ms` (wall clock) on, by time.

    Raises `RequestError(UNKNOWN_TOPIC_OR_PARTITION)` if the cluster has no such topic.
    """
    found: list[RecordedDecision] = []
    async with Consumer(cluster, ConsumerSettings(auto_offset_reset=OffsetReset.EARLIEST)) as consumer:
        await consumer.assign_topic(DECISIONS_TOPIC)
        await consumer.seek_to_timestamp(max(since_ms, 0))
        ends = await consumer.end_offsets()
        while not consumer.reached(ends):
            for record in await consumer.poll(max_records=POLL_RECORDS):
                if record.value is not None:
                    found += _decoded([bytes(record.value)])
    return in_order(decision for decision in found if decision.decision.at_ms >= since_ms)


def read_ring(lines: Iterable[bytes], since_ms: int) -> list[RecordedDecision]:
    """The decisions of a ring's lines from `since_ms` on. A torn line is skipped."""
    return in_order(decision for decision in _decoded(lines) if decision.decision.at_ms >= since_ms)


def in_order(decisions: Iterable[RecordedDecision]) -> list[RecordedDecision]:
    """Each decision once, ordered by time."""
    once = {recorded.decision_id: recorded for recorded in decisions}
    return sorted(once.values(), key=lambda recorded: recorded.decision.at_ms)


def _decoded(values: Iterable[bytes]) -> list[RecordedDecision]:
    decisions = []
    for value in values:
        try:
            decisions.append(decode_decision(value))
        except MalformedDecision:
            continue  # A later format, or a line that a crash cut: the others say what they say.
    return decisions
