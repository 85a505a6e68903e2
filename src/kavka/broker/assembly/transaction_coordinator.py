"""TransactionRoom: joins what a broker has of transactions: coordinator, markers, verification.

Decides nothing. A late part (`broker/late.py`): it is made when the first transaction comes near this broker.

Source: Kafka's KafkaServer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from kavka.broker.coordinators.coordinator_log import CoordinatorLog, CoordinatorLogSettings
from kavka.broker.metadata.metadata_cache import TRANSACTION_STATE_TOPIC, MetadataCache
from kavka.broker.transactions.markers import MarkerLog, OnMarker, TransactionMarkers
from kavka.broker.transactions.peers import OpenPeer, PeerAccess
from kavka.broker.transactions.producer_ids import ProducerIds
from kavka.broker.transactions.verification import AddRetries, TransactionVerification
from kavka.config.broker import BrokerConfig
from kavka.coordinator.transactions.coordinator import Surroundings, TransactionCoordinator, TransactionLimits
from kavka.errors import StorageError
from kavka.model import BrokerId
from kavka.replication.replica_manager import ReplicaManager


class TransactionPorts(NamedTuple):
    """What the broker gives. `config` is as it is in force; `partition_count` as ZooKeeper has it, 0 for no topic, or
    for one that is to be deleted."""

    loop: asyncio.AbstractEventLoop
    config: Callable[[], BrokerConfig]
    wall_ms: Callable[[], int]
    open_peer: OpenPeer
    partition_count: Callable[[str], Awaitable[int]]
    transaction_version: Callable[[], int]
    on_group_marker: OnMarker
    on_storage_error: Callable[[StorageError], None]
    on_bug: Callable[[BaseException], None]


class TransactionRoom:
    """Coordinator, markers and verification. `config` is what the broker was started with."""

    def __init__(
        self,
        broker_id: BrokerId,
        config: BrokerConfig,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        producer_ids: ProducerIds,
        ports: TransactionPorts,
    ) -> None:
        access = PeerAccess(metadata, config.inter_broker_listener, ports.open_peer, config.request_timeout_ms)
        self.marker_log = MarkerLog(
            replicas,
            wall_ms=ports.wall_ms,
            commit_timeout_ms=config.request_timeout_ms,
            on_group_marker=ports.on_group_marker,
        )
        self._markers = TransactionMarkers(
            broker_id,
            self.marker_log,
            access,
            partition_count=ports.partition_count,
            transaction_version=ports.transaction_version,
        )
        self.coordinator = TransactionCoordinator(
            ports.loop,
            CoordinatorLog(
                TRANSACTION_STATE_TOPIC,
                replicas,
                CoordinatorLogSettings(
                    load_bytes=config.transaction_state_log_load_buffer_size,
                    commit_timeout_ms=config.request_timeout_ms,
                ),
                wall_ms=ports.wall_ms,
                on_storage_error=ports.on_storage_error,
            ),
            self._markers,
            Surroundings(
                wall_ms=ports.wall_ms,
                next_producer_id=producer_ids.next,
                transaction_version=ports.transaction_version,
                limits=lambda: _limits(ports.config()),
                on_bug=ports.on_bug,
            ),
        )
        self.verification = TransactionVerification(
            broker_id,
            self.coordinator,
            access,
            AddRetries(
                config.add_partitions_to_txn_retry_backoff_ms,
                config.add_partitions_to_txn_retry_backoff_max_ms,
            ),
            is_enabled=lambda: ports.config().transaction_partition_verification_enable,
            wall_ms=ports.wall_ms,
        )

    def close(self) -> None:
        """Ends what is under way."""
        self.coordinator.shut_down()
        self._markers.close()
        self.verification.close()


def _limits(config: BrokerConfig) -> TransactionLimits:
    return TransactionLimits(config.transaction_max_timeout_ms, config.transactional_id_expiration_ms)
