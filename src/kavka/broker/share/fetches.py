"""ShareFetches: reads records for members of share groups, and waits where there is nothing to give.

Decides how many bytes are read of each partition, and when a fetch has waited long enough. Who gets what is decided in
`share.decide.share_partition`.

    I1  reading, deciding and acquiring is one step of the loop: nothing can come in between
    I2  nothing is acquired for a client that is gone: what waits holds no record
    I3  nothing is acquired for a session that is over. A member may close it on the connection on which it waits for
        more: what it gave back at the end went to its own fetch, and was locked for nobody
    I4  nothing is acquired for a client that may no longer read it: its right may have ended while it waited
    I5  a share-partition whose state is still being read keeps nobody from the records of the others, and no fetch
        waits beyond its time for it. 1. a coordinator is away, or slow; 2. a fetch that waits for the state is answered
        after its max_wait_ms and the loading; 3. its client takes the broker for dead, and closes the connection, and
        with it its session; 4. all that it holds of other partitions is delivered to others once more
    I6  a refusal ends a fetch once; told before, it is told again when the fetch is over. A client that goes on with a
        topic that is deleted, until its group's coordinator takes it away, would ask as fast as it can. Of such a topic
        Kafka says UNKNOWN_SERVER_ERROR, of all that is fetched: when its time is over, or at once if there is no other

Source: Kafka's DelayedShareFetch and ShareFetchUtils.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kavka.broker.share.led_share_partitions import LedShare, ShareLeaders
from kavka.broker.share.sessions import PartitionId, ShareSession
from kavka.coordinator.share_state.decide.records import ShareKey
from kavka.errors import ErrorCode, OffsetOutOfRange, RecordsError, RequestError, StorageError
from kavka.model import Offset
from kavka.records.batch import CONTROL_FLAG, LENGTH_PREFIX_SIZE, TRANSACTIONAL_FLAG, iterate_batches
from kavka.records.control import ControlType, read_marker
from kavka.replication.decide.fetching import FetchOutcome
from kavka.replication.purgatory import DelayedOperation
from kavka.replication.replica_manager import ReplicaManager
from kavka.share.decide.acquired_records import Acquired, LogBatch, Wish, isolation_from, told

if TYPE_CHECKING:
    from kavka.protocol.connection import ConnectionContext

READ_BYTES: Final = 1024 * 1024
"""How much is read of one partition at once: what is not given out is read again. Where all of it was given and the
member wants more, the next piece is read: so records of 1 MiB do not go out one by one."""
MOST_BYTES: Final = 8 * 1024 * 1024
"""Of all partitions together, in one answer: it is put together in memory. No fetch waits for more."""
RETRY_S: Final = 1.0
"""How long after a state could not be had, or a write of it was refused, a fetch that still waits asks for it again."""
MAX_TURNS: Final = 100
"""How often one fetch looks again because it found only what is not delivered."""


class FetchWish(NamedTuple):
    """What a member asks for."""

    group_id: str
    member_id: str
    wish: Wish
    max_wait_ms: int
    min_bytes: int
    max_bytes: int


Partitions: TypeAlias = Sequence[tuple[PartitionId, str]]
"""With their topics' names."""
Withheld: TypeAlias = Callable[[Partitions], Mapping[PartitionId, ErrorCode]]
"""Of which of them nothing may be given any more, and what is said of each."""


def everything_may_be_read(partitions: Partitions) -> Mapping[PartitionId, ErrorCode]:
    """Where there is no authorizer."""
    return {}


class Given(NamedTuple):
    """What a member gets of one partition. `records` are whole batches, around what was acquired: views of what was
    read, which nobody copies on their way into the socket."""

    partition: PartitionId
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    records: Sequence[memoryview] = ()
    acquired: Sequence[Acquired] = ()

    @property
    def size_bytes(self) -> int:
        """Of the records."""
        return sum(map(len, self.records))


class _Read(NamedTuple):
    """What was read of one partition; `ends`: where in `data` each batch ends."""

    led: LedShare
    partition: PartitionId
    data: memoryview
    batches: Sequence[LogBatch]
    ends: Sequence[int]

    def around(self, acquired: Sequence[Acquired]) -> memoryview:
        """The batches in which the acquired records are, and those between them."""
        first, last = acquired[0].first, acquired[-1].last
        begin = next(index for index, batch in enumerate(self.batches) if batch.last >= first)
        end = next((index for index, batch in enumerate(self.batches) if batch.last >= last), len(self.batches) - 1)
        return self.data[self.ends[begin - 1] if begin else 0 : self.ends[end]]


class _Wake(DelayedOperation[list[FetchOutcome]]):
    """Done as soon as anything that it waits for has moved."""

    __slots__ = ()

    def try_complete(self, changed: object) -> list[FetchOutcome]:
        return []

    def on_expiration(self) -> list[FetchOutcome]:
        return []


class _Finding:
    """The share-partitions of one fetch, which it has as soon as they are loaded (I5)."""

    def __init__(self, leaders: ShareLeaders, session: ShareSession, partitions: Partitions, now: float) -> None:
        self._leaders = leaders
        self._wanted = [
            (
                partition,
                ShareKey(session.group_id, partition.topic_id, partition.partition),
                topic,
                session.partitions.get(partition, now),
            )
            for partition, topic in partitions
        ]
        self._loading: dict[ShareKey, asyncio.Task[LedShare]] = {}
        self._failed: dict[ShareKey, float] = {}
        """Whose state cannot be had now, and when it is asked for again."""
        self._refused: dict[ShareKey, Given] = {}
        """Not looked for again by this fetch."""
        self._found: dict[ShareKey, LedShare] = {}
        """What the last look found."""

    @property
    def awaited(self) -> Sequence[ShareKey]:
        """What is being loaded."""
        return list(self._loading)

    @property
    def is_incomplete(self) -> bool:
        """Whether there may be more at the next look."""
        return bool(self._loading or self._failed)

    @property
    def again_at(self) -> float:
        """When to look again in any case."""
        return min(self._failed.values(), default=math.inf)

    def look(self, now: float) -> tuple[dict[PartitionId, LedShare], list[Given]]:
        """Those that are loaded, and those that are refused."""
        led: dict[PartitionId, LedShare] = {}
        for partition, key, topic, since in self._wanted:
            if key in self._refused:
                continue
            try:
                found = self._find(key, topic, since, now)
            except RequestError as refusal:
                self._refused[key] = Given(partition, ErrorCode(refusal.code), refusal.message or None)
            else:
                if found is not None:
                    led[partition] = found
        return led, list(self._refused.values())

    def _find(self, key: ShareKey, topic: str, since: float, now: float) -> LedShare | None:
        """None while it is not loaded. Raises `RequestError`."""
        if self._failed.get(key, now) > now:
            return None
        self._failed.pop(key, None)
        before = self._found.pop(key, None)
        if before is not None and before.is_refused:
            # Loaded anew at once, it might be refused anew at once, without an end.
            self._failed[key] = now + RETRY_S
            return None
        loading = self._loading.pop(key, None)
        try:
            if loading is not None and loading.done():
                _result_of(loading)
            found = self._leaders.find(key, topic, since)
        except RequestError as refusal:
            if refusal.code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
                raise
            # As while it is being loaded: at this error Java's consumer ends its application.
            self._failed[key] = now + RETRY_S
            return None
        if isinstance(found, LedShare):
            self._found[key] = found
            return found
        self._loading[key] = found
        return None


def _result_of(loading: asyncio.Task[LedShare]) -> LedShare:
    """Raises `RequestError`."""
    if loading.cancelled():  # The broker stops.
        raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return loading.result()


class ShareFetches:
    """Fetches of all members. `on_storage_error` takes the directory of a log that failed offline."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        replicas: ReplicaManager,
        leaders: ShareLeaders,
        on_storage_error: Callable[[StorageError], None],
    ) -> None:
        self._loop = loop
        self._replicas = replicas
        self._leaders = leaders
        self._on_storage_error = on_storage_error

    async def fetch(
        self,
        asked: FetchWish,
        partitions: Partitions,
        refusals: Mapping[PartitionId, ErrorCode],
        session: ShareSession,
        context: ConnectionContext,
        withheld: Withheld,
    ) -> list[Given]:
        """What the member gets, partitions with their topics' names in the order of their turn; at the latest when its
        time is over, or its session, or its connection. `refusals`: what is not looked for, and why."""
        began = self._loop.time()
        deadline = began + asked.max_wait_ms / 1000
        finding = _Finding(self._leaders, session, partitions, began)
        while True:
            led, refused = finding.look(self._loop.time())
            if session.is_over:
                return []
            for partition, error in withheld(partitions).items():
                led.pop(partition, None)
                refused.append(Given(partition, error))
            refused.extend(Given(partition, error) for partition, error in refusals.items())
            is_news = any(session.told.get(one.partition) is not one.error for one in refused)
            may_come = bool(led or finding.is_incomplete or refused)
            is_last = is_news or self._loop.time() >= deadline or not may_come
            given = self._look(asked, led, is_last=is_last)
            if gave := sum(bool(one.acquired) for one in given):
                took_ms = int((self._loop.time() - began) * 1000)
                self._leaders.counts.on_fetched(asked.group_id, gave, len(partitions), took_ms)
            if given or is_last:
                session.told = {one.partition: one.error for one in refused}
                return [*given, *refused]
            keys = [*(one.hosted for one in led.values()), *(one.key for one in led.values()), *finding.awaited]
            await self._wait(keys, min(deadline, finding.again_at), context)

    def _look(self, asked: FetchWish, led: Mapping[PartitionId, LedShare], *, is_last: bool) -> list[Given]:
        """What can be given now. Empty while more bytes are needed (I1)."""
        # Whole batches come, so a read of exactly min_bytes brings less.
        wanted = min(READ_BYTES + asked.min_bytes, MOST_BYTES)
        share_bytes = min(max(asked.max_bytes // max(len(led), 1), 1), wanted)
        reads: dict[PartitionId, _Read | Given] = {}
        for partition, one in led.items():
            read = self._read(asked, partition, one, share_bytes)
            if read is not None:
                reads[partition] = read
        failed = [read for read in reads.values() if isinstance(read, Given)]
        size_bytes = sum(len(read.data) for read in reads.values() if isinstance(read, _Read))
        if size_bytes < min(asked.min_bytes, MOST_BYTES - READ_BYTES) and not is_last and not failed:
            return []
        given: list[Given] = []
        left, left_bytes = asked.wish.max_records, min(asked.max_bytes, MOST_BYTES)
        for read in reads.values():
            if isinstance(read, _Read) and left > 0 and (left_bytes > 0 or not given):
                found = self._give_pieces(asked, read, share_bytes, left, left_bytes)
                if found is not None:
                    given.append(found)
                    left -= sum(piece.last - piece.first + 1 for piece in found.acquired)
                    left_bytes -= found.size_bytes
        return [*given, *failed]

    def _give_pieces(self, asked: FetchWish, read: _Read, share_bytes: int, left: int, left_bytes: int) -> Given | None:
        """What the member gets of one partition: more than one piece where there is room for more. What has failed
        often goes out alone."""
        limits = self._leaders.settings(asked.group_id).limits
        pieces: list[Given] = []
        piece: _Read | Given | None = read
        while isinstance(piece, _Read) and left > 0 and (left_bytes > 0 or not pieces):
            found = self._give(asked, piece, share_bytes, left)
            if found is None or found.error is not ErrorCode.NONE:
                return _joined(pieces, asked.wish) if pieces else found
            pieces.append(found)
            left -= sum(run.last - run.first + 1 for run in found.acquired)
            left_bytes -= found.size_bytes
            is_failing = found.acquired[-1].deliveries > isolation_from(limits.deliveries)
            if is_failing or read.led.records.next_is_failing(limits) or left_bytes <= 0:
                break
            piece = self._read_more(asked, read, share_bytes, left_bytes)
            if isinstance(piece, _Read) and piece.batches[0].first <= found.acquired[-1].last:
                break  # The rest of a batch.
        return _joined(pieces, asked.wish) if pieces else None

    def _give(self, asked: FetchWish, read: _Read, share_bytes: int, left: int) -> Given | None:
        """What the member gets of one piece; what holds only what is not delivered is passed over."""
        led = read.led
        limits = self._leaders.settings(asked.group_id).limits
        next_read: _Read | Given | None = read
        for _ in range(MAX_TURNS):
            if not isinstance(next_read, _Read):
                return next_read
            before = led.records.next_fetch_offset
            wish = asked.wish._replace(max_records=left)
            acquired = led.records.acquire(asked.member_id, next_read.batches, wish, self._leaders.now_ms(), limits)
            if acquired:
                self._leaders.watch(led)
                return Given(read.partition, records=[next_read.around(acquired)], acquired=acquired)
            if led.records.next_fetch_offset <= before:
                return None
            self._leaders.store_passed(led)
            next_read = self._read(asked, read.partition, led, share_bytes)
        return None

    def _read_more(self, asked: FetchWish, read: _Read, share_bytes: int, left_bytes: int) -> _Read | Given | None:
        """The next piece. A batch that is larger than a piece comes, too, as long as there is room for it."""
        sizes = dict.fromkeys((min(share_bytes, left_bytes), left_bytes))
        found = (self._read(asked, read.partition, read.led, size, is_more=True) for size in sizes)
        return next((piece for piece in found if piece is not None), None)

    def _read(
        self, asked: FetchWish, partition: PartitionId, led: LedShare, max_bytes: int, *, is_more: bool = False
    ) -> _Read | Given | None:
        """Whole batches from the next offset on that can be given; None if there are none, or none may be. The first
        batch may be larger than `max_bytes`, unless there is something to be given already (`is_more`)."""
        if led.is_dropped:  # Since it was found. What it gave out would be given out by another, too.
            return Given(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        settings = self._leaders.settings(asked.group_id)
        records, log = led.records, led.hosted.log
        records.archive_below(log.log_start_offset)
        offset = records.next_fetch_offset
        bound = log.last_stable_offset if settings.reads_committed else log.high_watermark
        if offset >= bound or not records.may_take_more(settings.limits):
            return None
        try:
            result = led.hosted.read(
                offset,
                max_bytes,
                current_leader_epoch=led.leader_epoch,
                read_committed=settings.reads_committed,
                min_one_batch=not is_more,
            )
            pieces = [chunk.tobytes() for chunk in result.chunks]
            data = memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces))
            aborted: list[tuple[Offset, int]] = []
            if settings.reads_committed:
                found = log.aborted_transactions(offset, result.next_offset)
                aborted = [(entry.first_offset, entry.producer_id) for entry in found]
            return _read_batches(led, partition, data, aborted)
        except StorageError as failure:
            self._on_storage_error(failure)
            return Given(partition, ErrorCode.KAFKA_STORAGE_ERROR)
        except OffsetOutOfRange:
            return Given(partition, ErrorCode.OFFSET_OUT_OF_RANGE)
        except (RecordsError, RequestError) as failure:
            return Given(partition, ErrorCode(failure.code))

    async def pause(self, max_wait_ms: int, context: ConnectionContext) -> None:
        """Waits for nothing, but until the client is gone at most."""
        await self._wait((), self._loop.time() + max_wait_ms / 1000, context)

    async def _wait(self, keys: Sequence[Hashable], until: float, context: ConnectionContext) -> None:
        """Until one of them may have something, the time is over, or the client is gone (I2)."""
        left_ms = int((until - self._loop.time()) * 1000) + 1
        waiting = _Wake(self._loop)
        self._replicas.fetch_purgatory.watch(waiting, keys, max(left_ms, 1))
        context.hold(waiting.answer)
        try:
            await waiting.answer
        except asyncio.CancelledError:
            self._replicas.fetch_purgatory.cancel(waiting)
            raise
        finally:
            context.release(waiting.answer)


def _joined(pieces: Sequence[Given], wish: Wish) -> Given:
    """Pieces of one partition, one behind the other, as one."""
    if len(pieces) == 1:
        return pieces[0]
    acquired = [run for piece in pieces for run in piece.acquired]
    records = [view for piece in pieces for view in piece.records]
    return Given(pieces[0].partition, records=records, acquired=told(acquired, wish.batch_size))


def _read_batches(
    led: LedShare, partition: PartitionId, data: memoryview, aborted: Sequence[tuple[Offset, int]]
) -> _Read | None:
    """The whole batches in `data`, those of aborted transactions marked (`aborted`: first offset, producer id)."""
    batches: list[LogBatch] = []
    ends: list[int] = []
    position = 0
    open_aborted: set[int] = set()
    to_come = sorted(aborted)
    for batch in iterate_batches(data):
        header = batch.header
        position += LENGTH_PREFIX_SIZE + header.batch_length
        while to_come and to_come[0][0] <= header.last_offset:
            open_aborted.add(to_come.pop(0)[1])
        is_aborted = False
        if open_aborted and header.attributes & TRANSACTIONAL_FLAG and header.producer_id in open_aborted:
            is_aborted = True
            if header.attributes & CONTROL_FLAG:
                marker = read_marker(batch)
                if marker is not None and marker.control_type is ControlType.ABORT:
                    open_aborted.discard(header.producer_id)
        batches.append(LogBatch(header.base_offset, header.last_offset, is_aborted))
        ends.append(position)
    return _Read(led, partition, data, batches, ends) if batches else None
