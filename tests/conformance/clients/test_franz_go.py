"""franz-go from Go; runs where Go is there."""

from __future__ import annotations

import subprocess

import pytest

from tests.conformance.clients.check_program import run_checks, set_up
from tests.conformance.clients.client_samples import CODECS

pytestmark = pytest.mark.timeout(400)  # a start of Apache Kafka and all checks of a run, on a loaded machine

CHECKS = (
    *(f"round trip {codec}{kind}" for codec in CODECS for kind in ("", " idempotent")),
    "acks 0",
    "acks 1",
    "acks all",
    "middle of a batch",
    "offsets by timestamp",
    "group resumes",
    "transaction committed",
    "transaction aborted",
    "offsets in a transaction",
    "consumer protocol",
    "offsets in a transaction, consumer protocol",
    "topics administered",
    "configs described and altered",
    "records deleted",
    "cluster described",
    "log dirs described",
    "record too large",
    "topic created by producer",
    "offset out of range",
)


GUESSES = {
    "kavka_broker": "at least v3.9",
    "kavka_three_brokers": "at least v3.9",
    "apache_kafka": "v3.9",
    "apache_kafka_kraft": "v4.3",
}
"""Which release a broker seems to be to programs that guess it from its APIs, as kminion does."""


@pytest.fixture(scope="module")
def results(bootstrap: str) -> dict[str, str]:
    """What each check of one run said."""
    return run_checks([set_up("setup_go_client.sh", "franz-go"), bootstrap])


def test_a_program_that_guesses_releases(bootstrap: str, request: pytest.FixtureRequest) -> None:
    command = [set_up("setup_go_client.sh", "franz-go"), bootstrap, "guess"]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert set(printed.splitlines()) == {GUESSES[request.node.callspec.params["bootstrap"]]}


@pytest.mark.parametrize("check", CHECKS)
def test_franz_go(results: dict[str, str], check: str) -> None:
    assert results.get(check, "was not run") == ""


def test_every_check_of_the_program_is_listed_here(results: dict[str, str]) -> None:
    assert sorted(results) == sorted(CHECKS)
