"""The consumer: partitions in, records out.

Decides what is fetched from whom and when, where each partition goes on, and which records a reader of committed data
must not see. It must not know how a broker is reached (the cluster's matter) or a group's protocol (the member's).

Invariants
  I1  Of a partition each record is returned once, in the order of offsets; the position is behind the last one
      returned, and behind what was skipped (markers, aborted records, what compaction left of a batch).
  I2  One fetch per broker and one per partition is under way at a time. A partition is fetched ahead while less than
      `PREFETCHED_FETCHES` of its fetches wait to be read, and all partitions while less than `max_buffered_bytes` do.
  I3  What was fetched for a position that `seek`, `assign` or a rebalance has given up is thrown away, never returned.
  I4  With read_committed no record of an aborted transaction is returned, nor any record behind the last stable offset.

Source: KIP-98 (aborted transactions in Fetch), KIP-320 (leader epochs), Kafka's fetcher. Sessions (KIP-227) are not
used: a fetch names all of its partitions.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kavka.client.answers import error_name, error_of
from kavka.client.backoff import backoff_ms
from kavka.client.cluster import Cluster
from kavka.client.group import NOBODY, CommittedOffset, GroupMember, MemberState
from kavka.client.offsets import EARLIEST, LATEST, list_offsets
from kavka.client.settings import ConsumerSettings, OffsetReset
from kavka.client.transactions import GroupMetadata
from kavka.errors import ConnectionFailed, CorruptRecords, ErrorCode, KavkaError, OffsetOutOfRange, RequestError
from kavka.model import NO_EPOCH, TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kavka.protocol.messages.fetch_response import FetchResponse, PartitionData
from kavka.records.batch import RecordBatch, TimestampType, iterate_batches
from kavka.records.control import ControlType, read_marker
from kavka.records.record import Header, Record

HIGHEST_FETCH = 12
FIRST_FETCH_WITH_LAST_EPOCH = 12
"""From here on a fetch says of which leader epoch the last record was that was read (KIP-320)."""
"""From version 13 on Fetch names topics by id only; names do everywhere."""
PREFETCHED_FETCHES = 2
"""Fetches of one partition that may wait to be read: while one is read the next is under way."""
_UNKNOWN = -1
"""Position of a partition of which it has not been asked yet where to go on."""
_LOST = -2
"""Position of a partition whose log no longer holds the offset that was to be read."""
_NO_SESSION = 0
_FINAL_EPOCH = -1
_STALE_LEADER = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class ConsumerRecord(NamedTuple):
    """A record with its topic, partition and offset. `timestamp_ms` is -1 if there is none. A null `value` is a
    tombstone."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp_type: TimestampType
    leader_epoch: int


class _Fetched:
    """What one fetch brought for one partition: batches, and which producers' transactions in them were aborted."""

    __slots__ = ("_aborted", "_aborting", "batches", "size_bytes")

    def __init__(self, batches: deque[RecordBatch], aborted: list[tuple[int, int]], size_bytes: int) -> None:
        self.batches = batches
        self.size_bytes = size_bytes
        self._aborted = deque(sorted(aborted))
        """(first offset, producer id), in order."""
        self._aborting: set[int] = set()

    def is_aborted(self, batch: RecordBatch) -> bool:
        """Whether the next batch belongs to an aborted transaction. Must be asked of every batch, in order."""
        header = batch.header
        while self._aborted and self._aborted[0][0] <= header.last_offset:
            self._aborting.add(self._aborted.popleft()[1])
        if header.is_control:
            if header.producer_id in self._aborting:
                marker = read_marker(batch)
                if marker is not None and marker.control_type is ControlType.ABORT:
                    self._aborting.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._aborting


class _Partition:
    """The state of one assigned partition."""

    __slots__ = (
        "current",
        "failures",
        "fetch_offset",
        "fetched",
        "generation",
        "high_watermark",
        "in_flight",
        "last_epoch",
        "last_stable_offset",
        "log_start_offset",
        "name",
        "not_before",
        "paused",
        "position",
    )

    def __init__(self, name: TopicPartition) -> None:
        self.name = name
        self.position = _UNKNOWN
        """Offset of the next record to return, or one of the two constants above."""
        self.fetch_offset = _UNKNOWN
        self.last_epoch = NO_EPOCH
        """The leader epoch of the batch that ends at `fetch_offset`; -1 where none was read there."""
        self.fetched: deque[_Fetched] = deque()
        self.current: Iterator[Record] | None = None
        """The batch that is being read."""
        self.generation = 0
        """Counts the seeks: what was fetched for an earlier one is void."""
        self.in_flight = False
        self.not_before = 0.0
        self.failures = 0
        self.paused = False
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1


class Consumer:
    """Reads from a cluster. Belongs to one event loop. Close it with `close` or `async with`.

    Either assign partitions by hand:

        consumer.assign([TopicPartition("orders", 0)])
        await consumer.seek_to_beginning()

    or let a group distribute topics (`group_id` in the settings):

        await consumer.subscribe(["orders"])

    and then `poll` or `async for record in consumer` returns records.

    One class with many methods, because it is what applications hold: half of them are its interface, and the others
    share the positions and buffers that a seek, a rebalance or an answer may change at any time (I1, I3).
    """

    def __init__(self, cluster: Cluster, settings: ConsumerSettings | None = None) -> None:
        self._cluster = cluster
        self._settings = settings or ConsumerSettings()
        self._purpose = cluster.new_purpose("fetch")
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._topics_known = True
        """Whether the cluster keeps the metadata of all assigned partitions up to date."""
        self._turn: deque[TopicPartition] = deque()
        """Partitions with something to read, in the order in which they are read."""
        self._fetches: dict[int, asyncio.Task[None]] = {}
        """Fetches under way, by broker."""
        self._arrived = asyncio.Event()
        self._failure: KavkaError | None = None
        self._member: GroupMember | None = None
        self._next_auto_commit = 0.0
        self._closed = False
        self.buffered_bytes = 0
        """Bytes of fetched batches that wait to be read."""
        self.rebalances = 0

    async def __aenter__(self) -> Consumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def assignment(self) -> list[TopicPartition]:
        return list(self._partitions)

    @property
    def membership(self) -> tuple[str, int]:
        """(member id, generation) in the group; ("", -1) outside of one."""
        return NOBODY if self._member is None else (self._member.member_id, self._member.generation)

    @property
    def group_metadata(self) -> GroupMetadata:
        """The membership under which this consumer got its assignment, for `Producer.send_offsets_to_transaction`.

        Call it before the next `poll`, whose records may be of another generation. If the membership was lost
        meanwhile, this is still the one of the assignment, so that the group's coordinator refuses the offsets.
        Raises `RequestError`.
        """
        if self._settings.group_id is None:
            raise RequestError(ErrorCode.INVALID_GROUP_ID, "the consumer has no group_id")
        member_id, generation = NOBODY if self._member is None else self._member.identity
        return GroupMetadata(self._settings.group_id, generation, member_id, self._settings.group_instance_id)

    def assign(
        self, partitions: Iterable[TopicPartition], *, offsets: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Reads only these partitions, starting at `offsets`. For partitions without one, `auto_offset_reset` decides.

        A partition that was already being read and has no offset here keeps its position.
        """
        if self._member is not None and self._member.state is not MemberState.OUTSIDE:
            raise RequestError(ErrorCode.INVALID_REQUEST, "partitions are assigned by the group, leave it first")
        self._assign(partitions, offsets or {})

    async def assign_topic(self, topic: str) -> list[TopicPartition]:
        """Adds all partitions of a topic to the assignment and returns them; raises `RequestError` if there is none."""
        metadata = await self._cluster.topic(topic)
        added = [TopicPartition(topic, p.partition) for p in metadata.partitions]
        self.assign([*self._partitions, *(p for p in added if p not in self._partitions)])
        return added

    async def subscribe(self, topics: Sequence[str]) -> None:
        """Joins the group and reads the partitions that this member gets. May take as long as the group's
        rebalance."""
        self._member = GroupMember(self._cluster, self._settings, topics)
        await self._rejoin()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Makes the record at `offset`, or the first one after it, the next record of `partition`."""
        state = self._state(partition)
        self._discard(state)
        state.position = state.fetch_offset = offset
        state.not_before = 0.0

    async def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        await self._seek_to(EARLIEST, partitions)

    async def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Seeks to the high watermark, or for read_committed to the last stable offset."""
        await self._seek_to(LATEST, partitions)

    async def seek_to_timestamp(self, timestamp_ms: int, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Seeks to the first record at or after `timestamp_ms`, or to the end if there is none."""
        chosen = self._chosen(partitions)
        found = await list_offsets(self._cluster, dict.fromkeys(chosen, timestamp_ms), read_committed=self._committed())
        missing = [partition for partition, at in found.items() if at.offset < 0]
        ends = await list_offsets(self._cluster, dict.fromkeys(missing, LATEST), read_committed=self._committed())
        for partition, at in {**found, **ends}.items():
            self.seek(partition, at.offset)

    def position(self, partition: TopicPartition) -> int:
        """Offset of the next record that `poll` returns, -1 while it is not known."""
        return max(self._state(partition).position, _UNKNOWN)

    def high_watermark(self, partition: TopicPartition) -> int:
        """The high watermark as of the last fetch, -1 before the first."""
        return self._state(partition).high_watermark

    async def end_offsets(self) -> dict[TopicPartition, int]:
        """The present ends of the assigned partitions, as far as this consumer may read.

        It determines positions first, so that `reached` is correct at once, also for empty partitions.
        """
        await self._find_positions()
        found = await list_offsets(
            self._cluster, dict.fromkeys(self._partitions, LATEST), read_committed=self._committed()
        )
        return {partition: at.offset for partition, at in found.items()}

    def reached(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether all records of the assigned partitions before `ends` have been returned."""
        return all(state.position >= ends.get(name, 0) for name, state in self._partitions.items())

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Returns no records of these partitions until `resume`. Fetched records are kept."""
        for partition in partitions:
            self._state(partition).paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            state = self._state(partition)
            state.paused = False
            if state.fetched or state.current is not None:
                self._enqueue(state)

    async def poll(self, *, max_records: int = 500, timeout_ms: int = 1_000) -> list[ConsumerRecord]:
        """Up to `max_records` records; an empty list if none came within `timeout_ms`.

        In a group it also takes part in rebalances, after which `assignment` may differ. With `enable_auto_commit` it
        commits the records that were returned before, at intervals. Raises `OffsetOutOfRange` with `OffsetReset.NONE`,
        `CorruptRecords` for a batch with a wrong CRC (the position stays before it), and `RequestError` for errors
        that a retry does not solve.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while True:
            if self._closed:
                raise ConnectionFailed("the consumer is closed")
            if self._member is not None:
                await self._keep_membership()
            await self._find_positions()
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            records = self._take(max_records)
            now = loop.time()  # Looked at once: a pause that ended in between would be waited for by nobody.
            self._start_fetches(now)
            remaining = deadline - now
            if records or remaining <= 0:
                return records
            self._arrived.clear()
            if self._member is not None:
                remaining = min(remaining, self._settings.heartbeat_interval_ms / 1000)
            remaining = min(remaining, self._until_retry(now))
            # Not asyncio.timeout: it may take a cancellation of the caller for its own (test_client_consumer.py).
            alarm = loop.call_later(remaining, self._arrived.set)
            try:
                await self._arrived.wait()
            finally:
                alarm.cancel()

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Records without end."""
        while True:
            for record in await self.poll():
                yield record

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commits the positions, or `offsets`, for the group. Raises `RequestError`, also for a lost membership."""
        member = self._member or GroupMember(self._cluster, self._settings)
        if offsets is None:
            offsets = {name: state.position for name, state in self._partitions.items() if state.position >= 0}
        if offsets:
            await member.commit(
                {p: CommittedOffset(offset, "", self._cluster.leader_epoch(p)) for p, offset in offsets.items()}
            )

    async def committed(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """The group's committed offsets, without the partitions that have none."""
        member = self._member or GroupMember(self._cluster, self._settings)
        found = await member.committed(self._partitions if partitions is None else partitions)
        return {partition: committed.offset for partition, committed in found.items()}

    async def close(self) -> None:
        """Commits what was returned (with `enable_auto_commit` in a group), leaves the group, stops.

        The cluster stays open.
        """
        if self._closed:
            return
        if self._member is not None:
            await self._auto_commit()
            await self._member.leave()
        self._closed = True
        fetches = list(self._fetches.values())
        for task in fetches:
            task.cancel()
        await asyncio.gather(*fetches, return_exceptions=True)
        self._cluster.release(self._purpose)
        self._assign([], {})
        self._arrived.set()

    def _committed(self) -> bool:
        return self._settings.read_committed

    def _state(self, partition: TopicPartition) -> _Partition:
        state = self._partitions.get(partition)
        if state is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} is not assigned to this consumer")
        return state

    def _chosen(self, partitions: Iterable[TopicPartition] | None) -> list[TopicPartition]:
        return list(self._partitions) if partitions is None else list(partitions)

    async def _seek_to(self, timestamp: int, partitions: Iterable[TopicPartition] | None) -> None:
        found = await list_offsets(
            self._cluster, dict.fromkeys(self._chosen(partitions), timestamp), read_committed=self._committed()
        )
        for partition, at in found.items():
            if partition in self._partitions:
                self.seek(partition, at.offset)

    def _assign(self, partitions: Iterable[TopicPartition], offsets: Mapping[TopicPartition, int]) -> None:
        before = self._partitions
        self._partitions = {p: before.get(p) or _Partition(p) for p in partitions}
        self._topics_known = False
        for name, state in before.items():
            if name not in self._partitions:
                self._discard(state)
        for partition, offset in offsets.items():
            self.seek(partition, offset)

    def _discard(self, state: _Partition) -> None:
        self.buffered_bytes -= sum(fetched.size_bytes for fetched in state.fetched)
        state.fetched.clear()
        state.current = None
        state.generation += 1
        state.last_epoch = NO_EPOCH

    async def _find_positions(self) -> None:
        """Gives every partition without a position one: what the group has committed, or the reset."""
        if not self._topics_known:
            for topic in {name.topic: None for name in self._partitions}:
                await self._cluster.topic(topic)
            self._topics_known = True
        unknown = [name for name, state in self._partitions.items() if state.position == _UNKNOWN]
        if unknown and self._settings.group_id is not None:
            for partition, offset in (await self.committed(unknown)).items():
                self.seek(partition, offset)
        to_reset = [name for name, state in self._partitions.items() if state.position < 0]
        if to_reset:
            await self._reset(to_reset)

    async def _reset(self, partitions: Sequence[TopicPartition]) -> None:
        match self._settings.auto_offset_reset:
            case OffsetReset.EARLIEST:
                await self._seek_to(EARLIEST, partitions)
            case OffsetReset.LATEST:
                await self._seek_to(LATEST, partitions)
            case OffsetReset.NONE:
                raise OffsetOutOfRange(f"{partitions[0]} has no offset to go on from, and auto_offset_reset is none")

    def _take(self, limit: int) -> list[ConsumerRecord]:
        """Records out of what was fetched, partition by partition in turn."""
        records: list[ConsumerRecord] = []
        while self._turn and len(records) < limit:
            state = self._partitions.get(self._turn[0])
            if state is None or state.paused or not (state.fetched or state.current is not None):
                self._turn.popleft()
                continue
            try:
                self._take_from(state, records, limit)
            except KavkaError as failure:
                state.current = None
                if not records:
                    raise
                self._failure = failure  # The next poll raises it; what was read before is returned first.
                break
            if len(records) >= limit:
                self._turn.rotate(-1)
        return records

    def _take_from(self, state: _Partition, records: list[ConsumerRecord], limit: int) -> None:
        """Appends records of one partition until `limit` are there or nothing is left."""
        topic, partition = state.name
        while state.fetched:
            fetched = state.fetched[0]
            if not fetched.batches:
                self.buffered_bytes -= fetched.size_bytes
                state.fetched.popleft()
                continue
            batch = fetched.batches[0]
            header = batch.header
            if state.current is None:
                state.current = self._open(state, fetched, batch)
            timestamp_type, leader_epoch = header.timestamp_type, header.partition_leader_epoch
            position = state.position
            for offset, timestamp, key, value, headers in state.current:
                if offset < position:
                    continue
                records.append(
                    ConsumerRecord(
                        topic, partition, offset, timestamp, key, value, headers, timestamp_type, leader_epoch
                    )
                )
                state.position = position = offset + 1
                if len(records) >= limit:
                    return
            state.current = None
            fetched.batches.popleft()
            state.position = max(position, header.last_offset + 1)

    def _open(self, state: _Partition, fetched: _Fetched, batch: RecordBatch) -> Iterator[Record]:
        """The records of the next batch that are to be seen."""
        if self._settings.check_crcs and not batch.crc_is_right():
            raise CorruptRecords(f"{state.name}: the batch at offset {batch.header.base_offset} has a wrong CRC")
        skipped = self._settings.read_committed and fetched.is_aborted(batch)
        if skipped or batch.header.is_control:
            return iter(())
        return batch.records(max_size=self._settings.max_inflated_bytes)

    def _start_fetches(self, now: float) -> None:
        """One fetch per leader, of the partitions that have room for more."""
        if self.buffered_bytes >= self._settings.max_buffered_bytes:
            return
        wanted: dict[int, list[_Partition]] = {}
        for state in self._partitions.values():
            if (
                state.position >= 0
                and not state.in_flight
                and not state.paused
                and len(state.fetched) < PREFETCHED_FETCHES
                and state.not_before <= now
            ):
                wanted.setdefault(self._cluster.leader(state.name), []).append(state)
        leaderless = wanted.pop(-1, [])
        if leaderless:
            for state in leaderless:
                self._back_off(state)
            self._spawn(-1, self._refresh())
        for leader, states in wanted.items():
            self._spawn(leader, self._fetch(leader, states))

    def _spawn(self, leader: int, work: Coroutine[Any, Any, None]) -> None:
        if leader in self._fetches:
            work.close()
            return
        task = asyncio.create_task(work, name=f"fetch from broker {leader}")
        self._fetches[leader] = task
        task.add_done_callback(lambda _: self._fetch_ended(leader))

    def _fetch_ended(self, leader: int) -> None:
        self._fetches.pop(leader, None)
        self._arrived.set()

    async def _refresh(self) -> None:
        await self._cluster.refresh_quietly()

    async def _fetch(self, leader: int, states: list[_Partition]) -> None:
        """One Fetch request to one broker; what goes wrong is told to the partitions, or to the next `poll`."""
        generations = {state.name: state.generation for state in states}
        for state in states:
            state.in_flight = True
        try:
            answer = await self._request(leader, states)
        except (ConnectionFailed, RequestError) as failure:
            if isinstance(failure, RequestError) and not failure.code.retriable:
                self._failure = failure
            for state in states:
                self._back_off(state)
            await self._cluster.refresh_quietly()
            return
        finally:
            for state in states:
                state.in_flight = False
        stale = False
        for topic in answer.responses:
            for data in topic.partitions:
                name = TopicPartition(topic.topic, data.partition_index)
                current = self._partitions.get(name)
                if current is not None and generations.get(name) == current.generation:
                    stale |= self._on_data(current, data)
        if stale:
            await self._cluster.refresh_quietly()

    async def _request(self, leader: int, states: list[_Partition]) -> FetchResponse:
        connection = await self._cluster.connection(leader, self._purpose)
        tells = connection.version_of(ApiKey.FETCH, highest=HIGHEST_FETCH) >= FIRST_FETCH_WITH_LAST_EPOCH
        topics: dict[str, FetchTopic] = {}
        for state in states:
            topic, partition = state.name
            entry = topics.setdefault(topic, FetchTopic(topic=topic, partitions=[]))
            entry.partitions.append(
                FetchPartition(
                    partition=partition,
                    current_leader_epoch=self._cluster.leader_epoch(state.name),
                    fetch_offset=state.fetch_offset,
                    last_fetched_epoch=state.last_epoch if tells else NO_EPOCH,
                    partition_max_bytes=self._settings.max_partition_fetch_bytes,
                )
            )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=self._settings.fetch_max_wait_ms,
            min_bytes=self._settings.fetch_min_bytes,
            max_bytes=self._settings.fetch_max_bytes,
            isolation_level=int(self._settings.read_committed),
            session_id=_NO_SESSION,
            session_epoch=_FINAL_EPOCH,
            topics=list(topics.values()),
        )
        timeout_ms = self._settings.fetch_max_wait_ms + self._cluster.settings.request_timeout_ms
        return await connection.request(
            ApiKey.FETCH, request, FetchResponse, highest=HIGHEST_FETCH, timeout_ms=timeout_ms
        )

    def _on_data(self, state: _Partition, data: PartitionData) -> bool:
        """Takes what a fetch brought for one partition; True where its leader may be another."""
        code = error_of(data.error_code)
        if code is ErrorCode.NONE:
            if data.diverging_epoch is not None and data.diverging_epoch.end_offset >= 0:
                self._on_divergence(state, data.diverging_epoch.end_offset)
            else:
                self._take_batches(state, data)
            return False
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._on_out_of_range(state)
            return False
        if not code.retriable:
            self._failure = RequestError(code, f"fetch of {state.name}: {error_name(data.error_code)}")
        self._back_off(state)
        return code in _STALE_LEADER

    def _take_batches(self, state: _Partition, data: PartitionData) -> None:
        state.failures = 0
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        state.log_start_offset = data.log_start_offset
        records = data.records
        if not records:
            return
        assert isinstance(records, memoryview)
        try:
            batches = deque(b for b in iterate_batches(records) if b.header.last_offset >= state.fetch_offset)
        except KavkaError as failure:
            self._failure = failure
            self._back_off(state)
            return
        if not batches:
            return
        aborted = [(entry.first_offset, entry.producer_id) for entry in data.aborted_transactions or ()]
        state.fetched.append(_Fetched(batches, aborted, len(records)))
        last = batches[-1].header
        state.fetch_offset, state.last_epoch = last.last_offset + 1, last.partition_leader_epoch
        self.buffered_bytes += len(records)
        self._enqueue(state)

    def _on_out_of_range(self, state: _Partition) -> None:
        if state.fetched or state.current is not None:
            self._back_off(state)  # What was fetched before is read first.
            return
        if self._settings.auto_offset_reset is OffsetReset.NONE:
            self._failure = OffsetOutOfRange(f"{state.name}: offset {state.fetch_offset} is not in the log")
            self._back_off(state)
            return
        self._discard(state)
        state.position = state.fetch_offset = _LOST

    def _on_divergence(self, state: _Partition, end_offset: int) -> None:
        """What was read from `end_offset` on is not in the log any more: an unclean election cut it off (KIP-320).

        Others took its place, which `auto_offset_reset` lets this consumer read; without a reset the next `poll` says
        what was lost.
        """
        position = min(state.position, end_offset)
        if self._settings.auto_offset_reset is OffsetReset.NONE and position < state.position:
            text = f"{state.name}: the log was cut off at {end_offset}, and {state.position} had been reached"
            self._failure = OffsetOutOfRange(text)
            self._back_off(state)
            return
        self.seek(state.name, position)

    def _enqueue(self, state: _Partition) -> None:
        if state.name not in self._turn:
            self._turn.append(state.name)
        self._arrived.set()

    def _back_off(self, state: _Partition) -> None:
        state.failures += 1
        pause_s = backoff_ms(self._cluster.settings, state.failures, self._cluster.random) / 1000
        state.not_before = asyncio.get_running_loop().time() + pause_s

    def _until_retry(self, now: float) -> float:
        """Seconds until a partition that failed is fetched again."""
        waits = [state.not_before - now for state in self._partitions.values() if state.not_before > now]
        return max(min(waits, default=float("inf")), 0.001)

    async def _keep_membership(self) -> None:
        assert self._member is not None
        if self._member.state is not MemberState.MEMBER:
            await self._rejoin()
        elif self._settings.enable_auto_commit and asyncio.get_running_loop().time() >= self._next_auto_commit:
            await self._auto_commit()

    async def _rejoin(self) -> None:
        assert self._member is not None
        if self._member.state is MemberState.REJOIN:
            await self._auto_commit()
        given = await self._member.join()
        self.rebalances += 1
        self._assign([], {})
        self._assign(given, {})
        self._next_auto_commit = asyncio.get_running_loop().time() + self._settings.auto_commit_interval_ms / 1000

    async def _auto_commit(self) -> None:
        """Commits the positions if that is asked for; a failure is left to the next time, or to who reads on."""
        self._next_auto_commit = asyncio.get_running_loop().time() + self._settings.auto_commit_interval_ms / 1000
        if self._settings.enable_auto_commit:
            try:
                await self.commit()
            except (ConnectionFailed, RequestError):
                pass
