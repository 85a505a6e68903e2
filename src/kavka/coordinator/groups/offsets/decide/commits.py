"""Commits: what a member asks to commit, and what is decided of it. Values only."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple

from kavka.coordinator.groups.consumer.decide.group import FIRST_COMMIT_VERSION
from kavka.coordinator.groups.decide.records import OffsetRecord
from kavka.errors import ErrorCode
from kavka.model import NO_TOPIC_ID, LeaderEpoch, Offset

NO_RETENTION: Final = -1
"""What OffsetCommit 2-4 says where the broker's retention holds."""


class OffsetToCommit(NamedTuple):
    """One partition of an OffsetCommit; `topic_id` is that of the topic which has the name now."""

    topic: str
    partition: int
    offset: Offset
    leader_epoch: LeaderEpoch
    metadata: str | None
    topic_id: uuid.UUID = NO_TOPIC_ID


class CommitRequest(NamedTuple):
    """Who commits what. `generation` is a member's epoch in a group of the newer protocol.

    `retention_ms` is how long the client wants the offsets kept, NO_RETENTION where it leaves that to the broker.
    `api_version` is that of its OffsetCommit.
    """

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation: int
    offsets: Sequence[OffsetToCommit]
    retention_ms: int = NO_RETENTION
    api_version: int = FIRST_COMMIT_VERSION


class CommitDecision(NamedTuple):
    """An error per partition, in the order of the request, and what is to be written of those that are fine."""

    errors: Sequence[ErrorCode]
    offsets: Sequence[OffsetRecord]
