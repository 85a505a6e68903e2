"""Log directories: which are in use, what one that fails takes along, where a partition goes, and what is told."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import structlog

from kavka.errors import (
    DamagedLog,
    DamagedMetadata,
    DiskFull,
    ErrorCode,
    InconsistentMetadata,
    InvariantViolation,
    LogDirectoryLocked,
    LogsContradict,
    StorageError,
)
from kavka.filesystem import Buffer
from kavka.log import log_manager
from kavka.log.decide.checkpoint import RECOVERY_POINT_CHECKPOINT
from kavka.log.home_loader import one_by_one
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import DEFAULT_PRODUCER_ID_EXPIRATION_MS, LogManager, LogManagerSettings
from kavka.model import TopicPartition
from kavka.runtime.disk import LocalFile, LocalFileSystem
from tests.unit.log.log_support import NOW_MS, append, batch, offsets

TOPIC_ID = uuid.UUID(int=7)
ORDERS = TopicPartition("orders", 0)
CONFIG = LogConfig(segment_bytes=400, file_delete_delay_ms=1_000)


def of(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


class Disk(LocalFileSystem):
    """Fails where it is told to: `fails` is asked (method, path)."""

    def __init__(self) -> None:
        self.fails: Callable[[str, str], bool] = lambda method, path: False
        self.failure: type[StorageError] = StorageError
        self.done: list[tuple[str, str]] = []

    def ask(self, method: str, path: str) -> None:
        self.done.append((method, path))
        if self.fails(method, path):
            raise self.failure(path, "input/output error")

    def read(self, path: str) -> bytes:
        self.ask("read", path)
        return super().read(path)

    def write_atomically(self, path: str, data: Buffer, *, durable: bool = True) -> None:
        self.ask("write", path)
        super().write_atomically(path, data, durable=durable)

    def rename(self, source: str, target: str) -> None:
        self.ask("rename", source)
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self.ask("remove", path)
        super().remove(path)

    def remove_directory(self, path: str) -> None:
        self.ask("remove directory", path)
        super().remove_directory(path)

    def list_directories(self, path: str) -> list[str]:
        self.ask("list", path)
        return super().list_directories(path)

    def space(self, path: str) -> tuple[int, int]:
        self.ask("space", path)
        return 1000, 400

    def sync_directory(self, path: str) -> None:
        self.ask("sync directory", path)
        super().sync_directory(path)

    def list_files(self, path: str) -> list[str]:
        self.ask("files", path)
        return super().list_files(path)

    def lock(self, path: str) -> LocalFile:
        self.ask("lock", path)
        return super().lock(path)

    def make_new_directory(self, path: str) -> bool:
        self.ask("make", path)
        return super().make_new_directory(path)


def manager(disk: Disk, *directories: Path | str, broker_id: int | None = 1, cluster: str | None = "c") -> LogManager:
    draws = iter(range(1, 1 << 20))
    return LogManager(
        disk,
        [str(directory) for directory in directories],
        LogManagerSettings(broker_id, cluster),
        lambda topic: CONFIG,
        draw=lambda limit: next(draws) % limit,
    )


def started(*directories: Path, disk: Disk | None = None) -> LogManager:
    logs = manager(disk or Disk(), *directories)
    logs.load(NOW_MS)
    return logs


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "a", tmp_path / "b"


# -- identity


@pytest.mark.parametrize("directories", [(), ("/a", "/a"), ("/a", "/b", "/a")])
def test_directories_are_named_once_each(directories: tuple[str, ...]) -> None:
    with pytest.raises(InvariantViolation) as refused:
        manager(Disk(), *directories)
    assert str(refused.value).endswith(f"log directories must be named once each, got {list(directories)!r}")


@pytest.mark.parametrize(
    ("broker_id", "cluster", "name", "found", "expected"),
    [(2, "c", "broker.id", "1", "2"), (1, "d", "cluster.id", "c", "d"), (2, "d", "broker.id", "1", "2")],
)
def test_a_directory_of_another_one_is_refused_with_what_differs(
    tmp_path: Path, broker_id: int, cluster: str, name: str, found: str, expected: str
) -> None:
    started(tmp_path).close(NOW_MS)
    disk = Disk()
    logs = manager(disk, tmp_path, broker_id=broker_id, cluster=cluster)
    with pytest.raises(InconsistentMetadata) as refused:
        logs.load(NOW_MS)
    assert str(refused.value) == (
        f"{tmp_path}/meta.properties: {name} is {found}, expected {expected}; if the directory is of another broker, "
        "name another one in log.dirs"
    )
    assert logs.is_released
    started(tmp_path).release()


def test_directories_of_two_brokers_are_refused(two: tuple[Path, Path]) -> None:
    for number, path in enumerate(two):
        logs = manager(Disk(), path, broker_id=number)
        logs.load(NOW_MS)
        logs.close(NOW_MS)
    with pytest.raises(InconsistentMetadata, match=r"broker\.id is 1, expected 0"):
        manager(Disk(), *two, broker_id=None).load(NOW_MS)


def test_a_directory_without_an_identity_gets_that_of_the_others(two: tuple[Path, Path]) -> None:
    started(two[1]).close(NOW_MS)
    logs = manager(Disk(), *two, broker_id=None, cluster=None)
    logs.load(NOW_MS)
    assert (logs.broker_id, logs.cluster_id) == (1, "c")
    for path in two:
        assert {"broker.id=1", "cluster.id=c"} <= set((path / "meta.properties").read_text().split())
    logs.close(NOW_MS)
    (two[0] / "meta.properties").write_text("version=0\n")
    logs = manager(Disk(), *two, broker_id=None, cluster=None)
    logs.load(NOW_MS)
    assert (logs.broker_id, logs.cluster_id) == (1, "c"), "one that says nothing contradicts nobody"


def test_an_identity_that_cannot_be_read_is_told_with_its_path_and_the_lock_given_back(two: tuple[Path, Path]) -> None:
    two[0].mkdir()
    (two[0] / "meta.properties").write_text("version=7\n")
    logs = manager(Disk(), *two)
    with pytest.raises(DamagedMetadata, match=f"{two[0]}/meta.properties: damaged: "):
        logs.load(NOW_MS)
    assert logs.is_released
    (two[0] / "meta.properties").unlink()
    started(*two).release()


def test_a_directory_that_fails_when_it_is_listed_leaves_none(tmp_path: Path) -> None:
    disk = Disk()
    disk.fails = lambda asked, path: asked == "list"
    with pytest.raises(StorageError, match="no usable log directory is left"):
        manager(disk, tmp_path).load(NOW_MS)


@pytest.mark.parametrize("method", ["read", "write"])
def test_a_disk_that_fails_at_the_identity_is_offline_and_the_other_is_not(two: tuple[Path, Path], method: str) -> None:
    disk = Disk()
    disk.fails = lambda asked, path: asked == method and path == f"{two[0]}/meta.properties"
    logs = manager(disk, *two)
    report = logs.load(NOW_MS)
    assert list(report.offline) == list(logs.offline_directories) == [str(two[0])]
    assert logs.live_directories == [str(two[1])]
    assert not report.was_clean
    assert (two[1] / "meta.properties").exists()


def test_a_directory_that_another_process_has_gives_all_locks_back(two: tuple[Path, Path]) -> None:
    other = started(two[1])
    refused = manager(Disk(), *two)
    with pytest.raises(LogDirectoryLocked):
        refused.load(NOW_MS)
    assert refused.is_released
    started(two[0]).release()
    other.release()
    started(*two).release()


def test_without_a_directory_that_can_be_used_the_first_failure_is_told(two: tuple[Path, Path]) -> None:
    disk = Disk()
    disk.fails = lambda asked, path: asked == "lock"
    with pytest.raises(StorageError) as refused:
        manager(disk, *two).load(NOW_MS)
    assert str(refused.value) == f"{two[0]}: no usable log directory is left: {two[0]}/.lock: input/output error"


# -- failures


@pytest.mark.parametrize(
    ("failure", "next_step"),
    [
        (StorageError, "repair the disk and restart the broker"),
        (DiskFull, "make room on the disk and restart the broker"),
    ],
)
def test_a_directory_that_fails_is_told_and_takes_its_own_partitions_along(
    two: tuple[Path, Path], failure: type[StorageError], next_step: str
) -> None:
    logs = started(*two)
    made = [logs.get_or_create(of(number), TOPIC_ID, NOW_MS, directory=str(two[number % 2])) for number in range(5)]
    error = failure(f"{two[1]}/orders-1/00000000000000000000.log", "no space left")
    with structlog.testing.capture_logs() as lines:
        assert logs.on_storage_error(error.path, error) == [of(1), of(3)]
    (line,) = [line for line in lines if line["event"] == "log directory offline"]
    assert (line["log_level"], line["directory"], line["partitions"]) == ("error", str(two[1]), 2)
    assert (line["why"], line["next_step"]) == (str(error), next_step)
    assert [log.topic_partition for log in logs] == [of(0), of(2), of(4)]
    assert len(logs) == 3
    assert [log.failure for log in made] == [None, error, None, error, None]
    assert logs.offline_directories == {str(two[1]): error}
    assert logs.on_storage_error(error.path, error) == [], "once"
    started(two[1]).release()


def test_a_log_that_failed_before_keeps_its_own_failure(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS)
    first = log.failure = StorageError(log.directory, "first")
    logs.on_storage_error(str(tmp_path), StorageError(str(tmp_path), "second"))
    assert log.failure is first


def test_a_failure_of_a_path_elsewhere_concerns_no_directory(two: tuple[Path, Path]) -> None:
    logs = started(*two)
    for path, directory in (
        (str(two[0]), str(two[0])),
        (f"{two[0]}/x", str(two[0])),
        (f"{two[1]}/x/y", str(two[1])),
        (f"{two[0]}x", None),
        (f"{two[0]}x/y", None),
        (str(two[0].parent), None),
        ("", None),
    ):
        assert logs.directory_of(path) == directory
    assert logs.on_storage_error("/elsewhere", StorageError("/elsewhere", "gone")) == []
    assert logs.live_directories == [str(path) for path in two]


def test_a_damaged_log_takes_no_directory_along(tmp_path: Path) -> None:
    logs = started(tmp_path)
    logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS)
    damage = DamagedLog(f"{tmp_path}/orders-0", "has damaged records")
    with structlog.testing.capture_logs() as lines:
        assert logs.on_storage_error(damage.path, damage) == []
    (line,) = lines
    assert (line["event"], line["log_level"], line["why"]) == ("log damaged", "error", str(damage))
    assert line["next_step"] == ("restart the broker: it recovers the log, and fetches from the leader what was lost")
    assert logs.live_directories == [str(tmp_path)]
    assert logs.get(ORDERS) is not None


def test_directories_are_described_in_their_order_with_what_is_known(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "dcba"]
    disk = Disk()
    disk.fails = lambda asked, path: asked == "space" and path == str(paths[2])
    logs = manager(disk, *paths)
    logs.load(NOW_MS)
    log = logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS, directory=str(paths[1]))
    error = StorageError(str(paths[0]), "input/output error")
    logs.on_storage_error(error.path, error)
    logs.cordoned = frozenset({str(paths[0]), str(paths[3])})
    assert [tuple(info) for info in logs.describe()] == [
        (str(paths[0]), error, -1, -1, [], True),
        (str(paths[1]), None, 1000, 400, [log], False),
        (str(paths[2]), None, -1, -1, [], False),
        (str(paths[3]), None, 1000, 400, [], True),
    ]


# -- where a partition goes


def test_what_is_said_of_a_directory_that_a_replica_may_go_to(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in "abc"]
    logs = manager(Disk(), *paths)
    logs.load(NOW_MS)
    logs.cordoned = frozenset({paths[1], paths[2]})
    logs.on_storage_error(paths[2], StorageError(paths[2], "gone"))
    assert [logs.check_directory(path) for path in (*paths, str(tmp_path))] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LOG_DIR_NOT_FOUND,
    ]


def test_a_cordoned_directory_gets_no_new_log_unless_all_are(two: tuple[Path, Path]) -> None:
    logs = started(*two)
    logs.cordoned = frozenset({str(two[0])})
    for number in range(3):
        assert Path(logs.get_or_create(of(number), TOPIC_ID, NOW_MS).directory).parent == two[1]
    logs.cordoned = frozenset(map(str, two))
    assert Path(logs.get_or_create(of(3), TOPIC_ID, NOW_MS).directory).parent == two[0]


def test_a_directory_that_was_preferred_is_taken_once(two: tuple[Path, Path]) -> None:
    logs = started(*two)
    logs.prefer_directory(of(0), str(two[0]))
    logs.prefer_directory(of(0), str(two[1]))
    assert Path(logs.get_or_create(of(0), TOPIC_ID, NOW_MS).directory).parent == two[1]
    logs.prefer_directory(of(1), str(two[1]))
    made = logs.get_or_create(of(1), TOPIC_ID, NOW_MS, directory=str(two[0]))
    assert Path(made.directory).parent == two[0], "who says where says so now"
    logs.delete(of(1), NOW_MS)
    assert Path(logs.get_or_create(of(1), TOPIC_ID, NOW_MS).directory).parent == two[0], "the fewest are there"
    logs.prefer_directory(of(2), str(two[1]))
    logs.on_storage_error(str(two[1]), StorageError(str(two[1]), "gone"))
    assert Path(logs.get_or_create(of(2), TOPIC_ID, NOW_MS).directory).parent == two[0]


def test_no_more_preferences_are_remembered_than_a_bound(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_manager, "MAX_PREFERENCES", 3)
    logs = started(*two)
    logs.get_or_create(TopicPartition("in a", 0), TOPIC_ID, NOW_MS, directory=str(two[1]))
    for number in (0, 1, 2, 0, 3):
        logs.prefer_directory(of(number), str(two[1]))
    places = [Path(logs.get_or_create(of(number), TOPIC_ID, NOW_MS).directory).parent for number in range(4)]
    assert places == [two[1], two[0], two[1], two[1]], "the oldest one, of 1, was forgotten"


def test_a_partition_that_is_not_new_may_lie_in_a_directory_that_is_offline(two: tuple[Path, Path]) -> None:
    logs = started(*two)
    assert logs.get_or_create(of(0), TOPIC_ID, NOW_MS, is_new=False).topic_partition == of(0)
    logs.on_storage_error(str(two[1]), StorageError(str(two[1]), "gone"))
    with pytest.raises(StorageError) as refused:
        logs.get_or_create(of(1), TOPIC_ID, NOW_MS, is_new=False)
    assert str(refused.value) == f"{two[1]}: is offline, and orders-1 may be in it"
    logs.get_or_create(of(0), TOPIC_ID, NOW_MS, is_new=False)
    logs.get_or_create(of(1), TOPIC_ID, NOW_MS)


def test_a_log_is_not_put_where_it_cannot_be(two: tuple[Path, Path]) -> None:
    logs = started(two[0])
    with pytest.raises(StorageError) as refused:
        logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS, directory=str(two[1]))
    assert str(refused.value) == f"{two[1]}: is not a log directory of this broker, or is offline"
    assert logs.live_directories == [str(two[0])]
    assert logs.get(ORDERS) is None


def test_a_log_that_has_failed_is_not_given_out(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS)
    log.failure = StorageError(log.directory, "failed")
    with pytest.raises(StorageError) as refused:
        logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS)
    assert refused.value is log.failure


def test_a_stray_that_is_in_the_way_is_told(tmp_path: Path) -> None:
    logs = started(tmp_path)
    (tmp_path / "orders-0").mkdir()
    with structlog.testing.capture_logs() as lines:
        logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS)
    (line,) = [line for line in lines if line["event"] == "log set aside"]
    (stray,) = tmp_path.glob("orders-0.*-stray")
    assert (line["log_level"], line["partition"], line["path"]) == ("warning", "orders-0", str(stray))
    assert line["why"] == "it belongs to an earlier topic with this name"
    assert line["next_step"] == "remove the directory if nobody misses its records"


@pytest.mark.parametrize("at", [0, 1])
def test_a_stray_that_cannot_be_moved_takes_its_directory_offline(two: tuple[Path, Path], at: int) -> None:
    disk = Disk()
    logs = started(*two, disk=disk)
    (two[at] / "orders-0").mkdir()
    disk.fails = lambda asked, path: asked == "rename"
    with pytest.raises(StorageError):
        logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS, directory=str(two[0]))
    assert list(logs.offline_directories) == [str(two[at])]
    assert logs.get(ORDERS) is None


def test_the_settings_of_a_new_log_are_its_topics_or_those_given(tmp_path: Path) -> None:
    logs = started(tmp_path)
    given = LogConfig(segment_bytes=77)
    assert logs.get_or_create(of(0), TOPIC_ID, NOW_MS, config=given).config is given
    assert logs.get_or_create(of(1), TOPIC_ID, NOW_MS).config is CONFIG


def test_producers_are_forgotten_after_a_day_where_nothing_else_is_said() -> None:
    assert LogManagerSettings().producer_id_expiration_ms == DEFAULT_PRODUCER_ID_EXPIRATION_MS == 86_400_000


# -- removals


def test_the_files_of_a_deleted_partition_go_when_their_delay_is_over(tmp_path: Path) -> None:
    disk = Disk()
    logs = started(tmp_path, disk=disk)
    assert not logs.delete(ORDERS, NOW_MS), "there is none"
    for number in range(3):
        logs.get_or_create(of(number), TOPIC_ID, NOW_MS)
    with structlog.testing.capture_logs() as lines:
        assert logs.delete(of(0), NOW_MS)
        assert logs.delete(of(1), NOW_MS, delay_ms=10)
        assert logs.delete(of(2), NOW_MS, delay_ms=0)
    told = [(line["partition"], line["delay_ms"]) for line in lines if line["event"] == "log deleted"]
    assert told == [("orders-0", 1_000), ("orders-1", 10), ("orders-2", 0)]
    paths = {of(number): str(next(tmp_path.glob(f"orders-{number}.*-delete"))) for number in range(3)}
    assert [line["path"] for line in lines if line["event"] == "log deleted"] == list(paths.values())
    assert logs.take_removals(NOW_MS - 1) == []
    assert logs.take_removals(NOW_MS) == [paths[of(2)]]
    assert logs.take_removals(NOW_MS + 9) == []
    assert logs.take_removals(NOW_MS + 10) == [paths[of(1)]]
    assert logs.take_removals(NOW_MS + 1_000) == [paths[of(0)]]
    assert logs.take_removals(NOW_MS + 9_999) == []


def test_all_is_removed_that_can_be_and_the_first_failure_told(tmp_path: Path) -> None:
    disk = Disk()
    logs = started(tmp_path, disk=disk)
    names = ["a.deleted", "gone", "x-delete", "b.deleted", "y-future", "c.deleted", "z-stray"]
    paths = [str(tmp_path / name) for name in names]
    for path in paths:
        if path.endswith(("-delete", "-future")):
            Path(path).mkdir()
            (Path(path) / "file").touch()
        elif not path.endswith("gone"):
            Path(path).touch()
    disk.fails = lambda asked, path: "remove" in asked and path in (paths[0], paths[3])
    with pytest.raises(StorageError) as raised:
        logs.remove_paths(paths)
    assert raised.value.path == paths[0]
    assert [path for path in paths if Path(path).exists()] == [paths[0], paths[3]]
    disk.fails = lambda asked, path: False
    logs.remove_paths(paths)
    assert not any(Path(path).exists() for path in paths)


def test_checkpoints_forget_the_logs_that_are_gone_before_they_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_manager, "MAX_FORMER", 2)
    logs = started(tmp_path)
    for number in range(4):
        logs.get_or_create(of(number), TOPIC_ID, NOW_MS)
    for file in logs.checkpoints_due(RECOVERY_POINT_CHECKPOINT):
        logs.write_checkpoint(file)
    checkpoint = tmp_path / RECOVERY_POINT_CHECKPOINT
    for number, left in enumerate((4, 4, 1, 1)):
        logs.delete(of(number), NOW_MS)
        assert checkpoint.read_text().split("\n")[1] == str(left), number


# -- moves


def test_a_move_is_under_way_until_it_is_called_back_or_a_directory_fails(two: tuple[Path, Path]) -> None:
    logs = started(*two)
    logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS, directory=str(two[0]))
    assert logs.begin_move(ORDERS, str(two[0])) is None, "it is there"
    move = logs.begin_move(ORDERS, str(two[1]))
    assert move is not None
    assert logs.begin_move(ORDERS, str(two[1])) is move
    assert logs.is_under_way(move)
    assert (logs.moves(str(two[1])), logs.moves(str(two[0])), logs.moves(str(two[1])[:-1])) == ([move], [], [])
    assert move.path.startswith(f"{two[1]}/orders-0.")
    assert move.path.endswith("-future")
    assert Path(move.path).is_dir()
    assert logs.take_removals(-1) == []
    assert logs.begin_move(ORDERS, str(two[0])) is None
    assert not logs.is_under_way(move), "it is to be where it is"
    assert logs.moves(str(two[1])) == []
    assert logs.take_removals(-1) == []
    assert logs.take_removals(0) == [move.path], "at once"


@pytest.mark.parametrize(
    "how",
    ["target", "source", "source, and the topic is made again", "log", "deleted", "set aside", "another"],
)
def test_a_move_is_not_under_way_when_what_it_needs_is_gone(two: tuple[Path, Path], how: str) -> None:
    logs = started(*two)
    log = logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS, directory=str(two[0]))
    move = logs.begin_move(ORDERS, str(two[1]))
    assert move is not None
    if how in ("target", "source"):
        path = str(two[how == "target"])
        logs.on_storage_error(path, StorageError(path, "gone"))
    elif how == "log":
        log.failure = StorageError(log.directory, "failed")
    elif how == "deleted":
        logs.delete(ORDERS, NOW_MS)
        assert logs.take_removals(0) == [move.path]
    elif how == "set aside":
        logs.set_aside(ORDERS)
        assert logs.moves(str(two[1])) == []
        assert logs.take_removals(0) == [move.path]
        successor = logs.get_or_create(ORDERS, uuid.UUID(int=8), NOW_MS, directory=str(two[0]))
        again = logs.begin_move(ORDERS, str(two[1]))
        assert again is not None
        assert again.log is successor
    elif how == "source, and the topic is made again":
        logs.on_storage_error(str(two[0]), StorageError(str(two[0]), "gone"))
        logs.get_or_create(ORDERS, uuid.UUID(int=8), NOW_MS)
        assert logs.begin_move(ORDERS, str(two[1])) is None, "it is there"
        assert logs.moves(str(two[1])) == []
    else:
        logs.end_move(ORDERS)
        assert logs.begin_move(ORDERS, str(two[1])) is not move
    assert not logs.is_under_way(move)
    logs.end_move(ORDERS)


def test_a_move_that_is_over_has_the_log_there_and_its_former_files_removed_later(two: tuple[Path, Path]) -> None:
    disk = Disk()
    logs = started(*two, disk=disk)
    log = logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS, directory=str(two[0]))
    append(log, batch(3))
    log.flush(NOW_MS)
    move = logs.begin_move(ORDERS, str(two[1]))
    assert move is not None
    while (step := move.next_slice()) is not None:
        step()
    disk.done.clear()
    logs.finish_move(move, NOW_MS)
    renamed, removed = (
        disk.done.index(("rename", f"{two[0]}/orders-0")),
        disk.done.index(("remove", f"{two[1]}/orders-0/.kavka-moved")),
    )
    assert renamed < disk.done.index(("sync directory", str(two[0]))) < removed, (
        "else both might be there without a mark"
    )
    assert not logs.is_under_way(move)
    assert logs.moves(str(two[1])) == []
    assert Path(log.directory) == two[1] / "orders-0"
    assert not (two[1] / "orders-0" / ".kavka-moved").exists()
    (former,) = two[0].glob("orders-0.*-delete")
    assert logs.take_removals(NOW_MS + 999) == []
    assert logs.take_removals(NOW_MS + 1_000) == [str(former)]
    assert (two[0] / RECOVERY_POINT_CHECKPOINT).read_text() == "0\n0\n"
    assert (two[1] / RECOVERY_POINT_CHECKPOINT).read_text() == "0\n1\norders 0 3\n"
    assert [len(info.logs) for info in logs.describe()] == [0, 1]
    logs.delete(ORDERS, NOW_MS)
    disk.done.clear()
    again = logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS, directory=str(two[0]))
    assert again.log_end_offset == 0
    written = {Path(path).parent for method, path in disk.done if method == "write"}
    assert written == {two[1]}, "the other one's checkpoints have forgotten it already"


def test_a_move_that_fails_before_its_end_leaves_the_log_where_it_is(two: tuple[Path, Path]) -> None:
    disk = Disk()
    logs = started(*two, disk=disk)
    log = logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS, directory=str(two[0]))
    append(log, batch(3))
    move = logs.begin_move(ORDERS, str(two[1]))
    assert move is not None
    disk.fails = lambda asked, path: path.endswith(".kavka-moved")
    with pytest.raises(StorageError):
        logs.finish_move(move, NOW_MS)
    disk.fails = lambda asked, path: False
    assert [[one.topic_partition for one in info.logs] for info in logs.describe()] == [[ORDERS], []]
    assert (two[1] / RECOVERY_POINT_CHECKPOINT).read_text().startswith("0\n1\norders 0 ")
    logs.end_move(ORDERS)
    logs.delete(ORDERS, NOW_MS)
    logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS, directory=str(two[1]))
    lines = (two[1] / RECOVERY_POINT_CHECKPOINT).read_text()
    assert lines == "0\n0\n", "what was written for the copy does not hold for a log that is made there"


# -- the end


def test_where_the_broker_stops_no_log_is_made(two: tuple[Path, Path]) -> None:
    tmp_path = two[0]
    logs = started(*two)
    logs.get_or_create(of(1), TOPIC_ID, NOW_MS)
    logs.release()
    with pytest.raises(StorageError) as refused:
        logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS)
    assert str(refused.value) == f"{tmp_path}: was released: the broker is stopping"
    assert (len(logs), logs.live_directories) == (0, [])
    started(tmp_path).release()


def test_a_directory_with_a_log_that_failed_gets_no_mark_and_the_others_do(two: tuple[Path, Path]) -> None:
    logs = started(*two)
    for number in range(2):
        append(logs.get_or_create(of(number), TOPIC_ID, NOW_MS, directory=str(two[number])), batch(2))
    failed = logs.get(of(0))
    assert failed is not None
    failed.failure = StorageError(failed.directory, "failed")
    logs.close(NOW_MS)
    assert [(path / ".kafka_cleanshutdown").exists() for path in two] == [False, True]
    assert (two[1] / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":-1}'
    assert logs.is_released
    assert list(logs.offline_directories) == [str(two[0])]


def test_topic_ids_of_logs_without_records_are_written_ahead_of_the_end(tmp_path: Path) -> None:
    logs = started(tmp_path)
    made = [logs.get_or_create(of(number), TOPIC_ID, NOW_MS) for number in range(5)]
    append(made[1], batch())
    made[4].write_topic_id()
    ahead = logs.written_at_close()
    assert ahead == [made[0], made[2], made[3]]
    logs.delete(of(2), NOW_MS)
    made[3].failure = StorageError(made[3].directory, "failed")
    logs.write_ahead(ahead)
    there = [number for number in range(5) if (tmp_path / f"orders-{number}" / "partition.metadata").exists()]
    assert there == [0, 1, 4], "1 had it before its records, and 4 for itself"
    assert made[0].metadata.is_unwritten


def test_jobs_of_a_host_without_threads_run_one_by_one() -> None:
    done: list[int] = []
    one_by_one([partial(done.append, number) for number in range(3)], 7)
    assert done == [0, 1, 2]


# -- what lies there at the start


def test_leftovers_are_removed_at_once_and_strays_of_all_kinds_named(tmp_path: Path) -> None:
    names = ["orders-0.ab-delete", "orders-1.ab-future", "paid-1.ab-future", "x-delete", "x-stray", "orders-07"]
    for name in (*names, "__cluster_metadata-0", "orders-2", "nothing"):
        (tmp_path / name).mkdir(parents=True)
    logs = LogManager(
        Disk(),
        [str(tmp_path)],
        LogManagerSettings(1, "c"),
        lambda topic: CONFIG,
        is_claimed=lambda partition: partition.topic == "orders",
    )
    with structlog.testing.capture_logs() as lines:
        report = logs.load(NOW_MS)
    (line,) = [line for line in lines if line["event"] == "logs left alone"]
    assert (line["log_level"], line["directory"], line["logs"]) == ("warning", str(tmp_path), 4)
    assert line["names"] == ["orders-07", "paid-1.ab-future", "x-delete", "x-stray"]
    assert line["why"] == "no topic has these partitions"
    assert line["next_step"] == "remove them if nobody misses their records"
    assert logs.take_removals(NOW_MS - 1) == []
    assert logs.take_removals(NOW_MS) == [str(tmp_path / name) for name in names[:2]]
    assert (report.loaded, report.recovered) == (1, 1)


def test_what_was_loaded_is_told_louder_where_it_was_recovered(two: tuple[Path, Path]) -> None:
    logs = started(*two)
    for number in range(3):
        append(logs.get_or_create(of(number), TOPIC_ID, NOW_MS, directory=str(two[number % 2])), batch(2))
    logs.close(NOW_MS, broker_epoch=5)
    (two[1] / ".kafka_cleanshutdown").unlink()
    logs = manager(Disk(), *two)
    with structlog.testing.capture_logs() as lines:
        report = logs.load(NOW_MS)
    told = [line for line in lines if line["event"] == "logs loaded"]
    assert [(line["log_level"], line["directory"], line["logs"], line["clean"]) for line in told] == [
        ("info", str(two[1]), 1, False),
    ], "a start that has nothing to recover has nothing to say"
    assert (report.loaded, report.recovered, report.broker_epochs) == (3, 1, {str(two[0]): 5})
    assert report.offline == {}
    assert not report.was_clean


@pytest.mark.parametrize("marked", [0, 1])
def test_of_two_directories_of_a_partition_the_one_with_the_decided_mark_is_the_log(
    two: tuple[Path, Path], marked: int
) -> None:
    for path, count in zip(two, (3, 5), strict=True):
        logs = started(path)
        append(logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS), batch(count))
        logs.close(NOW_MS)
    mark = two[marked] / "orders-0" / ".kavka-moved"
    mark.write_bytes(b"1")
    (two[1 - marked] / "orders-0" / ".kavka-moved").write_bytes(b"0 undecided")
    logs = started(*two)
    log = logs.get(ORDERS)
    assert log is not None
    assert Path(log.directory).parent == two[marked]
    assert offsets(log) == list(range((3, 5)[marked]))
    assert not mark.exists()
    (former,) = two[1 - marked].glob("orders-0.*-delete")
    assert logs.take_removals(NOW_MS) == [str(former)]


def test_the_mark_of_a_move_stays_while_a_directory_is_offline(tmp_path: Path) -> None:
    """What is there may be the former log, and nobody could tell without the mark."""
    paths = [tmp_path / name for name in "abc"]
    logs = started(*paths)
    logs.get_or_create(ORDERS, TOPIC_ID, NOW_MS, directory=str(paths[0]))
    logs.close(NOW_MS)
    mark = paths[0] / "orders-0" / ".kavka-moved"
    mark.touch()
    disk = Disk()
    disk.fails = lambda asked, path: path.startswith(str(paths[1]))
    with structlog.testing.capture_logs():
        logs = started(*paths, disk=disk)
    assert logs.get(ORDERS) is not None
    assert mark.exists()
    logs.close(NOW_MS)
    started(*paths)
    assert not mark.exists()


def test_a_directory_that_cannot_be_listed_is_told_and_offline(two: tuple[Path, Path]) -> None:
    started(*two).close(NOW_MS)
    disk = Disk()
    disk.fails = lambda asked, path: asked == "list" and path == str(two[0])
    logs = manager(disk, *two)
    with structlog.testing.capture_logs() as lines:
        report = logs.load(NOW_MS)
    (line,) = [line for line in lines if line["event"] == "log directory offline"]
    assert (line["log_level"], line["directory"]) == ("error", str(two[0]))
    assert line["why"] == f"{two[0]}: input/output error"
    assert list(report.offline) == [str(two[0])]


def test_a_log_that_is_there_twice_is_told_with_both_places(two: tuple[Path, Path]) -> None:
    for path in two:
        (path / "orders-0").mkdir(parents=True)
    logs = manager(Disk(), *two)
    with pytest.raises(LogsContradict) as refused:
        logs.load(NOW_MS)
    assert logs.is_released
    assert str(refused.value) == (f"{two[1]}/orders-0: orders-0 is also in {two[0]}/orders-0: remove one of the two")
