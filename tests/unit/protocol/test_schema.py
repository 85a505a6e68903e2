"""The classes of messages: defaults, equality, and what a message module may say."""

from __future__ import annotations

import pytest

from kavka.protocol.messages.fetch_request import FetchRequest
from kavka.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kavka.protocol.schema import ZERO_UUID, Versions


def test_a_message_has_kafkas_defaults() -> None:
    request = FetchRequest()
    assert (request.replica_id, request.max_bytes, request.session_epoch, request.rack_id) == (-1, 0x7FFFFFFF, -1, "")
    assert TopicProduceData().topic_id == ZERO_UUID
    assert request.cluster_id is None


def test_lists_are_not_shared_between_messages() -> None:
    first, second = ProduceRequest(), ProduceRequest()
    first.topic_data.append(TopicProduceData(name="t"))
    assert second.topic_data == []


def test_fields_are_given_by_name_or_in_order() -> None:
    assert ProduceRequest("id", 1, 2) == ProduceRequest(transactional_id="id", acks=1, timeout_ms=2)
    with pytest.raises(TypeError, match="no_such_field"):
        ProduceRequest(no_such_field=1)  # type: ignore[call-arg]


def test_a_message_has_no_room_for_other_attributes() -> None:
    with pytest.raises(AttributeError):
        ProduceRequest().no_such_field = 1  # type: ignore[attr-defined]


def test_messages_are_equal_by_their_fields() -> None:
    assert TopicProduceData(name="t") == TopicProduceData(name="t")
    assert TopicProduceData(name="t") != TopicProduceData(name="u")
    assert TopicProduceData() != ProduceRequest()
    assert PartitionProduceData(records=memoryview(b"R")) == PartitionProduceData(records=b"R")


def test_a_message_in_a_log_line_does_not_show_its_records() -> None:
    partition = PartitionProduceData(index=1, records=memoryview(bytes(5_000)))
    assert repr(partition) == "PartitionProduceData(index=1, records=<5000 bytes>)"


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("3", (3,), (2, 4)),
        ("0-2", (0, 1, 2), (3,)),
        ("4+", (4, 99), (3,)),
        ("0-1,5+", (0, 1, 5, 9), (2, 4)),
        ("", (), (0,)),
    ],
)
def test_versions_are_read_as_kafka_writes_them(text: str, inside: tuple[int, ...], outside: tuple[int, ...]) -> None:
    assert all(version in Versions(text) for version in inside)
    assert not any(version in Versions(text) for version in outside)
