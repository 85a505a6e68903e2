"""A process that appends to a log and says on its output, after each append, up to where: to be killed."""

import sys
import time

from kavka.log.decide.checkpoint import HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.model import TopicPartition
from kavka.runtime.disk import LocalFileSystem
from tests.unit.log.log_support import batch, write_checkpoints

PARTITIONS = 3
CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=500)


def manager(directory: str) -> LogManager:
    return LogManager(LocalFileSystem(), [directory], LogManagerSettings(1, "c"), lambda topic: CONFIG)


def main(directory: str) -> None:
    now_ms = time.time_ns() // 1_000_000
    logs = manager(directory)
    logs.load(now_ms)
    number = 0
    while True:
        log = logs.get_or_create(TopicPartition("t", number % PARTITIONS), None, now_ms)
        first = log.log_end_offset
        values = [b"%d-%d" % (number % PARTITIONS, first + one) * 20 for one in range(number % 7 + 1)]
        result = log.append_as_leader(batch(values, timestamp=now_ms), 0, now_ms)
        log.advance_high_watermark(result.last_offset + 1)
        # One write: the reader sees whole lines, also of the last moment.
        sys.stdout.write(f"{number % PARTITIONS} {result.last_offset}\n")
        sys.stdout.flush()
        if number % 50 == 49:
            log.flush(now_ms)
            write_checkpoints(logs, RECOVERY_POINT_CHECKPOINT)
            write_checkpoints(logs, HIGH_WATERMARK_CHECKPOINT)
        number += 1


if __name__ == "__main__":
    main(sys.argv[1])
