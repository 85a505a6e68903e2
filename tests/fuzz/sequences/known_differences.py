"""Where kavka answers fuzzed sequences otherwise than Apache Kafka 4.3, and why; and what is not asked at all.

A sequence ends at such an answer, because what the two brokers know differs from there on.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from kavka.protocol.api import ApiKey
from kavka.protocol.schema import ZERO_UUID, Struct
from tests.fuzz.sequences.requests import Asked

HELD: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""Requests of which the answer may wait for others."""


NULL: Final = "<null>"
"""An answer that is null, among those of which None stands for any."""


class OnPurpose(NamedTuple):
    """Where kavka answers otherwise: the API, the field, both answers (None: whatever it is), and why. What is known
    of a broker differs then, so a sequence ends, unless it `goes_on`."""

    key: ApiKey
    path: str
    ours: Any
    theirs: Any
    reason: str
    goes_on: bool = False
    """Nothing that either of them knows is another for it."""

    def covers(self, key: str, path: str, ours: Any, theirs: Any) -> bool:
        return (
            key == self.key.name
            and re.fullmatch(self.path, path) is not None
            and self.ours in (None, ours)
            and self.theirs in (None, NULL if theirs is None else theirs)
        )


UNKNOWN_SERVER_ERROR: Final = -1
AS_THE_FORMER: Final = "as Apache Kafka 3.9 with ZooKeeper; "
ADMINISTRATION: Final = (
    *(
        OnPurpose(
            key, r"\.responses\[\d+\]\.error_code", 3, 17,
            AS_THE_FORMER + "a name that no topic can have is one of a topic that is not there", goes_on=True,
        )
        for key in (ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CONFIGS)
    ),
    *(
        OnPurpose(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, r"\.responses\[\d+\]\.error_code", 42, theirs,
            "that a resource has no name, or an operation no meaning, is said before what is wrong with its settings",
            goes_on=True,
        )
        for theirs in (40, UNKNOWN_SERVER_ERROR)
    ),
    OnPurpose(
        ApiKey.CREATE_TOPICS, r"\.topics\[\d+\]\.topic_id", "0", "<id>",
        AS_THE_FORMER + "KRaft gives a topic that is only validated an id, which no topic ever has", goes_on=True,
    ),
    OnPurpose(
        ApiKey.METADATA, r"\.topics\[\d+\]\.error_code", 5, 3,
        AS_THE_FORMER + "a topic that is made because it was asked for is on its way, not unknown", goes_on=True,
    ),
    OnPurpose(
        ApiKey.UPDATE_FEATURES, r"\.(error_code|error_message|results.*)", None, None,
        AS_THE_FORMER + "KRaft refuses a whole request for one feature, with other codes", goes_on=True,
    ),
    OnPurpose(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS, r"\.allow_replication_factor_change", False, True,
        "what was asked for is told of a request without topics, too", goes_on=True,
    ),
    OnPurpose(
        ApiKey.CREATE_PARTITIONS, r"\.results\[\d+\]\.error_code", 37, 0,
        "coordinators' topics keep their partitions, by whose number groups and transactional ids are placed",
    ),
    OnPurpose(
        ApiKey.DELETE_TOPICS, r"\.responses\[\d+\]\.error_code", 29, 42,
        AS_THE_FORMER + "a topic with neither name nor id is none that anybody may delete", goes_on=True,
    ),
    OnPurpose(
        ApiKey.DELETE_TOPICS, r"\.responses\[\d+\]\.error_message", None, "<text>",
        AS_THE_FORMER + "the code alone", goes_on=True,
    ),
    OnPurpose(
        ApiKey.DESCRIBE_GROUPS, r"\.groups\[\d+\]\.authorized_operations", 328, 3400,
        AS_THE_FORMER + "KRaft counts the rights to settings of groups, too", goes_on=True,
    ),
    OnPurpose(
        ApiKey.CREATE_ACLS, r"\.results\[\d+\]\.error_code", 42, -1,
        "INVALID_REQUEST names the client's mistake; Kafka's UNKNOWN_SERVER_ERROR is an exception", goes_on=True,
    ),
)  # fmt: skip
ON_PURPOSE: Final = (
    OnPurpose(
        ApiKey.JOIN_GROUP, r"\.(member_id|leader|members\[\d+\]\.member_id)", None, None,
        "a refusal names the member that asked, as Kafka's do in a group of the classic protocol", goes_on=True,
    ),
    OnPurpose(
        ApiKey.JOIN_GROUP, r"\.error_code", 0, 23,
        "in a group of the newer protocol a classic member that joins again is judged by the other classic members' "
        "assignors; Kafka counts its own former ones, too, so that even one alone cannot change them",
    ),
    OnPurpose(
        ApiKey.JOIN_GROUP, r"\.error_code", 23, 82,
        "in a group of the newer protocol a subscription that nobody can read is told before another's instance id",
    ),
    OnPurpose(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, r"\.assignment\.topic_partitions\[\d+\]\.partitions\[\d+\]", None, None,
        "which partitions of a topic a member is given follows from hashes of ids, and differs from run to run with "
        "either brand; of which topics and how many they are, and in which epoch, is compared",
    ),
    OnPurpose(
        ApiKey.PRODUCE, r".*\.error_code", 0, 45,
        "a producer that a partition does not know may begin a transaction there with any sequence but those behind "
        "one that is being verified, as in 4.0; under transaction version 2 4.3 wants 0",
    ),
    OnPurpose(
        ApiKey.STREAMS_GROUP_HEARTBEAT, r"\.endpoint_information_epoch", 0, 1,
        "a new group has had no endpoints; of one that takes the place of an empty classic group Kafka tells an epoch "
        "that it forgets at once",
        goes_on=True,
    ),
    OnPurpose(
        ApiKey.STREAMS_GROUP_HEARTBEAT, r"\.(active|standby|warmup)_tasks", None, NULL,
        "a member that comes with its former epoch has not heard of its present one, and is told its tasks again",
        goes_on=True,
    ),
    OnPurpose(
        ApiKey.STREAMS_GROUP_HEARTBEAT, r"\.partitions_by_user_endpoint\[\d+\]\.user_endpoint\.(host|port)", None, None,
        "a member's endpoint is the one that it named last; Kafka tells the former one until its tasks change",
        goes_on=True,
    ),
    *ADMINISTRATION,
    *(
        OnPurpose(
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, rf".*\.{field}", None, -1,
            "where a group begins is stored before anything is given out, so that a leader who dies loses no record",
            goes_on=True,
        )
        for field in ("start_offset", "lag")
    ),
    OnPurpose(
        ApiKey.SHARE_FETCH, r"\.error_code", 42, 122,
        "what a request can never mean is said before that there is no such session", goes_on=True,
    ),
)  # fmt: skip
ACLS: Final = frozenset({ApiKey.CREATE_ACLS, ApiKey.DESCRIBE_ACLS, ApiKey.DELETE_ACLS})
PARTS: Final = ("partitions", "partition_responses", "partition_result")
SILENT: Final = ("error_message", "feature_message", "reason")
"""Ends of fields in which kavka says why more often; what is compared is that it does where Kafka does."""


def pruned(answer: Any) -> Any:
    """Without topics of which nothing was asked: kavka names them, Kafka leaves them out."""
    if isinstance(answer, dict):
        return {name: pruned(value) for name, value in answer.items()}
    if isinstance(answer, list):
        rows = [each for each in map(pruned, answer) if not (isinstance(each, dict) and _is_idle(each))]
        if rows and isinstance(rows[0], dict) and "name" in rows[0] and "value" in rows[0]:
            return {row["name"]: row for row in rows}
        if rows and isinstance(rows[0], str):
            return sorted(rows)
        return rows
    return answer


def _is_idle(row: dict[str, Any]) -> bool:
    if "acquired_records" in row and "acknowledge_error_code" in row:  # Kafka names some once more than kavka.
        codes = row["error_code"], row["acknowledge_error_code"]
        return not any((*codes, row["acquired_records"], row["records"]))
    return "error_code" not in row and any(row.get(name) == [] for name in PARTS)


def is_silent(path: str, ours: Any, theirs: Any) -> bool:
    """Whether it is a message that Kafka does not give."""
    return path.endswith(SILENT) and (theirs in (None, "") or ours == theirs)


def is_left_out(asked: Asked) -> bool:
    """What Kafka does not answer (no transactions at all, records that are null, rights of unknown kinds, offsets of a
    share group in a partition that does not exist, share fetches of the topic id of zeros), and what no client sends.

    That is a member that goes on in the other protocol under the id that it has, and the same topic or partition twice.
    Kafka puts those together, as its maps have it; kavka answers each. A user's password that goes and comes in one
    request is judged in another order by KRaft than with ZooKeeper.
    """
    kind, is_member = asked.subject.member.kind, bool(asked.subject.member.epoch)
    if is_member and asked.key in HELD and kind is not ApiKey.JOIN_GROUP:
        return True
    if is_member and asked.key is ApiKey.CONSUMER_GROUP_HEARTBEAT and kind is ApiKey.JOIN_GROUP:
        return True
    if is_member and asked.key is ApiKey.STREAMS_GROUP_HEARTBEAT and kind is not ApiKey.STREAMS_GROUP_HEARTBEAT:
        return True
    if asked.key is ApiKey.ADD_PARTITIONS_TO_TXN and asked.version >= 4 and not asked.message.transactions:
        return True
    if asked.key in ACLS and any(map(_is_of_unknown_kind, _acls_in(asked.message))):
        return True
    if asked.key is ApiKey.PRODUCE and any(
        each.records is None for topic in asked.message.topic_data for each in topic.partition_data
    ):
        return True
    if asked.key in (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE) and any(
        topic.topic_id == ZERO_UUID for topic in asked.message.topics
    ):
        return True
    if asked.key is ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS and any(
        index != 0 for group in asked.message.groups for topic in group.topics or () for index in topic.partitions
    ):
        return True
    if asked.key is ApiKey.ALTER_USER_SCRAM_CREDENTIALS and asked.message.deletions and asked.message.upsertions:
        return True
    return _has_twins(asked.message)


def _acls_in(message: Any) -> list[Any]:
    return list(getattr(message, "creations", None) or getattr(message, "filters", None) or [message])


def _is_of_unknown_kind(acl: Any) -> bool:
    names = (
        ("resource_type", "resource_pattern_type", "operation", "permission_type")
        if hasattr(acl, "resource_type")
        else ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")
    )
    least = 1 if hasattr(acl, "resource_type") else 0
    return any(not least < getattr(acl, name, 2) <= most for name, most in zip(names, (7, 4, 14, 3), strict=True))


def _has_twins(struct: Struct) -> bool:
    for one in type(struct)._fields:
        value = getattr(struct, one.name)
        if not isinstance(value, list):
            continue
        if value and isinstance(value[0], Struct):
            names = [_name_in(each) for each in value]
            if len(set(names)) < len(names) or any(map(_has_twins, value)):
                return True
        elif one.kind == "array" and len(set(value)) < len(value):
            return True
    return False


def _name_in(struct: Struct) -> tuple[Any, ...]:
    names = (
        "name",
        "resource_type",
        "resource_name",
        "feature",
        "group_id",
        "topic",
        "topic_name",
        "topic_id",
        "partition_index",
        "partition",
        "index",
        "member_id",
        "transactional_id",
        "key",
    )
    return tuple(getattr(struct, name) for name in names if hasattr(struct, name)) or (id(struct),)
