"""Property: the names of partitions' directories say again whose they are, for every name that a topic may have."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.controller.decide.topic_plans import topic_name_error
from kavka.log.decide.directory_names import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    STRAY_SUFFIX,
    is_deleted_name,
    may_be_moved,
    parse_directory_name,
    parse_future_name,
    unique_name,
)
from kavka.model import TopicPartition

ALPHABET = "aZ0._-"
WORDS = st.sampled_from([".", "-", "-0", ".0123456789abcdef", DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_SUFFIX])
TOPICS = (
    st.lists(st.one_of(WORDS, st.text(ALPHABET, min_size=1, max_size=60)), min_size=1, max_size=6)
    .map("".join)
    .map(lambda name: name[:249])
    .filter(lambda name: topic_name_error(name) is None)
)
PARTITIONS = st.builds(TopicPartition, TOPICS, st.integers(0, (1 << 31) - 1))


@settings(max_examples=300, deadline=None)
@given(partition=PARTITIONS, number=st.integers(0, (1 << 64) - 1))
def test_a_name_says_again_what_it_was_made_of(partition: TopicPartition, number: int) -> None:
    name = str(partition)
    assert parse_directory_name(name) == partition
    assert not is_deleted_name(name)
    deleted = unique_name(partition, DELETE_SUFFIX, lambda limit: number)
    assert len(deleted) <= 255
    assert is_deleted_name(deleted)
    assert parse_directory_name(deleted) is None
    stray = unique_name(partition, STRAY_SUFFIX, lambda limit: number)
    assert parse_directory_name(stray) is None
    assert not is_deleted_name(stray)
    future = unique_name(partition, FUTURE_SUFFIX, lambda limit: number)
    assert parse_directory_name(future) is None
    if may_be_moved(partition):
        assert parse_future_name(future) == partition
