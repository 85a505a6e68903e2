"""Where replicas go when a broker leaves, or when each partition is to have more or fewer of them.

Decides on values only. Nothing moves but what has to: unlike `client.reassignment_plan`, which spreads all replicas
anew, a replica that may stay stays. The same question gets the same answer.

I1  A partition keeps its number of replicas, or gets the one asked for, on different brokers that are alive.
I2  A new replica goes to a rack that has none of the partition's, if there is one; then to the broker with the fewest
    bytes, counting those that this plan has sent there.
I3  A replica that takes another's place takes it in the order, too: who leads by preference stays spread as it was.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kavka.model import TopicPartition

Replicas = Mapping[TopicPartition, tuple[int, ...]]


class Placed(NamedTuple):
    """Where changed partitions are to be, why there (where that was a choice), and why others cannot be."""

    after: dict[TopicPartition, tuple[int, ...]]
    impossible: dict[TopicPartition, str]
    whys: dict[TopicPartition, str]


def evacuate(
    current: Replicas,
    leaving: Collection[int],
    racks: Mapping[int, str | None],
    sizes: Mapping[TopicPartition, int],
    *,
    chosen: Collection[TopicPartition] | None = None,
    targets: Collection[int] | None = None,
) -> Placed:
    """Without the brokers `leaving`. racks: of all live brokers. current: of all partitions, for brokers' loads.
    chosen: the partitions that may move (None: all). targets: the brokers that may take a replica (None: all that
    stay)."""
    staying = {node_id: rack for node_id, rack in racks.items() if node_id not in leaving}
    load = _Load(current, staying, sizes)
    placed = Placed({}, {}, {})
    usable = [node_id for node_id in staying if targets is None or node_id in targets]
    for partition in _largest_first(current if chosen is None else {each: current[each] for each in chosen}, sizes):
        replicas = list(current[partition])
        reasons = []
        for place, node_id in enumerate(replicas):
            if node_id not in leaving:
                continue
            others = [each for each in replicas if each != node_id]
            taker = load.emptiest(others, usable)
            if taker is None:
                placed.impossible[partition] = _nobody(is_chosen=targets is not None)
                break
            reasons.append(load.reason(node_id, taker, others, usable))
            replicas[place] = taker
        else:
            if tuple(replicas) != current[partition]:
                load.place(partition, set(replicas) - set(current[partition]))
                placed.after[partition] = tuple(replicas)
                placed.whys[partition] = "; ".join(reasons)
    return placed


def with_factor(
    current: Replicas,
    chosen: Collection[TopicPartition],
    factor: int,
    racks: Mapping[int, str | None],
    sizes: Mapping[TopicPartition, int],
    in_sync: Mapping[TopicPartition, Collection[int]],
) -> Placed:
    """`factor` replicas for each chosen partition. Those on dead brokers, and those out of sync, go first."""
    load = _Load(current, racks, sizes)
    placed = Placed({}, {}, {})
    for partition in _largest_first({each: current[each] for each in chosen}, sizes):
        replicas = list(current[partition])
        while len(replicas) > factor:
            replicas.remove(_first_to_go(replicas, racks, in_sync.get(partition, ()), load))
        while len(replicas) < factor:
            added = load.emptiest(replicas, racks)
            if added is None:
                problem = f"replication factor {factor} is more than the number of live brokers, {len(racks)}"
                placed.impossible[partition] = problem
                break
            replicas.append(added)
        else:
            if tuple(replicas) != current[partition]:
                load.place(partition, set(replicas) - set(current[partition]))
                placed.after[partition] = tuple(replicas)
    return placed


def _nobody(*, is_chosen: bool) -> str:
    """Why no broker may take a replica. `is_chosen`: the brokers that may were chosen by somebody."""
    if is_chosen:
        return "every broker that may take it has a replica of it already: allow others"
    return "every live broker that stays has a replica of it already: lower its replication factor first"


def _first_to_go(
    replicas: Sequence[int], racks: Mapping[int, str | None], in_sync: Collection[int], load: _Load
) -> int:
    def ranks(node_id: int) -> tuple[bool, bool, bool, bool, int, int]:
        alone_in_rack = [racks.get(each) for each in replicas].count(racks.get(node_id)) == 1
        return (
            node_id not in racks,
            node_id not in in_sync,
            node_id != replicas[0],
            not alone_in_rack,
            load.bytes.get(node_id, 0),
            node_id,
        )

    return max(replicas, key=ranks)


class _Load:
    """What brokers hold, this plan's moves included."""

    def __init__(self, current: Replicas, racks: Mapping[int, str | None], sizes: Mapping[TopicPartition, int]) -> None:
        self.bytes = dict.fromkeys(racks, 0)
        self._counts = dict.fromkeys(racks, 0)
        self._racks = racks
        self._sizes = sizes
        for partition, replicas in current.items():
            self.place(partition, replicas)

    def place(self, partition: TopicPartition, node_ids: Collection[int]) -> None:
        for node_id in node_ids:
            if node_id in self.bytes:
                self.bytes[node_id] += self._sizes.get(partition, 0)
                self._counts[node_id] += 1

    def emptiest(self, taken: Collection[int], allowed: Collection[int]) -> int | None:
        """The allowed broker, without a replica yet, that a replica beside `taken` best goes to."""
        racks = {self._racks.get(each) for each in taken} - {None}
        free = [node_id for node_id in allowed if node_id not in taken]
        if not free:
            return None
        return min(
            free,
            key=lambda each: (self._racks.get(each) in racks, self.bytes[each], self._counts[each], each),
        )

    def reason(self, leaving: int, taker: int, taken: Collection[int], allowed: Collection[int]) -> str:
        """Why `emptiest` chose `taker`, in the words of an operator."""
        free = [node_id for node_id in allowed if node_id not in taken]
        if len(free) == 1:
            return f"broker {taker} takes the place of broker {leaving}: no other broker may"
        racks = {self._racks.get(each) for each in taken} - {None}
        best = [node_id for node_id in free if self._racks.get(node_id) not in racks]
        size = f"{self.bytes[taker]:,}"
        if racks and taker in best and len(best) < len(free):
            return (
                f"broker {taker} takes the place of broker {leaving}: rack {self._racks[taker]} has no replica of it, "
                f"and of {len(best)} brokers there it holds the least, {size} bytes"
            )
        return (
            f"broker {taker} takes the place of broker {leaving}: of {len(free)} brokers that may it holds the least, "
            f"{size} bytes"
        )


def _largest_first(current: Replicas, sizes: Mapping[TopicPartition, int]) -> list[TopicPartition]:
    return sorted(current, key=lambda partition: (-sizes.get(partition, 0), partition))
