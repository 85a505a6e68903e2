"""A broker's disk in a test: it keeps what was written, and does nothing for a broker that is stopped or dead."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from kavka.errors import LogDirectoryLocked
from kavka.runtime.disk import LocalFileSystem
from kavka.testing.disk import Disk
from kavka.testing.life import Dead, Life


def test_a_dead_broker_writes_nothing_and_what_it_wrote_stays(tmp_path: Path) -> None:
    life = Life()
    disk = Disk(life, LocalFileSystem())
    file = disk.open(f"{tmp_path}/log", create=True)
    file.append(b"written")
    life.end()
    for act in (
        lambda: file.append(b"x"),
        lambda: file.append_many([b"x"]),
        lambda: file.truncate(0),
        lambda: disk.write_atomically(f"{tmp_path}/checkpoint", b"x"),
        lambda: disk.remove(f"{tmp_path}/log"),
        lambda: disk.rename(f"{tmp_path}/log", f"{tmp_path}/gone"),
        lambda: disk.open(f"{tmp_path}/other", create=True),
        lambda: disk.make_directory(f"{tmp_path}/directory"),
    ):
        with pytest.raises(Dead):
            act()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"log": b"written"}


def test_the_next_life_gets_the_lock_of_one_that_ended(tmp_path: Path) -> None:
    life = Life()
    disk = Disk(life, LocalFileSystem())
    lock = disk.lock(f"{tmp_path}/.lock")
    with pytest.raises(LogDirectoryLocked):
        Disk(Life(), LocalFileSystem()).lock(f"{tmp_path}/.lock")
    life.end()
    disk.close_all()
    Disk(Life(), LocalFileSystem()).lock(lock.path).close()


def test_a_stopped_broker_writes_when_it_goes_on(tmp_path: Path) -> None:
    life = Life()
    file = Disk(life, LocalFileSystem()).open(f"{tmp_path}/log", create=True)
    life.stop()
    writing = threading.Thread(target=lambda: file.append(b"late"))
    writing.start()
    writing.join(0.05)
    assert writing.is_alive()
    assert (tmp_path / "log").read_bytes() == b""
    life.go_on()
    writing.join(60)
    assert (tmp_path / "log").read_bytes() == b"late"


def test_a_stopped_broker_that_is_killed_does_not_write(tmp_path: Path) -> None:
    life = Life()
    file = Disk(life, LocalFileSystem()).open(f"{tmp_path}/log", create=True)
    life.stop()
    outcomes: list[str] = []

    def write() -> None:
        try:
            file.append(b"late")
        except Dead:
            outcomes.append("dead")

    writing = threading.Thread(target=write)
    writing.start()
    life.end()
    writing.join(60)
    assert outcomes == ["dead"]
    assert (tmp_path / "log").read_bytes() == b""


def test_a_slow_disk_takes_its_time_for_every_write_until_it_is_fast_again(tmp_path: Path) -> None:
    life = Life()
    file = Disk(life, LocalFileSystem()).open(f"{tmp_path}/log", create=True)
    life.disk_delay_s = 0.03
    began = time.monotonic()
    file.append(b"a")
    file.sync()
    assert time.monotonic() - began >= 0.06
    life.disk_delay_s = 0.0
    took_s = []
    for _ in range(20):  # A busy machine takes its time over some of them; the delay was there each time.
        began = time.monotonic()
        file.append(b"b")
        took_s.append(time.monotonic() - began)
    assert min(took_s) < 0.03
