"""What sequences beside Apache Kafka are about: which APIs, how their requests are made, what is undone at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple
from uuid import uuid4

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.schema import Message
from tests.fuzz.sequences import administration
from tests.fuzz.sequences.administration import Administration
from tests.fuzz.sequences.knowledge import Knowledge
from tests.fuzz.sequences.requests import Meaning, Requests

Ask = Callable[[Message, int], Any]
WARM_UP_S: Final = 30.0
OF_SHARE_MEMBERS: Final = frozenset({"member_epoch", "group_epoch", "assignment_epoch", "assignment"})
"""Kafka counts a step more for each partition whose state was made late, and assigns by the hashes of members' ids."""
GROUPS: Final = frozenset(
    {
        ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE, ApiKey.DELETE_GROUPS,
        ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.DESCRIBE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DELETE_RECORDS,
    }
)  # fmt: skip


def _nothing(suffix: str) -> Iterable[tuple[Message, int]]:
    return ()


def _no_warm_up(ask: Ask, knowledge: Knowledge) -> None:
    """Nothing is to be there but topics."""


def subscribe_to_all(ask: Ask, knowledge: Knowledge) -> None:
    """A member of each group has had all topics: kavka's members have them at once, Kafka's when the states of the new
    partitions are made, some heartbeats later."""
    for group in knowledge.groups:
        beat = m.ShareGroupHeartbeatRequest(
            group_id=group, member_id=str(uuid4()), subscribed_topic_names=list(knowledge.topic_names)
        )
        deadline = time.monotonic() + WARM_UP_S
        while True:
            answer = ask(beat, 1)
            beat.member_epoch, beat.subscribed_topic_names = max(answer.member_epoch, 0), None
            given = answer.assignment.topic_partitions if answer.assignment else ()
            if sum(len(each.partitions) for each in given) == len(knowledge.topic_names):
                break
            assert time.monotonic() < deadline, f"a share group is not given what it wants: {answer}"
            time.sleep(0.1)
        beat.member_epoch = -1
        ask(beat, 1)


class Mixed(Requests):
    """Members of both protocols in two groups: upgrades and downgrades while others come and go."""

    OFTEN: Final = {
        ApiKey.JOIN_GROUP: 12, ApiKey.SYNC_GROUP: 12, ApiKey.HEARTBEAT: 8, ApiKey.LEAVE_GROUP: 4,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: 18, ApiKey.OFFSET_COMMIT: 7, ApiKey.OFFSET_FETCH: 5, ApiKey.OFFSET_DELETE: 2,
        ApiKey.DELETE_GROUPS: 1, ApiKey.DESCRIBE_GROUPS: 3, ApiKey.CONSUMER_GROUP_DESCRIBE: 4, ApiKey.LIST_GROUPS: 3,
        ApiKey.INIT_PRODUCER_ID: 1, ApiKey.ADD_OFFSETS_TO_TXN: 1, ApiKey.TXN_OFFSET_COMMIT: 2, ApiKey.END_TXN: 1,
    }  # fmt: skip

    def weight(self, key: ApiKey) -> float:
        return self.OFTEN.get(key, 0)


class Share(Requests):
    """Members of two share groups, what they acquire, and positions that administrators move."""

    OFTEN: Final = {
        ApiKey.SHARE_GROUP_HEARTBEAT: 14, ApiKey.SHARE_FETCH: 14, ApiKey.SHARE_ACKNOWLEDGE: 10, ApiKey.PRODUCE: 10,
        ApiKey.SHARE_GROUP_DESCRIBE: 4, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: 6, ApiKey.ALTER_SHARE_GROUP_OFFSETS: 3,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: 2, ApiKey.DELETE_GROUPS: 1, ApiKey.LIST_GROUPS: 3,
        ApiKey.DELETE_RECORDS: 1, ApiKey.LIST_OFFSETS: 1, ApiKey.CONSUMER_GROUP_DESCRIBE: 1, ApiKey.DESCRIBE_GROUPS: 1,
        ApiKey.JOIN_GROUP: 1, ApiKey.OFFSET_COMMIT: 1, ApiKey.OFFSET_FETCH: 1,
    }  # fmt: skip

    def weight(self, key: ApiKey) -> float:
        return self.OFTEN.get(key, 0)

    def meaning(self, struct: str, name: str) -> Meaning | None:
        return _OF_SHARE_GROUPS.get((struct, name)) or super().meaning(struct, name)


_OF_SHARE_GROUPS: Final[dict[tuple[str, str], Meaning]] = {
    ("ShareGroupDescribeRequest", "group_ids"): lambda r, s: [s.member.group],
    ("DescribeShareGroupOffsetsRequestTopic", "partitions"): lambda r, s: [0],
    ("AlterShareGroupOffsetsRequestPartition", "partition_index"): lambda r, s: 0,
    ("AlterShareGroupOffsetsRequestPartition", "start_offset"): lambda r, s: r.pick(0, r.offset(s), 1, 99),
    ("ShareFetchRequest", "min_bytes"): lambda r, s: r.pick(0, 1),
    ("ShareFetchRequest", "max_bytes"): lambda r, s: 1 << 20,
    ("ListGroupsRequest", "states_filter"): lambda r, s: r.pick([], [], ["Stable"], ["empty"], ["Dead"]),
    ("ListGroupsRequest", "types_filter"): lambda r, s: r.pick([], ["share"], ["Share", "classic"], ["consumer"]),
}


class Streams(Requests):
    """Members of two streams groups in three processes, topologies that change, standbys that come and go."""

    OFTEN: Final = {
        ApiKey.STREAMS_GROUP_HEARTBEAT: 30, ApiKey.STREAMS_GROUP_DESCRIBE: 5, ApiKey.OFFSET_COMMIT: 4,
        ApiKey.OFFSET_FETCH: 3, ApiKey.OFFSET_DELETE: 1, ApiKey.DELETE_GROUPS: 1, ApiKey.LIST_GROUPS: 2,
        ApiKey.DESCRIBE_GROUPS: 1, ApiKey.CONSUMER_GROUP_DESCRIBE: 1, ApiKey.CONSUMER_GROUP_HEARTBEAT: 1,
        ApiKey.JOIN_GROUP: 1, ApiKey.HEARTBEAT: 0.5, ApiKey.LEAVE_GROUP: 0.5, ApiKey.CREATE_PARTITIONS: 0.5,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    }  # fmt: skip

    def weight(self, key: ApiKey) -> float:
        return self.OFTEN.get(key, 0)

    def meaning(self, struct: str, name: str) -> Meaning | None:
        return _OF_STREAMS_GROUPS.get((struct, name)) or super().meaning(struct, name)


_OF_STREAMS_GROUPS: Final[dict[tuple[str, str], Meaning]] = {
    ("StreamsGroupDescribeRequest", "group_ids"): lambda r, s: [s.member.group],
    ("ConsumerGroupDescribeRequest", "group_ids"): lambda r, s: [s.member.group],
    ("DescribeGroupsRequest", "groups"): lambda r, s: [s.member.group],
    ("ListGroupsRequest", "states_filter"): lambda r, s: r.pick([], [], ["Stable"], ["empty"], ["reconciling"]),
    ("ListGroupsRequest", "types_filter"): lambda r, s: r.pick([], ["streams"], ["Streams", "classic"], ["consumer"]),
    ("AlterConfigsResource", "resource_type"): lambda r, s: 32,
    ("AlterConfigsResource", "resource_name"): lambda r, s: s.member.group,
    ("AlterableConfig", "name"): lambda r, s: r.pick(
        *["streams.num.standby.replicas"] * 5, "streams.session.timeout.ms"
    ),
    ("AlterableConfig", "value"): lambda r, s: r.pick("0", "1", "1", "2", "9", "x"),
    ("AlterableConfig", "config_operation"): lambda r, s: r.pick(0, 0, 0, 1),
    ("IncrementalAlterConfigsRequest", "validate_only"): lambda r, s: False,
}


class Theme(NamedTuple):
    """`compared`: the APIs that are asked; `topics`, `groups`: how many there are from the start, and the `partitions`
    of each topic; `warm_up`: what happens before a sequence; `not_compared`: fields that cannot be equal."""

    requests: type[Requests]
    compared: frozenset[ApiKey]
    topics: int = 6
    groups: int = 8
    partitions: int = 2
    warm_up: Callable[[Ask, Knowledge], None] = _no_warm_up
    not_compared: frozenset[str] = frozenset()
    undo: Callable[[str], Iterable[tuple[Message, int]]] = _nothing


THEMES: Final[Mapping[str, Theme]] = {
    "groups": Theme(Requests, GROUPS),
    "mixed": Theme(Mixed, frozenset(Mixed.OFTEN), groups=2),
    "share": Theme(
        Share, frozenset(Share.OFTEN), groups=2, partitions=1, warm_up=subscribe_to_all, not_compared=OF_SHARE_MEMBERS
    ),
    "streams": Theme(Streams, frozenset(Streams.OFTEN), topics=3, groups=2, partitions=3),
    "administration": Theme(Administration, frozenset(administration.WEIGHTS), topics=3, undo=administration.undo),
}
