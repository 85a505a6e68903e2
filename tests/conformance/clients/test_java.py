"""Java's producer, consumer and administrator: the newest 4.x and the last of the line that still knows ZooKeeper."""

from __future__ import annotations

import pytest

from tests.conformance.clients.check_program import run_checks, set_up
from tests.conformance.clients.client_samples import CODECS

pytestmark = pytest.mark.timeout(400)  # a start of Apache Kafka and all checks of a run, on a loaded machine

VERSIONS = ("4.3.1", "3.9.2")
CHECKS = (
    *(f"round trip {codec}{kind}" for codec in CODECS for kind in ("", " idempotent")),
    "acks 0",
    "acks 1",
    "acks all",
    "middle of a batch",
    "append time",
    "offsets for times",
    "special timestamps",
    "group resumes",
    "group shared",
    "groups administered",
    "static member restarted",
    "members removed",
    "consumer protocol resumes",
    "consumer protocol shared",
    "consumer protocol static member restarted",
    "consumer protocol members removed",
    "topics administered",
    "topics refused",
    "partitions added",
    "topic configs",
    "broker configs",
    "records deleted",
    "cluster described",
    "log dirs described",
    "replicas in log dirs",
    "leaders elected",
    "reassignments listed",
    "offset out of range",
    "record too large",
    "topic created by producer",
    "illegal topic name",
    "transactions committed and aborted",
    "offsets in a transaction",
    "transactional producer fenced",
    "transactions administered",
)
# A short run: the quick compiler alone, the collector without threads, and a small heap.
JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256M")


@pytest.fixture(
    scope="module",
    params=[VERSIONS[0], *(pytest.param(older, marks=pytest.mark.thorough) for older in VERSIONS[1:])],
    ids=lambda version: f"kafka-clients-{version}",
)
def results(request: pytest.FixtureRequest, bootstrap: str) -> dict[str, str]:
    """What each check of one run of the JVM said."""
    class_path = set_up("setup_java_clients.sh", request.param)
    return run_checks([*JAVA, "-cp", class_path, "Checks", bootstrap])


@pytest.mark.parametrize("check", CHECKS)
def test_java(results: dict[str, str], check: str) -> None:
    assert results.get(check, "was not run") == ""


def test_every_check_of_the_program_is_listed_here(results: dict[str, str]) -> None:
    assert sorted(results) == sorted(CHECKS)
