"""The same load on kavka and on Apache Kafka 3.9: the delays that they tell are within 5 % of each other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit import quota_load

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

SLACK_MS = 60
"""What answers took, on a machine that is busy."""


@pytest.mark.timeout(500)
def test_delays_are_those_of_kafka(tmp_path: Path) -> None:
    try:
        kafka = ApacheKafka(tmp_path / "kafka", settings=quota_load.SETTINGS, heap="-Xmx512M -Xms256M")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with kafka:
        theirs = quota_load.run(int(kafka.bootstrap.rpartition(":")[2]))

    async def scenario() -> dict[str, list[int]]:
        async with InProcessCluster(tmp_path / "kavka", count=1, settings=quota_load.SETTINGS) as cluster:
            ((_host, port),) = cluster.bootstrap
            return await asyncio.to_thread(quota_load.run, port)

    ours = asyncio.run(asyncio.wait_for(scenario(), 200))
    assert theirs.keys() == ours.keys()
    for kind, expected in theirs.items():
        assert ours[kind] == [pytest.approx(told, rel=0.05, abs=SLACK_MS) for told in expected], kind
