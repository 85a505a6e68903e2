"""The small files beside the logs, in Kafka's own text."""

import uuid

import pytest

from kavka.log.decide.checkpoint import (
    MalformedCheckpoint,
    MetaProperties,
    format_clean_shutdown,
    format_epochs,
    format_meta_properties,
    format_offsets,
    format_partition_metadata,
    parse_clean_shutdown,
    parse_epochs,
    parse_meta_properties,
    parse_offsets,
    parse_partition_metadata,
)
from kavka.log.decide.leader_epochs import EpochEntry
from kavka.model import TopicPartition

TOPIC_ID = uuid.UUID("ef19e072-3bcb-476c-8ca2-2e72ea9c4609")


def test_an_offset_checkpoint_has_a_version_a_count_and_a_line_for_each_partition() -> None:
    offsets = {TopicPartition("b", 1): 7, TopicPartition("a-b", 0): 0}
    assert format_offsets(offsets) == b"0\n2\na-b 0 0\nb 1 7\n"
    assert parse_offsets(format_offsets(offsets)) == offsets


def test_an_empty_offset_checkpoint_is_one_of_a_new_directory() -> None:
    assert parse_offsets(b"") == {}
    assert parse_offsets(b"0\n0\n") == {}


@pytest.mark.parametrize(
    "data",
    [
        b"1\n0\n",
        b"0\n",
        b"0\nx\n",
        b"0\n2\na 0 1\n",
        b"0\n1\na 0 1",
        b"0\n1\na 0\n",
        b"0\n1\na 0 -1\n",
        b"0\n1\na 0 9223372036854775808\n",
        b"0\n1\na 2147483648 0\n",
        b"0\n1\na b c d\n",
        b"0\n1\n\xff 0 1\n",
        b"\x00" * 20,
    ],
)
def test_an_offset_checkpoint_that_is_cut_or_garbage_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedCheckpoint):
        parse_offsets(data)


def test_no_proper_prefix_of_an_offset_checkpoint_but_nothing_is_believed() -> None:
    data = format_offsets({TopicPartition("a", number): number for number in range(12)})
    for size in range(1, len(data)):
        with pytest.raises(MalformedCheckpoint):
            parse_offsets(data[:size])


def test_the_largest_numbers_of_java_are_numbers() -> None:
    offsets = {TopicPartition("a", 2**31 - 1): 2**63 - 1}
    assert parse_offsets(format_offsets(offsets)) == offsets
    entries = [EpochEntry(2**31 - 1, 2**63 - 1)]
    assert parse_epochs(format_epochs(entries)) == entries


def test_a_leader_epoch_checkpoint_keeps_its_order() -> None:
    entries = [EpochEntry(0, 0), EpochEntry(4, 100)]
    assert format_epochs(entries) == b"0\n2\n0 0\n4 100\n"
    assert parse_epochs(format_epochs(entries)) == entries


@pytest.mark.parametrize(
    "data",
    [b"", b"0\n1\n0\n", b"0\n1\n1 x\n", b"0\n2\n0 0\n", b"0\n1\n2147483648 0\n", b"0\n1\n0 9223372036854775808\n"],
)
def test_a_leader_epoch_checkpoint_that_is_cut_or_garbage_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedCheckpoint):
        parse_epochs(data)


def test_partition_metadata_holds_the_topic_id_in_kafkas_base64() -> None:
    data = b"version: 0\ntopic_id: 7xngcjvLR2yMoi5y6pxGCQ"
    assert format_partition_metadata(TOPIC_ID) == data
    assert parse_partition_metadata(data) == TOPIC_ID


def test_no_proper_prefix_of_partition_metadata_is_believed() -> None:
    data = format_partition_metadata(TOPIC_ID)
    for size in range(len(data)):
        with pytest.raises(MalformedCheckpoint):
            parse_partition_metadata(data[:size])


def test_partition_metadata_of_another_version_is_not_believed() -> None:
    with pytest.raises(MalformedCheckpoint):
        parse_partition_metadata(format_partition_metadata(TOPIC_ID).replace(b"version: 0", b"version: 1"))


def test_meta_properties_of_kafka_are_read() -> None:
    data = b"#\n#Sat Nov 21 04:26:54 UTC 2026\nbroker.id=1\nversion=0\ncluster.id=oSq3R2jATHyENcjV8u1ffA\n"
    assert parse_meta_properties(data) == MetaProperties(1, "oSq3R2jATHyENcjV8u1ffA")


def test_meta_properties_of_a_kraft_broker_are_read() -> None:
    data = (
        b"#\n#Sat Nov 21 04:26:54 UTC 2026\ncluster.id=oSq3R2jATHyENcjV8u1ffA\ndirectory.id=5QmcO9UfpmJ1WJOpJTNtvQ\n"
        b"node.id=3\nversion=1\n"
    )
    assert parse_meta_properties(data) == MetaProperties(3, "oSq3R2jATHyENcjV8u1ffA")


def test_meta_properties_may_leave_out_what_is_not_known() -> None:
    for properties in (MetaProperties(3, "abc"), MetaProperties(None, "abc"), MetaProperties(0, None)):
        assert parse_meta_properties(format_meta_properties(properties)) == properties


@pytest.mark.parametrize(
    "data",
    [
        b"version=2\n",
        b"version=0\nbroker.id=x\n",
        b"broker.id=1_0\n",
        b"broker.id=2147483648\n",
        b"version=1\nnode.id=\n",
        b"version=0\nnonsense\n",
        b"\xff\xfe",
    ],
)
def test_meta_properties_of_another_kind_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedCheckpoint):
        parse_meta_properties(data)


def test_the_clean_shutdown_mark_carries_the_broker_epoch() -> None:
    assert format_clean_shutdown(-1) == format_clean_shutdown() == b'{"version":0,"brokerEpoch":-1}'
    assert parse_clean_shutdown(format_clean_shutdown(42)) == 42


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"brokerEpoch":"x"}'])
def test_a_clean_shutdown_mark_without_an_epoch_is_still_a_mark(data: bytes) -> None:
    assert parse_clean_shutdown(data) == -1


def test_an_operator_reads_what_stands_at_the_head_of_a_file_instead() -> None:
    with pytest.raises(MalformedCheckpoint) as refused:
        parse_partition_metadata(b"version: 1\ntopic_id: x\nmore\n")
    assert str(refused.value) == "expected version 0 and a topic id, found ['version: 1', 'topic_id: x']"
    for parse in (parse_offsets, parse_epochs):
        with pytest.raises(MalformedCheckpoint) as refused:
            parse(b"0\nmany\n0 0\n")
        assert str(refused.value) == "expected a version and a number of entries, found ['0', 'many']"
