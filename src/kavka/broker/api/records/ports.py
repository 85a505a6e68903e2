"""What the broker must offer so that records can be written, read, found and deleted.

The partitions themselves are `replicas`; the rest is what a request needs around them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from kavka.broker.authorization.authorization import Authorization
    from kavka.broker.late import Late
    from kavka.broker.metadata.metadata_cache import MetadataCache
    from kavka.broker.reads.fetch_session import FetchSessionCache
    from kavka.broker.reads.timestamp_lookups import TimestampLookups
    from kavka.broker.settings.dynamic_configs import DynamicConfigs
    from kavka.broker.telemetry.connected_clients import ConnectedClients
    from kavka.broker.transactions.verification import TransactionVerification
    from kavka.broker.upkeep.flushes import Flushes
    from kavka.config.broker import BrokerConfig
    from kavka.errors import StorageError
    from kavka.replication.replica_manager import ReplicaManager


class RecordsBroker(Protocol):
    """The broker, as handlers of records see it."""

    @property
    def replicas(self) -> ReplicaManager:
        """The partitions that have a replica here: append to them, read them, and wait until records are committed."""

    @property
    def authorization(self) -> Authorization | None:
        """Who may read what, where the broker has an authorizer."""

    @property
    def metadata(self) -> MetadataCache:
        """Who leads which partition, the ids of topics, and where live brokers are reached."""

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings in force: how many bytes one fetch may return."""

    @property
    def configs(self) -> DynamicConfigs:
        """The topics' settings in force: whether cleanup.policy lets records be deleted."""

    @property
    def fetch_sessions(self) -> FetchSessionCache:
        """What each fetch session has sent, so that a fetch names only what changed (KIP-227)."""

    @property
    def connected_clients(self) -> ConnectedClients:
        """Told who writes and reads what."""

    @property
    def verification(self) -> TransactionVerification:
        """Asks a transaction's coordinator whether a batch belongs to an open transaction (KIP-890)."""

    @property
    def flushes(self) -> Flushes:
        """Flushes logs to the disk before an answer, if a topic's flush.messages asks for it."""

    @property
    def timestamp_lookups(self) -> Late[TimestampLookups]:
        """Looks for the offset of a time on a worker thread."""

    def wall_ms(self) -> int:
        """The time, in milliseconds since 1970."""

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Runs `work` in the background, for a request that gets no answer (acks=0)."""

    def on_storage_error(self, failure: StorageError) -> None:
        """Takes the log directory of a file that failed offline."""
