"""Which batches of a task go to the brokers together."""

from __future__ import annotations

from kavka.records.builder import EncodedRecords
from kavka_spark.deliveries import GROUPED_BYTES, in_groups
from kavka_spark.encoder import EncodedBatch


def batch(partition: int, size: int) -> tuple[str, EncodedBatch]:
    return "orders", EncodedBatch(partition, EncodedRecords(b"", 1, timestamps=(0, 0), payload_bytes=size), size)


def test_small_batches_of_all_partitions_go_together_as_the_last_ones() -> None:
    batches = [batch(partition, 100) for partition in range(4)]
    assert list(in_groups(batches)) == [(batches, True)]


def test_large_ones_do_not_wait_for_those_that_are_not_encoded_yet() -> None:
    asked = []

    def encoded() -> list[tuple[str, EncodedBatch]]:
        return [batch(0, GROUPED_BYTES // 2), batch(1, GROUPED_BYTES // 2), batch(2, 1), batch(0, 1)]

    groups = in_groups(asked.append(one) or one for one in encoded())  # type: ignore[func-returns-value]
    first, are_last = next(groups)
    assert [one.partition for _, one in first] == [0, 1]
    assert not are_last
    assert len(asked) == 2
    second, are_last = next(groups)
    assert [one.partition for _, one in second] == [2, 0]
    assert are_last


def test_a_task_ends_also_where_nothing_is_left() -> None:
    *_, last = in_groups([batch(0, GROUPED_BYTES)])
    assert last == ([], True)
