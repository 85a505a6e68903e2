"""The codec by hand: bytes as Kafka's protocol guide describes them, limits, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from kavka.errors import ErrorCode, ProtocolViolation, RequestError
from kavka.model import FileSlice
from kavka.protocol.codec import (
    EncodeError,
    UnsupportedVersion,
    decode,
    encode,
    encode_chunks,
    min_max_versions,
)
from kavka.protocol.messages.api_versions_request import ApiVersionsRequest
from kavka.protocol.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from kavka.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
)
from kavka.protocol.messages.fetch_request import FetchRequest
from kavka.protocol.messages.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kavka.protocol.messages.heartbeat_request import HeartbeatRequest
from kavka.protocol.messages.heartbeat_response import HeartbeatResponse
from kavka.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kavka.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kavka.protocol.primitives import STRING_MAX_BYTES
from kavka.protocol.schema import Message

TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


class RecordsFile:
    """A file of the FileSystem port, as far as a slice needs it."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_RDONLY)

    def fileno(self) -> int:
        return self.descriptor

    def read_at(self, position: int, length: int) -> bytes:
        return os.pread(self.descriptor, length, position)


@pytest.fixture
def records_file(tmp_path: Path) -> RecordsFile:
    path = tmp_path / "0.log"
    path.write_bytes(b"0123456789")
    return RecordsFile(path)


def produce(records: object) -> ProduceRequest:
    partition = PartitionProduceData(index=1, records=records)  # type: ignore[arg-type]  # wrong types are tried as well
    return ProduceRequest(acks=-1, timeout_ms=5, topic_data=[TopicProduceData(name="t", partition_data=[partition])])


# --- bytes ---


def test_a_version_that_is_not_flexible_has_fixed_lengths() -> None:
    assert encode(produce(b"RR"), 3) == (
        b"\xff\xff"  # transactional id: null
        b"\xff\xff\x00\x00\x00\x05"  # acks, timeout
        b"\x00\x00\x00\x01\x00\x01t"  # one topic, its name
        b"\x00\x00\x00\x01\x00\x00\x00\x01"  # one partition, its index
        b"\x00\x00\x00\x02RR"
    )


def test_a_flexible_version_has_compact_lengths_and_tags() -> None:
    assert encode(produce(b"RR"), 9) == (
        b"\x00"  # transactional id: null
        b"\xff\xff\x00\x00\x00\x05"
        b"\x02\x02t"
        b"\x02\x00\x00\x00\x01"
        b"\x03RR\x00"  # and no tagged fields of the partition,
        b"\x00\x00"  # the topic, the request
    )


def test_a_field_is_only_there_in_its_versions() -> None:
    by_name = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=TOPIC_ID, name=None)])
    assert encode(by_name, 9) == b"\x02\x02t\x00\x01\x00\x00\x00"
    assert encode(by_id, 12) == b"\x02" + TOPIC_ID.bytes + b"\x00\x00\x01\x00\x00"
    assert decode(MetadataRequest, encode(by_id, 12), 12) == by_id
    assert decode(MetadataRequest, encode(by_name, 9), 9).include_topic_authorized_operations is False


def test_a_length_over_127_takes_two_bytes() -> None:
    name = "n" * 200
    encoded = encode(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 9)
    assert encoded[:3] == b"\x02\xc9\x01"
    assert decode(MetadataRequest, encoded, 9).topics == [MetadataRequestTopic(name=name)]


def test_more_than_127_elements_are_counted_in_two_bytes() -> None:
    names = [MetadataRequestTopic(name=str(number)) for number in range(300)]
    assert decode(MetadataRequest, encode(MetadataRequest(topics=names), 9), 9).topics == names


def test_null_and_empty_are_two_things() -> None:
    assert decode(MetadataRequest, encode(MetadataRequest(topics=None), 9), 9).topics is None
    assert decode(MetadataRequest, encode(MetadataRequest(topics=[]), 9), 9).topics == []
    assert decode(ProduceRequest, encode(produce(None), 9), 9).topic_data[0].partition_data[0].records is None
    assert decode(ProduceRequest, encode(produce(b""), 9), 9).topic_data[0].partition_data[0].records == b""


def test_tagged_fields_are_written_in_the_order_of_their_tags_and_only_if_set() -> None:
    request = FetchRequest(max_bytes=1, cluster_id="c")
    plain, tagged = encode(FetchRequest(max_bytes=1), 12), encode(request, 12)
    assert plain[-1:] == b"\x00"
    assert tagged == plain[:-1] + b"\x01" + b"\x00" + b"\x02" + b"\x02c"
    assert decode(FetchRequest, tagged, 12) == request


def test_a_tagged_struct_is_none_while_its_tag_is_absent() -> None:
    def partition(leader: LeaderIdAndEpoch | None) -> FetchResponse:
        return FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(current_leader=leader)])])

    with_leader = partition(LeaderIdAndEpoch(leader_id=3, leader_epoch=9))
    assert decode(FetchResponse, encode(with_leader, 12), 12) == with_leader
    assert encode(partition(LeaderIdAndEpoch()), 12) == encode(partition(None), 12)
    assert decode(FetchResponse, encode(partition(LeaderIdAndEpoch()), 12), 12) == partition(None)


def test_a_tagged_struct_that_may_be_null_writes_its_null() -> None:
    consumer = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    assert encode(consumer, 0)[-4:] == b"\x01\x00\x01\x00"
    assert decode(ConsumerGroupMemberMetadataValue, encode(consumer, 0), 0) == consumer
    default = ConsumerGroupMemberMetadataValue()
    assert default.classic_member_metadata == ClassicMemberMetadata()
    assert decode(ConsumerGroupMemberMetadataValue, encode(default, 0), 0) == default


def test_a_struct_that_may_be_null_has_a_byte_before_it() -> None:
    without = DescribeTopicPartitionsRequest(cursor=None)
    with_cursor = DescribeTopicPartitionsRequest(cursor=Cursor(topic_name="t", partition_index=2))
    assert encode(without, 0)[-2:] == b"\xff\x00"
    assert encode(with_cursor, 0)[-9:] == b"\x01\x02t\x00\x00\x00\x02\x00\x00"
    assert decode(DescribeTopicPartitionsRequest, encode(without, 0), 0) == without
    assert decode(DescribeTopicPartitionsRequest, encode(with_cursor, 0), 0) == with_cursor


# --- records by reference ---


def test_decoded_records_are_a_view_of_the_request() -> None:
    buffer = bytearray(encode(produce(b"RR"), 9))
    records = decode(ProduceRequest, buffer, 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    buffer[buffer.index(b"RR")] = ord("S")
    assert bytes(records) == b"SR"


def test_strings_and_bytes_hold_no_reference_to_the_request() -> None:
    buffer = bytearray(encode(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9))
    decode(MetadataRequest, buffer, 9)
    buffer.clear()  # raises BufferError while anything is a view of it


@pytest.mark.parametrize("version", [3, 9])
def test_chunks_pass_records_by_reference(version: int, records_file: RecordsFile) -> None:
    records = memoryview(b"in memory")
    piece = FileSlice(records_file, 2, 4)
    for given, expected in (
        (records, [records]),
        (piece, [piece]),
        ([piece, records], [piece, records]),
    ):
        chunks = encode_chunks(produce(given), version)
        assert [any(chunk is each for each in expected) for chunk in chunks].count(True) == len(expected)
        written = b"".join(chunk.tobytes() if isinstance(chunk, FileSlice) else bytes(chunk) for chunk in chunks)
        assert written == encode(produce(given), version)
        assert b"2345" in written or b"in memory" in written


def test_chunks_without_records_are_one_piece() -> None:
    assert [bytes(chunk) for chunk in encode_chunks(produce(None), 9)] == [encode(produce(None), 9)]  # type: ignore[arg-type]


def test_a_slice_behind_the_end_of_its_file_is_not_sent_short(records_file: RecordsFile) -> None:
    with pytest.raises(EOFError, match="slice of 20 bytes at 5"):
        encode(produce(FileSlice(records_file, 5, 20)), 9)


# --- versions ---


def test_an_unknown_version_says_which_there_are() -> None:
    for version in (-1, 14):
        for attempt in (
            lambda version=version: decode(ProduceRequest, b"", version),
            lambda version=version: encode(ProduceRequest(), version),
            lambda version=version: encode_chunks(ProduceRequest(), version),
        ):
            with pytest.raises(UnsupportedVersion, match=rf"versions 0 to 13, not {version}") as caught:
                attempt()
            assert isinstance(caught.value, RequestError)
            assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
            assert (caught.value.min_version, caught.value.max_version, caught.value.version) == (0, 13, version)


def test_the_versions_of_a_message_can_be_asked_for() -> None:
    assert min_max_versions(FetchRequest) == (0, 18)


def test_a_request_refuses_what_its_version_cannot_say() -> None:
    with pytest.raises(EncodeError, match="HeartbeatRequest v2 group_instance_id: 'static' cannot be said"):
        encode(HeartbeatRequest(group_id="g", group_instance_id="static"), 2)
    assert encode(HeartbeatRequest(group_id="g"), 2)


def test_a_request_drops_what_does_not_matter_in_its_version() -> None:
    with_rack = FetchRequest(rack_id="r", max_wait_ms=1)
    assert encode(with_rack, 10) == encode(FetchRequest(max_wait_ms=1), 10)


def test_a_response_drops_what_its_version_cannot_say() -> None:
    redirected = FetchResponse(
        responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(preferred_read_replica=4)])]
    )
    decoded = decode(FetchResponse, encode(redirected, 10), 10)
    assert decoded.responses[0].partitions[0].preferred_read_replica == -1


# --- what cannot be written ---


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (HeartbeatRequest(group_id=None), 0),  # type: ignore[arg-type]
        (HeartbeatRequest(generation_id=2**31), 0),
        (HeartbeatRequest(generation_id="1"), 0),  # type: ignore[arg-type]
        (HeartbeatRequest(group_id="g" * (STRING_MAX_BYTES + 1)), 0),
        (HeartbeatRequest(group_id="g" * (STRING_MAX_BYTES + 1)), 4),
        (HeartbeatRequest(group_id="\ud800"), 4),
        (FindCoordinatorRequest(coordinator_keys=[None]), 4),  # type: ignore[list-item]
        (produce(17), 9),
    ],
)
@pytest.mark.parametrize("encoding", [encode, encode_chunks])
def test_a_wrong_value_is_an_encode_error(
    message: HeartbeatRequest, version: int, encoding: Callable[[HeartbeatRequest, int], object]
) -> None:
    with pytest.raises(EncodeError, match=rf"{type(message).__name__} v{version}"):
        encoding(message, version)


def test_a_string_of_the_greatest_length_is_written_and_read() -> None:
    for version in (0, 4):
        longest = HeartbeatRequest(group_id="g" * STRING_MAX_BYTES)
        assert decode(HeartbeatRequest, encode(longest, version), version) == longest


# --- bytes that lie ---

V0 = b"\x00\x01g"
"""A Heartbeat v0 begins with its group id."""
LIES: dict[str, tuple[type[Message], int, bytes | None, str]] = {
    "nothing at all": (HeartbeatRequest, 0, b"", "end too early"),
    "a string longer than the message": (HeartbeatRequest, 0, b"\x7f\xffg", "32767 bytes announced, 1 remain"),
    "null where a string must be": (HeartbeatRequest, 0, b"\xff\xff", "group_id: null"),
    "null where a compact string must be": (HeartbeatRequest, 4, b"\x00", "group_id: null"),
    "no UTF-8": (HeartbeatRequest, 0, b"\x00\x01\xff" + bytes(6), "not UTF-8"),
    "a number cut short": (HeartbeatRequest, 0, V0 + b"\x00\x00", "end too early"),
    "bytes behind the end": (HeartbeatResponse, 0, b"\x00\x00" + b"?", "1 bytes remain"),
    "a varint cut short": (HeartbeatRequest, 4, b"\x80", "end too early"),
    "a varint of six bytes": (HeartbeatRequest, 4, b"\x80" * 5 + b"\x01", "varint of more than 5 bytes"),
    "a varint over 32 bits": (HeartbeatRequest, 4, b"\xff\xff\xff\xff\x1f", "varint over 32 bits"),
    "a compact string over Kafka's limit": (
        HeartbeatRequest,
        4,
        b"\x81\x80\x02" + bytes(40_000),
        "a string of 32768 bytes",
    ),
    "more elements than bytes": (MetadataRequest, 0, b"\x7f\xff\xff\xff\x00\x01t", "2147483647 elements"),
    "more compact elements than bytes": (MetadataRequest, 9, b"\xff\xff\xff\xff\x0f\x02t", "4294967294 elements"),
    "null where an array must be": (
        ProduceRequest,
        3,
        b"\xff\xff\x00\x01" + bytes(4) + b"\xff" * 4,
        "topic_data: null",
    ),
    "more tagged fields than bytes": (ApiVersionsRequest, 3, b"\x01\x01\x7f\x00\x00", "127 elements announced"),
    "a tagged field over the end": (ApiVersionsRequest, 3, b"\x01\x01\x01\x09\x7f", "127 bytes announced, 0 remain"),
    "a known tagged field that is longer than its size": (FetchRequest, 12, None, "tagged field"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_a_violation_that_names_it(lie: str) -> None:
    message_type, version, data, sentence = LIES[lie]
    if data is None:
        data = encode(FetchRequest(), 12)[:-1] + b"\x01\x00\x01\x02c"
    for buffer in (data, memoryview(data)):
        with pytest.raises(ProtocolViolation, match=sentence):
            decode(message_type, buffer, version)


def test_unknown_tagged_fields_are_skipped() -> None:
    request = ApiVersionsRequest(client_software_name="c", client_software_version="1")
    plain = encode(request, 3)
    unknown = b"\x02" + b"\x05\x03abc" + b"\x80\x01\x00"
    assert decode(ApiVersionsRequest, plain[:-1] + unknown, 3) == request


def test_unknown_tagged_fields_between_known_ones_are_skipped() -> None:
    plain = encode(FetchRequest(), 12)
    tags = b"\x03" + b"\x63\x02zz" + b"\x00\x02\x02c" + b"\xff\x01\x00"
    assert decode(FetchRequest, plain[:-1] + tags, 12) == FetchRequest(cluster_id="c")


def test_a_lying_count_costs_no_memory() -> None:
    import tracemalloc

    data = b"\x7f\xff\xff\xff" + bytes(10_000)
    decode_fails(data)
    tracemalloc.start()
    try:
        decode_fails(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def decode_fails(data: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        decode(MetadataRequest, data, 1)
