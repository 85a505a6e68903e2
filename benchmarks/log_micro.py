"""What the log room costs without network and protocol: per append, per read at the tail, per partition.

    .venv/bin/python benchmarks/log_micro.py [DIRECTORY]

Each figure is the least of several rounds on a real file system (a new directory below DIRECTORY, the system's
temporary one by default), so it says what the code costs, not what the disk does: pages stay in memory.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from functools import partial

from kavka.log.log_config import LogConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.log.unified_log import UnifiedLog
from kavka.model import TopicPartition
from kavka.records.builder import BatchBuilder, ProducerStamp
from kavka.records.compression import Compression
from kavka.runtime.disk import LocalFileSystem

PARTITIONS = 1_000
ROUNDS = 5
NOW_MS = int(time.time() * 1000)


def main() -> None:
    parent = sys.argv[1] if len(sys.argv) > 1 else None
    root = tempfile.mkdtemp(prefix="kavka-log-micro-", dir=parent)
    try:
        report(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def report(root: str) -> None:
    logs = manager(f"{root}/appends")
    logs.load(NOW_MS)
    small, large = batch(1, 100), batch(600, 100)
    for name, data in (("1 record, 100 B", small), (f"600 records, {len(large)} B", large)):
        log = logs.get_or_create(TopicPartition(f"t{len(data)}", 0), uuid.uuid4(), NOW_MS)
        count = 20_000 if len(data) < 1000 else 2_000
        show(f"append, {name}", per_call(partial(append, log, data), count))
        show(f"read at the tail after an append, {name}", per_call(partial(tail, log, data), count // 2))
    for name, data in looked_through().items():
        log = logs.get_or_create(TopicPartition(f"looked-through-{len(data)}", 0), uuid.uuid4(), NOW_MS)
        show(f"append, {name}, {len(data)} B", per_call(partial(append, log, data), 100))
    log = logs.get_or_create(TopicPartition("idempotent", 0), uuid.uuid4(), NOW_MS)
    sequence = iter(range(10_000_000))
    stamped = [batch(1, 100, next(sequence)) for _ in range(20_000)]
    again = iter(stamped)
    show("append, 1 record, idempotent", per_call(lambda: append(log, next(again)), 4_000))
    log = logs.get_or_create(TopicPartition(f"t{len(small)}", 0), None, NOW_MS)
    step = log.log_end_offset // 5_000
    offsets = iter(range(0, log.log_end_offset, step))
    show("read 1 MiB anywhere", per_call(lambda: read(log, next(offsets)), 900))
    show("write(2) alone, 1 record", per_call(writer(f"{root}/plain", bytes(small)), 20_000))
    logs.release()
    many_logs(root)


def many_logs(root: str) -> None:
    directory = f"{root}/many"
    logs = manager(directory)
    logs.load(NOW_MS)
    before, start = resident_kib(), time.perf_counter()
    topic_id = uuid.uuid4()
    for number in range(PARTITIONS):
        logs.get_or_create(TopicPartition("many", number), topic_id, NOW_MS)
    print(f"{PARTITIONS} logs created: {(time.perf_counter() - start) * 1e3:.1f} ms", end="")
    print(f", {(resident_kib() - before) / PARTITIONS:.1f} KiB resident each")
    for number in range(PARTITIONS):
        logs.get_or_create(TopicPartition("many", number), topic_id, NOW_MS).append_as_leader(batch(1, 100), 0, NOW_MS)
    start = time.perf_counter()
    logs.close(NOW_MS)
    print(f"{PARTITIONS} logs with a batch each closed cleanly: {(time.perf_counter() - start) * 1e3:.1f} ms")
    for kind in ("cleanly", "uncleanly"):
        logs = manager(directory)
        start = time.perf_counter()
        logs.load(NOW_MS)
        print(f"{PARTITIONS} logs stopped {kind} loaded: {(time.perf_counter() - start) * 1e3:.1f} ms")
        logs.release()


def manager(directory: str) -> LogManager:
    config = LogConfig(flush_messages=1 << 60)
    return LogManager(LocalFileSystem(), [directory], LogManagerSettings(1, "micro"), lambda topic: config)


def looked_through() -> dict[str, bytearray]:
    """Batches whose cost is that of looking at their records: alike, of many lengths, deflated."""
    draw = random.Random(1)
    sizes = {
        "9,000 records of 100 B": [100] * 9_000,
        "9,000 records of 20 to 180 B": [draw.randint(20, 180) for _ in range(9_000)],
        "950 records of 1 KiB": [1_024] * 950,
        "950 records of 200 to 1,800 B": [draw.randint(200, 1_800) for _ in range(950)],
    }
    batches = {name: bytearray(laid_out(each, Compression.NONE)) for name, each in sizes.items()}
    for codec in list(Compression)[1:]:
        name = f"950 records of 1 KiB, {codec.name.lower()}"
        batches[name] = bytearray(laid_out(sizes["950 records of 1 KiB"], codec))
    return batches


def laid_out(sizes: list[int], codec: Compression) -> bytes:
    builder = BatchBuilder(codec)
    for number, size in enumerate(sizes):
        builder.append(NOW_MS + number // 200, None, (b"%d sheep, and another one; " % number * 64)[:size])
    return builder.build()


def batch(records: int, size: int, sequence: int = -1) -> bytearray:
    builder = BatchBuilder()
    for _ in range(records):
        builder.append(NOW_MS, None, bytes(size))
    if sequence < 0:
        return bytearray(builder.build())
    return bytearray(builder.build(ProducerStamp(1, 0, sequence)))


def append(log: UnifiedLog, data: bytearray) -> None:
    # What a producer sends starts at offset 0 every time.
    data[:8] = bytes(8)
    log.append_as_leader(data, 0, NOW_MS)


def tail(log: UnifiedLog, data: bytearray) -> None:
    offset = log.log_end_offset
    append(log, data)
    log.advance_high_watermark(log.log_end_offset)
    log.read(offset, 1 << 20, max_offset=log.high_watermark, min_one_batch=True)


def read(log: UnifiedLog, offset: int) -> None:
    log.read(offset, 1 << 20, max_offset=log.log_end_offset, min_one_batch=True)


def writer(path: str, data: bytes) -> Callable[[], None]:
    file = LocalFileSystem().open(path, create=True)
    return lambda: file.append(data)


def per_call(call: Callable[[], None], count: int) -> float:
    """Microseconds per call: the least of the rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(count // ROUNDS):
            call()
        best = min(best, (time.perf_counter() - start) / (count // ROUNDS))
    return best * 1e6


def show(name: str, microseconds: float) -> None:
    print(f"{name}: {microseconds:.2f} us")


def resident_kib() -> float:
    with open(f"/proc/{os.getpid()}/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 1024


if __name__ == "__main__":
    main()
