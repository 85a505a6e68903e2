"""When a log directory is synced for the names of the directories in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kavka.errors import StorageError
from kavka.log.made_directories import MadeDirectories
from kavka.runtime.disk import LocalFileSystem


class SyncingFileSystem(LocalFileSystem):
    def __init__(self) -> None:
        self.synced: list[str] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def sync_directory(self, path: str) -> None:
        self.meanwhile()
        self.synced.append(path)


def test_one_sync_serves_all_directories_that_were_made_before_it() -> None:
    disk = SyncingFileSystem()
    made = MadeDirectories(disk, "/logs")
    numbers = [made.add() for _ in range(3)]
    assert len(set(numbers)) == 3
    for number in (numbers[1], numbers[2], numbers[0]):
        made.ensure(number)
        assert disk.synced == ["/logs"]
    made.ensure(made.add())
    assert disk.synced == ["/logs"] * 2


def test_the_first_directory_is_synced() -> None:
    disk = SyncingFileSystem()
    made = MadeDirectories(disk, "/logs")
    made.ensure(made.add())
    assert disk.synced == ["/logs"]


def test_a_sync_does_not_count_for_what_is_made_while_it_runs() -> None:
    disk = SyncingFileSystem()
    made = MadeDirectories(disk, "/logs")
    first, later = made.add(), 0

    def make_another() -> None:
        nonlocal later
        later = later or made.add()

    disk.meanwhile = make_another
    made.ensure(first)
    assert len(disk.synced) == 1
    made.ensure(later)
    assert len(disk.synced) == 2


def test_of_two_syncs_at_a_time_the_later_one_counts_whichever_ends_first() -> None:
    disk = SyncingFileSystem()
    made = MadeDirectories(disk, "/logs")
    first = made.add()

    def another_thread() -> None:
        disk.meanwhile = lambda: None
        made.ensure(made.add())

    disk.meanwhile = another_thread
    made.ensure(first)
    assert len(disk.synced) == 2
    made.ensure(first + 1)
    assert len(disk.synced) == 2, "it was synced by the other thread"


def test_a_sync_that_fails_counts_for_nothing() -> None:
    disk = SyncingFileSystem()
    made = MadeDirectories(disk, "/logs")
    number = made.add()

    def fail() -> None:
        raise StorageError("/logs", "input/output error")

    disk.meanwhile = fail
    with pytest.raises(StorageError):
        made.ensure(number)
    disk.meanwhile = lambda: None
    made.ensure(number)
    assert disk.synced == ["/logs"]
