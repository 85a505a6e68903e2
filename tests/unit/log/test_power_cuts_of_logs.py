"""Power cuts in the middle of a compaction, or while a log is copied to another directory: one whole log is left.

The disk is the simulator's: of renames and removals that are not synced any part may be undone.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.log import log_manager, log_move
from kavka.log.decide.checkpoint import LOG_START_OFFSET_CHECKPOINT
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.simulator.host.disk import SimulatedDisk
from tests.unit.log.compaction_support import Store, committed, table
from tests.unit.log.log_support import NOW_MS, PARTITION, append, batch, records, write_checkpoints
from tests.unit.log.test_log_moves import CONFIG, Disks

SEEDS = [seed if seed < 3 else pytest.param(seed, marks=pytest.mark.thorough) for seed in range(12)]


class PowerCut(BaseException):
    """The machine lost power here."""


class Process:
    """All that the disk asks of a process: it lives."""

    is_killed = False

    def consume_ms(self, ms: float) -> None:
        raise AssertionError("no volume is slow here")


def process() -> Any:
    return Process()


class Life:
    """One machine: its disk, and the broker's logs on it as often as it starts."""

    def __init__(self, seed: int, *directories: str) -> None:
        self.disk = SimulatedDisk(random.Random(seed))
        self.directories = directories
        self.store = self._start()

    def _start(self) -> Store:
        self.process = process()
        return Store(Path("/logs"), filesystem=self.disk.port(self.process))

    def cut(self) -> Store:
        """Power is lost, and comes back."""
        self.disk.power_cut()
        self.store = self._start()
        return self.store

    def kill(self) -> Store:
        """The process dies, and another one is started."""
        self.process.is_killed = True
        self.store = self._start()
        return self.store


def at_step(fatal: int) -> Callable[[], None]:
    """Raises PowerCut when it is called for the `fatal`-th time."""
    steps = iter(range(1 << 30))

    def between() -> None:
        if next(steps) == fatal:
            raise PowerCut

    return between


@pytest.mark.parametrize("seed", SEEDS)
def test_a_power_cut_at_any_step_of_a_compaction_keeps_the_table(seed: int) -> None:
    step, ended = 0, False
    while not ended:
        life = Life(seed * 1_000 + step)
        store = life.store
        store.fill(rounds=9)
        store.put((b"last", b"1"))
        store.log.flush(store.now_ms)
        expected = table(committed(store.log))
        cleaner = store.new_cleaner(at_step(step))
        try:
            asyncio.run(cleaner.clean_due())
            ended = True
        except PowerCut:
            pass
        store = life.cut()
        assert table(committed(store.log)) == expected, f"step {step}"
        store.clean()
        assert table(committed(store.log)) == expected
        names = life.disk.port(process()).list_files(f"/logs/{PARTITION}")
        assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
        step += 1
    assert step > 20


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("is_cut", [False, True], ids=["kill", "power cut"])
@pytest.mark.parametrize("flushed_to", [1, 3, 6])
def test_a_compacted_log_knows_where_its_epochs_began_whenever_it_stops(
    seed: int, flushed_to: int, is_cut: bool
) -> None:
    """1. An epoch begins, and its segment is closed. 2. A pass takes its first records before a flush writes down where
    it began. 3. Recovery says that it began at the first record that is left, and a former leader keeps what it alone
    has before that."""
    life = Life(seed, "/logs")
    store = life.store
    for epoch in range(1, 7):
        store.put((b"a", b"%d" % epoch), leader_epoch=epoch)
        store.put((b"a", b"%d" % epoch), (b"b", b"%d" % epoch), leader_epoch=epoch)
        store.put((b"c%d" % (epoch // 3), b"%d" % epoch), leader_epoch=epoch)
        if epoch in (2, 3, 5):
            store.log.roll(store.now_ms)
        if epoch == flushed_to:
            store.log.flush(store.now_ms)
    expected = store.log.epoch_entries
    asyncio.run(store.cleaner.clean_due())
    found = (life.cut() if is_cut else life.kill()).log
    assert found.epoch_entries == [entry for entry in expected if entry.start_offset < found.log_end_offset]


@pytest.mark.parametrize("seed", range(8))
def test_a_clean_stop_and_a_power_cut_leave_a_compacted_log_the_begins_of_its_epochs(seed: int) -> None:
    """1. A pass takes the first records of an epoch. 2. The broker leads once more, and stops before a record. 3. Power
    is lost. The checkpoint is all that tells where the epoch began, and the stop has just written it anew."""
    life = Life(seed, "/logs")
    store = life.store
    store.put((b"z", b"0"), leader_epoch=0)
    for number in range(3):
        store.put((b"a", b"%d" % number), leader_epoch=1)
    store.roll()
    store.log.flush(store.now_ms)
    asyncio.run(store.cleaner.clean_due())
    store.log.flush(store.now_ms)
    known = store.log.epoch_entries
    assert known == [(0, 0), (1, 1)]
    assert records(store.log)[1].offset == 3
    store.log.assign_epoch_start_offset(2, store.log.log_end_offset)
    store.logs.close(store.now_ms)
    assert life.cut().log.epoch_entries[:2] == known


def test_a_log_is_compacted_as_far_as_its_epochs_are_on_the_disk() -> None:
    store = Life(0, "/logs").store
    for epoch in (1, 2):
        store.put((b"a", b"1"), leader_epoch=epoch)
        store.log.roll(store.now_ms)
    asyncio.run(store.cleaner.clean_due())
    assert store.log.cleaned_to is None
    store.log.flush(store.now_ms)
    store.put((b"a", b"1"), leader_epoch=3)
    store.log.roll(store.now_ms)
    asyncio.run(store.cleaner.clean_due())
    assert store.log.cleaned_to == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_a_power_cut_while_a_log_is_copied_keeps_it(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_move, "SLICE_BYTES", 300)
    monkeypatch.setattr(log_move, "REST_BYTES", 200)
    step, ended = 0, False
    while not ended:
        disk = SimulatedDisk(random.Random(seed * 1_000 + step))
        disks = Disks(Path("/machine"), disk.port(process()))
        disks.fill(20)
        disks.log.flush(0)
        before = records(disks.log)
        fatal = step

        def between(number: int, fatal: int = fatal) -> None:
            if number == fatal:
                raise PowerCut

        try:
            disks.move(disks.second, between)
        except PowerCut:
            disk.power_cut()
        else:
            # The simulated disk renames a directory file by file; kills at that point are in test_log_moves.
            ended = True
            disks.logs.release()
        disks.filesystem = disk.port(process())
        disks.open()
        assert records(disks.log) == before, f"step {step}"
        step += 1
    assert step > 5


@pytest.mark.parametrize("seed", range(4))
def test_a_power_cut_between_two_writes_of_the_end_of_a_move_keeps_where_the_log_begins(seed: int) -> None:
    """The former directory's checkpoint is not the new one's: without it there, records that were deleted are back."""
    fatal, ended = 0, False
    while not ended:
        disk = SimulatedDisk(random.Random(seed * 1_000 + fatal))
        port = disk.port(process())
        disks = Disks(Path("/machine"), port)
        disks.fill(20)
        disks.log.delete_records(7)
        disks.log.flush(0)
        write_checkpoints(disks.logs, LOG_START_OFFSET_CHECKPOINT)
        between = at_step(fatal)

        def dying(name: str, port: Any = port, between: Callable[[], None] = between) -> None:
            inner = getattr(port, name)

            def change(*args: Any, **kwargs: Any) -> Any:
                between()
                return inner(*args, **kwargs)

            setattr(port, name, change)

        for name in ("rename", "remove", "write_atomically", "sync_directory"):
            dying(name)
        try:
            disks.move(disks.second)
            ended = True
        except PowerCut:
            pass
        disk.power_cut()
        disks.filesystem = disk.port(process())
        disks.open()
        assert disks.log.log_start_offset == 7, f"step {fatal}"
        fatal += 1
    assert fatal > 8


@pytest.mark.parametrize("seed", range(16))
def test_a_power_cut_after_the_start_that_ends_a_move_brings_no_second_log_back(seed: int) -> None:
    """1. A kill strikes between the last two steps of a move. 2. A start takes the copy, gives the former directory its
    other name, and removes the mark. 3. Power is lost. Without the mark nobody could tell the two apart."""
    disk = SimulatedDisk(random.Random(seed))
    port = disk.port(process())
    disks = Disks(Path("/machine"), port)
    disks.fill(20)
    rename = port.rename

    def dying(source: str, target: str) -> None:
        if source == f"{disks.first}/{PARTITION}":
            raise PowerCut
        rename(source, target)

    port.rename = dying  # type: ignore[method-assign]
    before = records(disks.log)
    with pytest.raises(PowerCut):
        disks.move(disks.second)
    for _ in range(3):
        disks.logs.release()
        disks.filesystem = disk.port(process())
        disks.open()
        assert records(disks.log) == before
        assert disks.log.directory == f"{disks.second}/{PARTITION}"
        disk.power_cut()


def restarted(disks: Disks, disk: SimulatedDisk, *, is_claimed: bool) -> LogManager:
    """Another process has the disks, and makes no log yet."""
    disks.logs.release()
    disks.filesystem = disk.port(process())
    logs = LogManager(
        disks.filesystem,
        disks.directories,
        LogManagerSettings(1, "cluster"),
        lambda topic: CONFIG,
        draw=lambda limit: 7,
        is_claimed=lambda partition: is_claimed,
    )
    logs.load(NOW_MS)
    return logs


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "former", ["deleted", "set aside", "deleted before a kill", "one of too many that are deleted", "a stray"]
)
def test_a_former_log_is_not_beside_a_new_one_of_its_name_after_a_power_cut(
    seed: int, former: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. A partition's log goes from the first disk. 2. A topic of its name gets one on the second. 3. A record is
    acknowledged, and power is lost. 4. Both would have their directories, and the start refuses that."""
    disk = SimulatedDisk(random.Random(seed))
    disks = Disks(Path("/machine"), disk.port(process()))
    disks.fill(20)
    disks.log.flush(0)
    logs = disks.logs
    monkeypatch.setattr(log_manager, "MAX_FORMER", 0 if former.startswith("one") else 10)
    if former == "set aside":
        logs.set_aside(PARTITION)
    elif former == "a stray":
        logs = restarted(disks, disk, is_claimed=False)
    else:
        logs.delete(PARTITION, NOW_MS)
    if former == "deleted before a kill":
        logs = restarted(disks, disk, is_claimed=True)
    log = logs.get_or_create(PARTITION, uuid.UUID(int=5), NOW_MS, directory=disks.second)
    append(log, batch([b"acknowledged"]))
    log.flush(0)
    disk.power_cut()
    disks.filesystem = disk.port(process())
    disks.open()
    assert [record.value for record in records(disks.log)] == [b"acknowledged"]
