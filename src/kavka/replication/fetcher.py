"""ReplicaFetcher: follows one leader broker: asks it for records, again and again, and appends what comes.

The flow around `fetch_state` (what an answer means for a partition) and `follower_session` (what the next request
says). It connects, asks, hands answers on, carries truncations out, and tells those above what moved. Must not know
which partitions belong to which fetcher, or why.

    I1  one request is in flight at a time; the next one starts where the logs end by then
    I2  bytes go from the answer's frame into the log as they are: one view, no copy, no work per record
    I3  a connection that fails is made again after a pause: RECONNECT_MS, doubled up to RECONNECT_LIMIT_MS while nobody
        listens there (a broker that is starting is found soon), up to replica.fetch.backoff.ms otherwise
    I4  what the own disk refuses ends the partition here, and nobody else's fetches

A request waits at the leader for up to replica.fetch.wait.max.ms. Partitions that are to be followed meanwhile, after
the death of another leader as a rule, would wait as long. So a request that has waited for IMPATIENCE_MS by then is
given up: its connection is closed, and the next request names all. (Apache Kafka lets them wait.)

Source: Kafka's AbstractFetcherThread, ReplicaFetcherThread, RemoteLeaderEndPoint, 3.9.
"""

from __future__ import annotations

import asyncio
import heapq
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kavka.decisions import Decision, DecisionKind, Fact, RecordDecision, forget
from kavka.errors import ConnectionFailed, ConnectionRefused, ErrorCode, RecordsError, StorageError
from kavka.logger import Logger
from kavka.model import BrokerId, LeaderEpoch, Offset, TopicPartition
from kavka.network import Network
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages.fetch_request import FetchRequest, ReplicaState
from kavka.protocol.messages.fetch_response import FetchResponse, PartitionData
from kavka.protocol.messages.list_offsets_response import ListOffsetsResponse
from kavka.protocol.messages.offset_for_leader_epoch_response import OffsetForLeaderEpochResponse
from kavka.protocol.peer import PeerConnection
from kavka.replication.fetch_state import FetchState, Stage, Truncation
from kavka.replication.fetch_versions import (
    FIRST_FETCH_WITH_REPLICA_STATE,
    FIRST_FETCH_WITH_TOPIC_IDS,
    LAST_FETCH_BY_NAME,
    FetchVersions,
    fetch_versions,
)
from kavka.replication.follower_session import FollowerSession, SessionRequest, Wanted
from kavka.replication.leader_questions import (
    EARLIEST,
    LATEST,
    epoch_answers,
    epoch_question,
    offset_answers,
    offset_question,
)
from kavka.replication.partition import EpochEndOffset, Partition, Role
from kavka.replication.throttle import Throttle

if TYPE_CHECKING:
    from kavka.config.broker import BrokerConfig

logger = Logger(__name__)

RECONNECT_MS: Final = 10
RECONNECT_LIMIT_MS: Final = 100
CONNECT_TIMEOUT_MS: Final = 1_000
"""A host that is back from a cut is asked anew at least so often; a connection attempt alone asks ever more rarely."""
ANSWER_GRACE_MS: Final = 5_000
"""What a leader may take longer than the wait that it was allowed, before its silence counts as a failure. Kafka waits
for replica.socket.timeout.ms (30 s), which bounds it here too."""
IMPATIENCE_MS: Final = 10
ASKED_AT_ONCE: Final = 1_000
"""Partitions in one ListOffsets or OffsetForLeaderEpoch request."""


class Endpoint(Protocol):
    """Where a broker's inter-broker listener is reached."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


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

    @classmethod
    def of(cls, config: BrokerConfig) -> FetcherSettings:
        return cls(
            num_replica_fetchers=config.num_replica_fetchers,
            wait_max_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_max_bytes,
            response_max_bytes=config.replica_fetch_response_max_bytes,
            backoff_ms=config.replica_fetch_backoff_ms,
            socket_timeout_ms=config.replica_socket_timeout_ms,
            inter_broker_protocol_version=config.inter_broker_protocol_version,
        )


def _ignore(*_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class FetcherPorts:
    """What all fetchers of a broker need of it.

    `broker_epoch` is that of the present registration. `on_high_watermark_advanced` wakes consumers that wait at a
    follower. `on_storage_error` takes a log's directory offline. `on_bug` is told of a fetcher that ended by a mistake
    of ours. `throttle` is the follower's side of the replication quota.
    """

    loop: asyncio.AbstractEventLoop
    network: Network
    logs: ReplicaLogs
    broker_id: BrokerId
    broker_epoch: Callable[[], int]
    wall_ms: Callable[[], int]
    throttle: Throttle
    on_high_watermark_advanced: Callable[[Partition], None] = _ignore
    on_storage_error: Callable[[StorageError], None] = _ignore
    on_bug: Callable[[BaseException], None] = _ignore
    record: RecordDecision = forget


class FetcherCounts:
    """What the fetchers of a broker count, together."""

    __slots__ = ("fetches", "truncations", "truncations_below_high_watermark")

    def __init__(self) -> None:
        self.fetches = 0
        self.truncations = 0
        self.truncations_below_high_watermark = 0
        """Each of them an unclean election, or a loss (R11)."""


class ReplicaFetcher:
    """One fetcher. It runs from the first partition on until `close`."""

    def __init__(
        self,
        leader_id: BrokerId,
        number: int,
        endpoint: Endpoint | None,
        ports: FetcherPorts,
        settings: FetcherSettings,
        counts: FetcherCounts,
    ) -> None:
        """`endpoint` is None where the leader's is not known yet."""
        self.leader_id = leader_id
        self.settings = settings
        """May be replaced at any time; the next request obeys."""
        self._number = number
        self._endpoint = endpoint
        self._ports = ports
        self._counts = counts
        self._versions: FetchVersions = fetch_versions(settings.inter_broker_protocol_version)
        self._states: dict[TopicPartition, FetchState] = {}
        self._by_name: dict[str, dict[int, FetchState]] = {}
        self._by_id: dict[uuid.UUID, dict[int, FetchState]] = {}
        self._changed: dict[TopicPartition, None] = {}
        """Partitions of which the leader's session may hold something else than it should."""
        self._asking: dict[TopicPartition, None] = {}
        self._delayed: list[tuple[int, TopicPartition]] = []
        """A heap of (time, partition): when to look at it again."""
        self._session = FollowerSession(may_use_topic_ids=self._versions.fetch >= FIRST_FETCH_WITH_TOPIC_IDS)
        self._connection: PeerConnection | None = None
        self._throttled_until_ms = 0
        """When throttled partitions that are left out may be asked for again; 0 while none is."""
        self._wake = asyncio.Event()
        self._failures = 0
        """Connections lost or not come about since the last answer."""
        self._in_flight = 0
        """Number of the fetch that is in flight, 0 for none."""
        self._given_up = 0
        """Number of the last fetch that was given up."""
        self._fetches = 0
        self._task: asyncio.Task[None] | None = None

    # -- what is followed

    def __len__(self) -> int:
        return len(self._states)

    def state(self, topic_partition: TopicPartition) -> FetchState | None:
        return self._states.get(topic_partition)

    def states(self) -> Iterable[FetchState]:
        return self._states.values()

    @property
    def is_failing(self) -> bool:
        """Whether the leader was not reached at the last attempt."""
        return self._failures > 0

    def follow(self, partitions: Sequence[tuple[Partition, LeaderEpoch]]) -> None:
        """Fetches the partitions from now on, in the leader epochs given. One that is fetched in that epoch stays."""
        for partition, leader_epoch in partitions:
            topic_partition = partition.topic_partition
            known = self._states.get(topic_partition)
            if (
                known is not None
                and known.partition is partition
                and known.leader_epoch == leader_epoch
                and known.stage is not Stage.FAILED
            ):
                continue
            self._drop(topic_partition)
            state = FetchState(partition, leader_epoch, truncates_on_fetch=self._versions.truncates_on_fetch)
            self._states[topic_partition] = state
            topic, index = topic_partition
            self._by_name.setdefault(topic, {})[index] = state
            if state.topic_id.int:
                self._by_id.setdefault(state.topic_id, {})[index] = state
            truncation = state.begin()
            if truncation is None:
                self._note(state)
            else:
                self._truncate(state, truncation)
        if self._task is None:
            self._task = self._ports.loop.create_task(
                self._run(), name=f"fetcher {self._number} from broker {self.leader_id}"
            )
            self._task.add_done_callback(self._on_done)
        self._wake.set()
        if self._in_flight:
            self._ports.loop.call_later(IMPATIENCE_MS / 1000, self._give_up, self._in_flight)

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Appends nothing to the partition any more, whatever is on its way."""
        self._drop(topic_partition)
        self._wake.set()

    def set_endpoint(self, endpoint: Endpoint, *, is_new: bool) -> None:
        """Where the leader is reached. `is_new`: it was not known, or elsewhere, before: it is tried at once."""
        self._endpoint = endpoint
        if is_new and self._connection is not None:
            self._connection.close()
        self._wake.set()

    def close(self) -> asyncio.Task[None] | None:
        """Ends; the task is done when nothing of it runs any more."""
        self._states.clear()
        self._by_name.clear()
        self._by_id.clear()
        if self._connection is not None:
            self._connection.close()
        if self._task is not None:
            self._task.cancel()
        return self._task

    def _drop(self, topic_partition: TopicPartition) -> None:
        state = self._states.pop(topic_partition, None)
        if state is None:
            return
        topic, index = topic_partition
        for key, table in ((topic, self._by_name), (state.topic_id, self._by_id)):
            states = table.get(key)  # type: ignore[arg-type]  # each key with its own table
            if states is not None:
                states.pop(index, None)
                if not states:
                    del table[key]  # type: ignore[arg-type]
        self._asking.pop(topic_partition, None)
        self._changed[topic_partition] = None

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

    # -- the loop

    def _now_ms(self) -> int:
        return int(self._ports.loop.time() * 1000)

    async def _run(self) -> None:
        while True:
            try:
                await self._turn()
            except ConnectionFailed as failure:
                await self._on_lost(failure)

    async def _turn(self) -> None:
        """One fetch; or, while there is nothing to fetch, waits."""
        now_ms = self._now_ms()
        delayed = self._delayed
        while delayed and delayed[0][0] <= now_ms:
            self._changed[heapq.heappop(delayed)[1]] = None
        if self._throttled_until_ms:
            self._end_throttling(now_ms)
        connection = self._connection
        if connection is None or not connection.is_open:
            if not any(state.is_ready(now_ms) for state in self._states.values()):
                await self._wait(now_ms)
                return
            connection = await self._connect()
        if self._asking:
            await self._ask(connection)
            now_ms = self._now_ms()
        request = self._next_request(now_ms)
        if request is None:
            await self._wait(now_ms)
            return
        self._fetches = number = self._fetches + 1
        self._in_flight = number
        try:
            answer = await connection.request(
                ApiKey.FETCH,
                self._versions.fetch if self._session.by_topic_id else min(self._versions.fetch, LAST_FETCH_BY_NAME),
                request,
                FetchResponse,
                timeout_ms=min(self.settings.socket_timeout_ms, request.max_wait_ms + ANSWER_GRACE_MS),
            )
        finally:
            self._in_flight = 0
        self._counts.fetches += 1
        if self._failures:
            self._on_reached()
        await self._take(answer)

    async def _wait(self, now_ms: int) -> None:
        """Until something is followed, or due again."""
        await self._sleep(self._next_look_ms(now_ms))

    def _next_look_ms(self, now_ms: int) -> int | None:
        """How long until a partition is to be looked at again that is not asked for now; None if there is none."""
        due_ms = self._delayed[0][0] if self._delayed else 0
        if self._throttled_until_ms and (not due_ms or self._throttled_until_ms < due_ms):
            due_ms = self._throttled_until_ms
        return max(0, due_ms - now_ms) if due_ms else None

    async def _sleep(self, limit_ms: int | None) -> None:
        """Until something else is to be done, at most `limit_ms`."""
        self._wake.clear()
        try:
            async with asyncio.timeout(None if limit_ms is None else limit_ms / 1000):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _connect(self) -> PeerConnection:
        while (endpoint := self._endpoint) is None:
            await self._sleep(None)
        self._session.on_lost()
        self._connection = connection = await PeerConnection.open(
            self._ports.network,
            endpoint.host,
            endpoint.port,
            client_id=f"broker-{self._ports.broker_id}-fetcher-{self._number}",
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
        )
        return connection

    async def _on_lost(self, failure: ConnectionFailed) -> None:
        """The connection failed, or was given up: whether the leader took the request is not known."""
        self._session.on_lost()
        if self._given_up == self._fetches and not self._failures:
            return
        self._failures += 1
        if self._failures == 1:
            logger.info(
                "leader not reached",
                leader=self.leader_id,
                fetcher=self._number,
                partitions=len(self._states),
                why=str(failure),
            )
        limit_ms = RECONNECT_LIMIT_MS if isinstance(failure, ConnectionRefused) else self.settings.backoff_ms
        pause_ms = min(RECONNECT_MS << min(self._failures - 1, 16), limit_ms)
        await self._sleep(pause_ms)

    def _on_reached(self) -> None:
        logger.info("leader reached again", leader=self.leader_id, fetcher=self._number, attempts=self._failures)
        self._failures = 0

    def _give_up(self, number: int) -> None:
        """Closes the connection on a fetch that still waits at the leader while other partitions want to be fetched.

        Each fetch but the one after another that was given up: so that answers come through, however far the leader is.
        """
        if self._in_flight == number and self._connection is not None and self._given_up != number - 1:
            self._given_up = number
            self._connection.close()

    def _on_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._ports.on_bug(bug)

    # -- asking for records

    def _next_request(self, now_ms: int) -> FetchRequest | None:
        """The next Fetch; None if there is nothing to fetch now."""
        session, throttle = self._session, self._ports.throttle
        is_exceeded = throttle.is_limited and throttle.is_exceeded(now_ms)
        if is_exceeded and not self._throttled_until_ms:
            self._throttled_until_ms = now_ms + throttle.free_in_ms(now_ms)
            self._look_at_throttled()
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

    def _look_at_throttled(self) -> None:
        for topic_partition in self._states:
            if self._ports.throttle.is_throttled(topic_partition):
                self._changed[topic_partition] = None

    def _end_throttling(self, now_ms: int) -> None:
        if now_ms >= self._throttled_until_ms or not self._ports.throttle.is_limited:
            self._throttled_until_ms = 0
            self._look_at_throttled()

    def _wanted(self, topic_partition: TopicPartition, now_ms: int, *, is_exceeded: bool) -> Wanted | None:
        state = self._states.get(topic_partition)
        if state is None or not state.is_due(now_ms):
            return None
        if is_exceeded and not state.is_caught_up and self._ports.throttle.is_throttled(topic_partition):
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
        settings, next_look_ms = self.settings, self._next_look_ms(now_ms)
        request = FetchRequest(
            max_wait_ms=settings.wait_max_ms if next_look_ms is None else min(settings.wait_max_ms, next_look_ms),
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=part.session_id,
            session_epoch=part.session_epoch,
            topics=part.topics,
            forgotten_topics_data=part.forgotten,
        )
        if part.by_topic_id and self._versions.fetch >= FIRST_FETCH_WITH_REPLICA_STATE:
            request.replica_state = ReplicaState(
                replica_id=self._ports.broker_id, replica_epoch=self._ports.broker_epoch()
            )
        else:
            request.replica_id = self._ports.broker_id
        return request

    # -- taking answers

    async def _take(self, answer: FetchResponse) -> None:
        session = self._session
        if answer.error_code:
            was_full = session.is_full_next
            session.on_error(answer.error_code)
            logger.debug("fetch refused", leader=self.leader_id, error=answer.error_code)
            if was_full:
                # Not the session was refused, but the broker: it would be again.
                await asyncio.sleep(self.settings.backoff_ms / 1000)
            return
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
                    continue  # An answer to a question that is not the present one (KAFKA-7786).
                self._take_partition(state, data)

    def _is_current(self, state: FetchState) -> bool:
        """Whether the partition still is what its state was made for: another epoch may be on its way here."""
        partition = state.partition
        return partition.role is Role.FOLLOWER and partition.leader_epoch == state.leader_epoch

    def _take_partition(self, state: FetchState, data: PartitionData) -> None:
        if data.error_code:
            self._on_error(state, data.error_code, state.leader_epoch)
            return
        diverging = data.diverging_epoch
        if diverging is not None and diverging.epoch >= 0:
            self._truncate(state, state.on_diverging(EpochEndOffset(diverging.epoch, diverging.end_offset)))
            return
        partition, log = state.partition, state.partition.log
        high_watermark = data.high_watermark
        records = data.records
        if records:
            assert isinstance(records, memoryview), "what was decoded is a view of its frame"
            try:
                appended = partition.append_as_follower(
                    records, leader_epoch=state.leader_epoch, now_ms=self._ports.wall_ms()
                )
            except RecordsError as refused:
                self._on_bad_records(state, str(refused))
                return
            except StorageError as failure:
                self._on_storage_error(state, failure)
                return
            if appended is None:
                self._on_bad_records(state, f"{len(records)} bytes that hold no whole batch")
                return
            state.on_records(log.log_end_offset, log.latest_epoch, high_watermark)
            self._changed[state.topic_partition] = None
            throttle = self._ports.throttle
            if throttle.is_limited and throttle.is_throttled(state.topic_partition):
                throttle.record(len(records), self._now_ms())
        else:
            state.on_records(state.fetch_offset, log.latest_epoch, high_watermark)
        if partition.set_follower_high_watermark(high_watermark):
            self._ports.on_high_watermark_advanced(partition)
        if data.log_start_offset > log.log_start_offset and partition.advance_log_start(data.log_start_offset):
            self._changed[state.topic_partition] = None

    def _on_error(self, state: FetchState, number: int, asked_epoch: LeaderEpoch) -> None:
        code = _error_code(number)
        now_ms = self._now_ms()
        before = state.last_error
        state.on_error(code, asked_epoch, backoff_ms=self.settings.backoff_ms, now_ms=now_ms)
        self._note(state)
        if state.stage is Stage.FAILED:
            self._on_fenced(state)
        elif state.last_error != before:
            logger.info(
                "fetch refused",
                partition=str(state.topic_partition),
                leader=self.leader_id,
                leader_epoch=state.leader_epoch,
                fetch_offset=state.fetch_offset,
                error=code.name,
                again_in_ms=max(0, state.delayed_until_ms - now_ms),
            )

    def _on_fenced(self, state: FetchState) -> None:
        self._record(
            state,
            DecisionKind.FENCED,
            f"broker {self.leader_id} knows a later leader epoch than {state.leader_epoch}: nothing is fetched until "
            "the controller tells of it here",
            {"fetch_offset": state.fetch_offset, "leader": self.leader_id},
        )

    def _on_bad_records(self, state: FetchState, why: str) -> None:
        state.delay(why, backoff_ms=self.settings.backoff_ms, now_ms=self._now_ms())
        self._note(state)
        logger.error(
            "records from the leader not appended",
            partition=str(state.topic_partition),
            leader=self.leader_id,
            fetch_offset=state.fetch_offset,
            why=why,
            next_step="they are fetched again; if this goes on, check the leader's disk",
        )

    def _on_storage_error(self, state: FetchState, failure: StorageError) -> None:
        state.fail(str(failure))
        self._note(state)
        self._ports.on_storage_error(failure)

    # -- truncation

    def _truncate(self, state: FetchState, truncation: Truncation | None) -> None:
        """Cuts the log as its state wants it, and goes on."""
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
        state.on_truncated(truncation, backoff_ms=self.settings.backoff_ms, now_ms=self._now_ms())
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
                leader=self.leader_id,
                leader_epoch=state.leader_epoch,
                high_watermark=high_watermark,
                log_end_offset=before,
                truncated_to=log.log_end_offset,
                why=truncation.why,
            )
        self._record(
            state,
            DecisionKind.LOG_TRUNCATED,
            truncation.why,
            {**truncation.evidence, "leader": self.leader_id, "below_high_watermark": is_loss},
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

    # -- asking for ends of epochs and logs

    async def _ask(self, connection: PeerConnection) -> None:
        """Asks what must be known before the partitions that ask can be fetched."""
        now_ms = self._now_ms()
        ready = [state for tp in self._asking if (state := self._states[tp]).is_ready(now_ms)]
        epochs = [state for state in ready if state.stage is Stage.ASKING_EPOCH][:ASKED_AT_ONCE]
        offsets = [state for state in ready if state.stage is Stage.ASKING_OFFSETS][:ASKED_AT_ONCE]
        if epochs:
            await self._ask_epochs(connection, epochs)
        if offsets:
            await self._ask_offsets(connection, offsets)

    async def _ask_epochs(self, connection: PeerConnection, states: Sequence[FetchState]) -> None:
        answer = await connection.request(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            self._versions.offset_for_leader_epoch,
            epoch_question(self._ports.broker_id, states),
            OffsetForLeaderEpochResponse,
            timeout_ms=self.settings.socket_timeout_ms,
        )
        for state, error, end in epoch_answers(states, answer):
            if not self._still_asks(state, Stage.ASKING_EPOCH):
                continue
            if error:
                self._on_error(state, error, state.leader_epoch)
            else:
                self._truncate(state, state.on_epoch_end(end))

    async def _ask_offsets(self, connection: PeerConnection, states: Sequence[FetchState]) -> None:
        """Where the leader's logs end; and, where they do not end before the own ones, where they begin."""
        longer = []
        for state, end_offset in await self._list_offsets(connection, states, LATEST):
            truncation = state.on_leader_end(end_offset)
            if truncation is None:
                longer.append(state)
            else:
                self._truncate(state, truncation)
        if longer:
            for state, start_offset in await self._list_offsets(connection, longer, EARLIEST):
                self._truncate(state, state.on_leader_start(start_offset))

    async def _list_offsets(
        self, connection: PeerConnection, states: Sequence[FetchState], timestamp: int
    ) -> list[tuple[FetchState, Offset]]:
        """The leader's offsets for `timestamp`, of the partitions that still ask when they come."""
        answer = await connection.request(
            ApiKey.LIST_OFFSETS,
            self._versions.list_offsets,
            offset_question(self._ports.broker_id, states, timestamp),
            ListOffsetsResponse,
            timeout_ms=self.settings.socket_timeout_ms,
        )
        found = []
        for state, error, offset in offset_answers(states, answer):
            if not self._still_asks(state, Stage.ASKING_OFFSETS):
                continue
            if error:
                self._on_error(state, error, state.leader_epoch)
            else:
                found.append((state, offset))
        return found

    def _still_asks(self, state: FetchState, stage: Stage) -> bool:
        return self._states.get(state.topic_partition) is state and state.stage is stage and self._is_current(state)


def _error_code(number: int) -> ErrorCode:
    """A code that this version does not know counts as UNKNOWN_SERVER_ERROR."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
