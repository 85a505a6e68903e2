"""Jobs of the console: what is planned, what follows what, and that nothing is sent twice whatever was interrupted."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.client.admin import Reassignment
from kavka.client.cluster import PartitionMetadata
from kavka.console.jobs import throttle
from kavka.console.jobs.inventory import PartitionStates
from kavka.console.jobs.placement import evacuate, with_factor
from kavka.console.jobs.plan import (
    BrokerFacts,
    Impossible,
    Inventory,
    JobKind,
    Move,
    PartitionFacts,
    command_lines,
    plan_as_said,
    plan_decommission,
    plan_election,
    plan_file,
    plan_off,
    plan_reassign,
    plan_replication_factor,
    plan_undo,
)
from kavka.console.jobs.progress import AWAY_MS, MOST_AT_ONCE, SETTLE_MS, STALLED_MS, step
from kavka.console.jobs.runner import JobRunner
from kavka.console.jobs.store import Busy, Job, JobState, JobStore, MoveRow, MoveState, Stale
from kavka.console.ledger import LEDGER, open_ledger
from kavka.model import TopicPartition

MB = 1_000_000


def tp(number: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, number)


def inventory(
    replicas: dict[int, tuple[int, ...]], *, brokers: int = 4, size: int = 100 * MB, least: int = 2, rate: float = 0.0
) -> Inventory:
    return Inventory(
        {tp(number): PartitionFacts(held[0], held, held, least, size, rate) for number, held in replicas.items()},
        {node_id: BrokerFacts(None, 10_000 * MB) for node_id in range(1, brokers + 1)},
    )


class TestPlacement:
    def test_only_replicas_of_the_leaving_broker_move_and_they_keep_their_place(self) -> None:
        current = {tp(0): (1, 2, 3), tp(1): (2, 3, 4), tp(2): (3, 1, 2)}
        found = evacuate(current, {1}, dict.fromkeys((1, 2, 3, 4)), dict.fromkeys(current, 10))
        assert found.after == {tp(0): (4, 2, 3), tp(2): (3, 4, 2)}
        assert found.impossible == {}

    def test_where_every_other_broker_has_a_replica_it_says_what_to_do(self) -> None:
        found = evacuate({tp(0): (1, 2, 3)}, {1}, dict.fromkeys((1, 2, 3)), {})
        assert found.after == {}
        assert "lower its replication factor" in found.impossible[tp(0)]

    def test_a_rack_without_a_replica_is_preferred_to_an_empty_broker(self) -> None:
        racks = {1: "a", 2: "b", 3: "a", 4: "b"}
        current = {tp(0): (1, 2), tp(1): (3, 4), tp(2): (3, 4)}
        assert evacuate(current, {1}, racks, dict.fromkeys(current, 10)).after[tp(0)] == (3, 2)

    def test_what_goes_first_is_dead_then_out_of_sync_and_never_the_preferred_leader(self) -> None:
        current = {tp(0): (1, 2, 3), tp(1): (1, 2, 3)}
        found = with_factor(current, list(current), 2, dict.fromkeys((1, 2, 4)), {}, {tp(0): (1, 2), tp(1): (1, 2)})
        assert found.after == {tp(0): (1, 2), tp(1): (1, 2)}
        found = with_factor(current, [tp(0)], 1, dict.fromkeys((1, 2, 3)), {}, {tp(0): (1, 3)})
        assert found.after == {tp(0): (1,)}

    @given(
        st.lists(st.permutations([1, 2, 3, 4, 5]), min_size=1, max_size=12),
        st.integers(1, 4),
        st.sets(st.integers(1, 5), min_size=1, max_size=2),
        st.integers(1, 5),
    )
    def test_placed_partitions_have_their_number_of_replicas_on_different_live_brokers(
        self, orders: list[list[int]], count: int, leaving: set[int], factor: int
    ) -> None:
        current = {tp(number): tuple(order[:count]) for number, order in enumerate(orders)}
        racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
        for partition, replicas in evacuate(current, leaving, racks, {}).after.items():
            assert len(set(replicas)) == len(replicas) == count
            assert not leaving & set(replicas)
            kept = [each for each in current[partition] if each not in leaving]
            assert [each for each in replicas if each in kept] == kept
        changed = with_factor(current, list(current), factor, racks, {}, current)
        for replicas in changed.after.values():
            assert len(set(replicas)) == len(replicas) == factor


class TestPlans:
    def test_decommission_says_bytes_time_and_what_each_broker_gets(self) -> None:
        plan = plan_decommission(inventory({0: (1, 2, 3), 1: (2, 1, 3)}), 1, throttle=10 * MB)
        assert [move.after for move in plan.moves] == [(4, 2, 3), (2, 4, 3)]
        assert plan.bytes_copied == 200 * MB
        assert plan.duration_s == pytest.approx(20.0), "broker 4 takes both in, at 10 MB/s"
        effect = next(each for each in plan.effects if each.broker == 4)
        assert (effect.replicas_before, effect.replicas_after, effect.bytes_in) == (0, 2, 200 * MB)

    def test_new_records_are_copied_too_and_a_throttle_below_them_never_ends(self) -> None:
        found = inventory({0: (1, 2)}, rate=5.0 * MB)
        assert plan_decommission(found, 1, throttle=10 * MB).duration_s == pytest.approx(20.0)
        slow = plan_decommission(found, 1, throttle=4 * MB)
        assert slow.duration_s == float("inf")
        assert any("never catch up" in risk.what for risk in slow.risks)
        assert plan_decommission(found, 1, throttle=None).duration_s is None

    def test_partitions_that_cannot_move_are_skipped_and_said(self) -> None:
        found = inventory({0: (1, 2), 1: (1, 2), 2: (1, 2)})
        facts = dict(found.partitions)
        facts[tp(1)] = facts[tp(1)]._replace(leader=-1)
        plan = plan_decommission(found._replace(partitions=facts, under_way=frozenset({tp(2)})), 1, throttle=None)
        assert [move.partition for move in plan.moves] == [tp(0)]
        assert {each.partition: each.why for each in plan.skipped} == {
            tp(1): "it has no leader: there is nothing to copy from",
            tp(2): "it is already being reassigned",
        }

    def test_a_broker_that_is_dead_already_is_decommissioned_as_well(self) -> None:
        found = inventory({0: (2, 9), 1: (9, 2)})
        facts = {each: f._replace(leader=2, in_sync=(2,)) for each, f in found.partitions.items()}
        plan = plan_decommission(found._replace(partitions=facts), 9, throttle=None)
        assert all(9 not in move.after for move in plan.moves)
        assert len(plan.moves) == 2
        assert any("refused already" in risk.what for risk in plan.risks)

    def test_fewer_replicas_than_the_minimum_in_sync_is_not_planned(self) -> None:
        plan = plan_replication_factor(inventory({0: (1, 2, 3)}), {"orders"}, 1, throttle=None)
        assert plan.moves == ()
        assert "min.insync.replicas" in plan.skipped[0].why

    def test_risks_name_what_is_at_its_limit(self) -> None:
        found = inventory({0: (1, 2, 3)})
        facts = {tp(0): found.partitions[tp(0)]._replace(in_sync=(1, 2))}
        plan = plan_replication_factor(found._replace(partitions=facts), {"orders"}, 4, throttle=None)
        assert [(risk.level, risk.partitions) for risk in plan.risks] == [("warn", (tp(0),))]
        tight = plan_replication_factor(inventory({0: (1, 2, 3)}), {"orders"}, 2, throttle=None)
        assert any("no broker may be down" in risk.what for risk in tight.risks)

    def test_a_disk_that_would_fill_is_told(self) -> None:
        found = inventory({0: (1, 2)}, brokers=3)
        full = {**found.brokers, 3: BrokerFacts(None, 50 * MB)}
        plan = plan_decommission(found._replace(brokers=full), 1, throttle=None)
        assert any(risk.level == "bad" and "would fill" in risk.what for risk in plan.risks)

    def test_reassign_spreads_and_refuses_dead_brokers(self) -> None:
        found = inventory(dict.fromkeys(range(4), (1, 2)))
        plan = plan_reassign(found, {"orders"}, (), throttle=None)
        assert {effect.replicas_after for effect in plan.effects} == {2}
        with pytest.raises(Impossible, match="no live broker 7"):
            plan_reassign(found, {"orders"}, (1, 7), throttle=None)
        with pytest.raises(Impossible, match="no topic nothing"):
            plan_reassign(found, {"nothing"}, (), throttle=None)

    def test_election_skips_preferred_leaders_that_cannot_lead(self) -> None:
        found = inventory({0: (1, 2), 1: (1, 2), 2: (9, 2), 3: (2, 1)})
        facts = dict(found.partitions)
        facts[tp(0)] = facts[tp(0)]._replace(leader=2)
        facts[tp(1)] = facts[tp(1)]._replace(leader=2, in_sync=(2,))
        facts[tp(2)] = facts[tp(2)]._replace(leader=2)
        plan = plan_election(found._replace(partitions=facts), ())
        assert [(move.partition, move.before, move.after) for move in plan.moves] == [(tp(0), (2,), (1,))]
        assert [each.partition for each in plan.skipped] == [tp(1), tp(2)]

    def test_only_chosen_replicas_leave_and_each_says_why_it_goes_where_it_goes(self) -> None:
        found = inventory({0: (1, 2), 1: (1, 2), 2: (3, 1)}, brokers=5)
        plan = plan_off(found, 1, [tp(0), tp(2)], [2, 4, 5], throttle=None)
        assert [(move.partition, move.after) for move in plan.moves] == [(tp(0), (4, 2)), (tp(2), (3, 5))]
        why = "broker 4 takes the place of broker 1: of 2 brokers that may it holds the least, 0 bytes"
        assert plan.moves[0].why == why, "broker 2 has a replica of it already"
        only = plan_off(found, 1, [tp(2)], [4], throttle=None)
        assert only.moves[0].why == "broker 4 takes the place of broker 1: no other broker may"

    def test_a_rack_without_a_replica_is_the_reason_where_it_decided(self) -> None:
        racks = {1: "a", 2: "b", 3: "a", 4: "b"}
        found = inventory({0: (1, 2), 1: (3, 2), 2: (3, 4)})
        found = found._replace(brokers={node: BrokerFacts(rack, 10_000 * MB) for node, rack in racks.items()})
        (move,) = plan_off(found, 1, [tp(0)], [], throttle=None).moves
        assert move.after == (3, 2), "broker 4 holds less, in the rack of broker 2"
        assert "rack a has no replica of it" in move.why

    def test_what_nobody_chosen_may_take_is_left_out_and_said(self) -> None:
        found = inventory({0: (1, 2), 1: (1, 3)})
        plan = plan_off(found, 1, [tp(0), tp(1)], [2], throttle=None)
        assert [move.after for move in plan.moves] == [(2, 3)]
        assert plan.skipped[0].why.startswith("every broker that may take it has a replica")

    @pytest.mark.parametrize(
        ("chosen", "targets", "why"),
        [
            ([], [2], "choose at least one"),
            ([tp(9)], [2], "there is no partition orders-9"),
            ([tp(1)], [2], "broker 1 holds no replica of orders-1"),
            ([tp(0)], [7], "no live broker 7"),
            ([tp(0)], [1], "no other live broker than 1"),
        ],
    )
    def test_a_choice_that_cannot_be_is_refused(
        self, chosen: list[TopicPartition], targets: list[int], why: str
    ) -> None:
        with pytest.raises(Impossible, match=why):
            plan_off(inventory({0: (1, 2), 1: (2, 3)}), 1, chosen, targets, throttle=None)

    def test_each_partition_goes_where_somebody_says_and_the_rest_stays(self) -> None:
        found = inventory({0: (1, 2), 1: (1, 2), 2: (1, 2), 3: (1, 2)})
        plan = plan_as_said(found, {tp(0): (3, 4), tp(1): (2, 1), tp(2): (1, 2), tp(3): (1, 2, 3)}, throttle=None)
        assert [(move.partition, move.bytes_copied) for move in plan.moves] == [
            (tp(0), 200 * MB),
            (tp(1), 0),
            (tp(3), 100 * MB),
        ]
        assert "only the order changes: broker 2" in plan.moves[1].why
        assert ("warn", "have another number of replicas afterwards", (tp(3),)) in plan.risks

    @pytest.mark.parametrize(
        ("said", "why"),
        [((), "at least one"), ((1, 1), "named twice"), ((1, 8), "no live broker 8")],
    )
    def test_replicas_that_cannot_be_are_refused(self, said: tuple[int, ...], why: str) -> None:
        with pytest.raises(Impossible, match=f"orders-0: .*{why}"):
            plan_as_said(inventory({0: (1, 2)}), {tp(0): said}, throttle=None)

    def test_the_way_back_leaves_alone_what_somebody_has_moved_since(self) -> None:
        moved = inventory({0: (3, 2), 1: (4, 2), 2: (3, 2)})
        done = [Move(tp(0), (1, 2), (3, 2)), Move(tp(1), (1, 2), (3, 2)), Move(tp(2), (7, 2), (3, 2))]
        plan = plan_undo(moved, 5, [*done, Move(tp(8), (1, 2), (3, 2))], throttle=None)
        assert plan.title == "Undo job 5"
        assert [(move.partition, move.before, move.after) for move in plan.moves] == [(tp(0), (3, 2), (1, 2))]
        assert {each.partition: each.why for each in plan.skipped} == {
            tp(1): "somebody has moved it since",
            tp(2): "broker 7, to which it would go back, is not alive",
            tp(8): "its topic was deleted",
        }

    def test_command_lines_do_the_same(self) -> None:
        plan = plan_decommission(inventory({0: (1, 2)}), 1, throttle=5)
        lines = command_lines(plan.kind, "b:9092", plan.moves, 5)
        assert "kavka reassign execute plan.json -b b:9092 --throttle 5" in lines
        assert any(line.startswith("kafka-reassign-partitions.sh") and "--throttle 5" in line for line in lines)
        assert '"replicas":[3,2]' in plan_file(plan.moves)


# ------------------------------------------------------------------------------------------------------------ progress


class Side:
    """A cluster as a job sees it, by hand."""

    def __init__(self) -> None:
        self.replicas: dict[TopicPartition, tuple[int, ...]] = {}
        self.under_way: dict[TopicPartition, tuple[int, ...]] = {}
        self.live = {1, 2, 3, 4}
        self.copied = 0

    def states(self) -> PartitionStates:
        return PartitionStates(
            {
                partition: PartitionMetadata(partition.partition, held[0], 0, held, held, ())
                for partition, held in self.replicas.items()
            },
            {
                partition: Reassignment(
                    tuple(dict.fromkeys((*target, *self.replicas[partition]))),
                    tuple(each for each in target if each not in self.replicas[partition]),
                    tuple(each for each in self.replicas[partition] if each not in target),
                )
                for partition, target in self.under_way.items()
            },
            frozenset(self.live),
            {
                (partition, node): 100 if node in held else self.copied
                for partition, held in self.replicas.items()
                for node in range(1, 5)
            },
        )


def row(number: int = 0, state: MoveState = MoveState.PENDING, remark: str = "") -> MoveRow:
    return MoveRow(tp(number), (1, 2), (3, 2), state, remark, 0, 100, 0)


def side(number: int = 0) -> Side:
    found = Side()
    found.replicas[tp(number)] = (1, 2)
    return found


class TestProgress:
    def look(self, rows: list[MoveRow], cluster: Side, now_ms: int = 1000, **more: object):  # type: ignore[no-untyped-def]
        return step(rows, cluster.states(), now_ms=now_ms, away_since_ms=more.pop("away", {}), **more)

    def settle(self, moved: MoveRow, cluster: Side) -> MoveRow:
        """What becomes of it when it looks the same for long enough; nothing is sent meanwhile."""
        for now_ms in (1000, 1001, 1000 + SETTLE_MS):
            found = self.look([moved], cluster, now_ms=now_ms)
            assert (found.submit, found.call_off) == ({}, [])
            moved = found.rows[0] if found.rows else moved
        return moved

    def test_what_is_pending_is_sent_and_no_more_than_the_bound_at_a_time(self) -> None:
        cluster = Side()
        for number in range(MOST_AT_ONCE + 5):
            cluster.replicas[tp(number)] = (1, 2)
        found = self.look([row(number) for number in range(MOST_AT_ONCE + 5)], cluster)
        assert len(found.submit) == MOST_AT_ONCE
        assert not found.is_over

    def test_after_a_crash_what_was_sent_and_taken_is_not_sent_again(self) -> None:
        cluster = side()
        cluster.under_way[tp(0)] = (3, 2)
        found = self.look([row(state=MoveState.SUBMITTING)], cluster)
        assert found.submit == {}
        assert found.rows[0].state is MoveState.MOVING

    def test_after_a_crash_what_was_not_taken_is_sent(self) -> None:
        assert self.look([row(state=MoveState.SUBMITTING)], side()).submit == {tp(0): (3, 2)}

    def test_after_a_crash_what_ended_meanwhile_is_done(self) -> None:
        cluster = side()
        cluster.replicas[tp(0)] = (3, 2)
        for state in (MoveState.SUBMITTING, MoveState.MOVING, MoveState.PENDING):
            found = self.look([row(state=state)], cluster)
            assert (found.rows[0].state, found.submit, found.is_over) == (MoveState.DONE, {}, True)

    def test_what_somebody_else_did_meanwhile_is_left_alone(self) -> None:
        cluster = side()
        cluster.replicas[tp(0)] = (4, 2)
        for state in (MoveState.SUBMITTING, MoveState.MOVING, MoveState.PENDING):
            found = self.settle(row(state=state), cluster)
            assert found.state is MoveState.SKIPPED
            assert "somebody else moved it to 4,2" in found.remark
        cluster = side()
        cluster.under_way[tp(0)] = (4, 2)
        found = self.look([row(state=MoveState.MOVING)], cluster)
        assert (found.rows[0].state, found.submit, found.call_off) == (MoveState.SKIPPED, {}, [])

    def test_what_somebody_called_off_is_not_begun_again(self) -> None:
        found = self.settle(row(state=MoveState.MOVING), side())
        assert (found.state, found.remark) == (MoveState.SKIPPED, "somebody else cancelled it")

    def test_a_broker_that_has_not_heard_of_the_end_yet_is_no_somebody_else(self) -> None:
        cluster = side()
        first = self.look([row(state=MoveState.MOVING)], cluster, now_ms=1000).rows[0]
        assert first.state is MoveState.MOVING
        cluster.replicas[tp(0)] = (3, 2)
        assert self.look([first], cluster, now_ms=2000).rows[0].state is MoveState.DONE

    def test_a_topic_that_is_gone_is_skipped(self) -> None:
        assert self.look([row(state=MoveState.MOVING)], Side()).rows[0].remark == "its topic was deleted"

    def test_a_broker_that_is_away_too_long_is_given_up(self) -> None:
        cluster = side()
        cluster.under_way[tp(0)] = (3, 2)
        cluster.live.remove(3)
        moving = row(state=MoveState.MOVING)
        soon = self.look([moving], cluster, away={3: 900})
        assert soon.call_off == []
        assert soon.rows[0].remark == "broker 3 is not alive"
        late = self.look([moving], cluster, now_ms=900 + AWAY_MS, away={3: 900})
        assert late.call_off == [tp(0)]
        assert late.rows[0].state is MoveState.CALLING_OFF
        del cluster.under_way[tp(0)]
        end = self.look([late.rows[0]], cluster, now_ms=901 + AWAY_MS, away={3: 900})
        assert end.rows[0].state is MoveState.SKIPPED
        assert "broker 3, which should copy it, is not alive" in end.rows[0].remark
        assert end.is_over

    def test_nothing_copied_for_long_is_said_once(self) -> None:
        cluster = side()
        cluster.under_way[tp(0)] = (3, 2)
        moving = row(state=MoveState.MOVING)._replace(changed_ms=1000)
        stalled = self.look([moving], cluster, now_ms=1000 + STALLED_MS).rows[0]
        assert stalled.remark == "nothing was copied for 60 s"
        assert self.look([stalled], cluster, now_ms=2000 + STALLED_MS).rows == []
        cluster.copied = 40
        again = self.look([stalled], cluster, now_ms=3000 + STALLED_MS).rows[0]
        assert (again.remark, again.copied_bytes) == ("", 40)

    def test_called_off_nothing_new_is_sent_and_what_moves_is_cancelled(self) -> None:
        cluster = side()
        cluster.under_way[tp(0)] = (3, 2)
        cluster.replicas[tp(1)] = (1, 2)
        rows = [row(0, MoveState.MOVING), row(1)]
        found = self.look(rows, cluster, is_cancelled=True)
        assert found.submit == {}
        assert found.call_off == [tp(0)]
        assert [each.state for each in found.rows] == [MoveState.CALLING_OFF, MoveState.CANCELLED]
        del cluster.under_way[tp(0)]
        assert self.look(found.rows, cluster, is_cancelled=True).is_over

    @given(st.lists(st.sampled_from(["turn", "crash", "finish", "die", "live", "cancel"]), max_size=40))
    def test_whatever_happens_each_partition_is_begun_once_and_the_job_can_end(self, happenings: list[str]) -> None:
        """A cluster of two partitions under any order of turns, crashes and lost answers."""
        cluster = Side()
        rows = [row(0), row(1)]
        for each in rows:
            cluster.replicas[each.partition] = (1, 2)
        begun = {tp(0): 0, tp(1): 0}
        cancelled = False
        now_ms = 0
        away: dict[int, int] = {}

        def turn() -> None:
            nonlocal rows
            found = self.look(rows, cluster, now_ms=now_ms, away=dict(away), is_cancelled=cancelled)
            changed = {each.partition: each for each in found.rows}
            rows = [changed.get(each.partition, each) for each in rows]
            for partition, target in found.submit.items():
                if partition not in cluster.under_way and cluster.replicas[partition] != target:
                    cluster.under_way[partition] = target
                    begun[partition] += 1
            for partition in found.call_off:
                cluster.under_way.pop(partition, None)

        for happening in happenings:
            now_ms += 10_000
            if happening == "turn":
                turn()
            elif happening == "crash":
                # The turn's rows were written, and then, or before anything was sent, the console ended.
                written = self.look(rows, cluster, now_ms=now_ms, away=dict(away), is_cancelled=cancelled).rows
                changed = {each.partition: each for each in written}
                rows = [changed.get(each.partition, each) for each in rows]
            elif happening == "finish" and 3 in cluster.live:
                for partition, target in list(cluster.under_way.items()):
                    cluster.replicas[partition] = target
                    del cluster.under_way[partition]
            elif happening == "die":
                cluster.live.discard(3)
                away.setdefault(3, now_ms)
            elif happening == "live":
                cluster.live.add(3)
                away.pop(3, None)
            elif happening == "cancel":
                cancelled = True
        cluster.live.add(3)
        away.clear()
        for _ in range(5):
            now_ms += 10_000
            turn()
            for partition, target in list(cluster.under_way.items()):
                cluster.replicas[partition] = target
                del cluster.under_way[partition]
        assert all(each.state.is_over for each in rows)
        assert all(count <= 1 for count in begun.values())
        for each in rows:
            if each.state is MoveState.DONE:
                assert cluster.replicas[each.partition] == each.after


# --------------------------------------------------------------------------------------------------------------- store


@pytest.fixture
def ledger(tmp_path: Path) -> sqlite3.Connection:
    return open_ledger(tmp_path / "ledger.sqlite")


@pytest.fixture
def store(ledger: sqlite3.Connection) -> JobStore:
    return JobStore(ledger)


def add(store: JobStore, cluster: str = "main", throttle: int | None = 5, now_ms: int = 1000) -> Job:
    plan = plan_decommission(inventory({0: (1, 2), 1: (1, 2)}), 1, throttle=throttle)
    job = store.find(store.add(cluster, "id-1", plan, throttle, user="ada", now_ms=now_ms))
    assert job is not None
    return job


class TestStore:
    def test_a_job_is_written_and_read_again(self, store: JobStore) -> None:
        job = add(store)
        assert (job.kind, job.state, job.created_by, job.throttle) == (JobKind.DECOMMISSION, JobState.PLANNED, "ada", 5)
        assert [move.after for move in store.moves(job.number)] == [(3, 2), (4, 2)]
        assert store.active() == []

    def test_of_two_who_confirm_one_does(self, store: JobStore) -> None:
        job = add(store)
        assert store.confirm(job.number, job.version, user="ada", now_ms=2000).state is JobState.CONFIRMED
        with pytest.raises(Stale):
            store.confirm(job.number, job.version, user="eve", now_ms=2001)
        assert store.find(job.number).confirmed_by == "ada"

    def test_of_one_cluster_one_job_is_active(self, store: JobStore) -> None:
        first, second, other = add(store), add(store), add(store, "other")
        store.confirm(first.number, first.version, user="ada", now_ms=2000)
        with pytest.raises(Busy) as busy:
            store.confirm(second.number, second.version, user="eve", now_ms=2000)
        assert busy.value.other == first.number
        assert store.find(second.number).state is JobState.PLANNED
        store.confirm(other.number, other.version, user="eve", now_ms=2000)
        assert [job.cluster for job in store.active()] == ["main", "other"]

    def test_the_runner_that_was_overtaken_by_a_cancel_notices(self, store: JobStore) -> None:
        job = store.confirm(add(store).number, 1, user="ada", now_ms=2000)
        store.cancel(job.number, job.version, user="eve", now_ms=2001)
        with pytest.raises(Stale):
            store.enter(job, JobState.MOVING, 2002)
        assert store.find(job.number).cancelled_by == "eve"

    def test_states_follow_their_table_only(self, store: JobStore) -> None:
        job = add(store)
        with pytest.raises(Stale):
            store.enter(job, JobState.DONE, 2000)
        with pytest.raises(Stale):
            store.cancel(job.number, job.version, user="ada", now_ms=2000)
        store.discard(job.number, job.version, user="ada", now_ms=2000)
        with pytest.raises(Stale):
            store.confirm(job.number, 2, user="ada", now_ms=2000)

    def test_another_process_goes_on_with_what_is_written(self, store: JobStore, tmp_path: Path) -> None:
        job = store.confirm(add(store).number, 1, user="ada", now_ms=2000)
        job = store.remember_throttles(job, {"broker 1": {"leader.replication.throttled.rate": None}})
        store.update_moves(job.number, [store.moves(job.number)[0]._replace(state=MoveState.SUBMITTING)], 2000)
        again = JobStore(open_ledger(tmp_path / "ledger.sqlite"))
        assert again.active() == [job]
        assert [move.state for move in again.moves(job.number)] == [MoveState.SUBMITTING, MoveState.PENDING]

    def test_what_throttles_there_were_is_remembered_once(self, store: JobStore) -> None:
        job = store.confirm(add(store).number, 1, user="ada", now_ms=2000)
        store.remember_throttles(job, {"broker 1": {"x": "77"}})
        assert store.remember_throttles(job, {"broker 1": {"x": "5"}}).throttles_before == {"broker 1": {"x": "77"}}

    def test_plans_that_nobody_wanted_are_forgotten(self, store: JobStore) -> None:
        old = add(store)
        add(store, now_ms=1000 + 25 * 3600 * 1000)
        assert store.find(old.number).state is JobState.DISCARDED

    def test_states_of_partitions_stand_in_the_log(self, store: JobStore) -> None:
        job = add(store)
        moves = store.moves(job.number)
        store.update_moves(
            job.number, [moves[0]._replace(state=MoveState.SKIPPED, remark="broker 3 is not alive")], 3000
        )
        assert store.events(job.number)[-1] == (3000, "orders-0: skipped (broker 3 is not alive)")


async def until(happens: Callable[[], bool]) -> None:
    while not happens():  # noqa: ASYNC110 - nobody tells a test
        await asyncio.sleep(0.01)


class TestRunner:
    def runner(self, store: JobStore, directory: Path) -> JobRunner:
        return JobRunner(store, directory, lambda name: None, lambda job: None, turn_s=0.01)

    def test_of_two_consoles_on_one_ledger_one_carries_out_the_jobs(self, store: JobStore, tmp_path: Path) -> None:
        job = store.confirm(add(store).number, 1, user="ada", now_ms=2000)

        async def both() -> None:
            other = JobStore(open_ledger(tmp_path / LEDGER))
            first, second = self.runner(store, tmp_path), self.runner(other, tmp_path)
            await first.start()
            await until(lambda: "no longer knows cluster main" in store.find(job.number).remark)
            await second.start()
            await until(lambda: second.is_elsewhere)
            assert not first.is_elsewhere
            await first.stop()
            await until(lambda: not second.is_elsewhere)
            await second.stop()

        asyncio.run(asyncio.wait_for(both(), 60))
        assert store.find(job.number).state is JobState.CONFIRMED, "a cluster that is not known is waited for"


class TestThrottles:
    def test_who_is_copied_from_and_who_copies(self) -> None:
        moves = [row(0), row(1)._replace(after=(2, 1))]
        names = throttle.resources(moves, {1, 2, 3})
        assert names == ["broker 1", "broker 2", "broker 3", "topic orders"]
        found = throttle.throttles(moves, 500, names)
        assert found["broker 3"] == dict.fromkeys(throttle.RATES, "500")
        assert found["topic orders"] == {throttle.REPLICAS[0]: "0:1,0:2", throttle.REPLICAS[1]: "0:3"}

    def test_a_broker_that_is_down_gets_none(self) -> None:
        assert throttle.resources([row(0)], {1, 2}) == ["broker 1", "broker 2", "topic orders"]


def test_a_move_knows_what_comes_and_goes() -> None:
    move = Move(tp(0), (1, 2), (3, 2))
    assert (move.adding, move.removing) == ((3,), (1,))
