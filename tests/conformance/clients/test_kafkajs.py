"""kafkajs from JavaScript; runs where Node.js is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.clients.check_program import run_checks, set_up
from tests.conformance.clients.client_samples import CODECS

pytestmark = pytest.mark.timeout(400)  # a start of Apache Kafka and all checks of a run, on a loaded machine

CHECKS = (
    *(f"round trip {codec}{kind}" for codec in CODECS for kind in ("", " idempotent")),
    "acks 0",
    "acks 1",
    "acks -1",
    "middle of a batch",
    "offsets by timestamp",
    "group resumes",
    "transaction committed",
    "transaction aborted",
    "offsets in a transaction",
    "transactional producer fenced",
    "topics administered",
    "configs described and altered",
    "cluster described",
    "record too large",
    "topic created by producer",
)


@pytest.fixture(scope="module")
def results(bootstrap: str) -> dict[str, str]:
    """What each check of one run said."""
    home = Path(set_up("setup_kafkajs.sh"))
    return run_checks(["node", "checks.js", bootstrap], directory=home)


@pytest.mark.parametrize("check", CHECKS)
def test_kafkajs(results: dict[str, str], check: str) -> None:
    assert results.get(check, "was not run") == ""


def test_every_check_of_the_program_is_listed_here(results: dict[str, str]) -> None:
    assert sorted(results) == sorted(CHECKS)
