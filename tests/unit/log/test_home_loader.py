"""Which of a partition's directories is its log when a broker starts, and what the logs have while they are read."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kavka.errors import LogsContradict, StorageError
from kavka.log.decide.checkpoint import format_partition_metadata
from kavka.log.decide.directory_names import MOVED_MARK
from kavka.log.home_loader import HomeLoader, HomePlan, LoadingLimits, LoadingPorts, LoadReport
from kavka.log.log_config import LogConfig
from kavka.log.log_home import LogHome
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.log.made_directories import MadeDirectories
from kavka.log.offset_checkpoints import OffsetCheckpoints
from kavka.log.segment import OpenSegments
from kavka.model import TopicPartition
from kavka.runtime.disk import LocalFileSystem
from tests.unit.log.log_support import NOW_MS, append, batch, records
from tests.unit.log.test_log_directories import Disk

ORDERS = TopicPartition("orders", 0)
TOPIC_ID, LATER_ID = uuid.UUID(int=7), uuid.UUID(int=8)


def lay(home: Path, name: str, *, mark: bytes | None = None, topic_id: uuid.UUID | None = None) -> Path:
    """A directory of this name, with a mark of a move, and a topic id."""
    path = home / name
    path.mkdir(parents=True)
    if mark is not None:
        (path / MOVED_MARK).write_bytes(mark)
    if topic_id is not None:
        (path / "partition.metadata").write_bytes(format_partition_metadata(topic_id))
    return path


def manager(*homes: Path, disk: LocalFileSystem | None = None) -> LogManager:
    draws = iter(range(1, 1 << 20))
    return LogManager(
        disk or LocalFileSystem(),
        [str(home) for home in homes],
        LogManagerSettings(1, "c"),
        lambda topic: LogConfig(file_delete_delay_ms=0),
        draw=lambda limit: next(draws) % limit,
    )


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (b"1", b"0 undecided", "a"),
        (b"0 undecided", b"1", "b"),
        (b"1 undecided", b"0 undecided", "a"),
        (b"0 undecided", b"1 undecided", "b"),
        (b"10", b"2 undecided", "a"),
        (b"2 undecided", b"10", "b"),
    ],
)
@pytest.mark.parametrize("with_ids", [False, True])
def test_of_two_directories_the_one_with_the_later_mark_is_the_log(
    tmp_path: Path, first: bytes, second: bytes, expected: str, with_ids: bool
) -> None:
    """Other directories stand beside them, before and behind."""
    topic_id = TOPIC_ID if with_ids else None
    homes = tmp_path / "a", tmp_path / "b"
    for home, mark in zip(homes, (first, second), strict=True):
        lay(home, "audit")
        lay(home, f"audit-{home.name == 'b':d}")
        lay(home, "orders-0", mark=mark, topic_id=topic_id)
        lay(home, f"paid-{home.name == 'b':d}")
    logs = manager(*homes)
    logs.load(NOW_MS)
    log = logs.get(ORDERS)
    assert log is not None
    assert log.directory == str(tmp_path / expected / "orders-0")
    assert not (tmp_path / expected / "orders-0" / MOVED_MARK).exists()
    (other,) = {"a", "b"} - {expected}
    (removed,) = logs.take_removals(NOW_MS)
    assert removed.startswith(f"{tmp_path / other}/orders-0.")
    assert removed.endswith("-delete")
    assert sorted(str(log.topic_partition) for log in logs) == ["audit-0", "audit-1", "orders-0", "paid-0", "paid-1"]


@pytest.mark.parametrize("mark", [None, b"0 undecided"], ids=["of no move", "and moved on"])
@pytest.mark.parametrize("marked", ["a", "b"])
def test_a_mark_says_nothing_of_another_topics_log(tmp_path: Path, marked: str, mark: bytes | None) -> None:
    """1. A move ends while a disk is offline, so that its mark stays. 2. The disk that the log is on goes offline. 3.
    The topic is deleted and made again, and its log on another disk takes records. 4. All disks are back."""
    homes = tmp_path / "a", tmp_path / "b"
    (other,) = {"a", "b"} - {marked}
    lay(tmp_path / marked, "orders-0", mark=b"1", topic_id=TOPIC_ID)
    lay(tmp_path / other, "orders-0", mark=mark, topic_id=LATER_ID)
    with pytest.raises(LogsContradict, match=r"orders-0 is also in .*/orders-0, as another topic's: remove"):
        manager(*homes).load(NOW_MS)
    assert [sorted(path.name for path in home.iterdir() if path.is_dir()) for home in homes] == [["orders-0"]] * 2
    assert (tmp_path / marked / "orders-0" / MOVED_MARK).exists()


def test_what_a_new_topics_log_has_taken_outlives_the_return_of_a_log_that_had_moved(tmp_path: Path) -> None:
    homes = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    first, second, third = map(str, homes)
    logs = manager(*homes)
    logs.load(NOW_MS)
    log = logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS, directory=first)
    append(log, batch([b"former"]))
    logs.on_storage_error(third, StorageError(third, "input/output error"))
    move = logs.begin_move(ORDERS, second)
    assert move is not None
    while (step := move.next_slice()) is not None:
        step()
    logs.finish_move(move, NOW_MS)
    logs.on_storage_error(second, StorageError(second, "input/output error"))
    append(logs.get_or_create(ORDERS, LATER_ID, NOW_MS, directory=first), batch([b"acknowledged"]))
    logs.release()
    with pytest.raises(LogsContradict):
        manager(*homes).load(NOW_MS)
    again = manager(homes[0], homes[2])
    again.load(NOW_MS)
    found = again.get(ORDERS)
    assert found is not None
    found.set_high_watermark(found.log_end_offset)
    assert [record.value for record in records(found)] == [b"acknowledged"]


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("has_moved", [False, True])
def test_a_start_makes_durable_that_names_are_gone_before_a_mark_goes(
    tmp_path: Path, is_clean: bool, has_moved: bool
) -> None:
    """After a clean stop they are so."""
    homes = tmp_path / "a", tmp_path / "b"
    for home in homes:
        home.mkdir()
        if is_clean:
            (home / ".kafka_cleanshutdown").write_bytes(b"")
    if has_moved:
        lay(homes[0], "orders-0", mark=b"0 undecided")
        lay(homes[1], "orders-0", mark=b"1")
    disk = Disk()
    manager(*homes, disk=disk).load(NOW_MS)
    syncs = [place for place, done in enumerate(disk.done) if done == ("sync directory", str(homes[0]))]
    cleans = [place for place, done in enumerate(disk.done) if done == ("remove", f"{homes[0]}/.kafka_cleanshutdown")]
    assert len(cleans) == is_clean
    if has_moved:
        renamed = disk.done.index(("rename", f"{homes[0]}/orders-0"))
        removed = disk.done.index(("remove", f"{homes[1]}/orders-0/{MOVED_MARK}"))
        assert [renamed < place < removed for place in syncs][-1], "else a power cut might leave both, without a mark"
    elif is_clean:
        assert [place for place in syncs if place > cleans[0] + 1] == []
    else:
        assert syncs


class Beside:
    """Notes what logs that are read at a time have for their open segments."""

    def __init__(self) -> None:
        self.plans: list[HomePlan] = []
        self.seen: list[OpenSegments] = []

    def __call__(self, jobs: Sequence[Callable[[], None]], at_a_time: int) -> None:
        for job in jobs:
            job()
        self.seen = [loading.directory.open_segments for plan in self.plans for loading in plan.loadings]


@pytest.mark.parametrize(("threads", "most"), [(2, 5), (3, 3), (10, 1), (30, 1)])
def test_logs_that_are_recovered_beside_each_other_share_no_table_of_open_segments(
    tmp_path: Path, threads: int, most: int
) -> None:
    """It is not made for threads. What they may have open together is as much as all may have."""
    for number in range(3):
        lay(tmp_path, f"orders-{number}")
    disk, beside, common = LocalFileSystem(), Beside(), OpenSegments(10)
    loader = HomeLoader(
        disk,
        (OffsetCheckpoints(disk), common, {}),
        LoadingPorts(lambda topic: LogConfig(), lambda limit: 0, lambda partition: True, beside),
        LoadingLimits(threads, 1_000),
        NOW_MS,
    )
    path = str(tmp_path)
    home = LogHome(path, disk.lock(f"{path}/.lock"), MadeDirectories(disk, path))
    beside.plans = [loader.plan(home, LoadReport(0, 0, [], {}, {}))]
    loader.run(beside.plans)
    home.lock.close()
    assert [table.max_open for table in beside.seen] == [most] * 3
    assert len({id(table) for table in (*beside.seen, common)}) == 4
    loadings = beside.plans[0].loadings
    assert all(loading.directory.open_segments is common for loading in loadings)
    assert len(loadings) == 3
