"""`kavka groups describe --in-flight`: what is said of partitions whose leader holds nothing."""

from __future__ import annotations

import pytest

from kavka.cli.topics.group_records import show_records
from kavka.client.group_admin import ShownGroup
from kavka.client.share_group_admin import InFlight, RecordRun, SharePosition, ShareRecords
from kavka.model import TopicPartition

HELD, LEFT, UNKNOWN = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("orders", 2)
GROUP = ShownGroup("workers", "share", "Empty", "simple", 1, 3, 3, ())


def test_a_group_that_nobody_is_in_shows_what_is_stored_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    run = RecordRun(3, 4, "acquired", 2, "m", 5_000, None)
    told = InFlight({HELD: ShareRecords(3, 5, 2, 1, (run,))}, {})
    stored = {HELD: SharePosition(3, 7), LEFT: SharePosition(8, 1), UNKNOWN: SharePosition(0, None)}
    show_records(GROUP, told, "workers", stored)
    printed = capsys.readouterr()
    assert "orders\t0\t3 to 4\t2\tacquired\t2\tm (no longer a member)\t5.0 s" in printed.out
    assert "orders-1: its leader holds no records" in printed.err
    assert "first record not done 8, 1 record not done" in printed.err
    assert "first record not done 0, how many are not done is not known" in printed.err
    assert "orders-0:" not in printed.err
