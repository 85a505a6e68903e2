"""BrokerClient: a blocking client of a few lines that sends what the test says, right or wrong.

It decides nothing for the test: no retries, no metadata, one answer to one request. `SteadyClient` is a good citizen
beside a test that mistreats the broker: it writes and reads all the while, and tells whether every answer was right.
"""

from __future__ import annotations

import itertools
import socket
import threading
import time
import uuid
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

from kavka.protocol.api import APIS, ApiKey, RequestHeader, api, encode_request_header
from kavka.protocol.codec import decode, encode
from kavka.protocol.messages import (
    CreateTopicsRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from kavka.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig
from kavka.protocol.messages.fetch_request import FetchPartition, FetchTopic
from kavka.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsTopic
from kavka.protocol.messages.metadata_request import MetadataRequestTopic
from kavka.protocol.messages.produce_request import PartitionProduceData, TopicProduceData
from kavka.protocol.schema import Message
from kavka.records.batch import iterate_batches
from kavka.records.builder import BatchBuilder
from kavka.records.compression import Compression
from tests.kit.kavka_process import thread_cpu_seconds

HOST = "127.0.0.1"
ANSWER_TIMEOUT_S = 60.0
CLIENT_ID = "test"
EARLIEST, LATEST = -2, -1

_names = itertools.count()


class Closed(Exception):
    """The broker closed the connection instead of answering."""


class BrokerClient:
    """One connection. Answers are received in the order of the requests."""

    def __init__(
        self,
        port: int,
        *,
        host: str = HOST,
        receive_buffer_bytes: int = 0,
        timeout_s: float = ANSWER_TIMEOUT_S,
        source: str = "",
    ) -> None:
        """`source`: the address that the broker sees; else the system's choice."""
        self.socket = socket.socket()
        if source:
            self.socket.bind((source, 0))
        if receive_buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect((host, port))
        self._correlation_id = 0

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> BrokerClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- any request

    def ask(self, request: Message, version: int) -> Any:
        """The answer. Raises Closed."""
        self.send(request, version)
        return self.receive(request, version)

    def send(self, request: Message, version: int) -> None:
        self._correlation_id += 1
        header = RequestHeader(_key_of(request), version, self._correlation_id, CLIENT_ID)
        self.send_bytes(framed(encode_request_header(header) + encode(request, version)))

    def send_bytes(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except ConnectionError as error:
            raise Closed from error

    def receive(self, request: Message, version: int) -> Any:
        """The next answer, which must be that to `request`. Raises Closed."""
        key = _key_of(request)
        frame = self.receive_frame()
        body = 5 if APIS[key].response_header_version(version) else 4
        return decode(api(key).response_type, memoryview(frame)[body:], version)

    def receive_frame(self) -> bytes:
        """The next answer without its length. Raises Closed."""
        return self.receive_exactly(int.from_bytes(self.receive_exactly(4), "big"))

    def receive_exactly(self, count: int) -> bytes:
        data = bytearray(count)
        view, done = memoryview(data), 0
        while done < count:
            try:
                size = self.socket.recv_into(view[done:])
            except ConnectionError as error:
                raise Closed from error
            if not size:
                raise Closed
            done += size
        return bytes(data)

    def is_closed_by_broker(self) -> bool:
        """Waits for the end of the stream; False where an answer came instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    # -- topics

    def create_topic(self, name: str = "", *, partitions: int = 1, **configs: str) -> str:
        """Makes a topic, its settings with _ for each dot; its name."""
        name = name or f"topic-{next(_names)}"
        error_code = self.try_to_create_topic(name, partitions=partitions, **configs)
        assert error_code == 0, f"{name} was not created: {error_code}"
        return name

    def try_to_create_topic(self, name: str, *, partitions: int = 1, **configs: str) -> int:
        settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
        return int(self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=200_000), 5).topics[0].error_code)

    def topic_id(self, name: str) -> uuid.UUID:
        """The id of a topic that is there."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        found: uuid.UUID = self.ask(request, 12).topics[0].topic_id
        return found

    def topics(self, *names: str) -> dict[str, Any]:
        """Metadata of topics by name, all of them where none is named. Creates none."""
        wanted = [MetadataRequestTopic(name=name) for name in names] or None
        answer = self.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 9)
        return {topic.name: topic for topic in answer.topics}

    # -- records

    def produce(self, topic: str, records: bytes, *, partition: int = 0, version: int = 9, acks: int = -1) -> Any:
        """The partition's answer."""
        request = produce_of(topic, records, partition=partition, acks=acks)
        return self.ask(request, version).responses[0].partition_responses[0]

    def fetch(self, topic: str, offset: int = 0, *, partition: int = 0, version: int = 12, wait_ms: int = 0) -> Any:
        """The partition's answer."""
        return (
            self.ask(fetch_of(topic, offset, partition=partition, wait_ms=wait_ms), version).responses[0].partitions[0]
        )

    def offset(self, topic: str, timestamp: int, *, partition: int = 0) -> Any:
        """The partition's answer to ListOffsets."""
        wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
        return self.ask(request, 7).topics[0].partitions[0]

    def values(self, topic: str, *, partition: int = 0) -> list[bytes]:
        """Every value of a partition, which must be there without a gap from the log start to the high watermark."""
        offset = self.offset(topic, EARLIEST, partition=partition).offset
        found: list[bytes] = []
        while True:
            answer = self.fetch(topic, offset, partition=partition)
            assert answer.error_code == 0, f"fetch of {topic}-{partition} at {offset}: {answer.error_code}"
            read = read_records(answer.records, offset)
            if not read:
                assert offset == answer.high_watermark
                return found
            assert [number for number, _value in read] == list(range(offset, offset + len(read)))
            found += [value for _number, value in read]
            offset += len(read)


def produce_of(topic: str, records: bytes, *, partition: int = 0, acks: int = -1) -> ProduceRequest:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data])


def fetch_of(topic: str, offset: int, *, partition: int = 0, wait_ms: int = 0, min_bytes: int = 1) -> FetchRequest:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 25)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 25,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def batch(*values: bytes, codec: Compression = Compression.NONE) -> bytearray:
    """A record batch as a plain producer sends it, each value under a key."""
    builder = BatchBuilder(codec)
    now_ms = int(time.time() * 1000)
    for value in values:
        builder.append(now_ms, b"key", value)
    return bytearray(builder.build())


def read_records(records: Any, offset: int = 0) -> list[tuple[int, bytes]]:
    """(offset, value) of all records from `offset` on, every batch's checksum verified."""
    read: list[tuple[int, bytes]] = []
    for found in iterate_batches(memoryview(bytes(records or b""))):
        assert found.crc_is_right(), f"the batch at {found.header.base_offset} is damaged"
        read += [(record.offset, bytes(record.value or b"")) for record in found.records() if record.offset >= offset]
    return read


def first_unacknowledged(values: Sequence[bytes], held: Iterable[bytes]) -> bytes | None:
    """The first of `values` that is not among what is held."""
    there = set(held)
    return next((value for value in values if value not in there), None)


class SteadyClient:
    """Writes a record and reads it back, again and again, on a thread of its own, until `stop`.

    `stop` raises what went wrong. `longest_cpu_s`: the most processor time that the broker's event loop used during one
    write and its reading, most of it for others. Unlike the time on the clock, it is the same on a busy machine.
    pid: the broker's process; without it nothing is measured.
    """

    def __init__(self, port: int, *, pause_s: float = 0.005, pid: int | None = None) -> None:
        self.rounds = 0
        self.longest_cpu_s = 0.0
        self._pid = pid
        self._pause_s = pause_s
        self._failure: BaseException | None = None
        self._stopping = threading.Event()
        self._client = BrokerClient(port)
        self.topic = self._client.create_topic(f"steady-{next(_names)}")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._pause_s) or not self.rounds:
                began = self._loop_cpu_s()
                value = b"round %d" % self.rounds
                produced = self._client.produce(self.topic, bytes(batch(value)))
                assert (produced.error_code, produced.base_offset) == (0, self.rounds), produced
                fetched = self._client.fetch(self.topic, self.rounds)
                assert read_records(fetched.records) == [(self.rounds, value)], fetched
                self.rounds += 1
                self.longest_cpu_s = max(self.longest_cpu_s, self._loop_cpu_s() - began)
        except BaseException as failure:
            self._failure = failure

    def _loop_cpu_s(self) -> float:
        """The event loop runs on the process's first thread."""
        return 0.0 if self._pid is None else sum(thread_cpu_seconds(self._pid, self._pid))

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._client.close()
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> SteadyClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self._stopping.set()


def _key_of(request: Message) -> ApiKey:
    key = type(request)._schema.api_key
    assert key is not None
    return ApiKey(key)
