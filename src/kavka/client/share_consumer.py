"""The share consumer: records of a share group, each with an acknowledgement of its own.

Decides what is fetched from whom and when, which records an application gets, and how its acknowledgements travel. Must
not know heartbeats (the member's) or what a request has to say in a session (the session's).

Invariants
  I1  A record is returned with its count of deliveries as the broker tells it, and only if this member has acquired it:
      other records of the same batches are passed over.
  I2  One request per broker is under way at a time: epochs of a session follow each other.
  I3  An acknowledgement that failed, or of which nobody knows, is told by `commit` or `close`, and not sent again.
  I4  Offsets without a record (what compaction left out, markers of transactions) are acknowledged as gaps by the
      consumer itself, and those of a damaged batch released.
  I5  Nothing is fetched ahead: a lock runs from the moment of the delivery. Only what other brokers send while a poll
      returns waits here.

A session ends with its connection. What was held in it is then given to others: acknowledging it raises.
Source: KIP-932, KIP-1206 (acquire modes), KIP-1222 (renewals); Kafka's ShareConsumeRequestManager.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID

from kavka.client.answers import error_name, error_of
from kavka.client.backoff import backoff_ms
from kavka.client.cluster import Cluster
from kavka.client.connection import BrokerConnection
from kavka.client.settings import ShareConsumerSettings
from kavka.client.share_group_member import ShareGroupMember
from kavka.client.share_session import (
    GAP,
    OPENING_EPOCH,
    Acknowledgements,
    AcknowledgeType,
    FetchLimits,
    SharePartition,
    ShareSession,
    has_renewals,
)
from kavka.errors import ConnectionFailed, CorruptRecords, ErrorCode, KavkaError, ProtocolViolation, RequestError
from kavka.model import TopicPartition
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.share_acknowledge_response import ShareAcknowledgeResponse
from kavka.protocol.messages.share_fetch_response import PartitionData, ShareFetchResponse
from kavka.records.batch import TimestampType, iterate_batches
from kavka.records.record import Header

RENEWING_VERSION = 2
"""Of ShareAcknowledge: earlier ones have no renewals."""
WHOLE_BATCHES, RECORD_LIMIT = 0, 1
MOST_ACQUIRED = 1 << 20
"""Offsets of one partition in one answer: each is kept until it is acknowledged. A broker holds a group to
share.partition.max.record.locks (2,000 by default), and passes it by a batch at most."""


class ShareRecord(NamedTuple):
    """A record that this member has acquired. `delivery_count` is 1 at the first delivery to anybody in the group. The
    other fields are those of `ConsumerRecord`."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp_type: TimestampType
    leader_epoch: int
    delivery_count: int
    topic_id: bytes
    """16 bytes: to which topic of this name it belongs."""


class LostAcknowledgement(NamedTuple):
    """Records `first` to `last` of which an acknowledgement failed, and why. They are delivered again, unless the
    broker carried it out and only its answer was lost."""

    partition: TopicPartition
    first: int
    last: int
    kind: int
    failure: KavkaError


class _Broker:
    """One leader: its session, and what becomes of the requests to it."""

    __slots__ = ("connection", "failures", "lock", "not_before", "session", "was_empty")

    def __init__(self, session: ShareSession) -> None:
        self.session = session
        self.connection: BrokerConnection | None = None
        """The connection that the session belongs to."""
        self.lock = asyncio.Lock()
        self.failures = 0
        self.not_before = 0.0
        self.was_empty = False
        """Whether the last fetch waited for its time, and brought nothing."""


class ShareConsumer:
    """Reads as a member of a share group. Belongs to one event loop. Close it with `close` or `async with`.

        async with ShareConsumer(cluster, ShareConsumerSettings(group_id="workers")) as consumer:
            await consumer.subscribe(["orders"])
            for record in await consumer.poll():
                consumer.acknowledge(record, AcknowledgeType.ACCEPT)
            await consumer.commit()

    Acknowledgements go out with the next `poll`, `commit` or `close`. A record that is not acknowledged is delivered
    again when its lock runs out, or at `close`.
    """

    def __init__(self, cluster: Cluster, settings: ShareConsumerSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._purpose = cluster.new_purpose("share fetch")
        self._topics: list[str] = []
        self._brokers: dict[int, _Broker] = {}
        self._fetches: dict[int, asyncio.Task[None]] = {}
        self._finding: asyncio.Task[None] | None = None
        self._buffer: deque[ShareRecord] = deque()
        self._owners: dict[SharePartition, _Broker] = {}
        """Who has delivered what is held of a partition."""
        self._names: dict[SharePartition, TopicPartition] = {}
        self._arrived = asyncio.Event()
        self._member = ShareGroupMember(cluster, settings.group_id, self._arrived.set, rack=settings.rack)
        self._failure: KavkaError | None = None
        self._lost: list[LostAcknowledgement] = []
        self._next_broker = 0
        self._closed = False
        self.lock_timeout_ms: int | None = None
        """How long a lock lasts, as the brokers said last; None before the first delivery."""

    async def __aenter__(self) -> ShareConsumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def member_id(self) -> str:
        return self._member.member_id

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that the group's coordinator has given to this member, as far as their names are known."""
        return sorted(self._assigned().values())

    @property
    def held(self) -> int:
        """Records that were delivered and not acknowledged yet."""
        return sum(broker.session.held for broker in self._brokers.values())

    @property
    def is_drained(self) -> bool:
        """Whether each leader has answered last that there is nothing to give: other members may hold records, and what
        they release comes later."""
        leaders = {self._cluster.leader(name) for name in self._assigned().values()}
        return (
            bool(leaders)
            and not self._buffer
            and all(leader in self._brokers and self._brokers[leader].was_empty for leader in leaders)
        )

    async def subscribe(self, topics: Sequence[str]) -> None:
        """Joins the group, to read these topics from now on; called again, it changes them. Topics may be made later.
        Raises `RequestError`, `ConnectionFailed`."""
        self._topics = sorted(set(topics))
        await self._member.join(self._topics)
        self._find_topics()

    async def poll(self, *, max_records: int | None = None, timeout_ms: int = 1_000) -> list[ShareRecord]:
        """Records that this member has acquired, or an empty list after `timeout_ms`.

        It sends what was acknowledged before. At most `max_records` of the settings come at once, or fewer. Raises
        `CorruptRecords` for a batch with a wrong CRC, whose records were released, `ProtocolViolation` for more than
        MOST_ACQUIRED records of a partition, and `RequestError` for what a retry does not solve.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        limit = min(max_records or self._settings.max_records, self._settings.max_records)
        while True:
            if self._closed:
                raise ConnectionFailed("the share consumer is closed")
            failure, self._failure = self._failure or self._member.failure, None
            if failure is not None:
                raise failure
            if self._buffer:
                return [self._buffer.popleft() for _ in range(min(limit, len(self._buffer)))]
            now = loop.time()  # Looked at once: a pause that ended in between would be waited for by nobody.
            self._start_fetches(limit, now)
            if now >= deadline:
                return []
            self._arrived.clear()
            alarm = loop.call_later(min(deadline - now, self._until_retry(now)), self._arrived.set)
            try:
                await self._arrived.wait()
            finally:
                alarm.cancel()

    def acknowledge(self, record: ShareRecord, kind: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Says what became of a record; what is said last before it is sent counts. Raises `RequestError`
        (INVALID_RECORD_STATE) if this member does not hold it any more: it was acknowledged, or its session ended."""
        partition = _partition_of(record)
        owner = self._owners.get(partition)
        if owner is None or not owner.session.decide(partition, record.offset, kind):
            raise RequestError(
                ErrorCode.INVALID_RECORD_STATE,
                f"{record.topic}-{record.partition}: this member does not hold the record at offset {record.offset}",
            )

    async def commit(self) -> list[LostAcknowledgement]:
        """Sends all acknowledgements and waits for their answers. Returns those that failed since the last call of
        `commit` or `lost`; an empty list means that all is stored."""
        await asyncio.gather(*(self._acknowledge(node_id, broker) for node_id, broker in list(self._brokers.items())))
        return self.lost()

    def lost(self) -> list[LostAcknowledgement]:
        """The acknowledgements that failed since the last call, of those that were answered by now."""
        lost, self._lost = self._lost, []
        return lost

    async def renew(self) -> None:
        """Has the locks of all records that are held begin anew. Raises `RequestError` (UNSUPPORTED_VERSION) at brokers
        before Kafka 4.2; what else fails is told by `commit`."""
        for node_id, broker in list(self._brokers.items()):
            if broker.session.held:
                connection = await self._cluster.connection(node_id, self._purpose)
                if connection.version_of(ApiKey.SHARE_ACKNOWLEDGE) < RENEWING_VERSION:
                    raise RequestError(ErrorCode.UNSUPPORTED_VERSION, f"broker {node_id} has no renewals of locks")
                broker.session.decide_all(AcknowledgeType.RENEW)
        await asyncio.gather(*(self._acknowledge(node_id, broker) for node_id, broker in list(self._brokers.items())))

    async def close(self) -> list[LostAcknowledgement]:
        """Sends what was acknowledged, releases what is held, leaves the group. The cluster stays open. Returns the
        acknowledgements that failed."""
        if self._closed:
            return []
        self._closed = True
        tasks = [*self._fetches.values(), *([self._finding] if self._finding is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        brokers = list(self._brokers.items())
        await asyncio.gather(*(self._acknowledge(node_id, broker, closing=True) for node_id, broker in brokers))
        await self._member.leave()
        self._cluster.release(self._purpose)
        self._buffer.clear()
        self._arrived.set()
        return self.lost()

    # ----------------------------------------------------------------------------------------------------- assignment

    def _assigned(self) -> dict[SharePartition, TopicPartition]:
        """What is to be fetched, with names; topics that metadata does not know are left out."""
        names = {topic.topic_id: name for name in self._topics if (topic := self._cluster.topics.get(name)) is not None}
        return {
            SharePartition(topic_id, partition): TopicPartition(names[topic_id], partition)
            for topic_id, partitions in self._member.assignment.items()
            if topic_id in names
            for partition in partitions
        }

    def _find_topics(self) -> None:
        """Asks for metadata of the topics, beside what goes on."""
        if self._finding is None or self._finding.done():
            self._finding = asyncio.create_task(self._find(), name="topics of a share consumer")

    async def _find(self) -> None:
        for topic in self._topics:
            try:
                await self._cluster.topic(topic)
            except (ConnectionFailed, RequestError):
                pass  # The coordinator assigns it once it is there, and then it is asked for again.
        await self._cluster.refresh_quietly()
        self._arrived.set()

    # --------------------------------------------------------------------------------------------------------- fetches

    def _start_fetches(self, limit: int, now: float) -> None:
        """A fetch from each leader; with the record limit from one leader at a time, so that no more records are
        acquired than were asked for."""
        assigned = self._assigned()
        if len(assigned) < sum(map(len, self._member.assignment.values())):
            self._find_topics()
        self._names.update(assigned)
        wanted: dict[int, set[SharePartition]] = {}
        for partition, name in assigned.items():
            wanted.setdefault(self._cluster.leader(name), set()).add(partition)
        if wanted.pop(-1, None):
            self._find_topics()
        for node_id, broker in self._brokers.items():
            if node_id not in wanted and broker.session.has_decided:
                wanted[node_id] = set()  # It leads nothing of ours any more, and is owed an acknowledgement.
        ready = sorted(node_id for node_id in wanted if node_id not in self._fetches)
        if self._settings.record_limit:
            if self._fetches or not ready:
                return
            ready = [ready[self._next_broker % len(ready)]]
            self._next_broker += 1
        for node_id in ready:
            broker = self._brokers.setdefault(node_id, _Broker(ShareSession(self._settings.group_id, self.member_id)))
            if broker.not_before > now:
                continue
            work = self._fetch(node_id, broker, frozenset(wanted[node_id]), limit, leaders=len(wanted))
            task = asyncio.create_task(work, name=f"share fetch from broker {node_id}")
            self._fetches[node_id] = task
            task.add_done_callback(partial(self._fetch_ended, node_id))

    def _fetch_ended(self, node_id: int, _: asyncio.Task[None]) -> None:
        self._fetches.pop(node_id, None)
        self._arrived.set()

    def _until_retry(self, now: float) -> float:
        """Seconds until a broker that failed is asked again."""
        waits = [broker.not_before - now for broker in self._brokers.values() if broker.not_before > now]
        return max(min(waits, default=float("inf")), 0.001)

    async def _fetch(
        self, node_id: int, broker: _Broker, wanted: frozenset[SharePartition], limit: int, *, leaders: int
    ) -> None:
        """One ShareFetch; what goes wrong is told to the next `poll` or `commit`."""
        async with broker.lock:
            connection = await self._connected(node_id, broker)
            if connection is None:
                return
            sent = broker.session.take_decided()
            if sent and not (sent.keys() <= wanted and not has_renewals(sent)):
                # A fetch cannot carry it: it is of a partition that is fetched no more, or renews locks.
                await self._send_acknowledgements(node_id, broker, connection, sent)
                sent = {}
            if not wanted or not connection.is_open:
                return
            settings = self._settings
            wait_ms = settings.fetch_max_wait_ms // leaders if settings.record_limit else settings.fetch_max_wait_ms
            mode = RECORD_LIMIT if settings.record_limit else WHOLE_BATCHES
            limits = FetchLimits(wait_ms, settings.fetch_min_bytes, settings.fetch_max_bytes, limit, limit, mode)
            request = broker.session.fetch(wanted, sent, limits)
            timeout_ms = wait_ms + self._cluster.settings.request_timeout_ms
            try:
                answer = await connection.request(
                    ApiKey.SHARE_FETCH, request, ShareFetchResponse, timeout_ms=timeout_ms
                )
                self._check(answer, f"share fetch from broker {node_id}")
            except (ConnectionFailed, RequestError) as failure:
                self._on_failure(broker, sent, failure)
                await self._cluster.refresh_quietly()
                return
            broker.session.advance()
            broker.failures = 0
            self._on_answer(broker, answer, sent)

    async def _connected(self, node_id: int, broker: _Broker) -> BrokerConnection | None:
        """The connection to a leader, with a session that belongs to it; None where there is none."""
        try:
            connection = await self._cluster.connection(node_id, self._purpose)
        except ConnectionFailed as failure:
            self._on_failure(broker, broker.session.take_decided(), failure)
            await self._cluster.refresh_quietly()
            return None
        if broker.connection is not connection:
            self._lose(broker.session.take_decided(), _ended(node_id))
            self._restart(broker)
            broker.connection = connection
        return connection

    def _on_answer(self, broker: _Broker, answer: ShareFetchResponse, sent: Acknowledgements) -> None:
        self.lock_timeout_ms = answer.acquisition_lock_timeout_ms or self.lock_timeout_ms
        stale = False
        before = len(self._buffer)
        for topic in answer.responses:
            for data in topic.partitions:
                partition = SharePartition(topic.topic_id, data.partition_index)
                if data.acknowledge_error_code and partition in sent:
                    failure = RequestError(
                        error_of(data.acknowledge_error_code),
                        data.acknowledge_error_message or error_name(data.acknowledge_error_code),
                    )
                    self._lose({partition: sent[partition]}, failure)
                stale |= self._on_data(broker, partition, data)
        broker.was_empty = len(self._buffer) == before and not stale
        if stale:
            self._back_off(broker)
            self._find_topics()

    def _on_data(self, broker: _Broker, partition: SharePartition, data: PartitionData) -> bool:
        """Takes what came for one partition; True where its leader may be another."""
        code = error_of(data.error_code)
        if code is not ErrorCode.NONE:
            name = self._names.get(partition, TopicPartition(str(partition.topic_id), partition.partition))
            if not code.retriable:
                self._failure = RequestError(
                    code, f"share fetch of {name}: {data.error_message or error_name(data.error_code)}"
                )
            return True
        if not data.acquired_records:
            return False
        count = sum(max(0, run.last_offset - run.first_offset + 1) for run in data.acquired_records)
        if count > MOST_ACQUIRED:
            self._failure = ProtocolViolation(
                f"{self._names[partition]}: the broker says that {count:,} records were acquired, "
                f"and {MOST_ACQUIRED:,} is the most"
            )
            return True
        self._owners[partition] = broker
        acquired: dict[int, int] = {}
        for run in data.acquired_records:
            acquired.update(dict.fromkeys(range(run.first_offset, run.last_offset + 1), run.delivery_count))
        broker.session.hold(partition, acquired, kind=GAP)
        found = list(self._records(broker, partition, data, acquired))
        broker.session.hold(partition, (record.offset for record in found))
        self._buffer.extend(found)
        return False

    def _records(
        self, broker: _Broker, partition: SharePartition, data: PartitionData, acquired: dict[int, int]
    ) -> Iterator[ShareRecord]:
        """The acquired records of an answer (I1), in order of offsets."""
        topic, number = self._names[partition]
        records = data.records
        if not isinstance(records, memoryview):
            return
        for batch in iterate_batches(records):
            header = batch.header
            offsets = range(header.base_offset, header.last_offset + 1)
            if header.is_control or not any(offset in acquired for offset in offsets):
                continue
            try:
                if self._settings.check_crcs and not batch.crc_is_right():
                    raise CorruptRecords(f"{topic}-{number}: the batch at offset {header.base_offset} has a wrong CRC")
                inside = list(batch.records(max_size=self._settings.max_inflated_bytes))
            except KavkaError as failure:
                self._failure = failure
                damaged = (offset for offset in offsets if offset in acquired)
                broker.session.hold(partition, damaged, kind=AcknowledgeType.RELEASE)
                continue
            for offset, timestamp, key, value, headers in inside:
                if offset in acquired:
                    yield ShareRecord(
                        topic,
                        number,
                        offset,
                        timestamp,
                        key,
                        value,
                        headers,
                        header.timestamp_type,
                        header.partition_leader_epoch,
                        acquired[offset],
                        partition.topic_id.bytes,
                    )

    # ------------------------------------------------------------------------------------------------ acknowledgements

    async def _acknowledge(self, node_id: int, broker: _Broker, *, closing: bool = False) -> None:
        """Sends what is decided to one broker; `closing` ends the session."""
        if not closing and not broker.session.has_decided:
            return
        async with broker.lock:
            connection = broker.connection
            sent = broker.session.take_decided()
            if connection is None or not connection.is_open or broker.session.epoch == OPENING_EPOCH:
                self._lose(sent, _ended(node_id))
                self._restart(broker)
            elif sent or closing:
                await self._send_acknowledgements(node_id, broker, connection, sent, closing=closing)

    async def _send_acknowledgements(
        self,
        node_id: int,
        broker: _Broker,
        connection: BrokerConnection,
        sent: Acknowledgements,
        *,
        closing: bool = False,
    ) -> None:
        """One ShareAcknowledge in a session that is open; the caller has the lock."""
        request = broker.session.acknowledge(sent, closing=closing)
        try:
            answer = await connection.request(ApiKey.SHARE_ACKNOWLEDGE, request, ShareAcknowledgeResponse)
            self._check(answer, f"acknowledgement to broker {node_id}")
        except (ConnectionFailed, RequestError) as failure:
            self._on_failure(broker, sent, failure)
            return
        broker.session.advance()
        self.lock_timeout_ms = answer.acquisition_lock_timeout_ms or self.lock_timeout_ms
        for topic in answer.responses:
            for data in topic.partitions:
                partition = SharePartition(topic.topic_id, data.partition_index)
                if data.error_code and partition in sent:
                    text = data.error_message or error_name(data.error_code)
                    self._lose({partition: sent[partition]}, RequestError(error_of(data.error_code), text))
                    broker.session.drop({partition: sent[partition]})

    def _check(self, answer: ShareFetchResponse | ShareAcknowledgeResponse, what: str) -> None:
        if answer.error_code:
            text = f"{what}: {answer.error_message or error_name(answer.error_code)}"
            raise RequestError(error_of(answer.error_code), text)

    def _on_failure(self, broker: _Broker, sent: Acknowledgements, failure: ConnectionFailed | RequestError) -> None:
        """A request failed as a whole: the session begins anew, and nothing is held in it (I2 of the session)."""
        self._lose(sent, failure)
        if isinstance(failure, RequestError) and not failure.code.retriable:
            self._failure = failure
        self._restart(broker)
        self._back_off(broker)

    def _restart(self, broker: _Broker) -> None:
        broker.session.restart()
        broker.was_empty = False
        gone = {partition for partition, owner in self._owners.items() if owner is broker}
        for partition in gone:
            del self._owners[partition]
        self._buffer = deque(record for record in self._buffer if _partition_of(record) not in gone)

    def _back_off(self, broker: _Broker) -> None:
        broker.failures += 1
        pause_ms = backoff_ms(self._cluster.settings, broker.failures, self._cluster.random)
        broker.not_before = asyncio.get_running_loop().time() + pause_ms / 1000

    def _lose(self, sent: Acknowledgements, failure: KavkaError) -> None:
        for partition, runs in sent.items():
            name = self._names[partition]
            self._lost += [
                LostAcknowledgement(name, run.first, run.last, run.kind, failure) for run in runs if run.kind
            ]


def _partition_of(record: ShareRecord) -> SharePartition:
    return SharePartition(UUID(bytes=record.topic_id), record.partition)


def _ended(node_id: int) -> ConnectionFailed:
    return ConnectionFailed(f"the share session with broker {node_id} has ended: its records are given to others")
