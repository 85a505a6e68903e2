"""Workload: what producers write and what ails the followers while a lag policy is watched.

Decides which followers are healthy: nothing ails them, or nothing that lasts longer than `PATIENCE_MS`. Must not know
any policy, lest one of them be the yardstick.

    I1  a healthy follower that is thrown out is a false alarm; one that is ailing for longer is to be found

Source: article 003 (three causes of lag; bursts; two topics of very different traffic).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from kavka.model import BrokerId

LEADER: Final = BrokerId(1)
FOLLOWERS: Final = (BrokerId(2), BrokerId(3))
REPLICAS: Final = (LEADER, *FOLLOWERS)

PATIENCE_MS: Final = 10_000
"""How long a follower may lag before its operator wants it out: replica.lag.time.max.ms as the article has it."""


class AilmentKind(Enum):
    """The article's three causes of lag, and the pause that is none."""

    SLOW = "slow"
    STUCK = "stuck"
    PAUSES = "pauses"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class Ailment:
    """What a follower suffers from `from_ms` to `until_ms`, on one topic or on all.

    SLOW takes `records_per_s` in; PAUSES stands still for `pause_ms` every `every_ms`; NEW begins with an empty log
    `behind` records behind.
    """

    kind: AilmentKind
    follower: BrokerId
    from_ms: int
    until_ms: int
    topic: str | None = None
    records_per_s: int = 0
    pause_ms: int = 0
    every_ms: int = 0
    behind: int = 0

    @property
    def is_to_be_found(self) -> bool:
        """Whether it lasts so long that the follower should leave the ISR. A new one is not in it."""
        return self.kind in (AilmentKind.SLOW, AilmentKind.STUCK) and self.until_ms - self.from_ms > PATIENCE_MS

    @property
    def excuses(self) -> bool:
        """Whether a follower that has it is not healthy."""
        return self.kind is AilmentKind.NEW or self.is_to_be_found

    def concerns(self, follower: BrokerId, topic: str) -> bool:
        return follower == self.follower and self.topic in (None, topic)


@dataclass(frozen=True, slots=True)
class Traffic:
    """`records` at once into partition 0 of `topic`, every `every_ms` give or take `jitter_ms`."""

    topic: str
    records: int
    every_ms: int
    jitter_ms: int = 0

    @property
    def records_per_s(self) -> float:
        return self.records * 1000 / self.every_ms


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    what: str
    traffic: tuple[Traffic, ...]
    ailments: tuple[Ailment, ...] = ()


def articles_example(minutes: float = 10) -> tuple[Workload, ...]:
    """The small numbers with which article 003 explains: not part of the comparison, to be asked for by name, with
    `messages:4`. Followers stand still for 100 ms (its Full GC) often enough that the leader's timer finds them so."""
    end_ms = round(minutes * 60_000)
    pauses = tuple(
        Ailment(AilmentKind.PAUSES, follower, 0, end_ms, pause_ms=100, every_ms=every_ms)
        for follower, every_ms in zip(FOLLOWERS, (211, 223), strict=True)
    )
    return tuple(
        Workload(
            f"batches-of-{records}",
            f"{records} records at once, ten times a second; followers that often stand still for 100 ms",
            (Traffic("orders", records, 100, 20),),
            pauses,
        )
        for records in (1, 2, 5)
    )


def workloads(minutes: float = 10) -> tuple[Workload, ...]:
    """The workloads of the comparison, each `minutes` long."""
    end_ms = round(minutes * 60_000)
    early, late = end_ms // 5, end_ms * 3 // 5
    third = FOLLOWERS[1]
    steady = Traffic("orders", 100, 100, 20)
    bursts = Traffic("orders", 5_000, 2_000, 1_000)
    return (
        Workload("steady", "1,000 records/s, healthy followers", (steady,)),
        Workload("bursts", "5,000 records at once every 1 to 3 s, healthy followers", (bursts,)),
        Workload(
            "two-topics",
            "bursts of 5,000 on orders; 10 records/s on audit, where broker 3 takes in 8 records/s only",
            (bursts, Traffic("audit", 10, 1_000, 100)),
            (Ailment(AilmentKind.SLOW, third, early, end_ms, topic="audit", records_per_s=8),),
        ),
        Workload(
            "slow-follower",
            "1,000 records/s, broker 3 takes in 500 records/s for a while",
            (steady,),
            (Ailment(AilmentKind.SLOW, third, early, late, records_per_s=500),),
        ),
        Workload(
            "stuck-follower",
            "1,000 records/s, broker 3 does not fetch for a while",
            (steady,),
            (Ailment(AilmentKind.STUCK, third, early, late),),
        ),
        Workload(
            "gc-pauses",
            "12,000 records/s, the followers stand still for 500 ms every 7 or 9 s",
            (Traffic("orders", 1_200, 100, 20),),
            tuple(
                Ailment(AilmentKind.PAUSES, follower, 0, end_ms, pause_ms=500, every_ms=every_ms)
                for follower, every_ms in zip(
                    FOLLOWERS, (7_013, 9_029), strict=True
                )  # no common beat with the leader's timer
            ),
        ),
        Workload(
            "new-follower",
            "1,000 records/s, broker 3 is new and has 200,000 records to copy",
            (steady,),
            (Ailment(AilmentKind.NEW, third, 0, end_ms, behind=200_000),),
        ),
    )
