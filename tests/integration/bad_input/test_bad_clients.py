"""Clients that take much and give nothing: slow readers, thousands of connections, bombs. A good client beside them
gets right answers all the while, and the broker's memory stays bounded."""

from __future__ import annotations

import contextlib
import os
import resource
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import pack_into
from typing import Any

import pytest
from crc32c import crc32c

from kavka.errors import ErrorCode
from kavka.protocol.messages import (
    ApiVersionsRequest,
    CreatePartitionsRequest,
    IncrementalAlterConfigsRequest,
    MetadataRequest,
)
from kavka.protocol.messages.create_partitions_request import CreatePartitionsTopic
from kavka.protocol.messages.incremental_alter_configs_request import AlterableConfig, AlterConfigsResource
from kavka.protocol.messages.metadata_request import MetadataRequestTopic
from kavka.records.batch import read_header
from kavka.records.builder import BatchBuilder, seal
from kavka.records.compression import Compression, compress
from kavka.records.validation import INFLATED_RECORDS_BYTES
from tests.kit.broker_client import BrokerClient, SteadyClient, batch, fetch_of, produce_of, read_records
from tests.kit.kavka_process import KavkaProcess

MIB = 1024 * 1024
CONNECTIONS = int(os.environ.get("KAVKA_CONNECTIONS", "10000"))
OTHERS_CPU_S = 2.0
"""So much processor time may the broker's loop use for others while a good client waits for a write and a read."""


@pytest.fixture
def connect(kavka_broker: KavkaProcess) -> Iterator[Callable[..., BrokerClient]]:
    """connect(...): a new connection to the module's broker, closed when the test ends."""
    clients: list[BrokerClient] = []

    def start(**options: Any) -> BrokerClient:
        clients.append(BrokerClient(kavka_broker.port, **options))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.fixture
def good_client(kavka_broker: KavkaProcess) -> Iterator[SteadyClient]:
    """A good client during the whole test; right answers in good time."""
    with SteadyClient(kavka_broker.port, pid=kavka_broker.pid) as good:
        yield good
    assert good.longest_cpu_s < OTHERS_CPU_S


def test_a_slow_reader_of_big_fetches_takes_no_memory_and_gets_its_records(
    connect: Any, kavka_broker: KavkaProcess, good_client: SteadyClient
) -> None:
    writer = connect()
    topic = writer.create_topic()
    values = [bytes([number]) * 1_000_000 for number in range(24)]
    for value in values:
        assert writer.produce(topic, bytes(batch(value))).error_code == 0
    before = kavka_broker.resident_bytes()
    readers = [connect(receive_buffer_bytes=4096) for _ in range(10)]
    pipelined = 20
    for reader in readers:
        for _ in range(pipelined):
            reader.send(fetch_of(topic, 0), 12)
    rounds = good_client.rounds
    wait_for(lambda: good_client.rounds > rounds + 50)
    # 10 readers with 20 answers of 24 MB each, none of which is taken.
    assert kavka_broker.resident_bytes() - before < 24 * MIB
    slow = readers[0]
    for _ in range(3):
        answer = slow.receive(fetch_of(topic, 0), 12).responses[0].partitions[0]
        assert [value for _offset, value in read_records(answer.records)] == values
    assert kavka_broker.resident_bytes() - before < 24 * MIB


def test_a_client_that_asks_on_and_reads_nothing_is_not_read_either(
    connect: Any, kavka_broker: KavkaProcess, good_client: SteadyClient
) -> None:
    topic = connect().create_topic(partitions=300)
    question = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    before = kavka_broker.resident_bytes()
    asked = 3000  # answers of 10 KB each
    greedy = connect(receive_buffer_bytes=4096)
    asking = threading.Thread(target=lambda: [greedy.send(question, 9) for _ in range(asked)])
    asking.start()
    rounds = good_client.rounds
    wait_for(lambda: good_client.rounds > rounds + 100)
    assert kavka_broker.resident_bytes() - before < 12 * MIB
    assert len(greedy.receive(question, 9).topics[0].partitions) == 300
    answers = [greedy.receive_frame() for _ in range(asked - 1)]
    asking.join()
    # The bytes behind the correlation id are the same in all of them.
    assert len({answer[4:] for answer in answers}) == 1


def test_thousands_of_connections_are_served_with_bounded_memory(
    connect: Any, kavka_broker: KavkaProcess, good_client: SteadyClient, many_files: None
) -> None:
    topic = connect().create_topic()
    before = kavka_broker.resident_bytes()
    clients = [connect() for _ in range(CONNECTIONS)]
    for client in clients:
        client.send(ApiVersionsRequest(), 0)
    for client in clients:
        assert client.receive(ApiVersionsRequest(), 0).error_code == 0
    assert (kavka_broker.resident_bytes() - before) / CONNECTIONS < 16 * 1024
    value = bytes(batch(b"v"))
    for client in clients:
        client.send(produce_of(topic, value), 9)
    for client in clients:
        assert client.receive(produce_of(topic, value), 9).responses[0].partition_responses[0].error_code == 0
    assert connect().fetch(topic).high_watermark == CONNECTIONS
    for client in clients:
        client.close()
    wait_for(lambda: open_files(kavka_broker.pid) < 300)


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + 500
    if hard < wanted:
        pytest.skip(f"{CONNECTIONS} connections need {wanted} open files; the limit is {hard} (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_connections_that_stop_half_way_leave_nothing_open(
    connect: Any, kavka_broker: KavkaProcess, good_client: SteadyClient
) -> None:
    topic = connect().create_topic()
    request = bytes(batch(bytes(5000)))
    before = open_files(kavka_broker.pid)
    for length in range(1, 400, 2):
        with BrokerClient(kavka_broker.port) as client:
            client.send_bytes((len(request) + 60).to_bytes(4, "big") + request[:length])
    # And some that ask for something and do not wait for the answer.
    for _ in range(50):
        with BrokerClient(kavka_broker.port) as client:
            client.send(fetch_of(topic, 0, wait_ms=30_000), 12)
    wait_for(lambda: open_files(kavka_broker.pid) <= before + 2)


# -- records


def big_record(codec: Compression, size: int) -> bytes:
    """One record of `size` zeros behind a valid header, deflated: a bomb where `size` is absurd."""
    builder = BatchBuilder(Compression.NONE)
    builder.append(0, b"key", b"")
    header = read_header(builder.build())
    payload = bytes(compress(codec, record_of_zeros(size)))
    return seal(header._replace(attributes=int(codec), batch_length=49 + len(payload)), payload)


def record_of_zeros(size: int) -> bytes:
    def varint(value: int) -> bytes:
        value <<= 1
        out = bytearray()
        while value >= 128:
            out.append(value & 127 | 128)
            value >>= 7
        out.append(value)
        return bytes(out)

    content = b"\0\0\0" + varint(3) + b"key" + varint(size) + bytes(size) + varint(0)
    return varint(len(content)) + content


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_a_compression_bomb_into_a_compacted_topic_is_refused_in_bounded_memory(
    codec: Compression, connect: Any, kavka_broker: KavkaProcess, good_client: SteadyClient
) -> None:
    client = connect()
    topic = client.create_topic(cleanup_policy="compact", max_message_bytes=str(64 * MIB))
    small = big_record(codec, 100_000)
    assert client.produce(topic, small).error_code == 0
    bomb = big_record(codec, 300 * MIB)
    assert len(bomb) < 20 * MIB
    before = kavka_broker.resident_bytes()
    for _ in range(3):
        assert ErrorCode(client.produce(topic, bomb).error_code) is ErrorCode.MESSAGE_TOO_LARGE
    assert kavka_broker.resident_bytes() - before < 100 * MIB
    assert client.produce(topic, small).base_offset == 1


def test_a_bomb_into_another_topic_is_kept_as_it_came_and_inflated_to_a_bound_only(
    connect: Any, kavka_broker: KavkaProcess, good_client: SteadyClient
) -> None:
    client = connect()
    topic = client.create_topic()
    bomb = big_record(Compression.GZIP, 300 * MIB)
    before = kavka_broker.resident_bytes()
    assert client.produce(topic, bomb).error_code == 0
    fetched = bytes(client.fetch(topic).records)
    assert fetched[21:] == bomb[21:]
    assert kavka_broker.resident_bytes() - before < INFLATED_RECORDS_BYTES + 8 * MIB


@pytest.mark.parametrize("version", [3, 6])
def test_zstd_needs_produce_7(version: int, connect: Any) -> None:
    client = connect()
    topic = client.create_topic()
    records = bytes(batch(b"value", codec=Compression.ZSTD))
    refused = client.produce(topic, records, version=version)
    assert ErrorCode(refused.error_code) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert client.produce(topic, records, version=7).base_offset == 0


def legacy_message(magic: int) -> bytes:
    """A message set of one message in the format 0 or 1, checksum and all."""
    timestamp = b"" if magic == 0 else (1_700_000_000_000).to_bytes(8, "big")
    body = bytes([magic, 0]) + timestamp + b"\0\0\0\x03key\0\0\0\x05value"
    message = zlib.crc32(body).to_bytes(4, "big") + body
    return bytes(8) + len(message).to_bytes(4, "big") + message


@pytest.mark.parametrize("magic", [0, 1])
def test_old_record_formats_are_refused(magic: int, connect: Any) -> None:
    client = connect()
    topic = client.create_topic()
    assert ErrorCode(client.produce(topic, legacy_message(magic)).error_code) is ErrorCode.INVALID_RECORD
    assert client.produce(topic, bytes(batch(b"new"))).base_offset == 0


def wrong_crc() -> bytes:
    data = batch(b"value")
    data[-1] ^= 1
    return bytes(data)


def transactional() -> bytes:
    data = batch(b"value")
    pack_into(">h", data, 21, 0x10)
    pack_into(">qhi", data, 43, 7, 0, 0)  # of some producer: nobody has its transaction
    pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


@pytest.mark.parametrize("records", [wrong_crc(), b"", b"garbage"], ids=["wrong CRC", "nothing", "garbage"])
def test_an_error_that_nobody_waits_for_closes_the_connection(records: bytes, connect: Any) -> None:
    client = connect()
    topic = client.create_topic()
    client.send(produce_of(topic, bytes(batch(b"good")), acks=0), 9)
    assert client.topics(topic)[topic].error_code == 0
    client.send(produce_of(topic, records, acks=0), 9)
    assert client.is_closed_by_broker()
    assert connect().values(topic) == [b"good"]


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_other_acks_than_three_are_refused(acks: int, connect: Any) -> None:
    client = connect()
    topic = client.create_topic()
    refused = client.produce(topic, bytes(batch(b"value")), acks=acks)
    assert ErrorCode(refused.error_code) is ErrorCode.INVALID_REQUIRED_ACKS
    # What is not there is said first, as Apache Kafka does.
    absent = client.produce("absent", bytes(batch(b"value")), acks=acks)
    assert ErrorCode(absent.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.values(topic) == []


def test_records_of_a_transaction_that_nobody_could_end_are_refused(connect: Any) -> None:
    """Otherwise whoever reads committed records of the partition would wait for ever."""
    client = connect()
    topic = client.create_topic()
    refused = client.produce(topic, transactional())
    assert ErrorCode(refused.error_code) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    request = produce_of(topic, transactional())
    request.transactional_id = "transaction"
    refused = client.ask(request, 9).responses[0].partition_responses[0]
    assert ErrorCode(refused.error_code) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert client.produce(topic, bytes(batch(b"plain"))).base_offset == 0
    fetched = client.fetch(topic)
    assert (fetched.last_stable_offset, fetched.high_watermark) == (1, 1)


@pytest.mark.parametrize("count", [2**31 - 1, 10_000_000, 0, -2])
def test_absurd_numbers_of_partitions_are_refused_at_once(count: int, connect: Any, good_client: SteadyClient) -> None:
    client = connect()
    assert client.try_to_create_topic("absurd", partitions=count) in (
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.INVALID_REQUEST,
    )
    topic = client.create_topic()
    more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=topic, count=count)], timeout_ms=1000)
    assert client.ask(more, 2).results[0].error_code in (ErrorCode.INVALID_PARTITIONS, ErrorCode.POLICY_VIOLATION)
    assert len(client.topics(topic)[topic].partitions) == 1


def wait_until_closed(broker: KavkaProcess, most: int) -> None:
    """Waits until the broker has no more than so many sockets: a busy machine hears late of a client's end."""
    deadline = time.monotonic() + 60
    while (left := open_sockets(broker.pid)) > most:
        assert time.monotonic() < deadline, f"{left} sockets are open, {most} were"
        time.sleep(0.01)


def test_a_client_that_goes_leaves_no_fetch_waiting(connect: Any, kavka_broker: KavkaProcess) -> None:
    observer = connect()
    topic = observer.create_topic()
    sockets = open_sockets(kavka_broker.pid)
    days_ms = 2**31 - 1

    def leave() -> None:
        clients = [BrokerClient(kavka_broker.port) for _ in range(100)]
        for client in clients:
            for _ in range(20):
                client.send(fetch_of(topic, 0, wait_ms=days_ms), 12)
        observer.topics(topic)
        for client in clients:
            client.close()
        wait_until_closed(kavka_broker, sockets)

    leave()
    before = kavka_broker.resident_bytes()
    for _ in range(5):
        leave()
    # 10,000 fetches that wait hold 70 MB; what a crowd of connections leaves in the allocator is a few.
    assert kavka_broker.resident_bytes() - before < 30 * MIB


def test_a_limit_of_connections_set_at_run_time_holds_from_then_on(tmp_path: Path) -> None:
    def limit(client: BrokerClient, count: int) -> None:
        setting = AlterableConfig(name="max.connections", config_operation=0, value=str(count))
        resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[setting])
        answer = client.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        assert answer.responses[0].error_code == 0

    with KavkaProcess(tmp_path / "data") as broker, BrokerClient(broker.port) as client:
        wait_for(lambda: open_sockets(broker.pid) == 1)
        limit(client, 2)
        with BrokerClient(broker.port) as second, BrokerClient(broker.port, timeout_s=0.3) as third:
            assert second.ask(ApiVersionsRequest(), 0).error_code == 0
            with pytest.raises(TimeoutError):
                third.ask(ApiVersionsRequest(), 0)
            limit(client, 3)
            third.socket.settimeout(60)
            assert third.receive(ApiVersionsRequest(), 0).error_code == 0


def open_sockets(pid: int) -> int:
    """Connections of a process that has one listener, in state ESTABLISHED."""
    names: set[str] = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            names.add(os.readlink(path))
    inodes = {name[8:-1] for name in names if name.startswith("socket:[")}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return len([row for row in rows if row[3] == "01" and row[9] in inodes])


class FewFiles(KavkaProcess):
    """A broker that may open 300 files."""

    @property
    def command(self) -> list[str]:
        return ["prlimit", "--nofile=300:300", *super().command]


def test_more_connections_than_descriptors_leave_enough_for_the_logs(tmp_path: Path) -> None:
    with FewFiles(tmp_path / "data") as broker, SteadyClient(broker.port), BrokerClient(broker.port) as client:
        crowd = [BrokerClient(broker.port) for _ in range(400)]
        # Each partition has a segment of its own, with a file that is opened by the first record.
        topic = client.create_topic(partitions=250)
        for partition in range(250):
            assert client.produce(topic, bytes(batch(b"value")), partition=partition).error_code == 0
        for partition in range(250):
            assert client.values(topic, partition=partition) == [b"value"]
        for crowding in crowd:
            crowding.close()
        # Who had to wait in the kernel's queue is let in when others go.
        wait_for(lambda: is_served(broker.port))
        assert "no connections accepted until one closes" in broker.log_tail()
        assert "log directory offline" not in broker.log_tail()


def is_served(port: int) -> bool:
    with BrokerClient(port, timeout_s=20) as client:
        return bool(client.ask(ApiVersionsRequest(), 0).error_code == 0)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.005)
