"""One member of a share group: its heartbeats, and the partitions that the group's coordinator gives it.

Decides when a heartbeat is sent, what it says, and what each error means for the membership. Must not know records: the
share consumer asks it which partitions to fetch.

    state      event                                                  next
    outside    join: the first heartbeat (epoch 0) is answered        member
    member     UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH                 outside; the next heartbeat joins again
    member     an error that no retry solves                          failed: `failure` says why, no more heartbeats
    any        leave                                                  outside

Invariants
  I1  While it is a member, a heartbeat goes out at the interval that the coordinator asks for; sooner while it has no
      partition yet, because the coordinator gives them with a later heartbeat.
  I2  The topics are named in the first heartbeat of a membership and after one that failed, and else left out: null
      means "as before". The answer that was lost may have had the assignment, which is told again to who names them.

Source: KIP-932; Kafka's ShareMembershipManager and ShareHeartbeatRequestManager.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from uuid import UUID

from kavka.client.answers import raise_for
from kavka.client.backoff import backoff_ms
from kavka.client.cluster import Cluster
from kavka.errors import ConnectionFailed, ErrorCode, RequestError
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kavka.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
FIRST_LOOK_S = 0.1
"""Pause before the second heartbeat of a member without partitions. It doubles up to the coordinator's interval."""
_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_REMOVED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class ShareGroupMember:
    """Membership of one consumer in a share group. `assignment` has partition numbers by topic id. `on_change` is
    called when that is another one, or the membership has failed."""

    def __init__(
        self, cluster: Cluster, group_id: str, on_change: Callable[[], None], *, rack: str | None = None
    ) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._rack = rack
        self._topics: list[str] = []
        self._coordinator: int | None = None
        self._purpose = cluster.new_purpose("share group")
        self._beats: asyncio.Task[None] | None = None
        self._on_change = on_change
        self._interval_s = FIRST_LOOK_S
        self._is_unsure = False  # whether the last heartbeat failed
        self.member_id = _new_member_id(cluster)
        self.epoch = JOINING_EPOCH
        self.assignment: dict[UUID, tuple[int, ...]] = {}
        self.failure: RequestError | None = None

    async def join(self, topics: Sequence[str]) -> None:
        """Becomes a member that reads these topics; a second call changes them. Raises `RequestError`,
        `ConnectionFailed`."""
        self._topics = sorted(set(topics))
        await self._stop_beats()
        self.failure = None
        # A member that joins again under its id, with epoch 0, is taken for one that has lost its assignment.
        self.epoch = JOINING_EPOCH
        await self._cluster.retry(self._beat, what=f"join share group {self._group_id!r}")
        self._beats = asyncio.create_task(self._keep(), name=f"heartbeat of share group {self._group_id}")

    async def leave(self) -> None:
        """Leaves the group; where its coordinator cannot be reached, the session ends by itself."""
        await self._stop_beats()
        if self.epoch != JOINING_EPOCH:
            self.epoch = LEAVING_EPOCH
            try:
                await self._beat()
            except (ConnectionFailed, RequestError):
                pass
        self.epoch = JOINING_EPOCH
        self.assignment = {}
        self._cluster.release(self._purpose)

    async def _stop_beats(self) -> None:
        if self._beats is not None:
            self._beats.cancel()
            await asyncio.gather(self._beats, return_exceptions=True)
            self._beats = None

    async def _keep(self) -> None:
        failures = 0
        look_s = FIRST_LOOK_S
        while True:
            if failures:
                pause_s = backoff_ms(self._cluster.settings, failures, self._cluster.random) / 1000
            elif self.assignment:
                pause_s = self._interval_s
            else:
                pause_s, look_s = min(look_s, self._interval_s), look_s * 2
            await asyncio.sleep(pause_s)
            try:
                await self._beat()
                failures = 0
            except ConnectionFailed:
                failures += 1
            except RequestError as refused:
                if not refused.code.retriable and refused.code not in _REMOVED:
                    self.failure = refused
                    self._on_change()
                    return
                failures += 1

    async def _beat(self) -> None:
        """One heartbeat. Raises for its error, after what it means for the membership was noted."""
        is_whole = self.epoch == JOINING_EPOCH or (self._is_unsure and self.epoch != LEAVING_EPOCH)
        self._is_unsure = True
        request = ShareGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rack_id=self._rack if is_whole else None,
            subscribed_topic_names=self._topics if is_whole else None,
        )
        try:
            if self._coordinator is None:
                self._coordinator = await self._cluster.find_coordinator(self._group_id)
            connection = await self._cluster.connection(self._coordinator, self._purpose)
            answer = await connection.request(ApiKey.SHARE_GROUP_HEARTBEAT, request, ShareGroupHeartbeatResponse)
        except ConnectionFailed:
            self._coordinator = None
            raise
        try:
            raise_for(answer.error_code, f"share group {self._group_id!r}", answer.error_message)
        except RequestError as refused:
            if refused.code in _MOVED:
                self._coordinator = None
            elif refused.code in _REMOVED:
                self.epoch = JOINING_EPOCH
                self._take({})
            raise
        self._is_unsure = False
        self._interval_s = max(answer.heartbeat_interval_ms / 1000, FIRST_LOOK_S)
        if self.epoch != LEAVING_EPOCH:
            self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self._take({each.topic_id: tuple(each.partitions) for each in answer.assignment.topic_partitions})

    def _take(self, assignment: dict[UUID, tuple[int, ...]]) -> None:
        if assignment != self.assignment:
            self.assignment = assignment
            self._on_change()


def _new_member_id(cluster: Cluster) -> str:
    """A random id in the form of Kafka's own: 16 bytes, base64 with - and _, which does not begin with a dash."""
    while True:
        text = base64.urlsafe_b64encode(cluster.random.randbytes(16)).decode().rstrip("=")
        if not text.startswith("-"):
            return text
