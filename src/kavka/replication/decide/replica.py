"""RemoteReplica: what a leader knows of one follower, from its fetches in this leader epoch and from nothing else.

Decides when a follower was last caught up. Must not know the log, the clock, or what follows from being caught up.

    I1  a fetch that reaches the leader's log end counts as caught up now; one that reaches the log end as it was at
        the fetch before counts as caught up then (KAFKA-4485: a follower that keeps up is caught up, under any load)
    I2  nothing from before the present leader epoch counts: a replica that was removed and put back has an empty log
    I3  the time at which a replica was caught up never goes back
    I4  a replica that is idle in a fetch session was caught up at that session's last fetch: what would make it say
        something else wakes it first (idle_partitions.py)

Source: Kafka's Replica and ReplicaState; KIP-903 for broker epochs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kavka.model import NO_OFFSET, BrokerId, Offset

if TYPE_CHECKING:
    from kavka.replication.decide.idle_partitions import IdlePartition

NO_BROKER_EPOCH = -1
"""A fetch before version 15 does not say its broker's epoch; who answers questions may not know it either."""
NEVER_MS = -1 << 62
"""Before any time that a clock shows."""


class BrokerStatus(NamedTuple):
    """A live broker, at one moment. `broker_epoch` is -1 where it is not known."""

    broker_epoch: int = NO_BROKER_EPOCH
    is_shutting_down: bool = False


class ReplicaEligibility(Protocol):
    """Who may be in sync, as far as this broker knows the cluster."""

    def status(self, broker_id: BrokerId) -> BrokerStatus | None:
        """The broker's status, all of it from one snapshot (KAFKA-15221); None if it is not alive."""
        ...


class AllEligible:
    """Takes every broker for alive, because there is no cluster to ask."""

    def status(self, broker_id: BrokerId) -> BrokerStatus | None:
        return _STATUS


_STATUS = BrokerStatus()


class RemoteReplica:
    """One follower as its leader sees it. Offsets are -1 until it has fetched in this leader epoch."""

    __slots__ = (
        "_last_caught_up_ms",
        "_last_fetch_ms",
        "broker_epoch",
        "broker_id",
        "idle",
        "in_maximal_isr",
        "last_fetch_leader_end_offset",
        "log_end_offset",
        "log_start_offset",
        "sent_high_watermark",
    )

    def __init__(self, broker_id: BrokerId) -> None:
        self.broker_id = broker_id
        self.in_maximal_isr = False
        self.idle: IdlePartition | None = None
        """Where the fetches of this replica are counted meanwhile, while it is idle there."""
        self.reset(0, in_sync=False, keep_caught_up=False)

    @property
    def last_caught_up_ms(self) -> int:
        own_ms, idle = self._last_caught_up_ms, self.idle
        return own_ms if idle is None else max(own_ms, idle.partitions.fetched_ms)

    @last_caught_up_ms.setter
    def last_caught_up_ms(self, at_ms: int) -> None:
        self.wake()
        self._last_caught_up_ms = at_ms

    @property
    def last_fetch_ms(self) -> int:
        own_ms, idle = self._last_fetch_ms, self.idle
        return own_ms if idle is None else max(own_ms, idle.partitions.fetched_ms)

    @last_fetch_ms.setter
    def last_fetch_ms(self, at_ms: int) -> None:
        self.wake()
        self._last_fetch_ms = at_ms

    def wake(self) -> None:
        """The replica is idle no more: it, or what it follows, changes."""
        idle = self.idle
        if idle is not None:
            idle.partitions.wake(idle)

    def on_woken(self, fetched_ms: int) -> None:
        """The last fetch that came while it was idle was at `fetched_ms`, and found it caught up."""
        self.idle = None
        self._last_caught_up_ms = max(self._last_caught_up_ms, fetched_ms)
        self._last_fetch_ms = max(self._last_fetch_ms, fetched_ms)

    def reset(self, now_ms: int, *, in_sync: bool, keep_caught_up: bool) -> None:
        """Begins a leader epoch (I2). A member of the ISR has until `now_ms` plus the limit to show up.

        With `keep_caught_up` (the same leader goes on in another epoch) a lagging member gets no new time.
        """
        self.wake()
        self.log_start_offset: Offset = NO_OFFSET
        self.log_end_offset: Offset = NO_OFFSET
        self.last_fetch_leader_end_offset: Offset = NO_OFFSET
        self.sent_high_watermark: Offset = NO_OFFSET
        self.broker_epoch = NO_BROKER_EPOCH
        if not in_sync:
            self._last_caught_up_ms = self._last_fetch_ms = NEVER_MS
        elif not keep_caught_up or self._last_caught_up_ms == NEVER_MS:
            self._last_caught_up_ms = self._last_fetch_ms = now_ms

    def on_fetch(
        self,
        fetch_offset: Offset,
        *,
        log_start_offset: Offset,
        leader_end_offset: Offset,
        broker_epoch: int,
        now_ms: int,
    ) -> bool:
        """Takes note of a fetch. Returns whether the follower's log end moved."""
        self.wake()
        if fetch_offset >= leader_end_offset:
            self._last_caught_up_ms = max(self._last_caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end_offset >= 0:
            self._last_caught_up_ms = max(self._last_caught_up_ms, self._last_fetch_ms)
        moved = fetch_offset != self.log_end_offset
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.last_fetch_leader_end_offset = max(self.last_fetch_leader_end_offset, leader_end_offset)
        self._last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch
        return moved

    def says_the_same(
        self, fetch_offset: Offset, *, log_start_offset: Offset, leader_end_offset: Offset, broker_epoch: int
    ) -> bool:
        """Whether such a fetch, of a follower that has everything, differs from its last one in its time alone. That is
        so for nearly all partitions of nearly all fetches."""
        return (
            fetch_offset == leader_end_offset == self.log_end_offset == self.last_fetch_leader_end_offset
            and self.in_maximal_isr
            and log_start_offset == self.log_start_offset
            and broker_epoch == self.broker_epoch
        )

    def on_same_fetch(self, now_ms: int) -> None:
        """As `on_fetch` for a fetch that `says_the_same`."""
        self._last_caught_up_ms = max(self._last_caught_up_ms, now_ms)
        self._last_fetch_ms = now_ms

    def forget_caught_up(self) -> None:
        """The replica may not join. Until it fetches again nothing waits for it, because it may be dead."""
        self.wake()
        self._last_caught_up_ms = self._last_fetch_ms = NEVER_MS
        self.log_end_offset = self.last_fetch_leader_end_offset = NO_OFFSET

    def is_eligible(self, status: BrokerStatus | None) -> bool:
        """True if this replica may be in sync: alive, not shutting down, and not restarted since its last fetch
        (KIP-903)."""
        if status is None or status.is_shutting_down:
            return False
        return NO_BROKER_EPOCH in (self.broker_epoch, status.broker_epoch) or (self.broker_epoch == status.broker_epoch)
