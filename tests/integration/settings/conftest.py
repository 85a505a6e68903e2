"""Which broker the settings are tried on.

kavka's, and in `make conformance` Apache Kafka 3.9 too, which shows that a test asks the right thing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.integration.settings.running_broker import RunningBroker
from tests.kit.kavka_process import KavkaProcess

HEAP = "-Xmx512M -Xms256M"


@pytest.fixture(scope="module")
def static_settings() -> Mapping[str, str]:
    """What a module's broker is started with."""
    return {}


@pytest.fixture(
    scope="module",
    params=[pytest.param("kavka"), pytest.param("kafka-3.9", marks=pytest.mark.kafka)],
)
def process(
    request: pytest.FixtureRequest, static_settings: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    directory = tmp_path_factory.mktemp("settings")
    if request.param == "kavka":
        with KavkaProcess(directory / "data", settings=static_settings) as kavka:
            running = RunningBroker(kavka.port, kavka.data_dir / "logs")
            yield running
            running.close()
        return
    known = {name: value for name, value in static_settings.items() if not name.startswith("kavka.")}
    try:
        kafka = ApacheKafka(directory / "zk", settings=known, heap=HEAP)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with kafka:
        running = RunningBroker(kafka.port, kafka.data_dir / "node-1")
        yield running
        running.close()


@pytest.fixture
def broker(process: RunningBroker) -> Iterator[RunningBroker]:
    """The module's broker, as it was started."""
    yield process
    process.undo()
