"""A broker to which no controller has sent the cluster's metadata yet: nobody is answered as if nothing existed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kavka.broker.metadata import first_metadata
from kavka.errors import ErrorCode
from kavka.protocol.messages import ListOffsetsRequest, MetadataRequest
from kavka.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsTopic
from kavka.zookeeper.port import CreateMode
from kavka.zookeeper.znodes import CONTROLLER_PATH
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.broker_client import LATEST, BrokerClient, Closed

SILENT_CONTROLLER = b'{"version":2,"brokerid":9,"timestamp":"1","kraftControllerEpoch":-1}'


def ask_for_metadata(port: int) -> int:
    """The number of brokers in the answer. Raises Closed."""
    with BrokerClient(port) as client:
        return len(client.ask(MetadataRequest(topics=None), 5).brokers)


def ask_for_end(port: int) -> int:
    """The error of ListOffsets for a topic that may exist."""
    partition = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=LATEST)
    topic = ListOffsetsTopic(name="orders", partitions=[partition])
    with BrokerClient(port) as client:
        answer = client.ask(ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[topic]), 5)
    return int(answer.topics[0].partitions[0].error_code)


def test_it_sends_clients_elsewhere_until_it_knows_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_metadata, "METADATA_PATIENCE_S", 0.3)

    async def run() -> None:
        async with InProcessCluster(tmp_path, count=0) as cluster:
            await cluster.session.create(CONTROLLER_PATH, SILENT_CONTROLLER, mode=CreateMode.EPHEMERAL)
            port = cluster.add_broker(1)
            starting = asyncio.create_task(cluster.start(1))
            await until_it_listens(port)
            with pytest.raises(Closed):
                await asyncio.to_thread(ask_for_metadata, port)
            assert await asyncio.to_thread(ask_for_end, port) == ErrorCode.NOT_LEADER_OR_FOLLOWER
            await cluster.session.delete(CONTROLLER_PATH)
            await starting
            assert await asyncio.to_thread(ask_for_metadata, port) == 1
            assert await asyncio.to_thread(ask_for_end, port) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    asyncio.run(asyncio.wait_for(run(), 280))


async def until_it_listens(port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.02)
            continue
        writer.close()
        return
