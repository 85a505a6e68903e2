"""Partitions for keys, and partitions for the members of a group, as Kafka's Java client chooses them."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as peer_murmur2

from kavka.client.assignor import (
    assign_range,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kavka.client.partitioner import StickyPartitioner, murmur2, partition_for_key
from kavka.errors import ProtocolViolation
from kavka.model import TopicPartition


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_of_known_keys(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF


@given(st.binary(max_size=100))
def test_murmur2_is_that_of_another_client(key: bytes) -> None:
    assert murmur2(key) == peer_murmur2(key) & 0xFFFFFFFF


@given(st.binary(max_size=50), st.integers(1, 1000))
def test_a_key_has_a_partition(key: bytes, count: int) -> None:
    assert 0 <= partition_for_key(key, count) < count


def test_records_without_a_key_stick_until_the_batch_is_full() -> None:
    sticky = StickyPartitioner(Random(3))
    first = sticky.partition("t", [0, 1, 2])
    assert {sticky.partition("t", [0, 1, 2]) for _ in range(10)} == {first}
    sticky.batch_filled("t", [0, 1, 2])
    assert sticky.partition("t", [0, 1, 2]) != first
    assert sticky.partition("t", [7]) == 7
    sticky.batch_filled("t", [7])
    assert sticky.partition("t", [7]) == 7


def test_range_gives_runs_and_the_first_members_one_more() -> None:
    members = {"b": ["t", "u"], "a": ["t"], "c": ["t"]}
    given_out = assign_range(members, {"t": 7, "u": 2})
    assert [p.partition for p in given_out["a"]] == [0, 1, 2]
    assert given_out["b"] == [
        TopicPartition("t", 3),
        TopicPartition("t", 4),
        TopicPartition("u", 0),
        TopicPartition("u", 1),
    ]
    assert [p.partition for p in given_out["c"]] == [5, 6]
    assert assign_range({"a": ["missing"]}, {}) == {"a": []}


@given(
    st.dictionaries(st.text(min_size=1, max_size=3), st.lists(st.sampled_from("tuv"), unique=True), min_size=1),
    st.integers(0, 9),
)
def test_range_gives_every_partition_to_exactly_one_subscriber(members: dict[str, list[str]], count: int) -> None:
    given_out = assign_range(members, dict.fromkeys("tuv", count))
    everything = [partition for partitions in given_out.values() for partition in partitions]
    subscribed = {topic for topics in members.values() for topic in topics}
    assert sorted(everything) == sorted(TopicPartition(t, n) for t in subscribed for n in range(count))
    for member, partitions in given_out.items():
        assert {p.topic for p in partitions} <= set(members[member])


partitions = st.lists(st.builds(TopicPartition, st.text(max_size=10), st.integers(0, 1000)), unique=True)


@given(partitions, st.lists(st.text(max_size=10)))
def test_assignments_and_subscriptions_come_back(assigned: list[TopicPartition], topics: list[str]) -> None:
    assert sorted(decode_assignment(encode_assignment(assigned))) == sorted(assigned)
    assert decode_subscription(encode_subscription(topics)) == topics
    assert decode_assignment(b"") == []


@given(st.binary(max_size=40))
def test_garbage_is_a_protocol_violation_or_something_small(data: bytes) -> None:
    for decode in (decode_assignment, decode_subscription):
        try:
            assert len(decode(data)) <= len(data)
        except ProtocolViolation:
            pass
