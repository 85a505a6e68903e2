"""Which broker kavka's own client talks to.

Each test runs against kavka; with KAVKA_ALL_CLIENTS=1 also against Apache Kafka 3.9 (ZooKeeper) and 4.x
(KRaft), so that the client is known to speak to both. KAVKA_TEST_BOOTSTRAP=host:port names a running broker to take in
the place of kavka's own.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable

import pytest


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("kavka_broker", id="kavka"),
        pytest.param("apache_kafka", id="kafka-zk", marks=pytest.mark.kafka),
        pytest.param("apache_kafka_kraft", id="kafka-kraft", marks=pytest.mark.kafka),
    ],
)
def bootstrap(request: pytest.FixtureRequest) -> str:
    """host:port of the broker under test."""
    if request.param == "kavka_broker" and "KAVKA_TEST_BOOTSTRAP" in os.environ:
        return os.environ["KAVKA_TEST_BOOTSTRAP"]
    return str(request.getfixturevalue(request.param).bootstrap)


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """fresh(prefix) is a name that nothing else has."""
    return lambda prefix: f"{prefix}-{uuid.uuid4().hex[:12]}"
