"""A classic group with a clock of its own, which tests of its rules share."""

from __future__ import annotations

from kavka.coordinator.groups.classic.decide.group import ClassicGroup
from kavka.coordinator.groups.classic.decide.membership import (
    Effects,
    GroupLimits,
    GroupState,
    JoinAnswer,
    JoinProtocol,
    JoinRequest,
    Leaver,
    SyncAnswer,
    SyncRequest,
)
from kavka.coordinator.groups.decide.rebalance import Rebalance
from kavka.errors import ErrorCode

LIMITS = GroupLimits(
    min_session_timeout_ms=6_000, max_session_timeout_ms=1_800_000, initial_rebalance_delay_ms=0, max_size=3
)
SESSION_MS = 10_000
REBALANCE_MS = 30_000


class Driver:
    """A group with a clock of its own; collects answers by member name."""

    def __init__(self, limits: GroupLimits = LIMITS) -> None:
        self.now_ms = 1_000
        self.group = ClassicGroup("orders", limits, self.now_ms)
        self.joins: dict[int, JoinAnswer] = {}
        self.syncs: dict[int, SyncAnswer] = {}
        self.writes = 0
        self.replaced = ""
        self.rebalances: list[Rebalance] = []
        self._token = 0

    def join(
        self,
        member_id: str = "",
        *,
        new_id: str = "m",
        instance: str | None = None,
        protocols: tuple[str, ...] = ("range",),
        protocol_type: str = "consumer",
        known: bool = False,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        subscription: bytes = b"topics",
        skipping: bool = False,
        client: str = "client",
        host: str = "/127.0.0.1",
        reason: str = "",
    ) -> int:
        self._token += 1
        effects = Effects()
        request = JoinRequest(
            member_id,
            instance,
            client,
            host,
            session_ms,
            rebalance_ms,
            protocol_type,
            [JoinProtocol(name, subscription) for name in protocols],
            require_known_member_id=known,
            supports_skipping_assignment=skipping,
            reason=reason,
        )
        self.group.join(request, self._token, new_id, self.now_ms, effects)
        self.take(effects)
        return self._token

    def sync(
        self,
        member_id: str,
        assignments: dict[str, bytes] | None = None,
        *,
        generation: int | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> int:
        self._token += 1
        effects = Effects()
        self.group.sync(
            SyncRequest(
                member_id,
                None,
                self.group.generation if generation is None else generation,
                protocol_type,
                protocol,
                assignments or {},
            ),
            self._token,
            self.now_ms,
            effects,
        )
        self.take(effects)
        return self._token

    def written(self, error: ErrorCode = ErrorCode.NONE) -> None:
        effects = Effects()
        self.group.on_written(self.group.generation, error, self.now_ms, effects)
        self.group.on_replacement_written(self.replaced, error, self.now_ms, effects)
        self.replaced = ""
        self.take(effects)

    def leave(self, *leavers: Leaver) -> list[ErrorCode]:
        effects = Effects()
        errors = self.group.leave(leavers, self.now_ms, effects)
        self.take(effects)
        return errors

    def pass_time(self, ms: int) -> list[str]:
        self.now_ms += ms
        effects = Effects()
        removed = self.group.on_time(self.now_ms, effects)
        self.take(effects)
        return removed

    def take(self, effects: Effects) -> None:
        for token, join in effects.joins:
            assert token not in self.joins, "a join was answered twice"
            self.joins[token] = join
        for token, sync in effects.syncs:
            assert token not in self.syncs, "a sync was answered twice"
            self.syncs[token] = sync
        self.writes += effects.write_group
        self.replaced = effects.replaced or self.replaced
        self.rebalances.extend(effects.rebalances)

    def stable_with(self, *members: str) -> None:
        """Brings the group to a generation with these members."""
        for member in members:
            self.join(new_id=member)
            for other in list(self.group.members):
                if other != member:
                    self.join(other)
        leader = self.group.leader_id
        assert leader is not None
        for member in members:
            self.sync(member, {name: name.encode() for name in members} if member == leader else None)
        self.written()
        assert self.group.state is GroupState.STABLE
