"""Racks with unlike numbers of brokers: where Kafka's AdminUtils puts replicas, worked by hand."""

from __future__ import annotations

import pytest

from kavka.controller.decide.assignment import BrokerRack, assign_replicas_from, interleave_racks
from kavka.model import BrokerId

RACKS = {BrokerId(0): "a", BrokerId(1): "b", BrokerId(2): "b", BrokerId(3): "b", BrokerId(4): "c"}
"""In turn they are brokers 0, 1, 4, 2, 3: the last two stand in one rack."""


def test_racks_take_turns_as_long_as_they_have_brokers_left() -> None:
    assert interleave_racks(RACKS) == [0, 1, 4, 2, 3]


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        (2, {0: (0, 1), 1: (1, 4), 2: (4, 2), 3: (2, 0), 4: (3, 0)}),
        (3, {0: (0, 1, 4), 1: (1, 4, 0), 2: (4, 2, 0), 3: (2, 0, 4), 4: (3, 0, 4)}),
        (4, {0: (0, 1, 4, 2), 1: (1, 4, 0, 2), 2: (4, 2, 0, 1), 3: (2, 0, 4, 3), 4: (3, 0, 4, 2)}),
    ],
)
def test_no_rack_has_two_replicas_while_another_has_none(factor: int, expected: dict[int, tuple[int, ...]]) -> None:
    brokers = [BrokerRack(broker_id, rack) for broker_id, rack in RACKS.items()]
    assert assign_replicas_from(brokers, 5, factor, first_partition=0, start=0) == expected
