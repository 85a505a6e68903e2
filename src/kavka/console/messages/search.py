"""Messages: records of a topic to look at, found within bounds; the answer says what was searched.

Decides where reading begins and ends, which records a filter lets through, and when to stop. Must not know pages; how
bytes are shown is decoding's.

I1  A search ends after `SCAN_RECORDS`, `SCAN_BYTES` or `SCAN_S`, and says how far it came and where it goes on. With
    all that it asks the cluster for it takes `SEARCH_S` at most.
I2  Of each partition little more than `Query.limit` records are held, each cut to what is shown, and what is held of
    all was read within `SCAN_BYTES`: a topic of large records does not fill memory.
I3  What a mask covers is gone before a filter looks (masking.py): all that is read passes `_seen`. Only `chosen` gives
    the record itself beside it, to be written and not to be shown.
I4  Nothing is committed and no group is joined: looking leaves no trace in the cluster.

Newest first is read backwards in windows that grow; the others are read on from where they begin.
"""

from __future__ import annotations

import asyncio
import heapq
import time
import zlib
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from typing import NamedTuple

from kavka.client.cluster import Cluster
from kavka.client.consumer import Consumer, ConsumerRecord
from kavka.client.offsets import EARLIEST, LATEST, list_offsets
from kavka.client.partitioner import partition_for_key
from kavka.client.settings import ConsumerSettings, OffsetReset
from kavka.console.access.turns import Turns
from kavka.console.masks import TopicMask
from kavka.console.messages.apart import Apart
from kavka.console.messages.columns import cells
from kavka.console.messages.decoding import Decoded, Format, decode, field, schema_id
from kavka.console.messages.expression import Expression, FieldNames
from kavka.console.messages.masking import Seen, seen
from kavka.errors import ConnectionFailed, ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.schema_registry.client import SchemaRegistry
from kavka.schema_registry.formats import Schema

SCAN_RECORDS = 20_000
SCAN_BYTES = 64 * 1024 * 1024
SCAN_S = 10.0
MOST_SHOWN = 200
FIRST_WINDOW = 16
"""Offsets of each partition that are read first, from the end backwards: so few that also the largest records of one
partition are read within SCAN_BYTES, and a search that goes on gets on."""
WINDOW_GROWTH = 4
FETCH_BYTES = 256 * 1024
"""Of one partition in one fetch: a look at the newest records reads no megabytes."""
POLL_RECORDS = 500
POLL_MS = 500
SEARCH_S = 30.0
"""From its turn to its end, with a cluster that answers slowly or not at all."""
SEARCHES_AT_ONCE = 4
CHOSEN_BYTES = 16 * 1024 * 1024
"""Of records that are copied at a time."""
MASK_SLICE_S = 0.05
"""After so much work on masks others have a turn."""
TAIL_PER_S = 20
"""Records that a live tail shows in a second; more are counted."""


class Start(Enum):
    NEWEST = "newest"
    OLDEST = "oldest"
    OFFSET = "offset"
    TIME = "time"


class Filters(NamedTuple):
    """Texts that have to be in a record, '' for any. header: name, or name=text. path: a.b=text in a decoded value.
    key_is: the whole key. expression: what has to be true of it (expression.py)."""

    key: str = ""
    value: str = ""
    header: str = ""
    path: str = ""
    key_is: str = ""
    expression: Expression | None = None


class Query(NamedTuple):
    """What to look for. `mask`: what of the topic's messages is masked for who asks. `number` is the offset, or the
    time in ms; `until_ms` bounds the records' times, 0 for none; `resume`: where to go on, by partition, instead of at
    the start; newest first it is the offset to go on below.
    guess: where a key is asked for, only the partitions are read into which clients put it (`partitions_of_key`).
    whole: records are held whole, too, to be exported.
    columns: fields that have a column of their own (columns.py).
    upto: for what is not read newest first, by partition the offset before which it ends; of partitions that it does
    not name nothing is read. With `resume` it bounds a search to what another has looked at."""

    topic: str
    mask: TopicMask | None
    start: Start = Start.NEWEST
    number: int = 0
    until_ms: int = 0
    partitions: tuple[int, ...] = ()
    filters: Filters = Filters()
    limit: int = 50
    key_format: Format = Format.AUTO
    value_format: Format = Format.AUTO
    read_committed: bool = False
    resume: Mapping[int, int] = {}
    guess: bool = False
    whole: bool = False
    columns: tuple[str, ...] = ()
    upto: Mapping[int, int] = {}


class Message(NamedTuple):
    """A record as it is shown."""

    partition: int
    offset: int
    timestamp_ms: int
    key: Decoded
    value: Decoded
    headers: tuple[tuple[str, Decoded], ...]
    leader_epoch: int
    record: ConsumerRecord | None = None
    """As it may be seen, whole, where the search was asked for it."""
    unread: tuple[str, ...] = ()
    """key or value, where it is hidden because it was not understood (masking.py)."""
    cells: tuple[str, ...] = ()
    """What stands in `Query.columns`."""


class Chosen(NamedTuple):
    """A record that is to be written elsewhere: as it is, for that alone, and as it may be seen."""

    record: ConsumerRecord
    seen: Seen


class Range(NamedTuple):
    """Of one partition: the log, and what of it was looked at, [start, end)."""

    log_start: int
    log_end: int
    looked_from: int
    looked_to: int


class Found(NamedTuple):
    """What a search found. stopped: limit, end, records, bytes or time. resume: where it goes on, {} at the end.
    scanned_bytes: as the cluster sent them. Of one record they tell how long it is beneath a mask: not for whom
    something is masked."""

    messages: list[Message]
    ranges: dict[int, Range]
    scanned_records: int
    scanned_bytes: int
    took_s: float
    stopped: str
    resume: dict[int, int]


class Budget:
    """What a search may still read, and so how far it is: `found` counts the records that it would show."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.began = time.monotonic()
        self.records = 0
        self.bytes = 0
        self.found = 0

    def took(self, record: ConsumerRecord, *, is_wanted: bool = True) -> None:
        """is_wanted: False for what only came along, in a batch with others."""
        self.records += is_wanted
        self.bytes += len(record.key or b"") + len(record.value or b"") + 50

    @property
    def left(self) -> int:
        """How many records more, if they are as large as those before: a larger window would be read in vain."""
        of_size = max(self.bytes // max(self.records, 1), 1)
        return max(min(SCAN_RECORDS - self.records, (SCAN_BYTES - self.bytes) // of_size), 0)

    def used_up(self) -> str:
        if self.records >= SCAN_RECORDS:
            return "records"
        if self.bytes >= SCAN_BYTES:
            return "bytes"
        return "time" if time.monotonic() - self.began >= SCAN_S else ""


class Messages:
    """Records of one cluster, decoded with its schema registry if it has one."""

    def __init__(self, cluster: Cluster, registry: SchemaRegistry | None = None, *, apart: Apart | None = None) -> None:
        """apart: where expressions are worked out, one for all clusters of a console."""
        self._cluster = cluster
        self._registry = registry
        self._apart = Apart() if apart is None else apart
        self._turns = Turns(SEARCHES_AT_ONCE)
        self._names: dict[TopicMask | None, FieldNames] = {}
        self._slice_s = 0.0
        """Spent on masks since others had a turn."""

    def names_of(self, topic: str, mask: TopicMask | None) -> list[str]:
        """Of fields, as searches saw them that had this mask."""
        names = self._names.get(mask)
        return [] if names is None else names.of(topic)

    async def search(self, query: Query, visitor: str, budget: Budget | None = None) -> Found:
        """`budget` shows how far it is. Raises RequestError where there is no such topic or partition,
        ConnectionFailed, TooBusy."""
        async with self._turns.turn(visitor), _in_time():
            budget = Budget() if budget is None else budget
            budget.restart()
            places = await self._places(query)
            starts = {
                p: at.offset for p, at in (await list_offsets(self._cluster, dict.fromkeys(places, EARLIEST))).items()
            }
            ends = await list_offsets(self._cluster, dict.fromkeys(places, LATEST), read_committed=query.read_committed)
            logs = {place: (starts[place], ends[place].offset) for place in places}
            if query.start is Start.NEWEST:
                return await self._newest(query, logs, budget)
            return await self._onward(query, logs, budget)

    async def one(self, place: TopicPartition, offset: int, visitor: str, *, mask: TopicMask | None) -> Seen | None:
        """The record at an offset, whole; None where there is none. Raises as `search` does."""
        async with self._turns.turn(visitor), _in_time():
            found = await self._one(place, offset)
            return None if found is None else await self._seen(found, mask)

    async def chosen(
        self, topic: str, places: Sequence[tuple[int, int]], visitor: str, *, mask: TopicMask | None
    ) -> list[Chosen]:
        """The records at these (partition, offset), in this order. Raises LookupError with the place of one that is not
        there, OverflowError where they hold more than CHOSEN_BYTES, and as `search` does."""
        async with self._turns.turn(visitor), _in_time():
            found: dict[tuple[int, int], Chosen] = {}
            left = CHOSEN_BYTES
            for partition in sorted({partition for partition, _ in places}):
                wanted = sorted(offset for each, offset in places if each == partition)
                for record in await self._read_at(TopicPartition(topic, partition), wanted):
                    left -= (
                        len(record.key or b"")
                        + len(record.value or b"")
                        + sum(len(v or b"") for _, v in record.headers)
                    )
                    if left < 0:
                        raise OverflowError(f"these records hold more than {CHOSEN_BYTES:,} bytes: choose fewer")
                    found[partition, record.offset] = Chosen(record, await self._seen(record, mask))
            return [found[place] for place in places]

    async def _read_at(self, place: TopicPartition, wanted: Sequence[int]) -> list[ConsumerRecord]:
        """wanted: offsets in order. Raises LookupError."""
        metadata = await self._cluster.topic(place.topic)
        if place.partition >= len(metadata.partitions):
            raise LookupError(f"{place} @ {wanted[0]}")
        start = (await list_offsets(self._cluster, {place: EARLIEST}))[place].offset
        end = (await list_offsets(self._cluster, {place: LATEST}))[place].offset
        gone = [offset for offset in wanted if not start <= offset < end]
        if gone:
            raise LookupError(f"{place} @ {gone[0]}")
        consumer = Consumer(self._cluster, _settings(read_committed=False))
        found: list[ConsumerRecord] = []
        try:
            consumer.assign([place], offsets={place: wanted[0]})
            while len(found) < len(wanted):
                following = wanted[len(found)]
                if following > consumer.position(place) + POLL_RECORDS:
                    consumer.seek(place, following)
                for record in await consumer.poll(max_records=POLL_RECORDS, timeout_ms=POLL_MS):
                    if len(found) < len(wanted) and record.offset == wanted[len(found)]:
                        found.append(record)
                if len(found) < len(wanted) and consumer.position(place) > wanted[len(found)]:
                    raise LookupError(f"{place} @ {wanted[len(found)]}")
            return found
        finally:
            await consumer.close()

    async def _one(self, place: TopicPartition, offset: int) -> ConsumerRecord | None:
        metadata = await self._cluster.topic(place.topic)
        if place.partition >= len(metadata.partitions):
            return None
        starts = await list_offsets(self._cluster, {place: EARLIEST})
        ends = await list_offsets(self._cluster, {place: LATEST})
        if not starts[place].offset <= offset < ends[place].offset:
            return None
        consumer = Consumer(self._cluster, _settings(read_committed=False))
        try:
            consumer.assign([place], offsets={place: offset})
            deadline = time.monotonic() + SCAN_S
            while time.monotonic() < deadline:
                for record in await consumer.poll(max_records=1, timeout_ms=POLL_MS):
                    return record if record.offset == offset else None
        finally:
            await consumer.close()
        return None

    async def tail(self, query: Query) -> AsyncIterator[Message | int]:
        """New records as they come; a number says how many were left out because they came too fast. Without end."""
        consumer = Consumer(self._cluster, _settings(read_committed=query.read_committed))
        try:
            consumer.assign(await self._places(query))
            await consumer.seek_to_end()
            second, shown, left_out = 0, 0, 0
            while True:
                for record in await consumer.poll(max_records=POLL_RECORDS, timeout_ms=POLL_MS):
                    if int(time.monotonic()) != second:
                        second, shown = int(time.monotonic()), 0
                    message = await self._matching(record, query)
                    if message is None:
                        continue
                    shown += 1
                    if shown > TAIL_PER_S:
                        left_out += 1
                        continue
                    yield message
                if left_out:
                    yield left_out
                    left_out = 0
        finally:
            await consumer.close()

    # --------------------------------------------------------------------------------------------------------- reading

    async def _newest(self, query: Query, logs: Mapping[TopicPartition, tuple[int, int]], budget: Budget) -> Found:
        begin = {
            place: min(max(query.resume.get(place.partition, start if query.resume else end), start), end)
            for place, (start, end) in logs.items()
        }
        high, matched = dict(begin), dict[TopicPartition, list[Message]]()
        window = max(min(FIRST_WINDOW, SCAN_RECORDS // max(len(logs), 1)), 1)
        stopped = ""
        while not stopped:
            low = {place: max(logs[place][0], offset - window) for place, offset in high.items()}
            todo = {place: (low[place], high[place]) for place in high if low[place] < high[place]}
            if not todo:
                stopped = "end"
                break
            found, reached = await self._window(query, todo, budget)
            for place in todo:
                # Of a window that was not read to its end nothing counts: it has been read from below, and above it
                # there would be a hole.
                if reached[place] >= high[place]:
                    matched.setdefault(place, []).extend(reversed(found.get(place, ())))
                    high[place] = low[place]
            stopped = budget.used_up()
            if stopped and high == begin and window > 1:
                # Of records so large that not even the first window was read to its end it takes one at a time.
                window, stopped = 1, ""
                budget.restart()
                continue
            budget.found = sum(map(len, matched.values()))
            if budget.found >= query.limit:
                stopped = stopped or "limit"
            window = max(min(window * WINDOW_GROWTH, budget.left // len(todo)), 1)
        shown, left = _newest_first(matched, query.limit)
        at = {place: left.get(place, high[place]) for place in logs}
        is_over = all(at[place] <= logs[place][0] for place in logs)
        return Found(
            shown,
            {place.partition: Range(*logs[place], at[place], begin[place]) for place in sorted(logs)},
            budget.records,
            budget.bytes,
            time.monotonic() - budget.began,
            "end" if is_over else stopped,
            {} if is_over else {place.partition: at[place] for place in sorted(logs)},
        )

    async def _window(
        self, query: Query, todo: Mapping[TopicPartition, tuple[int, int]], budget: Budget
    ) -> tuple[dict[TopicPartition, deque[Message]], dict[TopicPartition, int]]:
        """Of each of these ranges the newest that match, one more than are wanted; and how far each was read."""
        consumer = Consumer(self._cluster, _settings(read_committed=query.read_committed))
        matched: dict[TopicPartition, deque[Message]] = {}
        try:
            consumer.assign(todo, offsets={place: first for place, (first, _) in todo.items()})
            waiting = set(todo)
            while waiting and not budget.used_up():
                for record in await consumer.poll(max_records=POLL_RECORDS, timeout_ms=POLL_MS):
                    place = TopicPartition(record.topic, record.partition)
                    is_wanted = record.offset < todo[place][1]
                    budget.took(record, is_wanted=is_wanted)
                    if is_wanted:
                        message = await self._matching(record, query)
                        if message is not None:
                            matched.setdefault(place, deque(maxlen=query.limit + 1)).append(message)
                done = {place for place in waiting if consumer.position(place) >= todo[place][1]}
                consumer.pause(done)
                waiting -= done
                await asyncio.sleep(0)
            return matched, {place: consumer.position(place) for place in todo}
        finally:
            await consumer.close()

    async def _onward(self, query: Query, logs: Mapping[TopicPartition, tuple[int, int]], budget: Budget) -> Found:
        begin = await self._begin(query, logs)
        at = dict(begin)
        ends = {place: end for place, (_, end) in logs.items()}
        if query.upto:
            ends = {place: min(query.upto.get(place.partition, begin[place]), end) for place, end in ends.items()}
        found: list[Message] = []
        stopped = ""
        consumer = Consumer(self._cluster, _settings(read_committed=query.read_committed))
        try:
            waiting = {place for place in begin if begin[place] < ends[place]}
            consumer.assign(waiting, offsets={place: begin[place] for place in waiting})
            while waiting and not stopped:
                for record in await consumer.poll(max_records=POLL_RECORDS, timeout_ms=POLL_MS):
                    budget.took(record)
                    place = TopicPartition(record.topic, record.partition)
                    if record.offset >= ends[place]:
                        continue
                    at[place] = record.offset + 1
                    message = await self._matching(record, query)
                    if message is not None:
                        found.append(message)
                        budget.found = len(found)
                        if len(found) >= query.limit:
                            stopped = "limit"
                            break
                if not stopped:
                    for place in list(waiting):
                        at[place] = max(at[place], min(consumer.position(place), ends[place]))
                        if at[place] >= ends[place]:
                            waiting.discard(place)
                            consumer.pause([place])
                    stopped = budget.used_up() if waiting else "end"
                await asyncio.sleep(0)
        finally:
            await consumer.close()
        ranges = {place.partition: Range(*logs[place], begin[place], at[place]) for place in sorted(logs)}
        left = {place.partition: at[place] for place in sorted(logs)}
        is_over = all(at[place] >= ends[place] for place in logs)
        return Found(
            _oldest_first(found),
            ranges,
            budget.records,
            budget.bytes,
            time.monotonic() - budget.began,
            stopped or "end",
            {} if is_over else left,
        )

    async def _begin(self, query: Query, logs: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, int]:
        wanted: Mapping[TopicPartition, int]
        if query.resume:
            wanted = {place: query.resume.get(place.partition, logs[place][1]) for place in logs}
        elif query.start is Start.OFFSET:
            wanted = dict.fromkeys(logs, query.number)
        elif query.start is Start.TIME:
            found = await list_offsets(self._cluster, dict.fromkeys(logs, query.number))
            wanted = {place: at.offset if at.offset >= 0 else logs[place][1] for place, at in found.items()}
        else:
            wanted = {place: start for place, (start, _) in logs.items()}
        return {place: min(max(offset, logs[place][0]), logs[place][1]) for place, offset in wanted.items()}

    async def _places(self, query: Query) -> list[TopicPartition]:
        topic = await self._cluster.topic(query.topic)
        there = [each.partition for each in topic.partitions]
        wrong = [number for number in query.partitions if number not in there]
        if wrong:
            raise RequestError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {query.topic} has no partition {wrong[0]}: it has 0 to {len(there) - 1}",
            )
        chosen = sorted(query.partitions) or there
        if query.guess and query.filters.key_is and not query.partitions:
            chosen = sorted(partitions_of_key(query.filters.key_is.encode("utf-8", "surrogatepass"), len(there)))
        return [TopicPartition(query.topic, number) for number in chosen]

    # -------------------------------------------------------------------------------------------------------- matching

    async def _matching(self, record: ConsumerRecord, query: Query) -> Message | None:
        """The record as it is shown, if it is one that is looked for."""
        if query.until_ms and record.timestamp_ms > query.until_ms:
            return None
        record, unread = await self._seen(record, query.mask)
        filters = query.filters
        if filters.key_is and record.key != filters.key_is.encode("utf-8", "surrogatepass"):
            return None
        if filters.header and not _has_header(record, filters.header):
            return None
        key = await self.decoded(record.key, query.key_format)
        if filters.key and not _has(record.key, key, filters.key):
            return None
        value = await self.decoded(record.value, query.value_format)
        if filters.value and not _has(record.value, value, filters.value):
            return None
        if filters.path and not _has_field(value, filters.path):
            return None
        names = self._names.setdefault(query.mask, FieldNames())
        names.take(query.topic, "key", key.value)
        names.take(query.topic, "value", value.value)
        if filters.expression is not None and not await filters.expression.matches(record, key, value, self._apart):
            return None
        headers = tuple(
            (decode(name.encode("utf-8", "surrogatepass")).text, decode(each)) for name, each in record.headers
        )
        # What was decoded for the filter alone is not held.
        return Message(
            record.partition,
            record.offset,
            record.timestamp_ms,
            key._replace(value=None),
            value._replace(value=None),
            headers,
            record.leader_epoch,
            record if query.whole else None,
            unread,
            cells(query.columns, key, value, record.headers),
        )

    async def _seen(self, record: ConsumerRecord, mask: TopicMask | None) -> Seen:
        """The record as it may be seen by who asks."""
        if mask is None:
            return Seen(record)
        key = await self._schema_of(record.key) if mask.touches("key") else None
        value = await self._schema_of(record.value) if mask.touches("value") else None
        began = time.perf_counter()
        found = seen(record, mask, key=key, value=value)
        self._slice_s += time.perf_counter() - began
        if self._slice_s > MASK_SLICE_S:
            self._slice_s = 0.0
            await asyncio.sleep(0)
        return found

    async def _schema_of(self, data: bytes | None) -> Schema | None:
        number = schema_id(data)
        if number is None or self._registry is None:
            return None
        found = await self._registry.schema(number)
        return found if isinstance(found, Schema) else None

    async def decoded(self, data: bytes | None, form: Format) -> Decoded:
        """With the schema that the bytes name, if there is a registry that knows it."""
        number = schema_id(data) if form is Format.AUTO and self._registry is not None else None
        if number is None or self._registry is None:
            return decode(data, form)
        schema = await self._registry.schema(number)
        if isinstance(schema, Schema):
            return decode(data, form, schema=schema)
        return decode(data, form)._replace(problem=schema)


def partitions_of_key(key: bytes, count: int) -> set[int]:
    """Where clients put a key by default: Java's and most others by murmur2, librdkafka and its bindings by CRC-32."""
    return {partition_for_key(key, count), zlib.crc32(key) % count}


@asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    """Raises ConnectionFailed after SEARCH_S."""
    bound = asyncio.timeout(SEARCH_S)
    try:
        async with bound:
            yield
    except TimeoutError:
        if not bound.expired():
            raise
        seconds = f"{SEARCH_S:g}"
        raise ConnectionFailed(f"the cluster did not answer within {seconds} s") from None


def _newest_first(
    matched: Mapping[TopicPartition, Sequence[Message]], limit: int
) -> tuple[list[Message], dict[TopicPartition, int]]:
    """At most `limit` of them, the newest first; and of each partition with more, the offset after the next one.

    Each partition comes in its own order, by offset, so that a search can go on where it was cut: of all that are next
    the one with the latest time is taken, whatever times stand behind it.
    """
    shown: list[Message] = []
    at = dict.fromkeys(matched, 0)
    while len(shown) < limit:
        following = [matched[place][taken] for place, taken in at.items() if taken < len(matched[place])]
        if not following:
            break
        newest = max(following, key=lambda message: (message.timestamp_ms, message.offset, message.partition))
        shown.append(newest)
        at[next(place for place in at if place.partition == newest.partition)] += 1
    return shown, {
        place: matched[place][taken].offset + 1 for place, taken in at.items() if taken < len(matched[place])
    }


def _oldest_first(found: Sequence[Message]) -> list[Message]:
    """By time, each partition in its own order whatever times stand in it: always the same for the same records."""
    of: dict[int, list[Message]] = {}
    for message in found:
        of.setdefault(message.partition, []).append(message)
    return list(heapq.merge(*(of[number] for number in sorted(of)), key=lambda message: message.timestamp_ms))


def _has(data: bytes | None, shown: Decoded, text: str) -> bool:
    """Looks in the bytes themselves too: what is shown may be cut, or laid out anew."""
    return (data is not None and text.encode("utf-8", "surrogatepass") in data) or text.lower() in shown.text.lower()


def _has_header(record: ConsumerRecord, wanted: str) -> bool:
    name, equals, text = wanted.partition("=")
    return any(
        each == name and (not equals or text.encode("utf-8", "surrogatepass") in (value or b""))
        for each, value in record.headers
    )


def _has_field(shown: Decoded, wanted: str) -> bool:
    path, equals, text = wanted.partition("=")
    value = field(shown.value, path.strip())
    if not equals:
        return value is not None
    said = {True: "true", False: "false", None: "null"}.get(value) if isinstance(value, (bool, type(None))) else value
    return str(said) == text.strip()


def _settings(*, read_committed: bool) -> ConsumerSettings:
    return ConsumerSettings(
        auto_offset_reset=OffsetReset.EARLIEST,
        read_committed=read_committed,
        max_partition_fetch_bytes=FETCH_BYTES,
        fetch_max_bytes=SCAN_BYTES // 8,
        max_buffered_bytes=SCAN_BYTES // 8,
        enable_auto_commit=False,
    )
