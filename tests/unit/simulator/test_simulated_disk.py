"""What a simulated disk takes away: at a power cut, by an error, when it is full, and when another is put in."""

from __future__ import annotations

from random import Random

import pytest

from kavka.errors import StorageError
from kavka.simulator.host.disk import SimulatedDisk, SimulatedFileSystem
from kavka.simulator.host.scheduler import Scheduler


def _disk() -> tuple[SimulatedDisk, SimulatedFileSystem]:
    disk = SimulatedDisk(Random(1))
    port = disk.port(Scheduler(1).node("machine.1"))
    for directory in ("/logs", "/logs2"):
        port.make_directory(directory)
    return disk, port


def test_one_volume_fails_and_the_other_does_not() -> None:
    disk, port = _disk()
    disk.volume("/logs").failing_writes = 1.0
    with pytest.raises(StorageError, match="/logs/a"):
        port.open("/logs/a", create=True)
    port.open("/logs2/a", create=True).append(b"abc")
    disk.repair()
    port.open("/logs/a", create=True).append(b"abc")


def test_a_file_tells_when_it_was_last_written() -> None:
    now_ms = 5
    disk = SimulatedDisk(Random(1), wall_ms=lambda: now_ms)
    port = disk.port(Scheduler(1).node("machine.1"))
    port.make_directory("/logs")
    file = port.open("/logs/a", create=True)
    assert port.modified_ms("/logs/a") == 5
    now_ms = 7
    file.append(b"abc")
    assert port.modified_ms("/logs/a") == 7
    now_ms = 8
    assert (file.read_at(0, 3), port.modified_ms("/logs/a")) == (b"abc", 7)
    port.rename("/logs/a", "/logs/b")
    assert port.modified_ms("/logs/b") == 7
    file.truncate(1)
    assert port.modified_ms("/logs/b") == 8
    port.set_modified_ms("/logs/b", 3)
    assert port.modified_ms("/logs/b") == 3
    port.write_atomically("/logs/b", b"")
    assert port.modified_ms("/logs/b") == 8
    with pytest.raises(FileNotFoundError):
        port.modified_ms("/logs/a")
    with pytest.raises(FileNotFoundError):
        port.set_modified_ms("/logs/a", 3)


def test_a_full_volume_takes_no_byte_and_still_gives_what_it_has() -> None:
    disk, port = _disk()
    file = port.open("/logs/a", create=True)
    file.append(b"abc")
    disk.volume("/logs").is_full = True
    with pytest.raises(StorageError, match="no space"):
        file.append(b"d" * 100)
    assert file.read_at(0, 3) == b"abc"
    assert port.space("/logs")[1] == 0
    assert port.space("/logs2")[1] > 0


def test_an_append_that_fails_may_have_written_a_part() -> None:
    sizes = set()
    for seed in range(20):
        disk = SimulatedDisk(Random(seed))
        port = disk.port(Scheduler(1).node("machine.1"))
        port.make_directory("/logs")
        file = port.open("/logs/a", create=True)
        disk.volume("/logs").failing_writes = 1.0
        with pytest.raises(StorageError):
            file.append(b"0123456789")
        assert file.read_at(0, 10) == b"0123456789"[: file.size()]
        sizes.add(file.size())
    assert len(sizes) > 3


def test_what_a_failed_sync_left_in_memory_is_lost_though_the_next_sync_succeeds() -> None:
    disk, port = _disk()
    file = port.open("/logs/a", create=True)
    file.append(b"abc")
    file.sync()
    port.sync_directory("/logs")
    file.append(b"def")
    disk.volume("/logs").failing_syncs = 1.0
    with pytest.raises(StorageError, match="not synced"):
        file.sync()
    disk.repair()
    file.sync()
    assert file.read_at(0, 6) == b"abcdef"
    disk.power_cut()
    assert port.read("/logs/a") == b"abc"


def test_an_empty_disk_in_the_place_of_one_leaves_the_other_alone() -> None:
    disk, port = _disk()
    for path in ("/logs/a", "/logs2/a"):
        port.open(path, create=True).append(b"abc")
    disk.wipe("/logs")
    assert port.list_files("/logs") == []
    assert port.read("/logs2/a") == b"abc"
    assert disk.used_bytes == 3


def test_a_directory_is_found_whole_under_one_of_its_names_after_a_power_cut() -> None:
    """Seeds 211 and 226: the files of a log that was renamed came back into the one that was made in its place."""
    found = set()
    for seed in range(60):
        disk = SimulatedDisk(Random(seed))
        port = disk.port(Scheduler(1).node("machine.1"))
        port.make_directory("/logs/a")
        file = port.open("/logs/a/0.log", create=True)
        for directory in ("/", "/logs", "/logs/a"):
            port.sync_directory(directory)
        file.append(b"old")
        file.sync()
        port.rename("/logs/a", "/logs/b")
        port.make_directory("/logs/a")
        port.open("/logs/a/0.log", create=True).append(b"new")
        disk.power_cut()
        left = {
            name: port.read(f"/logs/{name}/0.log") if port.exists(f"/logs/{name}/0.log") else None
            for name in port.list_directories("/logs")
        }
        assert b"old" in left.values()
        assert left.get("a") != b"old" or "b" not in left, "once"
        found.add("b" in left)
        for name in left:
            port.list_files(f"/logs/{name}")
    assert found == {True, False}


def test_a_rename_that_was_synced_is_not_undone() -> None:
    for seed in range(20):
        disk = SimulatedDisk(Random(seed))
        port = disk.port(Scheduler(1).node("machine.1"))
        port.make_directory("/logs/a")
        port.open("/logs/a/0.log", create=True)
        port.sync_directory("/")
        port.sync_directory("/logs/a")
        port.rename("/logs/a", "/logs/b")
        port.sync_directory("/logs")
        disk.power_cut()
        assert port.list_directories("/logs") == ["b"]
        assert port.list_files("/logs/b") == ["0.log"]


def test_a_new_name_is_durable_with_its_directory_and_not_with_its_bytes() -> None:
    found = set()
    for seed in range(40):
        disk = SimulatedDisk(Random(seed))
        port = disk.port(Scheduler(1).node("machine.1"))
        port.make_directory("/logs")
        port.sync_directory("/")
        file = port.open("/logs/a", create=True)
        file.append(b"abc")
        file.sync()
        disk.power_cut()
        found.add(port.exists("/logs/a"))
    assert found == {True, False}


def test_a_new_directory_is_durable_with_its_parent_and_not_with_what_is_in_it() -> None:
    found = set()
    for seed in range(40):
        disk = SimulatedDisk(Random(seed))
        port = disk.port(Scheduler(1).node("machine.1"))
        port.make_directory("/logs")
        port.sync_directory("/")
        port.make_directory("/logs/a")
        port.make_directory("/logs/b")
        port.sync_directory("/logs")
        port.make_directory("/logs/c")
        for name in "abc":
            file = port.open(f"/logs/{name}/0.log", create=True)
            file.append(b"abc")
            file.sync()
            port.sync_directory(f"/logs/{name}")
        disk.power_cut()
        left = port.list_directories("/logs")
        assert left[:2] == ["a", "b"]
        for name in left:
            assert port.read(f"/logs/{name}/0.log") == b"abc"
        found.add("c" in left)
    assert found == {True, False}
