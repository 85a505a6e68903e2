"""A log moves between log directories, and each call of the file system in turn goes wrong, before, in and after it.

Whatever happened, and whichever directories are there at the next starts: the log that is served has every record that
was acknowledged, once and in order; or the partition is not served, and an error says why. It is served as soon as all
directories are there again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from itertools import count
from random import Random
from typing import NamedTuple

import pytest

from kavka.broker.upkeep.log_moves import LogMoves
from kavka.errors import InconsistentMetadata, StorageError
from kavka.log import log_move
from kavka.log.decide.checkpoint import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.log.unified_log import UnifiedLog
from tests.unit.log.log_support import NOW_MS, PARTITION, append, batch, records, write_checkpoints
from tests.unit.log.numbered_disks import Drawn, Fault, NumberedDisks, PowerCut

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100, file_delete_delay_ms=0)
LOSES, KEEPS = 0.0, 0.999_999


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_move, "SLICE_BYTES", 300)
    monkeypatch.setattr(log_move, "REST_BYTES", 150)


class Plan(NamedTuple):
    """One run."""

    moves: Sequence[str]
    """The directories that the log moves to, one after another, from the first."""
    starts: Sequence[Sequence[str]]
    """Which directories are there at each start after that; all of them at one more, and another one."""
    faults: dict[int, dict[int, Fault]]
    """By life (0: the one with the moves) and call."""
    stops: bool = False
    """Whether the lives end with clean stops; else with kills."""
    draws: tuple[float, ...] = (LOSES, LOSES, LOSES)
    order: Sequence[str] = ("/a", "/b")
    """log.dirs"""


class Machine:
    """A machine with its disks, and what its broker acknowledged."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        random = [Random(int(draw)) if draw >= 1 else Drawn(draw) for draw in plan.draws]
        self.disks = NumberedDisks(dict(zip(sorted(plan.order), random, strict=False)))
        self.numbers = count()
        self.tried: list[bytes] = []
        self.acknowledged: list[bytes] = []
        self.durable: list[bytes] = []
        self.refused = 0
        """How many starts did not serve the log."""
        self.has_failed = False
        self.calls: list[list[tuple[str, str]]] = []
        """By life."""

    def open(self, faults: dict[int, Fault]) -> None:
        self.disks.start(faults)
        settings = LogManagerSettings(1, "cluster")
        self.logs = LogManager(
            self.disks, list(self.plan.order), settings, lambda topic: CONFIG, draw=lambda limit: next(self.numbers)
        )
        self.logs.load(NOW_MS)

    @property
    def log(self) -> UnifiedLog | None:
        log = self.logs.get(PARTITION)
        return None if log is None or log.failure is not None else log

    def on_failure(self, failure: StorageError) -> None:
        """As the broker does (DirectoryFailures)."""
        self.logs.on_storage_error(failure.path, failure)

    def write(self, *, durably: bool = False) -> None:
        """A producer's record; with `durably`, the log is flushed."""
        log = self.log
        if log is None:
            return
        value = b"%d" % next(self.numbers) * 12
        try:
            self.tried.append(value)
            append(log, batch([value]))
            self.acknowledged.append(value)
            if durably:
                log.flush(NOW_MS)
                self.durable = list(self.acknowledged)
        except StorageError as failure:
            self.on_failure(failure)

    def upkeep(self) -> None:
        """What is done in the background."""
        for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT):
            write_checkpoints(self.logs, name)
        try:
            self.logs.remove_paths(self.logs.take_removals(NOW_MS + 1))
        except StorageError as failure:
            self.on_failure(failure)

    def move(self, directory: str) -> None:
        async def scenario() -> None:
            flows: list[Coroutine[None, None, None]] = []
            steps = iter(range(1 << 30))

            async def run_blocking(work: object) -> None:
                if next(steps) in (1, 4):
                    self.write()
                work()  # type: ignore[operator]

            moves = LogMoves(
                self.logs,
                rate=lambda: 1 << 60,
                wall_ms=lambda: NOW_MS,
                run_blocking=run_blocking,
                on_storage_error=self.on_failure,
                spawn=flows.append,
            )
            moves.request(PARTITION, directory)
            for flow in flows:
                await asyncio.wait_for(flow, 30)

        if self.log is not None:
            asyncio.run(scenario())

    def first_life(self) -> None:
        self.open({})
        self.disks.is_counting = False
        self.logs.get_or_create(PARTITION, None, NOW_MS, directory="/a")
        for _ in range(9):
            self.write()
        self.write(durably=True)
        self.upkeep()
        self.write()
        self.disks.faults = self.plan.faults.get(0, {})
        self.disks.calls.clear()
        self.disks.is_counting = True
        for directory in self.plan.moves:
            self.move(directory)
            self.write()
            self.upkeep()
            self.write(durably=True)

    def later_life(self, number: int, directories: Sequence[str]) -> None:
        self.disks.gone = set(self.plan.order) - set(directories)
        self.open(self.plan.faults.get(number, {}))
        self.check()
        self.write(durably=True)
        self.upkeep()

    def check(self) -> None:
        log = self.log
        if log is None:
            self.refused += 1
            assert self.logs.offline_directories, "all directories are there, and nobody has the log"
            with pytest.raises(StorageError):
                self.logs.get_or_create(PARTITION, None, NOW_MS, is_new=False)
            return
        log.set_high_watermark(log.log_end_offset)
        self.disks.is_counting = False
        found = [record.value or b"" for record in records(log)]
        self.disks.is_counting = True
        missing = set(self.acknowledged) - set(found)
        assert not missing, f"{log.directory} lost {sorted(missing)}"
        numbers = [int(value[: len(value) // 12]) for value in found]
        assert numbers == sorted(set(numbers)), "records came twice, or out of order"
        if not self.has_failed:
            assert found == self.tried[: len(found)], "there are holes"
        self.tried, self.acknowledged = list(found), list(found)  # They may have been read.

    def run(self) -> None:
        everything = list(self.plan.order)
        for number, directories in enumerate([everything, *self.plan.starts, everything, everything]):
            try:
                if number:
                    self.later_life(number, directories)
                else:
                    self.first_life()
                if self.plan.stops:
                    self.logs.close(NOW_MS)
                else:
                    self.logs.release()
            except PowerCut:
                self.disks.power_cut()
                self.acknowledged = list(self.durable)
            except StorageError as failure:
                if not self.disks.failed or isinstance(failure, InconsistentMetadata):
                    raise  # Else there is no directory left that can be used.
            self.has_failed |= bool(self.disks.failed)
            self.calls.append(list(self.disks.calls))
            self.disks.kill()
            self.disks.gone = set()


ALONE = [(), [["/a"]], [["/b"]], [["/a"], ["/b"]], [["/b"], ["/a"]]]
"""Starts before those with both directories."""
THREE = ["/a", "/b", "/c"]
SOME = [(), *([[one]] for one in THREE), *([[one for one in THREE if one != other]] for other in THREE)]
LEFT = [(LOSES, LOSES, LOSES), (KEEPS, KEEPS, KEEPS), (LOSES, KEEPS, LOSES), (KEEPS, LOSES, KEEPS)]
"""By disk, what a power cut leaves of what is not synced."""


def calls_of(plan: Plan, life: int = 0) -> list[tuple[str, str]]:
    """Those of a life that `plan` has no faults for."""
    machine = Machine(plan)
    machine.run()
    return machine.calls[life]


def last_steps(calls: Sequence[tuple[str, str]]) -> range:
    """The calls of a move from the mark of the copy to the checkpoints after it."""
    first = next(number for number, (_, path) in enumerate(calls) if path.endswith("-future/.kavka-moved"))
    return range(first, len(calls) - [path for _, path in calls][::-1].index("/a/recovery-point-offset-checkpoint"))


def run(plan: Plan) -> int:
    """How many starts did not serve the log."""
    machine = Machine(plan)
    try:
        machine.run()
    except BaseException as failure:
        done = [machine.calls[life][call] for life, faults in plan.faults.items() for call in faults if life == 0]
        raise AssertionError(f"{plan}\n{done}\n{failure!r}") from failure
    return machine.refused


@pytest.mark.parametrize("fault", Fault)
def test_what_is_acknowledged_is_there_whichever_call_of_a_move_goes_wrong(fault: Fault) -> None:
    """And whichever of the two directories is there alone at the next starts."""
    plan = Plan(["/b"], (), {})
    calls = calls_of(plan)
    refused = 0
    for call in range(len(calls)):
        plan = plan._replace(faults={0: {call: fault}}, order=plan.order[::-1], stops=call % 3 == 0)
        for starts in ALONE if call in last_steps(calls) else ALONE[:1]:
            refused += run(plan._replace(starts=starts, draws=LEFT[(call + len(starts)) % 4]))
    assert refused


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        (("sync names", "/b"), Fault.CUT),
        (("sync names", "/b"), Fault.FAILS),
        (("rename", "/a/orders-0"), Fault.FAILS_DONE),
    ],
)
def test_a_start_after_a_move_that_did_not_end_may_lose_power_as_well(call: tuple[str, str], fault: Fault) -> None:
    """1. The copy has the name, or the former log has lost it, and nobody knows whether that is durable. 2. Power is
    lost in the next start, at any of its calls, and one of the disks has lost what was not synced."""
    plan = Plan(["/b"], (), {})
    faults = {0: {calls_of(plan).index(call): fault}}
    for number in range(len(calls_of(plan._replace(faults=faults), 1))):
        for draws in LEFT[2:]:
            run(plan._replace(faults={**faults, 1: {number: Fault.CUT}}, draws=draws))


@pytest.mark.thorough
@pytest.mark.parametrize("moves", [["/b", "/c"], ["/b", "/a"]])
@pytest.mark.parametrize("fault", Fault)
def test_what_is_acknowledged_is_there_after_two_moves(fault: Fault, moves: list[str]) -> None:
    plan = Plan(moves, (), {}, order=THREE)
    for call in range(len(calls_of(plan))):
        for starts in SOME:
            draws = LEFT[(call + len(starts)) % 4]
            run(plan._replace(faults={0: {call: fault}}, starts=starts, order=plan.order[::-1], draws=draws))
