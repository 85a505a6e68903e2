"""ReplicatedDecisionTopic: the way of this broker's decisions into `__kavka_decisions`, wherever its leader is.

Decides when the topic is wanted, its settings, and where a batch goes: to this broker's own replica, or to the leader,
like a producer's. Must not know what is in a batch.

    I1  an append that raises nothing is committed: acks=all
    I2  an append to this topic may itself cause decisions, which does not make it fail: at most one append is under
        way, and the decision log retries one that failed
    I3  a bound on the topic's size that somebody set, for it or for all topics, stays as it is

Source: none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from kavka.broker.metadata.metadata_cache import MetadataCache
from kavka.config.broker import BrokerConfig
from kavka.controller.decide.topic_plans import TopicRequest
from kavka.decisions import DECISIONS_TOPIC
from kavka.errors import ErrorCode, RequestError, ZooKeeperError
from kavka.logger import Logger
from kavka.model import BrokerId
from kavka.protocol.api_keys import ApiKey
from kavka.replication.decide.partition import ACKS_ALL
from kavka.replication.replica_manager import ReplicaManager

if TYPE_CHECKING:
    from kavka.broker.metadata.controller_link import PeerConnector
    from kavka.config.topic import TopicConfig

logger = Logger(__name__)

PARTITION: Final = 0
"""One partition: the story of a cluster is read in order."""
REPLICAS: Final = 3
GATHERING_S: Final = 10.0
"""How long a cluster of two waits for a third broker before the topic is created with two replicas."""
COMPACTED_AFTER_MS: Final = 7 * 24 * 3_600_000
SEGMENTS: Final = 8
"""In how many segments what is kept lies: retention removes whole ones, so the topic is larger by one at most."""
SMALLEST_SEGMENT: Final = 1 << 20
"""Apache Kafka 4 accepts no smaller one."""
PRODUCE_VERSION: Final = 9
"""Flexible, and by topic name."""
TIMEOUT_MS: Final = 10_000
CONNECT_TIMEOUT_MS: Final = 5_000

CreateTopic = Callable[[TopicRequest], Awaitable[ErrorCode]]
"""Creates a topic through the controller; NONE if it is there now."""


class Settings(Protocol):
    """This broker's settings, and those of topics."""

    broker: BrokerConfig

    def overrides(self, topic: str) -> Mapping[str, str]:
        """What the topic sets itself."""
        ...

    def topic(self, name: str) -> TopicConfig:
        """All that is in force for the topic."""
        ...

    async def change_topic(self, name: str, decide: Callable[[Mapping[str, str]], Mapping[str, str]]) -> None:
        """Replaces what the topic sets itself by what `decide` makes of it. Raises RequestError and ZooKeeperError."""
        ...


class ReplicatedDecisionTopic:
    """The `DecisionTopic` of one broker."""

    def __init__(
        self,
        connector: PeerConnector,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        *,
        settings: Settings,
        create_topic: CreateTopic,
        wall_ms: Callable[[], int],
    ) -> None:
        self._connector = connector
        self._metadata = metadata
        self._replicas = replicas
        self._settings = settings
        self._is_bounded = False
        """Whether this broker has looked, as the topic's leader, whether something bounds its size."""
        self._create_topic = create_topic
        self._wall_ms = wall_ms
        self._several_since_s: float | None = None
        """Since when there is more than one broker, on the loop's clock."""

    def is_enabled(self) -> bool:
        return self._settings.broker.kavka_decisions_topic_enable != "false"

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
        wanted = self._settings.broker.kavka_decisions_topic_enable
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
        config = self._settings.broker
        return TopicRequest(
            DECISIONS_TOPIC,
            1,
            min(REPLICAS, max(len(self._metadata.brokers()), 1)),
            config={
                "cleanup.policy": "compact,delete",
                # Reasons are wanted most while brokers are away, whatever the default for other topics is.
                "min.insync.replicas": "1",
                "retention.ms": str(config.kavka_decisions_retention_ms),
                **bounds(config),
                # Whatever the size of segments: a compacted topic tells only the last decision about each subject.
                "min.compaction.lag.ms": str(min(COMPACTED_AFTER_MS, config.log_cleaner_max_compaction_lag_ms)),
            },
        )

    async def _bound(self) -> None:
        """Bounds the size of a topic that an earlier build made. One that fails is left to the next life (I3)."""
        self._is_bounded = True
        config = self._settings.broker
        is_set = "retention.bytes" in self._settings.overrides(DECISIONS_TOPIC)
        is_bounded = is_set or self._settings.topic(DECISIONS_TOPIC).retention_bytes >= 0
        if config.kavka_decisions_retention_bytes < 0 or is_bounded:
            return

        def decide(current: Mapping[str, str]) -> Mapping[str, str]:
            return current if "retention.bytes" in current else {**bounds(config), **current}

        try:
            await self._settings.change_topic(DECISIONS_TOPIC, decide)
        except (RequestError, ZooKeeperError) as failure:
            logger.warning("size of topic not bounded", topic=DECISIONS_TOPIC, why=str(failure))

    async def _append_here(self, batch: bytes) -> ErrorCode:
        if not self._is_bounded:
            await self._bound()
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
        return ErrorCode.answered(answer.responses[0].partition_responses[0].error_code)


def bounds(config: BrokerConfig) -> Mapping[str, str]:
    """The settings that bound the topic's size."""
    retained = config.kavka_decisions_retention_bytes
    if retained < 0:
        return {"retention.bytes": "-1"}
    segment = min(max(retained // SEGMENTS, SMALLEST_SEGMENT), config.log_segment_bytes)
    return {"retention.bytes": str(retained), "segment.bytes": str(segment)}
