"""rskafka from Rust; runs where Rust is there. To build it takes most of a minute: part of `make conformance`."""

from __future__ import annotations

import pytest

from tests.conformance.clients.check_program import run_checks, set_up
from tests.conformance.clients.client_samples import CODECS

CHECKS = (
    *(f"round trip {codec}" for codec in CODECS),
    "middle of a batch",
    "offsets by timestamp",
    "waits for records",
    "topics administered",
    "records deleted",
    "offset out of range",
)

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def results(bootstrap: str) -> dict[str, str]:
    """What each check of one run said."""
    return run_checks([set_up("setup_rust_client.sh"), bootstrap])


@pytest.mark.parametrize("check", CHECKS)
def test_rskafka(results: dict[str, str], check: str) -> None:
    assert results.get(check, "was not run") == ""


def test_every_check_of_the_program_is_listed_here(results: dict[str, str]) -> None:
    assert sorted(results) == sorted(CHECKS)
