"""StreamsGroupFlow: the flow around streams groups (KIP-1071): turns, records, answers, deadlines.

Decides nothing: `decide.heartbeat` does, from the committed state. Must not know sockets, the wire format, or how
topics are created: an answer names the internal topics that are missing, and who asked for it has them created.

    I1  a decision is carried out before the next one of its group is made (Turns)
    I2  records whose outcome is unknown are replayed, and the request is answered with the error: as consumer groups do
    I3  what a group has besides its records follows from a decision only when its records are committed

Source: Kafka's GroupMetadataManager and GroupCoordinatorService.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from kavka.coordinator.groups.active_group_shard import ActiveGroupShard, Work
from kavka.coordinator.groups.classic.decide.membership import Effects, GroupState
from kavka.coordinator.groups.consumer.decide.target_assignment import Topics
from kavka.coordinator.groups.decide.rebalance import Causes, Rebalance
from kavka.coordinator.groups.decide.records import group_tombstone
from kavka.coordinator.groups.streams.decide.group import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    StreamsGroup,
    StreamsGroupLimits,
)
from kavka.coordinator.groups.streams.decide.heartbeat import (
    Decision,
    StreamsAnswer,
    StreamsHeartbeat,
    StreamsNow,
    check_request,
    decide_delayed,
    decide_heartbeat,
    decide_leave,
)
from kavka.coordinator.groups.streams.decide.records import group_tombstones
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode, RequestError
from kavka.logger import Logger

if TYPE_CHECKING:
    from kavka.coordinator.groups.carrier import Carrier

logger = Logger(__name__)

RETRY_MS: Final = 1_000
"""How long after something that is due could not be written it is tried again."""

_T = TypeVar("_T")


class StreamsSurroundings(NamedTuple):
    """What streams groups need of the broker. `limits` are a group's, with its own settings; `on_rebalance` is called
    for each rebalance."""

    topics: Topics
    limits: Callable[[str], StreamsGroupLimits]
    is_enabled: Callable[[], bool]
    wall_ms: Callable[[], int]
    on_rebalance: Callable[[Rebalance], None] = lambda _rebalance: None


class _Change(NamedTuple):
    """What is to be written in a group's turn; `why` is the cause of a rebalance, if there is one. `settle` takes over,
    with the group as it is then, what is not in the log (I3)."""

    records: Sequence[CoordinatorRecord]
    why: str = ""
    settle: Callable[[StreamsGroup], None] = lambda _group: None


class StreamsGroupFlow:
    """All streams groups that this broker coordinates."""

    def __init__(self, carrier: Carrier, around: StreamsSurroundings) -> None:
        self._carrier = carrier
        self._around = around

    # -- requests

    def check(self, request: StreamsHeartbeat) -> None:
        """Raises `RequestError` for what is refused whoever coordinates the group."""
        if not self._around.is_enabled():
            raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
        check_request(request)

    async def heartbeat(self, active: ActiveGroupShard, request: StreamsHeartbeat) -> StreamsAnswer:
        """Answers when what the heartbeat led to is committed. Raises `RequestError`."""
        if request.group_id in active.shard.share_groups:
            # Without its turn, which may take as long as states take that other brokers keep.
            raise _of_another_kind(request.group_id)
        if request.member_epoch == LEAVING_EPOCH:
            return await self._leave(active, request)
        group_id, member_id = request.group_id, request.member_id

        def decide() -> tuple[_Change, StreamsAnswer]:
            return self._decide(active, request)

        try:
            answer = await self._in_turn(active, group_id, decide)
            active.require_committed()
        except RequestError as refused:
            if refused.code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                # It could not be written; but the member is there, and must not be removed for its silence.
                self._on_heard(active, group_id, member_id)
            raise
        group = self._on_heard(active, group_id, member_id)
        if group is not None:
            group.untold.discard(member_id)
            group.watch_revocation(member_id, self._carrier.now_ms())
            self._carrier.arm(active, group_id, min(group.deadlines[member_id].all()))
        return answer

    def _on_heard(self, active: ActiveGroupShard, group_id: str, member_id: str) -> StreamsGroup | None:
        """Restarts the session of a member that was heard of. Returns its group, None if it is no member."""
        group = active.shard.streams_groups.get(group_id)
        if group is None or member_id not in group.members:
            return None
        group.renew(member_id, self._around.limits(group_id).session_timeout_ms, self._carrier.now_ms())
        return group

    def _decide(self, active: ActiveGroupShard, request: StreamsHeartbeat) -> tuple[_Change, StreamsAnswer]:
        shard, group_id = active.shard, request.group_id
        group = shard.streams_groups.get(group_id)
        is_new = group is None
        records: list[CoordinatorRecord] = []
        if group is None:
            records, group = self._new_group(active, request), StreamsGroup(group_id)
        now = self._now(group_id)
        version = now.topics.version
        decision = decide_heartbeat(group, request, now)
        if request.member_id in group.members:
            group.untold.add(request.member_id)  # until the answer goes out
            self._on_heard(active, group_id, request.member_id)  # What it leads to may take long to be committed.
        if request.member_epoch == JOINING_EPOCH and request.member_id not in group.members:
            logger.info("streams group member joins", group=group_id, member=request.member_id)

        def settle(changed: StreamsGroup) -> None:
            _take_over(changed, decision, version)
            # Of a request that makes the group it is in its own answer alone, as in Kafka.
            if request.wants_shutdown and not is_new:
                self._on_shutdown(changed, request.member_id)

        change = _Change([*records, *decision.records], _cause(group, decision, request.client_host), settle)
        return change, decision.answer

    def _new_group(self, active: ActiveGroupShard, request: StreamsHeartbeat) -> list[CoordinatorRecord]:
        """What is written before a new group: an empty classic group gives its place up. Raises `RequestError`."""
        shard, group_id = active.shard, request.group_id
        classic = shard.groups.get(group_id)
        is_another = group_id in shard.consumer_groups or group_id in shard.share_groups
        if is_another or (classic is not None and classic.state is not GroupState.EMPTY):
            raise _of_another_kind(group_id)
        if request.member_epoch != JOINING_EPOCH:
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
        return [] if classic is None else [group_tombstone(group_id)]

    def _on_shutdown(self, group: StreamsGroup, member_id: str) -> None:
        if group.shutdown_asked_by is None and group.members:
            logger.info("streams group is asked to shut down", group=group.group_id, member=member_id)
            group.shutdown_asked_by = member_id

    async def _leave(self, active: ActiveGroupShard, request: StreamsHeartbeat) -> StreamsAnswer:
        def decide() -> tuple[_Change, None]:
            group = self._existing(active, request.group_id)
            group.require_member(request.member_id)
            logger.info("streams group member left", group=request.group_id, member=request.member_id)

            def settle(changed: StreamsGroup) -> None:
                if request.wants_shutdown:
                    self._on_shutdown(changed, request.member_id)

            records = decide_leave(group, [request.member_id])
            return _Change(records, f"member {request.member_id} leaves", settle), None

        await self._in_turn(active, request.group_id, decide)
        return StreamsAnswer(request.member_id, request.member_epoch, 0)

    def _existing(self, active: ActiveGroupShard, group_id: str) -> StreamsGroup:
        """Raises `RequestError` (GROUP_ID_NOT_FOUND)."""
        group = active.shard.streams_groups.get(group_id)
        if group is None:
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    async def give_way(self, active: ActiveGroupShard, group_id: str) -> bool:
        """A classic member joins: an empty group gives its place up. Returns False if it is not empty.

        True says nothing of what has come since: with the group its turn is over, and the next one may be another's.
        """

        def decide() -> tuple[_Change, bool]:
            group = active.shard.streams_groups.get(group_id)
            is_in_use = group is not None and bool(group.members)
            return _Change(() if group is None or is_in_use else group_tombstones(group)), not is_in_use

        return await self._in_turn(active, group_id, decide)

    # -- carrying out

    def _now(self, group_id: str) -> StreamsNow:
        around = self._around
        return StreamsNow(around.wall_ms(), self._carrier.now_ms(), around.topics, around.limits(group_id))

    async def _in_turn(self, active: ActiveGroupShard, group_id: str, decide: Callable[[], tuple[_Change, _T]]) -> _T:
        """Decides in the group's turn, carries the change out, and returns the answer. Raises `RequestError`."""

        async def decide_work() -> tuple[Work | None, _T]:
            change, answer = decide()
            if change.records:
                return lambda: self._begin(active, group_id, change), answer
            group = active.shard.streams_groups.get(group_id)
            if group is not None:
                change.settle(group)
            return None, answer

        return await active.in_turn(group_id, decide_work, self._carrier.spawn)

    def _begin(self, active: ActiveGroupShard, group_id: str, change: _Change) -> Coroutine[None, None, ErrorCode]:
        """A classic group whose place is taken is frozen at once: until its end is written nobody may join it."""
        frozen = active.shard.groups.get(group_id)
        if frozen is not None:
            effects = Effects()
            frozen.freeze(self._carrier.now_ms(), effects)
            self._carrier.deliver(effects)
        return self._carry_out(active, group_id, change)

    async def _carry_out(self, active: ActiveGroupShard, group_id: str, change: _Change) -> ErrorCode:
        before = active.shard.streams_groups.get(group_id)
        epoch, size = (0, 0) if before is None else (before.epoch, len(before.members))
        frozen = active.shard.groups.get(group_id)
        error = await self._carrier.write_change(active, change.records)
        if active.is_gone:
            return error
        group = active.shard.streams_groups.get(group_id)
        if group is not None:
            if error is ErrorCode.NONE:
                change.settle(group)
            else:
                # What was decided may be in its records now: a topology found to fit the topics must not go on to
                # count as unfit because their hash is no news.
                group.configured, group.checked_version = None, -1
            group.watch_all(self._around.limits(group_id).session_timeout_ms, self._carrier.now_ms())
            if group.epoch > epoch:
                self._around.on_rebalance(
                    Rebalance(group_id, "streams", change.why, epoch, group.epoch, size, len(group.members), None)
                )
        if frozen is not None and active.shard.groups.get(group_id) is frozen and frozen.state is GroupState.DEAD:
            effects = Effects()
            frozen.thaw(self._carrier.now_ms(), effects)
            self._carrier.deliver(effects)
        self._carrier.arm(active, group_id)
        return error

    # -- time

    def on_loaded(self, active: ActiveGroupShard) -> None:
        """Members of loaded groups have a whole session from now on."""
        for group in active.shard.streams_groups.values():
            group.watch_all(self._around.limits(group.group_id).session_timeout_ms, self._carrier.now_ms())
            self._carrier.arm(active, group.group_id)

    def on_time(self, active: ActiveGroupShard, group: StreamsGroup) -> None:
        """Some member's time may be up, or that of a first assignment that waits for members."""
        now_ms = self._carrier.now_ms()
        if group.overdue(now_ms) or group.is_delay_over(now_ms):
            self._carrier.spawn(self._do_what_is_due(active, group.group_id))
        else:
            self._carrier.arm(active, group.group_id)

    async def _do_what_is_due(self, active: ActiveGroupShard, group_id: str) -> None:
        try:
            await self._in_turn(active, group_id, lambda: (self._removal(active, group_id), None))
            await self._in_turn(active, group_id, lambda: (self._first_assignment(active, group_id), None))
        except RequestError as failure:
            logger.warning("what a streams group waits for is not done yet", group=group_id, why=failure.code.name)
            group = active.shard.streams_groups.get(group_id)
            if group is not None:
                group.put_off(self._carrier.now_ms() + RETRY_MS)
        self._carrier.arm(active, group_id)

    def _removal(self, active: ActiveGroupShard, group_id: str) -> _Change:
        group = active.shard.streams_groups.get(group_id)
        late = {} if group is None else group.overdue(self._carrier.now_ms())
        if group is None or not late:
            return _Change(())
        causes = Causes()
        for member_id, why in late.items():
            logger.info("streams group member removed", group=group_id, member=member_id, why=why)
            causes.add(f"member {member_id} is removed: {why}")
        return _Change(decide_leave(group, list(late)), causes.take())

    def _first_assignment(self, active: ActiveGroupShard, group_id: str) -> _Change:
        group = active.shard.streams_groups.get(group_id)
        if group is None or not group.is_delay_over(self._carrier.now_ms()):
            return _Change(())
        now = self._now(group_id)
        version = now.topics.version
        records, configured = decide_delayed(group, now)

        def settle(changed: StreamsGroup) -> None:
            changed.delayed_until_ms = None
            if configured is not None:
                changed.configured, changed.checked_version = configured, version

        return _Change(records, "its internal topics are there", settle)


def _of_another_kind(group_id: str) -> RequestError:
    return RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")


def _take_over(group: StreamsGroup, decision: Decision, version: int) -> None:
    group.configured, group.checked_version = decision.configured, version
    group.delayed_until_ms = decision.delayed_until_ms
    group.endpoint_epoch = decision.endpoint_epoch


def _cause(group: StreamsGroup, decision: Decision, client_host: str) -> str:
    """Why a group's epoch rises, if it does, when this member is as it is now."""
    member = decision.member
    known = group.members.get(member.member_id)
    if known is None:
        return f"member {member.member_id} joins from {client_host}"
    if known.with_news_of(member) != known:
        return f"member {member.member_id} says something new of itself"
    return "the topics that its tasks need, or its settings, have changed"
