"""What Java's KafkaShareConsumer and Admin see of share groups: `share/Scenarios.java`, on kavka and Apache Kafka 4.3.

Each scenario says what must be seen, and Apache Kafka shows that this is so. Where the two differ, a scenario does not
look: Apache Kafka gives out whole batches however far they are beyond share.partition.max.record.locks, and tells a
start offset that is behind until the next change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.conformance.clients.check_program import run_checks, set_up
from tests.conformance.clients.share_brokers import APACHE_KAFKA, THREE, serving

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1_200)]

VERSION: Final = "4.3.1"
JAVA: Final = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx400M")
RUN_S: Final = 900.0
SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "group.share.min.record.lock.duration.ms": "1000",
    "log.cleaner.backoff.ms": "500",
}
SCENARIOS: Final = (
    "implicit",
    "implicit close",
    "explicit",
    "explicit close",
    "close hands on",
    "renew",
    "renew, then too late",
    "renew, not allowed",
    "lock over",
    "two deliveries",
    "poison",
    "in flight bound",
    "record limit",
    "record limit of partitions",
    "records of 1 MiB",
    "wakeup",
    "deserialization",
    "overlapping subscriptions",
    "nine members",
    "topic later",
    "topic deleted",
    "read committed",
    "read uncommitted",
    "isolation changes",
    "limit changes",
    "compacted",
    "where it begins",
    "records deleted",
    "set anew",
    "admin, members there",
    "admin, group empty",
    "other kinds of groups",
    "settings",
)


def run(bootstrap: str) -> dict[str, str]:
    """What is wrong with each scenario, "" if nothing is."""
    return run_checks(
        [*JAVA, "-cp", set_up("setup_java_clients.sh", VERSION, "share"), "Scenarios", bootstrap], within_s=RUN_S
    )


@pytest.fixture(
    scope="module",
    params=[pytest.param(THREE, id=THREE), pytest.param(APACHE_KAFKA, id=APACHE_KAFKA, marks=pytest.mark.kafka)],
)
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What was wrong on three brokers of kavka, or on Apache Kafka."""
    with serving(request.param, tmp_path_factory.mktemp("share-scenarios"), SETTINGS) as bootstrap:
        yield run(bootstrap)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario(results: dict[str, str], scenario: str) -> None:
    assert results[scenario] == ""


def test_no_scenario_is_missing(results: dict[str, str]) -> None:
    assert set(results) == set(SCENARIOS)
