"""RemoteReplica: what a leader knows of one follower, from its fetches in this leader epoch and from nothing else.

Decides when a follower was last caught up. Must not know the log, the clock, or what follows from being caught up.

    I1  a fetch that reaches the leader's log end counts as caught up now; one that reaches the log end as it was at
        the fetch before counts as caught up then (KAFKA-4485: a follower that keeps up is caught up, under any load)
    I2  nothing from before the present leader epoch counts: a replica that was removed and put back has an empty log
    I3  the time at which a replica was caught up never goes back

Source: Kafka's Replica and ReplicaState; KIP-903 for broker epochs.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kavka.model import NO_OFFSET, BrokerId, Offset

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
        "broker_epoch",
        "broker_id",
        "in_maximal_isr",
        "last_caught_up_ms",
        "last_fetch_leader_end_offset",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
        "sent_high_watermark",
    )

    def __init__(self, broker_id: BrokerId) -> None:
        self.broker_id = broker_id
        self.in_maximal_isr = False
        self.reset(0, in_sync=False, keep_caught_up=False)

    def reset(self, now_ms: int, *, in_sync: bool, keep_caught_up: bool) -> None:
        """Begins a leader epoch (I2). A member of the ISR has until `now_ms` plus the limit to show up.

        With `keep_caught_up` (the same leader goes on in another epoch) a lagging member gets no new time.
        """
        self.log_start_offset: Offset = NO_OFFSET
        self.log_end_offset: Offset = NO_OFFSET
        self.last_fetch_leader_end_offset: Offset = NO_OFFSET
        self.sent_high_watermark: Offset = NO_OFFSET
        self.broker_epoch = NO_BROKER_EPOCH
        if not in_sync:
            self.last_caught_up_ms = self.last_fetch_ms = NEVER_MS
        elif not keep_caught_up or self.last_caught_up_ms == NEVER_MS:
            self.last_caught_up_ms = self.last_fetch_ms = now_ms

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
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end_offset >= 0:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        moved = fetch_offset != self.log_end_offset
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.last_fetch_leader_end_offset = max(self.last_fetch_leader_end_offset, leader_end_offset)
        self.last_fetch_ms = now_ms
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
        self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        self.last_fetch_ms = now_ms

    def forget_caught_up(self) -> None:
        """The replica may not join. Until it fetches again nothing waits for it, because it may be dead."""
        self.last_caught_up_ms = self.last_fetch_ms = NEVER_MS
        self.log_end_offset = self.last_fetch_leader_end_offset = NO_OFFSET

    def is_eligible(self, status: BrokerStatus | None) -> bool:
        """True if this replica may be in sync: alive, not shutting down, and not restarted since its last fetch
        (KIP-903)."""
        if status is None or status.is_shutting_down:
            return False
        return NO_BROKER_EPOCH in (self.broker_epoch, status.broker_epoch) or (self.broker_epoch == status.broker_epoch)
