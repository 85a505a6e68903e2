"""What a streams application is told of its topology, in the protocol's numbers, and which topologies can be read."""

from __future__ import annotations

import pytest

from kavka.coordinator.groups.streams.decide.topology import Status, StatusCode, configure, topology_of
from kavka.errors import RequestError
from kavka.protocol.messages.streams_group_heartbeat_request import Subtopology as RequestedSubtopology
from tests.kit.group_surroundings import HandMadeTopics
from tests.kit.streams_case import COUNTS, REPARTITION, part, topology


def test_statuses_have_the_protocols_numbers() -> None:
    told = [
        configure(topology(part("0", "gone")), HandMadeTopics()).status,
        configure(COUNTS, HandMadeTopics(**{"t": 4, REPARTITION: 5})).status,
        configure(COUNTS, HandMadeTopics(t=4)).status,
    ]
    assert [int(status.code) for status in told if isinstance(status, Status)] == [1, 2, 3]
    assert [(status.name, int(status)) for status in StatusCode] == [
        ("STALE_TOPOLOGY", 0),
        ("MISSING_SOURCE_TOPICS", 1),
        ("INCORRECTLY_PARTITIONED_TOPICS", 2),
        ("MISSING_INTERNAL_TOPICS", 3),
        ("SHUTDOWN_APPLICATION", 4),
        ("ASSIGNMENT_DELAYED", 5),
    ]


def test_parts_of_different_names_are_read_and_two_of_one_name_are_not() -> None:
    several = [RequestedSubtopology(subtopology_id=name) for name in ("1", "0")]
    read = topology_of(7, several)
    assert (read.epoch, list(read.subtopologies)) == (7, ["1", "0"])
    with pytest.raises(RequestError, match=r"Subtopology 1 is there twice\."):
        topology_of(7, [*several, several[0]])
