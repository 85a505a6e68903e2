"""Several passes of compaction at a time: which logs they take, what they share, and how a failure of one is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kavka.broker.upkeep.log_cleaner import LogCleaner
from kavka.broker.upkeep.log_maintenance import LogMaintenance, MaintenancePorts
from kavka.config.broker import BrokerConfig
from kavka.errors import StorageError
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.log.unified_log import UnifiedLog
from kavka.model import TopicPartition
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.runtime.disk import LocalFileSystem
from tests.kit.virtual_time import in_virtual_time

NOW_MS = 1_700_000_000_000
COMPACTED = LogConfig(cleanup_compact=True, cleanup_delete=False, min_cleanable_dirty_ratio=0.0)
MIB = 1 << 20


class Logs:
    """Dirty logs of two partitions, and a cleaner with the given settings."""

    def __init__(self, path: Path, settings: dict[str, str]) -> None:
        self.config = BrokerConfig.from_properties(settings)
        self.filesystem = LocalFileSystem()
        self.manager = LogManager(self.filesystem, [str(path)], LogManagerSettings(1), lambda topic: COMPACTED)
        self.manager.load(NOW_MS)
        self.logs = [self._filled(TopicPartition("orders", number)) for number in range(2)]

    def _filled(self, partition: TopicPartition) -> UnifiedLog:
        log = self.manager.get_or_create(partition, None, NOW_MS)
        for _ in range(2):
            builder = BatchBuilder()
            for number in range(200):
                builder.append(NOW_MS, b"key-%d" % number, b"v" * 1_000)
            log.append_as_leader(bytearray(builder.build(ProducerStamp())), 0, NOW_MS)
        log.advance_high_watermark(log.log_end_offset)
        log.roll(NOW_MS)
        log.flush(NOW_MS)
        return log

    def cleaner(self, run_blocking: Callable[[Callable[[], None]], Awaitable[None]]) -> LogCleaner:
        return LogCleaner(
            self.manager, self.filesystem, lambda: self.config, wall_ms=lambda: NOW_MS, run_blocking=run_blocking
        )

    def kept(self) -> list[int]:
        """How many records each log has."""
        return [
            sum(header.record_count for segment in log.segments for _, header in segment.headers()) for log in self.logs
        ]

    @property
    def cleaned(self) -> list[bool]:
        return [log.cleaned_to is not None for log in self.logs]


async def at_once(work: Callable[[], None]) -> None:
    work()


@pytest.mark.setting("log.cleaner.threads")
def test_a_log_is_compacted_while_the_pass_of_another_stands_still(tmp_path: Path) -> None:
    async def scenario(threads: int) -> list[bool]:
        logs = Logs(tmp_path / str(threads), {"log.cleaner.threads": str(threads)})
        standing = asyncio.Event()
        waiting: list[bool] = []

        async def run_blocking(work: Callable[[], None]) -> None:
            if not waiting:
                waiting.append(True)
                await standing.wait()
            work()

        cleaner = logs.cleaner(run_blocking)
        cleaning = asyncio.ensure_future(cleaner.clean_due())
        await asyncio.sleep(60)  # virtual
        before = logs.cleaned
        standing.set()
        await cleaning
        assert logs.cleaned == [True, True]
        assert cleaner.passes == 2
        return before

    found: list[list[bool]] = []

    async def both() -> None:
        found.extend([sorted(await scenario(1)), sorted(await scenario(2))])

    in_virtual_time(both)
    assert found == [[False, False], [False, True]]


@pytest.mark.setting("log.cleaner.threads")
def test_without_threads_nothing_is_compacted(tmp_path: Path) -> None:
    logs = Logs(tmp_path, {"log.cleaner.threads": "0"})
    asyncio.run(logs.cleaner(at_once).clean_due())
    assert logs.cleaned == [False, False]


@pytest.mark.setting("log.cleaner.io.max.bytes.per.second")
def test_all_passes_together_keep_to_the_rate(tmp_path: Path) -> None:
    took: list[float] = []

    async def scenario() -> None:
        for threads in (1, 2):
            settings = {"log.cleaner.threads": str(threads), "log.cleaner.io.max.bytes.per.second": "100000"}
            logs = Logs(tmp_path / str(threads), settings)
            began = asyncio.get_running_loop().time()
            await logs.cleaner(at_once).clean_due()
            took.append(asyncio.get_running_loop().time() - began)
            assert logs.cleaned == [True, True]

    in_virtual_time(scenario)
    # Both logs are read twice and half of each is written again: 2.0 MB.
    assert took[0] == pytest.approx(took[1], rel=0.01)
    assert took[0] > 15


@pytest.mark.setting("log.cleaner.io.max.bytes.per.second")
def test_a_rate_that_is_raised_counts_for_a_pass_that_waits(tmp_path: Path) -> None:
    took: list[float] = []

    async def scenario() -> None:
        logs = Logs(tmp_path, {"log.cleaner.io.max.bytes.per.second": "1"})
        cleaning = asyncio.ensure_future(logs.cleaner(at_once).clean_due())
        await asyncio.sleep(100)
        assert logs.cleaned == [False, False]
        logs.config = BrokerConfig.from_properties({"log.cleaner.io.max.bytes.per.second": "100000"})
        await cleaning
        took.append(asyncio.get_running_loop().time())

    in_virtual_time(scenario)
    assert took[0] < 140


@pytest.mark.setting("log.cleaner.dedupe.buffer.size", "log.cleaner.io.buffer.load.factor")
@pytest.mark.parametrize(
    ("size_mib", "threads", "load_factor", "fits"),
    [(8, 1, "0.03", True), (8, 8, "0.03", False), (64, 8, "0.03", True), (8, 8, "0.3", True)],
)
def test_passes_share_the_memory_for_keys(
    tmp_path: Path, size_mib: int, threads: int, load_factor: str, *, fits: bool
) -> None:
    settings = {
        "log.cleaner.dedupe.buffer.size": str(size_mib * MIB),
        "log.cleaner.threads": str(threads),
        "log.cleaner.io.buffer.load.factor": load_factor,
    }
    logs = Logs(tmp_path, settings)
    cleaner = logs.cleaner(at_once)
    asyncio.run(cleaner.clean_due())
    # 200 keys each, which take 43 KiB. Where they do not fit, a pass ends in the middle of a batch, as in Kafka.
    assert cleaner.passes == (2 if fits else 6)
    assert [log.cleaned_to for log in logs.logs] == [400, 400]
    assert logs.kept() == [200, 200]


def test_a_failure_is_told_at_once_and_the_other_pass_goes_on(tmp_path: Path) -> None:
    logs = Logs(tmp_path, {"log.cleaner.threads": "2"})
    failed: list[bool] = []

    async def run_blocking(work: Callable[[], None]) -> None:
        if not failed:
            failed.append(True)
            raise StorageError(logs.logs[0].directory, "the disk is full")
        await asyncio.sleep(1)
        work()

    async def scenario() -> None:
        cleaner = logs.cleaner(run_blocking)
        with pytest.raises(StorageError):
            await cleaner.clean_due()
        assert asyncio.get_running_loop().time() < 1
        assert logs.cleaned == [False, False]
        await cleaner.clean_due()
        assert logs.cleaned == [True, True]
        assert cleaner.passes == 2

    in_virtual_time(scenario)


def maintenance(logs: Logs, cleaner: LogCleaner) -> LogMaintenance:
    def fail(problem: BaseException) -> None:
        raise AssertionError(problem)

    return LogMaintenance(
        logs.manager,
        logs.config,
        MaintenancePorts(wall_ms=lambda: NOW_MS, on_storage_error=fail, on_bug=fail, run_blocking=at_once),
        cleaner=cleaner,
    )


@pytest.mark.setting("log.cleaner.backoff.ms")
def test_a_shorter_backoff_counts_for_the_pause_under_way(tmp_path: Path) -> None:
    looks: list[float] = []

    async def scenario() -> None:
        logs = Logs(tmp_path, {"log.cleaner.backoff.ms": "3600000"})
        running = maintenance(logs, logs.cleaner(at_once))
        running.start()
        await asyncio.sleep(1)
        looks.append(sum(logs.cleaned))
        logs.config = BrokerConfig.from_properties({"log.cleaner.backoff.ms": "2000"})
        running.reconfigure(logs.config)
        await asyncio.sleep(0.5)
        looks.append(sum(logs.cleaned))
        await asyncio.sleep(1)
        looks.append(sum(logs.cleaned))
        await running.stop()

    in_virtual_time(scenario)
    assert looks == [0, 0, 2]
