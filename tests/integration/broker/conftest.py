"""Clients that say what the test tells them, small disks, and what a broker that ended left behind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kit.broker_client import BrokerClient

Connect = Callable[[int], BrokerClient]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """connect(port): a new connection, closed when the test ends."""
    clients: list[BrokerClient] = []

    def start(port: int) -> BrokerClient:
        clients.append(BrokerClient(port))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


class SmallDisk:
    """A file system of its own in memory, of a size that a test can fill."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mount(self, size: str) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(self.path))

    def resize(self, size: str) -> None:
        _run("mount", "-o", f"remount,size={size}", str(self.path))

    def make_read_only(self) -> None:
        _run("mount", "-o", "remount,ro", str(self.path))

    def make_writable(self) -> None:
        _run("mount", "-o", "remount,rw", str(self.path))

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.path)], check=False, capture_output=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], SmallDisk]]:
    """small_disk(size): a tmpfs of so many bytes ("8m"); skips where nobody may mount one."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system: run this test as root")
    disks: list[SmallDisk] = []

    def make(size: str) -> SmallDisk:
        disk = SmallDisk(tmp_path / f"disk-{len(disks)}")
        try:
            disk.mount(size)
        except subprocess.CalledProcessError as refusal:
            pytest.skip(f"this machine lets nobody mount a small file system: {refusal.stderr.strip()}")
        disks.append(disk)
        return disk

    yield make
    for disk in disks:
        disk.unmount()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
