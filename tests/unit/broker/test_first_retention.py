"""When a broker first looks for old segments: after log.initial.task.delay.ms, if that is set, then at intervals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from kavka.broker.upkeep.log_maintenance import LogMaintenance, MaintenancePorts
from kavka.config.broker import BrokerConfig
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.runtime.disk import LocalFileSystem
from tests.kit.virtual_time import in_virtual_time
from tests.unit.log.log_support import NOW_MS

NAMES = ("log.initial.task.delay.ms", "log.retention.check.interval.ms")


def fail(problem: BaseException) -> None:
    raise AssertionError(problem)


async def at_once(work: Callable[[], None]) -> None:
    work()


@pytest.mark.parametrize(
    ("delay_ms", "interval_ms", "first_s"),
    [
        (None, None, [300, 600, 900]),
        (None, 10_000, [10, 20, 30]),
        (30_000, None, [30, 330, 630]),
        (0, 60_000, [0.001, 60.001, 120.001]),
        (400_000, 1_000, [400, 401, 402]),
    ],
)
def test_the_first_retention_comes_after_its_own_delay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delay_ms: int | None, interval_ms: int | None, first_s: list[float]
) -> None:
    settings = {
        name: str(value) for name, value in zip(NAMES, (delay_ms, interval_ms), strict=True) if value is not None
    }
    logs = LogManager(LocalFileSystem(), [str(tmp_path)], LogManagerSettings(1, "c"), lambda topic: LogConfig())
    logs.load(NOW_MS)
    times: list[float] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()

        def noting(now_ms: int) -> list[None]:
            times.append(loop.time())
            return []

        monkeypatch.setattr(logs, "delete_old_segments", noting)
        ports = MaintenancePorts(wall_ms=lambda: NOW_MS, on_storage_error=fail, on_bug=fail, run_blocking=at_once)
        upkeep = LogMaintenance(logs, BrokerConfig.from_properties(settings), ports, cleaner=None)
        upkeep.start()
        await asyncio.sleep(first_s[-1] + 0.5)
        await upkeep.stop()

    in_virtual_time(scenario)
    assert times == pytest.approx(first_s, abs=0.01)
