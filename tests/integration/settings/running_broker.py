"""RunningBroker: a broker in a process of its own, kavka's or Apache Kafka's, whose settings a test changes and whose
files it looks at.

It decides how a setting is changed and waited for. What follows from it is the tests' affair: they see answers of the
broker and files on its disk, nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from kavka.protocol.messages import IncrementalAlterConfigsRequest
from kavka.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kavka.protocol.messages.incremental_alter_configs_request import AlterableConfig, AlterConfigsResource
from kavka.records.batch import BatchHeader, RecordBatch, iterate_batches
from kavka.records.builder import NO_STAMP, BatchBuilder, ProducerStamp
from tests.kit.broker_client import EARLIEST, LATEST, BrokerClient, Closed

Answer = TypeVar("Answer")

BROKER = 4
SET, DELETE = 0, 1
PATIENCE_S = 60.0
"""How long a test waits for what follows from a setting; a machine may be busy."""
HOUR_MS = 3_600_000


def eventually(what: str, probe: Callable[[], Answer]) -> Answer:
    """The probe's first true answer."""
    deadline = time.monotonic() + PATIENCE_S
    while not (answer := probe()):
        assert time.monotonic() < deadline, f"{what}: not in {PATIENCE_S} s, last {answer!r}"
        time.sleep(0.02)
    return answer


def now_ms() -> int:
    return int(time.time() * 1000)


def records(
    *values: bytes | None,
    timestamp: int | None = None,
    key: bytes | None = b"key",
    stamp: ProducerStamp = NO_STAMP,
) -> bytes:
    """A batch as a producer sends it."""
    builder = BatchBuilder()
    for value in values:
        builder.append(now_ms() if timestamp is None else timestamp, key, value)
    return builder.build(stamp)


class RunningBroker:
    """`directory` is where the broker keeps its logs."""

    def __init__(self, port: int, directory: Path, *, broker_id: int = 1) -> None:
        self.port = port
        self._broker_id = str(broker_id)
        self.directory = directory
        self.client = BrokerClient(port)
        self._changed: dict[str, None] = {}

    def close(self) -> None:
        self.client.close()

    # -- settings

    def set(self, **settings: str | int) -> None:
        """Changes the defaults of all brokers at run time, names with _ for each dot. Returns when that is in force."""
        named = {name.replace("_", "."): str(value) for name, value in settings.items()}
        self._changed.update(dict.fromkeys(named))
        self._alter([(name, SET, value) for name, value in named.items()])
        eventually("the settings", lambda: {name: self.value(name) for name in named} == named)

    def undo(self) -> None:
        """Takes all changes back."""
        changed, self._changed = list(self._changed), {}
        if changed:
            self._alter([(name, DELETE, None) for name in changed])

    def _alter(self, changes: list[tuple[str, int, str | None]]) -> None:
        configs = [AlterableConfig(name=name, config_operation=what, value=value) for name, what, value in changes]
        resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=configs)
        answer = self.client.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        assert answer.responses[0].error_code == 0, answer.responses[0].error_message

    def value(self, name: str) -> str | None:
        """What is in force."""
        resource = DescribeConfigsResource(
            resource_type=BROKER, resource_name=self._broker_id, configuration_keys=[name]
        )
        answer = self.client.ask(DescribeConfigsRequest(resources=[resource]), 4)
        return next((config.value for config in answer.results[0].configs if config.name == name), None)

    # -- a topic of one partition

    def topic(self, **configs: str) -> str:
        """A new topic that can be written to."""
        name = self.client.create_topic(f"settings-{time.monotonic_ns()}", **configs)
        eventually("its leader", lambda: self.client.offset(name, LATEST).error_code == 0)
        return name

    def produce(self, topic: str, batch: bytes, *, partition: int = 0) -> Any:
        return self.client.produce(topic, batch, partition=partition)

    def error(self, topic: str, batch: bytes) -> int:
        """The error that a batch is answered with."""
        return int(self.produce(topic, batch).error_code)

    def begins_at(self, topic: str) -> int:
        return int(self.client.offset(topic, EARLIEST).offset)

    def batches(self, topic: str) -> list[RecordBatch]:
        """All that are in the log."""
        found: list[RecordBatch] = []
        offset = self.begins_at(topic)
        while True:
            answer = self.client.fetch(topic, offset)
            assert answer.error_code == 0
            more = list(iterate_batches(memoryview(bytes(answer.records or b""))))
            if not more:
                return found
            found += more
            offset = more[-1].header.last_offset + 1

    def headers(self, topic: str) -> list[BatchHeader]:
        """Of all batches in the log."""
        return [batch.header for batch in self.batches(topic)]

    def offsets(self, topic: str) -> list[int]:
        """Of all records in the log."""
        return [record.offset for batch in self.batches(topic) for record in batch.records()]

    def files(self, topic: str, suffix: str, *, partition: int = 0) -> list[Path]:
        """Of the partition's log, in order."""
        return sorted((self.directory / f"{topic}-{partition}").glob(f"*{suffix}"))

    def checkpoint(self, name: str, topic: str) -> int:
        """What a checkpoint file says of the partition; -1 where it says nothing."""
        try:
            lines = (self.directory / name).read_text().splitlines()
        except FileNotFoundError:
            return -1
        return next((int(line.split()[2]) for line in lines if line.split()[:2] == [topic, "0"]), -1)

    # -- other connections

    def serves_another_connection(self, within_s: float = 20.0) -> bool:
        """Whether one more client is served at once: that takes milliseconds, and longer where the machine is busy."""
        try:
            with BrokerClient(self.port, timeout_s=within_s) as other:
                other.topics()
        except (Closed, TimeoutError):
            return False
        return True
