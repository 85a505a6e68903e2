"""Plans of where replicas should be: allowed, balanced, over racks, and with little moved; and their JSON."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.client.reassignment_plan import MalformedPlan, PlannedBroker, from_json, plan, to_json
from kavka.model import TopicPartition


def partitions(*replicas: tuple[int, ...]) -> dict[TopicPartition, tuple[int, ...]]:
    return {TopicPartition("t", number): each for number, each in enumerate(replicas)}


def brokers(*ids: int, racks: int = 0) -> list[PlannedBroker]:
    return [PlannedBroker(node_id, f"r{node_id % racks}" if racks else None) for node_id in ids]


def after(
    current: dict[TopicPartition, tuple[int, ...]], moves: dict[TopicPartition, tuple[int, ...]]
) -> dict[TopicPartition, tuple[int, ...]]:
    return {**current, **moves}


def test_what_is_balanced_already_stays() -> None:
    current = partitions((1, 2), (2, 3), (3, 1))
    assert plan(current, brokers(1, 2, 3), {}).moves == {}


def test_a_broker_that_leaves_gives_its_replicas_and_nothing_else_moves() -> None:
    current = partitions((1, 2), (2, 3), (3, 1), (1, 3))
    found = plan(current, brokers(1, 2), {})
    assert found.copied == {
        TopicPartition("t", 1): (1,),
        TopicPartition("t", 2): (2,),
        TopicPartition("t", 3): (2,),
    }


def test_a_new_broker_gets_its_share_of_the_smallest_replicas() -> None:
    current = partitions(*[(1, 2)] * 6)
    sizes = {partition: 100 * (1 + partition.partition) for partition in current}
    found = plan(current, brokers(1, 2, 3), sizes)
    held = Counter(replica for replicas in after(current, found.moves).values() for replica in replicas)
    assert held == {1: 4, 2: 4, 3: 4}
    assert found.bytes_moved == 100 + 200 + 300 + 400


def test_preferred_leaders_are_spread_without_copying() -> None:
    current = partitions(*[(1, 2, 3)] * 6)
    found = plan(current, brokers(1, 2, 3), {})
    assert found.copied == {}
    assert Counter(replicas[0] for replicas in after(current, found.moves).values()) == {1: 2, 2: 2, 3: 2}


def test_another_replication_factor_adds_and_drops_followers() -> None:
    current = partitions((1, 2), (2, 3), (3, 1))
    more = plan(current, brokers(1, 2, 3), {}, replication_factor=3)
    assert [len(each) for each in after(current, more.moves).values()] == [3, 3, 3]
    fewer = plan(current, brokers(1, 2, 3), {}, replication_factor=1)
    assert list(after(current, fewer.moves).values()) == [(1,), (2,), (3,)]


def test_too_few_brokers_are_refused() -> None:
    with pytest.raises(ValueError, match="t-0 needs 2 brokers, and 1 are named"):
        plan(partitions((1, 2)), brokers(1), {})


def test_a_rack_with_two_replicas_gives_one_away() -> None:
    current = partitions((1, 3), (2, 4))
    found = plan(current, brokers(1, 2, 3, 4, racks=2), {})
    for replicas in after(current, found.moves).values():
        assert len({replica % 2 for replica in replicas}) == 2
    assert all(len(copied) == 1 for copied in found.copied.values())


@st.composite
def questions(
    draw: st.DrawFn,
) -> tuple[dict[TopicPartition, tuple[int, ...]], list[PlannedBroker], dict[TopicPartition, int]]:
    allowed = draw(st.lists(st.integers(1, 9), unique=True, min_size=3, max_size=9))
    replicas = st.lists(st.integers(1, 9), unique=True, min_size=1, max_size=3).map(tuple)
    current = partitions(*draw(st.lists(replicas, min_size=1, max_size=25)))
    sizes = {partition: draw(st.integers(0, 1000)) for partition in current}
    return current, brokers(*allowed, racks=draw(st.sampled_from([0, 2, 3]))), sizes


@given(questions())
def test_every_plan_is_allowed_balanced_and_spread_as_far_as_can_be(
    question: tuple[dict[TopicPartition, tuple[int, ...]], list[PlannedBroker], dict[TopicPartition, int]],
) -> None:
    current, allowed, sizes = question
    found = plan(current, allowed, sizes)
    placed = after(current, found.moves)
    racks = {broker.node_id: broker.rack for broker in allowed}
    for partition, replicas in placed.items():
        assert len(replicas) == len(set(replicas)) == len(current[partition])
        assert set(replicas) <= set(racks)
        if None not in racks.values():
            spread = len({racks[replica] for replica in replicas})
            assert spread == min(len(replicas), len(set(racks.values())))
    if None in racks.values():
        held = Counter(replica for replicas in placed.values() for replica in replicas)
        assert max(held[each] for each in racks) - min(held[each] for each in racks) <= 1
    assert found.bytes_moved == sum(
        sizes[partition] * len(set(replicas) - set(current[partition])) for partition, replicas in placed.items()
    )
    assert plan(current, allowed, sizes) == found
    assert plan(placed, allowed, sizes).copied == {}, "a plan that was carried out asks for nothing more"


def test_ten_thousand_partitions_are_planned_in_seconds_of_processor_time() -> None:
    current = partitions(*[(1 + each % 3, 1 + (each + 1) % 3, 1 + (each + 2) % 3) for each in range(10_000)])
    sizes = {partition: partition.partition * 7919 % 1000 for partition in current}
    began = time.process_time()
    found = plan(current, brokers(1, 2, 3, 4), sizes)
    assert time.process_time() - began < 5
    assert sum(map(len, found.copied.values())) == 7_500


def test_the_json_is_that_of_kafkas_tool() -> None:
    moves = {TopicPartition("t", 1): (3, 1), TopicPartition("t", 0): (1, 2)}
    text = to_json(moves)
    assert text == (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","any"]},'
        '{"topic":"t","partition":1,"replicas":[3,1],"log_dirs":["any","any"]}]}'
    )
    assert from_json(text) == moves
    assert from_json('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}') == {
        TopicPartition("t", 0): (1,)
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        ("{", "not valid JSON"),
        ("[]", "not a reassignment"),
        ('{"version":2,"partitions":[]}', "not a reassignment"),
        ('{"version":1}', "no list"),
        ('{"version":1,"partitions":[7]}', "entry 0 of its partitions is not an object"),
        ('{"version":1,"partitions":[{"topic":"t","replicas":[1]}]}', 'lacks "topic" or "partition"'),
        ('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[]}]}', "at least one"),
        ('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":["1"]}]}', "list of broker ids"),
        ('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,1]}]}', "named twice"),
        (
            '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["/data"]}]}',
            "log directory",
        ),
        (
            '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]},'
            '{"topic":"t","partition":0,"replicas":[2]}]}',
            "t-0 twice",
        ),
    ],
)
def test_what_is_no_plan_is_refused_with_the_place(text: str, words: str) -> None:
    with pytest.raises(MalformedPlan, match=words):
        from_json(text)
