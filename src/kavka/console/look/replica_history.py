"""Replicas over time and in danger: how a partition stands, who was in its ISR and when, what a broker's death costs.

Pure: snapshots, decisions and observed changes in, values out. The verdicts are `kavka.client.durability`'s, so that
console and command line never disagree.

    I1  what is not known of a time is shown as not known, never as in sync
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from kavka.client.durability import BrokerRisk, Health, PartitionReplicas, health, risks
from kavka.console.look.charts import Look, Span
from kavka.model import TopicPartition

if TYPE_CHECKING:
    from kavka.decisions import Fact, RecordedDecision
    from kavka.observe.snapshot import ClusterSnapshot, PartitionView


class IsrState(NamedTuple):
    """Who leads and who is in sync from `at_ms` on; an `isr` of None: nobody knows."""

    at_ms: int
    leader: int
    isr: frozenset[int] | None


def replicas_of(view: PartitionView) -> PartitionReplicas:
    """As durability's rules want it. Where min.insync.replicas is not known it is taken for 1, Kafka's default."""
    return PartitionReplicas(
        TopicPartition(view.topic, view.partition),
        view.leader,
        view.leader_epoch,
        view.replicas,
        view.in_sync_replicas,
        1 if view.min_insync_replicas is None else view.min_insync_replicas,
        view.log_ends,
    )


def health_of(view: PartitionView) -> Health:
    return health(replicas_of(view))


def risks_of(snapshot: ClusterSnapshot) -> list[BrokerRisk]:
    """For each living broker what its death would do now; of one snapshot it is worked out once."""
    known = _latest.get(snapshot.name)
    if known is None or known[0] is not snapshot:
        everything = [replicas_of(view) for view in snapshot.partitions()]
        found = risks(everything, [broker.broker_id for broker in snapshot.alive_brokers])
        known = _latest[snapshot.name] = snapshot, found
    return known[1]


_latest: dict[str, tuple[ClusterSnapshot, list[BrokerRisk]]] = {}
"""The newest of each cluster: as many as there are in the settings."""


def states_from(decisions: Iterable[RecordedDecision], *, made_ms: int = 0) -> list[IsrState]:
    """One partition's states from its decisions, in order. A decision that names no ISR changes none. What was
    so before the first of them was so since `made_ms`, when its topic was made; 0 where that is not known."""
    states: list[IsrState] = []
    for recorded in sorted(decisions, key=lambda each: each.decision.at_ms):
        decision = recorded.decision
        isr = _ids(decision.after.get("isr"))
        if isr is None:
            continue
        before = _ids(decision.before.get("isr"))
        if not states and made_ms and before is not None:
            led_by = decision.before.get("leader", decision.broker_id)
            states.append(IsrState(made_ms, led_by if isinstance(led_by, int) else -1, before))
        leader = decision.after.get("leader", decision.before.get("leader"))
        if not isinstance(leader, int):
            leader = states[-1].leader if states else decision.broker_id
        states.append(IsrState(decision.at_ms, leader, isr))
    return states


def up_to_now(states: Sequence[IsrState], now: IsrState, *, observed_since_ms: int) -> list[IsrState]:
    """The states, ended by what is so now. Where the last one is another, changes were missed between the two: the
    partition was made anew, or nobody looked. What is so now is known since somebody looks, and not before."""
    if not states:
        return [now._replace(at_ms=observed_since_ms)]
    last = states[-1]
    if (last.leader, last.isr) == (now.leader, now.isr):
        return list(states)
    if last.at_ms >= observed_since_ms:
        return [*states, now]
    return [*states, IsrState(last.at_ms + 1, -1, None), now._replace(at_ms=observed_since_ms)]


def spans(
    states: Sequence[IsrState], replicas: Sequence[int], look: Look, *, from_ms: int, until_ms: int
) -> list[tuple[str, list[Span]]]:
    """For each replica what it was and when. Before the first state nothing is known; `states` are in order."""
    _ = look.translate
    rows = []
    for replica in replicas:
        row: list[Span] = []
        edges: list[tuple[int, IsrState | None]] = [
            (from_ms, None),
            *((state.at_ms, state) for state in states),
            (until_ms, None),
        ]
        for (start, state), (end, _next) in pairwise(edges):
            start, end = max(start, from_ms), min(end, until_ms)
            if end <= start:
                continue
            kind, what = _kind(state, replica)
            if row and row[-1].kind == kind and row[-1].until_ms == start:
                row[-1] = row[-1]._replace(until_ms=end)
            else:
                row.append(Span(start, end, kind, str(_(what))))
        rows.append((str(_("broker {n}", n=replica)), row))
    return rows


def _kind(state: IsrState | None, replica: int) -> tuple[str, str]:
    if state is None or state.isr is None:
        return "none", "not known"
    if state.leader == replica:
        return "led", "leads"
    return ("in", "in sync") if replica in state.isr else ("out", "out of sync")


def _ids(fact: Fact) -> frozenset[int] | None:
    if not isinstance(fact, (list, tuple)):
        return None
    return frozenset(value for value in fact if isinstance(value, int))
