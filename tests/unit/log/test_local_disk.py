"""The FileSystem port on a real directory: what each operation does and how it fails."""

import fcntl
import gc
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kavka.errors import LinkLeadsNowhere, LogDirectoryLocked, StorageError
from kavka.runtime.disk import LocalFileSystem

DISK = LocalFileSystem()


def test_appends_go_to_the_end_wherever_that_is(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    file = DISK.open(path, create=True)
    file.append(b"abc")
    file.append(memoryview(b"defg"))
    file.truncate(5)
    file.append(bytearray(b"X"))
    other = DISK.open(path)
    other.append(b"Y")
    assert (file.size(), file.read_at(0, 100)) == (7, b"abcdeXY")
    assert (file.path, os.fstat(file.fileno()).st_size) == (path, 7)


def test_reads_end_at_the_end_of_the_file(tmp_path: Path) -> None:
    file = DISK.open(str(tmp_path / "f"), create=True)
    file.append(b"abcdef")
    assert [file.read_at(4, 10), file.read_at(6, 10), file.read_at(99, 1), file.read_at(1, 2)] == [
        b"ef",
        b"",
        b"",
        b"bc",
    ]


def test_many_parts_are_one_write_whatever_their_number(tmp_path: Path) -> None:
    file = DISK.open(str(tmp_path / "f"), create=True)
    parts = [bytes([number % 251]) * (number % 7) for number in range(3_000)]
    file.append_many(parts)
    file.append_many([])
    assert file.read_at(0, 1 << 20) == b"".join(parts)


def test_a_part_that_the_kernel_leaves_over_is_written_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, writev = os.write, os.writev
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data)[:3]))
    monkeypatch.setattr(os, "writev", lambda descriptor, parts: writev(descriptor, [b"".join(parts)[:4]]))
    file = DISK.open(str(tmp_path / "f"), create=True)
    file.append(b"0123456789")
    file.append_many([b"ab", b"cdefg", b"", b"hi"])
    assert file.read_at(0, 100) == b"0123456789abcdefghi"


def test_a_file_tells_when_it_was_last_written(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    file = DISK.open(path, create=True)
    before_ms = time.time_ns() // 1_000_000 - 10  # The kernel's clock for files has steps of some milliseconds.
    file.append(b"abc")
    assert before_ms <= DISK.modified_ms(path) <= time.time_ns() // 1_000_000
    DISK.set_modified_ms(path, 1_700_000_000_123)
    assert DISK.modified_ms(path) == 1_700_000_000_123
    assert (DISK.read(path), DISK.modified_ms(path)) == (b"abc", 1_700_000_000_123)
    DISK.rename(path, path + "2")
    assert DISK.modified_ms(path + "2") == 1_700_000_000_123
    file.append(b"d")
    assert DISK.modified_ms(path + "2") >= before_ms


def test_a_missing_file_is_file_not_found(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    for call in (DISK.open, DISK.read, DISK.remove, DISK.remove_directory, DISK.list_files, DISK.sync_directory):
        with pytest.raises(FileNotFoundError):
            call(missing)
    with pytest.raises(FileNotFoundError):
        DISK.modified_ms(missing)
    with pytest.raises(FileNotFoundError):
        DISK.set_modified_ms(missing, 0)
    with pytest.raises(FileNotFoundError):
        DISK.rename(missing, missing + "2")
    assert not DISK.exists(missing)


def test_a_file_that_cannot_be_made_for_want_of_its_directory_is_a_storage_error(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(StorageError, match="No such file"):
        DISK.write_atomically(missing + "/f", b"x")
    with pytest.raises(StorageError, match="No such file"):
        DISK.open(missing + "/f", create=True)


def test_every_other_failure_is_a_storage_error_with_its_path(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    DISK.open(path, create=True)
    for call in (
        lambda: DISK.open(str(tmp_path)),
        lambda: DISK.read(str(tmp_path)),
        lambda: DISK.list_files(path),
        lambda: DISK.make_directory(path),
        lambda: DISK.make_directory(path + "/below"),
        lambda: DISK.remove(str(tmp_path)),
        lambda: DISK.write_atomically(str(tmp_path), b"x"),
        lambda: DISK.sync_directory(path),
    ):
        with pytest.raises(StorageError) as error:
            call()
        assert error.value.path.startswith(str(tmp_path))


def test_a_read_only_file_cannot_be_appended_to(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    DISK.open(path, create=True)
    with pytest.raises(StorageError):
        DISK.open(path, read_only=True).append(b"x")


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    for durable in (True, False):
        DISK.write_atomically(path, b"old" * 100, durable=durable)
        DISK.write_atomically(path, b"new", durable=durable)
        assert DISK.read(path) == b"new"
    assert DISK.list_files(str(tmp_path)) == ["f"]


def test_names_are_listed_in_order(tmp_path: Path) -> None:
    for name in ("b", "a", "C"):
        DISK.make_directory(f"{tmp_path}/{name}/deep")
    DISK.make_directory(f"{tmp_path}/a")
    assert DISK.list_directories(str(tmp_path)) == ["C", "a", "b"]
    DISK.remove_directory(f"{tmp_path}/a")
    assert DISK.list_directories(str(tmp_path)) == ["C", "b"]
    for name in ("c", "B"):
        DISK.open(f"{tmp_path}/{name}", create=True)
    assert DISK.list_files(str(tmp_path)) == ["B", "c"]


def test_a_link_is_listed_as_what_it_leads_to_and_as_both_if_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_bytes(b"")
    for target in ("directory", "file", "nothing"):
        (tmp_path / f"to-{target}").symlink_to(tmp_path / target)
    assert DISK.list_files(str(tmp_path)) == ["file", "to-file", "to-nothing"]
    assert DISK.list_directories(str(tmp_path)) == ["directory", "to-directory", "to-nothing"]


def test_a_link_to_a_directory_that_is_not_there_is_no_missing_directory(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "unmounted")
    for asks in (DISK.list_files, DISK.list_directories, DISK.make_directory):
        with pytest.raises(LinkLeadsNowhere, match="unmounted, which is not there"):
            asks(str(link))


def test_of_a_link_to_a_directory_what_it_leads_to_is_emptied_and_the_link_goes(tmp_path: Path) -> None:
    elsewhere = tmp_path / "other disk"
    (elsewhere / "deep" / "deeper").mkdir(parents=True)
    (elsewhere / "0.log").write_bytes(b"x")
    (tmp_path / "kept").write_bytes(b"x")
    (elsewhere / "link").symlink_to(tmp_path / "kept")
    for target in (elsewhere, tmp_path / "nothing"):
        (tmp_path / "orders-0").symlink_to(target)
        DISK.remove_directory(str(tmp_path / "orders-0"))
        assert not DISK.exists(str(tmp_path / "orders-0"))
    assert list(elsewhere.iterdir()) == []
    assert (tmp_path / "kept").exists()


def test_a_descriptor_lives_as_long_as_its_file(tmp_path: Path) -> None:
    file = DISK.open(str(tmp_path / "f"), create=True)
    descriptor = file.fileno()
    DISK.remove(file.path)
    file.append(b"still here")
    assert file.read_at(0, 5) == b"still"
    del file
    gc.collect()
    with pytest.raises(OSError):
        os.fstat(descriptor)


def test_a_closed_file_does_not_close_its_successors_descriptor(tmp_path: Path) -> None:
    file = DISK.open(str(tmp_path / "f"), create=True)
    file.close()
    other = DISK.open(str(tmp_path / "g"), create=True)
    file.close()
    del file
    gc.collect()
    other.append(b"x")
    assert other.size() == 1


def test_syncs_and_space_work(tmp_path: Path) -> None:
    file = DISK.open(str(tmp_path / "f"), create=True)
    file.append(b"x")
    file.sync()
    DISK.sync_directory(str(tmp_path))
    total, usable = DISK.space(str(tmp_path))
    assert total >= usable > 0


def test_a_lock_is_held_until_it_is_closed(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    lock = DISK.lock(path)
    with pytest.raises(LogDirectoryLocked):
        DISK.lock(path)
    lock.close()
    DISK.lock(path).close()


def test_a_lock_keeps_other_processes_out_in_the_way_of_java(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    lock = DISK.lock(path)
    program = f"import fcntl; fcntl.lockf(open({path!r}, 'a'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    assert subprocess.run([sys.executable, "-c", program], stderr=subprocess.DEVNULL, timeout=30).returncode != 0
    lock.close()
    assert subprocess.run([sys.executable, "-c", program], timeout=30).returncode == 0
    with open(path, "a") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(LogDirectoryLocked):
            DISK.lock(path)


def reserved(path: Path | str) -> int:
    return os.stat(path).st_blocks * 512


def test_a_file_gets_its_room_at_once_and_gives_it_back_with_a_cut(tmp_path: Path) -> None:
    file = DISK.open(str(tmp_path / "f"), create=True)
    assert file.preallocate(1 << 20)
    assert file.size() == 0
    file.append(b"x" * 5_000)
    assert (file.size(), file.read_at(0, 6_000)) == (5_000, b"x" * 5_000)
    assert reserved(tmp_path / "f") >= 1 << 20
    file.truncate(5_000)
    assert file.size() == 5_000
    assert reserved(tmp_path / "f") < 1 << 16


def test_room_that_is_not_there_is_no_failure(tmp_path: Path) -> None:
    file = DISK.open(str(tmp_path / "f"), create=True)
    assert not file.preallocate(1 << 60)
    file.append(b"x")
    assert file.size() == 1


def test_preallocating_a_broken_descriptor_is_a_storage_error(tmp_path: Path) -> None:
    DISK.open(str(tmp_path / "f"), create=True).append(b"x")
    with pytest.raises(StorageError):
        DISK.open(str(tmp_path / "f"), read_only=True).preallocate(10)


def test_a_link_to_a_file_that_is_not_there_is_no_missing_file(tmp_path: Path) -> None:
    disk = LocalFileSystem()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "unmounted" / "file")
    for look in (disk.read, disk.open):
        with pytest.raises(StorageError, match=r"is a link to .*unmounted/file, which is not there"):
            look(str(link))
        with pytest.raises(FileNotFoundError):
            look(str(tmp_path / "other"))
