"""Brokers speak among themselves as Apache Kafka's do in the release that they are told."""

from __future__ import annotations

import pytest

from kavka.replication.alter_partition_writer import stores_isr_through_controller
from kavka.replication.decide.fetch_versions import (
    FIRST_FETCH_WITH_REPLICA_STATE,
    FIRST_FETCH_WITH_TOPIC_IDS,
    LAST_FETCH_BY_NAME,
    fetch_versions,
)

KAFKA = {
    "2.0-IV1": (10, 4, 2),  # Kafka has older ones, which no broker here serves
    "2.1-IV2": (10, 4, 2),
    "2.2-IV0": (10, 4, 2),
    "2.2-IV1": (10, 5, 2),
    "2.3-IV0": (10, 5, 2),
    "2.3-IV1": (11, 5, 3),
    "2.7-IV0": (11, 5, 3),
    "2.7-IV1": (12, 5, 3),
    "2.7-IV2": (12, 5, 3),
    "2.8-IV0": (12, 6, 4),
    "3.0-IV0": (12, 6, 4),
    "3.0-IV1": (12, 7, 4),
    "3.1-IV0": (13, 7, 4),
    "3.4-IV0": (13, 7, 4),
    "3.5-IV0": (14, 8, 4),
    "3.5-IV1": (15, 8, 4),
    "3.7-IV3": (15, 8, 4),
    "3.7-IV4": (16, 8, 4),
    "3.8-IV0": (16, 8, 4),
    "3.9-IV0": (17, 9, 4),
}
"""Fetch, ListOffsets and OffsetForLeaderEpoch, on both sides of each change: MetadataVersion of Kafka 3.9."""


@pytest.mark.parametrize(("release", "versions"), KAFKA.items())
def test_each_release_has_the_versions_of_apache_kafka(release: str, versions: tuple[int, int, int]) -> None:
    assert fetch_versions(release)[:3] == versions


@pytest.mark.parametrize("release", KAFKA)
def test_answers_say_where_logs_part_from_the_fetches_on_that_name_the_last_fetched_epoch(release: str) -> None:
    assert fetch_versions(release).truncates_on_fetch is (KAFKA[release][0] >= 12)


@pytest.mark.parametrize(
    ("release", "last"),
    [("2.7", "2.7-IV2"), ("3.0", "3.0-IV1"), ("3.5", "3.5-IV2"), ("3.7", "3.7-IV4"), ("3.9.2", "3.9-IV0")],
)
def test_a_release_without_its_internal_version_is_its_last_one(release: str, last: str) -> None:
    assert fetch_versions(release) == fetch_versions(last)


def test_a_fetch_names_topics_by_id_from_version_13_on_and_the_replicas_registration_from_15_on() -> None:
    # FetchRequest.json of Apache Kafka: Topic 0-12, TopicId 13+, ReplicaState 15+.
    assert (LAST_FETCH_BY_NAME, FIRST_FETCH_WITH_TOPIC_IDS, FIRST_FETCH_WITH_REPLICA_STATE) == (12, 13, 15)
    assert fetch_versions("3.0").fetch == LAST_FETCH_BY_NAME
    assert fetch_versions("3.1").fetch == FIRST_FETCH_WITH_TOPIC_IDS
    assert fetch_versions("3.5-IV1").fetch == FIRST_FETCH_WITH_REPLICA_STATE


@pytest.mark.parametrize(
    ("release", "by_controller"),
    [("2.6-IV0", False), ("2.7-IV1", False), ("2.7-IV2", True), ("2.7", True), ("2.8-IV0", True), ("3.9-IV0", True)],
)
def test_the_controller_stores_isrs_since_2_7_iv2(release: str, *, by_controller: bool) -> None:
    assert stores_isr_through_controller(release) is by_controller
