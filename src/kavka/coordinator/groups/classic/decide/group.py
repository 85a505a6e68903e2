"""ClassicGroup: the membership of one consumer group in the classic (JoinGroup/SyncGroup) protocol.

Decides: who is a member, when a generation begins and ends, who leads it, which protocol it uses, and what each request
is answered with. Must not know: sockets, futures, the log; it is given `now_ms`, and returns what follows in `Effects`.
One class, although it is long: each request may end in a rebalance, and a rebalance answers requests of every kind, so
that no part of the automaton could be understood without the others. Its values stand in `membership`.

    I1  the generation only rises; a request of another generation or of an unknown member changes nothing (G2)
    I2  every join and sync that is held is answered exactly once: by the rebalance, by time, or by removal
    I3  a rebalance ends within the largest rebalance time-out of its members, whatever they do (G5)
    I4  an assignment is handed out only after the record that holds it was written, likewise the id that a static
        member comes back under. Until then a member has what it was last told: a cooperative consumer reads on, also
        through generations that come to nothing, and a group that is upgraded meanwhile must give that to nobody else
    I5  there is always a protocol that all members support: who joins, or joins again with other ones, must support one
        that all support until then, itself included; so a choice is never replaced at a stroke
    I6  `on_time` leaves no deadline behind that is over and that nothing comes of: whoever keeps the time would be
        woken for it again and again

    state                 what moves it                                     to
    EMPTY                 a member joins                                    PREPARING_REBALANCE
    PREPARING_REBALANCE   all members have joined, or time is up            COMPLETING_REBALANCE (EMPTY if none is left)
    COMPLETING_REBALANCE  the leader's assignment is written                STABLE
                          a member joins, leaves, changes, or is late       PREPARING_REBALANCE
    STABLE                a member joins, leaves, changes, or is late       PREPARING_REBALANCE
    any                   the group is deleted                              DEAD
    DEAD                  its end could not be written (`thaw`)             EMPTY

Source: Kafka's GroupCoordinator and ClassicGroup of 3.9; KIP-62 (two time-outs), 134 (initial delay), 345 (static
members), 389 (size limit), 394 (member id first), 559 (protocol in answers), 800 (reasons), 814 (skip the assignment).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kavka.coordinator.groups.classic.decide.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    decode_topics,
    differ_in_topics,
)
from kavka.coordinator.groups.classic.decide.membership import (
    MOVES,
    NEW_MEMBER_JOIN_MS,
    NO_MEMBER,
    Effects,
    GroupLimits,
    GroupState,
    JoinAnswer,
    JoinedMember,
    JoinRequest,
    Leaver,
    Member,
    StoredGroup,
    SyncAnswer,
    SyncRequest,
)
from kavka.coordinator.groups.classic.decide.protocol_choice import common_protocols, select_protocol
from kavka.coordinator.groups.decide.rebalance import Causes, Rebalance, because
from kavka.errors import ErrorCode, InvariantViolation, ProtocolViolation, RequestError


class _Replacement(NamedTuple):
    """A static member that came back, while the record with its new id is being written. `skips`: the answer may ask it
    to leave the assignment unchanged (KIP-814)."""

    old: Member
    was_leader: bool
    skips: bool


class ClassicGroup:
    """One group. What can move it takes `now_ms` and an `Effects` to add to. One class: the opening says why."""

    def __init__(self, group_id: str, limits: GroupLimits, now_ms: int) -> None:
        self.group_id = group_id
        self.limits = limits
        self.state = GroupState.EMPTY
        self.state_since_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self._static: dict[str, str] = {}
        # Member ids given out by MEMBER_ID_REQUIRED, with the time until which they hold a place.
        self._pending: dict[str, int] = {}
        self._join_deadline_ms: int | None = None
        self._initial_delay_until_ms: int | None = None
        self._new_member_since_delay = False
        self._sync_deadline_ms: int | None = None
        self._writing_generation: int | None = None
        self._replacements: dict[str, _Replacement] = {}
        """By the id that is not in the log yet."""
        self._causes = Causes()
        self._generation_size = 0
        """Members that the present generation began with."""
        self.written_at_wall_ms: int | None = None
        """When its record was last written: for an empty group, since when it is empty."""

    # -- joining

    def join(self, request: JoinRequest, token: int, new_member_id: str, now_ms: int, effects: Effects) -> None:
        """Takes in a JoinGroup; its answer comes in `effects` now or later, under `token`.

        `new_member_id` is the id that a member without one gets.
        """
        try:
            answer = self._join(request, token, new_member_id, now_ms, effects)
        except RequestError as refused:
            answer = JoinAnswer(refused.code, request.member_id)
        if answer is not None:
            effects.joins.append((token, answer))

    def _join(
        self, request: JoinRequest, token: int, new_member_id: str, now_ms: int, effects: Effects
    ) -> JoinAnswer | None:
        limits = self.limits
        if not limits.min_session_timeout_ms <= request.session_timeout_ms <= limits.max_session_timeout_ms:
            raise RequestError(ErrorCode.INVALID_SESSION_TIMEOUT)
        if self.state is GroupState.DEAD:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self._is_full(request):
            self._turn_away(request.member_id, now_ms, effects)
            raise RequestError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not self._supports(request):
            raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if request.member_id == NO_MEMBER:
            return self._join_without_id(request, token, new_member_id, now_ms, effects)
        return self._join_with_id(request, token, now_ms, effects)

    def _join_without_id(
        self, request: JoinRequest, token: int, new_member_id: str, now_ms: int, effects: Effects
    ) -> JoinAnswer | None:
        instance = request.group_instance_id
        if instance is not None and instance in self._static:
            return self._replace_static(request, token, new_member_id, now_ms, effects)
        if request.require_known_member_id and instance is None:
            self._pending[new_member_id] = now_ms + request.session_timeout_ms
            return JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, new_member_id)
        self._add(request, new_member_id, token, now_ms, effects)
        return None

    def _join_with_id(self, request: JoinRequest, token: int, now_ms: int, effects: Effects) -> JoinAnswer | None:
        if request.member_id in self._pending:
            if request.group_instance_id is not None:
                raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
            self._add(request, request.member_id, token, now_ms, effects)
            return None
        member = self.require_member(request.member_id, request.group_instance_id)
        unchanged = list(member.protocols) == list(request.protocols)
        match self.state:
            case GroupState.COMPLETING_REBALANCE if unchanged:
                # It lost the answer to its JoinGroup: the same again, for the generation that is being completed.
                return self._joined(member)
            case GroupState.STABLE if unchanged and member.member_id != self.leader_id:
                # A follower that rejoins with nothing new does not disturb the group; a leader asks for a rebalance.
                return self._joined(member)
        self._hold_join(member, request, token, effects)
        if self.state is not GroupState.PREPARING_REBALANCE:
            does = "asks for it" if unchanged else "subscribes to something else"
            self._causes.add(because(f"member {member.member_id} {does}", request.reason))
            self._prepare_rebalance(now_ms, effects)
        self._maybe_complete_join(now_ms, effects)
        return None

    def _replace_static(
        self, request: JoinRequest, token: int, new_member_id: str, now_ms: int, effects: Effects
    ) -> JoinAnswer | None:
        """A static member came back without its id: it takes its old place under a new id; the old id is fenced.

        A group at rest is not disturbed as long as the protocol in force stays the one that is chosen. As in Kafka
        the bytes of the subscription do not matter, for they hold what the member last owned and in which generation.
        Other than in Kafka another set of topics does: there nobody reads the new ones, until something else has the
        group rebalance.
        """
        instance = request.group_instance_id
        assert instance is not None  # the caller looked it up
        old = self.members[self._static[instance]]
        if old.join_token is not None:
            effects.joins.append((old.join_token, JoinAnswer(ErrorCode.FENCED_INSTANCE_ID, old.member_id)))
            old.join_token = None
        if old.sync_token is not None:
            effects.syncs.append((old.sync_token, SyncAnswer(ErrorCode.FENCED_INSTANCE_ID)))
        replacement = Member(
            new_member_id,
            instance,
            request.client_id,
            request.client_host,
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
            request.protocol_type,
            list(request.protocols),
            assignment=old.assignment,
            join_token=token,
            awaits_sync=old.awaits_sync,
        )
        was_leader = self.leader_id == old.member_id
        self._put_in_place_of(old, replacement)
        cause = f"static member {instance} came back"
        if self.state is GroupState.STABLE:
            if select_protocol(self.members.values()) == self.protocol and not self._reads_otherwise(old, replacement):
                # The new member id is part of the group's record.
                effects.write_group = True
                effects.replaced = new_member_id
                self._replacements[new_member_id] = _Replacement(
                    old, was_leader=was_leader, skips=request.supports_skipping_assignment
                )
                return None
            cause = f"static member {instance} came back with another subscription"
        self._causes.add(because(cause, request.reason))
        if self.state is not GroupState.PREPARING_REBALANCE:
            self._prepare_rebalance(now_ms, effects)
        self._maybe_complete_join(now_ms, effects)
        return None

    def _put_in_place_of(self, old: Member, new: Member) -> None:
        """The place in the order of members is kept, so that the leader's view is the same as before."""
        self.members = {
            (new.member_id if key == old.member_id else key): (new if key == old.member_id else member)
            for key, member in self.members.items()
        }
        if new.group_instance_id is not None:
            self._static[new.group_instance_id] = new.member_id
        if self.leader_id == old.member_id:
            self.leader_id = new.member_id

    def _reads_otherwise(self, old: Member, new: Member) -> bool:
        """Whether a consumer is known to read other topics than its predecessor."""
        return self.is_of_consumers and differ_in_topics(old.metadata(self.protocol), new.metadata(self.protocol))

    def on_replacement_written(self, member_id: str, error: ErrorCode, now_ms: int, effects: Effects) -> None:
        """The record with the id that a static member came back under is committed, or could not be written (I4).

        An id that is in no record must not be given out: the next coordinator would know the one before it, and fence
        the member for good.
        """
        replacement = self._replacements.pop(member_id, None)
        member = self.members.get(member_id)
        if replacement is None or member is None or member.join_token is None:
            return
        if self.state is not GroupState.STABLE:
            return  # It takes part in the rebalance that has begun meanwhile, and is answered with that.
        token, member.join_token = member.join_token, None
        if error is not ErrorCode.NONE:
            self._put_in_place_of(member, replacement.old)
            self._renew(replacement.old, now_ms)
            effects.joins.append((token, JoinAnswer(error)))
            return
        self._renew(member, now_ms)
        answer = self._joined(member)
        if replacement.was_leader and not replacement.skips:
            # An old client that leads would compute an assignment that nobody waits for: name the old id as leader.
            answer = answer._replace(leader=replacement.old.member_id, members=())
        else:
            answer = answer._replace(skip_assignment=replacement.was_leader)
        effects.joins.append((token, answer))

    def _add(self, request: JoinRequest, member_id: str, token: int, now_ms: int, effects: Effects) -> None:
        self._pending.pop(member_id, None)
        member = Member(
            member_id,
            request.group_instance_id,
            request.client_id,
            request.client_host,
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
            request.protocol_type,
            list(request.protocols),
            join_token=token,
            session_deadline_ms=now_ms + NEW_MEMBER_JOIN_MS,
            is_new=True,
        )
        if not self.members:
            self.protocol_type = request.protocol_type
        self.members[member_id] = member
        if request.group_instance_id is not None:
            self._static[request.group_instance_id] = member_id
        self._causes.add(because(f"member {member_id} joins from {request.client_host}", request.reason))
        if self.state is GroupState.PREPARING_REBALANCE:
            self._new_member_since_delay = True
        else:
            self._prepare_rebalance(now_ms, effects)
        self._maybe_complete_join(now_ms, effects)

    def _hold_join(self, member: Member, request: JoinRequest, token: int, effects: Effects) -> None:
        if member.join_token is not None:
            # A second JoinGroup of the same member: the first one's connection is gone.
            effects.joins.append((member.join_token, JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id)))
        member.protocols = list(request.protocols)
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.client_id = request.client_id
        member.client_host = request.client_host
        member.join_token = token

    def _is_full(self, request: JoinRequest) -> bool:
        """Whether there is no room. In a rebalance the first that come stay: it ends without the others (`on_loaded`).
        Other than in Kafka a static member that comes back finds room in a full group: its place is its own."""
        if self.state in (GroupState.EMPTY, GroupState.DEAD):
            return False
        instance = request.group_instance_id
        own_id = request.member_id or (NO_MEMBER if instance is None else self._static.get(instance, NO_MEMBER))
        known = self.members.get(own_id)
        if self.state is not GroupState.PREPARING_REBALANCE:
            return known is None and len(self.members) >= self.limits.max_size
        if known is not None and known.join_token is not None:
            return False
        return sum(member.join_token is not None for member in self.members.values()) >= self.limits.max_size

    def _turn_away(self, member_id: str, now_ms: int, effects: Effects) -> None:
        """Nobody waits for a member that finds no room."""
        self._pending.pop(member_id, None)
        member = self.members.get(member_id)
        if member is not None:
            self._causes.add(f"member {member_id} finds no room")
            self._remove(member, effects)
        self._maybe_complete_join(now_ms, effects)

    def _supports(self, request: JoinRequest) -> bool:
        if not request.protocol_type or not request.protocols:
            return False
        if not self.members:
            return True
        if request.protocol_type != self.protocol_type:
            return False
        common = common_protocols(self.members.values())
        return any(protocol.name in common for protocol in request.protocols)

    def _joined(self, member: Member) -> JoinAnswer:
        is_leader = member.member_id == self.leader_id
        return JoinAnswer(
            ErrorCode.NONE,
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader_id or NO_MEMBER,
            self._members_for_leader() if is_leader else (),
        )

    def _members_for_leader(self) -> list[JoinedMember]:
        return [
            JoinedMember(member.member_id, member.group_instance_id, member.metadata(self.protocol))
            for member in self.members.values()
        ]

    # -- the rebalance

    def _prepare_rebalance(self, now_ms: int, effects: Effects) -> None:
        """Begins a rebalance: syncs that are held end, and all members must join again."""
        for member in self.members.values():
            if member.sync_token is not None:
                effects.syncs.append((member.sync_token, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)))
                member.sync_token = None
                self._renew(member, now_ms)
        initial = self.state is GroupState.EMPTY
        self._move(GroupState.PREPARING_REBALANCE, now_ms)
        self._sync_deadline_ms = None
        self._writing_generation = None
        timeout_ms = self._rebalance_timeout_ms()
        self._join_deadline_ms = now_ms + timeout_ms
        self._new_member_since_delay = False
        delay_ms = self.limits.initial_rebalance_delay_ms
        # The first members of an empty group wait a little for the others (KIP-134), and again while new ones come; not
        # for those that only asked for an id (KIP-394), who may never come, with a delay of 0 either.
        waits = initial and (delay_ms > 0 or bool(self._pending))
        self._initial_delay_until_ms = now_ms + min(delay_ms, timeout_ms) if waits else None

    def _maybe_complete_join(self, now_ms: int, effects: Effects) -> None:
        if self.state is not GroupState.PREPARING_REBALANCE:
            return
        if self._initial_delay_until_ms is not None:
            return
        if not self._pending and all(member.join_token is not None for member in self.members.values()):
            self._complete_join(now_ms, effects)
        elif self._join_deadline_ms is None and any(member.join_token is not None for member in self.members.values()):
            self._join_deadline_ms = now_ms + self._rebalance_timeout_ms()

    def _rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def _complete_join(self, now_ms: int, effects: Effects) -> None:
        """Ends the joining: who has not joined is out (static members stay for their session), a generation begins."""
        for member in list(self.members.values()):
            if member.join_token is None and member.group_instance_id is None:
                self._causes.add(f"member {member.member_id} did not join again in time")
                self._remove(member, effects)
        joined = [member for member in self.members.values() if member.join_token is not None]
        self._initial_delay_until_ms = self._join_deadline_ms = None
        if self.members and not joined:
            # Only static members are left and none has come back yet: the time that the others have begins when one
            # does. Apache Kafka looks again after every rebalance time-out, which may be no time at all.
            return
        self.generation += 1
        self._tell_rebalance(now_ms, effects)
        if not self.members:
            self.protocol = None
            self._move(GroupState.EMPTY, now_ms)
            effects.write_group = True
            return
        if self.leader_id not in [member.member_id for member in joined]:
            self.leader_id = joined[0].member_id
        self.protocol = select_protocol(self.members.values())
        self._move(GroupState.COMPLETING_REBALANCE, now_ms)
        for member in self.members.values():
            if member.join_token is not None:
                effects.joins.append((member.join_token, self._joined(member)))
                member.join_token = None
            member.awaits_sync, member.is_new = True, False
            self._renew(member, now_ms)
        self._sync_deadline_ms = now_ms + self._rebalance_timeout_ms()

    def _tell_rebalance(self, now_ms: int, effects: Effects) -> None:
        size, self._generation_size = self._generation_size, len(self.members)
        effects.rebalances.append(
            Rebalance(
                self.group_id,
                "classic",
                self._causes.take(),
                self.generation - 1,
                self.generation,
                size,
                self._generation_size,
                now_ms - self.state_since_ms,
            )
        )

    # -- syncing

    def sync(self, request: SyncRequest, token: int, now_ms: int, effects: Effects) -> None:
        """Takes in a SyncGroup; its answer comes in `effects` now or later, under `token`."""
        try:
            answer = self._sync(request, token, now_ms, effects)
        except RequestError as refused:
            answer = SyncAnswer(refused.code)
        if answer is not None:
            effects.syncs.append((token, answer))

    def _sync(self, request: SyncRequest, token: int, now_ms: int, effects: Effects) -> SyncAnswer | None:
        member = self.require_current(request.member_id, request.group_instance_id, request.generation)
        protocol_type, protocol = request.protocol_type, request.protocol
        if (protocol_type is not None and protocol_type != self.protocol_type) or (
            protocol is not None and protocol != self.protocol
        ):
            raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        match self.state:
            case GroupState.PREPARING_REBALANCE:
                raise RequestError(ErrorCode.REBALANCE_IN_PROGRESS)
            case GroupState.STABLE:
                self._renew(member, now_ms)
                member.awaits_sync = False
                return self._synced(member)
            case _:
                pass
        if member.sync_token is not None:
            effects.syncs.append((member.sync_token, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)))
        member.sync_token = token
        member.awaits_sync = False
        if request.member_id == self.leader_id and self._writing_generation is None:
            for other in self.members.values():
                other.proposed = request.assignments.get(other.member_id, b"")
            self._writing_generation = self.generation
            effects.write_group = True
        return None

    def on_written(self, generation: int, error: ErrorCode, now_ms: int, effects: Effects) -> None:
        """The group's record of `generation` is committed, or could not be written (I4)."""
        if self.state is not GroupState.COMPLETING_REBALANCE or self._writing_generation != generation:
            return
        if error is not ErrorCode.NONE:
            for member in self.members.values():
                if member.sync_token is not None:
                    effects.syncs.append((member.sync_token, SyncAnswer(error)))
                    member.sync_token = None
                    self._renew(member, now_ms)
            self._causes.add(f"the record of generation {generation} was not written: {error.name}")
            self._prepare_rebalance(now_ms, effects)
            return
        self._move(GroupState.STABLE, now_ms)
        for member in self.members.values():
            member.assignment, member.proposed = member.proposed or b"", None
            if member.sync_token is not None:
                effects.syncs.append((member.sync_token, self._synced(member)))
                member.sync_token = None
                self._renew(member, now_ms)

    def _synced(self, member: Member) -> SyncAnswer:
        return SyncAnswer(ErrorCode.NONE, self.protocol_type, self.protocol, member.assignment)

    # -- staying and leaving

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation: int, now_ms: int) -> None:
        """Keeps a member alive. Raises `RequestError`, REBALANCE_IN_PROGRESS among others."""
        member = self.require_current(member_id, group_instance_id, generation)
        self._renew(member, now_ms)
        if self.state is GroupState.PREPARING_REBALANCE:
            raise RequestError(ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(self, leavers: Sequence[Leaver], now_ms: int, effects: Effects) -> list[ErrorCode]:
        """Removes members, all of them before the others rebalance. Returns an error for each: UNKNOWN_MEMBER_ID,
        FENCED_INSTANCE_ID. Raises `RequestError` (COORDINATOR_NOT_AVAILABLE) if the group is ending."""
        if self.state is GroupState.DEAD:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        members = len(self.members)
        errors = []
        for leaver in leavers:
            try:
                self._leave(leaver, effects)
                errors.append(ErrorCode.NONE)
            except RequestError as refused:
                errors.append(refused.code)
        if len(self.members) < members and self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self._prepare_rebalance(now_ms, effects)
        self._maybe_complete_join(now_ms, effects)
        return errors

    def _leave(self, leaver: Leaver, effects: Effects) -> None:
        member_id, instance = leaver.member_id, leaver.group_instance_id
        if member_id == NO_MEMBER and instance is not None:
            member_id = self._static.get(instance, NO_MEMBER)
        if self._pending.pop(member_id, None) is not None:
            return
        member = self.require_member(member_id, instance)
        self._causes.add(because(f"member {member_id} leaves", leaver.reason))
        self._remove(member, effects)

    def next_deadline_ms(self) -> int | None:
        """When `on_time` must be called next; None while nothing can run out."""
        deadlines = [member.session_deadline_ms for member in self.members.values() if member.may_run_out]
        deadlines.extend(self._pending.values())
        others = (self._join_deadline_ms, self._initial_delay_until_ms, self._sync_deadline_ms)
        deadlines.extend(deadline for deadline in others if deadline is not None)
        return min(deadlines, default=None)

    def on_time(self, now_ms: int, effects: Effects) -> list[str]:
        """Handles all deadlines that are over. Returns the ids of members that were removed because they were
        silent."""
        removed = []
        for member_id, deadline_ms in list(self._pending.items()):
            if deadline_ms <= now_ms:
                del self._pending[member_id]
                removed.append(member_id)
        for member in list(self.members.values()):
            if member.may_run_out and member.session_deadline_ms <= now_ms:
                removed.append(member.member_id)
                self._causes.add(member.ran_out)
                self._remove(member, effects)
                if self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
                    self._prepare_rebalance(now_ms, effects)
        self._on_join_time(now_ms, effects)
        if self._sync_deadline_ms is not None and self._sync_deadline_ms <= now_ms:
            removed.extend(self._on_sync_time(now_ms, effects))
        self._maybe_complete_join(now_ms, effects)
        return removed

    def _on_join_time(self, now_ms: int, effects: Effects) -> None:
        if self._initial_delay_until_ms is not None and self._initial_delay_until_ms <= now_ms:
            assert self._join_deadline_ms is not None
            if self._new_member_since_delay:
                self._new_member_since_delay = False
                delay_ms = self.limits.initial_rebalance_delay_ms
                self._initial_delay_until_ms = min(now_ms + delay_ms, self._join_deadline_ms)
            else:
                self._complete_join(now_ms, effects)
        if self._join_deadline_ms is not None and self._join_deadline_ms <= now_ms:
            self._complete_join(now_ms, effects)

    def _on_sync_time(self, now_ms: int, effects: Effects) -> list[str]:
        """Who has not asked for what it has works on nothing, also where all others have begun: its part is another's.

        KAFKA-12890: a member that only sends heartbeats would else keep its partitions from everybody.
        """
        self._sync_deadline_ms = None
        if self.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return []
        late = [member for member in self.members.values() if member.awaits_sync]
        for member in late:
            self._causes.add(f"member {member.member_id} did not ask for its assignment in time")
            self._remove(member, effects)
        if late:
            self._prepare_rebalance(now_ms, effects)
        return [member.member_id for member in late]

    def _remove(self, member: Member, effects: Effects) -> None:
        del self.members[member.member_id]
        if member.group_instance_id is not None and self._static.get(member.group_instance_id) == member.member_id:
            del self._static[member.group_instance_id]
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)
        if member.join_token is not None:
            effects.joins.append((member.join_token, JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id)))
        if member.sync_token is not None:
            effects.syncs.append((member.sync_token, SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID)))

    # -- questions

    @property
    def has_pending_members(self) -> bool:
        """Whether somebody was given a member id and has not joined with it yet."""
        return bool(self._pending)

    @property
    def had_no_member(self) -> bool:
        """Whether the group never had a member."""
        return self.state is GroupState.EMPTY and self.generation == 0

    @property
    def is_unused(self) -> bool:
        """Whether the group never had a member, and no join is under way."""
        return self.had_no_member and not self._pending

    def require_member(self, member_id: str, group_instance_id: str | None) -> Member:
        """The member. Raises `RequestError`: COORDINATOR_NOT_AVAILABLE, FENCED_INSTANCE_ID, UNKNOWN_MEMBER_ID."""
        if self.state is GroupState.DEAD:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if group_instance_id is not None:
            current = self._static.get(group_instance_id)
            if current is None:
                raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
            if current != member_id:
                raise RequestError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def require_current(self, member_id: str, group_instance_id: str | None, generation: int) -> Member:
        """The member, if `generation` is the group's. Raises `RequestError`, ILLEGAL_GENERATION among others."""
        member = self.require_member(member_id, group_instance_id)
        if generation != self.generation:
            raise RequestError(ErrorCode.ILLEGAL_GENERATION)
        return member

    def check_commit(self, member_id: str, group_instance_id: str | None, generation: int, now_ms: int) -> None:
        """Whether an offset commit may come from this member. Raises `RequestError`.

        Without a generation (-1) it comes from a consumer that assigns partitions by hand: allowed while the group
        has no members.
        """
        if generation < 0 and self.state is GroupState.EMPTY:
            return
        member = self.require_current(member_id, group_instance_id, generation)
        if self.state is GroupState.COMPLETING_REBALANCE:
            raise RequestError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._renew(member, now_ms)

    def check_transactional_commit(self, member_id: str, group_instance_id: str | None, generation: int) -> None:
        """Whether a transaction may commit offsets for this member (KIP-447). Raises `RequestError`.

        Producers of before KIP-447 name neither member nor generation, and are let through; a rebalance that is being
        completed does not matter, for the transaction fences by itself.
        """
        if self.state is GroupState.DEAD:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation < 0 and (
            self.state is GroupState.EMPTY or (member_id == NO_MEMBER and group_instance_id is None)
        ):
            return
        self.require_current(member_id, group_instance_id, generation)

    # -- subscriptions, where the members are consumers

    @property
    def is_of_consumers(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def subscribed_among(self, topics: Iterable[str]) -> set[str]:
        """Those of the topics that a member may be reading. Members with unknown subscriptions may be reading all."""
        if not self.is_of_consumers or (not self.members and self.generation > 0):
            return set()
        if self.protocol is None:
            return set(topics)
        try:
            read = {
                topic for member in self.members.values() for topic in decode_topics(member.metadata(self.protocol))
            }
        except ProtocolViolation:
            return set(topics)
        return read.intersection(topics)

    def expires_since(self, committed_ms: int) -> int | None:
        """From when on the retention of an offset that was committed at `committed_ms` counts; None if none expires.

        Never while there are members of which it is not known what they read, nor during a rebalance (KAFKA-13636).
        """
        if self.protocol_type is None:
            return committed_ms
        if self.state is GroupState.EMPTY:
            return committed_ms if self.written_at_wall_ms is None else self.written_at_wall_ms
        if self.state is GroupState.STABLE and self.is_of_consumers and self.protocol is not None:
            return committed_ms
        return None

    # -- life

    def restore(self, stored: StoredGroup, now_ms: int) -> None:
        """Restores the group from its record in the log. Members get a full session from `now_ms`."""
        members = stored.members
        self.written_at_wall_ms = stored.written_at_wall_ms
        self.generation = stored.generation
        self.protocol_type = stored.protocol_type or None
        self.protocol = stored.protocol
        self.leader_id = stored.leader_id
        self.members = {member.member_id: member for member in members}
        self._static = {
            member.group_instance_id: member.member_id for member in members if member.group_instance_id is not None
        }
        self._generation_size = len(members)
        self.state = GroupState.STABLE if members else GroupState.EMPTY
        self.state_since_ms = now_ms
        for member in members:
            self._renew(member, now_ms)

    def on_loaded(self, now_ms: int, effects: Effects) -> None:
        """The log is read to its end: a group that is larger than is allowed by now must shrink in a rebalance. One
        without a leader had just become a classic group, and its members were to join again."""
        if self.state is GroupState.STABLE and len(self.members) > self.limits.max_size:
            self._causes.add(f"{len(self.members)} members are more than group.max.size of {self.limits.max_size}")
            self._prepare_rebalance(now_ms, effects)
        elif self.state is GroupState.STABLE and self.leader_id is None:
            self.rebalance(now_ms, effects)

    def rebalance(self, now_ms: int, effects: Effects) -> None:
        """It was one of the newer protocol: has all members join again."""
        self._causes.add("its last member of the newer protocol is gone")
        self._prepare_rebalance(now_ms, effects)

    def freeze(self, now_ms: int, effects: Effects) -> None:
        """Records are on their way that end it, or make it one of the newer protocol: nothing moves it meanwhile.

        Waiting members are answered with an error to join again, and then find the other group.
        """
        self.die(now_ms, ErrorCode.REBALANCE_IN_PROGRESS, effects)

    def thaw(self, now_ms: int, effects: Effects) -> None:
        """The records of `freeze` could not be written. The group continues as before, and its members must join
        again.

        Each member gets a full session for that, because no heartbeat could be received meanwhile.
        """
        self._move(GroupState.EMPTY, now_ms)
        for member in self.members.values():
            self._renew(member, now_ms)
        if self.members:
            self._causes.add("its end or its change to the newer protocol was not written")
            self._prepare_rebalance(now_ms, effects)
            self._initial_delay_until_ms = None

    def die(self, now_ms: int, error: ErrorCode, effects: Effects) -> None:
        """Ends the group (deleted, or its coordinator moved): all that is held is answered with `error`."""
        for member in self.members.values():
            if member.join_token is not None:
                effects.joins.append((member.join_token, JoinAnswer(error, member.member_id)))
                member.join_token = None
            if member.sync_token is not None:
                effects.syncs.append((member.sync_token, SyncAnswer(error)))
                member.sync_token = None
        self._join_deadline_ms = self._initial_delay_until_ms = self._sync_deadline_ms = None
        self._move(GroupState.DEAD, now_ms)

    def _renew(self, member: Member, now_ms: int) -> None:
        member.session_deadline_ms = now_ms + member.session_timeout_ms

    def _move(self, to: GroupState, now_ms: int) -> None:
        if to not in MOVES[self.state]:
            raise InvariantViolation(f"group {self.group_id} cannot go from {self.state.value} to {to.value}")
        self.state = to
        self.state_since_ms = now_ms
