"""GroupCoordinator: the flow around the shards: futures, timers, and their log.

A shard or a group decides. The coordinator writes their records, waits until they are committed, replays them, and
answers. Must not know sockets, the wire format of requests, or which broker leads what (`load` and `unload` report
that).

    I1  an answer that depends on records goes out after they are committed
    I2  a partition is served when everything that was read from it is committed (ActiveShards). Otherwise, with fewer
        replicas in sync than min.insync.replicas: 1. this broker reads a generation that no other broker has, and
        members learn what they own in it; 2. this broker dies, and a replica without that record leads; 3. there the
        same generation begins again, with other owners (G1). Apache Kafka reads to the end and does not wait
    I3  a join enters a classic group in the step in which it is known that no other kind of group has its place, or is
        about to take it. The interleaving: 1. an empty group of the newer protocol gives its place up to a classic
        member; 2. a member of the newer protocol, which waited for its turn, makes the group anew; 3. the classic
        member joins; 4. the records of 2 are committed and end the classic group, and nobody answers the join
    I4  a session that ended while this process stood still (stopped, or without a processor) is over only when what its
        member had sent by then has been read. Else: 1. a member's heartbeat comes in time; 2. the broker gets no
        processor until the session has ended; 3. timers come before connections, and all members are put out

Source: Kafka's CoordinatorRuntime.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from kavka.coordinator.groups.active_group_shard import ActiveGroupShard
from kavka.coordinator.groups.classic.decide.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kavka.coordinator.groups.classic.decide.group import ClassicGroup
from kavka.coordinator.groups.classic.decide.membership import (
    Effects,
    GroupLimits,
    GroupState,
    JoinAnswer,
    JoinRequest,
    Leaver,
    SyncAnswer,
    SyncRequest,
)
from kavka.coordinator.groups.consumer.decide.classic_members import answer_sync, classic_heartbeat
from kavka.coordinator.groups.consumer.decide.group import ConsumerGroup
from kavka.coordinator.groups.consumer.decide.heartbeat import ConsumerHeartbeat, HeartbeatAnswer
from kavka.coordinator.groups.consumer.flow import Change, ConsumerGroupFlow, Surroundings
from kavka.coordinator.groups.decide.rebalance import Rebalance
from kavka.coordinator.groups.decide.records import (
    OffsetRecord,
)
from kavka.coordinator.groups.decide.shard import GroupShard
from kavka.coordinator.groups.offsets.flow import OffsetsFlow
from kavka.coordinator.groups.shard_writer import OffsetsLog, ShardWriter
from kavka.coordinator.groups.share.decide.group import ShareGroup
from kavka.coordinator.groups.share.decide.heartbeat import ShareAnswer, ShareHeartbeat
from kavka.coordinator.groups.share.flow import ShareGroupFlow, ShareSurroundings
from kavka.coordinator.groups.streams.decide.group import StreamsGroup
from kavka.coordinator.groups.streams.decide.heartbeat import StreamsAnswer, StreamsHeartbeat
from kavka.coordinator.groups.streams.flow import StreamsGroupFlow, StreamsSurroundings
from kavka.coordinator.shared.active_shards import ActiveShards
from kavka.coordinator.shared.decide.log_errors import answer_for
from kavka.coordinator.shared.decide.records import CoordinatorRecord, OpenTransaction
from kavka.coordinator.shared.standstill import after_reading, stood_still
from kavka.errors import ErrorCode, RequestError
from kavka.logger import Logger
from kavka.model import LeaderEpoch
from kavka.protocol.primitives import STRING_MAX_BYTES

logger = Logger(__name__)

_T = TypeVar("_T")
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
STREAMS: Final = "streams"
"""Kinds of groups, under the names that ListGroups gives."""


class GroupListing(NamedTuple):
    """A group in ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    kind: str


class _GroupWrite(NamedTuple):
    """A group's record on its way into the log, and what is answered once it is written."""

    generation: int
    record: CoordinatorRecord
    effects: Effects


class GroupCoordinator(ActiveShards[ActiveGroupShard]):
    """All groups that this broker coordinates.

    Time-outs run on the loop's own clock, so that a jump of the wall clock throws nobody out; `wall_ms` gives the
    milliseconds since 1970 that commits are stamped with. `random` gives member ids.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        log: OffsetsLog,
        around: Surroundings,
        *,
        offset_metadata_max_bytes: int,
        share: ShareSurroundings | None = None,
        streams: StreamsSurroundings | None = None,
    ) -> None:
        """`share` and `streams` are what groups of these kinds need; without it there are none."""
        super().__init__(log, missing_topic=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._log = log
        self.rebalances: Counter[str] = Counter()
        """By kind of group: how often groups have rebalanced here."""
        around = around._replace(on_rebalance=_counting(self.rebalances, around.on_rebalance))
        self._loop = loop
        self._around = around
        self._limits = around.classic_limits
        self._wall_ms = around.wall_ms
        self._random = around.random
        self._offset_metadata_max_bytes = offset_metadata_max_bytes
        self._joins: dict[int, asyncio.Future[JoinAnswer]] = {}
        self._syncs: dict[int, asyncio.Future[SyncAnswer]] = {}
        self._next_token = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._writer = ShardWriter(log, self.now_ms)
        self.write_change = self._writer.write_change
        self._consumers = ConsumerGroupFlow(self, around)
        self._shares: ShareGroupFlow | None = None
        self._streams: StreamsGroupFlow | None = None
        if share is not None:
            share = share._replace(on_rebalance=lambda: self.rebalances.update((SHARE,)))
            self._shares = ShareGroupFlow(self, share)
        if streams is not None:
            streams = streams._replace(on_rebalance=_counting(self.rebalances, streams.on_rebalance))
            self._streams = StreamsGroupFlow(self, streams)
        self.offsets = OffsetsFlow(self, log, self._writer, self._consumers, around)

    def now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    # -- which partitions are here

    def _new_shard(self, partition: int, leader_epoch: LeaderEpoch) -> ActiveGroupShard:
        shard = GroupShard(self._limits, offset_metadata_max_bytes=self._offset_metadata_max_bytes)
        return ActiveGroupShard(partition, shard, leader_epoch, partial(self._log.ends, partition))

    def _on_read(self, active: ActiveGroupShard, found: Sequence[CoordinatorRecord] | OpenTransaction) -> None:
        if isinstance(found, OpenTransaction):
            self._hold_open(active, found)
            return
        for record in found:
            self._writer.replay(active, record, active.next_position(), loading=True)

    def _on_loaded(self, active: ActiveGroupShard) -> None:
        shard = active.shard
        active.on_uncommitted()
        effects = Effects()
        shard.on_loaded(self.now_ms(), effects)
        active.loading = False
        for ending in active.endings:
            shard.end_transaction(ending.producer_id, self.now_ms(), committed=ending.committed)
        active.endings.clear()
        forgetting = self.offsets.on_loaded(active)
        if forgetting is not None:
            self.spawn(forgetting)
        self._report_strays(active)
        for consumers in shard.consumer_groups.values():
            consumers.watch_all(self._around.limits(consumers.group_id).session_timeout_ms, self.now_ms())
        for group_id in (*shard.groups, *shard.consumer_groups):
            self.arm(active, group_id)
        if self._shares is not None:
            self._shares.on_loaded(active)
        if self._streams is not None:
            self._streams.on_loaded(active)
        self.deliver(effects)

    def _on_other_count(self, count: int) -> None:
        logger.error(
            "the number of partitions of the offsets topic has changed",
            partitions=count,
            groups_placed_by=self._placement.count,
            next_step="save the committed offsets of all groups before you restart a broker: it will look for each "
            "group by the new number, and not find its offsets",
        )

    def _report_strays(self, active: ActiveGroupShard) -> None:
        """Groups of a former number of partitions are in partitions where they are no longer looked up (Placement)."""
        shard = active.shard
        newer = (*shard.consumer_groups, *shard.share_groups, *shard.streams_groups)
        known = dict.fromkeys((*shard.groups, *newer, *shard.offsets.group_ids()))
        if self._placement.count:
            strays = [group_id for group_id in known if self._placement.of(group_id) != active.partition]
            if strays:
                logger.warning(
                    "groups in a wrong partition",
                    partition=active.partition,
                    groups=len(strays),
                    one_of_them=strays[0],
                    why="the number of partitions of the offsets topic has changed; their offsets are not found",
                )

    def _hold_open(self, active: ActiveGroupShard, transaction: OpenTransaction) -> None:
        records = [self._writer.decoded(active.partition, record) for record in transaction.records]
        offsets = [record for record in records if isinstance(record, OffsetRecord)]
        active.shard.offsets.hold(transaction.producer_id, offsets, active.next_position())
        for group_id in dict.fromkeys(offset.group_id for offset in offsets):
            active.shard.ensure_group(group_id, self.now_ms())

    def _on_unloaded(self, active: ActiveGroupShard) -> None:
        for _deadline, timer in active.timers.values():
            timer.cancel()
        effects = Effects()
        for group in active.shard.groups.values():
            if group.state is not GroupState.DEAD:
                group.die(self.now_ms(), ErrorCode.NOT_COORDINATOR, effects)
        self.deliver(effects)

    def shut_down(self) -> None:
        super().shut_down()
        for task in self._tasks:
            task.cancel()

    def shard_at(self, partition: int) -> ActiveGroupShard | None:
        """The shard of a partition, loading or loaded; None if it is not on this broker."""
        return self._active.get(partition)

    def shards(self) -> Sequence[ActiveGroupShard]:
        """The shards of all partitions on this broker."""
        return list(self._active.values())

    def shard_of(self, group_id: str, *, empty_allowed: bool = False) -> ActiveGroupShard:
        """The shard of a group. Raises `RequestError` if this broker does not serve it."""
        if not group_id and not empty_allowed:
            raise RequestError(ErrorCode.INVALID_GROUP_ID)
        return self._find(group_id)

    # -- membership

    async def join(self, group_id: str, request: JoinRequest) -> JoinAnswer:
        """Answers when the member's generation begins. Raises `RequestError`."""
        active = self.shard_of(group_id)
        _check_session(request, self._limits)
        new_member_id = self._new_member_id(request)
        answer = await self._join_another_kind(active, group_id, request, new_member_id)
        if answer is not None:
            return answer
        # From here on without a wait (I3).
        now_ms = self.now_ms()
        shard = active.shard
        if group_id in shard.share_groups or group_id in shard.streams_groups:
            return JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
        if request.member_id and group_id not in shard.groups:
            return JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
        group = shard.group_or_new(group_id, now_ms)
        token = self._token()
        future: asyncio.Future[JoinAnswer] = self._loop.create_future()
        self._joins[token] = future
        effects = Effects()
        group.join(request, token, new_member_id, now_ms, effects)
        logger.debug("group member joins", group=group_id, member=request.member_id, why=request.reason)
        self._settle(active, group, effects)
        return await future

    async def _join_another_kind(
        self, active: ActiveGroupShard, group_id: str, request: JoinRequest, new_member_id: str
    ) -> JoinAnswer | None:
        """The answer of a consumer group; None if there is none, and no empty group of another kind is in the way.

        None is true in the step in which it is returned. Raises `RequestError`.
        """
        while True:
            if self._consumers.concerns(active, group_id):
                answer = await self._consumers.classic_join(active, group_id, request, new_member_id)
                if answer is not None:
                    return answer
            if self._streams is None or group_id not in active.shard.streams_groups:
                return None
            if not await self._streams.give_way(active, group_id):
                return None
            if active.is_gone:
                raise RequestError(ErrorCode.NOT_COORDINATOR)

    async def sync(self, group_id: str, request: SyncRequest) -> SyncAnswer:
        """Answers when the leader's assignment is committed in the log.

        While the group is being loaded, REBALANCE_IN_PROGRESS, as Apache Kafka 3.9: no client expects of a SyncGroup to
        be told of loading. 4.3 says so, and Java's consumer throws it at its application.
        """
        try:
            active = self.shard_of(group_id)
        except RequestError as refused:
            if refused.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                raise RequestError(ErrorCode.REBALANCE_IN_PROGRESS) from refused
            raise
        consumers = active.shard.consumer_groups.get(group_id)
        if consumers is not None:
            active.require_committed()
            try:
                return answer_sync(consumers, request, self._around.topics, self.now_ms())
            finally:
                self.arm(active, group_id)
        group = active.shard.group(group_id)
        token = self._token()
        future: asyncio.Future[SyncAnswer] = self._loop.create_future()
        self._syncs[token] = future
        effects = Effects()
        group.sync(request, token, self.now_ms(), effects)
        self._settle(active, group, effects)
        return await future

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation: int) -> None:
        """Raises `RequestError` with the error for the member. All is well while the group is being loaded: each member
        has a whole session from then on, and clients do not expect to be told of loading here either."""
        try:
            active = self.shard_of(group_id)
        except RequestError as refused:
            if refused.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return
            raise
        consumers = active.shard.consumer_groups.get(group_id)
        if consumers is not None:
            try:
                is_due = self._consumers.is_time_to_assign(consumers)
                classic_heartbeat(consumers, member_id, group_instance_id, generation, self.now_ms(), is_due=is_due)
            finally:
                self.arm(active, group_id)
            return
        group = active.shard.group(group_id)
        group.heartbeat(member_id, group_instance_id, generation, self.now_ms())

    async def leave(self, group_id: str, leavers: Sequence[Leaver]) -> list[ErrorCode]:
        """Takes members out; an error for each, in order. Raises `RequestError` for all."""
        active = self.shard_of(group_id)
        if self._consumers.concerns(active, group_id):
            errors = await self._consumers.classic_leave(active, group_id, leavers)
            if errors is not None:
                return errors
        group = active.shard.groups.get(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leavers)
        effects = Effects()
        errors = group.leave(leavers, self.now_ms(), effects)
        for leaver, error in zip(leavers, errors, strict=True):
            if error is ErrorCode.NONE:
                who = leaver.member_id or leaver.group_instance_id
                logger.info("group member left", group=group_id, member=who, why=leaver.reason or "it did not say")
        self._settle(active, group, effects)
        return errors

    async def consumer_heartbeat(
        self, request: ConsumerHeartbeat, sees: Callable[[str], bool] | None = None
    ) -> HeartbeatAnswer:
        """Answers when the records that the heartbeat led to are committed (KIP-848). Raises `RequestError`.

        `sees` says of a topic whether the member may know of it: its regular expressions match no others.
        """
        self._consumers.check(request)
        return await self._consumers.heartbeat(self.shard_of(request.group_id), request, sees)

    async def share_heartbeat(self, request: ShareHeartbeat) -> ShareAnswer:
        """Answers when the records that the heartbeat led to are committed (KIP-932). Raises `RequestError`."""
        self.shares.check(request)
        return await self.shares.heartbeat(self.shard_of(request.group_id), request)

    @property
    def shares(self) -> ShareGroupFlow:
        """Share groups. Raises `RequestError` (UNSUPPORTED_VERSION) if there are none."""
        if self._shares is None:
            raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
        return self._shares

    async def streams_heartbeat(self, request: StreamsHeartbeat) -> StreamsAnswer:
        """Answers when the records that the heartbeat led to are committed (KIP-1071). Raises `RequestError`."""
        if self._streams is None:
            raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
        self._streams.check(request)
        return await self._streams.heartbeat(self.shard_of(request.group_id), request)

    # -- administration

    def list_groups(self) -> list[GroupListing]:
        """All groups on this broker. Raises `RequestError` COORDINATOR_LOAD_IN_PROGRESS while some are still being
        loaded."""
        listing: list[GroupListing] = []
        for active in self._active.values():
            if active.loading:
                raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            listing.extend(
                GroupListing(group.group_id, group.protocol_type or "", group.state.value, CLASSIC)
                for group in active.shard.groups.values()
            )
            listing.extend(
                GroupListing(consumers.group_id, CONSUMER_PROTOCOL_TYPE, consumers.state, CONSUMER)
                for consumers in active.shard.consumer_groups.values()
            )
            listing.extend(
                GroupListing(shares.group_id, SHARE, shares.state, SHARE)
                for shares in active.shard.share_groups.values()
            )
            listing.extend(
                GroupListing(streams.group_id, STREAMS, streams.state, STREAMS)
                for streams in active.shard.streams_groups.values()
            )
        return sorted(listing, key=lambda group: group.group_id)

    def census(self) -> Counter[tuple[str, str]]:
        """How many groups of each kind are in each state; those that are still being loaded do not count."""
        counts: Counter[tuple[str, str]] = Counter()
        for active in self._active.values():
            if not active.loading:
                shard = active.shard
                counts.update((CLASSIC, group.state.value) for group in shard.groups.values())
                counts.update((CONSUMER, group.state) for group in shard.consumer_groups.values())
                counts.update((SHARE, group.state) for group in shard.share_groups.values())
                counts.update((STREAMS, group.state) for group in shard.streams_groups.values())
        return counts

    def describe_group(self, group_id: str) -> ClassicGroup | None:
        """The classic group; None if there is none. Raises `RequestError`."""
        return self.shard_of(group_id, empty_allowed=True).shard.groups.get(group_id)

    def describe_consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """The group of the newer protocol; None if there is none. Raises `RequestError`."""
        return self.shard_of(group_id).shard.consumer_groups.get(group_id)

    def describe_share_group(self, group_id: str) -> ShareGroup | None:
        """The share group; None if there is none. Raises `RequestError`."""
        return self.shard_of(group_id).shard.share_groups.get(group_id)

    def describe_streams_group(self, group_id: str) -> StreamsGroup | None:
        """The streams group; None if there is none. Raises `RequestError`."""
        return self.shard_of(group_id).shard.streams_groups.get(group_id)

    def assignors(self, group_id: str) -> Sequence[str]:
        """The assignors that the members of a consumer group may ask for, the default first."""
        return self._around.limits(group_id).assignors

    def is_there(self, group_id: str) -> bool:
        """Whether there is a group of any kind. Raises `RequestError`."""
        shard = self.shard_of(group_id, empty_allowed=True).shard
        kinds = (shard.groups, shard.consumer_groups, shard.share_groups, shard.streams_groups)
        return any(group_id in groups for groups in kinds)

    async def delete_group(self, group_id: str) -> None:
        """Deletes an empty group with its offsets. The group without a name, to which any client may commit, can be
        deleted too. Raises `RequestError`."""
        active = self.shard_of(group_id, empty_allowed=True)
        if self._shares is not None and group_id in active.shard.share_groups:
            await self._shares.delete(active, group_id)
            return
        await self._consumers.in_turn(active, group_id, partial(self._decide_deletion, active, group_id))

    async def _decide_deletion(self, active: ActiveGroupShard, group_id: str) -> tuple[Change, None]:
        try:
            records = active.shard.delete_group(group_id)
        except RequestError as refused:
            if refused.code is ErrorCode.GROUP_ID_NOT_FOUND:
                active.require_committed()  # It may come back.
            raise
        return Change(records, active.shard.groups.get(group_id)), None

    # -- carrying out

    def _token(self) -> int:
        self._next_token += 1
        return self._next_token

    def _new_member_id(self, request: JoinRequest) -> str:
        """An id for a member that has none. Raises `RequestError` for one that no answer could carry."""
        prefix = request.client_id if request.group_instance_id is None else request.group_instance_id
        made = f"{prefix}-{uuid.UUID(int=self._random.getrandbits(128), version=4)}"
        if not request.member_id and len(made.encode()) > STRING_MAX_BYTES:
            raise RequestError(
                ErrorCode.INVALID_REQUEST, f"the instance id or client id is too long: {len(prefix.encode())} bytes"
            )
        return made

    def _settle(self, active: ActiveGroupShard, group: ClassicGroup, effects: Effects) -> None:
        """Carries out what a group decided."""
        self.arm(active, group.group_id)
        if not effects.write_group:
            self.deliver(effects)
            active.shard.forget_if_nothing(group.group_id)
            return
        # The record is made now: before the task runs, somebody may have joined who is not of this generation.
        group.written_at_wall_ms = self._wall_ms()
        write = _GroupWrite(
            group.generation,
            active.shard.record_of(group, wall_ms=self._wall_ms()),
            effects,
        )
        self.spawn(self._write_group(active, group, write))

    async def _write_group(self, active: ActiveGroupShard, group: ClassicGroup, write: _GroupWrite) -> None:
        if active.shard.groups.get(group.group_id) is not group or group.state is GroupState.DEAD:
            # It has become another group since the record was made: behind that one's records it would bring it back.
            self.deliver(write.effects)
            return
        error = answer_for(await self._writer.write(active, [write.record]))
        self.deliver(write.effects)
        after = Effects()
        group.on_written(write.generation, error, self.now_ms(), after)
        if write.effects.replaced:
            group.on_replacement_written(write.effects.replaced, error, self.now_ms(), after)
        self._settle(active, group, after)

    def deliver(self, effects: Effects) -> None:
        for token, join in effects.joins:
            waiting_join = self._joins.pop(token, None)
            if waiting_join is not None and not waiting_join.done():
                waiting_join.set_result(join)
        for token, sync in effects.syncs:
            waiting_sync = self._syncs.pop(token, None)
            if waiting_sync is not None and not waiting_sync.done():
                waiting_sync.set_result(sync)
        for rebalance in effects.rebalances:
            self._around.on_rebalance(rebalance)

    def arm(self, active: ActiveGroupShard, group_id: str, changed_ms: int | None = None) -> None:
        """Sees to it that `_on_time` comes no later than the group's next deadline. `changed_ms` is the one that has
        changed, where all others are as they were.

        A deadline that moves further away leaves the timer as it is: it then finds nothing due and is set anew. So a
        heartbeat costs no timer, and no look at the other members.
        """
        armed = active.timers.get(group_id)
        if active.is_gone or (changed_ms is not None and armed is not None and armed[0] <= changed_ms):
            return
        shard = active.shard
        newer = shard.consumer_groups.get(group_id) or shard.share_groups.get(group_id)
        group = newer or shard.streams_groups.get(group_id) or shard.groups.get(group_id)
        deadline_ms = None if group is None else group.next_deadline_ms()
        if deadline_ms is None:
            if armed is not None:
                armed[1].cancel()
                del active.timers[group_id]
            return
        if armed is not None:
            if armed[0] <= deadline_ms:
                return
            armed[1].cancel()
        delay_s = max(deadline_ms - self.now_ms(), 0) / 1000
        active.timers[group_id] = (deadline_ms, self._loop.call_later(delay_s, self._on_time, active, group_id))

    def _on_time(self, active: ActiveGroupShard, group_id: str, *, has_read: bool = False) -> None:
        armed = active.timers.pop(group_id, None)
        if armed is not None and not has_read and stood_still(self._loop, armed[1]):  # I4
            again = after_reading(self._loop, partial(self._on_time, active, group_id, has_read=True))
            active.timers[group_id] = (armed[0], again)
            return
        consumers = active.shard.consumer_groups.get(group_id)
        if consumers is not None:
            if consumers.overdue(self.now_ms()):
                self._consumers.on_time(active, consumers)
            else:
                self.arm(active, group_id)
            return
        shares = active.shard.share_groups.get(group_id)
        if shares is not None and self._shares is not None:
            self._shares.on_time(active, shares)
            return
        streams = active.shard.streams_groups.get(group_id)
        if streams is not None and self._streams is not None:
            self._streams.on_time(active, streams)
            return
        group = active.shard.groups.get(group_id)
        if group is None or group.state is GroupState.DEAD:
            return
        effects = Effects()
        now_ms = self.now_ms()
        for member_id in group.on_time(now_ms, effects):
            logger.info(
                "group member removed", group=group.group_id, member=member_id, why="no heartbeat, join or sync in time"
            )
        self._settle(active, group, effects)

    def spawn(self, work: Coroutine[None, None, _T]) -> asyncio.Task[_T]:
        """Runs it beside, until this shuts down."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _check_session(request: JoinRequest, limits: GroupLimits) -> None:
    if not limits.min_session_timeout_ms <= request.session_timeout_ms <= limits.max_session_timeout_ms:
        raise RequestError(ErrorCode.INVALID_SESSION_TIMEOUT)


def _counting(counts: Counter[str], tell: Callable[[Rebalance], None]) -> Callable[[Rebalance], None]:
    """Counts a rebalance before it tells of it."""

    def count(rebalance: Rebalance) -> None:
        counts[rebalance.kind] += 1
        tell(rebalance)

    return count
