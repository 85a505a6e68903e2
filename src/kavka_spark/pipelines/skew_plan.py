"""SkewPlan: which replicas to move so that brokers hold about the same number of bytes, with as little moved as helps.

Decides on values only: bytes of partitions and where their replicas are. `client.reassignment_plan` evens out numbers
of replicas; this evens out bytes, which is what a skewed topic needs. Must not know where the bytes were counted.

    1. while the fullest and the emptiest broker are further apart than `tolerance` of the mean: of the fullest's
       replicas that the emptiest has not, the one moves that leaves the two closest together; none that would not
       bring them closer
    2. leadership by preference is turned, within a partition's replicas, to the broker with the fewest bytes led, where
       that helps

I1  Every partition keeps its number of replicas, on different brokers.
I2  No step makes the spread between fullest and emptiest larger.
I3  The same question has the same answer.

Source: `kafka-reassign-partitions` for the JSON; greedy, as LinkedIn's Cruise Control does it for one resource.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kavka.client.reassignment_plan import compare, to_json
from kavka.model import TopicPartition

Replicas = Mapping[TopicPartition, Sequence[int]]

TOLERANCE: Final = 0.05
"""A share of the mean of bytes per broker. Brokers that differ by less count as even."""
MAX_MOVES: Final = 1_000


class BrokerEffect(NamedTuple):
    """One broker, before and after: bytes of its replicas and bytes of the partitions that it leads by preference."""

    broker: int
    bytes_before: int
    bytes_after: int
    led_bytes_before: int
    led_bytes_after: int


class SkewPlan(NamedTuple):
    """`json` is Kafka's, empty where nothing is to be moved; `bytes_moved` is what brokers will copy."""

    json: str
    effects: list[BrokerEffect]
    moves: dict[TopicPartition, tuple[int, ...]]
    bytes_moved: int


def plan_by_bytes(
    replicas: Replicas, sizes: Mapping[TopicPartition, int], brokers: Sequence[int], *, tolerance: float = TOLERANCE
) -> SkewPlan:
    """The plan. A partition whose bytes nobody counted weighs nothing and stays where it is."""
    after = {partition: list(owners) for partition, owners in sorted(replicas.items())}
    everybody = sorted({*brokers, *(broker for owners in after.values() for broker in owners)})
    _even_out(after, sizes, everybody, sorted(set(brokers)), tolerance)
    _turn_leaders(after, sizes, everybody)
    before = {partition: tuple(owners) for partition, owners in replicas.items()}
    moves = {partition: tuple(owners) for partition, owners in after.items() if tuple(owners) != before[partition]}
    effects = [
        BrokerEffect(broker, *both)
        for broker, *both in zip(
            everybody,
            _held(before, sizes, everybody).values(),
            _held(after, sizes, everybody).values(),
            _led(before, sizes, everybody).values(),
            _led(after, sizes, everybody).values(),
            strict=True,
        )
    ]
    moved = compare({each: before[each] for each in moves}, moves, sizes).bytes_moved
    return SkewPlan(to_json(moves) if moves else "", effects, moves, moved)


def _even_out(
    after: dict[TopicPartition, list[int]],
    sizes: Mapping[TopicPartition, int],
    everybody: Sequence[int],
    allowed: Sequence[int],
    tolerance: float,
) -> None:
    held = _held(after, sizes, everybody)
    for _ in range(MAX_MOVES):
        fullest = max(everybody, key=lambda broker: (held[broker], -broker))
        emptiest = min(allowed, key=lambda broker: (held[broker], broker))
        gap = held[fullest] - held[emptiest]
        if gap <= tolerance * sum(held.values()) / len(everybody):
            return
        # What is moved changes the gap by twice its size: half of the gap is best.
        candidates = [
            (abs(gap - 2 * sizes.get(partition, 0)), partition)
            for partition, owners in after.items()
            if fullest in owners and emptiest not in owners and 0 < sizes.get(partition, 0) < gap
        ]
        if not candidates:
            return
        _, partition = min(candidates)
        after[partition] = [emptiest if broker == fullest else broker for broker in after[partition]]
        held[fullest] -= sizes[partition]
        held[emptiest] += sizes[partition]


def _turn_leaders(
    after: dict[TopicPartition, list[int]], sizes: Mapping[TopicPartition, int], everybody: Sequence[int]
) -> None:
    led = _led(after, sizes, everybody)
    by_size = sorted(after, key=lambda partition: (-sizes.get(partition, 0), partition))
    for partition in by_size:
        size, owners = sizes.get(partition, 0), after[partition]
        if not owners:
            continue
        leader = owners[0]
        best = min(owners, key=lambda broker: (led[broker], owners.index(broker)))
        if led[best] + size < led[leader]:
            after[partition] = [best, *(broker for broker in owners if broker != best)]
            led[leader] -= size
            led[best] += size


def _held(replicas: Replicas, sizes: Mapping[TopicPartition, int], brokers: Sequence[int]) -> dict[int, int]:
    held = dict.fromkeys(brokers, 0)
    for partition, owners in replicas.items():
        for broker in owners:
            held[broker] += sizes.get(partition, 0)
    return held


def _led(replicas: Replicas, sizes: Mapping[TopicPartition, int], brokers: Sequence[int]) -> dict[int, int]:
    led = dict.fromkeys(brokers, 0)
    for partition, owners in replicas.items():
        if owners:
            led[owners[0]] += sizes.get(partition, 0)
    return led
