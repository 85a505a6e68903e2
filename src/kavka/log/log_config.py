"""LogConfig: the settings that one log obeys, as Kafka names them for topics.

Decides nothing. It must not know where the values come from (broker defaults, topic overrides).

Source: Kafka's topic configuration (LogConfig, TopicConfig), defaults of 3.9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kavka.records.batch import TimestampType
from kavka.records.compression import Compression
from kavka.records.validation import NO_LIMIT_MS, ProduceRules

UNLIMITED = -1
NEVER_MS = (1 << 63) - 1
NEVER_MESSAGES = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Settings of a topic's logs; sizes in bytes, times in ms. Equal values compare equal, so one may be shared."""

    segment_bytes: int = 1 << 30
    """A segment never grows beyond this, except by nothing: a single batch over it is refused."""
    segment_ms: int = 7 * 24 * 3_600_000
    """Time between the first and the last timestamp of a segment after which the next batch starts a new one."""
    segment_jitter_ms: int = 0
    """Upper bound of a random time that is taken off segment_ms, so that not all logs roll at once."""
    segment_index_bytes: int = 10 << 20
    """Bound on an index file; a segment with a full index is rolled."""
    index_interval_bytes: int = 4096
    """Bytes of records between two index entries."""
    retention_ms: int = 7 * 24 * 3_600_000
    """Age at which a segment may go; -1 for never."""
    retention_bytes: int = UNLIMITED
    """Size of the log above which its oldest segments go; -1 for no bound."""
    max_message_bytes: int = 1_048_588
    """Bound on one record batch."""
    flush_messages: int = NEVER_MESSAGES
    """Records after which a log asks to be flushed."""
    flush_ms: int = NEVER_MS
    """Time after which a log with unflushed records asks to be flushed."""
    file_delete_delay_ms: int = 60_000
    """How long removed files stay on disk with the suffix .deleted."""
    cleanup_delete: bool = True
    """cleanup.policy contains delete."""
    cleanup_compact: bool = False
    """cleanup.policy contains compact."""
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    message_timestamp_before_max_ms: int = NO_LIMIT_MS
    message_timestamp_after_max_ms: int = NO_LIMIT_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER_MS
    delete_retention_ms: int = 24 * 3_600_000
    preallocate: bool = False
    """Whether the disk reserves segment_bytes for a segment when its first batch is written."""
    compression_type: Compression | None = None
    """The codec of all batches in the log, or None for the one that the producer chose."""
    compression_level: int | None = None
    """The effort of that codec, on its own scale; None for its default."""
    produce_rules: ProduceRules = field(init=False, compare=False)
    """What a producer's batch is checked against; made of the fields above."""

    @property
    def max_segment_ms(self) -> int:
        """Time after which a segment is rolled: segment_ms, or sooner where compaction must not wait so long."""
        if self.cleanup_compact and self.max_compaction_lag_ms > 0:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    @property
    def asks_for_flushes(self) -> bool:
        """Whether records alone, or time alone, may make a flush due: without a new segment."""
        return self.flush_messages != NEVER_MESSAGES or self.flush_ms != NEVER_MS

    def roll_jitter_ms(self, draw: Callable[[int], int]) -> int:
        """What is taken off `max_segment_ms` for one segment; `draw(limit)` draws from [0, limit)."""
        limit_ms = min(self.segment_jitter_ms, self.segment_ms)
        return draw(limit_ms) if limit_ms > 0 else 0

    def __post_init__(self) -> None:
        rules = ProduceRules(
            max_message_bytes=self.max_message_bytes,
            timestamp_type=self.message_timestamp_type,
            timestamp_before_max_ms=self.message_timestamp_before_max_ms,
            timestamp_after_max_ms=self.message_timestamp_after_max_ms,
            compacted=self.cleanup_compact,
            codec=self.compression_type,
        )
        object.__setattr__(self, "produce_rules", rules)
