"""The files that say one offset of each log in a directory: what they say, and when they are written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog

from kavka.errors import StorageError
from kavka.filesystem import Buffer
from kavka.log.decide.checkpoint import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from kavka.log.log_home import LogHome
from kavka.log.offset_checkpoints import BLOCK, OffsetCheckpoints
from kavka.model import TopicPartition

NAMES = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)


class Log:
    """What a checkpoint asks a log."""

    def __init__(self, topic: str, partition: int = 0, base: int = 0) -> None:
        self.topic_partition = TopicPartition(topic, partition)
        self.recovery_point = self.log_start_offset = self.durable_high_watermark = 0
        self.cleaned_to: int | None = None
        self.segments = [SimpleNamespace(base_offset=base)]


class Disk:
    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.written: list[str] = []
        self.is_broken = False

    def read(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def exists(self, path: str) -> bool:
        return path in self.files

    def write_atomically(self, path: str, data: Buffer, *, durable: bool = True) -> None:
        assert durable
        if self.is_broken:
            raise StorageError(path, "input/output error")
        self.files[path] = bytes(data)
        self.written.append(path)


def made(*logs: Log, path: str = "/a") -> tuple[Disk, OffsetCheckpoints, LogHome]:
    disk = Disk()
    home = LogHome(path, cast(Any, None), cast(Any, None))
    home.logs.update({log.topic_partition: cast(Any, log) for log in logs})
    return disk, OffsetCheckpoints(cast(Any, disk)), home


def content(checkpoints: OffsetCheckpoints, home: LogHome, name: str = RECOVERY_POINT_CHECKPOINT) -> str:
    return checkpoints.of(home, name).content.decode()


# -- what they say


def test_each_says_its_own_offset_of_each_log_in_order() -> None:
    second, first = Log("b", 0), Log("a", 10)
    last = Log("b", 2)
    for number, log in enumerate((first, second, last)):
        log.recovery_point, log.log_start_offset = 10 + number, 20 + number
        log.durable_high_watermark, log.cleaned_to = 30 + number, 40 + number
    _, checkpoints, home = made(last, second, first)
    for name, tens in zip(NAMES, (10, 20, 30, 40), strict=True):
        expected = f"0\n3\na 10 {tens}\nb 0 {tens + 1}\nb 2 {tens + 2}\n"
        assert content(checkpoints, home, name) == expected
        assert checkpoints.of(home, name).path == f"/a/{name}"
    assert checkpoints.offsets_of(cast(Any, first)) == (10, 20, 30, 40)


@pytest.mark.parametrize(("start", "base", "is_named"), [(0, 0, False), (1, 0, True), (7, 7, False), (8, 7, True)])
def test_a_log_start_is_named_where_the_first_segment_does_not_say_it(start: int, base: int, is_named: bool) -> None:
    """As Kafka's LogManager.checkpointLogStartOffsetsInDir has it."""
    log = Log("a", base=base)
    log.log_start_offset = start
    _, checkpoints, home = made(log)
    assert content(checkpoints, home, LOG_START_OFFSET_CHECKPOINT) == (f"0\n1\na 0 {start}\n" if is_named else "0\n0\n")


def test_a_log_start_within_the_segments_is_named() -> None:
    log = Log("a", base=3)
    log.segments.append(SimpleNamespace(base_offset=9))
    log.log_start_offset = 5
    _, checkpoints, home = made(log)
    assert content(checkpoints, home, LOG_START_OFFSET_CHECKPOINT) == "0\n1\na 0 5\n"


def test_a_log_that_was_never_compacted_is_in_no_checkpoint_of_compaction() -> None:
    cleaned, other, begun = Log("a"), Log("b"), Log("c")
    cleaned.cleaned_to, begun.cleaned_to = 5, 0
    _, checkpoints, home = made(cleaned, other, begun)
    assert content(checkpoints, home, CLEANER_OFFSET_CHECKPOINT) == "0\n2\na 0 5\nc 0 0\n"


@pytest.mark.parametrize("count", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1])
def test_whatever_changes_of_however_many_logs_is_said(count: int) -> None:
    logs = [Log("a", number) for number in range(count)]
    _, checkpoints, home = made(*logs)

    def says_all() -> None:
        lines = "".join(f"a {number} {log.recovery_point}\n" for number, log in enumerate(logs))
        assert content(checkpoints, home) == f"0\n{count}\n{lines}"

    says_all()
    for number in sorted({0, BLOCK - 1, BLOCK, 2 * BLOCK - 1, 2 * BLOCK}):
        if number < count:
            logs[number].recovery_point += 7
            says_all()
    for log in logs:
        log.recovery_point += 1
    says_all()
    removed = logs[BLOCK // 2 :]
    del logs[BLOCK // 2 :]
    for log in removed:
        del home.logs[log.topic_partition]
    count = len(logs)
    says_all()


# -- when they are written


def test_a_checkpoint_is_due_until_what_it_says_is_written() -> None:
    log = Log("a")
    disk, checkpoints, home = made(log)
    for _ in range(2):
        (file,) = checkpoints.due([home], RECOVERY_POINT_CHECKPOINT)
    checkpoints.write(file)
    assert disk.files == {f"/a/{RECOVERY_POINT_CHECKPOINT}": b"0\n1\na 0 0\n"}
    assert checkpoints.due([home], RECOVERY_POINT_CHECKPOINT) == []
    assert checkpoints.due([home], HIGH_WATERMARK_CHECKPOINT) != [], "each by itself"
    log.recovery_point = 5
    for _ in range(2):
        (file,) = checkpoints.due([home], RECOVERY_POINT_CHECKPOINT)
    assert file.content == b"0\n1\na 0 5\n"
    disk.is_broken = True
    with pytest.raises(StorageError):
        checkpoints.write(file)
    disk.is_broken = False
    (file,) = checkpoints.due([home], RECOVERY_POINT_CHECKPOINT)
    checkpoints.write(file)
    assert checkpoints.due([home], RECOVERY_POINT_CHECKPOINT) == []


def test_the_first_log_of_a_directory_has_its_checkpoint_written() -> None:
    disk, checkpoints, home = made()
    (file,) = checkpoints.due([home], RECOVERY_POINT_CHECKPOINT)
    checkpoints.write(file)
    assert disk.files[file.path] == b"0\n0\n"
    assert checkpoints.due([home], RECOVERY_POINT_CHECKPOINT) == []
    log = Log("a")
    home.logs[log.topic_partition] = cast(Any, log)
    (file,) = checkpoints.due([home], RECOVERY_POINT_CHECKPOINT)
    assert file.content == b"0\n1\na 0 0\n"


def test_each_directory_has_its_own() -> None:
    log, other = Log("a"), Log("b")
    disk, checkpoints, home = made(log)
    second = LogHome("/b", cast(Any, None), cast(Any, None))
    second.logs[other.topic_partition] = cast(Any, other)
    for file in checkpoints.due([home, second], RECOVERY_POINT_CHECKPOINT):
        checkpoints.write(file)
    assert disk.files == {
        f"/a/{RECOVERY_POINT_CHECKPOINT}": b"0\n1\na 0 0\n",
        f"/b/{RECOVERY_POINT_CHECKPOINT}": b"0\n1\nb 0 0\n",
    }
    other.recovery_point = 1
    assert [file.path for file in checkpoints.due([home, second], RECOVERY_POINT_CHECKPOINT)] == [
        f"/b/{RECOVERY_POINT_CHECKPOINT}"
    ]


def test_logs_that_come_or_go_are_looked_at_and_nothing_is_written_that_is_said_already() -> None:
    first, second = Log("a"), Log("b")
    first.cleaned_to = 5
    disk, checkpoints, home = made(first)
    checkpoints.write_all(home)
    home.logs[second.topic_partition] = cast(Any, second)
    assert [len(checkpoints.due([home], name)) for name in NAMES] == [1, 0, 1, 0], "no start, and never compacted"
    checkpoints.write_all(home)
    assert disk.files[f"/a/{RECOVERY_POINT_CHECKPOINT}"] == b"0\n2\na 0 0\nb 0 0\n"
    del home.logs[first.topic_partition]
    assert [len(checkpoints.due([home], name)) for name in NAMES] == [1, 0, 1, 1]
    checkpoints.write_all(home)
    assert [len(checkpoints.due([home], name)) for name in NAMES] == [0, 0, 0, 0]
    assert disk.files[f"/a/{CLEANER_OFFSET_CHECKPOINT}"] == b"0\n0\n"


def test_a_log_made_again_under_its_name_says_its_own_offsets() -> None:
    log, again = Log("a"), Log("a")
    log.recovery_point = 26
    _, checkpoints, home = made(log)
    checkpoints.write_all(home)
    home.logs[again.topic_partition] = cast(Any, again)
    assert content(checkpoints, home) == "0\n1\na 0 0\n"
    assert len(checkpoints.due([home], RECOVERY_POINT_CHECKPOINT)) == 1


def test_what_was_said_before_is_remembered_over_more_than_one_change_of_the_logs() -> None:
    """A checkpoint that nobody looked at between the two changes is due all the same, if it says something else."""
    logs = [Log("a"), Log("b"), Log("c")]
    _, checkpoints, home = made(logs[0])
    checkpoints.write_all(home)
    home.logs[logs[1].topic_partition] = cast(Any, logs[1])
    assert len(checkpoints.due([home], RECOVERY_POINT_CHECKPOINT)) == 1
    home.logs[logs[2].topic_partition] = cast(Any, logs[2])
    assert [len(checkpoints.due([home], name)) for name in NAMES] == [1, 0, 1, 0]
    logs[2].cleaned_to = 1
    assert [len(checkpoints.due([home], name)) for name in NAMES] == [1, 0, 1, 1]


def test_an_older_content_never_replaces_a_newer_one() -> None:
    log = Log("a")
    disk, checkpoints, home = made(log)
    for _ in range(5):
        older = checkpoints.of(home, RECOVERY_POINT_CHECKPOINT)
    log.recovery_point = 3
    newer = checkpoints.of(home, RECOVERY_POINT_CHECKPOINT)
    of_others = checkpoints.of(home, HIGH_WATERMARK_CHECKPOINT)
    checkpoints.write(newer)
    checkpoints.write(older)
    checkpoints.write(of_others)
    assert disk.written == [newer.path, of_others.path]
    assert disk.files[newer.path] == b"0\n1\na 0 3\n"
    assert checkpoints.due([home], RECOVERY_POINT_CHECKPOINT) == []


def test_what_is_lowered_is_written_at_once_and_nothing_else() -> None:
    """A truncation: a recovery point above the log's end would hide what is appended there next (KAFKA-10101)."""
    log = Log("a")
    log.recovery_point, log.log_start_offset, log.durable_high_watermark, log.cleaned_to = 10, 20, 30, 40
    for attribute, name in zip(
        ("recovery_point", "log_start_offset", "durable_high_watermark", "cleaned_to"), NAMES, strict=True
    ):
        disk, checkpoints, home = made(log)
        before = checkpoints.offsets_of(cast(Any, log))
        for change, written in ((0, []), (1, []), (-1, [f"/a/{name}"])):
            was = getattr(log, attribute)
            setattr(log, attribute, was + change)
            checkpoints.write_lowered(home, cast(Any, log), before)
            assert disk.written == written
            setattr(log, attribute, was)


def test_a_log_that_has_been_compacted_meanwhile_or_no_more_lowers_nothing() -> None:
    log = Log("a")
    disk, checkpoints, home = made(log)
    before = checkpoints.offsets_of(cast(Any, log))
    log.cleaned_to = 0
    checkpoints.write_lowered(home, cast(Any, log), before)
    before = checkpoints.offsets_of(cast(Any, log))
    log.cleaned_to = None
    checkpoints.write_lowered(home, cast(Any, log), before)
    assert disk.written == []


@pytest.mark.parametrize("is_compacted", [False, True])
def test_all_are_written_to_forget_the_logs_that_are_gone(is_compacted: bool) -> None:
    """That of compaction only where it has been, as with Kafka."""
    disk, checkpoints, home = made(Log("a"))
    cleaner = f"/a/{CLEANER_OFFSET_CHECKPOINT}"
    if is_compacted:
        disk.files[cleaner] = b"0\n1\ngone 0 7\n"
    home.former[TopicPartition("gone", 0)] = None
    checkpoints.forget_former(home)
    assert disk.written == [f"/a/{name}" for name in NAMES[: 4 if is_compacted else 3]]
    assert disk.files.get(cleaner) == (b"0\n0\n" if is_compacted else None)
    assert home.former == {}


def test_the_logs_that_are_gone_are_remembered_where_it_fails() -> None:
    disk, checkpoints, home = made(Log("a"))
    home.former[TopicPartition("gone", 0)] = None
    disk.is_broken = True
    with pytest.raises(StorageError):
        checkpoints.forget_former(home)
    assert home.former == {TopicPartition("gone", 0): None}


def test_a_checkpoint_is_read_and_a_damaged_one_is_told_and_says_nothing() -> None:
    disk, checkpoints, _ = made()
    path = f"/a/{RECOVERY_POINT_CHECKPOINT}"
    with structlog.testing.capture_logs() as lines:
        assert checkpoints.read("/a", RECOVERY_POINT_CHECKPOINT) == {}
        disk.files[path] = b"0\n1\na 3 17\n"
        assert checkpoints.read("/a", RECOVERY_POINT_CHECKPOINT) == {TopicPartition("a", 3): 17}
    assert lines == []
    disk.files[path] = b"1\n0\n"
    with structlog.testing.capture_logs() as lines:
        assert checkpoints.read("/a", RECOVERY_POINT_CHECKPOINT) == {}
    (line,) = lines
    assert (line["event"], line["log_level"], line["path"]) == ("checkpoint ignored", "warning", path)
    assert line["why"] == "version '1', expected 0"
