"""new_groups: makes the coordinator of groups, with its log and what the broker gives it.

Decides nothing. A late part (`broker/late.py`): it is made when the first group comes near this broker.

Source: Kafka's KafkaServer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from kavka.broker.coordinators.consumer_groups import KnownTopics, consumer_group_limits
from kavka.broker.coordinators.coordinator_log import CoordinatorLog, CoordinatorLogSettings
from kavka.broker.coordinators.streams_group_settings import streams_group_limits
from kavka.broker.metadata.features import Features, serves_consumer_groups, serves_streams_groups
from kavka.broker.metadata.metadata_cache import GROUP_METADATA_TOPIC, MetadataCache
from kavka.broker.share.group_settings import share_group_limits
from kavka.config.broker import BrokerConfig
from kavka.config.remembered import RememberedValues
from kavka.coordinator.groups.classic.decide.membership import GroupLimits
from kavka.coordinator.groups.consumer.flow import Surroundings
from kavka.coordinator.groups.coordinator import GroupCoordinator
from kavka.coordinator.groups.share.flow import ShareStates, ShareSurroundings
from kavka.coordinator.groups.streams.flow import StreamsSurroundings
from kavka.records.compression import Compression
from kavka.replication.replica_manager import ReplicaManager

if TYPE_CHECKING:
    from kavka.broker.assembly.parts import Base
    from kavka.broker.settings.dynamic_configs import DynamicConfigs

Limits = TypeVar("Limits")


def new_groups(
    base: Base,
    loop: asyncio.AbstractEventLoop,
    metadata: MetadataCache,
    replicas: ReplicaManager,
    features: Features,
    states: ShareStates,
) -> GroupCoordinator:
    config, ports, configs = base.config, base.ports, base.configs
    limits = GroupLimits(
        config.group_min_session_timeout_ms,
        config.group_max_session_timeout_ms,
        config.group_initial_rebalance_delay_ms,
        config.group_max_size,
    )
    return GroupCoordinator(
        loop,
        CoordinatorLog(
            GROUP_METADATA_TOPIC,
            replicas,
            CoordinatorLogSettings(
                load_bytes=config.offsets_load_buffer_size,
                commit_timeout_ms=config.offsets_commit_timeout_ms,
                compression=Compression(config.offsets_topic_compression_codec),
            ),
            wall_ms=ports.wall_ms,
            on_storage_error=base.on_storage_error,
        ),
        Surroundings(
            KnownTopics(metadata),
            limits=_limits(configs, consumer_group_limits),
            classic_limits=limits,
            is_enabled=lambda: serves_consumer_groups(configs.broker, features.group_version()),
            wall_ms=ports.wall_ms,
            random=ports.random,
            on_rebalance=lambda rebalance: base.record(rebalance.as_decision(ports.wall_ms(), base.broker_id)),
        ),
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        share=ShareSurroundings(
            KnownTopics(metadata),
            limits=_limits(configs, share_group_limits),
            is_enabled=lambda: features.share_version() >= 1,
            wall_ms=ports.wall_ms,
            states=states,
        ),
        streams=StreamsSurroundings(
            KnownTopics(metadata),
            limits=_limits(configs, streams_group_limits),
            is_enabled=lambda: serves_streams_groups(configs.broker, features.streams_version()),
            wall_ms=ports.wall_ms,
            on_rebalance=lambda rebalance: base.record(rebalance.as_decision(ports.wall_ms(), base.broker_id)),
        ),
    )


def _limits(
    configs: DynamicConfigs, make: Callable[[BrokerConfig, Mapping[str, str]], Limits]
) -> Callable[[str], Limits]:
    """A group's limits by its id, remembered until its settings or the broker's change."""
    remembered = RememberedValues(make)
    return lambda group_id: remembered.of(group_id, configs.broker, configs.group(group_id))
