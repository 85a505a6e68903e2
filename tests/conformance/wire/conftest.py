"""A broker of each kind for the raw requests. KAVKA_TEST_BOOTSTRAP=host:port names a running one to take for kavka."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

Address = tuple[str, int]


@pytest.fixture(scope="session")
def kavka_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A kavka broker whose groups do not wait for more members, as the recorded brokers were set."""
    if given := os.environ.get("KAVKA_TEST_BOOTSTRAP"):
        yield address(given)
        return
    from tests.kit.kavka_process import KavkaProcess

    settings = {"group.initial.rebalance.delay.ms": "0"}
    with KavkaProcess(tmp_path_factory.mktemp("kavka-wire") / "data", settings=settings) as broker:
        yield address(broker.bootstrap)


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(("kafka-3.9", "apache_kafka"), id="kafka-3.9"),
        pytest.param(("kafka-4.3", "apache_kafka_kraft"), id="kafka-4.3"),
    ],
)
def live_line(request: pytest.FixtureRequest) -> tuple[str, Address]:
    """The name of a line of Apache Kafka in the recorded answers, and a running broker of it."""
    line, fixture = request.param
    return line, address(request.getfixturevalue(fixture).bootstrap)


def address(bootstrap: str) -> Address:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)
