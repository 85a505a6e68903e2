"""A compacted topic on three brokers: transactions, compaction and a change of leaders, and the table is right."""

from __future__ import annotations

import random
from pathlib import Path

from kavka.client.admin import Admin, NewTopic
from kavka.client.cluster import Cluster
from kavka.client.consumer import Consumer
from kavka.client.settings import ConsumerSettings, OffsetReset
from kavka.model import TopicPartition
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.integration.cluster_in_process.test_cluster_transactions import runs, transactional

TOPIC = "table"
ROUNDS = 60
SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.delete.retention.ms": "600000",
}


async def table(client: Cluster) -> dict[bytes, bytes]:
    """The latest value of each key, as a reader of committed records from the beginning sees it."""
    settings = ConsumerSettings(auto_offset_reset=OffsetReset.EARLIEST, read_committed=True)
    values: dict[bytes, bytes] = {}
    async with Consumer(client, settings) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        ends = await consumer.end_offsets()
        while not consumer.reached(ends):
            for record in await consumer.poll():
                assert record.key is not None
                if record.value is None:
                    values.pop(record.key, None)
                else:
                    values[record.key] = record.value
    return values


def test_transactions_compaction_and_failover_leave_the_right_table(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        rng, expected = random.Random(5), dict[bytes, bytes]()
        async with cluster.client() as client:
            config = {"cleanup.policy": "compact", "segment.bytes": "3000", "min.cleanable.dirty.ratio": "0.01"}
            assert await Admin(client).create_topics([NewTopic(TOPIC, 1, 3, config)]) == {}
            producer = await transactional(client)
            for number in range(ROUNDS):
                changes = {b"k%d" % rng.randrange(12): None if rng.random() < 0.2 else b"%d" % number for _ in range(4)}
                producer.begin_transaction()
                for key, value in changes.items():
                    await producer.send(TOPIC, value, key=key, partition=0)
                if rng.random() < 0.3:
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
                    for key, value in changes.items():
                        if value is None:
                            expected.pop(key, None)
                        else:
                            expected[key] = value
            await producer.close()
            logs = [cluster.broker(broker_id).logs.get(TopicPartition(TOPIC, 0)) for broker_id in (1, 2, 3)]

            def are_clean() -> bool:
                ends = [(log.cleaned_to, log.segments[-1].base_offset) for log in logs if log is not None]
                return len(ends) == 3 and all(cleaned == active for cleaned, active in ends)

            await cluster.until(are_clean, "compaction up to the active segment")
            for log in logs:
                assert log is not None
                assert log.size_bytes < ROUNDS * 300, "nothing was taken away"
            for _ in range(3):
                assert await table(client) == expected
                leader = await cluster.leader(TOPIC)
                await cluster.stop(leader)
                assert await table(client) == expected
                await cluster.start(leader)
                await cluster.wait_for_isr(TOPIC, 0, [1, 2, 3])

    runs(tmp_path, scenario, SETTINGS)
