#!/usr/bin/env python3
"""How fast record batches and log files become Arrow, on one core and with no Spark.

    python -m benchmarks.spark_decoder [--megabytes 64] [--rounds 9] [--write]

Every row is decoded to Arrow batches as Spark takes them (10,000 rows, 8 MiB). "memory" is a Fetch answer, "file" are
segments of 64 MiB in the page cache, read as `format("kavka-log")` reads them. Bytes are those on disk, deflated where
a codec is named; for those the rate of the inflated bytes stands beside it. CPU seconds of this process count, because
others share the machine; wall time is told as well. The best round and the median are printed. Values are half random,
half zeros, of a length between half and one and a half times the size that the row names, but where it says "fixed".
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks import decoder_results
from kavka.records.builder import BatchBuilder
from kavka.records.compression import Compression
from kavka_spark.columns import SOURCE_TYPES
from kavka_spark.decoder import Wanted, decode_batches
from kavka_spark.log_format import LogOptions, read_piece
from kavka_spark.log_segments import find_segments

ALL = tuple(name for name in SOURCE_TYPES if name != "headers")
SEGMENT_BYTES = 64 << 20
RESULTS = Path(__file__).parent / "results" / "spark-decoder.json"


class Load(NamedTuple):
    """What the bytes hold: records of about `size` bytes, `per_batch` in a batch."""

    size: int
    per_batch: int
    codec: Compression = Compression.NONE
    fixed: bool = False

    def __str__(self) -> str:
        size = f"{self.size} B" if self.size < 1024 else f"{self.size // 1024} KiB"
        return f"{size}{' fixed' if self.fixed else ''}, {self.per_batch} a batch, {self.codec.name.lower()}"


class Contents(NamedTuple):
    data: bytes
    records: int
    inflated_bytes: int


class Figure(NamedTuple):
    name: str
    records_per_s: float
    median_records_per_s: float
    gb_per_s: float
    median_gb_per_s: float
    inflated_gb_per_s: float
    wall_gb_per_s: float


LOADS = (
    Load(1024, 16),
    Load(1024, 950),
    Load(1024, 950, fixed=True),
    Load(100, 160),
    Load(100, 9_000),
    Load(1024, 950, Compression.LZ4),
    Load(1024, 950, Compression.ZSTD),
    Load(100, 9_000, Compression.SNAPPY),
    Load(100, 9_000, Compression.GZIP),
)


def made(load: Load, size_bytes: int) -> Contents:
    """Batches of `load` with `size_bytes` of records, inflated."""
    chance = random.Random(load.size)
    parts: list[bytes] = []
    records = inflated = 0
    while inflated < size_bytes:
        builder = BatchBuilder(load.codec)
        for _ in range(load.per_batch):
            length = load.size if load.fixed else chance.randrange(load.size // 2, load.size * 3 // 2)
            value = chance.randbytes(length // 2) + bytes(length - length // 2)
            builder.append(1_700_000_000_000 + records, b"key-%08d" % (records % 1000), value)
            records += 1
        inflated += builder.size_bytes
        parts.append(builder.build(base_offset=records - load.per_batch))
    return Contents(b"".join(parts), records, inflated)


def decoded(contents: Contents, columns: Sequence[str], *, check_crcs: bool) -> int:
    tables = decode_batches(contents.data, columns, Wanted("orders", 0), check_crcs=check_crcs)
    return sum(table.num_rows for table in tables)


def files_read(directory: Path, columns: Sequence[str], *, check_crcs: bool, rows: str) -> int:
    options = LogOptions(paths=(str(directory),), rows=rows, check_crcs=check_crcs)
    return sum(
        table.num_rows for piece in find_segments(options.paths, ()) for table in read_piece(piece, options, columns)
    )


def written(contents: Contents, directory: Path) -> Path:
    """`contents` as the segments of a partition, cut at batches."""
    partition = directory / "orders-0"
    partition.mkdir()
    position = offset = 0
    data = contents.data
    while position < len(data):
        end, next_offset = position, offset
        while end < len(data) and end - position < SEGMENT_BYTES:
            length = int.from_bytes(data[end + 8 : end + 12], "big") + 12
            next_offset = (
                int.from_bytes(data[end : end + 8], "big") + int.from_bytes(data[end + 23 : end + 27], "big") + 1
            )
            end += length
        (partition / f"{offset:020d}.log").write_bytes(data[position:end])
        position, offset = end, next_offset
    return directory


def measured(name: str, run: Callable[[], int], contents: Contents, rounds: int) -> Figure:
    cpu, wall = [], []
    run()  # memory in first use, and the page cache
    for _ in range(rounds):
        wall_start, cpu_start = time.perf_counter(), time.process_time()
        run()
        cpu.append(time.process_time() - cpu_start)
        wall.append(time.perf_counter() - wall_start)
    best, median = min(cpu), statistics.median(cpu)
    return Figure(
        name,
        contents.records / best,
        contents.records / median,
        len(contents.data) / best / 1e9,
        len(contents.data) / median / 1e9,
        contents.inflated_bytes / best / 1e9,
        len(contents.data) / min(wall) / 1e9,
    )


def figures(megabytes: int, rounds: int) -> Iterator[Figure]:
    for load in LOADS:
        contents = made(load, megabytes << 20)
        for check_crcs in (True, False):
            crc = "CRC checked" if check_crcs else "CRC not checked"
            assert decoded(contents, ("offset",), check_crcs=check_crcs) == contents.records
            for columns, what in ((ALL, "7 columns"), (("value",), "value only"))[: 2 if check_crcs else 1]:
                run = partial(decoded, contents, columns, check_crcs=check_crcs)
                yield measured(f"memory, {load}, {what}, {crc}", run, contents, rounds)
        if load.codec is not Compression.NONE:
            continue
        with tempfile.TemporaryDirectory(prefix="kavka-decoder-") as home:
            directory = written(contents, Path(home))
            for check_crcs in (True, False):
                crc = "CRC checked" if check_crcs else "CRC not checked"
                read = partial(files_read, directory, ALL, check_crcs=check_crcs, rows="records")
                assert read() == contents.records
                yield measured(f"file, {load}, records, 7 columns, {crc}", read, contents, rounds)
            headers = ("base_offset", "size_bytes", "crc_ok", "problem")
            audit = partial(files_read, directory, headers, check_crcs=True, rows="batches")
            yield measured(f"file, {load}, a row per batch, CRC checked", audit, contents, rounds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=64, help="of records for each row, inflated")
    parser.add_argument("--rounds", type=int, default=9, help="one more is run first, and not counted")
    parser.add_argument("--write", action="store_true", help="keep the figures for docs/benchmarks.md")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    found: list[Figure] = []
    for figure in figures(arguments.megabytes, arguments.rounds):
        found.append(figure)
        print(
            f"{figure.name:72} {figure.records_per_s / 1e6:6.2f} {figure.median_records_per_s / 1e6:6.2f} M rec/s"
            f" {figure.gb_per_s:6.2f} {figure.median_gb_per_s:6.2f} GB/s"
            f" (inflated {figure.inflated_gb_per_s:5.2f}, wall {figure.wall_gb_per_s:5.2f})",
            flush=True,
        )
    if arguments.write:
        machine = (
            f"{os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}, "
            f"pyarrow {pa.__version__}; load average {load:.0f} at the start, {os.getloadavg()[0]:.0f} at the end"
        )
        decoder_results.write(RESULTS, machine, [figure._asdict() for figure in found])
    return 0


if __name__ == "__main__":
    sys.exit(main())
