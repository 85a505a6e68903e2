"""Programs of Kafka's ecosystem, unmodified, beside kavka and beside Apache Kafka: `make ecosystem`.

The same scripts run against both, so that what a test expects is known to be what Apache Kafka does. Java processes
take memory and time: run them one after another (no -n).
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.apache_kafka import PeerMissing, Release

# These are `make ecosystem`, which names this folder: whoever collects all of tests/ does not mean them.
collect_ignore_glob = [] if os.environ.get("KAVKA_ECOSYSTEM") else ["test_*.py"]

BROKERS = {
    "kavka": "kavka_broker",
    "kafka-3.9": "apache_kafka",
    "kafka-4.3": "apache_kafka_kraft",
}
"""Who is under test, and the fixture that starts it."""


@pytest.fixture
def start_brokers(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """start_brokers(name of BROKERS) is the bootstrap address of that one, which is started at first."""

    def start(name: str) -> str:
        return str(request.getfixturevalue(BROKERS[name]).bootstrap)

    return start


@pytest.fixture
def bootstrap(request: pytest.FixtureRequest, start_brokers: Callable[[str], str]) -> str:
    """host:port of the broker that the test's parameter names."""
    return start_brokers(request.param)


@pytest.fixture
def release(request: pytest.FixtureRequest) -> Release:
    """Whose Connect and MirrorMaker run, of the test's parameter: "zk" or "kraft"."""
    found = Release.named(request.param)
    try:
        found.installed()
    except PeerMissing as missing:
        pytest.skip(str(missing))
    return found
