"""JobPlan: what a job would do, before anybody agrees to it: moves, bytes, time, and what could go wrong.

Decides on values only: an `Inventory` of the cluster in, a plan out. Must not know how a cluster is asked nor how a job
is carried out.

How long copying takes is predicted per broker: what it takes in, and what it sends, each at the throttle, less what
producers write to the moved partitions meanwhile, which is copied too. The slowest broker counts. It is a lower bound:
disks and networks may be slower than the throttle.

Source: KIP-73 (what a throttle counts), KIP-455; article 001 for what an ISR at its minimum means.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from kavka.client.reassignment_plan import PlannedBroker, plan, to_json
from kavka.console.jobs.placement import evacuate, with_factor
from kavka.model import TopicPartition


class JobKind(Enum):
    REASSIGN = "reassign"
    REPLICATION_FACTOR = "replication-factor"
    DECOMMISSION = "decommission"
    MOVE = "move"
    """What an operator chose, partition by partition."""
    ELECTION = "elect"


class PartitionFacts(NamedTuple):
    """A partition as the plan found it."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    min_insync_replicas: int = 1
    size_bytes: int = 0
    """Of its largest replica."""
    in_bytes_per_s: float = 0.0


class BrokerFacts(NamedTuple):
    """A live broker. `usable_bytes` is None if it does not report it."""

    rack: str | None = None
    usable_bytes: int | None = None


class Inventory(NamedTuple):
    """A cluster at one moment. `under_way`: partitions that are being reassigned already."""

    partitions: Mapping[TopicPartition, PartitionFacts]
    brokers: Mapping[int, BrokerFacts]
    under_way: frozenset[TopicPartition] = frozenset()


class Move(NamedTuple):
    """One partition. For an election `before` and `after` are one broker each: who leads and who is to."""

    partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    bytes_copied: int = 0
    why: str = ""
    """Why there, where the plan chose the place."""

    @property
    def adding(self) -> tuple[int, ...]:
        return tuple(each for each in self.after if each not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        return tuple(each for each in self.before if each not in self.after)


class Skipped(NamedTuple):
    partition: TopicPartition
    why: str


class Risk(NamedTuple):
    """`level` is bad or warn."""

    level: str
    what: str
    partitions: tuple[TopicPartition, ...] = ()


class BrokerEffect(NamedTuple):
    """What the job does to one broker. Preferred: partitions of which it is the first replica."""

    broker: int
    replicas_before: int
    replicas_after: int
    preferred_before: int
    preferred_after: int
    bytes_in: int
    bytes_out: int


class JobPlan(NamedTuple):
    kind: JobKind
    title: str
    moves: tuple[Move, ...]
    skipped: tuple[Skipped, ...]
    risks: tuple[Risk, ...]
    effects: tuple[BrokerEffect, ...]
    duration_s: float | None
    """At the throttle; None without one, and infinite where producers write more than the throttle lets through."""

    @property
    def bytes_copied(self) -> int:
        return sum(move.bytes_copied for move in self.moves)


class Impossible(ValueError):
    """There is no such plan; the message says why and what to do."""


# --------------------------------------------------------------------------------------------------------------- plans


def plan_reassign(
    found: Inventory, topics: Collection[str], brokers: Collection[int], *, throttle: int | None
) -> JobPlan:
    """Spreads the topics' replicas evenly over the brokers (none named: all that are alive)."""
    chosen = _chosen(found, topics)
    wanted = sorted(brokers) or sorted(found.brokers)
    _refuse_dead(found, wanted)
    usable, skipped = _movable(found, chosen)
    try:
        made = plan(
            {partition: found.partitions[partition].replicas for partition in usable},
            [PlannedBroker(node_id, found.brokers[node_id].rack) for node_id in wanted],
            _sizes(found),
        )
    except ValueError as problem:
        raise Impossible(f"{problem}: name more brokers") from problem
    title = f"Reassign {_topics(topics)} over brokers {', '.join(map(str, wanted))}"
    return _complete(JobKind.REASSIGN, title, found, made.moves, skipped, throttle)


def plan_replication_factor(found: Inventory, topics: Collection[str], factor: int, *, throttle: int | None) -> JobPlan:
    if not 0 < factor <= len(found.brokers):
        raise Impossible(f"replication factor {factor} is more than the number of live brokers, {len(found.brokers)}")
    usable, skipped = _movable(found, _chosen(found, topics))
    placed = with_factor(
        _replicas(found),
        usable,
        factor,
        {node_id: broker.rack for node_id, broker in found.brokers.items()},
        _sizes(found),
        {partition: facts.in_sync for partition, facts in found.partitions.items()},
    )
    skipped += [Skipped(partition, why) for partition, why in sorted(placed.impossible.items())]
    title = f"Replication factor {factor} for {_topics(topics)}"
    return _complete(JobKind.REPLICATION_FACTOR, title, found, placed.after, skipped, throttle)


def plan_decommission(found: Inventory, broker: int, *, throttle: int | None) -> JobPlan:
    """Moves every replica off a broker, alive or dead; nothing else moves."""
    chosen = [partition for partition, facts in found.partitions.items() if broker in facts.replicas]
    if not chosen:
        raise Impossible(f"broker {broker} holds no replica: it can be stopped")
    usable, skipped = _movable(found, chosen)
    racks = {node_id: facts.rack for node_id, facts in found.brokers.items()}
    if not set(racks) - {broker}:
        raise Impossible(f"there is no other live broker than {broker}")
    placed = evacuate(_replicas(found), {broker}, racks, _sizes(found))
    after = {partition: placed.after[partition] for partition in usable if partition in placed.after}
    skipped += [Skipped(partition, placed.impossible[partition]) for partition in usable if partition not in after]
    title = f"Decommission broker {broker}"
    return _explained(_complete(JobKind.DECOMMISSION, title, found, after, skipped, throttle), placed.whys)


def plan_off(
    found: Inventory,
    broker: int,
    chosen: Collection[TopicPartition],
    targets: Collection[int],
    *,
    throttle: int | None,
) -> JobPlan:
    """Moves the chosen partitions' replicas off a broker, alive or dead, to brokers of `targets` (none named: any)."""
    _refuse_unknown(found, chosen)
    elsewhere = sorted(partition for partition in chosen if broker not in found.partitions[partition].replicas)
    if elsewhere:
        raise Impossible(f"broker {broker} holds no replica of {elsewhere[0]}")
    if not chosen:
        raise Impossible("choose at least one partition")
    _refuse_dead(found, sorted(targets))
    usable, skipped = _movable(found, chosen)
    racks = {node_id: facts.rack for node_id, facts in found.brokers.items()}
    if not (set(targets) or set(racks)) - {broker}:
        raise Impossible(f"there is no other live broker than {broker}")
    placed = evacuate(_replicas(found), {broker}, racks, _sizes(found), chosen=usable, targets=targets or None)
    skipped += [Skipped(partition, why) for partition, why in sorted(placed.impossible.items())]
    title = f"Move {len(chosen)} replicas off broker {broker}"
    if len(chosen) == 1:
        title = f"Move 1 replica off broker {broker}"
    return _explained(_complete(JobKind.MOVE, title, found, placed.after, skipped, throttle), placed.whys)


def plan_as_said(
    found: Inventory, wanted: Mapping[TopicPartition, tuple[int, ...]], *, title: str = "", throttle: int | None
) -> JobPlan:
    """Each partition's replicas as somebody says, the preferred leader first. What stands so already is left out."""
    _refuse_unknown(found, wanted)
    _refuse_misnamed(found, wanted)
    changed = {each: replicas for each, replicas in wanted.items() if replicas != found.partitions[each].replicas}
    usable, skipped = _movable(found, changed)
    after = {partition: changed[partition] for partition in usable}
    whys = {
        partition: f"only the order changes: broker {replicas[0]} is preferred, and nothing is copied"
        for partition, replicas in after.items()
        if set(replicas) == set(found.partitions[partition].replicas)
    }
    title = title or f"Other replicas for {_topics({partition.topic for partition in changed})}"
    made = _explained(_complete(JobKind.MOVE, title, found, after, skipped, throttle), whys)
    other = tuple(move.partition for move in made.moves if len(move.before) != len(move.after))
    if not other:
        return made
    return made._replace(risks=(*made.risks, Risk("warn", "have another number of replicas afterwards", other)))


def _refuse_misnamed(found: Inventory, wanted: Mapping[TopicPartition, tuple[int, ...]]) -> None:
    """Raises Impossible for a partition with no broker, one broker twice, or a broker that is not alive."""
    for partition, replicas in sorted(wanted.items()):
        if not replicas:
            raise Impossible(f"{partition}: name at least one broker")
        twice = [each for place, each in enumerate(replicas) if each in replicas[:place]]
        if twice:
            raise Impossible(f"{partition}: broker {twice[0]} is named twice")
        dead = [each for each in replicas if each not in {*found.brokers, *found.partitions[partition].replicas}]
        if dead:
            raise Impossible(f"{partition}: there is no live broker {dead[0]}")


def plan_undo(found: Inventory, number: int, moves: Collection[Move], *, throttle: int | None) -> JobPlan:
    """Back to where `moves`, which job `number` has made, found the partitions. Who has moved one since then meant it:
    such a partition is left where it is."""
    wanted, skipped = {}, []
    for move in sorted(moves):
        facts = found.partitions.get(move.partition)
        dead = [each for each in move.before if each not in {*found.brokers, *(facts.replicas if facts else ())}]
        if facts is None:
            skipped.append(Skipped(move.partition, "its topic was deleted"))
        elif facts.replicas != move.after:
            skipped.append(Skipped(move.partition, "somebody has moved it since"))
        elif dead:
            skipped.append(Skipped(move.partition, f"broker {dead[0]}, to which it would go back, is not alive"))
        else:
            wanted[move.partition] = move.before
    made = plan_as_said(found, wanted, title=f"Undo job {number}", throttle=throttle)
    return made._replace(skipped=tuple(sorted((*made.skipped, *skipped))))


def plan_election(found: Inventory, topics: Collection[str]) -> JobPlan:
    """Preferred replicas lead again (no topic named: of all)."""
    moves, skipped = [], []
    for partition in _chosen(found, topics) if topics else sorted(found.partitions):
        facts = found.partitions[partition]
        preferred = facts.replicas[0]
        if facts.leader == preferred:
            continue
        if preferred not in found.brokers:
            skipped.append(Skipped(partition, f"its preferred leader, broker {preferred}, is not alive"))
        elif preferred not in facts.in_sync:
            skipped.append(Skipped(partition, f"its preferred leader, broker {preferred}, is not in sync"))
        else:
            moves.append(Move(partition, (facts.leader,), (preferred,)))
    leading = _count(facts.leader for facts in found.partitions.values())
    after = dict(leading)
    for move in moves:
        after[move.before[0]] = after.get(move.before[0], 0) - 1
        after[move.after[0]] = after.get(move.after[0], 0) + 1
    effects = tuple(
        BrokerEffect(each, 0, 0, leading.get(each, 0), after.get(each, 0), 0, 0) for each in sorted(found.brokers)
    )
    return JobPlan(
        JobKind.ELECTION,
        f"Preferred leaders for {_topics(topics)}",
        tuple(moves),
        tuple(skipped),
        (),
        effects,
        0.0,
    )


def duration_s(moves: Sequence[Move], found: Inventory, throttle: int | None) -> float | None:
    """How long copying takes at the least, at `throttle` bytes per second for each broker."""
    if throttle is None:
        return None
    incoming, outgoing = _traffic(moves, found)
    longest = 0.0
    for loads in (incoming, outgoing):
        for size, rate in loads.values():
            if not size and not rate:
                continue
            left = throttle - rate
            longest = max(longest, size / left if left > 0 else float("inf"))
    return longest


# ------------------------------------------------------------------------------------------------------------ in common


def _complete(
    kind: JobKind,
    title: str,
    found: Inventory,
    after: Mapping[TopicPartition, tuple[int, ...]],
    skipped: list[Skipped],
    throttle: int | None,
) -> JobPlan:
    moves = []
    for partition, replicas in sorted(after.items()):
        facts = found.partitions[partition]
        if len(replicas) < facts.min_insync_replicas:
            why = f"replication factor {len(replicas)} is below its min.insync.replicas of {facts.min_insync_replicas}"
            skipped.append(Skipped(partition, f"{why}: lower that first"))
            continue
        new = sum(each not in facts.replicas for each in replicas)
        moves.append(Move(partition, facts.replicas, replicas, new * facts.size_bytes))
    return JobPlan(
        kind,
        title,
        tuple(moves),
        tuple(sorted(skipped)),
        tuple(_risks(moves, found, throttle)),
        tuple(_effects(moves, found)),
        duration_s(moves, found, throttle),
    )


def _explained(made: JobPlan, whys: Mapping[TopicPartition, str]) -> JobPlan:
    return made._replace(moves=tuple(move._replace(why=whys.get(move.partition, "")) for move in made.moves))


def _risks(moves: Sequence[Move], found: Inventory, throttle: int | None) -> Iterable[Risk]:
    blocked, at_limit, tight, single, same_rack = [], [], [], [], []
    for move in moves:
        facts = found.partitions[move.partition]
        alive = [each for each in facts.in_sync if each in found.brokers]
        if len(alive) < facts.min_insync_replicas:
            blocked.append(move.partition)
        elif len(alive) == facts.min_insync_replicas and len(facts.replicas) > len(alive):
            at_limit.append(move.partition)
        if len(move.after) == 1:
            single.append(move.partition)
        elif len(move.after) == facts.min_insync_replicas:
            tight.append(move.partition)
        racks = [found.brokers[each].rack for each in move.after if each in found.brokers]
        before = [found.brokers[each].rack for each in facts.replicas if each in found.brokers]
        if None not in racks and len(set(racks)) < min(len(set(before)), len(racks)):
            same_rack.append(move.partition)
    if blocked:
        text = "have fewer replicas in sync than min.insync.replicas now: writes with acks=all are refused already"
        yield Risk("bad", text, tuple(blocked))
    if at_limit:
        text = (
            "have exactly min.insync.replicas in sync now: one more replica that falls behind while copying takes "
            "bandwidth, and writes with acks=all are refused"
        )
        yield Risk("warn", text, tuple(at_limit))
    if single:
        yield Risk("warn", "have one replica afterwards: the loss of its disk loses them", tuple(single))
    if tight:
        text = "have as many replicas as min.insync.replicas afterwards: no broker may be down without refused writes"
        yield Risk("warn", text, tuple(tight))
    if same_rack:
        yield Risk("warn", "are spread over fewer racks afterwards", tuple(same_rack))
    incoming, outgoing = _traffic(moves, found)
    for node_id, (size, _) in sorted(incoming.items()):
        usable = found.brokers[node_id].usable_bytes if node_id in found.brokers else None
        if usable is not None and size > usable:
            yield Risk("bad", f"Broker {node_id} takes in {size:,} bytes and has {usable:,} free: its disk would fill.")
    if throttle is not None:
        for loads, word in ((incoming, "takes in"), (outgoing, "sends")):
            for node_id, (_, rate) in sorted(loads.items()):
                if rate >= throttle:
                    text = f"Broker {node_id} {word} {rate:,.0f} bytes/s of new records of what moves"
                    yield Risk("bad", f"{text}, no less than the throttle: it would never catch up.")


def _effects(moves: Sequence[Move], found: Inventory) -> Iterable[BrokerEffect]:
    now = _replicas(found)
    later = {**now, **{move.partition: move.after for move in moves}}
    incoming, outgoing = _traffic(moves, found)
    counts = [_count(each for replicas in state.values() for each in replicas) for state in (now, later)]
    first = [_count(replicas[0] for replicas in state.values() if replicas) for state in (now, later)]
    for node_id in sorted({*found.brokers, *counts[0], *counts[1]}):
        yield BrokerEffect(
            node_id,
            counts[0].get(node_id, 0),
            counts[1].get(node_id, 0),
            first[0].get(node_id, 0),
            first[1].get(node_id, 0),
            int(incoming.get(node_id, (0, 0.0))[0]),
            int(outgoing.get(node_id, (0, 0.0))[0]),
        )


def _traffic(
    moves: Sequence[Move], found: Inventory
) -> tuple[dict[int, tuple[int, float]], dict[int, tuple[int, float]]]:
    """(bytes, bytes per second of new records) that each broker takes in, and that each sends as leader."""
    incoming: dict[int, tuple[int, float]] = {}
    outgoing: dict[int, tuple[int, float]] = {}
    for move in moves:
        facts = found.partitions[move.partition]
        for node_id in move.adding:
            for loads, who in ((incoming, node_id), (outgoing, facts.leader)):
                size, rate = loads.get(who, (0, 0.0))
                loads[who] = (size + facts.size_bytes, rate + facts.in_bytes_per_s)
    return incoming, outgoing


def _movable(found: Inventory, chosen: Iterable[TopicPartition]) -> tuple[list[TopicPartition], list[Skipped]]:
    usable, skipped = [], []
    for partition in sorted(chosen):
        facts = found.partitions[partition]
        if partition in found.under_way:
            skipped.append(Skipped(partition, "it is already being reassigned"))
        elif facts.leader not in found.brokers:
            skipped.append(Skipped(partition, "it has no leader: there is nothing to copy from"))
        else:
            usable.append(partition)
    return usable, skipped


def _chosen(found: Inventory, topics: Collection[str]) -> list[TopicPartition]:
    chosen = sorted(partition for partition in found.partitions if partition.topic in topics)
    missing = sorted(set(topics) - {partition.topic for partition in chosen})
    if missing:
        raise Impossible(f"there is no topic {', '.join(missing[:5])}")
    if not chosen:
        raise Impossible("name at least one topic")
    return chosen


def _refuse_unknown(found: Inventory, chosen: Iterable[TopicPartition]) -> None:
    for partition in chosen:
        if partition not in found.partitions:
            raise Impossible(f"there is no partition {partition}")


def _refuse_dead(found: Inventory, wanted: Iterable[int]) -> None:
    dead = [node_id for node_id in wanted if node_id not in found.brokers]
    if dead:
        raise Impossible(f"there is no live broker {', '.join(map(str, dead))}")


def _sizes(found: Inventory) -> dict[TopicPartition, int]:
    return {partition: facts.size_bytes for partition, facts in found.partitions.items()}


def _replicas(found: Inventory) -> dict[TopicPartition, tuple[int, ...]]:
    return {partition: facts.replicas for partition, facts in found.partitions.items()}


def _count(values: Iterable[int]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return counts


def _topics(topics: Collection[str]) -> str:
    names = sorted(topics)
    if not names:
        return "all topics"
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


# ------------------------------------------------------------------------------------------------------- command lines


def plan_file(moves: Iterable[Move]) -> str:
    """The JSON that `kavka reassign execute` and Kafka's tool take."""
    return to_json({move.partition: move.after for move in moves})


def undo_file(moves: Iterable[Move]) -> str:
    return to_json({move.partition: move.before for move in moves})


def command_lines(kind: JobKind, bootstrap: str, moves: Sequence[Move], throttle: int | None) -> list[str]:
    """What does the same: kavka's own command, then Kafka's."""
    if kind is JobKind.ELECTION:
        topics = sorted({move.partition.topic for move in moves})
        own = [f"kavka elect -b {bootstrap} --topic {topic}" for topic in topics[:5]]
        kafkas = f"kafka-leader-election.sh --bootstrap-server {bootstrap} --election-type preferred"
        return [*own, f"{kafkas} --path-to-json-file partitions.json"]
    rate = f" --throttle {throttle}" if throttle is not None else ""
    return [
        f"kavka reassign execute plan.json -b {bootstrap}{rate}",
        f"kavka reassign status plan.json -b {bootstrap} --wait --clear",
        f"kafka-reassign-partitions.sh --bootstrap-server {bootstrap} --execute "
        f"--reassignment-json-file plan.json{rate}",
        f"kafka-reassign-partitions.sh --bootstrap-server {bootstrap} --verify --reassignment-json-file plan.json",
    ]
