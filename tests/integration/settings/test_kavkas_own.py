"""Settings that only kavka has, and some of Kafka's that need a broker of their own."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.integration.settings.running_broker import HOUR_MS, RunningBroker, eventually, records
from tests.integration.settings.test_at_start import metadata, topic_value
from tests.kit.kavka_process import KavkaProcess
from tests.kit.ports import free_port

DECISIONS = "__kavka_decisions"
METRICS_PORT = free_port()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    directory, port = tmp_path_factory.mktemp("settings") / "data", free_port()
    settings = {
        "node.id": "5",
        "advertised.listeners": f"PLAINTEXT://localhost:{port}",
        "log.retention.minutes": "90",
        "log.roll.jitter.hours": "2",
        "log.flush.start.offset.checkpoint.interval.ms": "100",
        "replica.high.watermark.checkpoint.interval.ms": "100",
        "kavka.metrics.port": str(METRICS_PORT),
        "kavka.metrics.host": "127.0.0.1",
        "kavka.decisions.topic.enable": "true",
        "kavka.decisions.retention.ms": "7200000",
        "kavka.decisions.retention.bytes": "80000000",
        "kavka.flight.recorder.enable": "false",
        "log.cleaner.backoff.ms": str(HOUR_MS),
    }
    with KavkaProcess(directory, port=port, settings=settings) as kavka:
        running = RunningBroker(kavka.port, kavka.data_dir / "logs", broker_id=5)
        yield running
        running.close()


@pytest.mark.setting("node.id", "advertised.listeners")
def test_clients_are_told_its_number_and_its_address(broker: RunningBroker) -> None:
    assert [(each.node_id, each.host) for each in metadata(broker, "any").brokers] == [(5, "localhost")]


@pytest.mark.setting("log.retention.minutes", "log.roll.jitter.hours")
def test_times_in_other_units(broker: RunningBroker) -> None:
    topic = broker.topic()
    assert topic_value(broker, topic, "retention.ms") == str(HOUR_MS * 3 // 2)
    assert topic_value(broker, topic, "segment.jitter.ms") == str(2 * HOUR_MS)


@pytest.mark.setting("replica.high.watermark.checkpoint.interval.ms")
def test_the_high_watermark_is_written_down(broker: RunningBroker) -> None:
    topic = broker.topic()
    assert broker.error(topic, records(b"v", b"w")) == 0
    eventually("the checkpoint", lambda: broker.checkpoint("replication-offset-checkpoint", topic) == 2)


@pytest.mark.setting("log.flush.start.offset.checkpoint.interval.ms")
def test_the_log_start_is_written_down(broker: RunningBroker) -> None:
    topic = broker.topic()
    assert broker.error(topic, records(b"v", b"w")) == 0
    partition = DeleteRecordsPartition(partition_index=0, offset=1)
    wish = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=5_000)
    assert broker.client.ask(wish, 2).topics[0].partitions[0].error_code == 0
    eventually("the checkpoint", lambda: broker.checkpoint("log-start-offset-checkpoint", topic) == 1)


@pytest.mark.setting("kavka.metrics.port", "kavka.metrics.host")
def test_metrics_are_shown_where_it_is_said(broker: RunningBroker) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{METRICS_PORT}/metrics", timeout=60) as answer:
        assert b"kafka_server" in answer.read()


@pytest.mark.setting("kavka.decisions.topic.enable", "kavka.decisions.retention.ms", "kavka.decisions.retention.bytes")
def test_decisions_are_kept_in_a_topic_for_so_long(broker: RunningBroker) -> None:
    broker.topic()

    def found() -> Any:
        (topic,) = metadata(broker, DECISIONS).topics
        return topic.error_code == 0

    eventually("the topic", found)
    assert topic_value(broker, DECISIONS, "retention.ms") == "7200000"
    assert topic_value(broker, DECISIONS, "retention.bytes") == "80000000"
    assert topic_value(broker, DECISIONS, "segment.bytes") == "10000000"
    # However small segments are, a subject's decisions are not compacted to the last one at once.
    assert topic_value(broker, DECISIONS, "min.compaction.lag.ms") == str(7 * 24 * HOUR_MS)


@pytest.mark.setting("log.cleaner.backoff.ms")
def test_a_pause_of_the_cleaner_that_becomes_shorter_at_run_time(broker: RunningBroker) -> None:
    topic = broker.topic(cleanup_policy="compact", segment_ms="1", min_cleanable_dirty_ratio="0.01")
    for number in range(4):
        assert broker.error(topic, records(b"v", timestamp=1_000 + number * 10)) == 0
    assert broker.offsets(topic) == [0, 1, 2, 3]
    broker.set(log_cleaner_backoff_ms=100)
    eventually("the compaction", lambda: broker.offsets(topic) == [2, 3])
    broker.undo()


@pytest.mark.setting("max.connections")
def test_connections_in_all_at_run_time(broker: RunningBroker) -> None:
    assert broker.serves_another_connection()
    broker.set(max_connections=1)
    assert not broker.serves_another_connection(within_s=4)
    broker.undo()
    eventually("room for more", broker.serves_another_connection)


@pytest.mark.setting("kavka.flight.recorder.enable")
def test_nothing_is_recorded(broker: RunningBroker, tmp_path: Path) -> None:
    def recordings(directory: Path) -> list[str]:
        return [path.name for path in directory.iterdir() if "flight" in path.name]

    with KavkaProcess(tmp_path / "data") as another:
        eventually("the recording", lambda: recordings(another.data_dir / "logs") != [])
    assert recordings(broker.directory) == []
