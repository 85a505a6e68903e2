"""Lag policies: when a follower no longer counts as in sync.

Decides from what the leader knows of a follower (`RemoteReplica`) and the leader's log end. Must not know the ISR.

    I1  a follower whose log ends where the leader's ends is in sync under *time*, however long ago it fetched: an idle
        partition has no churn (KAFKA-7152)

*time* (KIP-16, Kafka since 0.9): a follower is out if it was not caught up for replica.lag.time.max.ms. *messages*
(Kafka 0.8): a follower is out if it is stuck (behind, and no fetch for replica.lag.time.max.ms) or slow (more than
replica.lag.max.messages behind). It is here for comparison: a burst of more records than the limit puts healthy
followers out, and on a topic with little traffic nobody notices a follower that lags.

Source: KIP-16; Kafka 0.8.2's Partition.getOutOfSyncReplicas; article 003.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kavka.model import Offset
from kavka.replication.decide.replica import NEVER_MS, RemoteReplica

TIME = "time"
MESSAGES = "messages"


class LagPolicy(Protocol):
    """Decides who lags. Pure."""

    def is_in_sync(self, replica: RemoteReplica, leader_end_offset: Offset, now_ms: int) -> bool: ...

    def why(self, replica: RemoteReplica, leader_end_offset: Offset, now_ms: int) -> str:
        """Why a follower is not in sync, with the numbers: the end of a sentence."""
        ...


class TimeLagPolicy(NamedTuple):
    """Out when it was not caught up for `max_ms`."""

    max_ms: int

    def is_in_sync(self, replica: RemoteReplica, leader_end_offset: Offset, now_ms: int) -> bool:
        return replica.log_end_offset == leader_end_offset or now_ms - replica.last_caught_up_ms <= self.max_ms

    def why(self, replica: RemoteReplica, leader_end_offset: Offset, now_ms: int) -> str:
        if replica.last_caught_up_ms == NEVER_MS:
            return f"never caught up, replica.lag.time.max.ms allows {self.max_ms} ms"
        since_ms = now_ms - replica.last_caught_up_ms
        return f"last caught up {since_ms} ms ago, replica.lag.time.max.ms allows {self.max_ms} ms"


class MessagesLagPolicy(NamedTuple):
    """Out of sync if it is stuck for `max_ms`, or more than `max_messages` behind."""

    max_ms: int
    max_messages: int

    def is_in_sync(self, replica: RemoteReplica, leader_end_offset: Offset, now_ms: int) -> bool:
        return not (self._is_stuck(replica, leader_end_offset, now_ms) or self._is_slow(replica, leader_end_offset))

    def why(self, replica: RemoteReplica, leader_end_offset: Offset, now_ms: int) -> str:
        if self._is_slow(replica, leader_end_offset):
            behind = leader_end_offset - replica.log_end_offset
            return f"is slow: {behind} records behind, kavka.replica.lag.max.messages allows {self.max_messages}"
        if replica.last_fetch_ms == NEVER_MS:
            return f"is stuck: it never fetched, replica.lag.time.max.ms allows {self.max_ms} ms"
        since_ms = now_ms - replica.last_fetch_ms
        return f"is stuck: it last fetched {since_ms} ms ago, replica.lag.time.max.ms allows {self.max_ms} ms"

    def _is_stuck(self, replica: RemoteReplica, leader_end_offset: Offset, now_ms: int) -> bool:
        return replica.log_end_offset < leader_end_offset and now_ms - replica.last_fetch_ms > self.max_ms

    def _is_slow(self, replica: RemoteReplica, leader_end_offset: Offset) -> bool:
        # A follower that has not fetched in this leader epoch says nothing of how far it is.
        return replica.log_end_offset >= 0 and leader_end_offset - replica.log_end_offset > self.max_messages


def lag_policy(name: str, *, max_ms: int, max_messages: int) -> LagPolicy:
    """The policy that `kavka.replica.lag.policy` names."""
    return MessagesLagPolicy(max_ms, max_messages) if name == MESSAGES else TimeLagPolicy(max_ms)
