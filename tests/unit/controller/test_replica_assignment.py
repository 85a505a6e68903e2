"""Where replicas go; the tables are Kafka's own examples of its algorithm, worked by hand."""

from __future__ import annotations

import random

import pytest

from kavka.controller.decide.assignment import (
    BrokerRack,
    added_partitions,
    assign_replicas,
    assign_replicas_from,
    check_manual_assignment,
    interleave_racks,
)
from kavka.errors import ErrorCode, RequestError
from kavka.model import BrokerId

RNG = random.Random(0)


def brokers(*ids: int, racks: str = "") -> list[BrokerRack]:
    return [BrokerRack(BrokerId(broker_id), racks[index] if racks else None) for index, broker_id in enumerate(ids)]


def test_leaders_go_round_and_followers_shift_after_each_round() -> None:
    assert assign_replicas_from(brokers(0, 1, 2, 3, 4), 10, 3, first_partition=0, start=0) == {
        0: (0, 1, 2),
        1: (1, 2, 3),
        2: (2, 3, 4),
        3: (3, 4, 0),
        4: (4, 0, 1),
        5: (0, 2, 3),
        6: (1, 3, 4),
        7: (2, 4, 0),
        8: (3, 0, 1),
        9: (4, 1, 2),
    }


def test_racks_are_used_evenly() -> None:
    racks = {0: "a", 1: "b", 2: "b", 3: "c", 4: "c", 5: "a"}
    assignment = assign_replicas_from(
        [BrokerRack(BrokerId(broker_id), rack) for broker_id, rack in racks.items()], 6, 3, first_partition=0, start=0
    )
    assert {tuple(sorted(racks[broker] for broker in replicas)) for replicas in assignment.values()} == {
        ("a", "b", "c")
    }
    leaders = sorted(replicas[0] for replicas in assignment.values())
    assert leaders == [0, 1, 2, 3, 4, 5]


RACKS = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
"""As in the example of Kafka's AdminUtils: in turn they are brokers 0, 3, 1, 5, 4, 2."""


def on_racks(count: int, *, first: int = 0, start: int = 0) -> dict[int, tuple[int, ...]]:
    brokers = [BrokerRack(BrokerId(broker_id), rack) for broker_id, rack in RACKS.items()]
    found = assign_replicas_from(brokers, count, 3, first_partition=first, start=start)
    return {partition: tuple(replicas) for partition, replicas in found.items()}


def test_replicas_on_racks_lie_where_kafka_puts_them() -> None:
    assert on_racks(12) == {
        0: (0, 3, 1),
        1: (3, 1, 5),
        2: (1, 5, 4),
        3: (5, 4, 2),
        4: (4, 2, 0),
        5: (2, 0, 3),
        6: (0, 4, 2),
        7: (3, 2, 0),
        8: (1, 0, 3),
        9: (5, 3, 1),
        10: (4, 1, 5),
        11: (2, 5, 4),
    }


def test_partitions_that_are_added_go_on_with_the_round_over_racks() -> None:
    assert on_racks(3, first=6) == {6: (0, 4, 2), 7: (3, 2, 0), 8: (1, 0, 3)}


def test_another_start_shifts_leaders_by_one_place_and_followers_by_whole_racks() -> None:
    assert on_racks(4, start=2) == {0: (1, 4, 0), 1: (5, 2, 3), 2: (4, 0, 1), 3: (2, 3, 5)}


def test_a_single_broker_has_every_partition_on_its_own() -> None:
    """The round of one broker ends with each partition."""
    assert assign_replicas_from(brokers(7), 3, 1, first_partition=0, start=0) == {0: (7,), 1: (7,), 2: (7,)}


def test_partitions_from_a_fixed_start_are_refused_as_others() -> None:
    with pytest.raises(RequestError, match="larger than available brokers: 1"):
        assign_replicas_from(brokers(1), 1, 2, first_partition=0, start=0)


def test_partitions_that_are_added_by_hand_must_follow_those_that_are_there() -> None:
    with pytest.raises(RequestError, match=r"partitions must follow partition 2: \[4\]"):
        check_manual_assignment({4: [1]}, {1}, {1}, first_partition=3)


def test_a_rack_is_used_twice_when_all_are_used() -> None:
    assignment = assign_replicas_from(brokers(0, 1, 2, 3, racks="aabb"), 4, 3, first_partition=0, start=0)
    for replicas in assignment.values():
        assert len(set(replicas)) == 3


def test_racks_do_not_count_unless_every_broker_has_one() -> None:
    some = [BrokerRack(BrokerId(0), "a"), BrokerRack(BrokerId(1)), BrokerRack(BrokerId(2), "a")]
    assert assign_replicas_from(some, 3, 2, first_partition=0, start=0) == {0: (0, 1), 1: (1, 2), 2: (2, 0)}


def test_the_order_of_interleaved_racks() -> None:
    racks = {
        BrokerId(0): "r1",
        BrokerId(1): "r3",
        BrokerId(2): "r3",
        BrokerId(3): "r2",
        BrokerId(4): "r2",
        BrokerId(5): "r1",
    }
    assert interleave_racks(racks) == [0, 3, 1, 5, 4, 2]
    assert interleave_racks({}) == []


def test_the_start_is_drawn_from_the_random_source() -> None:
    starts = {assign_replicas(brokers(0, 1, 2), 1, 1, random.Random(seed))[0] for seed in range(30)}
    assert starts == {(0,), (1,), (2,)}


@pytest.mark.parametrize(
    ("count", "factor", "code", "message"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0."),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."),
        (1, 2, ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor: 2 larger than available brokers: 1."),
    ],
)
def test_impossible_counts_are_refused_in_kafkas_words(count: int, factor: int, code: ErrorCode, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        assign_replicas(brokers(1), count, factor, RNG)
    assert (refused.value.code, refused.value.message) == (code, message)


def test_no_broker_at_all_is_a_replication_factor_too_large() -> None:
    with pytest.raises(RequestError, match="larger than available brokers: 0"):
        assign_replicas([], 1, 1, RNG)


def test_added_partitions_go_on_where_the_topic_began() -> None:
    whole = assign_replicas_from(brokers(0, 1, 2), 7, 2, first_partition=0, start=1)
    assert added_partitions(brokers(0, 1, 2), whole[0], 3, 4) == {
        partition: whole[partition] for partition in range(3, 7)
    }


def test_partitions_are_added_though_the_first_leader_is_gone() -> None:
    assert added_partitions(brokers(1, 2), (BrokerId(5),), 1, 2) == {1: (2,), 2: (1,)}


def test_a_manual_assignment_is_taken_as_it_is() -> None:
    assert check_manual_assignment({1: [2, 1], 0: [1, 2]}, {1, 2}, {1, 2}) == {0: (1, 2), 1: (2, 1)}
    assert check_manual_assignment({0: [1, 2]}, {1, 2}, {2}) == {0: (1, 2)}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ({0: [1], 2: [1]}, "consecutive 0-based"),
        ({1: [1]}, "consecutive 0-based"),
        ({0: []}, "replication factor of 0"),
        ({0: [1, 1]}, "Duplicate brokers"),
        ({0: [1], 1: [1, 2]}, "same number of replicas"),
        ({0: [9]}, r"Unknown broker\(s\) in replica assignment: 9"),
        ({0: [1], 1: [4]}, "All brokers specified in the manual partition assignment for partition 1 are down"),
    ],
)
def test_bad_manual_assignments(assignment: dict[int, list[int]], message: str) -> None:
    with pytest.raises(RequestError, match=message) as refused:
        check_manual_assignment(assignment, {1, 2, 4}, {1, 2})
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
