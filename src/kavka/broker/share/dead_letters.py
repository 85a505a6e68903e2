"""DeadLetterWriter: writes the dead letters of records that share groups give up, to the leader of their partition.

Decides how many go in one batch, and which errors may pass. Whether a topic may be used, what a dead letter says and
how often it is tried is decided in `share.decide.dead_letters`. Must not know what becomes of the records.

    I1  dead letters count as written when all in-sync replicas have them (acks=all). Where nobody knows, they are
        written again: there may be two of a record, and none is missing
    I2  a dead letter that cannot be written leaves a why-record, a line in the log and a count; who waits for it goes
        on
    I3  few batches are read and written at the same time (MOST_AT_ONCE, MOST_COPYING); one that waits for its next try
        does not count
    I4  a copy of a record is bounded: what does not fit, or cannot be read, is left out, and the dead letter says where
        the record is
    I5  a record that was delivered too often has a dead letter if there is one: a whole batch is delivered with its
        transaction markers, and with the holes that compaction left. What a member has rejected always has one, though
        compaction may have removed it since

Source: KIP-1191; ShareGroupDLQStateManager and ShareGroupDLQRecordFetcher of Apache Kafka 4.4.0.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence, Set
from functools import partial
from random import Random
from typing import Final, NamedTuple

from kavka.broker.metadata.metadata_cache import MetadataCache
from kavka.broker.share.buried_records import BuriedRecords
from kavka.broker.share.counts import ShareCounts
from kavka.broker.share.peers import SharePeers
from kavka.config.topic import TopicConfig
from kavka.controller.decide.topic_plans import TopicRequest
from kavka.decisions import RecordDecision
from kavka.errors import ConnectionFailed, ErrorCode, OffsetOutOfRange, RecordsError, RequestError, StorageError
from kavka.logger import Logger
from kavka.model import BrokerId, Offset, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.records.batch import HEADER_SIZE
from kavka.records.builder import BatchBuilder
from kavka.replication.decide.partition import ACKS_ALL, Partition
from kavka.replication.replica_manager import ReplicaManager
from kavka.share.decide import dead_letters as decide
from kavka.share.decide.dead_letters import DeadLetters, Found, Lasting, Written
from kavka.share.decide.reasons import Place, Telling
from kavka.share.decide.spans import Span

logger = Logger(__name__)

MOST_IN_BATCH: Final = 500
"""Dead letters in one batch: some milliseconds of work."""
MOST_AT_ONCE: Final = 32
"""Batches that are read and written at the same time."""
MOST_COPYING: Final = 2
"""Batches for which records are read: that takes the most memory."""
READ_BYTES: Final = 1024 * 1024
"""How much of a log is read at once for copies, as in Kafka."""
TIMEOUT_MS: Final = 10_000
PRODUCE_VERSION: Final = 9
"""Flexible, and by topic name."""
RECORD_OVERHEAD: Final = 64
"""More than lengths, deltas and a header's framing take in a record."""
_FOR_GOOD: Final = (
    ErrorCode.INVALID_CONFIG,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.POLICY_VIOLATION,
)
"""Errors that another try does not mend."""
_OF_RIGHTS: Final = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
"""Errors that last until somebody gives the brokers' user the right, of which its brokers may not have heard yet."""
_OF_CONTENT: Final = (ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE)
"""Those of them that say something of this batch only."""


class DeadLetterPorts(NamedTuple):
    """What the broker gives. `letters` are the settings of a group, `topic_config` those of a topic; `create` makes a
    topic, NONE if it is there now; `run_blocking` carries a call to a worker."""

    letters: Callable[[str], DeadLetters]
    topic_config: Callable[[str], TopicConfig]
    create: Callable[[TopicRequest], Awaitable[ErrorCode]]
    run_blocking: Callable[[Callable[[], None]], Awaitable[None]]
    on_storage_error: Callable[[StorageError], None]
    clock_ms: Callable[[], int]
    wall_ms: Callable[[], int]
    random: Random
    record: RecordDecision


class Grave(NamedTuple):
    """Whose dead letters: those of `place`, whose records `hosted` has. `is_current` is false once this broker has no
    word in it any more."""

    place: Place
    hosted: Partition
    telling: Telling
    is_current: Callable[[], bool]


class _Failure(NamedTuple):
    """`refused` is what the refused batch had, where its content was the reason: other batches may be taken.
    `may_last`: it is for what the group or the topic is like, so that the next dead letters would fare alike."""

    why: str
    is_final: bool
    refused: Sequence[Span] = ()
    may_last: bool = False


class _Batch(NamedTuple):
    """`done` is what is done with it; `letters`, of these, what it has dead letters of."""

    data: bytes
    done: Sequence[Span]
    letters: Sequence[Span]


class DeadLetterWriter:
    """`peers` are other brokers, over connections of their own: an append may wait for replicas, and answers of one
    connection leave in order."""

    def __init__(
        self,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        peers: SharePeers,
        counts: ShareCounts,
        ports: DeadLetterPorts,
    ) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._peers = peers
        self._counts = counts
        self._ports = ports
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)
        self._copying = asyncio.Semaphore(MOST_COPYING)
        self._lasting = Lasting()

    async def bury(self, grave: Grave, spans: Sequence[Span]) -> Sequence[Span]:
        """Writes dead letters of the first of these spans. Returns those that are done: they are written, or cannot be
        (I2). Empty where this broker has no word in it any more."""
        spans, group_id = decide.with_causes(spans, grave.place.limit), grave.place.group_id
        tries, may_copy = 0, True
        while grave.is_current():
            async with self._slots:
                outcome = await self._try(grave, spans, may_copy=may_copy)
            if not isinstance(outcome, _Failure):
                self._lasting.forget(group_id)
                return outcome
            if outcome.refused and may_copy:
                may_copy = False  # Headers alone may be taken (I4).
                continue
            tries, now_ms = tries + 1, self._ports.clock_ms()
            is_known = outcome.may_last and self._lasting.is_known(group_id, outcome.why, now_ms)
            is_final = outcome.is_final or is_known
            pause_s = None if is_final else decide.pause_s(tries, self._ports.random.random())
            if pause_s is None:
                if outcome.may_last:
                    self._lasting.note(group_id, outcome.why, now_ms)
                lost = outcome.refused or spans
                self._give_up(grave, lost, outcome.why)
                return lost
            await asyncio.sleep(pause_s)
        return ()

    async def _try(self, grave: Grave, spans: Sequence[Span], *, may_copy: bool) -> Sequence[Span] | _Failure:
        group_id, source = grave.place.group_id, grave.place.partition
        letters = self._ports.letters(group_id)
        refusal = decide.refusal(group_id, letters, source, self._found(letters.topic))
        if refusal is not None:
            return _Failure(refusal.why, is_final=not refusal.may_pass, may_last=refusal.may_pass)
        if self._found(letters.topic) is None and (failure := await self._create(letters.topic)) is not None:
            return failure
        found = self._found(letters.topic)
        if found is None:
            return _Failure(f"{letters.topic} is not known here yet", is_final=False)
        batch = await self._batch(grave, spans, found.max_message_bytes, copies=letters.copies and may_copy)
        if not batch.data:
            return batch.done
        where = TopicPartition(letters.topic, decide.partition_for(source.partition, found.partition_count))
        self._counts.on_dead_letter_request(group_id)
        error, offset = await self._append(where, batch.data)
        if error is not ErrorCode.NONE:
            refused = batch.done if error in _OF_CONTENT else ()
            return _failure(f"{where} answered {error.name}", error, refused)
        count = sum(span.size for span in batch.letters)
        self._counts.on_dead_letters(group_id, count)
        untold = grave.telling.turn(Written, count, self._ports.clock_ms())
        if untold is not None:
            wall_ms = self._ports.wall_ms()
            self._ports.record(decide.written(grave.place, batch.letters, Written(where, offset), wall_ms, untold))
        return batch.done

    def _found(self, topic: str) -> Found | None:
        known = self._metadata.topic(topic)
        if known is None:
            return None
        config = self._ports.topic_config(topic)
        return Found(len(known.partitions), config.errors_deadletterqueue_group_enable, config.max_message_bytes)

    async def _create(self, topic: str) -> _Failure | None:
        wish = TopicRequest(
            topic,
            # The time of a dead letter is that of its writing, whatever the cluster's default is.
            config={"errors.deadletterqueue.group.enable": "true", "message.timestamp.type": "CreateTime"},
        )
        error = await self._ports.create(wish)
        if error is ErrorCode.NONE:
            return None
        return _failure(f"{topic} could not be created: {error.name}", error)

    def _give_up(self, grave: Grave, spans: Sequence[Span], why: str) -> None:
        count = sum(span.size for span in spans)
        self._counts.on_dead_letters_failed(grave.place.group_id)
        untold = grave.telling.turn(_Failure, count, self._ports.clock_ms())
        if untold is not None:
            logger.error(
                "dead letters not written",
                group=grave.place.group_id,
                partition=str(grave.place.partition),
                first_offset=spans[0].first,
                last_offset=spans[-1].last,
                records=count,
                why=why,
                next_step="the records are archived; read them where they are, before they are deleted there",
            )
            self._ports.record(decide.failed(grave.place, spans, why, self._ports.wall_ms(), untold))

    # -- what is written

    async def _batch(self, grave: Grave, spans: Sequence[Span], max_bytes: int, *, copies: bool) -> _Batch:
        """As many dead letters as fit, at least one; none where the first offsets have no record (I5)."""
        wanted = _first(spans, MOST_IN_BATCH)
        found = await self._look_up(grave, wanted, max_bytes, copies=copies)
        if found.is_full:
            wanted = _below(wanted, found.known_to)
        builder, wall_ms = BatchBuilder(), self._ports.wall_ms()
        group_id, source = grave.place.group_id, grave.place.partition
        letters = _without(wanted, found.missing)
        for span in letters:
            for offset in range(span.first, span.last + 1):
                head = decide.headers(group_id, source, offset, span.deliveries, is_rejected=span.is_rejected)
                key, value = found.contents.get(offset, (None, None))
                size = sum(len(name) + len(text) + 8 for name, text in head) + RECORD_OVERHEAD
                if HEADER_SIZE + size + len(key or b"") + len(value or b"") > max_bytes:
                    key = value = None  # It would not even fit alone (I4).
                if builder.record_count and builder.size_bytes + size + len(key or b"") + len(value or b"") > max_bytes:
                    return _Batch(builder.build(), _below(wanted, offset), _below(letters, offset))
                builder.append(wall_ms, key, value, head)
        return _Batch(builder.build() if builder.record_count else b"", wanted, letters)

    async def _look_up(self, grave: Grave, spans: Sequence[Span], max_bytes: int, *, copies: bool) -> BuriedRecords:
        """What the log says of these offsets. Of what a member has rejected it is asked for copies only: there was a
        record (I5)."""
        asked = spans if copies else [span for span in spans if not span.is_rejected]
        found = BuriedRecords(asked, max_bytes if copies else None)
        if found.position is None:
            return found
        async with self._copying:
            while (position := found.position) is not None:
                data = self._read(grave, position)
                if data:
                    await self._ports.run_blocking(partial(found.take, data))
                else:
                    found.pass_to(grave.hosted.log.log_start_offset)
                if found.position == position:
                    break
        return found

    def _read(self, grave: Grave, position: Offset) -> bytes:
        """Whole batches from there on; none where the log does not have them any more."""
        try:
            result = grave.hosted.read(
                position,
                READ_BYTES,
                current_leader_epoch=grave.place.leader_epoch,
                read_committed=False,
                min_one_batch=True,
            )
            return b"".join(chunk.tobytes() for chunk in result.chunks)
        except StorageError as failure:
            self._ports.on_storage_error(failure)
        except (OffsetOutOfRange, RecordsError, RequestError):
            pass
        return b""

    async def _append(self, where: TopicPartition, batch: bytes) -> tuple[ErrorCode, Offset]:
        """The error, and where the batch begins."""
        published = self._metadata.partition(where.topic, where.partition)
        if published is None or published.state.leader < 0:
            return ErrorCode.LEADER_NOT_AVAILABLE, -1
        if published.state.leader == self._peers.broker_id:
            return await self._append_here(where, batch)
        return await self._produce(where, batch, published.state.leader)

    async def _append_here(self, where: TopicPartition, batch: bytes) -> tuple[ErrorCode, Offset]:
        topic, index = where
        records = memoryview(bytearray(batch))
        outcome = self._replicas.append(topic, index, records, required_acks=ACKS_ALL, wall_ms=self._ports.wall_ms())
        first = outcome.base_offset
        if not self._replicas.is_committed(topic, index, outcome):
            outcome = await self._replicas.await_committed(topic, index, outcome, TIMEOUT_MS)
        return ErrorCode(outcome.error), first

    async def _produce(self, where: TopicPartition, batch: bytes, leader: BrokerId) -> tuple[ErrorCode, Offset]:
        from kavka.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
        from kavka.protocol.messages.produce_response import ProduceResponse

        data = PartitionProduceData(index=where.partition, records=batch)
        request = ProduceRequest(
            acks=ACKS_ALL,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=where.topic, partition_data=[data])],
        )
        try:
            answer = await self._peers.ask(leader, ApiKey.PRODUCE, PRODUCE_VERSION, request, ProduceResponse)
        except ConnectionFailed:
            return ErrorCode.NETWORK_EXCEPTION, -1
        told = answer.responses[0].partition_responses[0]
        return ErrorCode(told.error_code), told.base_offset

    def close(self) -> None:
        """Ends the connections; what is in flight fails."""
        self._peers.close()


def _failure(why: str, error: ErrorCode, refused: Sequence[Span] = ()) -> _Failure:
    return _Failure(why, is_final=error in _FOR_GOOD, refused=refused, may_last=error in _OF_RIGHTS)


def _first(spans: Sequence[Span], most: int) -> list[Span]:
    """So many offsets of these."""
    taken: list[Span] = []
    for span in spans:
        if most <= 0:
            break
        taken.append(span._replace(last=min(span.last, span.first + most - 1)))
        most -= taken[-1].size
    return taken


def _below(spans: Sequence[Span], offset: Offset) -> list[Span]:
    return [span._replace(last=min(span.last, offset - 1)) for span in spans if span.first < offset]


def _without(spans: Sequence[Span], missing: Set[Offset]) -> list[Span]:
    """The same spans without offsets that have no record, except where a member has rejected one."""
    left: list[Span] = []
    for span in spans:
        holes = () if span.is_rejected else sorted(offset for offset in missing if span.first <= offset <= span.last)
        begin = span.first
        for hole in (*holes, span.last + 1):
            if begin < hole:
                left.append(span._replace(first=begin, last=hole - 1))
            begin = hole + 1
    return left
