"""KavkaStreamReader: topics as a stream; what a micro-batch reads, and what is told of it.

Decides how far the next micro-batch goes: to the end of every partition, or less where options limit it; when one is
put off; what partitions are new, gone, or of another topic. It must not know how a range is read (`reader`).

Spark keeps one of these in one Python process for a query's life, and sends copies of it to the workers for `read`.

Invariants
  I1  `partitions` is a function of start, end, options and cores alone: a micro-batch that is run again, in another
      process too, has the same rows. With as many cores they are in the same tasks; for the exactly-once sink `stable`
      sees to that. So a partition that is not in `start` begins at 0, whatever its log still holds: what is missing is
      data loss, found where it is read.
  I2  No position goes back, unless the topic is another one with the same name, or its log was cut off and the options
      say to go on: what is written there then is new.
  I3  Under Trigger.AvailableNow nothing behind the target is read; the target is what was there when the run began.
  I4  What is committed to the group is the start of a micro-batch that is being planned: all before it is finished, in
      a run that ends as well as after a restart.
  I5  The first micro-batch has the same rows when it is run again after a restart: its end says where the stream began
      (`offsets`, I2).

Source: pyspark.sql.datasource; Spark's "kafka" source for the meaning of the options.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from kavka.client.group_admin import GroupAdmin
from kavka.client.offsets import LATEST
from kavka.errors import ConnectionFailed, RequestError
from kavka.logger import Logger
from kavka.model import TopicPartition
from kavka_spark import backfill
from kavka_spark.backfill import Ranges
from kavka_spark.connections import WorkerConnection, connection
from kavka_spark.cores import task_slots
from kavka_spark.errors import DataLossError, SubscriptionError
from kavka_spark.jvm_sockets import Acknowledging
from kavka_spark.offsets import Found, Offsets, edges, find_partitions, offsets_at, resolve
from kavka_spark.plain_errors import with_plain_errors
from kavka_spark.read_tasks import NO_TOPIC_ID, OffsetRange, as_tasks
from kavka_spark.source import read_task
from kavka_spark.source_options import (
    Assign,
    AtOffsets,
    AtTimestamps,
    Backfill,
    Bound,
    SourceOptions,
    Subscribe,
    SubscribePattern,
)
from kavka_spark.trigger_limits import limit_bytes, limit_rows, sample_ranges

if TYPE_CHECKING:
    import pyarrow as pa

logger = Logger(__name__)

COMMIT_TIMEOUT_S = 5.0
"""How long a micro-batch waits for the group's coordinator; what is not committed then goes with the next one."""
ASK_AGAIN_S = 0.1
"""The pause between two looks for a partition that was there."""
_SOME_LIMIT = 1 << 62
OWN: Final = -1
"""What the stream itself reads of a partition, among ranges by their first offsets."""

Json = dict[str, dict[str, Any]]


@with_plain_errors
class KavkaStreamReader(Acknowledging, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The source of one streaming query."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._target: Offsets | None = None
        """Under Trigger.AvailableNow: where this run ends."""
        self._latest: Offsets | None = None
        self._earliest: dict[TopicPartition, int] = {}
        self._held_back_since: float | None = None
        """When there last were `min_offsets` or the delay was over, on the monotonic clock; None before the first
        micro-batch, which waits for nothing, as with Spark's source."""
        self._committed: Json | None = None
        self._began_at: Offsets | None = None
        """What `initialOffset` said, if Spark asked for it."""
        self._to_fill_in = options.backfill
        """What is still to be taken on of the options' ranges."""

    def initialOffset(self) -> Json:
        opened = self._opened()
        self._began_at = opened.run(self._initial(opened))
        return self._json(self._began_at)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark gives it back to `latestOffset`, or asks for all: it says only whether the options' limits count."""
        options = self._options
        limited = options.max_offsets or options.min_offsets or options.max_bytes
        return ReadMaxRows(options.max_offsets or _SOME_LIMIT) if limited else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        opened = self._opened()
        self._target = opened.run(self._current(opened, None))

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        opened = self._opened()
        return self._json(opened.run(self._next(opened, start, limited=not isinstance(limit, ReadAllAvailable))))

    def reportLatestOffset(self) -> Json | None:
        """The ends of the log as of the last `latestOffset`."""
        return None if self._latest is None else self._latest.to_json(with_ids=False)

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """See I1 and I5."""
        ends = _of_checkpoint(end)
        begins = ends.began_at or _of_checkpoint(start)
        spans = []
        for name, last in sorted(ends.positions.items()):
            first = 0 if _is_new(name, begins, ends) else begins.positions[name]
            topic_id = ends.topic_ids.get(name.topic, NO_TOPIC_ID)
            spans.append(OffsetRange(name.topic, name.partition, first, last, topic_id))
        for name, first, last in backfill.read_between(begins.ranges, ends.ranges):
            topic_id = ends.topic_ids.get(name.topic, NO_TOPIC_ID)
            spans.append(OffsetRange(name.topic, name.partition, first, last, topic_id))
        options = self._options
        return list(
            as_tasks(
                spans,
                cores=task_slots(),
                min_partitions=options.min_partitions,
                max_records=options.max_records_per_partition,
            )
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self._options, self._columns, partition)

    def commit(self, end: Json) -> None:
        if self._options.group_id is not None:
            opened = self._opened()
            opened.run(self._commit(opened, end))

    def stop(self) -> None:
        """Does nothing: the connections belong to the process, which ends with the query."""

    def _opened(self) -> WorkerConnection:
        return connection(self._options.connection, begins=True)

    def _json(self, offsets: Offsets) -> Json:
        return offsets.to_json(with_ids=self._options.topic_ids)

    async def _initial(self, opened: WorkerConnection) -> Offsets:
        """Where a query without a checkpoint begins."""
        options = self._options
        found = await find_partitions(opened.cluster, options.topics)
        if found.missing:
            raise SubscriptionError(f"there is no topic {', '.join(map(repr, found.missing))}")
        within = await edges(opened.cluster, found.partitions, read_committed=options.read_committed)
        positions = await resolve(
            opened.cluster,
            options.starting,
            within,
            side="starting",
            read_committed=options.read_committed,
            latest_where_no_timestamp=options.latest_where_no_timestamp,
        )
        for name, position in positions.items():
            earliest, latest = within.earliest[name], within.latest[name]
            if not earliest <= position <= latest:
                self._on_loss(name, position, earliest, latest, "startingOffsets names it")
                positions[name] = min(max(position, earliest), latest)
        return Offsets(positions, found.topic_ids)

    async def _next(self, opened: WorkerConnection, start: Json, *, limited: bool) -> Offsets:
        """Where the next micro-batch ends; `start` itself if there should be none yet."""
        begin = _of_checkpoint(start)
        self._check_topics(begin)
        if self._options.group_id is not None:
            await self._commit(opened, start)
        self._latest = await self._current(opened, begin)
        end = self._latest if self._target is None else _not_beyond(self._latest, self._target, begin)
        began_at = self._began_at
        is_first = began_at is not None and begin.positions == began_at.positions
        first = _first_offsets(begin, end, began_at if is_first else None)
        end = end._replace(first=first, ranges=await self._ranges(opened, begin, end, first))
        if limited:
            end = await self._limit(opened, begin, end)
        if end is begin:
            return begin
        # A topic's id, once known, stays in the offsets while the topic is missing: it may come back as another.
        end = end._replace(topic_ids={**begin.topic_ids, **end.topic_ids})
        before = (begin.positions, begin.topic_ids, backfill.joined(begin.ranges))
        if (end.positions, end.topic_ids, end.ranges) == before:
            return begin
        return end._replace(began_at=began_at if is_first else None)

    async def _ranges(
        self, opened: WorkerConnection, begin: Offsets, end: Offsets, first: Mapping[TopicPartition, int]
    ) -> Ranges:
        """The ranges before the stream's beginning, read whole: those of the checkpoint, and those of the options."""
        there = {
            name: ranges
            for name, ranges in backfill.joined(begin.ranges).items()
            if not _is_new(name, begin, end) and name in end.positions
        }
        if self._to_fill_in is not None:
            wanted = await self._wanted(opened, self._to_fill_in, end, first)
            there = backfill.added(there, wanted, first)
            self._to_fill_in = None
        return backfill.whole(there)

    async def _wanted(
        self, opened: WorkerConnection, asked: Backfill, end: Offsets, first: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[int, int]]:
        """The options' ranges in offsets. Raises `DataLossError` for offsets that the log no longer holds."""
        names = [name for name in end.positions if name in self._earliest]
        since = await self._edge_of_backfill(opened, asked.since, names)
        until = {} if asked.to is None else await self._edge_of_backfill(opened, asked.to, names)
        wanted = {}
        for name, start in since.items():
            last = first.get(name) if asked.to is None else until.get(name, first.get(name))
            if last is None:
                last = end.positions[name]  # It is refused: nobody knows where the stream began.
            if start < min(self._earliest[name], last):
                reason = "retention or a deletion of records has removed it"
                self._on_loss(name, start, self._earliest[name], end.positions[name], reason)
                start = min(self._earliest[name], last)
            # Where a time is behind the beginning there is nothing to fill in; offsets that are, are a mistake.
            wanted[name] = (start if isinstance(asked.since, AtOffsets) else min(start, last), last)
        return wanted

    async def _edge_of_backfill(
        self, opened: WorkerConnection, bound: Bound, names: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Partitions that offsets leave out are left out, and so are those without a record as late as a time."""
        known = list(names)
        match bound:
            case AtOffsets(offsets):
                if strange := sorted(set(offsets).difference(known)):
                    raise SubscriptionError(f"the backfill names {strange[0]}, which the stream does not read")
                return dict(offsets)
            case AtTimestamps(_, int(time_ms)):
                found = await offsets_at(opened.cluster, dict.fromkeys(known, time_ms), read_committed=False)
                return {name: offset for name, offset in found.items() if offset >= 0}
            case _:
                return {name: self._earliest[name] for name in known}

    async def _current(self, opened: WorkerConnection, begin: Offsets | None) -> Offsets:
        """The ends of all partitions now, none before `begin`. Lost records are reported or skipped."""
        options, cluster = self._options, opened.cluster
        known = [] if begin is None else [name for name in begin.positions if _is_chosen(options, name)]
        # Both questions at once: partitions are rarely new, and a topic that is gone shows in what is found.
        asking = asyncio.ensure_future(edges(cluster, known, read_committed=options.read_committed))
        earliest: dict[TopicPartition, int] = {}
        latest: dict[TopicPartition, int] = {}
        try:
            found = await self._found(opened, begin, known)
            now = Offsets({}, found.topic_ids)
            # Of a topic that was made anew meanwhile the answer may be about the former one.
            is_same = begin is not None and not any(_is_new(name, begin, now) for name in known)
            if begin is not None and is_same and not set(known).difference(found.partitions):
                earliest, latest = await asking
                latest = await self._ends_not_before(opened, begin, latest)
        finally:
            asking.cancel()
        unasked = [name for name in found.partitions if name not in latest]
        more_earliest, more_latest = await edges(cluster, unasked, read_committed=options.read_committed)
        earliest, latest = {**earliest, **more_earliest}, {**latest, **more_latest}
        self._earliest = earliest
        positions = {name: latest[name] for name in found.partitions}
        if begin is not None:
            self._compare(begin, Offsets(positions, found.topic_ids), earliest)
            for name, position in begin.positions.items():
                # What the topic made anew does not have may come later, and is to be read from its beginning then.
                if _is_chosen(options, name) and not _is_new(name, begin, Offsets({}, found.topic_ids)):
                    positions.setdefault(name, position)
        return Offsets(positions, found.topic_ids)

    async def _found(self, opened: WorkerConnection, begin: Offsets | None, known: Iterable[TopicPartition]) -> Found:
        """What there is now. A known partition counts as gone once all brokers have had time to hear of it: the one
        that answers may know less than the one that answered before."""
        cluster, now = opened.cluster, asyncio.get_running_loop().time
        deadline = now() + cluster.settings.topic_propagation_ms / 1000
        while True:
            # What is not found for the target of a run is left out of the whole run; later only a look at it is.
            found = await find_partitions(cluster, self._options.topics, patient=begin is None)
            ids = Offsets({}, found.topic_ids)
            gone = set(known).difference(found.partitions)
            if begin is None or all(_is_new(name, begin, ids) for name in gone) or now() >= deadline:
                return found
            await asyncio.sleep(ASK_AGAIN_S)

    async def _ends_not_before(
        self, opened: WorkerConnection, begin: Offsets, latest: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The ends, asked for again where one is before the stream's position: a leader that has just been elected may
        not know yet how far its followers are (before KIP-207 it said so in no other way)."""
        for _ in range(self._options.end_attempts - 1):
            behind = [name for name, end in latest.items() if end < begin.positions.get(name, 0)]
            if not behind:
                break
            await asyncio.sleep(self._options.end_retry_ms / 1000)
            asked = dict.fromkeys(behind, LATEST)
            latest = latest | await offsets_at(opened.cluster, asked, read_committed=self._options.read_committed)
        return latest

    def _compare(self, begin: Offsets, now: Offsets, earliest: Mapping[TopicPartition, int]) -> None:
        """Reports what a stream at `begin` has lost since then."""
        for name, position in begin.positions.items():
            if not _is_chosen(self._options, name):
                continue
            if name not in now.positions:
                self._on_loss(name, position, -1, -1, "the topic was deleted")
            elif _is_new(name, begin, now):
                before, after = begin.topic_ids[name.topic], now.topic_ids[name.topic]
                reason = f"the topic was deleted and made anew: it was {before}, and is {after}"
                self._on_loss(name, position, earliest[name], now.positions[name], reason)
            elif now.positions[name] < position:
                reason = "the log ends before it: cut off by an unclean election, or the topic was made anew"
                self._on_loss(name, position, earliest[name], now.positions[name], reason)
            elif earliest[name] > position:
                reason = "retention or a deletion of records has removed it; raise retention.ms, or read sooner"
                self._on_loss(name, position, earliest[name], now.positions[name], reason)

    def _check_topics(self, begin: Offsets) -> None:
        """Refuses a checkpoint that has nothing to do with this query."""
        if not begin.positions or any(_is_chosen(self._options, name) for name in begin.positions):
            return
        topics = ", ".join(sorted({name.topic for name in begin.positions}))
        problem = (
            f"the query of this checkpoint read {topics}, and this one reads none of it: give this query a "
            "checkpointLocation of its own. With failOnDataLoss=false it goes on, with its topics from their beginning"
        )
        if self._options.fail_on_data_loss:
            raise SubscriptionError(problem)
        logger.warning("checkpoint of other topics", why=problem)

    def _on_loss(self, name: TopicPartition, wanted: int, earliest: int, latest: int, reason: str) -> None:
        lost = DataLossError(name.topic, name.partition, wanted, earliest, latest, reason)
        if self._options.fail_on_data_loss:
            raise lost
        logger.warning("records passed over", why=str(lost))

    async def _limit(self, opened: WorkerConnection, begin: Offsets, end: Offsets) -> Offsets:
        """`end`, or less of it: as much as the options allow a micro-batch, or nothing before it is worth one."""
        options = self._options
        starts = {
            name: min(max(0 if _is_new(name, begin, end) else begin.positions[name], self._earliest.get(name, 0)), last)
            for name, last in end.positions.items()
        }
        begins: dict[backfill.Part, int] = {(name, OWN): at for name, at in starts.items()}
        begins |= backfill.starts(begin.ranges, end.ranges)
        ends = {(name, OWN): last for name, last in end.positions.items()}
        ends |= {(name, each.first): each.end for name, every in end.ranges.items() for each in every}
        available = sum(ends[part] - begins[part] for part in ends)
        if options.min_offsets is not None and self._target is None and self._is_put_off(available):
            return begin
        if options.max_bytes is not None:
            spans = [
                OffsetRange(
                    name.topic, name.partition, begins[name, at], last, end.topic_ids.get(name.topic, NO_TOPIC_ID)
                )
                for (name, at), last in ends.items()
                if last > begins[name, at]
            ]
            samples = await sample_ranges(opened, options, spans)
            known = {part: samples[part[0]] for part in ends if part[0] in samples}
            ends = limit_bytes(begins, ends, known, options.max_bytes)
        if options.max_offsets is not None:
            ends = limit_rows(begins, ends, options.max_offsets)
        positions = {name: ends[name, OWN] for name in end.positions}
        return end._replace(positions=positions, ranges=backfill.read_until(end.ranges, ends))

    def _is_put_off(self, available: int) -> bool:
        """Whether there is too little to read, and has been for less than the longest delay."""
        assert self._options.min_offsets is not None
        now, since = time.monotonic(), self._held_back_since
        waits = since is not None and (now - since) * 1000 < self._options.max_trigger_delay_ms
        if waits and available < self._options.min_offsets:
            return True
        self._held_back_since = now
        return False

    async def _commit(self, opened: WorkerConnection, finished: Json) -> None:
        """Commits to the group. A coordinator that cannot be reached does not delay the query."""
        group_id = self._options.group_id
        if group_id is None or finished == self._committed:
            return
        try:
            async with asyncio.timeout(COMMIT_TIMEOUT_S):
                await GroupAdmin(opened.cluster).set_offsets(group_id, Offsets.from_json(finished).positions)
        except (ConnectionFailed, TimeoutError) as failure:
            logger.warning("offsets not committed", group=group_id, why=str(failure) or "no answer in time")
        except RequestError as failure:
            if not failure.code.retriable:
                raise
            logger.warning("offsets not committed", group=group_id, why=str(failure))
        else:
            self._committed = finished


def _of_checkpoint(written: Json) -> Offsets:
    """Raises `SubscriptionError` if another source has written it."""
    try:
        return Offsets.from_json(written)
    except (AttributeError, TypeError, ValueError):
        raise SubscriptionError(
            f"the checkpoint holds {written}, which are not offsets of topics: it belongs to a query of another "
            "source. To read topics, give this query a checkpointLocation of its own"
        ) from None


def _first_offsets(begin: Offsets, end: Offsets, began_at: Offsets | None) -> dict[TopicPartition, int]:
    """Where the stream began in each partition, as far as that is known. New partitions are read from 0 on (I1)."""
    known = dict(begin.first)
    if not known and begin.began_at is not None:
        known = begin.began_at.positions
    elif not known and began_at is not None and begin.topic_ids == began_at.topic_ids:
        known = began_at.positions  # Not of a checkpoint of Spark's own source, whose first micro-batch ended there.
    # In a log that was cut off before its beginning the stream goes on at its end (I2).
    return {
        name: min(at, end.positions.get(name, at)) for name, at in known.items() if not _is_new(name, begin, end)
    } | {name: 0 for name in end.positions if _is_new(name, begin, end)}


def _is_new(name: TopicPartition, begin: Offsets, end: Offsets) -> bool:
    """Whether a partition did not exist at `begin`: it is not in it, or its topic was another one."""
    before, after = begin.topic_ids.get(name.topic), end.topic_ids.get(name.topic)
    return name not in begin.positions or (before is not None and after is not None and before != after)


def _is_chosen(options: SourceOptions, name: TopicPartition) -> bool:
    """Whether the subscription, which may differ from the checkpoint's, still matches this partition."""
    match options.topics:
        case Subscribe(topics):
            return name.topic in topics
        case Assign(partitions):
            return name in partitions
        case SubscribePattern() as pattern:
            return pattern.matches(name.topic)


def _not_beyond(now: Offsets, target: Offsets, begin: Offsets) -> Offsets:
    """The smaller of both ends, but not before `begin`, unless the log ends there (I2). Partitions newer than the
    target wait for the next run."""
    positions = {}
    for name, position in now.positions.items():
        if name in target.positions:
            before = 0 if _is_new(name, begin, now) else begin.positions[name]
            positions[name] = max(min(position, target.positions[name]), before if before <= position else 0)
    kept = {name: at for name, at in begin.positions.items() if name in now.positions and name not in positions}
    return now._replace(positions={**positions, **kept})
