"""Quotas asked for, set and removed: kavka answers, and writes into ZooKeeper, as Apache Kafka 3.9 does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.zookeeper.port import ZooKeeper
from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.conformance.zookeeper.jute_client import JuteClient, whole_tree
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit import quota_script

pytestmark = pytest.mark.kafka

SEPARATE = ("/config/users/", "/config/clients/", "/config/ips/")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    try:
        broker = ApacheKafka(tmp_path_factory.mktemp("quotas") / "zk", heap="-Xmx512M -Xms256M")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with broker:
        yield broker


def of_kafka(kafka: ApacheKafka) -> dict[str, Any]:
    client = JuteClient(kafka.zookeeper.split("/")[0])

    def nodes() -> dict[str, Any]:
        return {
            path: json.loads(data) if data else None
            for path, (data, _stat) in whole_tree(client, "/config").items()
            if path.startswith(SEPARATE)
        }

    return quota_script.run(int(kafka.bootstrap.rpartition(":")[2]), nodes)


async def tree_below(zookeeper: ZooKeeper, path: str) -> dict[str, Any]:
    data, _stat = await zookeeper.get(path)
    found = {path: json.loads(data) if data else None}
    for name in await zookeeper.children(path):
        found |= await tree_below(zookeeper, f"{path}/{name}")
    return found


def of_kavka(path: Path) -> dict[str, Any]:
    async def scenario() -> dict[str, Any]:
        async with InProcessCluster(path, count=1) as cluster:
            ((_host, port),) = cluster.bootstrap
            loop = asyncio.get_running_loop()

            def nodes() -> dict[str, Any]:
                tree = asyncio.run_coroutine_threadsafe(tree_below(cluster.session, "/config"), loop).result(20)
                return {path: config for path, config in tree.items() if path.startswith(SEPARATE)}

            return await asyncio.to_thread(quota_script.run, port, nodes)

    return asyncio.run(asyncio.wait_for(scenario(), 120))


@pytest.mark.timeout(300)
def test_every_request_is_answered_and_stored_as_by_kafka(kafka: ApacheKafka, tmp_path: Path) -> None:
    theirs, ours = of_kafka(kafka), of_kavka(tmp_path)
    for name, _entries, code in quota_script.REFUSED_BY_KAVKA:
        codes = [[told for _entity, told, _message in answers.pop(f"look at {name}")] for answers in (theirs, ours)]
        assert codes == [[code], [ErrorCode.INVALID_REQUEST]], name
    different = {step: (theirs[step], ours[step]) for step in theirs if theirs[step] != ours[step]}
    assert not different, "\n".join(f"{step}:\n  kafka {a}\n  kavka {b}" for step, (a, b) in different.items())
