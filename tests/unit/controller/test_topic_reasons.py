"""The sentence of a topic's why-record: one partition is told as one, and new ones apart from the others."""

from __future__ import annotations

import pytest

from kavka.controller.decide.reasons import Stamp, topic_decision
from kavka.decisions import DecisionKind
from kavka.model import BrokerId, TopicPartition
from kavka.zookeeper.znodes import TopicAssignment


@pytest.mark.parametrize(
    ("partitions", "added", "why"),
    [
        (1, [0], "topic orders has 1 partition, replication factor 2"),
        (3, [0, 1, 2], "topic orders has 3 partitions, replication factor 2"),
        (3, [2], "topic orders has 3 partitions now, 1 of them new, replication factor 2"),
    ],
)
def test_a_topic_is_told_with_its_partitions(partitions: int, added: list[int], why: str) -> None:
    assignment = TopicAssignment("orders", dict.fromkeys(range(partitions), (1, 2)), None)
    new = [TopicPartition("orders", number) for number in added]
    decision = topic_decision(Stamp(1_000, BrokerId(1), 7), DecisionKind.TOPIC_CREATED, assignment, new)
    assert decision.why == why
    assert decision.evidence == {
        "topic": "orders",
        "added": len(added),
        "partitions": partitions,
        "replication_factor": 2,
    }


def test_the_factor_is_that_of_the_first_new_partition() -> None:
    assignment = TopicAssignment("orders", {0: (1,), 1: (1, 2), 2: (1, 2, 3)}, None)
    new = [TopicPartition("orders", number) for number in (1, 2)]
    decision = topic_decision(Stamp(1_000, BrokerId(1), 7), DecisionKind.TOPIC_CREATED, assignment, new)
    assert decision.evidence["replication_factor"] == 2
