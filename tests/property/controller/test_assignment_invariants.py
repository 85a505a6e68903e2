"""Whatever the brokers, racks, counts and draws: replicas are spread as the rules of assignment say."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kavka.controller.decide.assignment import BrokerRack, added_partitions, assign_replicas, interleave_racks
from kavka.model import BrokerId

broker_ids = st.lists(st.integers(0, 50).map(BrokerId), min_size=1, max_size=9, unique=True)
racks = st.dictionaries(st.integers(0, 50).map(BrokerId), st.sampled_from("abc"), min_size=1, max_size=9)


@given(broker_ids, st.integers(1, 40), st.data())
def test_without_racks(ids: list[BrokerId], count: int, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, len(ids)))
    assignment = assign_replicas(
        [BrokerRack(broker_id) for broker_id in ids], count, factor, random.Random(data.draw(st.integers()))
    )
    assert list(assignment) == list(range(count))
    for replicas in assignment.values():
        assert len(replicas) == len(set(replicas)) == factor
        assert set(replicas) <= set(ids)
    leaders = Counter(replicas[0] for replicas in assignment.values())
    assert max(leaders.values()) - min(leaders[broker_id] for broker_id in ids) <= 1
    if count % len(ids) == 0:
        held = Counter(broker_id for replicas in assignment.values() for broker_id in replicas)
        assert set(held.values()) == {factor * count // len(ids)}, "a whole round gives every broker the same"


@given(racks, st.integers(1, 40), st.data())
def test_with_racks(rack_of: dict[BrokerId, str], count: int, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, len(rack_of)))
    brokers = [BrokerRack(broker_id, rack) for broker_id, rack in rack_of.items()]
    assignment = assign_replicas(brokers, count, factor, random.Random(data.draw(st.integers())))
    rack_count = len(set(rack_of.values()))
    for replicas in assignment.values():
        assert len(replicas) == len(set(replicas)) == factor
        assert len({rack_of[broker_id] for broker_id in replicas}) == min(factor, rack_count)
    leaders = Counter(replicas[0] for replicas in assignment.values())
    assert max(leaders.values()) - min(leaders[broker_id] for broker_id in rack_of) <= 1


@given(racks)
def test_interleaving_keeps_every_broker_once(rack_of: dict[BrokerId, str]) -> None:
    order = interleave_racks(rack_of)
    assert sorted(order) == sorted(rack_of)
    rack_count = len(set(rack_of.values()))
    smallest = min(Counter(rack_of.values()).values())
    for start in range(0, rack_count * smallest, rack_count):
        assert len({rack_of[broker_id] for broker_id in order[start : start + rack_count]}) == rack_count


@given(broker_ids, st.integers(1, 20), st.integers(1, 20), st.data())
def test_added_partitions_are_valid(ids: list[BrokerId], existing: int, added: int, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, len(ids)))
    first = tuple(data.draw(st.permutations(range(60)))[:factor])
    assignment = added_partitions(
        [BrokerRack(broker_id) for broker_id in ids], tuple(map(BrokerId, first)), existing, added
    )
    assert list(assignment) == list(range(existing, existing + added))
    assert all(len(set(replicas)) == factor for replicas in assignment.values())
