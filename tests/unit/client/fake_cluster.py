"""A cluster in memory behind the Network port: enough of Kafka to answer a client, and to fail on command.

Each broker keeps plain lists of batches. A test puts what shall go wrong into `faults`, a list per API of functions
that are called instead of the next answers.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from kavka.errors import ConnectionFailed, ErrorCode
from kavka.model import TopicPartition
from kavka.protocol.api import ApiKey, RequestHeader, api, decode_request_header, encode_response_header
from kavka.protocol.codec import decode, encode
from kavka.protocol.messages import (
    ApiVersionsResponse,
    CreateTopicsResponse,
    FetchResponse,
    FindCoordinatorResponse,
    HeartbeatResponse,
    InitProducerIdResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    ListOffsetsResponse,
    MetadataResponse,
    OffsetCommitResponse,
    OffsetFetchResponse,
    ProduceResponse,
    SyncGroupResponse,
)
from kavka.protocol.messages.api_versions_response import ApiVersion
from kavka.protocol.messages.create_topics_response import CreatableTopicResult
from kavka.protocol.messages.fetch_response import AbortedTransaction, FetchableTopicResponse, PartitionData
from kavka.protocol.messages.find_coordinator_response import Coordinator
from kavka.protocol.messages.join_group_response import JoinGroupResponseMember
from kavka.protocol.messages.list_offsets_response import ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from kavka.protocol.messages.metadata_response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kavka.protocol.messages.offset_commit_response import OffsetCommitResponsePartition, OffsetCommitResponseTopic
from kavka.protocol.messages.offset_fetch_response import OffsetFetchResponsePartition, OffsetFetchResponseTopic
from kavka.protocol.messages.produce_response import PartitionProduceResponse, TopicProduceResponse
from kavka.records.batch import BatchHeader, RecordBatch, assign_offset, batch_at

DROP = object()
"""What a fault returns to close the connection without an answer."""
SILENCE = object()
"""What a fault returns to leave a request unanswered."""
Fault = Callable[[Any, int], Any]
"""(request, version) -> an answer, DROP, SILENCE, or None to go on as usual."""


class FakeLog:
    """One partition's batches."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.start_offset = 0
        self.end_offset = 0
        self.leader = 1
        self.leader_epoch = 0
        self.aborted: list[tuple[int, int, int]] = []
        """(producer id, first offset, offset of the marker)"""

    def append(self, records: bytes | memoryview) -> int:
        batch = batch_at(memoryview(bytearray(records)))
        assert batch is not None
        base = self.end_offset
        assign_offset(batch, base, self.leader_epoch)
        self.batches.append(bytes(batch.view))
        self.end_offset = base + batch.header.last_offset_delta + 1
        return base

    @property
    def headers(self) -> list[BatchHeader]:
        return [RecordBatch(memoryview(b), batch_at(memoryview(b)).header).header for b in self.batches]  # type: ignore[union-attr]

    def values(self) -> list[bytes | None]:
        found: list[bytes | None] = []
        for data in self.batches:
            batch = batch_at(memoryview(data))
            assert batch is not None
            found += [record.value for record in batch.records()]
        return found


class FakeCluster:
    """The Network port of a client, and the brokers behind it: node ids from 1, ports from 9001."""

    def __init__(self, brokers: int = 1) -> None:
        self.nodes = list(range(1, brokers + 1))
        self.down: set[int] = set()
        self.topics: dict[str, list[FakeLog]] = {}
        self.versions: dict[int, tuple[int, int]] = {}
        """What the brokers claim to speak, where it is not everything."""
        self.faults: defaultdict[ApiKey, deque[Fault]] = defaultdict(deque)
        self.requests: list[tuple[int, RequestHeader, Any]] = []
        self.connections: list[FakeConnection] = []
        self.next_producer_id = 4000
        self.batches_per_fetch = 2
        self.controller = 1
        self.coordinator = 1
        self.generation = 0
        self.member_ids = 0
        self.committed: dict[TopicPartition, int] = {}

    def add_topic(self, name: str, partitions: int = 1) -> list[FakeLog]:
        self.topics[name] = [FakeLog() for _ in range(partitions)]
        for index, log in enumerate(self.topics[name]):
            log.leader = self.nodes[index % len(self.nodes)]
        return self.topics[name]

    def log(self, partition: TopicPartition) -> FakeLog:
        return self.topics[partition.topic][partition.partition]

    def asked(self, key: ApiKey) -> list[Any]:
        """The requests of one API so far, in order."""
        return [request for _, header, request in self.requests if header.api_key == key]

    async def connect(self, host: str, port: int, *, max_frame_bytes: int = 1 << 28) -> FakeConnection:
        await asyncio.sleep(0)
        node = port - 9000
        if node not in self.nodes or node in self.down:
            raise ConnectionFailed(f"{host}:{port} refused the connection")
        connection = FakeConnection(self, node)
        self.connections.append(connection)
        return connection

    def stop(self, node: int) -> None:
        """The broker dies: its connections break."""
        self.down.add(node)
        for connection in self.connections:
            if connection.node == node:
                connection.break_off()

    def answer(self, node: int, frame: bytes) -> bytes | object | None:
        """The answer's frame, None for no answer, or DROP."""
        header, position = decode_request_header(frame)
        key, version = header.api_key, header.api_version
        known = api(key)
        low, high = self.versions.get(key, (known.min_version, known.max_version))
        if key == ApiKey.API_VERSIONS and not low <= version <= high:
            refusal = self._api_versions(ErrorCode.UNSUPPORTED_VERSION)
            return encode_response_header(key, 0, header.correlation_id) + encode(refusal, 0)
        assert low <= version <= high, f"{key.name} {version} was not offered"
        request = decode(known.request_type, memoryview(frame)[position:], version)
        self.requests.append((node, header, request))
        message = self.faults[key].popleft()(request, version) if self.faults[key] else None
        if message is None:
            message = self._answers[key](self, node, request, version)
        if message is DROP or message is SILENCE or message is None:
            return DROP if message is DROP else None
        return encode_response_header(key, version, header.correlation_id) + encode(message, version)

    def _api_versions(self, code: ErrorCode = ErrorCode.NONE) -> ApiVersionsResponse:
        keys = [ApiKey.API_VERSIONS, *self._answers]
        entries = [
            ApiVersion(
                api_key=key,
                min_version=self.versions.get(key, (api(key).min_version, 0))[0],
                max_version=self.versions.get(key, (0, api(key).max_version))[1],
            )
            for key in keys
        ]
        return ApiVersionsResponse(error_code=code, api_keys=entries)

    def _metadata(self, node: int, request: Any, version: int) -> MetadataResponse:
        names = list(self.topics) if request.topics is None else [topic.name for topic in request.topics]
        topics = []
        for name in names:
            if name not in self.topics:
                topics.append(MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name))
                continue
            partitions = [
                MetadataResponsePartition(
                    partition_index=index,
                    leader_id=log.leader if log.leader not in self.down else -1,
                    leader_epoch=log.leader_epoch if version >= 7 else -1,
                    replica_nodes=[log.leader],
                    isr_nodes=[log.leader],
                )
                for index, log in enumerate(self.topics[name])
            ]
            topics.append(MetadataResponseTopic(name=name, partitions=partitions))
        brokers = [
            MetadataResponseBroker(node_id=n, host="fake", port=9000 + n) for n in self.nodes if n not in self.down
        ]
        return MetadataResponse(brokers=brokers, cluster_id="fake", controller_id=self.controller, topics=topics)

    def _produce(self, node: int, request: Any, version: int) -> ProduceResponse | None:
        topics = []
        for topic in request.topic_data:
            partitions = []
            for data in topic.partition_data:
                log = self.topics[topic.name][data.index]
                if log.leader != node:
                    partitions.append(
                        PartitionProduceResponse(index=data.index, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
                    )
                else:
                    partitions.append(PartitionProduceResponse(index=data.index, base_offset=log.append(data.records)))
            topics.append(TopicProduceResponse(name=topic.name, partition_responses=partitions))
        return ProduceResponse(responses=topics) if request.acks else None

    def _init_producer_id(self, node: int, request: Any, version: int) -> InitProducerIdResponse:
        self.next_producer_id += 1
        return InitProducerIdResponse(producer_id=self.next_producer_id, producer_epoch=0)

    def _fetch(self, node: int, request: Any, version: int) -> FetchResponse:
        topics = []
        for topic in request.topics:
            partitions = []
            for wanted in topic.partitions:
                log = self.topics[topic.topic][wanted.partition]
                data = PartitionData(
                    partition_index=wanted.partition,
                    high_watermark=log.end_offset,
                    last_stable_offset=log.end_offset,
                    log_start_offset=log.start_offset,
                    aborted_transactions=None,
                )
                if log.leader != node:
                    data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif not log.start_offset <= wanted.fetch_offset <= log.end_offset:
                    data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
                else:
                    kept = [b for b in log.batches if batch_at(memoryview(b)).header.last_offset >= wanted.fetch_offset]  # type: ignore[union-attr]
                    data.records = b"".join(kept[: self.batches_per_fetch])
                    if request.isolation_level:
                        data.aborted_transactions = [
                            AbortedTransaction(producer_id=producer_id, first_offset=first)
                            for producer_id, first, marker in log.aborted
                            if marker >= wanted.fetch_offset
                        ]
                partitions.append(data)
            topics.append(FetchableTopicResponse(topic=topic.topic, partitions=partitions))
        return FetchResponse(responses=topics)

    def _list_offsets(self, node: int, request: Any, version: int) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            partitions = []
            for wanted in topic.partitions:
                log = self.topics[topic.name][wanted.partition_index]
                answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
                if log.leader != node:
                    answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                else:
                    answer.offset = {-1: log.end_offset, -2: log.start_offset}.get(wanted.timestamp, -1)
                partitions.append(answer)
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
        return ListOffsetsResponse(topics=topics)

    def _create_topics(self, node: int, request: Any, version: int) -> CreateTopicsResponse:
        results = []
        for topic in request.topics:
            if node != self.controller:
                results.append(CreatableTopicResult(name=topic.name, error_code=ErrorCode.NOT_CONTROLLER))
            elif topic.name in self.topics:
                results.append(CreatableTopicResult(name=topic.name, error_code=ErrorCode.TOPIC_ALREADY_EXISTS))
            else:
                self.add_topic(topic.name, max(topic.num_partitions, 1))
                results.append(CreatableTopicResult(name=topic.name))
        return CreateTopicsResponse(topics=results)

    def _find_coordinator(self, node: int, request: Any, version: int) -> FindCoordinatorResponse:
        place = {"node_id": self.coordinator, "host": "fake", "port": 9000 + self.coordinator}
        if version >= 4:
            return FindCoordinatorResponse(coordinators=[Coordinator(key=k, **place) for k in request.coordinator_keys])
        return FindCoordinatorResponse(**place)

    def _join_group(self, node: int, request: Any, version: int) -> JoinGroupResponse:
        """A group of one: whoever joins leads."""
        if node != self.coordinator:
            return JoinGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)
        if not request.member_id:
            self.member_ids += 1
            if version >= 4:
                code = ErrorCode.MEMBER_ID_REQUIRED
                return JoinGroupResponse(error_code=code, member_id=f"member-{self.member_ids}")
        self.generation += 1
        member_id = request.member_id or f"member-{self.member_ids}"
        member = JoinGroupResponseMember(member_id=member_id, metadata=request.protocols[0].metadata)
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_name="range",
            leader=member_id,
            member_id=member_id,
            members=[member],
        )

    def _sync_group(self, node: int, request: Any, version: int) -> SyncGroupResponse:
        return SyncGroupResponse(assignment=request.assignments[0].assignment)

    def _offset_commit(self, node: int, request: Any, version: int) -> OffsetCommitResponse:
        code = ErrorCode.NONE
        if request.member_id and request.generation_id_or_member_epoch != self.generation:
            code = ErrorCode.ILLEGAL_GENERATION
        topics = []
        for topic in request.topics:
            for partition in topic.partitions:
                if code is ErrorCode.NONE:
                    name = TopicPartition(topic.name, partition.partition_index)
                    self.committed[name] = partition.committed_offset
            answers = [
                OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
                for p in topic.partitions
            ]
            topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=answers))
        return OffsetCommitResponse(topics=topics)

    def _offset_fetch(self, node: int, request: Any, version: int) -> OffsetFetchResponse:
        topics = [
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=self.committed.get(TopicPartition(topic.name, index), -1),
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
        return OffsetFetchResponse(topics=topics)

    _answers: ClassVar[dict[ApiKey, Callable[..., Any]]] = {
        ApiKey.API_VERSIONS: lambda self, node, request, version: self._api_versions(),
        ApiKey.METADATA: _metadata,
        ApiKey.PRODUCE: _produce,
        ApiKey.INIT_PRODUCER_ID: _init_producer_id,
        ApiKey.FETCH: _fetch,
        ApiKey.LIST_OFFSETS: _list_offsets,
        ApiKey.CREATE_TOPICS: _create_topics,
        ApiKey.FIND_COORDINATOR: _find_coordinator,
        ApiKey.JOIN_GROUP: _join_group,
        ApiKey.SYNC_GROUP: _sync_group,
        ApiKey.HEARTBEAT: lambda self, node, request, version: HeartbeatResponse(),
        ApiKey.LEAVE_GROUP: lambda self, node, request, version: LeaveGroupResponse(),
        ApiKey.OFFSET_COMMIT: _offset_commit,
        ApiKey.OFFSET_FETCH: _offset_fetch,
    }


class FakeConnection:
    """A connection to one fake broker; answers come in the next turn of the loop."""

    def __init__(self, cluster: FakeCluster, node: int) -> None:
        self.cluster = cluster
        self.node = node
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._broken = False

    def send_frame(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        if self._broken:
            raise ConnectionFailed("the connection broke")
        frame = b"".join(parts)
        asyncio.get_running_loop().call_soon(self._answer, frame)

    def _answer(self, frame: bytes) -> None:
        if self._broken:
            return
        answer = self.cluster.answer(self.node, frame)
        if answer is DROP:
            self.break_off()
        elif isinstance(answer, bytes):
            self._frames.put_nowait(answer)

    async def drain(self) -> None:
        if self._broken:
            raise ConnectionFailed("the connection broke")

    async def receive_frame(self) -> bytes:
        frame = None if self._broken and self._frames.empty() else await self._frames.get()
        if frame is None:
            raise ConnectionFailed("the broker closed the connection")
        return frame

    def break_off(self) -> None:
        if not self._broken:
            self._broken = True
            self._frames.put_nowait(None)

    def close(self) -> None:
        self.break_off()
