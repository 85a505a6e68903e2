"""Settings of clients: limits, timeouts and behaviour, with their defaults.

Names are Kafka's own client settings with underscores; all durations are in ms. A value out of range raises
`ConfigError` when the settings are made, so a client never meets one later.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kavka.client.security import SaslSettings
from kavka.errors import ConfigError
from kavka.records.compression import Compression

MAX_FRAME_BYTES = 256 * 1024 * 1024
"""The largest answer of a broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Settings that every client has."""

    client_id: str = "kavka"
    request_timeout_ms: int = 30_000
    """How long one request may stay unanswered before the client closes the connection."""
    connect_timeout_ms: int = 10_000
    """How long a broker may take to accept a connection, and then to report its versions."""
    api_timeout_ms: int = 60_000
    """How long an operation may retry in total, unless it has its own setting."""
    gives_up_early: bool = False
    """Whether `connect` fails at once where no bootstrap address can be a broker's: refused, unknown, another
    protocol. Else it tries again for `api_timeout_ms`: a broker may be starting."""
    retry_backoff_ms: int = 50
    """First pause before a retry. It doubles up to `retry_backoff_max_ms`, with 20 % of jitter."""
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    topic_propagation_ms: int = 3_000
    """How long a topic may be unknown before it counts as missing: brokers learn of new topics one after another."""
    max_frame_bytes: int = MAX_FRAME_BYTES
    max_pending_requests: int = 1_000
    """Requests of one connection that may wait for their answers."""
    decode_in_thread_bytes: int = 0
    """Answers of this size or more are decoded in a thread, so that the loop can go on with other work. 0 turns this
    off."""
    sasl: SaslSettings | None = None
    """The login for each connection. None means no authentication."""

    def __post_init__(self) -> None:
        _positive(
            request_timeout_ms=self.request_timeout_ms,
            connect_timeout_ms=self.connect_timeout_ms,
            api_timeout_ms=self.api_timeout_ms,
            retry_backoff_ms=self.retry_backoff_ms,
            retry_backoff_max_ms=self.retry_backoff_max_ms,
            metadata_max_age_ms=self.metadata_max_age_ms,
            topic_propagation_ms=self.topic_propagation_ms,
            max_frame_bytes=self.max_frame_bytes,
            max_pending_requests=self.max_pending_requests,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How a producer batches, and what it guarantees."""

    acks: int = -1
    """0: no answer; 1: the leader has the record; -1: every in-sync replica has it."""
    enable_idempotence: bool | None = None
    """Whether batches are numbered so that a retry cannot write twice. None means: if acks is -1."""
    compression: Compression = Compression.NONE
    compression_level: int | None = None
    batch_size: int = 1_000_000
    """Bytes of records, before compression, that close a batch. The broker's max.message.bytes bounds the batch itself
    (1,048,588 by default)."""
    linger_ms: int = 5
    """How long a batch that is not full waits for more records."""
    max_in_flight: int = 5
    """Requests to one broker that may be in flight. Each partition has at most one batch in flight."""
    max_request_size: int = 8 * 1024 * 1024
    """Bytes of records, before compression, that go into one request."""
    buffer_memory: int = 64 * 1024 * 1024
    """Bytes of records that may wait. `send` blocks at this limit."""
    delivery_timeout_ms: int = 120_000
    """How long a record may wait and be retried in total before it fails."""
    timeout_ms: int = 30_000
    """How long the broker may wait for the in-sync replicas."""
    transactional_id: str | None = None
    """The producer's identity across restarts. If it is set, records are sent in transactions."""
    transaction_timeout_ms: int = 60_000
    """How long a transaction may be open before the coordinator aborts it."""

    def __post_init__(self) -> None:
        if self.acks not in (-1, 0, 1):
            raise ConfigError(f"acks is {self.acks}, expected -1 (all), 0 or 1")
        if self.enable_idempotence and self.acks != -1:
            raise ConfigError(f"enable_idempotence needs acks -1 (all), not {self.acks}")
        if self.transactional_id is not None and not self.idempotent:
            raise ConfigError("transactional_id needs acks -1 (all) and enable_idempotence")
        if self.linger_ms < 0:
            raise ConfigError(f"linger_ms is {self.linger_ms}, expected 0 or more")
        _positive(
            batch_size=self.batch_size,
            max_in_flight=self.max_in_flight,
            max_request_size=self.max_request_size,
            buffer_memory=self.buffer_memory,
            delivery_timeout_ms=self.delivery_timeout_ms,
            transaction_timeout_ms=self.transaction_timeout_ms,
            timeout_ms=self.timeout_ms,
        )

    @property
    def idempotent(self) -> bool:
        return self.acks == -1 if self.enable_idempotence is None else self.enable_idempotence


class OffsetReset(Enum):
    """Where a consumer starts if it has no position, or one that the log no longer holds."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"
    """Raise `OffsetOutOfRange`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """How a consumer fetches, and how it behaves in a group."""

    group_id: str | None = None
    group_instance_id: str | None = None
    auto_offset_reset: OffsetReset = OffsetReset.LATEST
    read_committed: bool = False
    """Leave out records of aborted transactions, and wait for the end of open ones."""
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 * 1024 * 1024
    max_partition_fetch_bytes: int = 1024 * 1024
    fetch_max_wait_ms: int = 500
    max_buffered_bytes: int = 64 * 1024 * 1024
    """Bytes of fetched batches that may wait to be read. At this limit nothing more is fetched."""
    max_inflated_bytes: int = 64 * 1024 * 1024
    """The largest size of one batch's inflated records."""
    check_crcs: bool = True
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    heartbeat_interval_ms: int = 3_000

    def __post_init__(self) -> None:
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat_interval_ms is {self.heartbeat_interval_ms}, "
                f"expected less than session_timeout_ms of {self.session_timeout_ms}"
            )
        _positive(
            fetch_max_bytes=self.fetch_max_bytes,
            max_partition_fetch_bytes=self.max_partition_fetch_bytes,
            max_buffered_bytes=self.max_buffered_bytes,
            max_inflated_bytes=self.max_inflated_bytes,
            auto_commit_interval_ms=self.auto_commit_interval_ms,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareConsumerSettings:
    """How a member of a share group fetches. Where a group begins, how long its locks last and how often a record is
    delivered are settings of the group, at its brokers."""

    group_id: str
    rack: str | None = None
    max_records: int = 500
    """Records that one fetch asks a broker for, and one poll returns at most."""
    record_limit: bool = False
    """Whether a fetch never acquires more than it asks for, and goes to one broker at a time. Else it may bring the
    rest of a batch, which waits for the next poll. Brokers before Kafka 4.2 do not know it, and send whole batches."""
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 * 1024 * 1024
    fetch_max_wait_ms: int = 500
    max_inflated_bytes: int = 64 * 1024 * 1024
    """The largest size of one batch's inflated records."""
    check_crcs: bool = True

    def __post_init__(self) -> None:
        if not self.group_id:
            raise ConfigError("group_id is empty, expected the name of a share group")
        _positive(
            max_records=self.max_records,
            fetch_max_bytes=self.fetch_max_bytes,
            fetch_max_wait_ms=self.fetch_max_wait_ms,
            max_inflated_bytes=self.max_inflated_bytes,
        )


def _positive(**values: int) -> None:
    for name, value in values.items():
        if value <= 0:
            raise ConfigError(f"{name} is {value}, expected more than 0")
