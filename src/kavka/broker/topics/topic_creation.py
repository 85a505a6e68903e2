"""TopicCreation: topics that this broker creates itself, for its coordinators and for clients that name them.

Decides with how many partitions and replicas, and who is asked: this broker where it is the controller, else the one
that is. Must not know how a topic is created.

Source: Kafka's AutoTopicCreationManager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from kavka.broker.membership.adoption import (
    offsets_topic_settings,
    share_topic_settings,
    transaction_topic_settings,
)
from kavka.broker.metadata.controller_link import ControllerLink
from kavka.broker.metadata.metadata_cache import (
    GROUP_METADATA_TOPIC,
    INTERNAL_TOPICS,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    MetadataCache,
)
from kavka.broker.settings.dynamic_configs import DynamicConfigs
from kavka.config.broker import BrokerConfig
from kavka.controller.controller import Controller
from kavka.controller.decide.topic_plans import TopicRequest, colliding_topics, topic_name_error
from kavka.controller.term.controller_term import NotController
from kavka.decisions import Decision, DecisionKind, RecordDecision
from kavka.errors import ConnectionFailed, ErrorCode, RequestError, ZooKeeperError
from kavka.logger import Logger
from kavka.model import BrokerId
from kavka.protocol.api_keys import ApiKey

logger = Logger(__name__)

CREATE_TOPICS_VERSION: Final = 7
TOPIC_ARRIVAL_S: Final = 1.0
"""How long a broker waits for a topic that another broker created for it, before it tells the client to ask again."""


FACTOR_SETTINGS: Final = {
    GROUP_METADATA_TOPIC: "offsets.topic.replication.factor",
    TRANSACTION_STATE_TOPIC: "transaction.state.log.replication.factor",
    SHARE_STATE_TOPIC: "share.coordinator.state.topic.replication.factor",
}
"""Which setting says how many replicas a coordinator's topic gets."""


class TopicRequests:
    """What an automatically created topic gets. `config` is what the broker was started with."""

    def __init__(self, config: BrokerConfig, *, is_alone: bool) -> None:
        self._config = config
        self._is_alone = is_alone

    def of(self, name: str) -> TopicRequest:
        """Of one broker alone nobody can expect more replicas of the coordinators' topics; in a cluster, as in Kafka,
        the other brokers are waited for."""
        if name not in INTERNAL_TOPICS:
            return TopicRequest(name)
        config = self._config
        if name == TRANSACTION_STATE_TOPIC:
            return TopicRequest(
                name,
                config.transaction_state_log_num_partitions,
                1 if self._is_alone else config.transaction_state_log_replication_factor,
                config=transaction_topic_settings(config),
            )
        if name == SHARE_STATE_TOPIC:
            settings = share_topic_settings(config)
            return TopicRequest(
                name,
                config.share_coordinator_state_topic_num_partitions,
                1 if self._is_alone else config.share_coordinator_state_topic_replication_factor,
                config={**settings, "min.insync.replicas": "1"} if self._is_alone else settings,
            )
        return TopicRequest(
            name,
            config.offsets_topic_num_partitions,
            1 if self._is_alone else config.offsets_topic_replication_factor,
            config=offsets_topic_settings(config),
        )


class TopicCreation:
    """`await_topic` returns when this broker knows a topic, or after the given number of seconds."""

    def __init__(  # noqa: PLR0913 - made in one place, of parts that share nothing
        self,
        wishes: TopicRequests,
        configs: DynamicConfigs,
        metadata: MetadataCache,
        controller: Controller,
        link: ControllerLink,
        await_topic: Callable[[str, float], Awaitable[bool]],
        *,
        record: RecordDecision,
        wall_ms: Callable[[], int],
    ) -> None:
        self._wishes = wishes
        self._configs = configs
        self._metadata = metadata
        self._controller = controller
        self._link = link
        self._await_topic = await_topic
        self._record = record
        self._wall_ms = wall_ms
        self._told: dict[str, str] = {}
        """Why each coordinator's topic could not be created last: one why-record for a cause."""
        self._creating_internal_topic = asyncio.Lock()

    async def ensure_internal_topic(self, name: str) -> None:
        """Creates a coordinator's topic if it is missing. Raises `RequestError` (COORDINATOR_NOT_AVAILABLE)."""
        if self._metadata.topic(name) is not None:
            return
        async with self._creating_internal_topic:
            if self._metadata.topic(name) is not None:
                return
            wish = self._wishes.of(name)
            error = await self.create_one(wish)
            if error is ErrorCode.INVALID_REPLICATION_FACTOR:
                self._tell_too_few_brokers(wish)
            elif error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                logger.warning("internal topic not created", topic=name, why=error.name)
            if error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.name)
            self._told.pop(name, None)

    def _tell_too_few_brokers(self, wish: TopicRequest) -> None:
        """Clients ask again and again: each time a line in the log, and a why-record once until brokers come or go."""
        name, factor = wish.name, wish.replication_factor
        running = [broker.broker_id for broker in self._metadata.brokers()]
        setting, brokers = FACTOR_SETTINGS[name], ", ".join(map(str, running))
        why = (
            f"{name} wants {setting}={factor}, and the brokers that run are {brokers}; "
            f"start another broker, or set it lower on all brokers and restart them"
        )
        logger.warning(
            "internal topic not created",
            topic=name,
            why=f"INVALID_REPLICATION_FACTOR: {setting}={factor}, and the brokers that run are {brokers}",
            next_step=f"start another broker, or set {setting} lower on all brokers and restart them",
        )
        if self._told.get(name) == why:
            return
        self._told[name] = why
        broker_id = self._configs.broker.broker_id
        self._record(
            Decision(
                DecisionKind.TOPIC_NOT_CREATED,
                self._wall_ms(),
                BrokerId(broker_id),
                why,
                about_broker=BrokerId(broker_id),
                evidence={"topic": name, "replicas": factor, "brokers": tuple(running), "setting": setting},
            )
        )

    def refusal(self, name: str) -> ErrorCode | None:
        """What is known beforehand to be in the way of creating a topic that a client named."""
        if topic_name_error(name) is not None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if colliding_topics(name, (topic.name for topic in self._metadata.topics())):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        wish = self._wishes.of(name)
        default = self._configs.broker.default_replication_factor
        replicas = default if wish.replication_factor < 0 else wish.replication_factor
        return ErrorCode.INVALID_REPLICATION_FACTOR if replicas > len(self._metadata.brokers()) else None

    async def create_named(self, names: Sequence[str]) -> Mapping[str, ErrorCode]:
        """The errors of those that are not there now."""
        return await self.create_all([self._wishes.of(name) for name in names])

    async def create_one(self, wish: TopicRequest) -> ErrorCode:
        """NONE if the topic is there now."""
        return (await self.create_all([wish])).get(wish.name, ErrorCode.NONE)

    async def create_all(self, wishes: Sequence[TopicRequest]) -> dict[str, ErrorCode]:
        """Creates topics here or, if another broker is the controller, there. Returns the errors of those that do not
        exist now."""
        try:
            if self._controller.is_active:
                outcomes = await self._controller.topics.create_topics(wishes)
                errors = {outcome.name: outcome.code for outcome in outcomes}
            else:
                errors = await self._create_at_controller(wishes)
        except (NotController, ConnectionFailed, ZooKeeperError) as failure:
            logger.warning("topics not created", topics=[wish.name for wish in wishes], why=str(failure))
            return {wish.name: ErrorCode.LEADER_NOT_AVAILABLE for wish in wishes}
        # Somebody else created it meanwhile: it is there.
        there = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        return {name: error for name, error in errors.items() if error not in there}

    async def _create_at_controller(self, wishes: Sequence[TopicRequest]) -> dict[str, ErrorCode]:
        from kavka.protocol.messages.create_topics_request import (
            CreatableTopic,
            CreatableTopicConfig,
            CreateTopicsRequest,
        )
        from kavka.protocol.messages.create_topics_response import CreateTopicsResponse

        timeout_ms = self._configs.broker.request_timeout_ms
        answer = await self._link.send(
            ApiKey.CREATE_TOPICS,
            CREATE_TOPICS_VERSION,
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=wish.name,
                        num_partitions=wish.partition_count,
                        replication_factor=wish.replication_factor,
                        assignments=[],
                        configs=[CreatableTopicConfig(name=name, value=value) for name, value in wish.config.items()],
                    )
                    for wish in wishes
                ],
                timeout_ms=timeout_ms,
            ),
            CreateTopicsResponse,
            timeout_ms=timeout_ms,
        )
        errors = {topic.name: ErrorCode(topic.error_code) for topic in answer.topics}
        for name, error in errors.items():
            if error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                # The controller has told the brokers, and may have waited for a slow one no longer.
                await self._await_topic(name, TOPIC_ARRIVAL_S)
        return errors
