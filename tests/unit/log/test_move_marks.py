"""What marks of moves say: which directory of a partition is the log, and whether that can be told."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from kavka.broker.upkeep.log_moves import LogMoves
from kavka.errors import ErrorCode, LogsContradict, StorageError, UndecidedLog
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.log.move_marks import MoveMark, choose, read_mark, write_mark
from kavka.model import TopicPartition
from kavka.runtime.disk import LocalFile, LocalFileSystem
from tests.unit.log.log_support import NOW_MS, PARTITION, append, batch
from tests.unit.log.test_log_move import COPY, NEW, OLD, moving, steps

OLDER, NEWER = MoveMark(1, is_decided=False), MoveMark(2, is_decided=False)
DECIDED = MoveMark(2, is_decided=True)


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        (b"3", MoveMark(3, is_decided=True)),
        (b"12 undecided", MoveMark(12, is_decided=False)),
        (b"", MoveMark(0, is_decided=True)),
        (b"3 perhaps", MoveMark(0, is_decided=True)),
        (b"-3", MoveMark(0, is_decided=True)),
        (b"9" * 19, MoveMark(10**19 - 1, is_decided=True)),
        (b"9" * 20, MoveMark(0, is_decided=True)),
        (b"9" * 5_000, MoveMark(0, is_decided=True)),
        (b"1 ", MoveMark(0, is_decided=True)),
        (b"3\n", MoveMark(0, is_decided=True)),
        (None, None),
    ],
)
def test_a_mark_is_read(tmp_path: Path, text: bytes | None, mark: MoveMark | None) -> None:
    if text is not None:
        (tmp_path / ".kavka-moved").write_bytes(text)
    assert read_mark(LocalFileSystem(), str(tmp_path)) == mark


@pytest.mark.parametrize(("mark", "text"), [(DECIDED, b"2"), (OLDER, b"1 undecided")])
def test_a_mark_is_written_durably(tmp_path: Path, mark: MoveMark, text: bytes) -> None:
    durable = []

    class Noting(LocalFileSystem):
        def sync_directory(self, path: str) -> None:
            durable.append(path)
            super().sync_directory(path)

    write_mark(Noting(), str(tmp_path), mark)
    assert (tmp_path / ".kavka-moved").read_bytes() == text
    assert durable == [str(tmp_path)]


@pytest.mark.parametrize(
    ("marks", "chosen"),
    [
        ([], None),
        ([None], 0),
        ([OLDER], 0),
        ([OLDER, NEWER], 1),
        ([NEWER, OLDER], 0),
        ([OLDER, DECIDED], 1),
        ([DECIDED, OLDER, MoveMark(0, is_decided=False)], 0),
        ([None, DECIDED], None),
        ([DECIDED, MoveMark(1, is_decided=True)], None),
        ([DECIDED, MoveMark(3, is_decided=False)], None),
        ([DECIDED, OLDER, None], None),
        ([OLDER, DECIDED, NEWER._replace(number=1)], 1),
        ([None, None], None),
        ([None, OLDER], None),
        ([NEWER, None], None),
    ],
)
def test_of_several_directories_one_is_the_log_if_the_marks_say_so(
    marks: list[MoveMark | None], chosen: int | None
) -> None:
    found = choose({f"/{number}": mark for number, mark in enumerate(marks)})
    assert found == (None if chosen is None else f"/{chosen}")


class Missing(LocalFileSystem):
    """The log directory `gone` is not mounted."""

    gone = "nothing"

    def make_directory(self, path: str) -> None:
        if path == self.gone:
            raise StorageError(path, "input/output error")
        super().make_directory(path)

    def lock(self, path: str) -> LocalFile:
        if path.startswith(f"{self.gone}/"):
            raise StorageError(path, "input/output error")
        return super().lock(path)


def two_logs(tmp_path: Path, *marks: MoveMark) -> tuple[Missing, list[str]]:
    """Directories with a log of one partition each: as many records as the directory has, and its mark."""
    filesystem, paths = Missing(), [str(tmp_path / f"{number}") for number in range(len(marks))]
    for number, (path, mark) in enumerate(zip(paths, marks, strict=True), 1):
        logs = started(filesystem, path)
        append(logs.get_or_create(PARTITION, None, NOW_MS), batch(number))
        logs.close(NOW_MS)
        write_mark(filesystem, f"{path}/{PARTITION}", mark)
    return filesystem, paths


def started(filesystem: Missing, *paths: str) -> LogManager:
    logs = LogManager(filesystem, paths, LogManagerSettings(1, "cluster"), lambda topic: LogConfig())
    logs.load(NOW_MS)
    return logs


def test_marks_of_logs_in_several_directories_are_removed_with_the_first_start_that_has_all(tmp_path: Path) -> None:
    filesystem, paths = two_logs(tmp_path, OLDER, NEWER)
    elsewhere = TopicPartition("bills", 3)
    logs = started(filesystem, paths[0])
    append(logs.get_or_create(elsewhere, None, NOW_MS), batch())
    logs.close(NOW_MS)
    for partition in (elsewhere, PARTITION):
        write_mark(filesystem, f"{paths[0]}/{partition}", OLDER)
    logs = started(filesystem, *paths)
    for partition, path in ((elsewhere, paths[0]), (PARTITION, paths[1])):
        assert logs.get_or_create(partition, None, NOW_MS).directory == f"{path}/{partition}"
        assert read_mark(filesystem, f"{path}/{partition}") is None


def test_a_directory_whose_name_is_nearly_that_of_a_log_says_nothing_of_it(tmp_path: Path) -> None:
    """`orders-00` is no name that a broker gives."""
    filesystem, paths = two_logs(tmp_path, OLDER)
    nearly, foreign = tmp_path / "1" / "orders-00", tmp_path / "1" / "backup"
    for path in (nearly, foreign):
        path.mkdir(parents=True)
        write_mark(filesystem, str(path), DECIDED)
    logs = started(filesystem, paths[0], str(tmp_path / "1"))
    log = logs.get(PARTITION)
    assert log is not None
    assert (log.directory, log.log_end_offset) == (f"{paths[0]}/{PARTITION}", 1)
    assert read_mark(filesystem, str(nearly)) == DECIDED


@pytest.mark.parametrize("gone", [0, 1])
def test_a_log_that_may_be_the_older_one_is_kept_and_not_served_while_the_other_is_missing(
    tmp_path: Path, gone: int
) -> None:
    filesystem, paths = two_logs(tmp_path, OLDER, NEWER)
    here = paths[1 - gone]
    filesystem.gone = paths[gone]
    for _ in range(2):  # A clean stop between them, which must not be taken for a failure.
        with structlog.testing.capture_logs() as lines:
            logs = started(filesystem, *paths)
        (line,) = [line for line in lines if line["event"] == "log not served"]
        assert (line["log_level"], line["partition"]) == ("error", "orders-0")
        assert line["why"] == f"{paths[gone]}: is offline, and may have a newer log of orders-0 than {here}/orders-0"
        assert line["next_step"] == "repair the disk and restart the broker; if it is lost, take it out of log.dirs"
        with pytest.raises(UndecidedLog) as refused:
            logs.get_or_create(PARTITION, None, NOW_MS)
        assert refused.value.path == paths[gone], "the directory that has it goes on"
        assert logs.live_directories == [here]
        assert read_mark(filesystem, f"{here}/{PARTITION}") == (OLDER, NEWER)[1 - gone]
        logs.close(NOW_MS)
        assert filesystem.exists(f"{here}/.kafka_cleanshutdown")
    alone = started(filesystem, here)
    found = alone.get(PARTITION)
    assert found is not None
    assert found.failure is None, "log.dirs does not name the other one any more"
    assert read_mark(filesystem, f"{here}/{PARTITION}") is None


def test_a_decided_log_is_served_while_the_other_is_missing_and_keeps_its_mark(tmp_path: Path) -> None:
    filesystem, paths = two_logs(tmp_path, OLDER, DECIDED)
    filesystem.gone = paths[0]
    logs = started(filesystem, *paths)
    assert logs.get_or_create(PARTITION, None, NOW_MS).log_end_offset == 2
    assert read_mark(filesystem, f"{paths[1]}/{PARTITION}") == DECIDED
    logs.close(NOW_MS)
    filesystem.gone = "nothing"
    logs = started(filesystem, *paths)
    assert logs.get_or_create(PARTITION, None, NOW_MS).log_end_offset == 2
    assert read_mark(filesystem, f"{paths[1]}/{PARTITION}") is None
    assert not filesystem.exists(f"{paths[0]}/{PARTITION}")


def test_the_newer_one_of_two_undecided_logs_is_decided_where_the_other_disk_fails_at_the_start(tmp_path: Path) -> None:
    class CannotRename(Missing):
        def rename(self, source: str, target: str) -> None:
            if source == f"{paths[0]}/{PARTITION}":
                raise StorageError(source, "input/output error")
            super().rename(source, target)

    _, paths = two_logs(tmp_path, OLDER, NEWER)
    logs = started(CannotRename(), *paths)
    assert list(logs.offline_directories) == [paths[0]]
    assert logs.get_or_create(PARTITION, None, NOW_MS).log_end_offset == 2
    assert read_mark(LocalFileSystem(), f"{paths[1]}/{PARTITION}") == DECIDED


def test_a_log_that_is_not_served_is_not_moved(tmp_path: Path) -> None:
    filesystem, paths = two_logs(tmp_path, OLDER, NEWER, MoveMark(0, is_decided=False))
    filesystem.gone = paths[2]
    logs = started(filesystem, *paths)
    moves = LogMoves(
        logs,
        rate=lambda: 1,
        wall_ms=lambda: NOW_MS,
        run_blocking=lambda work: pytest.fail("copied"),
        on_storage_error=lambda failure: pytest.fail(str(failure)),
        spawn=lambda flow: pytest.fail("moved"),
    )
    assert moves.request(PARTITION, paths[0]) is ErrorCode.KAFKA_STORAGE_ERROR
    assert filesystem.list_directories(paths[0]) == ["orders-0.00000000000000000000000000000000-delete"]


def test_of_an_undecided_log_and_one_that_no_move_has_seen_nobody_can_tell(tmp_path: Path) -> None:
    filesystem, paths = two_logs(tmp_path, OLDER, NEWER)
    filesystem.remove(f"{paths[0]}/{PARTITION}/.kavka-moved")
    with pytest.raises(LogsContradict):
        started(filesystem, *paths)


@pytest.mark.parametrize(("former", "number"), [(None, 0), (b"", 0), (b"4", 4), (b"4 undecided", 4)])
@pytest.mark.parametrize("fails", [False, True])
def test_a_move_marks_both_before_the_last_renaming_and_what_goes_on_as_the_log_after_it(
    former: bytes | None, number: int, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, _, move = moving(8, 9)
    if former is not None:
        disk.files[f"{OLD}/.kavka-moved"] = bytearray(former)
    steps(move)
    marks: list[bytes] = []
    rename = disk.rename

    def noting(source: str, target: str) -> None:
        marks.extend(bytes(disk.files[f"{path}/.kavka-moved"]) for path in (OLD, COPY))
        rename(source, target)

    monkeypatch.setattr(disk, "rename", noting)
    if fails:
        disk.fails_at = f"rename {COPY} {NEW}"
        with pytest.raises(StorageError):
            move.finish(NEW)
        assert disk.files[f"{OLD}/.kavka-moved"] == b"%d" % (number + 2), "higher than the copy's, if that has the name"
    else:
        move.finish(NEW)
        assert disk.files[f"{NEW}/.kavka-moved"] == b"%d" % (number + 1)
    assert marks == [b"%d undecided" % number, b"%d undecided" % (number + 1)]


def test_a_disk_that_was_taken_for_lost_takes_nothing_away_when_it_is_back(tmp_path: Path) -> None:
    """1. The log has moved to the second disk; the first keeps an older copy. 2. The second is lost, and is taken out
    of log.dirs. 3. Records are acknowledged in what is left. 4. The second disk is found, and is named again."""
    filesystem, paths = two_logs(tmp_path, OLDER, DECIDED)
    logs = started(filesystem, paths[0])
    append(logs.get_or_create(PARTITION, None, NOW_MS), batch(5))
    logs.close(NOW_MS)
    with pytest.raises(LogsContradict, match="remove one of the two"):
        started(filesystem, *paths)
    assert started(filesystem, paths[0]).get_or_create(PARTITION, None, NOW_MS).log_end_offset == 6


@pytest.mark.parametrize("moves_on", [False, True])
def test_a_log_made_anew_while_a_disk_is_missing_is_not_taken_for_older_than_what_is_there(
    tmp_path: Path, moves_on: bool
) -> None:
    """1. A mark stays because a disk is offline. 2. The disk with the log is offline, too. 3. The partition goes to
    other brokers, and comes back, to another disk; maybe it moves there. 4. The disks are back."""
    filesystem, paths = two_logs(tmp_path, MoveMark(2, is_decided=False), MoveMark(3, is_decided=True))
    third, fourth = str(tmp_path / "third"), str(tmp_path / "fourth")
    started(filesystem, third, fourth).close(NOW_MS)
    filesystem.gone = paths[1]
    filesystem.rename(paths[0], f"{paths[0]}-elsewhere")
    logs = started(filesystem, third, fourth, paths[1])
    log = logs.get_or_create(PARTITION, None, NOW_MS, directory=third)
    append(log, batch(7))
    if moves_on:
        move = logs.begin_move(PARTITION, fourth)
        assert move is not None
        while (task := move.next_slice()) is not None:
            task()
        logs.finish_move(move, NOW_MS)
    logs.close(NOW_MS)
    filesystem.gone = "nothing"
    with pytest.raises(LogsContradict, match="remove one of the two"):
        started(filesystem, third, fourth, paths[1])
    assert started(filesystem, third, fourth).get_or_create(PARTITION, None, NOW_MS).log_end_offset == 7
