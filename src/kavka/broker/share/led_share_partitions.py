"""ShareLeaders: the share-partitions of groups whose partitions this broker leads.

Loads their states, writes what was decided, and watches their locks. Decides nothing about records: that is
`share.decide.share_partition`.

    I1  a share-partition is served in the leader epoch in which it was loaded, and dropped with that epoch: the state
        that another leader stores is then the only one
    I2  one write of a share-partition is under way at a time; what is decided meanwhile goes together in the next
    I3  a write whose outcome is unknown is sent again until it is known, or until this broker is no leader any more.
        Who asked is told after share.coordinator.write.timeout.ms that nobody knows. Kafka undoes the change, and gives
        records out again that may be stored as done
    I4  one timer per share-partition, for its first deadline
    I5  the offset at which a group begins is stored before anything is given out. Kafka stores it with the first
        change: 1. a group begins at the end of the log; 2. a member gets a record that is written then; 3. the leader
        dies before the member has accepted it; 4. the next leader begins at the end of the log, behind the record
    I6  what is stored of offsets that the log does not have (after an unclean election) is stored as undone before
        anything is given out. Else: 1. an unclean election cuts off what was done; 2. other records are written at its
        offsets; 3. the leader dies before a member has them; 4. the next leader reads that they are done
    I7  a group without a session here has no share-partition here, once all is written, dead letters too: its positions
        may be set anew meanwhile, and who comes back is to find those. Who comes back while something is being written
        has the share-partition go on if its state is still the one that was loaded: dropped, it would begin its dead
        letters anew beside those that are on their way
    I8  who takes up a share-partition gets what its state says then: it is looked at once for each session that begins
        here, or takes the partition up. Kafka finds out with its next write: 1. a client stands still for longer than
        its membership lasts; its session here lives; 2. an administrator sets the positions of the group, which has no
        members; 3. who joins then gets records by the former positions
    I9  a record that has a dead letter is archived after that is written, or cannot be. Who leads next writes those
        that are due. The start offset waits for them, nothing else does: they count among the records in flight, so
        that no more than those wait
    I10  a lock that ended while this process stood still (stopped, or without a processor) is over only when what its
        member had sent by then has been read. Else: 1. a member accepts in time; 2. the broker gets no processor until
        the lock has ended; 3. timers come before connections, and the record is delivered once more; 4. where that
        happens as often as it may be delivered, it is archived, though it was done each time

Source: Kafka's SharePartitionManager and SharePartition.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from functools import partial
from typing import Final, NamedTuple

from kavka.broker.share.counts import ShareCounts
from kavka.broker.share.dead_letters import DeadLetterWriter, Grave
from kavka.broker.share.group_settings import ShareSettings
from kavka.broker.share.persister import SharePersister
from kavka.coordinator.share_state.decide.records import ShareKey
from kavka.coordinator.shared.standstill import after_reading, due_at, stood_still
from kavka.decisions import RecordDecision
from kavka.errors import ErrorCode, RecordsError, RequestError, StorageError
from kavka.logger import Logger
from kavka.metrics import Member
from kavka.model import LeaderEpoch, Offset
from kavka.replication.decide.partition import Partition
from kavka.replication.replica_manager import ReplicaManager
from kavka.share.decide.reasons import Cause, Place, Telling
from kavka.share.decide.share_partition import Acknowledgement, AcknowledgeType, SharePartition, Write
from kavka.share.decide.spans import RecordState

logger = Logger(__name__)

REFUSED_PAUSE_S: Final = 1.0
"""How long after a refused write the next one comes. Locks that are over, and dead letters, must be written all the
same; without a pause a broker does nothing else while the state is larger than its topic takes."""
LOAD_PATIENCE_S: Final = 5.0
"""How long a state is asked for, before who waits for it is told to come again."""
MAX_LED: Final = 20_000
"""Share-partitions that are kept loaded; beyond, those that nobody holds a record of are dropped."""
_GONE: Final = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.FENCED_STATE_EPOCH,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""Answers to a write after which the state here is not the stored one any more."""
_UNKNOWN: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
)
_TOLD: Final = (AcknowledgeType.RELEASE, AcknowledgeType.REJECT)
"""What a member says that leaves a why-record; gaps are no news."""
_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)

FindOffset = Callable[[Partition, int], Awaitable[Offset | None]]
"""The first offset of a record that is not older than a time (ms since 1970); None if there is none."""


class LeaderPorts(NamedTuple):
    """What the broker gives. `write_timeout_s` is how long who acknowledges waits for a coordinator; `dead_letters` is
    made with the first one."""

    loop: asyncio.AbstractEventLoop
    settings: Callable[[str], ShareSettings]
    find_offset: FindOffset
    wall_ms: Callable[[], int]
    write_timeout_s: Callable[[], float]
    spawn: Callable[[Coroutine[None, None, None]], None]
    record: RecordDecision
    dead_letters: Callable[[ShareCounts], DeadLetterWriter]


class LedShare:
    """One share-partition, led here in one epoch. `waiting` are those who wait for a change to be written."""

    def __init__(
        self, key: ShareKey, hosted: Partition, epochs: tuple[LeaderEpoch, int], records: SharePartition, as_of: float
    ) -> None:
        """`epochs`: the leader's, and the state's."""
        self.key = key
        self.hosted = hosted
        self.leader_epoch, self.state_epoch = epochs
        self.records = records
        self.as_of = as_of
        """When its state was the stored one (I8), by the loop's clock."""
        self.waiting: dict[int, list[asyncio.Future[ErrorCode]]] = {}
        self.timer: asyncio.TimerHandle | None = None
        self.is_reading_first = False
        """What arrived during a standstill is read before locks end (I10)."""
        self.telling = Telling()
        self.lock_timeouts = 0
        """Records whose lock was over before their member had said anything."""
        self.is_writing = False
        self.is_burying = False
        """Dead letters are being written."""
        self.is_dropped = False
        self.is_refused = False
        """It was dropped because a write of it was refused for good."""
        self.is_unused = False
        """No member of the group has a session here (I7)."""

    @property
    def is_busy(self) -> bool:
        """Something of it is being written."""
        return self.is_writing or self.is_burying

    @property
    def is_behind(self) -> bool:
        """Its state may have been set anew, and nothing here needs it any more (I7)."""
        return self.is_unused and not self.is_busy

    def is_current(self) -> bool:
        return not self.is_dropped and self.hosted.is_leader and self.hosted.leader_epoch == self.leader_epoch


class ShareLeaders:
    """All that is led here for share groups."""

    def __init__(self, replicas: ReplicaManager, persister: SharePersister, ports: LeaderPorts) -> None:
        self._replicas = replicas
        self._persister = persister
        self._ports = ports
        self.counts = ShareCounts()
        self._writer: DeadLetterWriter | None = None
        self._led: dict[ShareKey, LedShare] = {}
        self._loading: dict[ShareKey, asyncio.Task[LedShare]] = {}
        self._unwanted: set[ShareKey] = set()
        """What is being loaded for a group that has lost its last session since (I7)."""

    def now(self) -> float:
        """The loop's clock, which never jumps."""
        return self._ports.loop.time()

    def now_ms(self) -> int:
        """The clock of locks."""
        return int(self.now() * 1000)

    def settings(self, group_id: str) -> ShareSettings:
        """What holds for the group."""
        return self._ports.settings(group_id)

    def led(self) -> list[LedShare]:
        """What is led here now."""
        return list(self._led.values())

    # -- loading

    def find(self, key: ShareKey, topic: str, since: float) -> LedShare | asyncio.Task[LedShare]:
        """The share-partition, for a session that has it since then (I8), or what loads it, or looks at its state; once
        that is done, who waits for the key is woken, and finds again. Raises `RequestError`, as does the task."""
        hosted = self._hosted(key, topic)
        known = self._current(key, hosted)
        if known is not None and not known.is_unused and known.as_of >= since:
            return known
        loading = self._loading.get(key)
        if loading is None:
            now = self.now()
            work = self._load(key, hosted, now) if known is None else self._resume(known, now)
            loading = self._loading[key] = self._ports.loop.create_task(work)
            loading.add_done_callback(lambda done: self._on_loaded(key, done))
        return loading

    def loaded(self, key: ShareKey, topic: str) -> LedShare:
        """The share-partition of which members may hold records. Raises `RequestError`: UNKNOWN_TOPIC_OR_PARTITION, as
        Apache Kafka, where it is not loaded, and so nobody holds any."""
        known = self._current(key, self._hosted(key, topic))
        if known is None or known.is_unused:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return known

    def _current(self, key: ShareKey, hosted: Partition) -> LedShare | None:
        known = self._led.get(key)
        if known is not None and (known.hosted is not hosted or not known.is_current() or known.is_behind):
            self._drop(known, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return None
        return known

    def _hosted(self, key: ShareKey, topic: str) -> Partition:
        hosted = self._replicas.require_partition(topic, key.partition)
        if hosted.topic_id != key.topic_id:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID)
        if not hosted.is_leader:
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return hosted

    def _on_loaded(self, key: ShareKey, done: asyncio.Task[LedShare]) -> None:
        self._loading.pop(key, None)
        self._unwanted.discard(key)
        if not done.cancelled():
            done.exception()  # Who waits looks for it; where nobody waits any more, nobody does.
        self._replicas.fetch_purgatory.check(key)

    async def _resume(self, led: LedShare, as_of: float) -> LedShare:
        """Has the share-partition of a group go on that has a session again, or another one, or loads it anew where its
        state was set anew meanwhile (I7, I8). Its epochs tell: one that was deleted and made again has been read by no
        leader."""
        try:
            stored = await self._persister.summary(led.key, LOAD_PATIENCE_S)
        except RequestError as refused:
            raise RequestError(_load_error(refused.code), refused.message) from refused
        if led.key in self._unwanted or not led.hosted.is_leader:
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if led.is_current() and (stored.state_epoch, stored.leader_epoch) == (led.state_epoch, led.leader_epoch):
            led.is_unused, led.as_of = False, as_of
            return led
        if not led.is_dropped:
            self._drop(led, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return await self._load(led.key, led.hosted, as_of)

    async def _load(self, key: ShareKey, hosted: Partition, as_of: float) -> LedShare:
        # Since it was looked for, it may have become a follower, whose epoch is another leader's.
        if not hosted.is_leader:
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        epoch, began_ms = hosted.leader_epoch, self.now_ms()
        try:
            stored = await self._persister.read(key, epoch, LOAD_PATIENCE_S)
            begin = stored.start_offset
            if begin < 0:
                begin = await self._beginning(key, hosted)
                first = Write(0, begin, (), 0)
                await self._persister.write(
                    key, first, state_epoch=stored.state_epoch, leader_epoch=epoch, patience_s=LOAD_PATIENCE_S
                )
            log_end = hosted.log.log_end_offset
            kept = [batch for batch in stored.batches if batch.last_offset < log_end]
            if begin > log_end or len(kept) < len(stored.batches):
                logger.warning(
                    "share group state is ahead of the log", share_partition=str(key), log_end=log_end, start=begin
                )
                begin = min(begin, log_end)
                undone = [
                    batch._replace(state=RecordState.AVAILABLE, deliveries=0)
                    for batch in stored.batches
                    if batch.last_offset >= log_end
                ]
                await self._persister.write(
                    key,
                    Write(0, begin, undone, 0),
                    state_epoch=stored.state_epoch,
                    leader_epoch=epoch,
                    patience_s=LOAD_PATIENCE_S,
                )
        except RequestError as refused:
            raise RequestError(_load_error(refused.code), refused.message) from refused
        if not hosted.is_leader or hosted.leader_epoch != epoch or key in self._unwanted:
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        begin = max(begin, hosted.log.log_start_offset)
        led = LedShare(key, hosted, (epoch, stored.state_epoch), SharePartition(begin, kept), as_of)
        if len(self._led) >= MAX_LED:
            self._drop_idle()
        self._led[key] = led
        self._bury_soon(led)
        self.counts.load_ms.record(self.now_ms() - began_ms)
        return led

    async def _beginning(self, key: ShareKey, hosted: Partition) -> Offset:
        """Where the group begins, by its share.auto.offset.reset."""
        reset = self._ports.settings(key.group_id).reset.lower()
        if reset == "earliest":
            return hosted.log.log_start_offset
        if reset.startswith("by_duration:"):
            since_ms = self._ports.wall_ms() - duration_ms(reset.partition(":")[2])
            try:
                found = await self._ports.find_offset(hosted, since_ms)
            except (RecordsError, StorageError) as failure:
                raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(failure)) from failure
            if found is not None:
                return min(found, hosted.log.high_watermark)
        return hosted.log.high_watermark

    def _drop(self, led: LedShare, error: ErrorCode) -> None:
        """It is no longer served. Waiting requests get an error."""
        led.is_dropped = True
        if led.timer is not None:
            led.timer.cancel()
        if self._led.get(led.key) is led:
            del self._led[led.key]
        self._tell(led, None, error)
        self._replicas.fetch_purgatory.check(led.key)

    def _drop_idle(self) -> None:
        for led in list(self._led.values()):
            if not led.is_current() or (not led.is_busy and led.records.next_deadline_ms() is None):
                self._drop(led, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # -- what members say

    def acknowledge(
        self, led: LedShare, member_id: str, acknowledgements: Sequence[Acknowledgement]
    ) -> asyncio.Future[ErrorCode] | None:
        """What a member says of its records; the future is done when it is stored. Raises `RequestError`."""
        if led.is_dropped:
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        limits = self._ports.settings(led.key.group_id).limits
        change = led.records.acknowledge(member_id, acknowledgements, self.now_ms(), limits)
        self.counts.on_acknowledged(acknowledgements)
        if change and any(kind in _TOLD for each in acknowledgements for kind in each.kinds):
            self._tell_why(led, change, Cause.SAID)
        self.watch(led)
        return self._wait_for(led, change) if change else None

    def release(self, group_id: str, member_id: str) -> None:
        """The member's session is over: others may have its records."""
        limits = self._ports.settings(group_id).limits
        for led in list(self._led.values()):
            if led.key.group_id == group_id and (change := led.records.release(member_id, limits)):
                self._tell_why(led, change, Cause.SESSION_OVER)
                self._write_soon(led)

    def forget(self, group_id: str) -> None:
        """The last member of the group has no session here any more (I7)."""
        self.counts.forget(group_id)
        for led in list(self._led.values()):
            if led.key.group_id == group_id:
                led.is_unused = True
                self._drop_unused(led)
        self._unwanted.update(key for key in self._loading if key.group_id == group_id)

    def _drop_unused(self, led: LedShare) -> None:
        if led.is_behind and not led.is_dropped:
            self._drop(led, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _wait_for(self, led: LedShare, change: int) -> asyncio.Future[ErrorCode]:
        answer: asyncio.Future[ErrorCode] = self._ports.loop.create_future()
        led.waiting.setdefault(change, []).append(answer)
        self._write_soon(led)
        return answer

    def _tell_why(self, led: LedShare, change: int, cause: Cause) -> None:
        place = self._place(led)
        left = led.records.left_by(change)
        for decision in led.telling.of(place, cause, left, self.now_ms(), self._ports.wall_ms()):
            self._ports.record(decision)

    def _place(self, led: LedShare) -> Place:
        limit = self._ports.settings(led.key.group_id).limits.deliveries
        broker_id = self._persister.peers.broker_id
        return Place(broker_id, led.key.group_id, led.hosted.topic_partition, led.leader_epoch, limit)

    # -- locks

    def watch(self, led: LedShare) -> None:
        """Sees to it that the first lock that is over is noticed. A deadline that moves away leaves the timer as it is:
        it finds nothing then, and is set anew."""
        deadline_ms = led.records.next_deadline_ms()
        if led.is_dropped or led.is_reading_first or deadline_ms is None:
            return
        delay_s = max(deadline_ms - self.now_ms(), 0) / 1000
        if led.timer is not None:
            if due_at(led.timer) <= self._ports.loop.time() + delay_s:
                return
            led.timer.cancel()
        led.timer = self._ports.loop.call_later(delay_s, self._on_time, led)

    def _on_time(self, led: LedShare) -> None:
        timer, led.timer = led.timer, None
        if timer is not None and stood_still(self._ports.loop, timer):
            led.is_reading_first = True
            led.timer = after_reading(self._ports.loop, partial(self._on_locks_over, led))
        else:
            self._on_locks_over(led)

    def _on_locks_over(self, led: LedShare) -> None:
        led.timer, led.is_reading_first = None, False
        if led.is_dropped:
            return
        if not led.is_current():
            self._drop(led, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        self._expire(led, self.now_ms())
        self.watch(led)

    def _expire(self, led: LedShare, until_ms: int) -> int:
        """Ends the locks that are over at this time. Returns of how many records."""
        change = led.records.expire(until_ms, self._ports.settings(led.key.group_id).limits)
        if not change:
            return 0
        count = sum(span.size for span in led.records.left_by(change))
        led.lock_timeouts += count
        self._tell_why(led, change, Cause.LOCK_OVER)
        self._write_soon(led)
        return count

    def expire_locks(self, group_id: str) -> int:
        """Ends all locks of a group's members here, as if their time was over. Returns of how many records."""
        return sum(self._expire(led, led.records.last_deadline_ms() or 0) for led in self.led_for(group_id))

    # -- writing

    def store_passed(self, led: LedShare) -> None:
        """A fetch has found only what is not delivered: aborted records and markers. No acknowledgement will tell of
        them, and until the start is stored they count as lag."""
        if led.records.has_unsent:
            self._write_soon(led)

    def _write_soon(self, led: LedShare) -> None:
        if not led.is_writing and not led.is_dropped:
            led.is_writing = True
            self._ports.spawn(self._write_all(led))

    async def _write_all(self, led: LedShare) -> None:
        try:
            while led.records.has_unsent and not led.is_dropped:
                error = await self._write(led, led.records.take_write())
                if error is not ErrorCode.NONE and not led.is_dropped:
                    await asyncio.sleep(REFUSED_PAUSE_S)
        finally:
            led.is_writing = False
        self._drop_unused(led)

    async def _write(self, led: LedShare, write: Write) -> ErrorCode:
        """Stores one write, and has it hold, or not. Returns the error for which it does not."""
        error = ErrorCode.NONE
        while True:
            if not led.is_current():
                self._drop(led, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
            try:
                await self._persister.write(
                    led.key,
                    write,
                    state_epoch=led.state_epoch,
                    leader_epoch=led.leader_epoch,
                    patience_s=self._ports.write_timeout_s(),
                )
                error = ErrorCode.NONE
                break
            except RequestError as refused:
                error = ErrorCode(refused.code)
            if error in _GONE:
                logger.warning("share group state is another's", share_partition=str(led.key), why=error.name)
                led.is_refused = True
                self._drop(led, _load_error(error))
                return error
            if error not in _UNKNOWN:
                break
            self._tell(led, write.last_change, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        led.records.settle(write, is_committed=error is ErrorCode.NONE)
        self._tell(led, write.last_change, error)
        self._bury_soon(led)
        self.watch(led)
        if led.records.next_fetch_offset < led.records.end or error is ErrorCode.NONE:
            self._replicas.fetch_purgatory.check(led.key)
        return error

    # -- dead letters

    def _bury_soon(self, led: LedShare) -> None:
        if led.records.may_have_dead_letters and not led.is_burying and not led.is_dropped:
            led.is_burying = True
            self._ports.spawn(self._bury_all(led))

    async def _bury_all(self, led: LedShare) -> None:
        """Writes the dead letters that are due, and archives their records (I9)."""
        if self._writer is None:
            self._writer = self._ports.dead_letters(self.counts)
        try:
            while not led.is_dropped and (due := led.records.dead_letters()):
                grave = Grave(self._place(led), led.hosted, led.telling, led.is_current)
                for span in await self._writer.bury(grave, due):
                    led.records.archive(span.first, span.last)
                if not led.is_current():
                    self._drop(led, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                    return
                if led.records.has_unsent:
                    self._write_soon(led)
        finally:
            led.is_burying = False
        self._drop_unused(led)

    def _tell(self, led: LedShare, last_change: int | None, error: ErrorCode) -> None:
        """Answers who waits for changes up to `last_change`; None: for any."""
        for change in [change for change in led.waiting if last_change is None or change <= last_change]:
            for answer in led.waiting.pop(change):
                if not answer.done():
                    answer.set_result(error)

    # -- what an administrator asks

    def members(self, value_of: Callable[[LedShare], int]) -> list[Member]:
        """A number of each share-partition that is served here now, as a metric of many objects."""
        led = [one for one in self._led.values() if one.is_current()]
        return [
            (
                (("group", one.key.group_id), ("topic", topic), ("partition", str(partition))),
                value_of(one),
            )
            for one in sorted(led, key=lambda one: (one.key.group_id, one.hosted.topic_partition))
            for topic, partition in [one.hosted.topic_partition]
        ]

    def led_for(self, group_id: str) -> list[LedShare]:
        """The share-partitions of a group that are served here now, by topic and partition."""
        return self.led_for_each({group_id}).get(group_id, [])

    def led_for_each(self, groups: Collection[str]) -> dict[str, list[LedShare]]:
        """The same for several groups, which may be as many as a request has room for, in one pass. A group of which
        nothing is served here is left out."""
        found: dict[str, list[LedShare]] = {}
        for one in self._led.values():
            if one.key.group_id in groups and one.is_current():
                found.setdefault(one.key.group_id, []).append(one)
        for led in found.values():
            led.sort(key=lambda one: one.hosted.topic_partition)
        return found

    # -- its end

    def close(self) -> None:
        """Stops serving."""
        if self._writer is not None:
            self._writer.close()
        for loading in list(self._loading.values()):
            loading.cancel()
        for led in list(self._led.values()):
            self._drop(led, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def duration_ms(text: str) -> int:
    """The milliseconds of an ISO 8601 duration; 0 for one that cannot be read.

    >>> duration_ms("P1DT2H")
    93600000
    >>> duration_ms("pt1.5s")
    1500
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        return 0
    days, hours, minutes, seconds = (float(part or 0) for part in found.group("days", "hours", "minutes", "seconds"))
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def _load_error(error: ErrorCode | int) -> ErrorCode:
    """The error for a client if a state could not be read, or belongs to another leader. A request that the states'
    coordinator calls invalid is none of the client's: the state was deleted, or is not made yet. Apache Kafka says
    UNKNOWN_SERVER_ERROR then, too, and Java's consumer goes on; INVALID_REQUEST of a partition ends its application."""
    if error == ErrorCode.INVALID_REQUEST:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if error in _UNKNOWN:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode(error)
