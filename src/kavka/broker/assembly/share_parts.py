"""The parts of a broker that serve share groups: the coordinator of states, the way to it, and the room of leaders.

Decides nothing. All are late parts (`broker/late.py`).

Source: Kafka's BrokerServer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from kavka.broker.coordinators.coordinator_log import CoordinatorLog, CoordinatorLogSettings
from kavka.broker.metadata.metadata_cache import SHARE_STATE_TOPIC, MetadataCache
from kavka.broker.share.counts import ShareCounts
from kavka.broker.share.dead_letters import DeadLetterPorts, DeadLetterWriter
from kavka.broker.share.fetches import ShareFetches
from kavka.broker.share.group_settings import RememberedSettings, dead_letters
from kavka.broker.share.led_share_partitions import LeaderPorts, ShareLeaders
from kavka.broker.share.offsets import ShareOffsets
from kavka.broker.share.peers import PeerPorts, SharePeers
from kavka.broker.share.persister import SharePersister
from kavka.broker.share.room import ShareRoom
from kavka.coordinator.share_state.coordinator import ShareCoordinator, ShareStatePorts
from kavka.coordinator.share_state.decide.records import ShareKey
from kavka.model import Offset
from kavka.records.compression import Compression
from kavka.replication.decide.partition import Partition
from kavka.replication.replica_manager import ReplicaManager

if TYPE_CHECKING:
    from kavka.broker.assembly.late_share import LateShare, TopicOfStates
    from kavka.broker.assembly.parts import Base
    from kavka.broker.late import Late
    from kavka.broker.reads.timestamp_lookups import TimestampLookups


def new_share_states(
    base: Base, loop: asyncio.AbstractEventLoop, metadata: MetadataCache, replicas: ReplicaManager
) -> ShareCoordinator:
    config, configs = base.config, base.configs

    def updates_per_snapshot() -> int:
        config = configs.broker
        return config.share_coordinator_snapshot_update_records_per_snapshot

    def is_there(key: ShareKey) -> bool:
        name = metadata.topic_name(key.topic_id)
        return name is not None and metadata.partition(name, key.partition) is not None

    return ShareCoordinator(
        loop,
        CoordinatorLog(
            SHARE_STATE_TOPIC,
            replicas,
            CoordinatorLogSettings(
                load_bytes=config.share_coordinator_load_buffer_size,
                commit_timeout_ms=config.share_coordinator_write_timeout_ms,
                compression=Compression(config.share_coordinator_state_topic_compression_codec),
            ),
            wall_ms=base.ports.wall_ms,
            on_storage_error=base.on_storage_error,
        ),
        ShareStatePorts(
            base.ports.wall_ms,
            updates_per_snapshot=updates_per_snapshot,
            is_there=is_there,
        ),
    )


def new_persister(
    base: Base,
    metadata: MetadataCache,
    states: Late[ShareCoordinator],
    topic: TopicOfStates,
    broker_epoch: Callable[[], int],
) -> SharePersister:
    return SharePersister(metadata, states, _new_peers(base, metadata), topic.ensure, broker_epoch)


def _new_peers(base: Base, metadata: MetadataCache) -> SharePeers:
    config = base.config
    return SharePeers(
        metadata,
        PeerPorts(base.broker_id, config.inter_broker_listener, config.request_timeout_ms, base.open_peer),
    )


def new_share_room(
    base: Base,
    loop: asyncio.AbstractEventLoop,
    metadata: MetadataCache,
    replicas: ReplicaManager,
    share: LateShare,
    lookups: Late[TimestampLookups],
) -> ShareRoom:
    configs, persister, remembered = base.configs, share.persister, RememberedSettings()

    def most_sessions() -> int:
        config = configs.broker
        return config.group_share_max_share_sessions

    async def find_offset(partition: Partition, since_ms: int) -> Offset | None:
        found = await lookups().find(partition.log, since_ms)
        return None if found is None else found.offset

    leaders = ShareLeaders(
        replicas,
        persister(),
        LeaderPorts(
            loop,
            settings=lambda group_id: remembered.of(
                group_id, configs.broker, configs.group(group_id), share.features.share_version()
            ),
            find_offset=find_offset,
            wall_ms=base.ports.wall_ms,
            write_timeout_s=lambda: configs.broker.share_coordinator_write_timeout_ms / 1000,
            spawn=base.tasks.spawn,
            record=base.record,
            dead_letters=lambda counts: _new_dead_letters(base, loop, metadata, replicas, share, counts),
        ),
    )
    return ShareRoom(
        persister(),
        leaders,
        ShareFetches(loop, replicas, leaders, base.on_storage_error),
        ShareOffsets(metadata, replicas, persister()),
        most_sessions=most_sessions,
    )


def _new_dead_letters(
    base: Base,
    loop: asyncio.AbstractEventLoop,
    metadata: MetadataCache,
    replicas: ReplicaManager,
    share: LateShare,
    counts: ShareCounts,
) -> DeadLetterWriter:
    configs = base.configs
    return DeadLetterWriter(
        metadata,
        replicas,
        _new_peers(base, metadata),
        counts,
        DeadLetterPorts(
            letters=lambda group_id: dead_letters(configs.broker, configs.group(group_id)),
            topic_config=configs.topic,
            create=share.topic.create,
            run_blocking=base.ports.run_blocking,
            on_storage_error=base.on_storage_error,
            clock_ms=lambda: int(loop.time() * 1000),
            wall_ms=base.ports.wall_ms,
            random=base.ports.random,
            record=base.record,
        ),
    )
