"""What the tests of replicas share: a partition on a real log, brokers that come and go, and followers that fetch."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

from log_support import NOW_MS, PARTITION, batch, new_log

from kavka.decisions import Decision, DecisionKind
from kavka.model import BrokerId, LeaderAndIsr
from kavka.replication.decide.isr import IsrProposal
from kavka.replication.decide.lag_policy import LagPolicy, TimeLagPolicy
from kavka.replication.decide.partition import (
    ACKS_ALL,
    FollowerFetchResult,
    IsrChange,
    LeadershipChange,
    Partition,
    PartitionRules,
)
from kavka.replication.decide.replica import BrokerStanding

TOPIC_ID = uuid.UUID(int=7)
A, B, C, D = (BrokerId(number) for number in (1, 2, 3, 4))
LAG_MS = 30_000


class Brokers:
    """Who is alive, as metadata would say."""

    def __init__(self, *alive: BrokerId) -> None:
        self.standings = {broker_id: BrokerStanding() for broker_id in alive}

    def standing(self, broker_id: BrokerId) -> BrokerStanding | None:
        return self.standings.get(broker_id)


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
        self.partition = Partition(
            PARTITION,
            TOPIC_ID,
            new_log(path),
            local_broker_id=own,
            min_insync_replicas=min_insync_replicas,
            rules=PartitionRules(
                lag_policy or TimeLagPolicy(LAG_MS),
                self.brokers,
                self.decisions.append,
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
