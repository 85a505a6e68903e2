"""What members of streams groups (KIP-1071) say in their heartbeats.

A group's topology is one of a few: it reads one topic or two, passes words through a repartition topic to counts that
are kept, reads what is not there, or cannot be. Members come with it again when they join again, some with another one
or another epoch of it. All is drawn from what answers have told, as in requests.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from kavka.protocol.messages.streams_group_heartbeat_request import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.fuzz.sequences.knowledge import Subject

if TYPE_CHECKING:
    from tests.fuzz.sequences.requests import Meaning, Requests

PROCESSES: Final = "pqr"
"""As with members, a hash map has them in this order."""


def topology(requests: Requests, subject: Subject) -> Topology | None:
    """The group's own for the most part; of those that stay hardly any names one."""
    is_named = requests.joins(subject) or requests.pick(True, *[False] * 100)
    return _topology_of(requests, subject.member.group) if is_named else None


def _topology_of(requests: Requests, group: str) -> Topology:
    known = requests.knowledge
    shapes = tuple(SHAPES)
    own = shapes[known.groups.index(group) % 2 if group in known.groups else 0]
    shape = requests.pick(*[own] * 12, *shapes)
    parts = SHAPES[shape](list(known.topic_names[:3]), known.suffix)
    return Topology(epoch=requests.pick(*[0] * 12, 1, 2), subtopologies=parts)


def tasks(requests: Requests, subject: Subject, kind: str) -> list[TaskIds] | None:
    """What a member says that it has: what it was told, a part of it, or nothing new."""
    if requests.joins(subject):
        return [] if requests.pick(*[True] * 20, False) else None
    if subject.member.says_nothing:
        return None if requests.pick(*[True] * 30, False) else []
    told = subject.member.tasks.get(kind, [])
    rows = [TaskIds(subtopology_id=name, partitions=list(indexes)) for name, indexes in told]
    if rows and requests.pick(True, *[False] * 5):
        rows.pop()
    return rows if requests.pick(*[True] * 30, False) else [TaskIds(subtopology_id="9", partitions=[0])]


def _reads(topics: list[str], suffix: str) -> list[Subtopology]:
    return [Subtopology(subtopology_id="0", source_topics=topics[:2])]


def _counts(topics: list[str], suffix: str) -> list[Subtopology]:
    repartition = f"words-repartition{suffix}"
    changelog = TopicInfo(
        name=f"counts-changelog{suffix}", topic_configs=[KeyValue(key="cleanup.policy", value="compact")]
    )
    return [
        Subtopology(subtopology_id="0", source_topics=topics[:1], repartition_sink_topics=[repartition]),
        Subtopology(
            subtopology_id="1",
            repartition_source_topics=[TopicInfo(name=repartition)],
            state_changelog_topics=[changelog],
        ),
    ]


def _joins(topics: list[str], suffix: str) -> list[Subtopology]:
    together = CopartitionGroup(source_topics=[0, 1])
    stored = TopicInfo(name=f"joined-changelog{suffix}")
    return [
        Subtopology(
            subtopology_id="0",
            source_topics=topics[:2],
            copartition_groups=[together],
            state_changelog_topics=[stored],
        ),
        Subtopology(subtopology_id="1", source_topics=topics[2:3]),
    ]


def _misses(topics: list[str], suffix: str) -> list[Subtopology]:
    return [Subtopology(subtopology_id="0", source_topics=[topics[0], f"not-there{suffix}"])]


def _cannot_be(topics: list[str], suffix: str) -> list[Subtopology]:
    return [
        Subtopology(subtopology_id="0", source_topics=topics[:1]),
        Subtopology(subtopology_id="1", repartition_source_topics=[TopicInfo(name=f"nobody-writes{suffix}")]),
    ]


SHAPES: Final[Mapping[str, Callable[[list[str], str], list[Subtopology]]]] = {
    "reads": _reads, "counts": _counts, "joins": _joins, "misses": _misses, "cannot be": _cannot_be,
}  # fmt: skip
"""Kinds of topologies. The first two groups have the first two, for the most part."""
OF_HEARTBEATS: Final[dict[tuple[str, str], Meaning | None]] = {
    ("StreamsGroupHeartbeatRequest", "member_epoch"): lambda r, s: r.beat_epoch(s),
    ("StreamsGroupHeartbeatRequest", "endpoint_information_epoch"): lambda r, s: r.pick(-1, 0, 1, 2, 3),
    ("StreamsGroupHeartbeatRequest", "instance_id"): lambda r, s: r.pick(*[None] * 40, "instance-0"),
    ("StreamsGroupHeartbeatRequest", "rack_id"): lambda r, s: r.pick(*[None] * 10, "rack-1"),
    ("StreamsGroupHeartbeatRequest", "rebalance_timeout_ms"): lambda r, s: (
        400 * r.patience if r.joins(s) else r.pick(-1, -1, -1, 400 * r.patience, 500 * r.patience)
    ),
    ("StreamsGroupHeartbeatRequest", "topology"): lambda r, s: topology(r, s),
    ("StreamsGroupHeartbeatRequest", "active_tasks"): lambda r, s: tasks(r, s, "active"),
    ("StreamsGroupHeartbeatRequest", "standby_tasks"): lambda r, s: tasks(r, s, "standby"),
    ("StreamsGroupHeartbeatRequest", "warmup_tasks"): lambda r, s: tasks(r, s, "warmup"),
    ("StreamsGroupHeartbeatRequest", "process_id"): lambda r, s: (
        r.pick(*PROCESSES) if r.joins(s) else r.pick(*[None] * 12, *PROCESSES)
    ),
    ("StreamsGroupHeartbeatRequest", "user_endpoint"): lambda r, s: r.pick(
        *[None] * 3, Endpoint(host="localhost", port=r.pick(9000, 9001, 9002))
    ),
    ("StreamsGroupHeartbeatRequest", "client_tags"): lambda r, s: r.pick(
        *[None] * 3, [], [KeyValue(key="zone", value="a")]
    ),
    ("StreamsGroupHeartbeatRequest", "task_offsets"): lambda r, s: r.pick(*[None] * 40, []),
    ("StreamsGroupHeartbeatRequest", "task_end_offsets"): lambda r, s: r.pick(*[None] * 40, []),
    ("StreamsGroupHeartbeatRequest", "shutdown_application"): lambda r, s: r.pick(True, *[False] * 40),
}
