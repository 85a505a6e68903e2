"""Topics of thousands of partitions: who made one waits, others do not."""

from __future__ import annotations

import time
from pathlib import Path

from broker_client import BrokerClient, SteadyClient, batch
from kavka.protocol.messages import DeleteTopicsRequest
from kavka.protocol.messages.delete_topics_request import DeleteTopicState
from kavka_process import KavkaProcess

PARTITIONS = 10_000
PATIENCE_S = 60.0


def test_others_are_served_while_ten_thousand_partitions_are_made_and_removed(tmp_path: Path) -> None:
    with (
        KavkaProcess(tmp_path / "data") as broker,
        BrokerClient(broker.port, timeout_s=PATIENCE_S) as client,
        SteadyClient(broker.port) as good,
    ):
        began = time.perf_counter()
        client.create_topic("large", partitions=PARTITIONS)
        creation_s = time.perf_counter() - began
        assert good.longest_s < creation_s / 2
        for partition in (0, PARTITIONS // 2, PARTITIONS - 1):
            assert client.produce("large", bytes(batch(b"value")), partition=partition).base_offset == 0
        # Nobody saw it before it was whole.
        assert len(client.topics("large")["large"].partitions) == PARTITIONS

        good.longest_s = 0.0
        began = time.perf_counter()
        delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="large")], timeout_ms=60_000)
        assert client.ask(delete, 6).responses[0].error_code == 0
        deletion_s = time.perf_counter() - began
        assert good.longest_s < deletion_s / 2 + 0.1
