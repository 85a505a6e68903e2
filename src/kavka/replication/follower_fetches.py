"""FollowerFetches: what replicas on other brokers fetch from partitions led here.

Decides what a follower is given, what its fetch moves, and how long it waits for more. Must not know the wire format,
sessions, or what a high watermark is for.

    I1  a follower reads up to the log end, whatever is committed
    I2  only what passed the checks of the leader epoch and the replica set moves anything; a fetch whose log has
        diverged moves nothing (KAFKA-13141), and one that is answered from the purgatory was counted when it came
    I3  a waiting fetch costs one look per partition that changed, not one per partition that it names
    I4  a follower that has something else to fetch does not wait for what it waits for now (`hasten`)
    I5  a fetch costs as much as its session has partitions that changed since the last one, and as the request names.
        The others are idle (idle_partitions.py): `rest` lays them aside, and every change of a partition that is hosted
        here comes to `wake`, itself or by `on_append`, `on_high_watermark_advanced` and `on_role_changed`

Appends wake who waits at the end of the event loop's turn, so that the requests of one turn go out with one answer.

A raised high watermark by itself wakes a waiting follower only where consumers may read from followers (`is_prompt`):
elsewhere it travels with the next records, or with the next fetch at the latest (replica.fetch.wait.max.ms), as in
Apache Kafka 3.9, where prompt answers doubled the fetches of idle partitions (KAFKA-9731).

Source: Kafka's ReplicaManager.fetchMessages and DelayedFetch, 3.9.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kavka.errors import NO_ERROR, ErrorCode, RequestError
from kavka.model import NO_EPOCH, BrokerId, Offset, TopicPartition
from kavka.replication.decide import divergence
from kavka.replication.decide.fetching import FetchOutcome, FetchParams, FetchSpec, partition_key
from kavka.replication.decide.partition import Partition
from kavka.replication.decide.partition_results import NOTHING_MOVED, FollowerFetchResult
from kavka.replication.decide.replica import RemoteReplica
from kavka.replication.purgatory import DelayedOperation, Purgatory
from kavka.replication.read_failures import READ_FAILURES, ReadFailures

if TYPE_CHECKING:
    from kavka.replication.decide.idle_partitions import IdlePartitions


class LeaderThrottle(Protocol):
    """Bounds what this broker sends for throttled replicas that it leads (leader.replication.throttled.rate)."""

    def withholds(self, topic_partition: TopicPartition, broker_id: BrokerId) -> bool:
        """Whether the follower gets no records now: its replica is throttled, and the rate is used up."""
        ...

    def note_sent(self, topic_partition: TopicPartition, broker_id: BrokerId, size_bytes: int) -> None: ...


class HostedPartitions(NamedTuple):
    """What the replica manager gives: `find` gives the hosted partition that a spec names, or why it is not here.
    `on_moved` is called with what a fetch moved before the fetch is answered, `on_behind` where a follower does not
    have all records. `failures` says what is answered where nothing can be read."""

    find: Callable[[FetchSpec], Partition | ErrorCode]
    on_moved: Callable[[Partition, FollowerFetchResult], None]
    on_behind: Callable[[Partition], None]
    failures: ReadFailures
    now_ms: Callable[[], int]


class Observer(Protocol):
    """Is called when a follower is seen to have records, with what was given to `FollowerFetches.observe`."""

    def followed(self, topic: str, partition: int, broker_id: int) -> None: ...


class FollowerFetches:
    """Fetches of other brokers, of partitions that are led here."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        hosted: HostedPartitions,
        *,
        is_prompt: bool,
        throttle: LeaderThrottle | None = None,
    ) -> None:
        self._loop = loop
        self._find = hosted.find
        self._on_moved = hosted.on_moved
        self._on_behind = hosted.on_behind
        self._failures = hosted.failures
        self._now_ms = hosted.now_ms
        self.is_prompt = is_prompt
        self._throttle = throttle
        self._appended: dict[Partition, None] = {}
        self._are_roles_changing = False
        self._changed: dict[Partition, None] = {}
        """Of `roles_changing`: those that somebody waits for."""
        self._observed: dict[Partition, list[tuple[Offset, Observer]]] = {}
        """By partition: from which fetch offset on a follower has the records that somebody looks at. Mostly empty."""
        self.purgatory: Purgatory[list[FetchOutcome]] = Purgatory("FollowerFetch", loop)

    # -- fetching

    def fetch(
        self,
        params: FetchParams,
        specs: Sequence[FetchSpec],
        broker_id: BrokerId,
        broker_epoch: int,
        idle: IdlePartitions | None = None,
    ) -> list[FetchOutcome] | DelayedOperation[list[FetchOutcome]]:
        """What the replica on `broker_id` gets now, or an operation that waits for `params.min_bytes`. `idle` are the
        partitions that it fetches besides `specs`: they are counted, and not looked at (I5)."""
        now_ms = self._now_ms()
        if idle is not None:
            idle.fetched_ms = now_ms
        moved: list[tuple[Partition, FollowerFetchResult]] = []
        partitions: list[Partition] = []
        outcomes: list[FetchOutcome] = []
        remaining, available_bytes, is_news, min_one_batch = params.max_bytes, 0, False, True
        for spec in specs:
            partition = self._find(spec)
            if isinstance(partition, ErrorCode):
                outcomes.append(FetchOutcome(spec, partition))
                is_news = True
                continue
            partitions.append(partition)
            room = spec.max_bytes if spec.max_bytes < remaining else max(remaining, 0)
            outcome = self._count(
                partition, spec, room, broker_id, broker_epoch, now_ms, moved, min_one_batch=min_one_batch
            )
            if outcome.size_bytes:
                available_bytes += outcome.available_bytes
                remaining -= outcome.size_bytes
                min_one_batch = False
            elif outcome.error is not NO_ERROR or outcome.diverging_epoch is not None:
                is_news = True
            outcomes.append(outcome)
        if self.is_prompt:
            is_news |= self._note_high_watermarks(outcomes, broker_id)
        for moved_one, result in moved:
            self._on_moved(moved_one, result)
        if is_news or available_bytes >= params.min_bytes or params.max_wait_ms <= 0 or not (specs or idle):
            if available_bytes:
                self._note_sent(outcomes, broker_id)
            return outcomes
        operation = _DelayedFollowerFetch(self, params, broker_id, outcomes, idle)
        self.purgatory.watch(operation, partitions, params.max_wait_ms)
        return operation

    def _count(  # noqa: PLR0913 - called for every partition of every fetch: no value is made for its arguments
        self,
        partition: Partition,
        spec: FetchSpec,
        max_bytes: int,
        broker_id: BrokerId,
        broker_epoch: int,
        now_ms: int,
        moved: list[tuple[Partition, FollowerFetchResult]],
        *,
        min_one_batch: bool,
    ) -> FetchOutcome:
        """Reads one partition, and notes what the fetch says of the follower."""
        log = partition.log
        leader_end_offset = log.log_end_offset
        outcome = self._read(partition, spec, max_bytes, broker_id, now_ms, min_one_batch=min_one_batch)
        if outcome.error is not NO_ERROR or outcome.diverging_epoch is not None:
            return outcome
        try:
            result = partition.record_follower_fetch(
                broker_id,
                broker_epoch,
                spec.fetch_offset,
                leader_end_offset=leader_end_offset,
                log_start_offset=spec.log_start_offset,
                now_ms=now_ms,
            )
        except RequestError as fenced:
            return self._failures.outcome(spec, fenced)
        if self._observed and partition in self._observed:
            self._tell_observers(partition, spec, broker_id)
        if result is NOTHING_MOVED:
            return outcome
        if spec.fetch_offset < leader_end_offset:
            self._on_behind(partition)
        if result.high_watermark_advanced or result.proposal is not None or result.log_start_moved:
            moved.append((partition, result))
            # The newest high watermark: the follower has it one round earlier.
            return outcome._replace(high_watermark=log.high_watermark, last_stable_offset=log.last_stable_offset)
        return outcome

    def _tell_observers(self, partition: Partition, spec: FetchSpec, broker_id: BrokerId) -> None:
        topic, index = partition.topic_partition
        for end_offset, observer in self._observed[partition]:
            if spec.fetch_offset >= end_offset:
                observer.followed(topic, index, broker_id)

    def rest(self, idle: IdlePartitions, outcomes: Sequence[FetchOutcome]) -> None:
        """Lays aside what a follower was answered, as far as all is still as the answer says and nothing is on its way.

        The partition itself is asked: an answer that waited may be older than its high watermark.
        """
        if idle.follower is None:
            return
        broker_id, broker_epoch = BrokerId(idle.follower[0]), idle.follower[1]
        for outcome in outcomes:
            if outcome.size_bytes or outcome.error is not ErrorCode.NONE or outcome.diverging_epoch is not None:
                continue
            spec = outcome.spec
            partition = self._find(spec)
            if isinstance(partition, ErrorCode) or not partition.is_leader or partition in self._observed:
                continue
            log, replica = partition.log, partition.remote_replica(broker_id)
            if (
                replica is not None
                and spec.current_leader_epoch in (NO_EPOCH, partition.leader_epoch)
                and spec.last_fetched_epoch in (NO_EPOCH, log.latest_epoch)
                and outcome.high_watermark == log.high_watermark
                and outcome.log_start_offset == log.log_start_offset
                and replica.says_the_same(
                    spec.fetch_offset,
                    log_start_offset=spec.log_start_offset,
                    leader_end_offset=log.log_end_offset,
                    broker_epoch=broker_epoch,
                )
            ):
                idle.rest(partition_key(spec), spec, partition, replica)

    def wake(self, partition: Partition) -> None:
        """The partition changes, or has changed: fetches look at it again (I5)."""
        if partition.replicas == (partition.local_broker_id,):
            return  # Nobody follows: every produce request comes by here twice.
        for replica in partition.remote_replicas():
            if replica.idle is not None:
                replica.wake()

    def hasten(self, broker_id: BrokerId) -> None:
        """Answers what a follower waits for now: it has other partitions to fetch (I4)."""
        self.purgatory.expire(lambda waiting: isinstance(waiting, _DelayedFollowerFetch) and waiting.is_of(broker_id))

    def observe(self, partition: Partition, end_offset: Offset, observer: Observer) -> None:
        """Calls `observer` for each fetch that shows that a follower has everything below `end_offset`."""
        self.wake(partition)
        self._observed.setdefault(partition, []).append((end_offset, observer))

    def forget(self, partition: Partition, observer: Observer) -> None:
        """Ends what `observe` began."""
        rest = [each for each in self._observed.get(partition, ()) if each[1] is not observer]
        if rest:
            self._observed[partition] = rest
        else:
            self._observed.pop(partition, None)

    def read_again(
        self,
        params: FetchParams,
        known: Sequence[FetchOutcome],
        touched: dict[TopicPartition, None],
        broker_id: BrokerId,
        just_read: FetchOutcome | None = None,
    ) -> list[FetchOutcome]:
        """The answer of a fetch that waited: `known`, with what was `touched` meanwhile read again (I3), but for
        `just_read`, which was read in this turn as if nothing else were in the answer."""
        now_ms = self._now_ms()
        outcomes: list[FetchOutcome] = []
        remaining, min_one_batch = params.max_bytes, True
        for outcome in known:
            spec = outcome.spec
            if spec.topic_partition in touched or outcome.size_bytes:
                room = min(spec.max_bytes, max(remaining, 0))
                if just_read is not None and just_read.spec is spec and min_one_batch and room == spec.max_bytes:
                    outcome = just_read
                else:
                    outcome = self.read_one(spec, room, broker_id, now_ms, min_one_batch=min_one_batch)
                if outcome.size_bytes:
                    remaining -= outcome.size_bytes
                    min_one_batch = False
            outcomes.append(outcome)
        if self.is_prompt:
            self._note_high_watermarks(outcomes, broker_id)
        self._note_sent(outcomes, broker_id)
        return outcomes

    def read_one(
        self, spec: FetchSpec, max_bytes: int, broker_id: BrokerId, now_ms: int, *, min_one_batch: bool
    ) -> FetchOutcome:
        """Reads one partition; the fetch was counted before."""
        partition = self._find(spec)
        if isinstance(partition, ErrorCode):
            return FetchOutcome(spec, partition)
        return self._read(partition, spec, max_bytes, broker_id, now_ms, min_one_batch=min_one_batch)

    def _read(
        self,
        partition: Partition,
        spec: FetchSpec,
        max_bytes: int,
        broker_id: BrokerId,
        now_ms: int,
        *,
        min_one_batch: bool,
    ) -> FetchOutcome:
        log = partition.log
        try:
            replica = partition.follower(broker_id, spec.current_leader_epoch, now_ms)
            if spec.fetch_offset == log.log_end_offset and spec.last_fetched_epoch in (NO_EPOCH, log.latest_epoch):
                # Most partitions of most fetches: nothing is new, and nothing can have diverged.
                return FetchOutcome(spec, NO_ERROR, log.high_watermark, log.last_stable_offset, log.log_start_offset)
            diverging = (
                divergence.diverging_epoch(log, spec.last_fetched_epoch, spec.fetch_offset)
                if spec.last_fetched_epoch >= 0
                else None
            )
            if diverging is not None:
                return FetchOutcome(
                    spec,
                    NO_ERROR,
                    log.high_watermark,
                    log.last_stable_offset,
                    log.log_start_offset,
                    diverging_epoch=diverging,
                )
            if self._withholds(partition, replica):
                max_bytes, min_one_batch = 0, False
            result = partition.read_as_follower(spec.fetch_offset, max_bytes, min_one_batch=min_one_batch)
        except READ_FAILURES as failure:
            return self._failures.outcome(spec, failure)
        return FetchOutcome(
            spec,
            NO_ERROR,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            result.chunks,
            result.size_bytes,
            available_bytes=result.available_bytes,
        )

    def _withholds(self, partition: Partition, replica: RemoteReplica) -> bool:
        """A member of the ISR is never throttled: records wait for it."""
        throttle = self._throttle
        return (
            throttle is not None
            and replica.broker_id not in partition.state.isr
            and throttle.withholds(partition.topic_partition, replica.broker_id)
        )

    def _note_sent(self, outcomes: Sequence[FetchOutcome], broker_id: BrokerId) -> None:
        """The answer goes out: a fetch that waits is read more than once, and counts against the quota once."""
        if self._throttle is not None:
            for outcome in outcomes:
                if outcome.size_bytes:
                    self._throttle.note_sent(outcome.spec.topic_partition, broker_id, outcome.size_bytes)

    def _note_high_watermarks(self, outcomes: Sequence[FetchOutcome], broker_id: BrokerId) -> bool:
        """Records which high watermarks the follower is about to get. Returns whether one is new to it."""
        news = False
        for outcome in outcomes:
            if outcome.error is not NO_ERROR:
                continue
            partition = self._find(outcome.spec)
            replica = partition.remote_replica(broker_id) if isinstance(partition, Partition) else None
            if replica is not None and outcome.high_watermark > replica.sent_high_watermark:
                replica.sent_high_watermark = outcome.high_watermark
                news = True
        return news

    # -- waking

    def on_append(self, partition: Partition) -> None:
        """The leader appended: who waits for it is woken at the end of this turn of the event loop."""
        self.wake(partition)
        if partition not in self.purgatory.watched:
            return
        if not self._appended:
            self._loop.call_soon(self._wake)
        self._appended[partition] = None

    def on_high_watermark_advanced(self, partition: Partition) -> None:
        if self.is_prompt:
            self.on_append(partition)
        else:
            self.wake(partition)

    def on_role_changed(self, partition: Partition) -> None:
        """The leader epoch has changed, or the partition left this broker: waiting requests get an error at once, or at
        the end of `roles_changing`."""
        self.wake(partition)
        if not self._are_roles_changing:
            self.purgatory.check(partition)
        elif partition in self.purgatory.watched:
            self._touch(partition)
            self._changed[partition] = None

    @contextmanager
    def roles_changing(self) -> Iterator[None]:
        """Roles of many partitions change meanwhile. Who waits for some of them is woken once, at the end: each answer
        has the follower fetch again, which is to look at all that it follows. Whatever else completes a fetch before
        tells of all roles that have changed by then."""
        self._are_roles_changing = True
        try:
            yield
        finally:
            self._are_roles_changing = False
            changed, self._changed = self._changed, {}
            for partition in changed:
                self.purgatory.check(partition)

    def _wake(self) -> None:
        appended, self._appended = self._appended, {}
        for partition in appended:
            self._touch(partition)
        for partition in appended:
            self.purgatory.check(partition)

    def _touch(self, partition: Partition) -> None:
        for operation in self.purgatory.watching(partition):
            assert isinstance(operation, _DelayedFollowerFetch)
            operation.touch(partition)


class _DelayedFollowerFetch(DelayedOperation[list[FetchOutcome]]):
    """A follower's fetch that waits for `min_bytes`, or for a high watermark that is news to it."""

    __slots__ = ("_available_bytes", "_broker_id", "_fetches", "_idle", "_outcomes", "_params", "_touched")

    def __init__(
        self,
        fetches: FollowerFetches,
        params: FetchParams,
        broker_id: BrokerId,
        outcomes: Sequence[FetchOutcome],
        idle: IdlePartitions | None,
    ) -> None:
        super().__init__(fetches._loop)
        self._fetches = fetches
        self._params = params
        self._broker_id = broker_id
        self._outcomes = {outcome.spec.topic_partition: outcome for outcome in outcomes}
        self._available_bytes = {
            tp: outcome.available_bytes for tp, outcome in self._outcomes.items() if outcome.size_bytes
        }
        self._touched: dict[TopicPartition, None] = {}
        self._idle = idle
        if idle is not None:
            idle.waiting = self

    def is_of(self, broker_id: BrokerId) -> bool:
        return self._broker_id == broker_id

    def touch(self, partition: Partition) -> None:
        """The partition changed: the answer reads it again, whatever completes the fetch."""
        self._touched[partition.topic_partition] = None

    def on_woken(self, partition: Partition, spec: FetchSpec) -> None:
        """A partition that was idle when the fetch came has changed: it belongs to the fetch from now on."""
        replica = partition.remote_replica(self._broker_id)
        sent = partition.log.high_watermark if replica is None else replica.sent_high_watermark
        self._outcomes[spec.topic_partition] = FetchOutcome(spec, ErrorCode.NONE, sent)
        self.touch(partition)
        self._fetches.purgatory.watch_also(self, partition)

    def try_complete(self, changed: object) -> list[FetchOutcome] | None:
        assert isinstance(changed, Partition)
        self.touch(changed)
        known = self._outcomes[changed.topic_partition]
        spec = known.spec
        fetches = self._fetches
        outcome = fetches.read_one(spec, spec.max_bytes, self._broker_id, fetches._now_ms(), min_one_batch=True)
        if outcome.error is NO_ERROR and outcome.diverging_epoch is None:
            self._available_bytes[changed.topic_partition] = outcome.available_bytes
            has_enough = sum(self._available_bytes.values()) >= self._params.min_bytes
            if not has_enough and not (fetches.is_prompt and outcome.high_watermark > known.high_watermark):
                return None
        return self._answer(outcome)

    def on_expiration(self) -> list[FetchOutcome]:
        return self._answer()

    def _answer(self, just_read: FetchOutcome | None = None) -> list[FetchOutcome]:
        if self._idle is not None and self._idle.waiting is self:
            self._idle.waiting = None
        known = list(self._outcomes.values())
        return self._fetches.read_again(self._params, known, self._touched, self._broker_id, just_read)
