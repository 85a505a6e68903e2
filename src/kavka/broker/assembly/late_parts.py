"""The late parts of a broker: groups, transactions, quotas, moves of logs, and smaller ones.

`broker.late` says when each is made; those of share groups are in `late_share`.

Decides nothing, and imports nothing that a start does not need.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from kavka.broker.assembly.ends import Stage
from kavka.broker.decisions.decision_log import Ring
from kavka.broker.late import Late
from kavka.model import BrokerId
from kavka.zookeeper.znode_paths import CLIENT_METRICS_ENTITY, IPS_ENTITY
from kavka.zookeeper.znodes import random_uuid

if TYPE_CHECKING:
    from kavka.broker.assembly.group_parts import GroupParts
    from kavka.broker.assembly.late_share import LateStates
    from kavka.broker.assembly.parts import Base, Serving
    from kavka.broker.assembly.ports import Ports
    from kavka.broker.assembly.relay import Relay
    from kavka.broker.assembly.transaction_coordinator import TransactionRoom
    from kavka.broker.decisions.request_traces import RequestTraces
    from kavka.broker.metadata.features import Features
    from kavka.broker.metadata.metadata_cache import MetadataCache
    from kavka.broker.quotas.client_quotas import ClientQuotas
    from kavka.broker.quotas.quota_store import QuotaStore
    from kavka.broker.reads.fetch_session import FetchSessionCache
    from kavka.broker.reads.timestamp_lookups import TimestampLookups
    from kavka.broker.telemetry.client_telemetry import ClientTelemetry
    from kavka.broker.telemetry.connected_clients import ConnectedClients
    from kavka.broker.topics.topic_creation import TopicCreation
    from kavka.broker.transactions.producer_ids import ProducerIds
    from kavka.broker.upkeep.log_moves import LogMoves
    from kavka.config.broker import BrokerConfig
    from kavka.coordinator.groups.coordinator import GroupCoordinator
    from kavka.decisions import Decision
    from kavka.log.log_manager import LogManager
    from kavka.replication.replica_manager import ReplicaManager

_QUOTA_ENDINGS: Final = ("_byte_rate", "_percentage", "_mutation_rate")
"""Of the names of clients' quotas."""


def late_request_traces(base: Base, metadata: MetadataCache) -> Late[RequestTraces]:
    config, ports = base.config, base.ports

    def make() -> RequestTraces:
        from kavka.broker.decisions.request_traces import RequestTraces, TracePorts

        return RequestTraces(
            TracePorts(
                base.broker_id,
                ports.wall_ms,
                ports.clock_ns,
                slow_ms=lambda: base.configs.broker.kavka_slow_request_ms,
                topic_name=metadata.topic_name,
                record=base.record,
                stalled=ports.stalled,
                export=ports.on_request_trace,
            ),
            Ring(ports.filesystem, config.log_directories[0], config.kavka_request_traces_ring_bytes),
            id_prefix=f"{base.broker_id}-{base.began_ms:x}",
        )

    late = Late(make)
    base.ends.add(
        Stage.STORES,
        stop=lambda: _stop_traces(late),
        abort=lambda: None if late.made is None else late.made.abort(),
    )
    return late


async def _stop_traces(late: Late[RequestTraces]) -> None:
    if late.made is not None:
        await late.made.stop()


def late_lookups(base: Base, logs: LogManager) -> Late[TimestampLookups]:
    def make() -> TimestampLookups:
        from kavka.broker.reads.timestamp_lookups import TimestampLookups

        return TimestampLookups(base.ports.run_blocking, lambda log: logs.get(log.topic_partition) is log)

    return Late(make)


def late_connected_clients(
    sessions: FetchSessionCache, metadata: MetadataCache, replicas: ReplicaManager
) -> Late[ConnectedClients]:
    def make() -> ConnectedClients:
        from kavka.broker.telemetry.connected_clients import ConnectedClients

        return ConnectedClients(
            sessions.sessions,
            metadata.topic_name,
            lambda topic, partition: replicas.partition(topic, partition) is not None,
        )

    return Late(make)


def late_telemetry(base: Base) -> Late[ClientTelemetry]:
    def make() -> ClientTelemetry:
        from kavka.broker.telemetry.client_telemetry import ClientTelemetry

        configs, ports = base.configs, base.ports
        return ClientTelemetry(
            lambda: [configs.client_metrics(name) for name in configs.named(CLIENT_METRICS_ENTITY)],
            lambda: configs.changes_of_client_metrics,
            max_bytes=lambda: configs.broker.telemetry_max_bytes,
            new_id=lambda: random_uuid(ports.random.randbytes(16)),
            on_push=ports.on_client_metrics,
        )

    return Late(make)


def late_quotas(config: BrokerConfig, ports: Ports, record: Relay[Decision]) -> Late[ClientQuotas]:
    loop = asyncio.get_running_loop()

    def make() -> ClientQuotas:
        from kavka.broker.quotas.client_quotas import ClientQuotas, QuotaPorts

        return ClientQuotas(
            config,
            QuotaPorts(
                BrokerId(config.broker_id),
                now_ms=lambda: int(loop.time() * 1000),
                clock_ns=ports.clock_ns,
                wall_ms=ports.wall_ms,
                record=record,
            ),
        )

    return Late(make)


def quota_listener(quotas: Late[ClientQuotas], ports: Ports) -> Callable[[str, Mapping[str, str]], None]:
    """What is told of users, client ids and addresses. A user without quotas, but with credentials, makes no part."""

    def on_client_entity(path: str, config: Mapping[str, str]) -> None:
        if path.startswith(f"{IPS_ENTITY}/"):
            from kavka.broker.quotas.client_quotas import rate_of_address

            ports.on_rate_of_address(*rate_of_address(path, config))
        elif quotas.made is not None or any(name.endswith(_QUOTA_ENDINGS) for name in config):
            quotas().on_entity(path, config)

    return on_client_entity


def late_quota_store(base: Base) -> Late[QuotaStore]:
    def make() -> QuotaStore:
        from kavka.broker.quotas.quota_store import QuotaStore

        return QuotaStore(base.ports.zookeeper, tidy=base.configs.tidy, on_changed=base.configs.on_client_entity)

    return Late(make)


def late_groups(
    base: Base, metadata: MetadataCache, replicas: ReplicaManager, features: Features, states: LateStates
) -> Late[GroupCoordinator]:
    loop = asyncio.get_running_loop()

    def make() -> GroupCoordinator:
        from kavka.broker.assembly.group_coordinator import new_groups

        return new_groups(base, loop, metadata, replicas, features, states)

    return Late(make)


def late_group_parts(base: Base, serving: Serving, creation: TopicCreation) -> Late[GroupParts]:
    loop = asyncio.get_running_loop()

    def make() -> GroupParts:
        from kavka.broker.assembly.group_parts import new_group_parts

        return new_group_parts(base, loop, serving.metadata, serving.groups, creation, serving.share.states)

    return Late(make)


def late_transactions(
    base: Base,
    metadata: MetadataCache,
    replicas: ReplicaManager,
    features: Features,
    producer_ids: ProducerIds,
    groups: Late[GroupCoordinator],
) -> Late[TransactionRoom]:
    loop, config = asyncio.get_running_loop(), base.configs.broker

    def make() -> TransactionRoom:
        from kavka.broker.assembly.transaction_coordinator import TransactionPorts, TransactionRoom

        return TransactionRoom(
            base.broker_id,
            config,
            metadata,
            replicas,
            producer_ids,
            TransactionPorts(
                loop,
                config=lambda: base.configs.broker,
                wall_ms=base.ports.wall_ms,
                open_peer=base.open_peer,
                partition_count=base.configs.lasting_partition_count,
                transaction_version=features.transaction_version,
                on_group_marker=lambda partition: groups().offsets.on_marker(partition),
                on_storage_error=base.on_storage_error,
                on_bug=base.tasks.on_bug,
            ),
        )

    return Late(make)


def late_moves(base: Base, logs: LogManager) -> Late[LogMoves]:
    def make() -> LogMoves:
        from kavka.broker.upkeep.log_moves import LogMoves

        return LogMoves(
            logs,
            rate=lambda: base.throttles.move_rate,
            wall_ms=base.ports.wall_ms,
            run_blocking=base.ports.run_blocking,
            on_storage_error=base.on_storage_error,
            spawn=base.tasks.spawn,
        )

    return Late(make)
