"""The values of a fetch: what is wanted of a partition, within which limits, and what was found.

They know nothing of the wire format, and not who asks. NamedTuples: one of each is made per partition and request.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import NamedTuple

from kavka.errors import ErrorCode
from kavka.model import NO_EPOCH, NO_LEADER, NO_OFFSET, BrokerId, FileSlice, LeaderEpoch, Offset, TopicPartition
from kavka.replication.decide.partition_results import EpochEndOffset


class FetchSpec(NamedTuple):
    """What a fetch wants of one partition. `max_bytes` is the partition's own limit."""

    topic_partition: TopicPartition
    topic_id: uuid.UUID
    fetch_offset: Offset
    max_bytes: int
    current_leader_epoch: LeaderEpoch = NO_EPOCH
    last_fetched_epoch: LeaderEpoch = NO_EPOCH
    log_start_offset: Offset = NO_OFFSET
    """Where a follower's log starts; -1 in the fetches of consumers."""


PartitionKey = tuple[str | int, int]
"""A partition as a client names it: by topic name before version 13, by topic id (as a number) from then on. A topic
id that is not known here yet stays in a session, and is served as soon as it is."""


def partition_key(spec: FetchSpec) -> PartitionKey:
    topic, index = spec.topic_partition
    return (spec.topic_id.int or topic, index)


class AbortedTransaction(NamedTuple):
    """A producer's aborted transaction that reaches into what was fetched, from `first_offset`."""

    producer_id: int
    first_offset: Offset


class FetchOutcome(NamedTuple):
    """What a fetch found in one partition. `chunks` are whole record batches; only the last one may be cut."""

    spec: FetchSpec
    error: ErrorCode
    high_watermark: Offset = NO_OFFSET
    last_stable_offset: Offset = NO_OFFSET
    log_start_offset: Offset = NO_OFFSET
    chunks: Sequence[FileSlice] = ()
    size_bytes: int = 0
    diverging_epoch: EpochEndOffset | None = None
    aborted_transactions: Sequence[AbortedTransaction] | None = None
    preferred_read_replica: BrokerId = NO_LEADER
    """The broker that the consumer should read from instead (KIP-392), -1 for none."""
    available_bytes: int = 0
    """What counts of the partition for `FetchParams.min_bytes`: see `ReadResult`. Not less than `size_bytes`, unless
    the limit had to give way for a large batch."""


class FetchParams(NamedTuple):
    """The limits that hold for a whole fetch. Times in milliseconds, sizes in bytes."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool
    only_leader: bool = True
    """Whether a follower refuses: so do fetches before version 11, and those of followers."""
    rack: str = ""
    """Where the consumer says it stands."""
