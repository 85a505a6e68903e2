"""What the names of partitions' directories say, as Kafka's UnifiedLog.parseTopicPartitionName has it."""

from __future__ import annotations

import pytest

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

UUID = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("orders-0", TopicPartition("orders", 0)),
        ("a-b-12", TopicPartition("a-b", 12)),
        ("a--0", TopicPartition("a-", 0)),
        (".audit-0", TopicPartition(".audit", 0)),
        ("orders-delete-3", TopicPartition("orders-delete", 3)),
        ("a.b-future-2147483647", TopicPartition("a.b-future", 2147483647)),
        ("orders", None),
        ("7", None),
        ("", None),
        ("-0", None),
        ("-", None),
        ("orders-", None),
        ("orders-x", None),
        ("orders-0x", None),
        ("orders--1x", None),
        ("orders-\u0664", None),
        ("orders-\u00b2", None),
        (f"orders-0.{UUID}-delete", None),
        (f"orders-0.{UUID}-future", None),
        (f"orders-0.{UUID}-stray", None),
    ],
)
def test_a_partitions_directory_has_its_name(name: str, partition: TopicPartition | None) -> None:
    assert parse_directory_name(name) == partition


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        (f"orders-0.{UUID}-future", TopicPartition("orders", 0)),
        (f"a.b-c-12.{UUID}-future", TopicPartition("a.b-c", 12)),
        (f"orders-0.{UUID}-delete", None),
        (f"orders-0.{UUID}-stray", None),
        ("orders-0-future", None),
        ("orders-0.-future", None),
        (f"orders.{UUID}-future", None),
        (f"orders-x.{UUID}-future", None),
        (f"-0.{UUID}-future", None),
        (f"orders-0.{UUID}-future2", None),
        ("orders-0", None),
    ],
)
def test_a_moving_copys_directory_says_whose_it_is(name: str, partition: TopicPartition | None) -> None:
    assert parse_future_name(name) == partition


@pytest.mark.parametrize(
    ("name", "is_deleted"),
    [
        (f"orders-0.{UUID}-delete", True),
        ("a.b-12.x-delete", True),
        ("orders-0-delete", False),
        ("orders-0.-delete", False),
        ("orders.x-delete", False),
        (f"orders-x.{UUID}-delete", False),
        (f"-0.{UUID}-delete", False),
        (f"orders-0.{UUID}-future", False),
        (f"orders-0.{UUID}-delete-0", False),
        ("lost+found", False),
    ],
)
def test_a_deleted_partitions_directory_is_not_taken_for_somebodys(name: str, is_deleted: bool) -> None:
    assert is_deleted_name(name) is is_deleted


@pytest.mark.parametrize("suffix", [DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_SUFFIX])
def test_a_unique_name_has_128_bits_drawn_and_fits_into_a_directory(suffix: str) -> None:
    limits: list[int] = []

    def draw(limit: int) -> int:
        limits.append(limit)
        return (0, 0xAB, 0xCD)[len(limits)]

    name = unique_name(TopicPartition("orders", 3), suffix, draw)
    assert name == f"orders-3.00000000000000ab00000000000000cd{suffix}"
    assert limits == [1 << 64, 1 << 64]
    longest = unique_name(TopicPartition("t" * 249, 12), suffix, lambda limit: limit - 1)
    rest = f"-12.{'f' * 32}{suffix}"
    assert longest == "t" * (255 - len(rest)) + rest


@pytest.mark.parametrize(("partition", "longest"), [(0, 213), (9, 213), (10, 212), (2147483647, 204)])
def test_a_log_may_be_moved_if_its_copys_name_says_all_of_its_own(partition: int, longest: int) -> None:
    """255 bytes, less `-P.` and 32 digits and `-future`."""
    longest_name = TopicPartition("t" * longest, partition)
    assert may_be_moved(longest_name)
    assert parse_future_name(unique_name(longest_name, FUTURE_SUFFIX, lambda limit: 0)) == longest_name
    too_long = TopicPartition("t" * (longest + 1), partition)
    assert not may_be_moved(too_long)
    assert parse_future_name(unique_name(too_long, FUTURE_SUFFIX, lambda limit: 0)) != too_long
