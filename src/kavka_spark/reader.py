"""RangeReader: the records of a range of offsets as Arrow batches.

Decides how much is asked for at a time, when the next Fetch is sent, and what is done when a leader moves, records are
gone or a topic is another one by now. What the bytes hold is the decoder's matter; it must not know Spark.

    Spark's thread    decode answer 1  |  decode answer 2  | ...
    the loop's thread fetch answer 2   |  fetch answer 3   | ...

Invariants
  I1  The next offset is the end of the last batch received, never a count of rows: compaction, markers and aborted
      transactions leave gaps.
  I2  Every record of the range that the leader's log holds below its high watermark (or last stable offset) is handed
      out once, in order, whichever brokers lead meanwhile; or the reading ends with an error that names topic,
      partition and offset. Without `fail_on_data_loss` what is gone is passed over instead, with a warning.
  I3  Of a range one Fetch is under way at most, and one answer waits: at most twice `fetch_bytes`, or the largest
      batch.
  I4  A topic with the same name and another id is another topic: brokers compare the id (Fetch 13). Those that know
      topics by name only are asked for the id after each answer, before its records are handed out.

Source: KIP-74 (a first batch larger than asked for is sent whole), KIP-320, KIP-516.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple

from kavka.client.answers import error_name, error_of
from kavka.client.backoff import backoff_ms
from kavka.client.cluster import Cluster
from kavka.errors import ConnectionFailed, ErrorCode, KavkaError, RequestError
from kavka.logger import Logger
from kavka.model import TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kavka.protocol.messages.fetch_response import FetchResponse, PartitionData
from kavka.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kavka.protocol.messages.metadata_response import MetadataResponse
from kavka_spark.connections import WorkerConnection
from kavka_spark.decoder import Wanted, decode_batches, next_offset
from kavka_spark.errors import CorruptBatchError, DataLossError
from kavka_spark.offsets import edges, find_partitions
from kavka_spark.read_tasks import NO_TOPIC_ID, OffsetRange
from kavka_spark.source_options import SourceOptions, Subscribe

if TYPE_CHECKING:
    import pyarrow as pa

logger = Logger(__name__)

HIGHEST_BY_NAME = 12
"""From version 13 on, Fetch names topics by id only."""
HIGHEST_FETCH = 13
SMALLEST_FETCH_BYTES = 64 * 1024
GUESSED_RECORD_BYTES = 1024
"""Used before anything of a partition was read."""
SPARE = 1.1
"""A little more than the range should take, so that its end does not need one more Fetch."""
_NO_SESSION = 0
_FINAL_EPOCH = -1
_MAY_BE_ANOTHER = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)
"""Answers where a topic was deleted, or made anew, with fewer partitions too: what is not there has no leader."""


class _Answer(NamedTuple):
    """What a Fetch returned: batches from `offset` on, or nothing if the range continues or ends elsewhere."""

    offset: int
    records: memoryview
    aborted: tuple[tuple[int, int], ...]


def read_ranges(
    connection: WorkerConnection, options: SourceOptions, spans: Sequence[OffsetRange], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The rows of the ranges in order. Each range is requested while the one before it is decoded.

    Raises `DataLossError`, `CorruptBatchError`, `ConnectionFailed`, `RequestError`.
    """
    readers = [RangeReader(connection, options, span, columns) for span in spans]
    try:
        for index, reader in enumerate(readers):
            reader.begin()
            if index + 1 < len(readers):
                readers[index + 1].begin()
            yield from reader.batches()
    finally:
        for reader in readers:
            reader.stop()


class RangeReader:
    """Reads one range, once."""

    def __init__(
        self, connection: WorkerConnection, options: SourceOptions, span: OffsetRange, columns: Sequence[str]
    ) -> None:
        self._connection = connection
        self._options = options
        self._span = span
        self._columns = list(columns)
        self._name = TopicPartition(span.topic, span.partition)
        self._under_way: Future[_Answer] | None = None
        self._has_begun = False
        """Whether records of the range were received."""

    def begin(self) -> None:
        """Sends the first Fetch if it was not sent yet."""
        if self._under_way is None and self._span.size > 0:
            self._under_way = self._fetch(self._span.start)

    def stop(self) -> None:
        """Stops waiting for an answer."""
        if self._under_way is not None:
            self._under_way.cancel()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The range's rows."""
        span = self._span
        self.begin()
        while self._under_way is not None:
            answer = self._under_way.result()
            offset = self._after(answer)
            self._under_way = self._fetch(offset) if offset < span.end else None
            if answer.records:
                yield from decode_batches(
                    answer.records,
                    self._columns,
                    Wanted(span.topic, span.partition, answer.offset, span.end),
                    aborted=answer.aborted,
                    check_crcs=self._options.check_crcs,
                )

    def _after(self, answer: _Answer) -> int:
        """Where the next Fetch starts. Remembers how large the records of this partition are."""
        if not answer.records:
            return answer.offset
        self._has_begun = True
        after = next_offset(answer.records, topic=self._span.topic, partition=self._span.partition)
        if after <= answer.offset:
            raise CorruptBatchError(
                self._span.topic,
                self._span.partition,
                answer.offset,
                f"{len(answer.records)} bytes from the broker hold no batch that ends behind this offset",
            )
        self._connection.learn_size(self._name, len(answer.records) / (after - answer.offset))
        return after

    def _fetch(self, offset: int) -> Future[_Answer]:
        per_offset = self._connection.size(self._name) or GUESSED_RECORD_BYTES
        wanted = int((self._span.end - offset) * per_offset * SPARE)
        size = min(max(wanted, SMALLEST_FETCH_BYTES), self._options.fetch_bytes)
        return self._connection.submit(self._fetch_until_there(offset, size))

    async def _fetch_until_there(self, offset: int, size: int) -> _Answer:
        """Asks the current leader until it has the batch at `offset`, for at most `poll_timeout_ms`."""
        cluster, options = self._connection.cluster, self._options
        loop = asyncio.get_running_loop()
        deadline = loop.time() + options.poll_timeout_ms / 1000
        failures = 0
        while True:
            failure: KavkaError
            try:
                data = await fetch_once(cluster, options, self._span, offset, size)
                code = error_of(data.error_code)
                if code is ErrorCode.NONE and data.records:
                    assert isinstance(data.records, memoryview)
                    aborted = tuple(
                        (entry.producer_id, entry.first_offset) for entry in data.aborted_transactions or ()
                    )
                    return _Answer(offset, data.records, aborted)
                if code is ErrorCode.NONE:
                    failure = self._on_nothing(offset, data)
                elif code is ErrorCode.OFFSET_OUT_OF_RANGE:
                    return await self._on_out_of_range(cluster, offset)
                else:
                    failure = RequestError(code, f"fetch of {self._name} at {offset}: {error_name(data.error_code)}")
            except ConnectionFailed as caught:
                failure = caught
            except RequestError as caught:
                failure = caught
            if isinstance(failure, RequestError):
                if not failure.code.retriable:
                    raise failure
                if failure.code in _MAY_BE_ANOTHER and await self._is_another_topic(cluster, offset):
                    return self._ended(offset)
            if loop.time() >= deadline:
                if isinstance(failure, DataLossError) and not options.fail_on_data_loss:
                    logger.warning("records passed over", why=str(failure))
                    return self._ended(offset)
                raise failure
            failures += 1
            await asyncio.sleep(backoff_ms(cluster.settings, failures, cluster.random) / 1000)
            await cluster.refresh_quietly()

    def _on_nothing(self, offset: int, data: PartitionData) -> KavkaError:
        """Why a leader may no longer have an offset that existed when the query was planned."""
        end = data.last_stable_offset if self._options.read_committed else data.high_watermark
        return self._loss(
            offset,
            data.log_start_offset,
            end,
            "the log ends before it: cut off by an unclean election, or not there yet",
        )

    async def _on_out_of_range(self, cluster: Cluster, offset: int) -> _Answer:
        earliest, latest = await edges(cluster, [self._name], read_committed=False)
        first, last = earliest[self._name], latest[self._name]
        if self._span.at_earliest and not self._has_begun and offset < first:
            logger.info("range begins later", partition=str(self._name), planned=offset, earliest=first)
            return _Answer(min(first, self._span.end), _NOTHING, ())
        if offset < first:
            reason = "retention or a deletion of records has removed it; raise retention.ms, or read sooner"
        else:
            reason = "the log ends before it: cut off by an unclean election, or the topic was made anew"
        lost = self._loss(offset, first, last, reason)
        if self._options.fail_on_data_loss:
            raise lost
        logger.warning("records passed over", why=str(lost))
        return self._ended(offset) if offset > last else _Answer(min(max(first, offset), self._span.end), _NOTHING, ())

    async def _is_another_topic(self, cluster: Cluster, offset: int) -> bool:
        """Whether the topic was deleted or created again; False if the brokers only have not heard of it yet."""
        found = await find_partitions(cluster, Subscribe((self._span.topic,)))
        if found.missing:
            reason = "the topic was deleted"
        elif self._span.topic_id not in (NO_TOPIC_ID, found.topic_ids.get(self._span.topic, self._span.topic_id)):
            reason = (
                f"the topic was deleted and made anew: it was {self._span.topic_id}, and is "
                f"{found.topic_ids[self._span.topic]}"
            )
        else:
            return False
        lost = self._loss(offset, -1, -1, reason)
        if self._options.fail_on_data_loss:
            raise lost
        logger.warning("records passed over", why=str(lost))
        return True

    def _ended(self, offset: int) -> _Answer:
        return _Answer(max(offset, self._span.end), _NOTHING, ())

    def _loss(self, offset: int, earliest: int, latest: int, reason: str) -> DataLossError:
        return DataLossError(self._span.topic, self._span.partition, offset, earliest, latest, reason)


async def fetch_once(
    cluster: Cluster, options: SourceOptions, span: OffsetRange, offset: int, size: int
) -> PartitionData:
    """What the leader returns at `offset`, up to about `size` bytes, with the partition's error code.

    Raises `ConnectionFailed` and `RequestError`.
    """
    name = TopicPartition(span.topic, span.partition)
    await cluster.topic(span.topic)
    leader = cluster.leader(name)
    if leader < 0:
        raise RequestError(ErrorCode.LEADER_NOT_AVAILABLE, f"{name} has no leader")
    wanted = FetchPartition(
        partition=span.partition,
        current_leader_epoch=cluster.leader_epoch(name),
        fetch_offset=offset,
        partition_max_bytes=size,
    )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=options.fetch_wait_ms,
        min_bytes=1,
        max_bytes=size,
        isolation_level=int(options.read_committed),
        session_id=_NO_SESSION,
        session_epoch=_FINAL_EPOCH,
        topics=[FetchTopic(topic=span.topic, topic_id=span.topic_id, partitions=[wanted])],
    )
    answer = await cluster.ask(
        ApiKey.FETCH,
        request,
        FetchResponse,
        node_id=leader,
        highest=HIGHEST_BY_NAME if span.topic_id == NO_TOPIC_ID else HIGHEST_FETCH,
        timeout_ms=options.fetch_wait_ms + cluster.settings.request_timeout_ms,
    )
    if answer.error_code:
        raise RequestError(error_of(answer.error_code), f"fetch of {name}: {error_name(answer.error_code)}")
    for topic in answer.responses:
        for data in topic.partitions:
            if data.partition_index == span.partition:
                if data.records and topic.topic_id == NO_TOPIC_ID != span.topic_id:
                    await _check_topic_id(cluster, span, leader)
                return data
    raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{name} is missing in the answer to a fetch")


async def _check_topic_id(cluster: Cluster, span: OffsetRange, leader: int) -> None:
    """I4: an id is never used again, so that what is the same topic now was so when it was read."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=span.topic)], allow_auto_topic_creation=False)
    answer = await cluster.ask(ApiKey.METADATA, request, MetadataResponse, node_id=leader)
    for topic in answer.topics:
        if topic.error_code:
            raise RequestError(error_of(topic.error_code), f"{span.topic}: {error_name(topic.error_code)}")
        if topic.topic_id != span.topic_id:
            raise RequestError(ErrorCode.INCONSISTENT_TOPIC_ID, f"{span.topic} is {topic.topic_id} by now")


_NOTHING = memoryview(b"")
