"""A log in a process that is killed, and a log that is flushed by another thread while it is written to."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from kavka.model import TopicPartition
from tests.integration.log.log_writer import PARTITIONS, manager
from tests.unit.log.log_support import NOW_MS, batch, new_log, records, reopen

KILLS = 5
APPENDS_BEFORE_A_KILL = 400


def test_what_was_appended_before_each_of_five_kills_is_there(tmp_path: Path) -> None:
    acknowledged = [-1] * PARTITIONS
    for _ in range(KILLS):
        writer = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.log_writer", str(tmp_path)],
            cwd=Path(__file__).parents[3],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert writer.stdout is not None
        for count, line in enumerate(writer.stdout):
            if not line[0].isdigit() or line.count(" ") != 1:
                continue  # a log line about the recovery of the life before
            partition, offset = map(int, line.split())
            acknowledged[partition] = offset
            if count >= APPENDS_BEFORE_A_KILL:
                writer.kill()
        assert writer.wait(timeout=30) == -9
        writer.stdout.close()
        logs = manager(str(tmp_path))
        report = logs.load(NOW_MS)
        assert report.recovered == report.loaded == PARTITIONS
        for partition in range(PARTITIONS):
            log = logs.get(TopicPartition("t", partition))
            assert log is not None
            log.set_high_watermark(log.log_end_offset)
            found = records(log)
            assert [record.offset for record in found] == list(range(len(found)))
            assert len(found) > acknowledged[partition]
            assert all(record.value == b"%d-%d" % (partition, record.offset) * 20 for record in found)
        logs.release()


APPENDS_DURING_A_SYNC = 300


def test_a_thread_may_sync_while_the_log_goes_on(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=5_000, index_interval_bytes=300)
    flushes = 0
    for number in range(600):
        log.append_as_leader(batch([b"x" * 50] * 3), number // 100, NOW_MS)
        log.advance_high_watermark(log.log_end_offset)
        if number % 40:
            continue
        task = log.prepare_flush()
        assert task is not None
        worker = threading.Thread(target=task.sync)
        worker.start()
        # Bounded: a slow disk would else see tens of thousands of segments, each with its files.
        for _ in range(APPENDS_DURING_A_SYNC):
            if worker.is_alive():
                log.append_as_leader(batch([b"y" * 50] * 2), number // 100, NOW_MS)
        worker.join()
        log.complete_flush(task, NOW_MS)
        assert log.recovery_point == task.offset
        flushes += 1
    assert flushes == 15
    log.advance_high_watermark(log.log_end_offset)
    again = reopen(log, recovery_point=log.recovery_point)
    assert [record.offset for record in records(again)] == list(range(log.log_end_offset))
    assert again.epoch_entries == log.epoch_entries
