"""Logs that move between log directories: nothing is lost, whatever happens meanwhile and wherever a kill strikes."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from kavka.broker.upkeep.log_moves import LogMoves
from kavka.errors import ErrorCode, StorageError
from kavka.filesystem import Buffer
from kavka.log import log_move
from kavka.log.decide.checkpoint import RECOVERY_POINT_CHECKPOINT
from kavka.log.decide.directory_names import MOVED_MARK
from kavka.log.decide.producer_state import AppendOrigin
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.log.unified_log import UnifiedLog
from kavka.model import TopicPartition
from kavka.records.builder import ProducerStamp
from kavka.records.control import ControlType, EndTransactionMarker, build_marker
from kavka.runtime.disk import LocalFileSystem
from tests.kit.virtual_time import in_virtual_time
from tests.unit.log.compaction_support import pairs_batch
from tests.unit.log.killable_disk import KillableFileSystem, Killed
from tests.unit.log.log_support import NOW_MS, PARTITION, append, batch, records, write_checkpoints

CONFIG = LogConfig(segment_bytes=2_000, index_interval_bytes=300, file_delete_delay_ms=0)


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_move, "SLICE_BYTES", 700)
    monkeypatch.setattr(log_move, "REST_BYTES", 300)


class Disks:
    """A broker's logs in two directories, and the log of one partition in the first."""

    def __init__(self, path: Path, filesystem: LocalFileSystem | None = None, more: tuple[str, ...] = ()) -> None:
        self.first, self.second = str(path / "first"), str(path / "second")
        self.directories = [self.first, self.second, *more]
        self.filesystem = filesystem or LocalFileSystem()
        self.open()

    def open(self) -> None:
        self.logs = LogManager(
            self.filesystem,
            self.directories,
            LogManagerSettings(1, "cluster"),
            lambda topic: CONFIG,
            draw=lambda limit: 7,
        )
        self.logs.load(NOW_MS)
        self.log: UnifiedLog = self.logs.get_or_create(PARTITION, None, NOW_MS, directory=self.first)
        self.log.set_high_watermark(self.log.log_end_offset)
        self.failures: list[StorageError] = []

    def fill(self, count: int = 40) -> None:
        for number in range(count):
            append(self.log, batch([b"%d" % number * 40], timestamp=NOW_MS + number))
        stamp = ProducerStamp(5, 0, 0, is_transactional=True)
        append(self.log, pairs_batch(((b"k", b"aborted"),), NOW_MS, stamp))
        marker = build_marker(
            EndTransactionMarker(ControlType.ABORT, 0), producer_id=5, producer_epoch=0, timestamp=NOW_MS
        )
        self.log.append_as_leader(bytearray(marker), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
        append(self.log, batch([b"last"]))

    def move(self, directory: str, between: Callable[[int], None] = lambda step: None) -> ErrorCode:
        """Moves the log; `between` is called with a number before each slice."""

        async def scenario() -> ErrorCode:
            flows: list[Coroutine[None, None, None]] = []
            steps = iter(range(1 << 30))

            async def run_blocking(work: Callable[[], None]) -> None:
                between(next(steps))
                work()

            moves = LogMoves(
                self.logs,
                rate=lambda: 1 << 60,
                wall_ms=lambda: NOW_MS,
                run_blocking=run_blocking,
                on_storage_error=self.failures.append,
                spawn=flows.append,
            )
            answer = moves.request(PARTITION, directory)
            for flow in flows:
                await asyncio.wait_for(flow, 30)
            return answer

        return asyncio.run(scenario())

    def seconds_of_a_move(self, directory: str, rate: int) -> float:
        """How long the move takes where the disk itself takes no time."""
        took: list[float] = []

        async def at_once(work: Callable[[], None]) -> None:
            work()

        async def scenario() -> None:
            flows: list[Coroutine[None, None, None]] = []
            moves = LogMoves(
                self.logs,
                rate=lambda: rate,
                wall_ms=lambda: NOW_MS,
                run_blocking=at_once,
                on_storage_error=self.failures.append,
                spawn=flows.append,
            )
            assert moves.request(PARTITION, directory) is ErrorCode.NONE
            began = asyncio.get_running_loop().time()
            await flows[0]
            took.append(asyncio.get_running_loop().time() - began)

        in_virtual_time(scenario)
        return took[0]

    def names(self, directory: str) -> list[str]:
        return sorted(name for name in self.filesystem.list_directories(directory) if name.startswith("orders"))


@pytest.fixture
def disks(tmp_path: Path) -> Disks:
    return Disks(tmp_path)


def state_of(log: UnifiedLog) -> tuple[object, ...]:
    ids = list(log.producers.producers)
    return log.log_end_offset, log.high_watermark, ids, log.epoch_entries, log.latest_epoch


def test_a_log_moves_with_all_that_is_known_of_it(disks: Disks) -> None:
    disks.fill()
    log, before = disks.log, records(disks.log)
    read = log.read(0, 500, max_offset=log.high_watermark, min_one_batch=True)
    state = state_of(log)
    aborted = log.aborted_transactions(0, log.log_end_offset)
    assert disks.move(disks.second) is ErrorCode.NONE
    assert disks.logs.get(PARTITION) is log
    assert log.directory == f"{disks.second}/orders-0"
    assert records(log) == before
    assert b"".join(chunk.tobytes() for chunk in read.chunks), "slices of the old files can still be sent"
    assert state_of(log) == state
    append(log, batch([b"goes on"]))
    disks.logs.remove_paths(disks.logs.take_removals(NOW_MS))
    assert (disks.names(disks.first), disks.names(disks.second)) == ([], ["orders-0"])
    for is_clean in (True, False):
        if is_clean:
            disks.logs.close(NOW_MS)
        else:
            disks.logs.release()
        disks.open()
        assert records(disks.log)[:-1] == before
        assert disks.log.aborted_transactions(0, disks.log.log_end_offset) == aborted
        assert list(disks.log.producers.producers) == [5]
    names = [path.name for path in Path(disks.log.directory).iterdir()]
    assert MOVED_MARK not in names


@pytest.mark.setting("replica.alter.log.dirs.io.max.bytes.per.second")
def test_a_move_keeps_to_its_rate(disks: Disks) -> None:
    disks.fill()
    assert disks.seconds_of_a_move(disks.second, disks.log.size_bytes // 10) == pytest.approx(10, rel=0.1)


def test_what_is_written_rolled_deleted_and_truncated_meanwhile_counts(disks: Disks) -> None:
    disks.fill()
    happened = []

    def between(step: int) -> None:
        log = disks.log
        if step % 3 == 0 and step < 60:
            append(log, batch([b"meanwhile %d" % step * 9]), leader_epoch=step)
        if step == 7:
            log.delete_records(log.segments[1].base_offset + 3)
            log.delete_old_segments(NOW_MS)
            happened.append("deleted")
        if step in (5, 11):
            disks.logs.truncate_to(PARTITION, log.log_end_offset - 12, NOW_MS)
            happened.append("truncated")
            append(log, batch([b"another"]), leader_epoch=step)

    assert disks.move(disks.second, between) is ErrorCode.NONE
    assert sorted(happened) == ["deleted", "truncated", "truncated"]
    before, epochs = records(disks.log), disks.log.epoch_entries
    assert disks.log.directory.startswith(disks.second)
    disks.logs.release()
    disks.open()
    assert records(disks.log, before[0].offset) == before
    # The log start was not checkpointed: the first epoch begins where the first segment does.
    assert disks.log.epoch_entries[1:] == epochs[1:]
    assert epochs[-1].epoch > 11


def test_a_log_that_was_recovered_moves_with_its_indexes_as_they_are_now(disks: Disks) -> None:
    disks.fill()
    index = Path(disks.log.directory) / "00000000000000000000.timeindex"
    largest = [segment.max_timestamp for segment in disks.log.segments]
    disks.logs.release()
    index.write_bytes((NOW_MS + 1).to_bytes(8, "big") + (1).to_bytes(4, "big"))
    disks.open()

    def flush(step: int) -> None:
        if step == 6:
            disks.log.flush(NOW_MS)

    assert disks.move(disks.second, flush) is ErrorCode.NONE
    disks.log.flush(NOW_MS)
    write_checkpoints(disks.logs, RECOVERY_POINT_CHECKPOINT)
    disks.logs.release()
    disks.open()
    assert [segment.max_timestamp for segment in disks.log.segments] == largest


def test_an_empty_log_moves_and_is_written_there(disks: Disks) -> None:
    assert disks.move(disks.second) is ErrorCode.NONE
    append(disks.log, batch([b"first"]))
    disks.logs.close(NOW_MS)
    disks.open()
    assert disks.log.directory.startswith(disks.second)
    assert [record.value for record in records(disks.log)] == [b"first"]


def test_a_kill_at_any_step_leaves_one_whole_log(tmp_path: Path) -> None:
    step, ended, moved = 0, False, set()
    while not ended:
        filesystem = KillableFileSystem()
        disks = Disks(tmp_path / f"at-{step}", filesystem)
        disks.fill(20)
        before = records(disks.log)
        filesystem.changes, filesystem.fatal = 0, step
        try:
            disks.move(disks.second)
            ended = True
        except Killed:
            pass
        filesystem.fatal = -1
        disks.logs.release()
        disks.open()
        assert records(disks.log) == before, f"killed at step {step}"
        moved.add(disks.log.directory.startswith(disks.second))
        disks.logs.remove_paths(disks.logs.take_removals(NOW_MS))
        assert len(disks.names(disks.first) + disks.names(disks.second)) == 1
        disks.logs.close(NOW_MS)
        step += 1
    assert moved == {True, False}


def test_requests_that_cannot_be_obeyed_are_answered(disks: Disks, tmp_path: Path) -> None:
    disks.fill(3)
    assert disks.move(str(tmp_path / "elsewhere")) is ErrorCode.LOG_DIR_NOT_FOUND
    assert disks.move(disks.first) is ErrorCode.NONE
    disks.logs.on_storage_error(disks.second, StorageError(disks.second, "input/output error"))
    assert disks.move(disks.second) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_partition_that_is_not_here_is_made_where_it_was_wanted(disks: Disks) -> None:
    later = TopicPartition("orders", 9)
    disks.logs.prefer_directory(later, disks.second)
    disks.logs.get_or_create(later, None, NOW_MS)
    assert disks.names(disks.second) == ["orders-9"]


def test_a_move_that_is_called_back_leaves_no_copy(disks: Disks) -> None:
    disks.fill()

    def between(step: int) -> None:
        if step == 4:
            (move,) = disks.logs.moves(disks.second)
            assert 0 < move.progress.size_bytes < disks.log.size_bytes
            assert move.progress.offset < disks.log.log_end_offset
            assert disks.logs.begin_move(PARTITION, disks.first) is None

    disks.move(disks.second, between)
    assert disks.log.directory.startswith(disks.first)
    disks.logs.remove_paths(disks.logs.take_removals(NOW_MS))
    assert disks.names(disks.second) == []


def test_a_partition_deleted_in_the_middle_takes_its_copy_along(disks: Disks) -> None:
    disks.fill()
    disks.move(disks.second, lambda step: (step == 4 and disks.logs.delete(PARTITION, NOW_MS), None)[1])
    disks.logs.remove_paths(disks.logs.take_removals(NOW_MS))
    assert disks.names(disks.first) + disks.names(disks.second) == []


def test_a_copy_that_is_removed_under_a_worker_fails_no_disk(tmp_path: Path) -> None:
    step, called_back = 0, True
    while called_back:
        disks, called_back = Disks(tmp_path / f"at-{step}"), False
        disks.fill()

        def between(number: int, disks: Disks = disks, at: int = step) -> None:
            nonlocal called_back
            if number == at:
                called_back = True
                disks.logs.begin_move(PARTITION, disks.first)
                disks.logs.remove_paths(disks.logs.take_removals(NOW_MS))

        disks.move(disks.second, between)
        assert disks.failures == [], f"called back at step {step}"
        assert disks.logs.live_directories == [disks.first, disks.second]
        step += 1
    assert step > 10


def test_a_log_that_is_gone_during_its_move_fails_the_disk_that_had_it(tmp_path: Path) -> None:
    step, taken = 0, True
    while taken:
        disks, taken = Disks(tmp_path / f"at-{step}"), False
        disks.fill()

        def between(number: int, disks: Disks = disks, at: int = step) -> None:
            nonlocal taken
            if number == at:
                taken = True
                shutil.rmtree(disks.log.directory)

        disks.move(disks.second, between)
        failed = [disks.logs.directory_of(failure.path) for failure in disks.failures]
        assert failed == ([disks.first] if taken else []), f"taken away at step {step}"
        step += 1
    assert step > 10


class FailingOnceNamed(LocalFileSystem):
    """Cannot sync a log directory, or remove the mark there, when a copy has got the log's name in it; or says of that
    last renaming that it failed (`name`)."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.directory = ""

    def _fail(self, step: str, path: str) -> None:
        if step == self.step and self.directory and self.exists(f"{self.directory}/{PARTITION}"):
            raise StorageError(path, "input/output error")

    def sync_directory(self, path: str) -> None:
        if path == self.directory:
            self._fail("sync", path)
        super().sync_directory(path)

    def rename(self, source: str, target: str) -> None:
        if not source.startswith(self.directory):
            self._fail("rename", source)
        super().rename(source, target)
        if target == f"{self.directory}/{PARTITION}":
            self._fail("name", source)

    def remove(self, path: str) -> None:
        if path.endswith(MOVED_MARK):
            self._fail("remove", path)
        super().remove(path)

    def write_atomically(self, path: str, data: Buffer, *, durable: bool = True) -> None:
        if path == f"{self.directory}/{RECOVERY_POINT_CHECKPOINT}":
            self._fail("checkpoint", path)
        super().write_atomically(path, data, durable=durable)


@pytest.mark.parametrize("step", ["name", "sync", "rename", "remove", "checkpoint"])
def test_what_is_acknowledged_after_a_disk_failed_at_the_end_of_a_move_is_there_after_a_restart(
    tmp_path: Path, step: str
) -> None:
    """1. The copy has got the log's name, with the mark of a move. 2. The disk fails. 3. Records are acknowledged, if
    the log is still there. 4. A restart takes what has the mark for the log, and removes the other one."""
    filesystem = FailingOnceNamed(step)
    disks = Disks(tmp_path, filesystem)
    disks.fill()
    expected = [record.value for record in records(disks.log)]
    filesystem.directory = disks.second
    disks.move(disks.second)
    (failure,) = disks.failures
    assert disks.logs.directory_of(failure.path) == (disks.first if step == "rename" else disks.second)
    disks.logs.on_storage_error(failure.path, failure)
    if disks.logs.get(PARTITION) is not None:
        append(disks.log, batch([b"acknowledged"]))
        expected.append(b"acknowledged")
    filesystem.directory = ""
    disks.logs.release()
    disks.open()
    assert [record.value for record in records(disks.log)] == expected


def test_a_disk_that_keeps_the_mark_of_a_move_takes_no_other_along_at_a_start(tmp_path: Path) -> None:
    class KeepingMarks(LocalFileSystem):
        def remove(self, path: str) -> None:
            if path.endswith(MOVED_MARK):
                raise StorageError(path, "input/output error")
            super().remove(path)

    disks = Disks(tmp_path)
    disks.fill(3)
    beside = TopicPartition("orders", 1)
    append(disks.logs.get_or_create(beside, None, NOW_MS, directory=disks.first), batch([b"beside"]))
    append(disks.logs.get_or_create(TopicPartition("orders", 2), None, NOW_MS, directory=disks.second), batch([b"on"]))
    disks.logs.close(NOW_MS)
    for partition in (PARTITION, beside):
        Path(disks.first, str(partition), MOVED_MARK).write_bytes(b"1")
    logs = LogManager(KeepingMarks(), disks.directories, LogManagerSettings(1, "cluster"), lambda topic: CONFIG)
    report = logs.load(NOW_MS)
    assert list(report.offline) == [disks.first]
    assert not report.was_clean
    assert list(logs.offline_directories) == [disks.first]
    assert [(log.topic_partition.partition, log.log_end_offset) for log in logs] == [(2, 1)]


def test_a_copy_that_somebody_removed_takes_no_log_along(tmp_path: Path) -> None:
    """1. All is copied. 2. The copy is removed. 3. The disk that it was on is offline. The log is on the other one."""

    class Removing(LocalFileSystem):
        def rename(self, source: str, target: str) -> None:
            if source.endswith("-future"):
                shutil.rmtree(source)
            super().rename(source, target)

    disks = Disks(tmp_path, Removing())
    disks.fill()
    disks.move(disks.second)
    (failure,) = disks.failures
    assert disks.logs.on_storage_error(failure.path, failure) == []
    assert disks.logs.live_directories == [disks.first]
    append(disks.log, batch([b"acknowledged"]))
    assert [[one.topic_partition for one in info.logs] for info in disks.logs.describe()] == [[PARTITION], []]


class FailingRenames(LocalFileSystem):
    """Cannot rename the log's directory in the log directories `failing`."""

    def __init__(self) -> None:
        self.failing: list[str] = []

    def rename(self, source: str, target: str) -> None:
        if source in [f"{directory}/{PARTITION}" for directory in self.failing]:
            raise StorageError(source, "input/output error")
        super().rename(source, target)


@pytest.mark.parametrize("name", ["a-third", "z-third"])
@pytest.mark.parametrize("second_fails", [False, True])
def test_a_log_that_moves_on_from_a_disk_that_failed_is_the_one_that_a_restart_takes(
    tmp_path: Path, name: str, second_fails: bool
) -> None:
    """1. The log moves on to the second disk; the first fails and keeps the former directory. 2. It moves on to a
    third; the second fails at the same step, or does not. 3. Records are acknowledged. 4. At a restart all three are
    there again, in any order."""
    filesystem, third = FailingRenames(), str(tmp_path / name)
    disks = Disks(tmp_path, filesystem, (third,))
    disks.directories.sort(reverse=name == "z-third")
    disks.fill()
    expected = [record.value for record in records(disks.log)]
    filesystem.failing = [disks.first, disks.second] if second_fails else [disks.first]
    for target in (disks.second, third):
        assert disks.move(target) is ErrorCode.NONE
        for failure in disks.failures:
            disks.logs.on_storage_error(failure.path, failure)
        disks.failures.clear()
        append(disks.log, batch([b"acknowledged"]))
        expected.append(b"acknowledged")
    assert disks.log.directory == f"{third}/{PARTITION}"
    filesystem.failing = []
    disks.logs.release()
    disks.open()
    assert disks.log.directory == f"{third}/{PARTITION}"
    assert [record.value for record in records(disks.log)] == expected
    assert MOVED_MARK not in filesystem.list_files(disks.log.directory)
    assert str(PARTITION) not in disks.names(disks.first) + disks.names(disks.second)
