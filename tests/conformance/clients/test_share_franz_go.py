"""franz-go as a member of share groups (franz-go/share.go): runs where Go is there, on Apache Kafka, too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.clients.check_program import run_checks, set_up
from tests.conformance.clients.share_brokers import SHARE_BROKERS, serving

pytestmark = pytest.mark.timeout(400)

CHECKS = (
    "done once",
    "implicit",
    "two deliveries",
    "connection lost",
    "record limit",
    "renewed",
    "administered",
)


@pytest.fixture(scope="module", params=SHARE_BROKERS)
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What each check of one run said."""
    program = set_up("setup_go_client.sh", "franz-go")
    with serving(request.param, tmp_path_factory.mktemp("share")) as bootstrap:
        yield run_checks([program, bootstrap, "share"])


@pytest.mark.parametrize("check", CHECKS)
def test_share_group(results: dict[str, str], check: str) -> None:
    assert results.get(f"share group {check}", "was not run") == ""


def test_every_check_of_the_program_is_listed_here(results: dict[str, str]) -> None:
    assert sorted(results) == sorted(f"share group {check}" for check in CHECKS)
