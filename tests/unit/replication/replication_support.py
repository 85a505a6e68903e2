"""What the tests of replicas share: a partition on a real log, brokers that come and go, and followers that fetch."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kavka.decisions import Decision, DecisionKind
from kavka.model import BrokerId, LeaderAndIsr
from kavka.replication.decide.isr_states import IsrProposal
from kavka.replication.decide.lag_policy import LagPolicy, TimeLagPolicy
from kavka.replication.decide.partition import ACKS_ALL, Partition
from kavka.replication.decide.partition_results import (
    FollowerFetchResult,
    IsrChange,
    LeadershipChange,
    PartitionRefusal,
)
from kavka.replication.decide.partition_rules import PartitionRules
from kavka.replication.decide.replica import BrokerStatus
from tests.unit.log.log_support import NOW_MS, PARTITION, batch, new_log

TOPIC_ID = uuid.UUID(int=7)
A, B, C, D = (BrokerId(number) for number in (1, 2, 3, 4))
LAG_MS = 30_000


class Brokers:
    """Who is alive, as metadata would say."""

    def __init__(self, *alive: BrokerId) -> None:
        self.statuses = {broker_id: BrokerStatus() for broker_id in alive}

    def status(self, broker_id: BrokerId) -> BrokerStatus | None:
        return self.statuses.get(broker_id)


class NotedPartition(Partition):
    """A partition whose decisions are noted as the ReplicaManager records them."""

    def __init__(self, decisions: list[Decision], *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._decisions = decisions

    def _noting(self, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        try:
            result = call(*args, **named)
        except PartitionRefusal as refusal:
            self._decisions += refusal.decisions
            raise
        self._decisions += getattr(result, "decisions", ())
        return result

    def become_leader(self, *args: Any, **named: Any) -> Any:
        return self._noting(super().become_leader, *args, **named)

    def become_follower(self, *args: Any, **named: Any) -> Any:
        return self._noting(super().become_follower, *args, **named)

    def append_as_leader(self, *args: Any, **named: Any) -> Any:
        return self._noting(super().append_as_leader, *args, **named)

    def follower(self, *args: Any, **named: Any) -> Any:
        return self._noting(super().follower, *args, **named)

    def record_follower_fetch(self, *args: Any, **named: Any) -> Any:
        return self._noting(super().record_follower_fetch, *args, **named)

    def on_isr_committed(self, *args: Any, **named: Any) -> Any:
        return self._noting(super().on_isr_committed, *args, **named)

    def on_isr_rejected(self, *args: Any, **named: Any) -> Any:
        return self._noting(super().on_isr_rejected, *args, **named)

    def resign_if_fenced(self, now_ms: int) -> Any:
        return self._noting(super().resign_if_fenced, now_ms)


class Replica:
    """A partition of broker `own`, what it decided, and the time."""

    def __init__(
        self,
        path: Path,
        own: BrokerId = A,
        *,
        min_insync_replicas: int = 1,
        lag_policy: LagPolicy | None = None,
        holds_under_min_isr: bool = False,
    ) -> None:
        self.brokers = Brokers(A, B, C, D)
        self.decisions: list[Decision] = []
        self.now_ms = NOW_MS
        self.partition: Partition = NotedPartition(
            self.decisions,
            PARTITION,
            TOPIC_ID,
            new_log(path),
            local_broker_id=own,
            min_insync_replicas=min_insync_replicas,
            rules=PartitionRules(
                lag_policy or TimeLagPolicy(LAG_MS),
                self.brokers,
                holds_under_min_isr=holds_under_min_isr,
            ),
        )

    @property
    def high_watermark(self) -> int:
        return self.partition.log.high_watermark

    @property
    def end_offset(self) -> int:
        return self.partition.log.log_end_offset

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        """The committed ISR."""
        return self.partition.state.isr

    def lead(
        self,
        isr: Sequence[BrokerId] = (A, B, C),
        *,
        leader_epoch: int = 1,
        partition_epoch: int = 0,
        replicas: tuple[BrokerId, ...] = (A, B, C),
    ) -> LeadershipChange:
        own = self.partition.local_broker_id
        state = LeaderAndIsr(own, leader_epoch, tuple(isr), partition_epoch)
        return self.partition.become_leader(state, replicas, now_ms=self.now_ms)

    def append(self, count: int = 1, *, acks: int = ACKS_ALL) -> int:
        """Appends `count` records; the offset behind them."""
        appended = self.partition.append_as_leader(
            batch(count), required_acks=acks, now_ms=self.now_ms, wall_ms=self.now_ms
        )
        return appended.result.last_offset + 1

    def fetch(
        self, broker_id: BrokerId, offset: int | None = None, *, leader_epoch: int | None = None, broker_epoch: int = -1
    ) -> FollowerFetchResult:
        """A follower asks for `offset` (the log end), and so has everything below it."""
        partition = self.partition
        epoch = partition.leader_epoch if leader_epoch is None else leader_epoch
        partition.follower(broker_id, epoch, self.now_ms)
        end_offset = partition.log.log_end_offset
        return partition.record_follower_fetch(
            broker_id,
            broker_epoch,
            end_offset if offset is None else offset,
            leader_end_offset=end_offset,
            now_ms=self.now_ms,
        )

    def in_sync(self) -> None:
        """All followers have everything."""
        for replica in self.partition.remote_replicas():
            self.fetch(replica.broker_id)

    def commit(self, proposal: IsrProposal | None) -> IsrChange:
        """The proposal was stored."""
        assert proposal is not None
        stored = proposal.state._replace(partition_epoch=proposal.partition_epoch + 1)
        return self.partition.on_isr_committed(proposal, stored, now_ms=self.now_ms)

    def decided(self, kind: DecisionKind) -> list[Decision]:
        return [decision for decision in self.decisions if decision.kind is kind]
