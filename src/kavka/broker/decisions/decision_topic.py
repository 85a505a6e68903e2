"""ReplicatedDecisionTopic: the way of this broker's decisions into `__kavka_decisions`, wherever its leader is.

Decides when the topic is wanted, its settings, and where a batch goes: to this broker's own replica, or to the leader,
like a producer's. Must not know what is in a batch.

    I1  an append that raises nothing is committed: acks=all
    I2  an append to this topic may itself cause decisions, which does not make it fail: at most one append is under
        way, and the decision log retries one that failed

Source: none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from kavka.broker.metadata.metadata_cache import MetadataCache
from kavka.config.broker import BrokerConfig
from kavka.controller.decide.topic_plans import TopicRequest
from kavka.decisions import DECISIONS_TOPIC
from kavka.errors import ErrorCode, RequestError
from kavka.model import BrokerId
from kavka.protocol.api_keys import ApiKey
from kavka.replication.replica_manager import ACKS_ALL, ReplicaManager

if TYPE_CHECKING:
    from kavka.broker.metadata.controller_link import PeerConnector

PARTITION: Final = 0
"""One partition: the story of a cluster is read in order."""
REPLICAS: Final = 3
GATHERING_S: Final = 10.0
"""How long a cluster of two waits for a third broker before the topic is created with two replicas."""
COMPACTED_AFTER_MS: Final = 7 * 24 * 3_600_000
PRODUCE_VERSION: Final = 9
"""Flexible, and by topic name."""
TIMEOUT_MS: Final = 10_000
CONNECT_TIMEOUT_MS: Final = 5_000

CreateTopic = Callable[[TopicRequest], Awaitable[ErrorCode]]
"""Creates a topic through the controller; NONE if it is there now."""


class ReplicatedDecisionTopic:
    """The `DecisionTopic` of one broker."""

    def __init__(
        self,
        connector: PeerConnector,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        *,
        config: Callable[[], BrokerConfig],
        create_topic: CreateTopic,
        wall_ms: Callable[[], int],
    ) -> None:
        self._connector = connector
        self._metadata = metadata
        self._replicas = replicas
        self._config = config
        self._create_topic = create_topic
        self._wall_ms = wall_ms
        self._several_since_s: float | None = None
        """Since when there is more than one broker, on the loop's clock."""

    def is_enabled(self) -> bool:
        return self._config().kavka_decisions_topic_enable != "false"

    def has_leader(self) -> bool:
        published = self._metadata.partition(DECISIONS_TOPIC, PARTITION)
        if published is None:
            return False
        leader = published.state.leader
        return leader == self._connector.own_id or self._connector.endpoint(leader) is not None

    def is_wanted(self) -> bool:
        """True if it is switched on; or if the broker decides, and other brokers are alive that would need the
        decisions.

        The creation of the topic waits a while for a third broker: brokers start one after another.
        """
        wanted = self._config().kavka_decisions_topic_enable
        live = len(self._metadata.brokers())
        if wanted == "true" or self._metadata.topic(DECISIONS_TOPIC) is not None:
            return wanted != "false"
        if wanted == "false" or live < 2:
            self._several_since_s = None
            return False
        now_s = asyncio.get_running_loop().time()
        if self._several_since_s is None:
            self._several_since_s = now_s
        return live >= REPLICAS or now_s - self._several_since_s >= GATHERING_S

    async def append(self, batch: bytes) -> None:
        """Raises `KavkaError` if the batch is not in the topic, or if that is unknown."""
        published = self._metadata.partition(DECISIONS_TOPIC, PARTITION)
        if published is None:
            error = await self._create_topic(self._wish())
            if error is not ErrorCode.NONE:
                raise RequestError(error, f"{DECISIONS_TOPIC} could not be created")
            published = self._metadata.partition(DECISIONS_TOPIC, PARTITION)
            if published is None:
                raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{DECISIONS_TOPIC} is not known here yet")
        leader = published.state.leader
        error = await (self._append_here(batch) if leader == self._connector.own_id else self._produce(batch, leader))
        if error is not ErrorCode.NONE:
            raise RequestError(error, f"broker {leader} did not accept the decisions")

    def close(self) -> None:
        self._connector.close()

    def _wish(self) -> TopicRequest:
        return TopicRequest(
            DECISIONS_TOPIC,
            1,
            min(REPLICAS, max(len(self._metadata.brokers()), 1)),
            config={
                "cleanup.policy": "compact,delete",
                # Reasons are wanted most while brokers are away, whatever the default for other topics is.
                "min.insync.replicas": "1",
                "retention.ms": str(self._config().kavka_decisions_retention_ms),
                # Whatever the size of segments: a compacted topic tells only the last decision about each subject.
                "min.compaction.lag.ms": str(min(COMPACTED_AFTER_MS, self._config().log_cleaner_max_compaction_lag_ms)),
            },
        )

    async def _append_here(self, batch: bytes) -> ErrorCode:
        records = memoryview(bytearray(batch))
        outcome = self._replicas.append(
            DECISIONS_TOPIC, PARTITION, records, required_acks=ACKS_ALL, wall_ms=self._wall_ms()
        )
        if not self._replicas.is_committed(DECISIONS_TOPIC, PARTITION, outcome):
            outcome = await self._replicas.await_committed(DECISIONS_TOPIC, PARTITION, outcome, TIMEOUT_MS)
        return outcome.error

    async def _produce(self, batch: bytes, leader: BrokerId) -> ErrorCode:
        from kavka.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
        from kavka.protocol.messages.produce_response import ProduceResponse

        endpoint = self._connector.endpoint(leader)
        if endpoint is None:
            return ErrorCode.LEADER_NOT_AVAILABLE
        connection = await self._connector.connect(endpoint, CONNECT_TIMEOUT_MS)
        data = PartitionProduceData(index=PARTITION, records=batch)
        answer = await connection.request(
            ApiKey.PRODUCE,
            PRODUCE_VERSION,
            ProduceRequest(
                acks=ACKS_ALL,
                timeout_ms=TIMEOUT_MS,
                topic_data=[TopicProduceData(name=DECISIONS_TOPIC, partition_data=[data])],
            ),
            ProduceResponse,
            timeout_ms=2 * TIMEOUT_MS,
        )
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)
