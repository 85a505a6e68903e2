"""The plan by bytes: what moves, what stays, and what it says of the brokers."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from kavka.model import TopicPartition
from kavka_spark.pipelines.skew_plan import TOLERANCE, plan_by_bytes

A, B, C, D = (TopicPartition("t", number) for number in range(4))


def test_the_partition_that_evens_out_best_moves() -> None:
    replicas = {A: [1], B: [1], C: [1], D: [2]}
    plan = plan_by_bytes(replicas, {A: 100, B: 60, C: 40, D: 20}, [1, 2])
    effects = {effect.broker: (effect.bytes_before, effect.bytes_after) for effect in plan.effects}
    assert plan.moves == {A: (2,)}
    assert effects == {1: (200, 100), 2: (20, 120)}
    assert plan.bytes_moved == 100
    [entry] = json.loads(plan.json)["partitions"]
    assert (entry["topic"], entry["partition"], entry["replicas"]) == ("t", 0, [2])


def test_even_brokers_are_left_alone() -> None:
    plan = plan_by_bytes({A: [1, 2], B: [2, 1]}, {A: 100, B: 101}, [1, 2])
    assert (plan.moves, plan.json, plan.bytes_moved) == ({}, "", 0)


def test_leadership_turns_without_a_copy() -> None:
    plan = plan_by_bytes({A: [1, 2], B: [1, 2]}, {A: 100, B: 90}, [1, 2])
    assert plan.bytes_moved == 0
    assert [effect.led_bytes_before for effect in plan.effects] == [190, 0]
    assert sorted(effect.led_bytes_after for effect in plan.effects) == [90, 100]


def test_one_partition_that_is_larger_than_all_else_is_not_sent_around() -> None:
    plan = plan_by_bytes({A: [1], B: [2]}, {A: 1_000, B: 10}, [1, 2])
    assert plan.moves == {}


placed = st.lists(st.permutations([1, 2, 3, 4]), min_size=1, max_size=12)


@given(placed, st.data())
def test_replicas_stay_as_many_and_apart_and_the_spread_never_grows(
    orders: list[list[int]], data: st.DataObject
) -> None:
    replicas = {
        TopicPartition("t", number): order[: data.draw(st.integers(1, 3))] for number, order in enumerate(orders)
    }
    sizes = {partition: data.draw(st.integers(0, 1_000)) for partition in replicas}
    plan = plan_by_bytes(replicas, sizes, [1, 2, 3, 4])
    for partition, owners in plan.moves.items():
        assert len(owners) == len(replicas[partition]) == len(set(owners))
        assert set(owners) <= {1, 2, 3, 4}
    before = [effect.bytes_before for effect in plan.effects]
    after = [effect.bytes_after for effect in plan.effects]
    assert sum(before) == sum(after)
    assert max(after) - min(after) <= max(before) - min(before)
    led = [effect.led_bytes_after for effect in plan.effects]
    assert sum(led) == sum(sizes.values())
    assert 0 < TOLERANCE < 1
