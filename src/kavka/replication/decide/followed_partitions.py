"""FollowedPartitions: what one fetcher follows, its next request, and what each answer does to the logs.

Decides which partitions a Fetch names, what every part of an answer does, and when to look at a partition again. It
holds the states (`fetch_state`) and the session (`follower_session`), appends to logs and truncates them. Must not know
connections, tasks or clocks: the caller gives `now_ms`, from one clock that never goes back.

    I1  the cost of a request depends on the changes since the last one, not on the number of partitions
    I2  bytes go from the answer's frame into the log as they are: one view, no copy, no work per record
    I3  an answer changes a partition in the same step that checks that the partition has not changed since the request
    I4  an error of one partition's log or records stops or delays that partition only
    I5  if something in an answer was not taken over, a request that names all partitions asks for it again: the
        leader's session counts a high watermark as sent even if it came with a truncation, or too late for an epoch

Source: Kafka's AbstractFetcherThread and ReplicaFetcherThread, 3.9.
"""

from __future__ import annotations

import heapq
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from kavka.decisions import Decision, DecisionKind, Fact, RecordDecision, forget
from kavka.errors import ErrorCode, RecordsError, StorageError
from kavka.logger import Logger
from kavka.model import BrokerId, LeaderEpoch, Offset, TopicPartition
from kavka.protocol.messages.fetch_request import FetchRequest, ReplicaState
from kavka.protocol.messages.fetch_response import FetchResponse, PartitionData
from kavka.protocol.messages.list_offsets_response import ListOffsetsResponse
from kavka.protocol.messages.offset_for_leader_epoch_response import OffsetForLeaderEpochResponse
from kavka.records.batch import batch_at
from kavka.replication.decide.fetch_state import FetchState, Stage, Truncation
from kavka.replication.decide.fetch_versions import (
    FIRST_FETCH_WITH_REPLICA_STATE,
    FIRST_FETCH_WITH_TOPIC_IDS,
    LAST_FETCH_BY_NAME,
    fetch_versions,
)
from kavka.replication.decide.follower_session import FollowerSession, SessionRequest, Wanted
from kavka.replication.decide.leader_questions import epoch_answers, offset_answers
from kavka.replication.decide.partition import Partition, Role
from kavka.replication.decide.partition_results import EpochEndOffset
from kavka.replication.decide.throttle import Throttle

if TYPE_CHECKING:
    from kavka.log.unified_log import UnifiedLog

logger = Logger(__name__)
Key = TypeVar("Key")

_PASSING: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
"""Refusals of a leader that has not heard yet that it is one."""
ASKED_AT_ONCE: Final = 1_000
"""Partitions in one ListOffsets or OffsetForLeaderEpoch request."""


class ReplicaLogs(Protocol):
    """Truncation with its checkpoints (`log.log_manager`). Both raise `StorageError`."""

    def truncate_to(self, partition: TopicPartition, offset: Offset, now_ms: int) -> bool: ...

    def truncate_fully_and_start_at(
        self, partition: TopicPartition, offset: Offset, now_ms: int, *, log_start_offset: Offset | None = None
    ) -> None: ...


class FetcherSettings(NamedTuple):
    """Kafka's settings of the same names; times in milliseconds, sizes in bytes."""

    num_replica_fetchers: int = 1
    wait_max_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 1024 * 1024
    response_max_bytes: int = 10 * 1024 * 1024
    backoff_ms: int = 1_000
    socket_timeout_ms: int = 30_000
    inter_broker_protocol_version: str = "3.9-IV0"


def _ignore(*_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class LocalPorts:
    """What fetchers need of their own broker.

    `broker_epoch` is that of the present registration. `on_high_watermark_advanced` wakes consumers that wait at a
    follower. `on_storage_error` takes a log's directory offline. `throttle` is the follower's side of the replication
    quota.
    """

    logs: ReplicaLogs
    broker_id: BrokerId
    broker_epoch: Callable[[], int]
    wall_ms: Callable[[], int]
    throttle: Throttle
    on_high_watermark_advanced: Callable[[Partition], None] = _ignore
    on_storage_error: Callable[[StorageError], None] = _ignore
    record: RecordDecision = forget


class FetcherCounts:
    """What the fetchers of a broker count, together."""

    __slots__ = ("fetches", "truncations", "truncations_below_high_watermark")

    def __init__(self) -> None:
        self.fetches = 0
        self.truncations = 0
        self.truncations_below_high_watermark = 0
        """Each of them an unclean election, or a loss (R11)."""


class FollowedPartitions:
    """The partitions that one fetcher follows at one leader."""

    def __init__(
        self, leader_id: BrokerId, ports: LocalPorts, settings: FetcherSettings, counts: FetcherCounts
    ) -> None:
        self.settings = settings
        """May be replaced at any time; the next request obeys."""
        self.versions = fetch_versions(settings.inter_broker_protocol_version)
        self._leader_id = leader_id
        self._ports = ports
        self._counts = counts
        self._states: dict[TopicPartition, FetchState] = {}
        """In the order in which a full request names them."""
        self._by_name: dict[str, dict[int, FetchState]] = {}
        self._by_id: dict[uuid.UUID, dict[int, FetchState]] = {}
        self._changed: dict[TopicPartition, None] = {}
        """Partitions of which the leader's session may hold something else than it should."""
        self._asking: dict[TopicPartition, None] = {}
        self._delayed: list[tuple[int, TopicPartition]] = []
        """A heap of (time, partition): when to look at it again."""
        self._left_out: dict[TopicPartition, None] = {}
        """Partitions that are not fetched because their quota is used up."""
        self._was_exceeded = False
        self._lists_seen = 0
        """Of `Throttle.lists_set`, with the last request."""
        self._session = FollowerSession(may_use_topic_ids=self.versions.fetch >= FIRST_FETCH_WITH_TOPIC_IDS)

    # -- what is followed

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[FetchState]:
        return iter(self._states.values())

    def get(self, topic_partition: TopicPartition) -> FetchState | None:
        return self._states.get(topic_partition)

    def follow(self, partition: Partition, leader_epoch: LeaderEpoch, now_ms: int) -> None:
        """Follows the partitions in that leader epoch. A partition that is already followed in it continues
        unchanged."""
        topic_partition = partition.topic_partition
        known = self._states.get(topic_partition)
        if (
            known is not None
            and known.partition is partition
            and known.leader_epoch == leader_epoch
            and known.topic_id == partition.topic_id
            and known.stage is not Stage.FAILED
        ):
            return
        self.unfollow(topic_partition)
        state = FetchState(partition, leader_epoch, truncates_on_fetch=self.versions.truncates_on_fetch)
        self._states[topic_partition] = state
        topic, index = topic_partition
        self._by_name.setdefault(topic, {})[index] = state
        if state.topic_id.int:
            self._by_id.setdefault(state.topic_id, {})[index] = state
        truncation = state.begin()
        if truncation is None:
            self._note(state)
        else:
            self._truncate(state, truncation, now_ms)

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Stops appending, even if an answer is still to come."""
        state = self._states.pop(topic_partition, None)
        if state is None:
            return
        topic, index = topic_partition
        _remove(self._by_name, topic, index)
        _remove(self._by_id, state.topic_id, index)
        self._asking.pop(topic_partition, None)
        self._left_out.pop(topic_partition, None)
        self._changed[topic_partition] = None

    def on_log_start_moved(self, topic_partition: TopicPartition) -> None:
        """Retention deleted records here. The leader is told, which knows the log start of a follower from its
        requests alone: a DeleteRecords waits for it, and consumers are sent to followers by it."""
        if topic_partition in self._states:
            self._changed[topic_partition] = None

    def clear(self) -> None:
        """`unfollow` for all."""
        self._changed.update(dict.fromkeys(self._states))
        for table in (self._states, self._by_name, self._by_id, self._asking, self._left_out):
            table.clear()

    def _note(self, state: FetchState) -> None:
        """A partition's state changed: so does what is to be asked about it."""
        topic_partition = state.topic_partition
        self._changed[topic_partition] = None
        if state.stage in (Stage.ASKING_EPOCH, Stage.ASKING_OFFSETS):
            self._asking[topic_partition] = None
        else:
            self._asking.pop(topic_partition, None)
        if state.delayed_until_ms:
            heapq.heappush(self._delayed, (state.delayed_until_ms, topic_partition))

    # -- what is due

    def look(self, now_ms: int) -> None:
        """Asks about delayed partitions again when their time has come. Call it before each request."""
        delayed = self._delayed
        while delayed and delayed[0][0] <= now_ms:
            self._changed[heapq.heappop(delayed)[1]] = None
        throttle = self._ports.throttle
        if self._left_out and (throttle.lists_set != self._lists_seen or not throttle.is_exceeded(now_ms)):
            self._changed.update(self._left_out)
            self._left_out.clear()

    def next_look_ms(self, now_ms: int) -> int | None:
        """Milliseconds until a delayed partition is asked for again, or one that is left out is looked at; None if
        there is none."""
        if self._asking and any(self._states[topic_partition].is_ready(now_ms) for topic_partition in self._asking):
            return 0
        waits_ms = [self._delayed[0][0] - now_ms] if self._delayed else []
        if self._left_out:
            # An operator may raise the quota, or lift it, long before it would be free again.
            waits_ms.append(min(self._ports.throttle.free_in_ms(now_ms), self.settings.backoff_ms))
        return max(0, min(waits_ms)) if waits_ms else None

    def has_work(self, now_ms: int) -> bool:
        """Whether there is anything to ask the leader now."""
        return any(state.is_ready(now_ms) for state in self._states.values())

    def asking(self, stage: Stage, now_ms: int) -> list[FetchState]:
        """The partitions that need another question before a fetch, as many as fit in a request."""
        if not self._asking:
            return []
        states = (self._states[topic_partition] for topic_partition in self._asking)
        return [state for state in states if state.stage is stage and state.is_ready(now_ms)][:ASKED_AT_ONCE]

    # -- the next request

    def next_request(self, now_ms: int) -> FetchRequest | None:
        """The next Fetch; None if there is nothing to fetch now. Its version is `fetch_version`."""
        session, throttle = self._session, self._ports.throttle
        is_exceeded = throttle.is_limited and throttle.is_exceeded(now_ms)
        if is_exceeded and not (self._was_exceeded and throttle.lists_set == self._lists_seen):
            self._look_at_throttled()
        self._was_exceeded, self._lists_seen = is_exceeded, throttle.lists_set
        changes: dict[TopicPartition, Wanted | None] = {}
        if not session.is_full_next:
            for topic_partition in self._changed:
                changes[topic_partition] = self._wanted(topic_partition, now_ms, is_exceeded=is_exceeded)
        if session.suits(changes):
            part = session.incremental(changes)
        else:
            everything = (
                (topic_partition, self._wanted(topic_partition, now_ms, is_exceeded=is_exceeded))
                for topic_partition in self._states
            )
            part = session.full({topic_partition: wanted for topic_partition, wanted in everything if wanted})
        self._changed.clear()
        if not session.held:
            session.on_lost()
            return None
        return self._request(part, now_ms)

    @property
    def fetch_version(self) -> int:
        """The version of the last request."""
        return self.versions.fetch if self._session.by_topic_id else min(self.versions.fetch, LAST_FETCH_BY_NAME)

    def on_lost(self) -> None:
        """No answer came, or another connection begins."""
        self._session.on_lost()

    def _look_at_throttled(self) -> None:
        for topic_partition in self._states:
            if self._ports.throttle.is_throttled(topic_partition):
                self._changed[topic_partition] = None

    def _wanted(self, topic_partition: TopicPartition, now_ms: int, *, is_exceeded: bool) -> Wanted | None:
        state = self._states.get(topic_partition)
        if state is None or not state.is_due(now_ms):
            return None
        if is_exceeded and not state.is_caught_up and self._ports.throttle.is_throttled(topic_partition):
            self._left_out[topic_partition] = None
            return None
        return Wanted(
            state.topic_id,
            state.fetch_offset,
            state.leader_epoch,
            state.last_fetched_epoch if state.truncates_on_fetch else -1,
            state.partition.log.log_start_offset,
            self.settings.max_bytes,
        )

    def _request(self, part: SessionRequest, now_ms: int) -> FetchRequest:
        settings, next_look_ms = self.settings, self.next_look_ms(now_ms)
        request = FetchRequest(
            max_wait_ms=settings.wait_max_ms if next_look_ms is None else min(settings.wait_max_ms, next_look_ms),
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=part.session_id,
            session_epoch=part.session_epoch,
            topics=part.topics,
            forgotten_topics_data=part.forgotten,
        )
        if part.by_topic_id and self.versions.fetch >= FIRST_FETCH_WITH_REPLICA_STATE:
            request.replica_state = ReplicaState(
                replica_id=self._ports.broker_id, replica_epoch=self._ports.broker_epoch()
            )
        else:
            request.replica_id = self._ports.broker_id
        return request

    # -- taking answers

    def take(self, answer: FetchResponse, now_ms: int) -> bool:
        """Carries out the answer to the last request. False: the leader refused the whole request, for now."""
        session = self._session
        if answer.error_code:
            was_full = session.is_full_next
            session.on_error(answer.error_code)
            logger.debug("fetch refused", leader=self._leader_id, error=answer.error_code)
            # A session that was refused is made anew at once. What names everything is refused by the broker itself.
            return not was_full
        session.on_answer(answer.session_id)
        held, by_id = session.held, session.by_topic_id
        for topic in answer.responses:
            states = self._by_id.get(topic.topic_id) if by_id else self._by_name.get(topic.topic)
            if states is None:
                continue
            for data in topic.partitions:
                state = states.get(data.partition_index)
                if state is None:
                    continue
                asked = held.get(state.topic_partition)
                if (
                    asked is None
                    or asked.fetch_offset != state.fetch_offset
                    or asked.leader_epoch != state.leader_epoch
                    or state.stage is not Stage.FETCHING
                    or not self._is_current(state)
                ):
                    # An answer to a question that is not the present one (KAFKA-7786).
                    session.on_lost()
                    continue
                self._take_partition(state, data, now_ms)
        return True

    def take_epoch_ends(self, asked: Sequence[FetchState], answer: OffsetForLeaderEpochResponse, now_ms: int) -> None:
        """Where the last epochs of those asked about end at the leader."""
        for state, error, end in epoch_answers(asked, answer):
            if self._still_asks(state, Stage.ASKING_EPOCH):
                if error:
                    self._on_error(state, error, now_ms)
                else:
                    self._truncate(state, state.on_epoch_end(end), now_ms)

    def take_leader_ends(
        self, asked: Sequence[FetchState], answer: ListOffsetsResponse, now_ms: int
    ) -> list[FetchState]:
        """Where the leader's logs end. Returns those of which the begin must be known too."""
        longer = []
        for state, error, end_offset in offset_answers(asked, answer):
            if not self._still_asks(state, Stage.ASKING_OFFSETS):
                continue
            if error:
                self._on_error(state, error, now_ms)
            elif (truncation := state.on_leader_end(end_offset)) is not None:
                self._truncate(state, truncation, now_ms)
            else:
                longer.append(state)
        return longer

    def take_leader_starts(self, asked: Sequence[FetchState], answer: ListOffsetsResponse, now_ms: int) -> None:
        """Where the leader's logs begin."""
        for state, error, start_offset in offset_answers(asked, answer):
            if self._still_asks(state, Stage.ASKING_OFFSETS):
                if error:
                    self._on_error(state, error, now_ms)
                else:
                    self._truncate(state, state.on_leader_start(start_offset), now_ms)

    def _still_asks(self, state: FetchState, stage: Stage) -> bool:
        return self._states.get(state.topic_partition) is state and state.stage is stage and self._is_current(state)

    def _is_current(self, state: FetchState) -> bool:
        """Whether the partition still is what its state was made for: another epoch may be on its way here."""
        partition = state.partition
        return partition.role is Role.FOLLOWER and partition.leader_epoch == state.leader_epoch

    def _take_partition(self, state: FetchState, data: PartitionData, now_ms: int) -> None:
        if data.error_code:
            self._on_error(state, data.error_code, now_ms)
            return
        diverging = data.diverging_epoch
        if diverging is not None and diverging.epoch >= 0:
            self._truncate(state, state.on_diverging(EpochEndOffset(diverging.epoch, diverging.end_offset)), now_ms)
            # Its high watermark is not taken over (KAFKA-14704), and would not be sent again (I5).
            self._session.on_lost()
            return
        partition, log = state.partition, state.partition.log
        high_watermark = data.high_watermark
        records = data.records
        if records:
            assert isinstance(records, memoryview), "what was decoded is a view of its frame"
            try:
                if log.log_start_offset == log.log_end_offset:
                    self._begin_with(log, records)
                appended = partition.append_as_follower(
                    records, leader_epoch=state.leader_epoch, wall_ms=self._ports.wall_ms()
                )
            except RecordsError as refused:
                self._on_bad_records(state, str(refused), now_ms)
                return
            except StorageError as failure:
                self._on_storage_error(state, failure)
                return
            if appended is None:
                why = f"{len(records)} bytes begin with no whole batch of leader epoch {state.leader_epoch} or before"
                self._on_bad_records(state, why, now_ms)
                return
            state.on_records(log.log_end_offset, log.latest_epoch, high_watermark)
            self._changed[state.topic_partition] = None
            # To the end of the line: where the leader keeps no session, the next request names them in this order.
            self._states[state.topic_partition] = self._states.pop(state.topic_partition)
            throttle = self._ports.throttle
            if throttle.is_limited and throttle.is_throttled(state.topic_partition):
                throttle.record(len(records), now_ms)
        else:
            state.on_records(state.fetch_offset, log.latest_epoch, high_watermark)
        if partition.set_follower_high_watermark(high_watermark):
            self._ports.on_high_watermark_advanced(partition)
        if data.log_start_offset > log.log_start_offset and partition.advance_log_start(data.log_start_offset):
            self._changed[state.topic_partition] = None

    def _begin_with(self, log: UnifiedLog, records: memoryview) -> None:
        """An empty log begins with the first of these batches, if it is to begin in its middle.

        If DeleteRecords moved the leader's log start into a batch, the leader keeps the batch and sends it whole to
        everyone who fetches from that offset. A new follower would refuse it for ever, because it begins before its own
        log. So its log start moves to the leader's after the batch is appended. Raises `CorruptRecords` or
        `StorageError`.
        """
        first = batch_at(records)
        if first is None or not first.header.base_offset < log.log_end_offset <= first.header.last_offset:
            return
        if first.crc_is_right():
            logs, wall_ms = self._ports.logs, self._ports.wall_ms()
            logs.truncate_fully_and_start_at(log.topic_partition, first.header.base_offset, wall_ms)

    def _on_error(self, state: FetchState, number: int, now_ms: int) -> None:
        code = _error_code(number)
        before = state.last_error
        state.on_error(code, backoff_ms=self.settings.backoff_ms, now_ms=now_ms)
        self._note(state)
        if state.stage is Stage.FAILED:
            self._on_fenced(state)
        elif state.last_error != before:
            # At every election the orders to the leader and to its followers may arrive in either order.
            (logger.debug if code in _PASSING else logger.info)(
                "fetch refused",
                partition=str(state.topic_partition),
                leader=self._leader_id,
                leader_epoch=state.leader_epoch,
                fetch_offset=state.fetch_offset,
                error=code.name,
                again_in_ms=max(0, state.delayed_until_ms - now_ms),
            )

    def _on_fenced(self, state: FetchState) -> None:
        self._record(
            state,
            DecisionKind.FENCED,
            f"broker {self._leader_id} knows a later leader epoch than {state.leader_epoch}: this broker fetches "
            "nothing until the controller announces it here",
            {"fetch_offset": state.fetch_offset, "leader": self._leader_id},
        )

    def _on_bad_records(self, state: FetchState, why: str, now_ms: int) -> None:
        state.delay(why, backoff_ms=self.settings.backoff_ms, now_ms=now_ms)
        self._note(state)
        logger.error(
            "records from the leader not appended",
            partition=str(state.topic_partition),
            leader=self._leader_id,
            fetch_offset=state.fetch_offset,
            why=why,
            next_step="they are fetched again; if this goes on, check the leader's disk",
        )

    def _on_storage_error(self, state: FetchState, failure: StorageError) -> None:
        state.fail(str(failure))
        self._note(state)
        self._ports.on_storage_error(failure)

    # -- truncation

    def _truncate(self, state: FetchState, truncation: Truncation | None, now_ms: int) -> None:
        """Truncates the log as its state demands, and continues."""
        if truncation is not None:
            log, topic_partition = state.partition.log, state.topic_partition
            before, latest_epoch, high_watermark = log.log_end_offset, log.latest_epoch, log.high_watermark
            wall_ms = self._ports.wall_ms()
            try:
                if truncation.restarts:
                    self._ports.logs.truncate_fully_and_start_at(topic_partition, truncation.offset, wall_ms)
                else:
                    self._ports.logs.truncate_to(topic_partition, truncation.offset, wall_ms)
            except StorageError as failure:
                self._on_storage_error(state, failure)
                return
            if (before, latest_epoch) != (log.log_end_offset, log.latest_epoch):
                self._on_truncated(state, truncation, before, high_watermark)
        state.on_truncated(truncation, backoff_ms=self.settings.backoff_ms, now_ms=now_ms)
        self._note(state)

    def _on_truncated(self, state: FetchState, truncation: Truncation, before: Offset, high_watermark: Offset) -> None:
        log, counts = state.partition.log, self._counts
        counts.truncations += 1
        is_loss = log.log_end_offset < high_watermark
        if is_loss:
            counts.truncations_below_high_watermark += 1
            logger.warning(
                "committed records truncated",
                partition=str(state.topic_partition),
                leader=self._leader_id,
                leader_epoch=state.leader_epoch,
                high_watermark=high_watermark,
                log_end_offset=before,
                truncated_to=log.log_end_offset,
                why=truncation.why,
            )
        why = truncation.why
        if log.log_end_offset == before:
            why += "; no record is removed, only an epoch without records"
        self._record(
            state,
            DecisionKind.LOG_TRUNCATED,
            why,
            {**truncation.evidence, "leader": self._leader_id, "below_high_watermark": is_loss},
            before={"log_end_offset": before, "high_watermark": high_watermark},
            after={
                "log_end_offset": log.log_end_offset,
                "high_watermark": log.high_watermark,
                "latest_epoch": log.latest_epoch,
            },
        )

    def _record(
        self,
        state: FetchState,
        kind: DecisionKind,
        why: str,
        evidence: dict[str, Fact],
        *,
        before: dict[str, Fact] | None = None,
        after: dict[str, Fact] | None = None,
    ) -> None:
        self._ports.record(
            Decision(
                kind,
                self._ports.wall_ms(),
                self._ports.broker_id,
                why,
                partition=state.topic_partition,
                leader_epoch=state.leader_epoch,
                before=before or {},
                after=after or {},
                evidence=evidence,
            )
        )


def _remove(table: dict[Key, dict[int, FetchState]], key: Key, index: int) -> None:
    states = table.get(key)
    if states is not None:
        states.pop(index, None)
        if not states:
            del table[key]


def _error_code(number: int) -> ErrorCode:
    """A code that this version does not know counts as UNKNOWN_SERVER_ERROR."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
