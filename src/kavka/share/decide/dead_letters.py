"""Dead letters: records that a share group gives up are written to a topic of the group's (KIP-1191).

Decides whether a topic may be the dead-letter topic of a group, which of its partitions a dead letter goes to, what it
says, and when it is tried again. Must not know logs, requests or settings' names.

    I1  a dead letter goes to no topic whose administrator has not allowed it, nor to one with a name outside of the
        cluster's prefix: who can write a record that a group will reject could write to any topic otherwise
    I2  a group has no dead letter of a record that lies in its dead-letter topic already: it would be given up again
    I3  a dead letter is tried MOST_TRIES times, and then no more
    I4  a setting or a topic that is not there may be there in a moment: a broker learns of both from ZooKeeper, which
        may be slow. What was found MOST_TRIES times, and again within LASTING_MS, lasts: the next dead letters of the
        group do not wait for it

Source: KIP-1191; ShareGroupDLQStateManager of Apache Kafka 4.4.0, whose words these are in checks and headers. It has
no I2 and no I4, and tries again only after NOT_LEADER_OR_FOLLOWER and failures of the network; here after all errors
that may pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kavka.decisions import Decision, DecisionKind
from kavka.model import Offset, TopicPartition
from kavka.share.decide.reasons import Place
from kavka.share.decide.spans import Span

RESERVED_PREFIX: Final = "__"
REJECTED: Final = "Offset rejected by client."
AT_LIMIT: Final = "Offset delivery count exceeded the threshold."
MOST_TRIES: Final = 5
FIRST_PAUSE_S: Final = 1.0
JITTER: Final = 0.2
LASTING_MS: Final = 60_000


class DeadLetters(NamedTuple):
    """What holds for a group's dead letters. `topic` is "" for none; `copies`: with key and value of the record;
    `prefix` and `may_create` are the cluster's."""

    topic: str = ""
    copies: bool = False
    prefix: str = ""
    may_create: bool = False


class Found(NamedTuple):
    """What is known of the topic: None for one that is missing. `is_allowed` is its administrator's word."""

    partition_count: int
    is_allowed: bool
    max_message_bytes: int


class Refusal(NamedTuple):
    """Why no dead letter can be written as things are set. `may_pass`: it is the word of what this broker knows now."""

    why: str
    may_pass: bool


def refusal(group_id: str, letters: DeadLetters, source: TopicPartition, found: Found | None) -> Refusal | None:
    """None if one can be written (I1, I2)."""
    topic = letters.topic
    if topic.startswith(RESERVED_PREFIX):
        return Refusal(
            f"Configured DLQ topic name in share group: {group_id} cannot start with __, topic: {topic}.",
            may_pass=False,
        )
    if topic == source.topic:
        return Refusal(f"The record is in the DLQ topic {topic} of share group {group_id} already.", may_pass=False)
    why = _lacks(group_id, letters, found)
    return None if why is None else Refusal(why, may_pass=True)


def _lacks(group_id: str, letters: DeadLetters, found: Found | None) -> str | None:
    topic = letters.topic
    if not topic:
        return f"Configured DLQ topic name in share group: {group_id} is empty."
    if found is not None and not found.is_allowed:
        return f"DLQ is not enabled on configured DLQ topic for share group: {group_id}, topic: {topic}."
    if found is None and not letters.may_create:
        return (
            f"DLQ topic does not exist and auto create is disabled on cluster for share group: {group_id}, "
            f"topic: {topic}."
        )
    if not topic.startswith(letters.prefix):
        return (
            f"Configured DLQ topic name does not comply with the DLQ topic prefix in share group: {group_id}, "
            f"topic: {topic}, prefix: {letters.prefix}."
        )
    return None


class Lasting:
    """Of each group: why its dead letters could not be written, although that was looked at MOST_TRIES times (I4)."""

    def __init__(self) -> None:
        self._causes: dict[str, tuple[str, int]] = {}

    def note(self, group_id: str, why: str, now_ms: int) -> None:
        """Dead letters were given up for this."""
        recent = {group: cause for group, cause in self._causes.items() if now_ms - cause[1] <= LASTING_MS}
        self._causes = {**recent, group_id: (why, now_ms)}

    def is_known(self, group_id: str, why: str, now_ms: int) -> bool:
        """Whether it is no use to wait for it."""
        known = self._causes.get(group_id)
        if known is None or why != known[0] or now_ms - known[1] > LASTING_MS:
            return False
        self._causes[group_id] = (why, now_ms)
        return True

    def forget(self, group_id: str) -> None:
        """Nothing stands in the way now."""
        self._causes.pop(group_id, None)


def partition_for(source: int, count: int) -> int:
    """The partition of a dead-letter topic of `count` partitions for records of partition `source`."""
    return source % count


def reason(*, is_rejected: bool) -> str:
    """Why the group gave a record up."""
    return REJECTED if is_rejected else AT_LIMIT


def with_causes(spans: Sequence[Span], limit: int) -> list[Span]:
    """The same spans; those of which it is not known any more why they were given up were rejected if they were not
    delivered `limit` times. The cause is not stored."""
    return [span._replace(is_rejected=span.is_rejected or span.deliveries < limit) for span in spans]


def headers(
    group_id: str, source: TopicPartition, offset: Offset, deliveries: int, *, is_rejected: bool
) -> tuple[tuple[str, bytes], ...]:
    """The headers of a dead letter, which say what it is of. Numbers are in decimal digits."""
    return (
        ("__dlq.errors.topic", source.topic.encode()),
        ("__dlq.errors.partition", b"%d" % source.partition),
        ("__dlq.errors.offset", b"%d" % offset),
        ("__dlq.errors.group", group_id.encode()),
        ("__dlq.errors.delivery.count", b"%d" % deliveries),
        ("__dlq.errors.message", reason(is_rejected=is_rejected).encode()),
    )


def pause_s(tries: int, lot: float) -> float | None:
    """How long to wait after so many failed tries; None: that was the last (I3). `lot` is drawn from 0 to 1."""
    if tries >= MOST_TRIES:
        return None
    return FIRST_PAUSE_S * 2.0 ** (tries - 1) * (1 - JITTER + 2 * JITTER * lot)


class Written(NamedTuple):
    """Where dead letters are: in a partition, from `first_offset` on."""

    partition: TopicPartition
    first_offset: Offset


def written(place: Place, spans: Sequence[Span], where: Written, at_ms: int, untold: int) -> Decision:
    """Why these records are in the dead-letter topic: a why-record about its partition."""
    count, first, last = sum(span.size for span in spans), spans[0].first, spans[-1].last
    why = (
        f"group {place.group_id} has given up records {first} to {last} ({count} of them) of {place.partition}: "
        f"{_causes(spans)}; their dead letters are in {where.partition} from offset {where.first_offset} on"
    )
    return Decision(
        DecisionKind.DEAD_LETTERS_WRITTEN,
        at_ms,
        place.broker_id,
        why,
        partition=where.partition,
        evidence={**_evidence(place, spans, untold), "first_dead_letter": where.first_offset},
    )


def failed(place: Place, spans: Sequence[Span], problem: str, at_ms: int, untold: int) -> Decision:
    """Why these records are archived without a dead letter: a why-record about their own partition."""
    count, first, last = sum(span.size for span in spans), spans[0].first, spans[-1].last
    why = (
        f"records {first} to {last} ({count} of them) of group {place.group_id} are archived without dead letters: "
        f"{problem}"
    )
    return Decision(
        DecisionKind.DEAD_LETTERS_FAILED,
        at_ms,
        place.broker_id,
        why,
        partition=place.partition,
        leader_epoch=place.leader_epoch,
        evidence={**_evidence(place, spans, untold), "problem": problem},
    )


def _causes(spans: Sequence[Span]) -> str:
    rejected = sum(span.size for span in spans if span.is_rejected)
    at_limit = sum(span.size for span in spans) - rejected
    return f"{rejected} rejected by a member, {at_limit} delivered as often as they may be"


def _evidence(place: Place, spans: Sequence[Span], untold: int) -> dict[str, int | str]:
    return {
        "group": place.group_id,
        "source": str(place.partition),
        "first_offset": spans[0].first,
        "last_offset": spans[-1].last,
        "records": sum(span.size for span in spans),
        "rejected": sum(span.size for span in spans if span.is_rejected),
        "deliveries": max(span.deliveries for span in spans),
        "limit": place.limit,
        "not_told_before": untold,
    }
