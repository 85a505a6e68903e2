"""One member of a consumer group, in the classic protocol.

Decides when to join, what to send to the coordinator, and what each of its errors means for the membership. Must not
know fetching or positions: the consumer asks it for an assignment and gives it offsets to commit.

    state      event                                              next
    OUTSIDE    join: JoinGroup, SyncGroup answered                MEMBER
    MEMBER     heartbeat or commit: REBALANCE_IN_PROGRESS         REJOIN
    MEMBER     UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION              OUTSIDE (the id is forgotten for the former)
    REJOIN     join                                               MEMBER
    any        FENCED_INSTANCE_ID                                 FENCED: another has taken this instance's place
    any        leave                                              OUTSIDE

Invariants
  I1  Offsets are only committed with the member id and generation with which their partitions were assigned, also
      when the membership was lost since: whose place another has taken is refused then. Without an id and a generation
      a commit in a transaction would be let through (KIP-447), and what the other has made would be made twice.
  I2  While MEMBER or REJOIN, a heartbeat is sent every `heartbeat_interval_ms`.

Source: KIP-62, KIP-345 (static members), KIP-394 (a member id before the join).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from kavka.client.answers import raise_for
from kavka.client.assignor import (
    PROTOCOL_TYPE,
    RANGE,
    assign_range,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kavka.client.cluster import Cluster
from kavka.client.connection import Answer
from kavka.client.settings import ConsumerSettings
from kavka.errors import ConnectionFailed, ErrorCode, RequestError
from kavka.model import NO_EPOCH, TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.heartbeat_request import HeartbeatRequest
from kavka.protocol.messages.heartbeat_response import HeartbeatResponse
from kavka.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kavka.protocol.messages.join_group_response import JoinGroupResponse
from kavka.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kavka.protocol.messages.leave_group_response import LeaveGroupResponse
from kavka.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kavka.protocol.messages.offset_commit_response import OffsetCommitResponse
from kavka.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from kavka.protocol.messages.offset_fetch_response import OffsetFetchResponse
from kavka.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kavka.protocol.messages.sync_group_response import SyncGroupResponse
from kavka.protocol.schema import Message

HIGHEST_OFFSET_COMMIT = 9
"""From version 10 on OffsetCommit names topics by id."""
HIGHEST_OFFSET_FETCH = 7
"""From version 8 on OffsetFetch asks for several groups at once."""
FIRST_BATCHED_LEAVE_GROUP = 3
JOIN_GRACE_MS = 5_000
"""How much longer than the rebalance time-out an answer to JoinGroup may take."""


_WAITING = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})


NOBODY = ("", -1)
"""Member id and generation of who commits for a group as a whole."""


class MemberState(Enum):
    """See the table at the top."""

    OUTSIDE = "outside"
    MEMBER = "member"
    REJOIN = "rejoin"
    FENCED = "fenced"


class CommittedOffset(NamedTuple):
    """A group's committed offset for a partition: the offset of the next record to read."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_EPOCH


class GroupMember:
    """Membership of one consumer in the group `settings.group_id`."""

    def __init__(self, cluster: Cluster, settings: ConsumerSettings, topics: Sequence[str] = ()) -> None:
        if settings.group_id is None:
            raise RequestError(ErrorCode.INVALID_GROUP_ID, "a group needs group_id in ConsumerSettings")
        self._cluster = cluster
        self._settings = settings
        self._group_id = settings.group_id
        self._topics = sorted(topics)
        self._coordinator: int | None = None
        self._purpose = cluster.new_purpose("group")
        self._heartbeat: asyncio.Task[None] | None = None
        self.state = MemberState.OUTSIDE
        self.member_id = ""
        self.generation = -1
        self.identity = NOBODY
        """(member id, generation) of the last assignment (I1); NOBODY before the first and after `leave`."""

    async def join(self) -> list[TopicPartition]:
        """Joins or rejoins, and returns the partitions that this member should read. May take as long as the rebalance
        timeout."""
        if self.state is MemberState.FENCED:
            raise RequestError(
                ErrorCode.FENCED_INSTANCE_ID, f"another member has the instance id {self._settings.group_instance_id!r}"
            )
        self._stop_heartbeat()
        for topic in self._topics:
            await self._cluster.topic(topic)
        limit_ms = self._settings.rebalance_timeout_ms + self._cluster.settings.api_timeout_ms
        assignment = await self._cluster.retry(
            self._join_once, what=f"join group {self._group_id!r}", timeout_ms=limit_ms
        )
        self.state = MemberState.MEMBER
        self.identity = (self.member_id, self.generation)
        self._heartbeat = asyncio.create_task(self._beat(), name=f"heartbeat of group {self._group_id}")
        return assignment

    async def leave(self) -> None:
        """Leaves the group, unless the member is static (its place is kept for its return) or the coordinator is
        unreachable."""
        self._stop_heartbeat()
        if self.member_id and self._settings.group_instance_id is None and self.state is not MemberState.FENCED:
            member_id = self.member_id

            def request(version: int) -> LeaveGroupRequest:
                if version < FIRST_BATCHED_LEAVE_GROUP:
                    return LeaveGroupRequest(group_id=self._group_id, member_id=member_id)
                identity = MemberIdentity(member_id=member_id, reason="the consumer is closed")
                return LeaveGroupRequest(group_id=self._group_id, members=[identity])

            try:
                await self._ask(ApiKey.LEAVE_GROUP, request, LeaveGroupResponse)
            except (ConnectionFailed, RequestError):
                pass  # The coordinator removes the member when its session ends.
        self._cluster.release(self._purpose)
        self.state = MemberState.OUTSIDE
        self.member_id = ""
        self.generation = -1
        self.identity = NOBODY

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commits offsets. Raises `RequestError`. Without a membership (no `join`) it commits for the group as a
        whole."""
        member_id, generation = self.identity
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (topic, partition), committed in offsets.items():
            entry = topics.setdefault(topic, OffsetCommitRequestTopic(name=topic, partitions=[]))
            entry.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    committed_metadata=committed.metadata,
                )
            )
        request = OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=self._settings.group_instance_id if member_id else None,
            topics=list(topics.values()),
        )

        async def commit_once() -> None:
            answer = await self._ask(ApiKey.OFFSET_COMMIT, request, OffsetCommitResponse, highest=HIGHEST_OFFSET_COMMIT)
            for topic in answer.topics:
                for partition in topic.partitions:
                    self._judge(partition.error_code, f"commit of {topic.name}-{partition.partition_index}")

        await self._cluster.retry(commit_once, what=f"commit offsets of group {self._group_id!r}")

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """The group's committed offsets, without the partitions that have none."""
        topics: dict[str, OffsetFetchRequestTopic] = {}
        for topic, partition in partitions:
            entry = topics.setdefault(topic, OffsetFetchRequestTopic(name=topic, partition_indexes=[]))
            entry.partition_indexes.append(partition)
        if not topics:
            return {}
        request = OffsetFetchRequest(
            group_id=self._group_id, topics=list(topics.values()), require_stable=self._settings.read_committed
        )

        async def fetch_once() -> dict[TopicPartition, CommittedOffset]:
            answer = await self._ask(ApiKey.OFFSET_FETCH, request, OffsetFetchResponse, highest=HIGHEST_OFFSET_FETCH)
            self._judge(answer.error_code, "offsets")
            found = {}
            for topic in answer.topics:
                for partition in topic.partitions:
                    raise_for(partition.error_code, f"offset of {topic.name}-{partition.partition_index}")
                    if partition.committed_offset >= 0:
                        found[TopicPartition(topic.name, partition.partition_index)] = CommittedOffset(
                            partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
                        )
            return found

        return await self._cluster.retry(fetch_once, what=f"fetch offsets of group {self._group_id!r}")

    async def _join_once(self) -> list[TopicPartition]:
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=self._settings.session_timeout_ms,
            rebalance_timeout_ms=self._settings.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=RANGE, metadata=encode_subscription(self._topics))],
        )
        joined = await self._ask(
            ApiKey.JOIN_GROUP,
            request,
            JoinGroupResponse,
            timeout_ms=self._settings.rebalance_timeout_ms + JOIN_GRACE_MS,
        )
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return await self._join_once()
        self._judge_join(joined.error_code)
        self.member_id = joined.member_id
        self.generation = joined.generation_id
        assignments: list[SyncGroupRequestAssignment] = []
        if joined.leader == joined.member_id and not joined.skip_assignment:
            assignments = await self._assign(joined)
        sync = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=RANGE,
            assignments=assignments,
        )
        synced = await self._ask(
            ApiKey.SYNC_GROUP, sync, SyncGroupResponse, timeout_ms=self._settings.rebalance_timeout_ms + JOIN_GRACE_MS
        )
        self._judge_join(synced.error_code)
        return decode_assignment(synced.assignment)

    async def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        members = {member.member_id: decode_subscription(member.metadata) for member in joined.members}
        counts = {}
        for topic in sorted({topic for topics in members.values() for topic in topics}):
            try:
                counts[topic] = len((await self._cluster.topic(topic)).partitions)
            except RequestError:
                counts[topic] = 0  # Another member subscribes to what is not there yet.
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(partitions))
            for member, partitions in assign_range(members, counts).items()
        ]

    async def _beat(self) -> None:
        """Heartbeats until the membership ends; a broken connection or a moved coordinator is tried again."""
        while self.state in (MemberState.MEMBER, MemberState.REJOIN):
            await asyncio.sleep(self._settings.heartbeat_interval_ms / 1000)
            request = HeartbeatRequest(
                group_id=self._group_id,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self._settings.group_instance_id,
            )
            try:
                answer = await self._ask(ApiKey.HEARTBEAT, request, HeartbeatResponse)
                self._judge(answer.error_code, "heartbeat")
            except (ConnectionFailed, RequestError):
                pass  # What it means for the membership is in `state` by now.

    def _judge_join(self, code: int) -> None:
        """Raises for the errors of JoinGroup and SyncGroup, after which `retry` joins again where that helps."""
        try:
            self._judge(code, f"group {self._group_id!r}")
        except RequestError as failure:
            if failure.code in (
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.ILLEGAL_GENERATION,
                ErrorCode.REBALANCE_IN_PROGRESS,
            ):
                raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, failure.message) from failure
            raise

    def _judge(self, code: int, what: str) -> None:
        """Moves the state as the table says and raises for every error."""
        match code:
            case ErrorCode.NONE:
                return
            case ErrorCode.REBALANCE_IN_PROGRESS:
                if self.state is MemberState.MEMBER:
                    self.state = MemberState.REJOIN
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
                self.generation = -1
                self.state = MemberState.OUTSIDE
            case ErrorCode.ILLEGAL_GENERATION:
                self.generation = -1
                self.state = MemberState.OUTSIDE
            case ErrorCode.FENCED_INSTANCE_ID:
                self.state = MemberState.FENCED
            case ErrorCode.NOT_COORDINATOR | ErrorCode.COORDINATOR_NOT_AVAILABLE:
                self._coordinator = None
        raise_for(code, what)

    async def _ask(
        self,
        key: ApiKey,
        request: Message | Callable[[int], Message],
        answer_type: type[Answer],
        *,
        highest: int | None = None,
        timeout_ms: int | None = None,
    ) -> Answer:
        """One request to the coordinator; those that wait for other members go over a connection of their own."""
        if self._coordinator is None:
            self._coordinator = await self._cluster.find_coordinator(self._group_id)
        try:
            connection = await self._cluster.connection(self._coordinator, self._purpose if key in _WAITING else "")
            return await connection.request(key, request, answer_type, highest=highest, timeout_ms=timeout_ms)
        except ConnectionFailed:
            self._coordinator = None
            raise

    def _stop_heartbeat(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.cancel()
            self._heartbeat = None
