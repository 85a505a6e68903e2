"""A topic that was deleted and made again, on a broker that has the new one's replica and knows the former one."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

from kavka.errors import ErrorCode
from kavka.protocol.messages import FetchRequest, ProduceRequest
from kavka.protocol.messages.fetch_request import FetchPartition, FetchTopic
from kavka.protocol.messages.produce_request import PartitionProduceData, TopicProduceData
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.broker_client import BrokerClient, batch

ANEW = uuid.UUID(int=0x1234_5678_9ABC_4DEF_8000_0000_0000_0002)


def created(port: int) -> uuid.UUID:
    with BrokerClient(port) as client:
        return client.topic_id(client.create_topic("orders"))


def asked(port: int, topic_id: uuid.UUID) -> tuple[int, int]:
    """The errors of Produce and of Fetch."""
    written = PartitionProduceData(index=0, records=bytes(batch(b"value")))
    data = [TopicProduceData(topic_id=topic_id, partition_data=[written])]
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic_id=topic_id, partitions=[wanted])]
    with BrokerClient(port) as client:
        produced = client.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data), 13)
        fetched = client.ask(FetchRequest(max_bytes=1 << 20, session_epoch=-1, topics=topics), 13)
    return produced.responses[0].partition_responses[0].error_code, fetched.responses[0].partitions[0].error_code


def test_who_names_the_former_one_neither_writes_nor_reads_the_new_one(tmp_path: Path) -> None:
    """A write had been acknowledged, and lay in the other topic."""

    async def scenario() -> None:
        async with InProcessCluster(tmp_path, count=1) as cluster:
            _, port = cluster.bootstrap[0]
            former = await asyncio.to_thread(created, port)
            replicas = cluster.broker(1).replicas
            hosted = replicas.require_partition("orders", 0)
            replicas.identify(hosted, ANEW)
            errors = await asyncio.to_thread(asked, port, former)
            assert errors == (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID)
            assert hosted.log.log_end_offset == 0
            replicas.identify(hosted, former)
            assert await asyncio.to_thread(asked, port, former) == (ErrorCode.NONE, ErrorCode.NONE)

    asyncio.run(asyncio.wait_for(scenario(), 280))
