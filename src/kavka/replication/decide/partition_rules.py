"""PartitionRules: what holds for all partitions of a broker, and is given to each. Decides nothing."""

from __future__ import annotations

from dataclasses import dataclass

from kavka.replication.decide.lag_policy import LagPolicy, TimeLagPolicy
from kavka.replication.decide.replica import AllEligible, ReplicaEligibility


@dataclass(frozen=True, slots=True)
class PartitionRules:
    """What holds for all partitions of a broker. `holds_under_min_isr` is kavka.eligible.leader.replicas.enable."""

    lag_policy: LagPolicy = TimeLagPolicy(30_000)  # noqa: RUF009 - has no state - an immutable value
    eligibility: ReplicaEligibility = AllEligible()  # noqa: RUF009 - has no state
    holds_under_min_isr: bool = False
