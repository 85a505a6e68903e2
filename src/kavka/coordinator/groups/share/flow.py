"""ShareGroupFlow: the flow around share groups: turns, records, answers, deadlines, and the making of states.

Decides nothing: `decide.heartbeat` does, from the committed state. Must not know sockets or the wire format.

    I1  a decision is carried out before the next one of its group is made (Turns)
    I2  records whose outcome is unknown are replayed, and the request is answered with the error: as consumer groups do
    I3  who joins is answered when the states of its partitions are there, if they come within STATES_S. Kafka answers
        at once, without a partition, and the member gets one with its next heartbeat, 5 s later
    I4  states are set and deleted in one turn of the group, and not while others are being made: 1. a group is deleted,
        and its states with it; 2. meanwhile a member joins and has one made; 3. that one is deleted too, and the
        member is assigned a partition that nobody can load
    I5  states that could not be made, or whose making could not be noted, are asked for again with the next heartbeat,
        and not before RETRY_MS. group.share.initialize.retry.interval.ms is for those of which nothing is heard
    I6  a state is not asked for while it is being made, which the group notes before its next turn: 1. a member joins,
        and has states made; 2. another one joins right after it, and has them made, too; 3. the first one is assigned
        a partition, whose leader stores where the group begins; 4. the second making takes that back

Source: Kafka's GroupMetadataManager and GroupCoordinatorService.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from kavka.coordinator.groups.active_group_shard import ActiveGroupShard, Work
from kavka.coordinator.groups.consumer.decide.target_assignment import Topics
from kavka.coordinator.groups.share.decide.group import NamedPartitions, ShareGroup, ShareGroupLimits, together
from kavka.coordinator.groups.share.decide.heartbeat import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    ShareAnswer,
    ShareDecision,
    ShareHeartbeat,
    ShareNow,
    check_request,
    decide_heartbeat,
    decide_leave,
    initialized,
)
from kavka.coordinator.groups.share.decide.offsets import (
    AlteredPartition,
    DeletedTopic,
    OffsetDeletion,
    decide_alteration,
    decide_offset_deletion,
    decide_state_deletion,
    deleted,
    forgotten,
    topics_with_states,
)
from kavka.coordinator.groups.share.decide.records import group_tombstones, states_record
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode, RequestError
from kavka.logger import Logger
from kavka.model import LeaderEpoch, Offset

if TYPE_CHECKING:
    from kavka.coordinator.groups.carrier import Carrier

logger = Logger(__name__)

STATES_S: Final = 3.0
"""How long a heartbeat waits for the states of new partitions."""
RETRY_MS: Final = 1_000
"""How long after a removal could not be written, or states could not be made, that is tried again."""

_T = TypeVar("_T")


class ShareStates(Protocol):
    """The port to the states of share-partitions. `coordinator_epoch` is that in which the group's partition is led:
    what a coordinator asked for comes before what the next one does."""

    def initialize(
        self,
        group_id: str,
        state_epoch: int,
        topics: Mapping[uuid.UUID, Sequence[int]],
        coordinator_epoch: LeaderEpoch,
    ) -> Awaitable[Mapping[uuid.UUID, frozenset[int]]]:
        """Creates states. Returns those that exist then."""
        ...

    def set(
        self,
        group_id: str,
        state_epoch: int,
        offsets: Mapping[uuid.UUID, Mapping[int, Offset]],
        coordinator_epoch: LeaderEpoch,
    ) -> Awaitable[Mapping[tuple[uuid.UUID, int], ErrorCode]]:
        """Restarts states at these offsets. Returns an error code for each partition."""
        ...

    def delete(
        self, group_id: str, topics: Mapping[uuid.UUID, Sequence[int]], coordinator_epoch: LeaderEpoch
    ) -> Awaitable[Mapping[uuid.UUID, ErrorCode]]:
        """Deletes states. Returns an error code for each topic, NONE if all of its states are gone."""
        ...


class ShareSurroundings(NamedTuple):
    """What share groups need of the broker. `limits` are a group's, with its own settings; `on_rebalance` is called
    when a group's epoch has risen."""

    topics: Topics
    limits: Callable[[str], ShareGroupLimits]
    is_enabled: Callable[[], bool]
    wall_ms: Callable[[], int]
    states: ShareStates
    on_rebalance: Callable[[], None] = lambda: None


class ShareGroupFlow:
    """All share groups that this broker coordinates."""

    def __init__(self, carrier: Carrier, around: ShareSurroundings) -> None:
        self._carrier = carrier
        self._around = around
        self._making: dict[str, dict[asyncio.Task[bool], Mapping[uuid.UUID, NamedPartitions]]] = {}

    # -- requests

    def check(self, request: ShareHeartbeat) -> None:
        """Raises `RequestError` for what is refused whoever coordinates the group."""
        if not self._around.is_enabled():
            raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
        check_request(request)

    async def heartbeat(self, active: ActiveGroupShard, request: ShareHeartbeat) -> ShareAnswer:
        """Answers when what the heartbeat led to is committed. Raises `RequestError`."""
        if request.member_epoch == LEAVING_EPOCH:
            return await self._leave(active, request)
        decision = await self._beat(active, request)
        group_id, wanted = request.group_id, decision.to_initialize
        awaited: list[asyncio.Task[bool]] = []
        if wanted:
            making = self._carrier.spawn(self._initialize(active, group_id, decision.epoch, wanted))
            self._making.setdefault(group_id, {})[making] = wanted
            making.add_done_callback(lambda done: self._on_made(group_id, done))
            awaited = [making]
        elif request.member_epoch == JOINING_EPOCH:
            awaited = list(self._making.get(group_id, ()))
        if not awaited:
            return self._told(active, group_id, decision.answer)
        done, _late = await asyncio.wait(awaited, timeout=STATES_S)
        if active.is_gone or not any(not each.cancelled() and each.result() for each in done):
            return self._told(active, group_id, decision.answer)
        # As if it had sent its next heartbeat now; what it would be told of before, it is told of too (I3).
        later = request._replace(member_epoch=decision.answer.member_epoch)
        try:
            answer = (await self._beat(active, later)).answer
        except RequestError:
            return decision.answer  # It is a member, whatever came between; and what did, it is told of next time.
        return self._told(active, group_id, answer)

    def _told(self, active: ActiveGroupShard, group_id: str, answer: ShareAnswer) -> ShareAnswer:
        """The answer, which goes out now."""
        group = active.shard.share_groups.get(group_id)
        if group is not None:
            group.untold.discard(answer.member_id)
        return answer

    async def _beat(self, active: ActiveGroupShard, request: ShareHeartbeat) -> ShareDecision:
        group_id = request.group_id
        is_asking = False

        def decide() -> tuple[Sequence[CoordinatorRecord], ShareDecision]:
            nonlocal is_asking
            group = self._group(active, group_id, may_be_new=request.member_epoch == 0)
            now = self._now(group_id)
            decision = decide_heartbeat(group, request, now)
            group.checked_version = -1 if decision.records else now.topics.version
            group.rest_version = now.topics.version if decision.is_at_rest else -1
            if request.member_id in group.members:
                group.untold.add(request.member_id)  # until the answer goes out
                self._on_heard(active, group_id, request.member_id)  # What it leads to may take long to be committed.
            is_asking = bool(decision.to_initialize)
            return decision.records, decision

        def settle(group: ShareGroup) -> None:
            # The group may have been made by these very records (I6).
            if is_asking:
                group.asks_again_ms = self._carrier.now_ms() + self._around.limits(group_id).initialize_retry_ms

        try:
            decision = await self._in_turn(active, group_id, decide, settle)
            active.require_committed()
        except BaseException:
            if is_asking:
                is_asking = False
                self._ask_again_in(active, group_id, 0)  # Nobody asks for it (I5).
            raise
        self._on_heard(active, group_id, request.member_id)
        return decision

    def _ask_again_in(self, active: ActiveGroupShard, group_id: str, pause_ms: int) -> None:
        group = active.shard.share_groups.get(group_id)
        if group is not None:
            group.asks_again_ms = self._carrier.now_ms() + pause_ms

    def _group(self, active: ActiveGroupShard, group_id: str, *, may_be_new: bool) -> ShareGroup:
        """The group. Raises `RequestError` (GROUP_ID_NOT_FOUND)."""
        shard = active.shard
        group = shard.share_groups.get(group_id)
        if group is not None:
            return group
        if group_id in shard.consumer_groups or group_id in shard.groups or group_id in shard.streams_groups:
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        if not may_be_new:
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return ShareGroup(group_id)

    def _on_heard(self, active: ActiveGroupShard, group_id: str, member_id: str) -> None:
        group = active.shard.share_groups.get(group_id)
        if group is not None:
            until_ms = self._carrier.now_ms() + self._around.limits(group_id).session_timeout_ms
            group.renew(member_id, until_ms)
            self._carrier.arm(active, group_id, until_ms)

    async def _leave(self, active: ActiveGroupShard, request: ShareHeartbeat) -> ShareAnswer:
        def decide() -> tuple[Sequence[CoordinatorRecord], None]:
            group = self._group(active, request.group_id, may_be_new=False)
            group.require_member(request.member_id)
            logger.info("share group member left", group=request.group_id, member=request.member_id)
            return decide_leave(group, [request.member_id], self._now(request.group_id)), None

        await self._in_turn(active, request.group_id, decide)
        return ShareAnswer(request.member_id, request.member_epoch, 0)

    # -- administration; each raises `RequestError`

    async def delete(self, active: ActiveGroupShard, group_id: str) -> None:
        """Deletes a group without members: first the states of its partitions, then the group."""

        async def work() -> None:
            group = self._group(active, group_id, may_be_new=False)
            decision = decide_state_deletion(group, self._around.topics)
            for error in (await self._delete_states(active, group_id, decision)).values():
                if error is not ErrorCode.NONE:
                    raise RequestError(error)
            await self._write(active, group_tombstones(self._group(active, group_id, may_be_new=False)))

        await self._alone(active, group_id, work)

    async def alter_offsets(
        self, active: ActiveGroupShard, group_id: str, wanted: Mapping[str, Mapping[int, Offset]]
    ) -> list[AlteredPartition]:
        """Makes a group without members, which may be new, begin at these offsets."""

        async def work() -> list[AlteredPartition]:
            group = self._group(active, group_id, may_be_new=True)
            decision = decide_alteration(group, wanted, self._around.topics)
            if not decision.offsets:
                return list(decision.refused)
            await self._write(active, decision.records)
            found = await self._around.states.set(group_id, decision.epoch, decision.offsets, active.leader_epoch)
            done: dict[uuid.UUID, frozenset[int]] = {}
            for (topic_id, index), error in found.items():
                if error is ErrorCode.NONE:
                    done[topic_id] = done.get(topic_id, frozenset()) | {index}
            if done:
                group = self._group(active, group_id, may_be_new=False)
                await self._write(active, [states_record(group_id, initialized(group, done))])
            altered = [
                AlteredPartition(decision.names[topic_id], topic_id, index, error)
                for (topic_id, index), error in found.items()
            ]
            return [*altered, *decision.refused]

        return await self._alone(active, group_id, work)

    async def delete_offsets(
        self, active: ActiveGroupShard, group_id: str, topics: Sequence[str]
    ) -> list[DeletedTopic]:
        """Makes a group without members forget what it did in these topics."""

        async def work() -> list[DeletedTopic]:
            group = self._group(active, group_id, may_be_new=False)
            decision = decide_offset_deletion(group, topics, self._around.topics)
            if not decision.topics:
                return list(decision.refused)
            found = await self._delete_states(active, group_id, decision)
            done = [topic_id for topic_id, error in found.items() if error is ErrorCode.NONE]
            if done:
                await self._write(active, [deleted(self._group(active, group_id, may_be_new=False), done)])
            return [
                *(DeletedTopic(decision.topics[topic_id].name, topic_id, error) for topic_id, error in found.items()),
                *decision.refused,
            ]

        return await self._alone(active, group_id, work)

    # -- topics that are gone

    def topic_ids(self, shards: Iterable[ActiveGroupShard]) -> frozenset[uuid.UUID]:
        """The topics of which groups in these shards have states."""
        groups = (group for active in shards if not active.loading for group in active.shard.share_groups.values())
        return frozenset(topic_id for group in groups for topic_id in topics_with_states(group))

    async def on_topics_deleted(self, shards: Iterable[ActiveGroupShard], gone: Collection[uuid.UUID]) -> None:
        """Has groups forget topics that are known to be deleted. What cannot be written now is left for the next time.

        Who is about to note that states of them are there notes nothing then: they are not to be made any more.
        """
        if not self._around.is_enabled():
            return
        for active in shards:
            for group_id in list(active.shard.share_groups):
                if active.is_gone or active.loading:
                    break
                await self._forget_topics(active, group_id, gone)

    async def _forget_topics(self, active: ActiveGroupShard, group_id: str, gone: Collection[uuid.UUID]) -> None:
        def decide() -> tuple[Sequence[CoordinatorRecord], None]:
            group = active.shard.share_groups.get(group_id)
            return [] if group is None else forgotten(group, gone), None

        try:
            await self._in_turn(active, group_id, decide)
        except RequestError as failure:
            logger.warning("deleted topics of a share group not forgotten yet", group=group_id, why=failure.code.name)

    async def _delete_states(
        self, active: ActiveGroupShard, group_id: str, decision: OffsetDeletion
    ) -> Mapping[uuid.UUID, ErrorCode]:
        await self._write(active, decision.records)
        partitions = {topic_id: sorted(named.partitions) for topic_id, named in decision.topics.items()}
        return await self._around.states.delete(group_id, partitions, active.leader_epoch)

    async def _alone(self, active: ActiveGroupShard, group_id: str, work: Callable[[], Awaitable[_T]]) -> _T:
        """Does something of several steps in one turn of the group, though who asked may go away (I4)."""
        if not self._around.is_enabled():
            raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
        await active.turns.take(group_id)
        doing = self._carrier.spawn(self._do_alone(active, group_id, work))
        # Who asked may go away, and then nobody looks at what came of it.
        doing.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(doing)

    async def _do_alone(self, active: ActiveGroupShard, group_id: str, work: Callable[[], Awaitable[_T]]) -> _T:
        has_turn = True
        try:
            while making := self._making.get(group_id):
                active.turns.give(group_id)  # What is being made takes a turn at its end.
                has_turn = False
                await asyncio.wait(list(making))
                await active.turns.take(group_id)
                has_turn = True
            return await work()
        finally:
            if has_turn:
                active.turns.give(group_id)

    async def _write(self, active: ActiveGroupShard, records: Sequence[CoordinatorRecord]) -> None:
        error = await self._carrier.write_change(active, records)
        if error is not ErrorCode.NONE:
            raise RequestError(error)

    # -- states

    def _on_made(self, group_id: str, done: asyncio.Task[bool]) -> None:
        making = self._making[group_id]
        del making[done]
        if not making:
            del self._making[group_id]

    async def _initialize(
        self, active: ActiveGroupShard, group_id: str, epoch: int, wanted: Mapping[uuid.UUID, NamedPartitions]
    ) -> bool:
        """Creates states, and records those that exist then. Returns whether any does."""
        topics = {topic_id: sorted(named.partitions) for topic_id, named in wanted.items()}
        done = await self._around.states.initialize(group_id, epoch, topics, active.leader_epoch)
        if any(done.get(topic_id, frozenset()) != named.partitions for topic_id, named in wanted.items()):
            self._ask_again_in(active, group_id, RETRY_MS)
        if not done:
            logger.warning("states of a share group are not there yet", group=group_id)
            return False

        def decide() -> tuple[Sequence[CoordinatorRecord], None]:
            group = self._group(active, group_id, may_be_new=False)
            return [states_record(group_id, initialized(group, done))], None

        try:
            await self._in_turn(active, group_id, decide)
        except RequestError as failure:
            logger.warning("states of a share group not noted yet", group=group_id, why=failure.code.name)
            self._ask_again_in(active, group_id, RETRY_MS)
            return False
        return True

    # -- carrying out

    def _now(self, group_id: str) -> ShareNow:
        around = self._around
        making: dict[uuid.UUID, NamedPartitions] = {}
        for wanted in self._making.get(group_id, {}).values():
            making = together(making, wanted)
        return ShareNow(around.wall_ms(), self._carrier.now_ms(), around.topics, around.limits(group_id), making)

    async def _in_turn(
        self,
        active: ActiveGroupShard,
        group_id: str,
        decide: Callable[[], tuple[Sequence[CoordinatorRecord], _T]],
        settle: Callable[[ShareGroup], None] = lambda _group: None,
    ) -> _T:
        """Decides in the group's turn, writes what was decided, and returns the answer. `settle`: what else is known
        once that is committed, before the next turn. Raises `RequestError`."""

        async def decide_work() -> tuple[Work | None, _T]:
            records, answer = decide()
            return (lambda: self._carry_out(active, group_id, records, settle)) if records else None, answer

        return await active.in_turn(group_id, decide_work, self._carrier.spawn)

    async def _carry_out(
        self,
        active: ActiveGroupShard,
        group_id: str,
        records: Sequence[CoordinatorRecord],
        settle: Callable[[ShareGroup], None],
    ) -> ErrorCode:
        before = active.shard.share_groups.get(group_id)
        epoch = 0 if before is None else before.epoch
        error = await self._carrier.write_change(active, records)
        group = active.shard.share_groups.get(group_id)
        if group is not None and not active.is_gone:
            if error is ErrorCode.NONE:
                settle(group)
            if group.epoch > epoch:
                self._around.on_rebalance()
            group.watch_all(self._carrier.now_ms() + self._around.limits(group_id).session_timeout_ms)
            self._carrier.arm(active, group_id)
        return error

    # -- time

    def on_loaded(self, active: ActiveGroupShard) -> None:
        """Members of loaded groups have a whole session from now on."""
        for group in active.shard.share_groups.values():
            group.watch_all(self._carrier.now_ms() + self._around.limits(group.group_id).session_timeout_ms)
            self._carrier.arm(active, group.group_id)

    def on_time(self, active: ActiveGroupShard, group: ShareGroup) -> None:
        """Some member's session may be over."""
        if group.overdue(self._carrier.now_ms()):
            self._carrier.spawn(self._remove_late(active, group.group_id))
        else:
            self._carrier.arm(active, group.group_id)

    async def _remove_late(self, active: ActiveGroupShard, group_id: str) -> None:
        def decide() -> tuple[Sequence[CoordinatorRecord], None]:
            group = active.shard.share_groups.get(group_id)
            late = [] if group is None else group.overdue(self._carrier.now_ms())
            if group is None or not late:
                return (), None
            for member_id in late:
                logger.info("share group member removed", group=group_id, member=member_id, why="no heartbeat in time")
            return decide_leave(group, late, self._now(group_id)), None

        try:
            await self._in_turn(active, group_id, decide)
        except RequestError as failure:
            logger.warning("share group members not removed yet", group=group_id, why=failure.code.name)
            group = active.shard.share_groups.get(group_id)
            if group is not None:
                group.put_off(self._carrier.now_ms() + RETRY_MS)
        self._carrier.arm(active, group_id)
