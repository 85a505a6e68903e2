"""ReplicaManager: the partitions that this broker hosts, and the requests that wait for them.

Decides which hosted partition an append or a read goes to, how a fetch's bytes are shared among its partitions, when a
produce or fetch must wait, and which waiting requests to check when a partition changed. Must not know the wire
format, sessions, who the client is, or how an ISR is stored.

    I1  an acks=all append is answered as done when the high watermark has passed it, never before, and only while the
        ISR is large enough
    I2  a fetch never returns more than its limits, except that the first batch of the first partition that has any is
        whole (KIP-74)
    I3  a partition whose log directory failed answers KAFKA_STORAGE_ERROR, whatever is asked
    I4  lags are measured on one clock that never jumps: the wall clock's time when this object was made, plus what the
        event loop's clock has gone on since
    I5  the timer's look for who lags costs as much as there are partitions that time alone may change (`_is_settled`),
        not as there are partitions. What makes a partition one of them again is noted when it happens

Source: Kafka's ReplicaManager.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, assert_never

from kavka.decisions import Decision, DecisionKind, RecordDecision, forget
from kavka.errors import NO_ERROR, ErrorCode, RecordsError, RequestError, StorageError
from kavka.filesystem import Buffer
from kavka.log.decide.producer_state import AppendOrigin
from kavka.model import NO_LEADER, NO_OFFSET, BrokerId, LeaderAndIsr, Offset, TopicPartition, new_tuple
from kavka.replication.decide import divergence
from kavka.replication.decide.fetching import AbortedTransaction, FetchOutcome, FetchParams, FetchSpec
from kavka.replication.decide.isr_states import (
    CommittedIsr,
    IsrAnswer,
    IsrCommitted,
    IsrProposal,
    IsrRejected,
    IsrUnknown,
)
from kavka.replication.decide.partition import Partition
from kavka.replication.decide.partition_results import (
    FollowerFetchResult,
    FollowingChange,
    LeadershipChange,
    PartitionRefusal,
)
from kavka.replication.decide.partition_rules import PartitionRules
from kavka.replication.delayed_requests import (
    AppendOutcome,
    DelayedDelete,
    DelayedFetch,
    DelayedProduce,
    DeleteOutcome,
)
from kavka.replication.follower_fetches import FollowerFetches, HostedPartitions, LeaderThrottle
from kavka.replication.isr_changes import IsrChanges, IsrWriter
from kavka.replication.purgatory import DelayedOperation, Purgatory
from kavka.replication.read_failures import READ_FAILURES, ReadFailures
from kavka.replication.traffic import Traffic

if TYPE_CHECKING:
    from kavka.replication.decide.idle_partitions import IdlePartitions
    from kavka.replication.decide.replica_selector import RackOf


PARTITIONS_AT_ONCE: Final = 500
"""Partitions whose followers are looked at before others have their turn: 2 ms."""
_REFUSED_UNSEEN = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class ReplicaPorts(NamedTuple):
    """What the broker gives its replica manager.

    `on_storage_error` is called with a log's failure, and takes the log's directory offline. `record` takes note of
    what the partitions decide. `wall_ms` is the time in milliseconds since 1970. `rack_of` turns the selection of read
    replicas by rack on. `throttle` bounds what followers are sent. `is_elsewhere` says whether the cluster has a
    partition of which nothing is here.
    """

    on_storage_error: Callable[[StorageError], None]
    record: RecordDecision = forget
    wall_ms: Callable[[], int] = lambda: 0
    rack_of: RackOf | None = None
    throttle: LeaderThrottle | None = None
    is_elsewhere: Callable[[str, int], bool] = lambda topic, index: False


class ReplicaManager:
    """All partitions hosted here. `rules` hold for each of them; who makes a `Partition` gives them to it.

    One class, because an append, a fetch, an order and the timer each change a partition that others wait for, and all
    must wake the same ones. What waits (`delayed_requests`), followers' fetches and ISR changes are beside it.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, ports: ReplicaPorts, rules: PartitionRules | None = None
    ) -> None:
        self.loop = loop
        self._is_elsewhere = ports.is_elsewhere
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._hosted_topics: dict[uuid.UUID | str, tuple[str, int]] = {}
        """Name and number of hosted partitions, by topic id; by name where a topic has none."""
        self._offline: set[TopicPartition] = set()
        self._unsettled: dict[Partition, None] = {}
        """What the timer looks at (I5)."""
        self._record = ports.record
        self._failures = ReadFailures(record=ports.record, on_storage_error=ports.on_storage_error)
        self._on_storage_error = ports.on_storage_error
        self._preferred_read_replica: Callable[[Partition, str, Offset], BrokerId | None] | None = None
        if ports.rack_of is not None:
            from kavka.replication.decide.replica_selector import (
                preferred_read_replica,
            )  # Late: few clusters use racks.

            self._preferred_read_replica = partial(preferred_read_replica, rack_of=ports.rack_of)
        self._clock_offset_ms = ports.wall_ms() - loop.time() * 1000
        self.rules = rules or PartitionRules()
        self.produce_purgatory: Purgatory[AppendOutcome] = Purgatory("Produce", loop)
        self.fetch_purgatory: Purgatory[list[FetchOutcome]] = Purgatory("Fetch", loop)
        self.delete_purgatory: Purgatory[DeleteOutcome] = Purgatory("DeleteRecords", loop)
        self.followers = FollowerFetches(
            loop,
            HostedPartitions(self._find, self._on_follower_moved, self._note_unsettled, self._failures, self.now_ms),
            is_prompt=ports.rack_of is not None,
            throttle=ports.throttle,
        )
        self.isr_changes = IsrChanges(wants=self._wants, on_answer=self._on_isr_answer)
        self.traffic = Traffic()

    def now_ms(self) -> int:
        """The clock that lags are measured on (I4)."""
        return int(self.loop.time() * 1000 + self._clock_offset_ms)

    # -- which partitions are here

    def partitions(self) -> Iterable[Partition]:
        return self._partitions.values()

    def partition(self, topic: str, index: int) -> Partition | None:
        """The hosted partition; None if it is not on this broker, or not online."""
        return self._partitions.get((topic, index))

    def require_partition(self, topic: str, index: int) -> Partition:
        """The hosted partition. Raises `RequestError` with the reason of its absence."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            raise RequestError(self.absence(topic, index))
        return partition

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        """The name of a topic that has a partition here. It is known before the cluster's metadata has it."""
        hosted = self._hosted_topics.get(topic_id)
        return None if hosted is None else hosted[0]

    def host(self, partition: Partition) -> None:
        former = self._partitions.get(partition.topic_partition)
        if former is not None:
            self._forget_topic_of(former)
        self._partitions[partition.topic_partition] = partition
        self._unsettled[partition] = None
        self._note_topic_of(partition)
        self._offline.discard(partition.topic_partition)

    def identify(self, partition: Partition, topic_id: uuid.UUID) -> None:
        """A hosted partition whose topic had no id gets one."""
        self._forget_topic_of(partition)
        partition.topic_id = topic_id
        self._note_topic_of(partition)
        self.followers.wake(partition)

    def _note_topic_of(self, partition: Partition) -> None:
        key = _topic_key(partition)
        name, count = self._hosted_topics.get(key, (partition.topic_partition.topic, 0))
        self._hosted_topics[key] = (name, count + 1)

    def _forget_topic_of(self, partition: Partition) -> None:
        key = _topic_key(partition)
        name, count = self._hosted_topics[key]
        if count > 1:
            self._hosted_topics[key] = (name, count - 1)
        else:
            del self._hosted_topics[key]
            self.traffic.forget(name)

    def unhost(self, topic_partition: TopicPartition) -> Partition | None:
        """Stops serving the partition. Requests that wait for it are answered with an error."""
        self._offline.discard(topic_partition)
        partition = self._partitions.pop(topic_partition, None)
        if partition is not None:
            self._forget_topic_of(partition)
            self._complete_waiting(partition)
        return partition

    def take_offline(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Marks partitions whose log directory failed. They answer KAFKA_STORAGE_ERROR from now on."""
        for topic_partition in topic_partitions:
            self._offline.add(topic_partition)
            partition = self._partitions.pop(topic_partition, None)
            if partition is not None:
                self._forget_topic_of(partition)
                self._complete_waiting(partition)

    @property
    def offline_count(self) -> int:
        """How many partitions were here whose log directory failed."""
        return len(self._offline)

    def is_offline(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition's log directory here failed."""
        return topic_partition in self._offline

    def absence(self, topic: str, index: int) -> ErrorCode:
        """Why a partition is not here. A client that is told NOT_LEADER_OR_FOLLOWER looks for the leader anew; of an
        unknown partition it tells the application."""
        if self.is_offline(TopicPartition(topic, index)):
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self._is_elsewhere(topic, index):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    # -- roles

    def lead(
        self,
        partition: Partition,
        state: LeaderAndIsr,
        replicas: tuple[BrokerId, ...],
        *,
        adding: tuple[BrokerId, ...] = (),
        removing: tuple[BrokerId, ...] = (),
        is_new: bool = False,
    ) -> LeadershipChange:
        """Makes the partition lead, and wakes the requests that this affects."""
        self.followers.wake(partition)
        change = partition.become_leader(
            state, replicas, adding=adding, removing=removing, now_ms=self.now_ms(), is_new=is_new
        )
        self._unsettled[partition] = None
        self._record_all(change.decisions)
        if not change.is_stale:
            self._complete_waiting(partition)
        return change

    def follow(
        self,
        partition: Partition,
        state: LeaderAndIsr,
        replicas: tuple[BrokerId, ...],
        *,
        adding: tuple[BrokerId, ...] = (),
        removing: tuple[BrokerId, ...] = (),
    ) -> FollowingChange:
        """Makes the partition follow, and answers the requests that wait for its leader."""
        self.followers.wake(partition)
        change = partition.become_follower(state, replicas, adding=adding, removing=removing, now_ms=self.now_ms())
        self._record_all(change.decisions)
        if not change.is_stale:
            self._complete_waiting(partition)
        return change

    def on_follower_advanced(self, partition: Partition) -> None:
        """The replica here follows, and its log or high watermark moved: a consumer may wait for it (KIP-392)."""
        if partition in self.fetch_purgatory.watched:
            self.fetch_purgatory.check(partition)

    # -- who is in sync

    async def run_isr_changes(self, writer: IsrWriter) -> None:
        """Sends ISR changes to be stored, until cancelled."""
        await self.isr_changes.run(writer)

    async def run_isr_expiration(self, lag_time_max_ms: int) -> None:
        """Checks for lagging followers twice per `lag_time_max_ms`, until cancelled."""
        while True:
            await asyncio.sleep(lag_time_max_ms / 2000)
            await self.shrink_isrs()

    async def shrink_isrs(self) -> None:
        """Proposes to take those who lag out of the ISRs of all partitions led here, and looks at what waits for a
        replica outside of the ISR that fetches no more, or at a leader that is none any more: nothing else would."""
        for number, partition in enumerate(list(self._unsettled), 1):
            if self._partitions.get(partition.topic_partition) is partition:
                self._look_at(partition, self.now_ms())
            if self._is_settled(partition):
                self._unsettled.pop(partition, None)
            if not number % PARTITIONS_AT_ONCE:
                await asyncio.sleep(0)

    def on_brokers_gone(self) -> None:
        """Brokers are alive no more: what waits for their replicas outside of the ISR goes on."""
        now_ms = self.now_ms()
        for partition in list(self._unsettled):
            is_hosted = self._partitions.get(partition.topic_partition) is partition
            if is_hosted and partition.raise_high_watermark(now_ms):
                self.on_high_watermark_advanced(partition)

    @property
    def unsettled_count(self) -> int:
        """How many partitions the timer's next look for who lags has to see (I5)."""
        return len(self._unsettled)

    def _look_at(self, partition: Partition, now_ms: int) -> None:
        resigned = partition.resign_if_fenced(now_ms)
        if resigned is not None:
            self._record_all(resigned.decisions)
            self._complete_waiting(partition)
        elif partition.raise_high_watermark(now_ms):
            self.on_high_watermark_advanced(partition)
        proposal = partition.propose_shrink(now_ms)
        if proposal is not None and self._find_hosted(proposal) is partition:
            self.isr_changes.submit(proposal)

    def _note_unsettled(self, partition: Partition) -> None:
        """A follower is behind. It may have had all records before: 1. it follows to the end, and the partition is
        settled; 2. its host loses power, and with it the end of its log; 3. it fetches from there."""
        self._unsettled[partition] = None

    def _is_settled(self, partition: Partition) -> bool:
        """Whether the next look would find nothing, unless an append, an order, or a fetch from before the end comes
        first: it is not led here, or all records are committed, and the whole ISR has them. A follower that has all of
        them does not lag, however long ago it fetched (I1 of lag_policy.py)."""
        if not partition.is_leader or self._partitions.get(partition.topic_partition) is not partition:
            return True
        if partition in self.produce_purgatory.watched or not isinstance(partition.isr_state, CommittedIsr):
            return False
        end_offset = partition.log.log_end_offset
        replicas = (partition.remote_replica(one) for one in partition.state.isr if one != partition.local_broker_id)
        # With all of them the high watermark may wait for a replica that is about to join, and readers for it.
        return partition.log.high_watermark == end_offset and all(
            replica is not None and replica.log_end_offset == end_offset for replica in replicas
        )

    def _find_hosted(self, proposal: IsrProposal) -> Partition | None:
        return self._partitions.get(proposal.topic_partition)

    def _wants(self, proposal: IsrProposal) -> bool:
        partition = self._find_hosted(proposal)
        return partition is not None and partition.wants(proposal)

    def _on_isr_answer(self, proposal: IsrProposal, answer: IsrAnswer) -> None:
        partition = self._find_hosted(proposal)
        if partition is None:
            return
        now_ms = self.now_ms()
        if partition.is_leader and partition.leader_epoch == proposal.leader_epoch:
            self._count(proposal, answer)
        match answer:
            case IsrCommitted(state):
                change = partition.on_isr_committed(proposal, state, now_ms=now_ms)
            case IsrRejected(error, current):
                self._unsettled[partition] = None  # It may say that the leader epoch is over.
                change = partition.on_isr_rejected(proposal, current, error, now_ms=now_ms)
            case IsrUnknown():
                change = partition.on_isr_unknown(proposal)
            case _:
                assert_never(answer)
        self._record_all(change.decisions)
        if change.isr_changed or change.lost_leadership:
            self._complete_waiting(partition)

    def _count(self, proposal: IsrProposal, answer: IsrAnswer) -> None:
        """Counts what became of a proposal. One of a former leader epoch counts as nothing, as in Kafka."""
        if isinstance(answer, IsrRejected):
            self.traffic.failed_isr_updates += 1
        elif isinstance(answer, IsrCommitted):
            if proposal.decision.kind is DecisionKind.ISR_SHRUNK:
                self.traffic.isr_shrinks += 1
            else:
                self.traffic.isr_expands += 1

    def _record_all(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            self._record(decision)

    def _on_follower_moved(self, partition: Partition, result: FollowerFetchResult) -> None:
        if result.high_watermark_advanced:
            self.on_high_watermark_advanced(partition)
        if result.log_start_moved and partition in self.delete_purgatory.watched:
            self.delete_purgatory.check(partition)
        if result.proposal is not None:
            self._unsettled[partition] = None
            self.isr_changes.submit(result.proposal)

    # -- appending

    def append(  # noqa: PLR0913 - called for every partition of every request: no value is made for its arguments
        self,
        topic: str,
        index: int,
        records: Buffer,
        *,
        required_acks: int,
        wall_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        topic_id: uuid.UUID | None = None,
    ) -> AppendOutcome:
        """Appends to one partition's log and returns at once, for any `required_acks`.

        With acks=all, the caller then calls `await_committed`. `wall_ms` is the time that the log may stamp the
        records with. `topic_id`: whose records they are, of which what is hosted may be a namesake.
        """
        partition = self._partitions.get((topic, index))
        if partition is None:
            return AppendOutcome(self.absence(topic, index))
        if topic_id is not None and partition.topic_id.int not in (topic_id.int, 0):
            return AppendOutcome(ErrorCode.UNKNOWN_TOPIC_ID)
        traffic = self.traffic.topics.get(topic) or self.traffic.of(topic)
        traffic.produces += 1
        try:
            result, advanced = partition.append_as_leader(
                records, required_acks=required_acks, now_ms=self.now_ms(), wall_ms=wall_ms, origin=origin
            )
        except RecordsError as refused:
            traffic.failed_produces += 1
            # Where the bytes as such are refused, nothing is said of the log, as in Kafka.
            known = NO_OFFSET if refused.code in _REFUSED_UNSEEN else partition.log.log_start_offset
            return AppendOutcome(
                refused.code, log_start_offset=known, message=refused.message, bad_records=refused.bad_records
            )
        except RequestError as refused:
            traffic.failed_produces += 1
            if isinstance(refused, PartitionRefusal):
                self._record_all(refused.decisions)
            return AppendOutcome(refused.code, message=refused.message or None)
        except StorageError as failure:
            traffic.failed_produces += 1
            self._on_storage_error(failure)
            return AppendOutcome(ErrorCode.KAFKA_STORAGE_ERROR)
        if not result.is_duplicate:
            traffic.messages_in += result.last_offset - result.first_offset + 1
            traffic.bytes_in += len(records)
        self.followers.on_append(partition)
        if advanced:
            self._on_committed(partition)  # Followers were woken above.
        else:
            self._unsettled[partition] = None
        log = partition.log
        flush = log if log.is_flush_asked_for else None
        first, last, log_append_time_ms, log_start_offset, _ = result
        return new_tuple(
            AppendOutcome, (NO_ERROR, first, log_append_time_ms, log_start_offset, None, (), last + 1, flush)
        )

    def is_committed(self, topic: str, index: int, outcome: AppendOutcome) -> bool:
        """Whether the append behind `outcome` needs no waiting: it failed, or the high watermark has passed it."""
        if outcome.error is not NO_ERROR:
            return True
        partition = self._partitions.get((topic, index))
        return (
            partition is not None
            and partition.log.high_watermark >= outcome.committed_at
            and partition.has_enough_replicas()
        )

    async def await_committed(self, topic: str, index: int, outcome: AppendOutcome, timeout_ms: int) -> AppendOutcome:
        """Waits until an acks=all append is committed. Returns `outcome`, or the error of the wait (I1)."""
        committed = self.when_committed(topic, index, outcome, timeout_ms)
        return committed if isinstance(committed, AppendOutcome) else await committed

    def when_committed(
        self, topic: str, index: int, outcome: AppendOutcome, timeout_ms: int
    ) -> AppendOutcome | asyncio.Future[AppendOutcome]:
        """What `await_committed` returns, where it is known already; else a future of it. Who waits for many appends
        needs no task for each."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            return AppendOutcome(self.absence(topic, index))
        operation = DelayedProduce(self, partition, outcome)
        answer = operation.try_complete(None)
        if answer is not None:
            return answer
        self._unsettled[partition] = None
        self.produce_purgatory.watch(operation, (partition,), timeout_ms)
        return operation.answer

    def on_high_watermark_advanced(self, partition: Partition) -> None:
        """Wakes all requests that wait for the partition's records to be committed."""
        self._on_committed(partition)
        self.followers.on_high_watermark_advanced(partition)

    def _on_committed(self, partition: Partition) -> None:
        if partition in self.produce_purgatory.watched:
            self.produce_purgatory.check(partition)
        if partition in self.fetch_purgatory.watched:
            self.fetch_purgatory.check(partition)

    def _complete_waiting(self, partition: Partition) -> None:
        self.produce_purgatory.check(partition)
        self.fetch_purgatory.check(partition)
        self.delete_purgatory.check(partition)
        self.followers.on_role_changed(partition)

    # -- deleting

    def on_log_start_moved(self, topic_partition: TopicPartition) -> None:
        """The log begins later than before: followers hear of it with their next answer."""
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            self.followers.wake(partition)

    async def await_deleted(self, partition: Partition, offset: Offset, timeout_ms: int) -> DeleteOutcome:
        """Waits until no replica on a live broker has records below `offset`, which the leader has deleted."""
        operation = DelayedDelete(self, partition, offset)
        answer = operation.try_complete(None)
        if answer is not None:
            return answer
        self.delete_purgatory.watch(operation, (partition,), timeout_ms)
        return await operation.answer

    # -- reading

    def fetch(
        self, params: FetchParams, specs: Sequence[FetchSpec]
    ) -> list[FetchOutcome] | DelayedOperation[list[FetchOutcome]]:
        """Reads for a consumer: at once if there is enough (or an error), else an operation that waits in
        `fetch_purgatory`. A follower serves consumers up to its own high watermark (KIP-392)."""
        outcomes = self.read(params, specs)
        if params.max_wait_ms <= 0 or not specs:
            return outcomes
        size_bytes = available_bytes = 0
        for outcome in outcomes:
            if (
                outcome.error is not NO_ERROR
                or outcome.diverging_epoch is not None
                or outcome.preferred_read_replica >= 0
            ):
                return outcomes
            size_bytes += outcome.size_bytes
            available_bytes += outcome.available_bytes
        if available_bytes >= params.min_bytes:
            return outcomes
        outcomes_alone = self._read_alone(params, outcomes, size_bytes)
        if any(outcome.error is not NO_ERROR for outcome in outcomes_alone):
            return self.read(params, specs)
        if sum(outcome.available_bytes for outcome in outcomes_alone) >= params.min_bytes:
            return outcomes
        operation = DelayedFetch(self, params, specs, outcomes_alone)
        keys = [self._partitions[spec.topic_partition] for spec in specs]
        self.fetch_purgatory.watch(operation, keys, params.max_wait_ms)
        return operation

    def _read_alone(
        self, params: FetchParams, outcomes: Sequence[FetchOutcome], size_bytes: int
    ) -> Sequence[FetchOutcome]:
        """What each partition could give if it were fetched alone.

        A batch that found no room behind those of other partitions is there all the same: who asks for 200 bytes and
        allows no more, of two partitions with a batch of 150 each, has nothing to wait for.
        """
        room = params.max_bytes - size_bytes
        if not size_bytes or all(outcome.spec.max_bytes <= room for outcome in outcomes):
            return outcomes
        return [
            outcome
            if outcome.size_bytes
            else self.read_partition(outcome.spec, outcome.spec.max_bytes, params, min_one_batch=True)
            for outcome in outcomes
        ]

    def read(self, params: FetchParams, specs: Sequence[FetchSpec]) -> list[FetchOutcome]:
        """Reads the partitions in order until `params.max_bytes` are used up (I2)."""
        remaining = params.max_bytes
        min_one_batch = True
        outcomes = []
        for spec in specs:
            outcome = self.read_partition(
                spec, min(spec.max_bytes, max(remaining, 0)), params, min_one_batch=min_one_batch
            )
            if outcome.size_bytes:
                min_one_batch = False
                remaining -= outcome.size_bytes
            outcomes.append(outcome)
        return outcomes

    def read_partition(
        self, spec: FetchSpec, max_bytes: int, params: FetchParams, *, min_one_batch: bool
    ) -> FetchOutcome:
        """Reads one partition for a consumer. The outcome holds errors."""
        partition = self._find(spec)
        if isinstance(partition, ErrorCode):
            return FetchOutcome(spec, partition)
        log = partition.log
        diverging = None
        try:
            if self._preferred_read_replica is not None and params.rack and partition.is_leader:
                preferred = self._preferred_read_replica(partition, params.rack, spec.fetch_offset)
                if preferred is not None:
                    partition.check_epoch(spec.current_leader_epoch)
                    return FetchOutcome(
                        spec,
                        NO_ERROR,
                        log.high_watermark,
                        log.last_stable_offset,
                        log.log_start_offset,
                        preferred_read_replica=preferred,
                    )
            if spec.last_fetched_epoch >= 0:
                if params.only_leader:
                    partition.check_leads(spec.current_leader_epoch)
                else:
                    partition.check_serves(spec.current_leader_epoch)
                diverging = divergence.diverging_epoch(log, spec.last_fetched_epoch, spec.fetch_offset)
            if diverging is not None:
                return FetchOutcome(
                    spec,
                    NO_ERROR,
                    log.high_watermark,
                    log.last_stable_offset,
                    log.log_start_offset,
                    diverging_epoch=diverging,
                )
            result = partition.read(
                spec.fetch_offset,
                max_bytes,
                current_leader_epoch=spec.current_leader_epoch,
                read_committed=params.read_committed,
                min_one_batch=min_one_batch,
                only_leader=params.only_leader,
            )
            chunks, size_bytes, next_offset, available = result
            aborted: Sequence[AbortedTransaction] | None = None
            if params.read_committed:
                # Without a record there is nothing to be skipped, and with an open transaction as much to be looked at.
                aborted = self._aborted(partition, spec.fetch_offset, next_offset) if size_bytes else ()
        except READ_FAILURES as failure:
            return self._failures.outcome(spec, failure)
        offsets = (log.high_watermark, log.last_stable_offset, log.log_start_offset)
        rest = (chunks, size_bytes, None, aborted, NO_LEADER, available)
        return new_tuple(FetchOutcome, (spec, NO_ERROR, *offsets, *rest))

    def _find(self, spec: FetchSpec) -> Partition | ErrorCode:
        """The hosted partition that a fetch names, or why it cannot be served."""
        partition = self._partitions.get(spec.topic_partition)
        if partition is None:
            return self.absence(*spec.topic_partition)
        topic_id = spec.topic_id.int  # A UUID compares itself in Python, for each partition of each fetch.
        if topic_id and topic_id != partition.topic_id.int:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        return partition

    def _aborted(self, partition: Partition, offset: Offset, end_offset: Offset) -> list[AbortedTransaction]:
        found = partition.log.aborted_transactions(offset, end_offset)
        return [AbortedTransaction(entry.producer_id, entry.first_offset) for entry in found]

    def fetch_as_follower(
        self,
        params: FetchParams,
        specs: Sequence[FetchSpec],
        replica_id: BrokerId,
        broker_epoch: int,
        idle: IdlePartitions | None = None,
    ) -> list[FetchOutcome] | DelayedOperation[list[FetchOutcome]]:
        """Reads for the replica on another broker, and records its position: see `FollowerFetches`."""
        return self.followers.fetch(params, specs, replica_id, broker_epoch, idle)

    def cancel_fetch(self, operation: DelayedOperation[list[FetchOutcome]]) -> None:
        """Removes a waiting fetch whose client or follower has disconnected."""
        purgatory = self.fetch_purgatory if isinstance(operation, DelayedFetch) else self.followers.purgatory
        purgatory.cancel(operation)

    # -- the end

    def shut_down(self) -> None:
        """Answers all waiting requests. Those that are not committed get REQUEST_TIMED_OUT, as on expiry."""
        self.produce_purgatory.expire_all()
        self.fetch_purgatory.expire_all()
        self.delete_purgatory.expire_all()
        self.followers.purgatory.expire_all()


def _topic_key(partition: Partition) -> uuid.UUID | str:
    """The zero id, of controllers that know no topic ids, is no topic's own."""
    return partition.topic_id if partition.topic_id.int else partition.topic_partition.topic
