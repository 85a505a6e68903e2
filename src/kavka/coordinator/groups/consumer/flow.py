"""ConsumerGroupFlow: the flow around consumer groups (KIP-848): turns, records, answers, deadlines.

Decides nothing: `decide.heartbeat` and `decide.classic_members` decide from the committed state. This writes their
records in the group's turn, has them replayed, and then answers. Must not know sockets or the wire format of requests.

    I1  a decision is carried out before the next one of its group is made (Turns)
    I2  records whose outcome is unknown are replayed, and the request is answered with the error: they lie in this
        leader's log, so they are either committed or lost together with its leadership. Not to replay them would let
        later records contradict the log
    I3  a change that was begun is carried out though its client is gone
    I4  a member's session begins anew when its heartbeat is decided on, and again with the answer: whether its records
        are committed, and how long that takes, is no silence of the member's. What removes members waits for its turn
        behind heartbeats that came before their sessions ended

Source: Kafka's CoordinatorRuntime and GroupMetadataManager.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from kavka.coordinator.groups.active_group_shard import ActiveGroupShard, Work
from kavka.coordinator.groups.classic.decide.group import ClassicGroup
from kavka.coordinator.groups.classic.decide.membership import (
    Effects,
    GroupLimits,
    GroupState,
    JoinAnswer,
    JoinRequest,
    Leaver,
)
from kavka.coordinator.groups.consumer.decide.classic_members import decide_classic_join
from kavka.coordinator.groups.consumer.decide.classic_members import decide_leave as decide_classic_leave
from kavka.coordinator.groups.consumer.decide.group import (
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerGroup,
    ConsumerGroupLimits,
    ConsumerMember,
    ResolvedRegex,
)
from kavka.coordinator.groups.consumer.decide.heartbeat import (
    ConsumerHeartbeat,
    HeartbeatAnswer,
    Now,
    check_request,
    decide_heartbeat,
    decide_leave,
    is_new_subscription,
    is_time_to_assign,
    remove_members,
)
from kavka.coordinator.groups.consumer.decide.migration import may_downgrade, to_classic_group, to_consumer_group
from kavka.coordinator.groups.consumer.decide.records import group_tombstones
from kavka.coordinator.groups.consumer.decide.target_assignment import Topics
from kavka.coordinator.groups.decide.rebalance import Causes, Rebalance, because
from kavka.coordinator.groups.decide.records import group_record, group_tombstone
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.coordinator.shared.decide.topic_pattern import InvalidPattern, TopicPattern
from kavka.errors import ErrorCode, RequestError
from kavka.logger import Logger

if TYPE_CHECKING:
    from kavka.coordinator.groups.carrier import Carrier

logger = Logger(__name__)

NAMES_AT_ONCE: Final = 100
"""How many topics are matched against a regular expression before other work has its turn."""
MIN_REGEX_INTERVAL_MS: Final = 10_000
"""How soon after a match an expression is matched again because topics have changed; Kafka's."""

_T = TypeVar("_T")


class Surroundings(NamedTuple):
    """What groups need of the broker. `limits` are a group's, with its own settings; `on_rebalance` is called for each
    rebalance."""

    topics: Topics
    limits: Callable[[str], ConsumerGroupLimits]
    classic_limits: GroupLimits
    is_enabled: Callable[[], bool]
    wall_ms: Callable[[], int]
    random: Random
    on_rebalance: Callable[[Rebalance], None] = lambda _rebalance: None


class Change(NamedTuple):
    """What is to be written in a group's turn. `frozen` is the classic group whose place is taken; `becomes` the one
    that takes the group's place, and which has its members join again if it `rebalances`. `why` is the cause of a
    rebalance, if there is one."""

    records: Sequence[CoordinatorRecord]
    frozen: ClassicGroup | None = None
    becomes: ClassicGroup | None = None
    rebalances: bool = True
    why: str = ""


class ConsumerGroupFlow:
    """All consumer groups that this broker coordinates."""

    def __init__(self, carrier: Carrier, surroundings: Surroundings) -> None:
        self._carrier = carrier
        self._around = surroundings

    # -- requests

    def check(self, request: ConsumerHeartbeat) -> None:
        """Raises `RequestError` for what is refused whoever coordinates the group."""
        if not self._around.is_enabled():
            raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
        check_request(request, self._around.limits(request.group_id))

    async def heartbeat(
        self, active: ActiveGroupShard, request: ConsumerHeartbeat, sees: Callable[[str], bool] | None = None
    ) -> HeartbeatAnswer:
        """Answers when what the heartbeat led to is committed. Raises `RequestError`."""
        group_id = request.group_id
        if group_id in active.shard.share_groups:
            raise _of_another_kind(group_id)  # without its turn, as `concerns`

        matched: dict[str, int] = {}

        async def decide() -> tuple[Change, HeartbeatAnswer]:
            return await self._decide(active, request, sees, matched)

        answer = await self.in_turn(active, group_id, decide)
        active.require_committed()
        group = self._on_heard(active, group_id, answer.member_id)
        if group is not None:
            group.untold.discard(answer.member_id)
            group.matched_versions.update(matched)
            group.watch_revocation(answer.member_id, self._carrier.now_ms())
            self._carrier.arm(active, group_id, min(group.deadlines[answer.member_id].all()))
        return answer

    def _on_heard(self, active: ActiveGroupShard, group_id: str, member_id: str) -> ConsumerGroup | None:
        """Restarts the session of a member that was heard of. Returns its group, None if it is no member."""
        group = active.shard.consumer_groups.get(group_id)
        if group is None or member_id not in group.members:
            return None
        group.renew(member_id, self._around.limits(group_id).session_timeout_ms, self._carrier.now_ms())
        return group

    async def _decide(
        self,
        active: ActiveGroupShard,
        request: ConsumerHeartbeat,
        sees: Callable[[str], bool] | None,
        matched: dict[str, int],
    ) -> tuple[Change, HeartbeatAnswer]:
        shard, group_id = active.shard, request.group_id
        group = shard.consumer_groups.get(group_id)
        if request.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH):
            if group is None:
                raise _no_consumer_group(group_id, shard.groups.get(group_id))
            decision = decide_leave(group, request, self._now(group_id, {}))
            logger.info("consumer group member left", group=group_id, member=request.member_id)
            if decision.member is None:
                why = f"member {decision.answer.member_id} leaves"
                return self._removal(group, [decision.answer.member_id], why), decision.answer
            return Change(decision.records), decision.answer
        resolved = await self._resolve(group or ConsumerGroup(group_id), request.topic_regex, sees, matched)
        records: list[CoordinatorRecord] = []
        frozen: ClassicGroup | None = None
        if group is None:
            if group_id in shard.share_groups or group_id in shard.streams_groups:
                raise _of_another_kind(group_id)
            # Looked at after the last wait: a classic member may have joined meanwhile.
            frozen = shard.groups.get(group_id)
            group = self._new_group(group_id, frozen, request, records)
        now = self._now(group_id, resolved)
        decision = decide_heartbeat(group, request, request.member_id or self._new_member_id(), now)
        group.checked_version = -1 if decision.records else now.topics.version
        if decision.answer.member_id in group.members:
            group.untold.add(decision.answer.member_id)  # until the answer goes out
            self._on_heard(active, group_id, decision.answer.member_id)  # I4
        why = _cause(group, decision.member)
        return Change([*records, *decision.records], frozen, why=why), decision.answer

    def _new_group(
        self,
        group_id: str,
        classic: ClassicGroup | None,
        request: ConsumerHeartbeat,
        records: list[CoordinatorRecord],
    ) -> ConsumerGroup:
        """The group that a first member makes; an empty classic group gives its place up. Raises `RequestError`."""
        if request.member_epoch != 0:
            raise _no_consumer_group(group_id, classic, missing="Consumer group")
        if classic is None:
            return ConsumerGroup(group_id)
        if classic.state is GroupState.EMPTY:
            records.append(group_tombstone(group_id))
            return ConsumerGroup(group_id)
        group, made = to_consumer_group(classic, self._around.topics, self._around.limits(group_id))
        logger.info("group upgraded", group=group_id, members=len(group.members), epoch=group.epoch)
        records.extend(made)
        return group

    def _new_member_id(self) -> str:
        return str(uuid.UUID(int=self._around.random.getrandbits(128), version=4))

    def _now(self, group_id: str, resolved: dict[str, ResolvedRegex]) -> Now:
        return Now(self._around.wall_ms(), self._around.topics, self._around.limits(group_id), resolved)

    # -- regular expressions

    async def _resolve(
        self,
        group: ConsumerGroup,
        wanted: str | None,
        sees: Callable[[str], bool] | None,
        versions: dict[str, int],
    ) -> dict[str, ResolvedRegex]:
        """Matches what is new, what is old, and what topics have changed under. Notes in `versions` against which
        metadata. Raises `RequestError`.

        As in Kafka the member that asks leaves out what it may not know of, for all members with this expression.
        Topics may change while names are matched, or too soon after a match for the next one: what counts is the
        version that was matched, and not the one that the group was last compared with.
        """
        found: dict[str, ResolvedRegex] = {}
        topics, wall_ms = self._around.topics, self._around.wall_ms()
        refresh_ms = self._around.limits(group.group_id).regex_refresh_interval_ms
        for regex in dict.fromkeys((*group.regexes, *((wanted,) if wanted else ()))):
            known = group.regexes.get(regex)
            if known is not None:
                age_ms = wall_ms - known.timestamp_ms
                is_old = not 0 <= age_ms <= refresh_ms
                is_other = group.matched_versions.get(regex) != topics.version
                is_changed = is_other and not 0 <= age_ms <= MIN_REGEX_INTERVAL_MS
                if not is_old and not is_changed:
                    continue
            try:
                pattern = TopicPattern(regex)
            except InvalidPattern as refused:
                if known is not None:
                    versions[regex] = topics.version
                    continue  # Another broker took it: what it matched then goes on to count.
                raise RequestError(
                    ErrorCode.INVALID_REGULAR_EXPRESSION,
                    f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {refused}.",
                ) from refused
            version = topics.version
            matched = await _matching(pattern, topics.names())
            seen = frozenset(matched if sees is None else filter(sees, matched))
            resolved = ResolvedRegex(seen, version, wall_ms)
            if known is None or known.topics != resolved.topics or is_old:
                found[regex] = resolved
            versions[regex] = version
        return found

    # -- carrying out

    async def in_turn(
        self,
        active: ActiveGroupShard,
        group_id: str,
        decide: Callable[[], Awaitable[tuple[Change, _T]]],
        *,
        at_once: bool = False,
    ) -> _T:
        """Decides in the group's turn, carries the change out, and returns the answer. Raises `RequestError`. `at_once`
        as in `ActiveGroupShard.in_turn`."""

        async def decide_work() -> tuple[Work | None, _T]:
            change, answer = await decide()
            return (lambda: self._begin(active, group_id, change)) if change.records else None, answer

        return await active.in_turn(group_id, decide_work, self._carrier.spawn, at_once=at_once)

    def _begin(self, active: ActiveGroupShard, group_id: str, change: Change) -> Coroutine[None, None, ErrorCode]:
        if change.frozen is not None:
            self._freeze(change.frozen)
        return self._carry_out(active, group_id, change)

    async def _carry_out(self, active: ActiveGroupShard, group_id: str, change: Change) -> ErrorCode:
        before = active.shard.consumer_groups.get(group_id)
        epoch, size = (0, 0) if before is None else (before.epoch, len(before.members))
        error = await self._carrier.write_change(active, change.records)
        self._take_over(active, group_id, change)
        after = active.shard.consumer_groups.get(group_id)
        if after is not None and after.epoch > epoch:
            self._around.on_rebalance(
                Rebalance(group_id, "consumer", change.why, epoch, after.epoch, size, len(after.members), None)
            )
        if change.frozen is not None and active.shard.groups.get(group_id) is change.frozen:
            self._thaw(active, change.frozen)
        return error

    def _take_over(self, active: ActiveGroupShard, group_id: str, change: Change) -> None:
        """Sees to deadlines of a group that has changed, and to the classic group that it may be now."""
        if active.is_gone:
            return
        shard, now_ms = active.shard, self._carrier.now_ms()
        group = shard.consumer_groups.get(group_id)
        if group is not None:
            group.watch_all(self._around.limits(group_id).session_timeout_ms, now_ms)
        elif change.becomes is not None:
            logger.info("group downgraded", group=group_id, members=len(change.becomes.members))
            shard.groups[group_id] = change.becomes
            if change.rebalances:
                effects = Effects()
                change.becomes.rebalance(now_ms, effects)
                self._carrier.deliver(effects)
        self._carrier.arm(active, group_id)

    def _removal(self, group: ConsumerGroup, member_ids: Sequence[str], why: str) -> Change:
        """Takes members out; where only those are left who speak the classic protocol, the group becomes classic."""
        group_id = group.group_id
        left = [member for member_id, member in group.members.items() if member_id not in member_ids]
        records = remove_members(group, member_ids, self._now(group_id, {}))
        return self._downgrade(group, left) or Change(records, why=why)

    def _downgrade(
        self, group: ConsumerGroup, left: Sequence[ConsumerMember], *, rebalances: bool = True
    ) -> Change | None:
        around = self._around
        if not may_downgrade(group, left, around.limits(group.group_id), around.classic_limits):
            return None
        now_ms = self._carrier.now_ms()
        made = to_classic_group(group, left, around.topics, around.classic_limits, now_ms, rebalances=rebalances)
        records = [*group_tombstones(group), group_record(made, wall_ms=around.wall_ms())]
        return Change(records, becomes=made, rebalances=rebalances)

    # -- members that speak the classic protocol

    def concerns(self, active: ActiveGroupShard, group_id: str) -> bool:
        """Whether a classic request is for this: the group is of the newer protocol, or on its way from or to it.

        Of a share group the answer is known. Its turns may take as long as states take that other brokers keep.
        """
        if group_id in active.shard.share_groups:
            return False
        return group_id in active.shard.consumer_groups or active.turns.is_taken(group_id)

    def is_time_to_assign(self, group: ConsumerGroup) -> bool:
        """Whether the last target assignment is old enough for another."""
        return is_time_to_assign(group, self._now(group.group_id, {}))

    async def classic_join(
        self, active: ActiveGroupShard, group_id: str, request: JoinRequest, new_member_id: str
    ) -> JoinAnswer | None:
        """The answer to a JoinGroup; None if no group of the newer protocol is in its way. Raises `RequestError`.

        None is returned in the step in which that was found out: an empty group gives its place up, but its turn is
        over with that, and whoever waits for the next one may make another of it.
        """
        gives_way = True

        async def decide() -> tuple[Change, JoinAnswer | None]:
            nonlocal gives_way
            group = active.shard.consumer_groups.get(group_id)
            gives_way = group is not None and not group.members
            if group is None:
                return Change(()), None
            if gives_way:
                return Change(group_tombstones(group)), None
            return self._decide_join(group, request, new_member_id)

        answer: JoinAnswer | None = None
        while gives_way:
            answer = await self.in_turn(active, group_id, decide)
        active.require_committed()
        group = active.shard.consumer_groups.get(group_id)
        if answer is not None and answer.error is ErrorCode.NONE and group is not None:
            # It may be gone by now: others had their turn before it is told.
            group.expect_sync(
                answer.member_id, request.session_timeout_ms, request.rebalance_timeout_ms, self._carrier.now_ms()
            )
            self._carrier.arm(active, group_id)
        return answer

    def _decide_join(self, group: ConsumerGroup, request: JoinRequest, new_member_id: str) -> tuple[Change, JoinAnswer]:
        joined = decide_classic_join(group, request, new_member_id, self._now(group.group_id, {}))
        if joined.replaced is not None and joined.member is not None and joined.replaced.classic is None:
            others = [member for member in group.members.values() if member is not joined.replaced]
            is_settled = _is_settled(group, others, joined.replaced, joined.member)
            downgrade = self._downgrade(group, [*others, joined.member], rebalances=not is_settled)
            if downgrade is not None and downgrade.becomes is not None:
                answer = joined.answer._replace(generation=downgrade.becomes.generation)
                return downgrade, answer
        why = because(_cause(group, joined.member), request.reason)
        return Change(joined.records, why=why), joined.answer

    async def classic_leave(
        self, active: ActiveGroupShard, group_id: str, leavers: Sequence[Leaver]
    ) -> list[ErrorCode] | None:
        """Takes members of either protocol out at once; an error for each, None if the group is classic by now.
        Raises `RequestError`, where it could not be written."""

        async def decide() -> tuple[Change, list[ErrorCode] | None]:
            group = active.shard.consumer_groups.get(group_id)
            if group is None:
                return Change(()), None
            errors, leaving = decide_classic_leave(group, leavers)
            if not leaving:
                return Change(()), errors
            causes = Causes()
            for member_id, reason in leaving.items():
                logger.info("group member left", group=group_id, member=member_id, why=reason or "it did not say")
                causes.add(because(f"member {member_id} leaves", reason))
            return self._removal(group, list(leaving), causes.take()), errors

        return await self.in_turn(active, group_id, decide)

    def _freeze(self, group: ClassicGroup) -> None:
        effects = Effects()
        group.freeze(self._carrier.now_ms(), effects)
        self._carrier.deliver(effects)

    def _thaw(self, active: ActiveGroupShard, group: ClassicGroup) -> None:
        if active.is_gone:
            return
        effects = Effects()
        group.thaw(self._carrier.now_ms(), effects)
        self._carrier.deliver(effects)
        self._carrier.arm(active, group.group_id)

    # -- time

    def on_time(self, active: ActiveGroupShard, group: ConsumerGroup) -> None:
        """Some member's time is up."""
        self._carrier.spawn(self._remove_late(active, group.group_id))

    async def _remove_late(self, active: ActiveGroupShard, group_id: str) -> None:
        async def decide() -> tuple[Change, None]:
            group = active.shard.consumer_groups.get(group_id)
            late = {} if group is None else group.overdue(self._carrier.now_ms())
            if group is None or not late:
                return Change(()), None
            causes = Causes()
            for member_id, why in late.items():
                logger.info("consumer group member removed", group=group_id, member=member_id, why=why)
                causes.add(f"member {member_id} is removed: {why}")
            return self._removal(group, list(late), causes.take()), None

        try:
            await self.in_turn(active, group_id, decide)
        except RequestError as failure:
            logger.warning("consumer group members not removed yet", group=group_id, why=failure.code.name)
            group = active.shard.consumer_groups.get(group_id)
            if group is not None:
                group.put_off(self._carrier.now_ms() + RETRY_MS)
        self._carrier.arm(active, group_id)


def _of_another_kind(group_id: str) -> RequestError:
    return RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")


def _no_consumer_group(group_id: str, classic: ClassicGroup | None, *, missing: str = "Group") -> RequestError:
    if classic is not None:
        return _of_another_kind(group_id)
    return RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"{missing} {group_id} not found.")


def _is_settled(
    group: ConsumerGroup, others: Sequence[ConsumerMember], replaced: ConsumerMember, joined: ConsumerMember
) -> bool:
    """Whether `joined` and the others have what they are to have, and need not be assigned anew when the group becomes
    a classic one, in which the broker moves nothing any more.

    Apache Kafka asks only whether the last assignment is that of the group's epoch, and gives each member its target:
    a partition that one has not given back yet is another's then, too.
    """
    epoch = group.epoch
    return (
        epoch == group.assignment_epoch
        and not is_new_subscription(replaced, joined)
        and all(member.is_reconciled_to(epoch) for member in (joined, *others))
    )


def _cause(group: ConsumerGroup, member: ConsumerMember | None) -> str:
    """Why a group's epoch rises, if it does, when this member is as it is now."""
    if member is None:
        return "a member is gone"
    known = group.members.get(member.member_id)
    if known is None:
        return f"member {member.member_id} joins from {member.client_host}"
    if is_new_subscription(known, member):
        return f"member {member.member_id} subscribes to something else"
    return "the topics that its members read have changed"


RETRY_MS: Final = 1_000
"""How long after a removal could not be written it is tried again."""


async def _matching(pattern: TopicPattern, names: Iterable[str]) -> list[str]:
    found = []
    for number, name in enumerate(names, 1):
        if pattern.matches(name):
            found.append(name)
        if not number % NAMES_AT_ONCE:
            await asyncio.sleep(0)
    return found
