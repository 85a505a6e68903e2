"""TrioSession: one scenario's talk with three brokers, and the normalised record of what was answered.

As a `WireSession`, but the ids of brokers stand as they are, and a question goes to the controller if no other broker
is named: Apache Kafka 4 passes it on to its controller, whoever is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kavka.protocol import messages as m
from kavka.protocol.messages import create_topics_request, metadata_request
from kavka.protocol.schema import Message
from tests.conformance.three_brokers.stage import Stage
from tests.conformance.wire.wire_connection import Closed, WireConnection
from tests.conformance.wire.wire_session import CREATE_TOPICS, METADATA, NO_BROKER, WireSession, batch

HOST = "127.0.0.1"
SETTLE_S = 180.0
NOT_CONTROLLER, TOPIC_ALREADY_EXISTS = 41, 36


class TrioSession(WireSession):
    """`down` are the brokers that this session has stopped."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.down: set[int] = set()
        self._by_broker: dict[int, WireConnection] = {}
        super().__init__(HOST, stage.ports[1])

    def _learn(self, about: Any) -> None:
        self.broker_id = NO_BROKER

    # ---- brokers --------------------------------------------------------------------------------------------------

    def broker(self, broker_id: int) -> WireConnection:
        """A connection to this broker."""
        if broker_id not in self._by_broker:
            connection = WireConnection(HOST, self.stage.ports[broker_id])
            self._connections.append(connection)
            self._by_broker[broker_id] = connection
        return self._by_broker[broker_id]

    def alive(self) -> list[int]:
        return [broker_id for broker_id in self.stage.ports if broker_id not in self.down]

    def controller_id(self) -> int:
        """Who says of itself, and of whom all others say, that it is the controller; in Kafka 4 anybody."""
        found: list[int] = []

        def agreed() -> bool:
            found[:] = [self.about(each).controller_id for each in self.alive()]
            return all(each in self.alive() for each in found)

        self.until(agreed)
        return found[0]

    def about(self, broker_id: int, *topics: str) -> Any:
        """A broker's metadata."""
        wanted = [metadata_request.MetadataRequestTopic(name=name) for name in topics]
        request = m.MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        try:
            return self.broker(broker_id).ask(request, METADATA)
        except Closed:
            self._by_broker.pop(broker_id)
            return self.broker(broker_id).ask(request, METADATA)

    @contextmanager
    def without(self, *broker_ids: int) -> Iterator[None]:
        """Stops these brokers, and starts them again behind the block."""
        for broker_id in broker_ids:
            self.stop(broker_id)
        try:
            yield
        finally:
            for broker_id in broker_ids:
                if broker_id in self.down:
                    self.start(broker_id)

    def stop(self, broker_id: int) -> None:
        self.down.add(broker_id)
        if (connection := self._by_broker.pop(broker_id, None)) is not None:
            connection.close()
            self._connections.remove(connection)
        self.stage.stop(broker_id)
        self.until(self._all_know_who_lives)

    def start(self, broker_id: int) -> None:
        self.stage.start(broker_id)
        self.down.discard(broker_id)
        self.until(self._all_know_who_lives)

    def _all_know_who_lives(self) -> bool:
        try:
            told = [{each.node_id for each in self.about(broker).brokers} for broker in self.alive()]
        except OSError:
            return False
        return all(each == set(self.alive()) for each in told)

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SETTLE_S
        while not condition():
            assert time.monotonic() < deadline, f"not within {SETTLE_S} s"
            time.sleep(0.05)

    # ---- asking ---------------------------------------------------------------------------------------------------

    def ask(self, request: Message, version: int) -> Any:
        """The controller's answer."""
        return self.broker(self.controller_id()).ask(request, version)

    def tell(self, step: str, request: Message, version: int, *, broker: int | None = None, **more: Any) -> Any:
        """Asks the controller, or the broker that is named, and records the answer."""
        asked = self.broker(self.controller_id() if broker is None else broker)
        return self.record(step, request, version, connection=asked, **more)

    def look(self, step: str, *topics: str, broker: int | None = None) -> None:
        """Records partitions as a broker's metadata has them."""
        found = self.about(self.alive()[0] if broker is None else broker, *topics).topics
        self.recorded[step] = [
            [topic.error_code, *self._partitions(topic)] for topic in sorted(found, key=lambda each: each.name)
        ]

    def _partitions(self, topic: Any) -> list[dict[str, Any]]:
        return [
            {
                "partition": each.partition_index,
                "leader": each.leader_id,
                "replicas": list(each.replica_nodes),
                "isr": sorted(each.isr_nodes),
            }
            for each in sorted(topic.partitions, key=lambda each: each.partition_index)
        ]

    # ---- preparing ------------------------------------------------------------------------------------------------

    def assigned(self, prefix: str, *replicas: Sequence[int], **configs: str) -> str:
        """A topic whose partitions have these replicas, all in sync."""
        name, ct = self.name(prefix), create_topics_request
        topic = ct.CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                ct.CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids))
                for index, ids in enumerate(replicas)
            ],
            configs=[
                ct.CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
            ],
        )
        request = m.CreateTopicsRequest(topics=[topic], timeout_ms=15_000)

        def created() -> bool:
            code = self.ask(request, CREATE_TOPICS).topics[0].error_code
            assert code in (0, NOT_CONTROLLER, TOPIC_ALREADY_EXISTS), code
            return code in (0, TOPIC_ALREADY_EXISTS)

        self.until(created)
        self.until(lambda: self.is_settled(name, *replicas))
        return name

    def is_settled(self, topic: str, *replicas: Sequence[int]) -> bool:
        """Whether every broker says that the partitions have these replicas, those that live in sync, one leading."""
        for broker in self.alive():
            (found,) = self.about(broker, topic).topics
            partitions = {each.partition_index: each for each in found.partitions}
            if found.error_code or len(partitions) != len(replicas):
                return False
            for index, ids in enumerate(replicas):
                each = partitions[index]
                living = sorted(set(ids) - self.down)
                if list(each.replica_nodes) != list(ids) or sorted(each.isr_nodes) != living or each.leader_id < 1:
                    return False
        return True

    def leads(self, topic: str, leader: int, partition: int = 0) -> bool:
        """Whether every broker says that this one leads."""
        return all(
            {each.partition_index: each.leader_id for each in self.about(broker, topic).topics[0].partitions}.get(
                partition
            )
            == leader
            for broker in self.alive()
        )

    def filled(self, topic: str, leader: int, *, batches: int = 1, size: int = 10) -> None:
        """Appends batches of `size` bytes to partition 0."""
        from kavka.protocol.messages import produce_request as pr

        for _ in range(batches):
            data = pr.PartitionProduceData(index=0, records=batch([bytes(size)]))
            request = m.ProduceRequest(
                acks=-1, timeout_ms=15_000, topic_data=[pr.TopicProduceData(name=topic, partition_data=[data])]
            )
            answer = self.broker(leader).ask(request, 8)
            assert answer.responses[0].partition_responses[0].error_code == 0, answer
