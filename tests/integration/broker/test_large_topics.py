"""Topics of thousands of partitions: who made one waits, others do not."""

from __future__ import annotations

from pathlib import Path

from kavka.protocol.messages import DeleteTopicsRequest
from kavka.protocol.messages.delete_topics_request import DeleteTopicState
from tests.kit.broker_client import BrokerClient, SteadyClient, batch
from tests.kit.kavka_process import KavkaProcess

PARTITIONS = 10_000
PATIENCE_S = 250.0
ROUNDS = 5
"""So many writes and reads of another client come between: a broker that did all in one turn would let one pass."""


def test_others_are_served_while_ten_thousand_partitions_are_made_and_removed(tmp_path: Path) -> None:
    with (
        KavkaProcess(tmp_path / "data") as broker,
        BrokerClient(broker.port, timeout_s=PATIENCE_S) as client,
        SteadyClient(broker.port) as good,
    ):
        before = good.rounds
        client.create_topic("large", partitions=PARTITIONS)
        assert good.rounds - before >= ROUNDS
        for partition in (0, PARTITIONS // 2, PARTITIONS - 1):
            assert client.produce("large", bytes(batch(b"value")), partition=partition).base_offset == 0
        # Nobody saw it before it was whole.
        assert len(client.topics("large")["large"].partitions) == PARTITIONS

        before = good.rounds
        delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="large")], timeout_ms=200_000)
        assert client.ask(delete, 6).responses[0].error_code == 0
        assert good.rounds - before >= ROUNDS
