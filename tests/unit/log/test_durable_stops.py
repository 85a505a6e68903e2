"""What a power cut leaves of what the log room has called durable: after a clean stop, after a flush, and at a start.

The disk is the simulator's: whatever is not synced, a name or bytes, may be gone or back.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from kavka.log.decide.checkpoint import LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from kavka.log.decide.producer_state import AppendOrigin
from kavka.log.home_loader import LoadReport
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.log.unified_log import UnifiedLog
from kavka.model import TopicPartition
from kavka.records.batch import batch_at
from kavka.records.control import ControlType
from kavka.simulator.host.disk import SimulatedDisk
from tests.unit.log.log_support import NOW_MS, append, batch, grant, marker, offsets, write_checkpoints

ORDERS = TopicPartition("orders", 0)
FORMER, LATER = uuid.UUID(int=1), uuid.UUID(int=2)
SEEDS = range(60)
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)


class _Process:
    is_killed = False
    name = "broker"


@dataclass(slots=True)
class Machine:
    """One log directory, on a disk that outlives the log manager."""

    disk: SimulatedDisk
    config: LogConfig

    @classmethod
    def of(cls, seed: int, config: LogConfig = SMALL) -> Machine:
        return cls(SimulatedDisk(random.Random(seed)), config)

    def start(self) -> tuple[LogManager, LoadReport]:
        process: Any = _Process()
        logs = LogManager(
            self.disk.port(process), ["/machine/logs"], LogManagerSettings(1, "c"), lambda topic: self.config
        )
        return logs, logs.load(NOW_MS)

    def cut(self) -> tuple[LogManager, LoadReport]:
        """Power is lost, and comes back."""
        self.disk.power_cut()
        return self.start()


def found(logs: LogManager) -> UnifiedLog:
    log = logs.get(ORDERS)
    assert log is not None
    return log


def transactional(log: UnifiedLog, producer_id: int) -> None:
    sent = batch(1, producer_id=producer_id, sequence=0, transactional=True)
    parsed = batch_at(memoryview(sent))
    assert parsed is not None
    grant(log, parsed.header)
    append(log, sent)


def fill(log: UnifiedLog) -> None:
    """Segments, an idempotent producer, an aborted transaction, and one that is open."""
    for epoch in range(3):
        append(log, batch(2), batch(2), leader_epoch=epoch)
    append(log, batch(2, producer_id=7, sequence=0), leader_epoch=2)
    transactional(log, 8)
    log.append_as_leader(marker(ControlType.ABORT, producer_id=8), 2, NOW_MS, origin=AppendOrigin.COORDINATOR)
    append(log, *(batch(1, timestamp=NOW_MS + number) for number in range(5)), leader_epoch=3)
    transactional(log, 9)


def facts(log: UnifiedLog) -> dict[str, object]:
    """All that a clean start takes from files beside the records."""
    log.set_high_watermark(log.log_end_offset)
    return {
        "offsets": (log.log_start_offset, log.log_end_offset, log.last_stable_offset),
        "topic id": log.topic_id,
        "epochs": log.epoch_entries if log.log_end_offset > log.log_start_offset else [],
        "producers": [str(entry) for entry in log.producers.entries()],
        "timestamps": [segment.max_timestamp for segment in log.segments],
        "segments": [(segment.base_offset, segment.size) for segment in log.segments],
        "aborted": log.aborted_transactions(0, log.log_end_offset),
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_all_that_the_mark_of_a_clean_stop_vouches_for_survives_a_power_cut(seed: int) -> None:
    machine = Machine.of(seed)
    logs, _ = machine.start()
    log = logs.get_or_create(ORDERS, FORMER, NOW_MS)
    fill(log)
    before = facts(log)
    logs.close(NOW_MS)
    logs, report = machine.cut()
    assert report.was_clean
    assert report.reasons == []
    assert facts(found(logs)) == before


def _truncate(log: UnifiedLog) -> None:
    log.truncate_to(5, NOW_MS)


def _truncate_to_a_segments_start(log: UnifiedLog) -> None:
    log.truncate_to(log.segments[1].base_offset, NOW_MS)


def _truncate_fully(log: UnifiedLog) -> None:
    log.truncate_fully_and_start_at(40, NOW_MS)


def _delete_the_oldest(log: UnifiedLog) -> None:
    log.delete_records(log.segments[2].base_offset + 1)
    log.delete_old_segments(NOW_MS)


@pytest.mark.parametrize("change", [_truncate, _truncate_to_a_segments_start, _truncate_fully, _delete_the_oldest])
@pytest.mark.parametrize("stops", ["stop", "kill and stop"])
def test_what_was_cut_off_before_a_clean_stop_does_not_come_back(
    change: Callable[[UnifiedLog], None], stops: str
) -> None:
    for seed in SEEDS:
        machine = Machine.of(seed)
        logs, _ = machine.start()
        log = logs.get_or_create(ORDERS, FORMER, NOW_MS)
        fill(log)
        log.set_high_watermark(log.log_end_offset)
        log.flush(NOW_MS)
        write_checkpoints(logs, RECOVERY_POINT_CHECKPOINT)
        change(log)
        if stops == "kill and stop":
            write_checkpoints(logs, RECOVERY_POINT_CHECKPOINT)
            write_checkpoints(logs, LOG_START_OFFSET_CHECKPOINT)
            logs.release()
            logs, _ = machine.start()
            log = found(logs)
        before = facts(log)
        logs.close(NOW_MS)
        logs, report = machine.cut()
        assert report.was_clean
        assert facts(found(logs)) == before, seed


def test_a_log_is_durable_after_a_truncation_that_nothing_followed() -> None:
    machine = Machine.of(1)
    logs, _ = machine.start()
    log = logs.get_or_create(ORDERS, FORMER, NOW_MS)
    fill(log)
    log.flush(NOW_MS)
    assert not log.flush_due(NOW_MS)
    log.truncate_to(5, NOW_MS)
    assert log.durable_high_watermark <= 5
    assert log.flush_due(NOW_MS)
    log.flush(NOW_MS)
    assert not log.flush_due(NOW_MS)


@pytest.mark.parametrize("ending", ["stop", "kill", "power cut", "stop and power cut"])
def test_a_log_of_which_retention_has_taken_everything_goes_on_where_it_was(ending: str) -> None:
    for seed in SEEDS:
        machine = Machine.of(seed, LogConfig(segment_bytes=400, retention_ms=1_000, cleanup_delete=True))
        logs, _ = machine.start()
        log = logs.get_or_create(ORDERS, FORMER, NOW_MS)
        append(log, batch(5), batch(5))
        log.flush(NOW_MS)
        logs.delete_old_segments(NOW_MS + 1_000_000)
        assert (log.log_start_offset, log.log_end_offset) == (10, 10)
        write_checkpoints(logs, LOG_START_OFFSET_CHECKPOINT)
        if ending.startswith("stop"):
            logs.close(NOW_MS)
        else:
            logs.release()
        logs, _ = machine.cut() if ending.endswith("power cut") else machine.start()
        assert found(logs).log_end_offset == 10, seed


@pytest.mark.parametrize("seed", SEEDS)
def test_a_log_that_was_flushed_is_there_after_a_power_cut_with_its_topic_id(seed: int) -> None:
    machine = Machine.of(seed)
    logs, _ = machine.start()
    log = logs.get_or_create(ORDERS, FORMER, NOW_MS)
    fill(log)
    log.flush(NOW_MS)
    write_checkpoints(logs, RECOVERY_POINT_CHECKPOINT)
    end_offset = log.log_end_offset
    logs, _ = machine.cut()
    assert (found(logs).topic_id, found(logs).log_end_offset) == (FORMER, end_offset)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_flush_alone_is_enough(seed: int) -> None:
    """Who waits for flush.messages is told that its records are durable, whatever the next checkpoint does."""
    machine = Machine.of(seed)
    logs, _ = machine.start()
    write_checkpoints(logs, RECOVERY_POINT_CHECKPOINT)
    log = logs.get_or_create(ORDERS, FORMER, NOW_MS)
    append(log, batch(3))
    log.flush(NOW_MS)
    logs, _ = machine.cut()
    assert (found(logs).topic_id, found(logs).log_end_offset) == (FORMER, 3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ahead", [False, True], ids=["at the stop", "ahead of it"])
def test_the_topic_id_that_an_empty_log_was_closed_with_becomes_durable_with_the_first_records(
    seed: int, ahead: bool
) -> None:
    machine = Machine.of(seed)
    logs, _ = machine.start()
    log = logs.get_or_create(ORDERS, FORMER, NOW_MS)
    if ahead:
        log.metadata.write_ahead()
    logs.close(NOW_MS)
    logs, _ = machine.start()
    append(found(logs), batch(3))
    found(logs).flush(NOW_MS)

    logs, _ = machine.cut()

    assert (found(logs).topic_id, found(logs).log_end_offset) == (FORMER, 3)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_topic_id_that_was_written_ahead_of_a_stop_is_as_durable_as_any_if_records_come_after_all(seed: int) -> None:
    machine = Machine.of(seed)
    logs, _ = machine.start()
    log = logs.get_or_create(ORDERS, FORMER, NOW_MS)
    log.metadata.write_ahead()
    append(log, batch(3))
    log.flush(NOW_MS)

    logs, _ = machine.cut()

    assert (found(logs).topic_id, found(logs).log_end_offset) == (FORMER, 3)


def test_an_empty_log_is_closed_without_a_sync_of_its_own() -> None:
    machine = Machine.of(1)
    logs, _ = machine.start()
    logs.get_or_create(ORDERS, FORMER, NOW_MS)
    logs.close(NOW_MS)
    logs, _ = machine.start()

    assert found(logs).prepare_flush() is None
    assert not found(logs).topic_id_due


def test_the_topic_id_is_durable_before_a_flush_is_due() -> None:
    for seed in SEEDS:
        machine = Machine.of(seed)
        logs, _ = machine.start()
        log = logs.get_or_create(ORDERS, FORMER, NOW_MS)
        assert logs.logs_to_identify() == [], "nothing is there that another topic could take over"
        append(log, batch(3))
        assert logs.logs_to_flush(NOW_MS) == []
        assert logs.logs_to_identify() == [log]
        task = log.prepare_topic_id_sync()
        assert task is not None
        task.sync()
        log.complete_flush(task, NOW_MS)
        assert logs.logs_to_identify() == []
        assert log.recovery_point == 0, "nothing is said of the records"
        logs, _ = machine.cut()
        assert found(logs).topic_id == FORMER


def test_a_topic_id_that_a_log_with_records_is_given_becomes_durable_too() -> None:
    machine = Machine.of(1)
    logs, _ = machine.start()
    log = logs.get_or_create(ORDERS, None, NOW_MS)
    append(log, batch(3))
    log.flush(NOW_MS)
    assert logs.logs_to_identify() == []
    logs.get_or_create(ORDERS, FORMER, NOW_MS)
    assert logs.logs_to_identify() == [log]
    task = log.prepare_topic_id_sync()
    assert task is not None
    task.sync()
    log.complete_flush(task, NOW_MS)
    logs, _ = machine.cut()
    assert found(logs).topic_id == FORMER


def test_the_index_files_of_a_rolled_segment_are_durable_with_its_records() -> None:
    """Below the recovery point nobody reads the records again: a time index without its end makes a segment look older
    than it is, and retention has it too early."""
    for seed in SEEDS:
        machine = Machine.of(seed, LogConfig(segment_bytes=2_000, index_interval_bytes=100))
        logs, _ = machine.start()
        log = logs.get_or_create(ORDERS, FORMER, NOW_MS)
        append(log, *(batch(1, timestamp=NOW_MS + 1_000 * number) for number in range(30)))
        log.flush(NOW_MS)
        before = [segment.max_timestamp for segment in log.segments]
        append(log, *(batch(1, timestamp=NOW_MS + 50_000 + 1_000 * number) for number in range(30)))
        log.roll(NOW_MS)
        log.flush(NOW_MS)
        write_checkpoints(logs, RECOVERY_POINT_CHECKPOINT)
        before = [segment.max_timestamp for segment in log.segments]
        logs, _ = machine.cut()
        assert [segment.max_timestamp for segment in found(logs).segments] == before[: len(found(logs).segments)], seed


@pytest.mark.parametrize("seed", SEEDS)
def test_a_mark_that_was_believed_does_not_come_back(seed: int) -> None:
    """It would vouch for the records that were written since, whatever the power cut took of them."""
    machine = Machine.of(seed)
    logs, _ = machine.start()
    append(logs.get_or_create(ORDERS, FORMER, NOW_MS), batch(3))
    logs.close(NOW_MS)
    logs, report = machine.start()
    assert report.was_clean
    append(found(logs), batch(3))
    logs, report = machine.cut()
    assert not report.was_clean
    found(logs).set_high_watermark(found(logs).log_end_offset)
    assert offsets(found(logs))[:3] == [0, 1, 2]
