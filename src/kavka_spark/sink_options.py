"""Options of the sink: which there are, and what they make of the producer.

Decides what their texts mean; what all options have in common is in `options`. It must not know rows or transactions.

Invariants
  I1  An option that would weaken exactly once is refused beside it, not set aside.
  I2  Without options the producer is idempotent and waits for all in-sync replicas.

Source: Spark's "Structured Streaming + Kafka Integration Guide" (topic, includeHeaders, what of the producer cannot be
set); Kafka's producer settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kavka.client.settings import ProducerSettings
from kavka.errors import ConfigError
from kavka.records.compression import Compression
from kavka_spark.options import (
    PREFIX,
    ConnectionOptions,
    boolean,
    check_names,
    client_names,
    connection_options,
    positive_int,
)

DEFAULT_MARKER_TOPIC: Final = "__kavka_spark_batches"
DEFAULT_TRANSACTION_TIMEOUT_MS: Final = 300_000
"""Below Kafka's default transaction.max.timeout.ms of 15 minutes; a task has to be done with its rows by then."""
DEFAULT_MAX_BLOCK_MS: Final = 60_000
"""How long a topic may be missing: Kafka's default of max.block.ms."""

_SINK_NAMES: Final = (
    "topic",
    "exactlyOnce",
    "exactlyOnceId",
    "exactlyOnceBatch",
    "exactlyOnceTopic",
    "includeTimestamp",
)
_SPARKS_OWN: Final = ("checkpointLocation", "queryName", "includeHeaders")
"""Options that every sink may get. includeHeaders is the source's: a sink writes headers if it has the column."""
_PRODUCER_SETTINGS: Final = (
    "acks",
    "batch.size",
    "buffer.memory",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "delivery.timeout.ms",
    "enable.idempotence",
    "max.block.ms",
    "max.request.size",
    "transaction.timeout.ms",
)
_WITHOUT_EFFECT: Final = (
    "linger.ms",
    "max.in.flight.requests.per.connection",
    "metadata.max.idle.ms",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "retries",
)
"""A task's rows come in bulk, so nothing lingers; batches of a partition are sent one after another, and sent again
until delivery.timeout.ms is up."""
_LEVELS: Final = {Compression.GZIP: (1, 9), Compression.LZ4: (1, 17), Compression.ZSTD: (-131_072, 22)}
"""As Kafka's producer has them."""
_GZIPS_OWN: Final = -1
_REFUSED: Final = {
    "key.serializer": "keys are written as bytes: cast the column instead",
    "value.serializer": "values are written as bytes: cast the column instead",
    "transactional.id": "set exactlyOnce to true: every task then has its own id",
    "partitioner.class": "give a column 'partition' instead; without one the key decides as in every Kafka client",
    "partitioner.ignore.keys": "drop the column 'key', or give a column 'partition'",
    "interceptor.classes": "interceptors are Java classes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactlyOnceOptions:
    """How micro-batches are marked."""

    marker_topic: str = DEFAULT_MARKER_TOPIC
    given_id: str | None = None
    """The id of a batch job, which Spark does not give."""
    given_batch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Everything that a task needs besides the columns."""

    connection: ConnectionOptions
    producer: ProducerSettings
    topic: str | None = None
    """The topic of all rows; None: the column 'topic' has it."""
    include_timestamp: bool = False
    max_block_ms: int = DEFAULT_MAX_BLOCK_MS
    is_batch: bool = False
    """Whether a batch job writes: one that finds no broker has begun in vain; a stream may ride out its restart."""
    exactly_once: ExactlyOnceOptions | None = None


def sink_options(given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """The options, parsed. Raises `ConfigError`."""
    options = {name.lower(): text for name, text in given.items()}
    for name, advice in _REFUSED.items():
        if PREFIX + name in options:
            raise ConfigError(f"option '{PREFIX}{name}' cannot be set for the kavka sink: {advice}")
    if "path" in options:
        raise ConfigError("the kavka sink has no path: name the topic with option 'topic', and call save() or start()")
    check_names(options, {*_SINK_NAMES, *_SPARKS_OWN, *client_names(_PRODUCER_SETTINGS, _WITHOUT_EFFECT)}, what="sink")
    topic = options["topic"].strip() if "topic" in options else None
    if topic == "":
        raise ConfigError("option 'topic' is empty")
    exactly_once = _exactly_once(options, streaming=streaming)
    return SinkOptions(
        connection=connection_options(options),
        producer=_producer(options),
        topic=topic,
        include_timestamp=boolean(options, "includetimestamp", default=False),
        max_block_ms=_number(options, "max.block.ms", DEFAULT_MAX_BLOCK_MS),
        is_batch=not streaming,
        exactly_once=exactly_once,
    )


def _exactly_once(options: Mapping[str, str], *, streaming: bool) -> ExactlyOnceOptions | None:
    named = [name for name in ("exactlyOnceId", "exactlyOnceBatch", "exactlyOnceTopic") if name.lower() in options]
    if not boolean(options, "exactlyonce", default=False):
        if named:
            raise ConfigError(f"option {named[0]!r} needs exactlyOnce=true")
        return None
    if options.get("kafka.acks", "all").strip() not in ("all", "-1"):
        raise ConfigError("exactlyOnce needs kafka.acks=all")
    if not boolean(options, "kafka.enable.idempotence", default=True):
        raise ConfigError("exactlyOnce needs kafka.enable.idempotence=true")
    given_id = options.get("exactlyonceid", "").strip() or None
    if streaming and (given_id is not None or "exactlyoncebatch" in options):
        raise ConfigError(
            "options 'exactlyOnceId' and 'exactlyOnceBatch' are for batch jobs: its checkpoint identifies a stream"
        )
    if not streaming and given_id is None:
        raise ConfigError(
            "exactlyOnce in a batch job needs option 'exactlyOnceId': a name for this load that stays the same when it "
            "is run again, for Spark does not tell one run of a job from another. Within one id, 'exactlyOnceBatch' "
            "may count loads (in foreachBatch: the batch id)"
        )
    batch = options.get("exactlyoncebatch", "0").strip()
    if not batch.isascii() or not batch.isdigit():
        raise ConfigError(f"option 'exactlyOnceBatch' is {batch!r}, expected a whole number, 0 or more")
    topic = options.get("exactlyoncetopic", DEFAULT_MARKER_TOPIC)
    return ExactlyOnceOptions(marker_topic=topic, given_id=given_id, given_batch=int(batch))


def _producer(options: Mapping[str, str]) -> ProducerSettings:
    try:
        compression = Compression.named(options.get("kafka.compression.type", "none").strip().lower())
    except ValueError as error:
        raise ConfigError(f"option 'kafka.compression.type': {error}") from error
    usual = ProducerSettings()
    return ProducerSettings(
        acks=_acks(options.get("kafka.acks", "all").strip().lower()),
        enable_idempotence=boolean(options, "kafka.enable.idempotence", default=True)
        if "kafka.enable.idempotence" in options
        else None,
        compression=compression,
        compression_level=_level(options, compression),
        linger_ms=0,
        batch_size=_number(options, "batch.size", usual.batch_size),
        buffer_memory=_number(options, "buffer.memory", usual.buffer_memory),
        delivery_timeout_ms=_number(options, "delivery.timeout.ms", usual.delivery_timeout_ms),
        max_request_size=_number(options, "max.request.size", usual.max_request_size),
        transaction_timeout_ms=_number(options, "transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS),
    )


def _number(options: Mapping[str, str], setting: str, default: int) -> int:
    name = PREFIX + setting
    return positive_int(options, name) if name in options else default


def _acks(text: str) -> int:
    known = {"all": -1, "-1": -1, "0": 0, "1": 1}
    if text not in known:
        raise ConfigError(f"option 'kafka.acks' is {text!r}, expected all, 1 or 0")
    return known[text]


def _level(options: Mapping[str, str], compression: Compression) -> int | None:
    setting = f"kafka.compression.{compression.name.lower()}.level"
    text = options.get(setting)
    if text is None or compression not in _LEVELS:
        return None
    lowest, highest = _LEVELS[compression]
    try:
        level = int(text)
    except ValueError as error:
        raise ConfigError(f"option {setting!r} is {text!r}, expected a whole number") from error
    if compression is Compression.GZIP and level == _GZIPS_OWN:
        return None
    if not lowest <= level <= highest:
        raise ConfigError(f"option {setting!r} is {text!r}, expected {lowest} to {highest}")
    return level
