"""What one request costs in the network room, without a broker behind it.

    .venv/bin/python benchmarks/network_micro.py [--rounds 3] [--out benchmarks/results/network_micro.json]

An echo-like server in a process of its own, a load generator in C (network_load.c, built with cc) in another. Each row
is measured in turn with the others, several rounds; figures are the median, with minimum and maximum. CPU is user and
system time of the server process for each request. The machine's load stands beside them, for it is seldom quiet.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
LOAD_SOURCE = HERE / "network_load.c"
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Row:
    """One measurement: how the server runs, and the arguments of network_load."""

    name: str
    connections: int
    depth: int
    requests: int
    body_bytes: int
    server: tuple[str, ...] = ()
    loop: str = "asyncio"


SMALL = 100
ROWS = (
    Row("small, 50 in flight, asyncio", 1, 50, 200_000, SMALL),
    Row("small, 50 in flight, uvloop", 1, 50, 200_000, SMALL, loop="uvloop"),
    Row("small, 50 in flight, 2 network threads", 1, 50, 100_000, SMALL, ("--threads", "2")),
    Row("small, 20 connections, asyncio", 20, 5, 200_000, SMALL),
    Row("small, 20 connections, uvloop", 20, 5, 200_000, SMALL, loop="uvloop"),
    Row("small, 20 connections, 2 network threads", 20, 5, 100_000, SMALL, ("--threads", "2")),
    Row("small, deferred by a future, 50 in flight", 1, 50, 100_000, SMALL, ("--deferred",)),
    Row("one at a time, asyncio", 1, 1, 20_000, SMALL),
    Row("one at a time, uvloop", 1, 1, 20_000, SMALL, loop="uvloop"),
    Row("one at a time, 2 network threads", 1, 1, 10_000, SMALL, ("--threads", "2")),
    Row("16 KiB requests", 4, 5, 40_000, 16 * 1024),
    Row("1 MiB requests", 4, 2, 1_500, 1024 * 1024),
    Row("1 MiB requests, receive buffer 1 MiB", 4, 2, 1_500, 1024 * 1024, ("--receive-buffer", "1048576")),
    Row("1 MiB requests, receive buffer by the kernel", 4, 2, 1_500, 1024 * 1024, ("--receive-buffer", "-1")),
    Row("1 MiB requests, 2 network threads", 4, 2, 1_500, 1024 * 1024, ("--threads", "2")),
    Row("1 MiB slices by sendfile", 4, 2, 2_000, SMALL, ("--slice", str(1024 * 1024))),
    Row(
        "1 MiB slices, send buffer by the kernel",
        4,
        2,
        2_000,
        SMALL,
        ("--slice", str(1024 * 1024), "--send-buffer", "-1"),
    ),
    Row("1 MiB slices, 2 network threads", 4, 2, 2_000, SMALL, ("--slice", str(1024 * 1024), "--threads", "2")),
    *(
        Row(f"{size // 1024} KiB slices, {way}", 4, 2, 10_000, SMALL, ("--slice", str(size), "--copy-below", below))
        for size in (4096, 16 * 1024, 32 * 1024, 64 * 1024)
        for way, below in (("sendfile", "0"), ("read and sent", str(1 << 20)))
    ),
)


Figures = dict[str, tuple[float, float, float]]
"""Minimum, median and maximum of each figure, by its name."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--connections", type=int, default=10_000, help="for the memory of idle ones; 0 for none")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        load = Path(directory) / "network_load"
        subprocess.run(["cc", "-O2", "-o", load, LOAD_SOURCE], check=True)
        rows = [row for row in ROWS if arguments.only in row.name]
        measured: dict[str, list[dict[str, float]]] = {row.name: [] for row in rows}
        for _ in range(arguments.rounds):
            for row in rows:
                measured[row.name].append(measure(row, load))
    summaries = {name: summary(rounds) for name, rounds in measured.items()}
    for name, figures in summaries.items():
        shown = [f"{key} {low:g}/{middle:g}/{high:g}" for key, (low, middle, high) in figures.items()]
        print(f"{name:45}", "  ".join(shown))
    count = arguments.connections
    idle_bytes = {loop: idle_memory(count, loop) for loop in ("asyncio", "uvloop")} if count else {}
    for loop, size in idle_bytes.items():
        print(f"{loop}: {size:g} bytes for each of {count} idle connections")
    if arguments.out:
        result = {
            "python": sys.version.split()[0],
            "load_average": os.getloadavg(),
            "rows": summaries,
            "idle_connections": count,
            "idle_connection_bytes": idle_bytes,
        }
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


def summary(rounds: list[dict[str, float]]) -> Figures:
    return {
        key: (min(values), statistics.median(values), max(values))
        for key in rounds[0]
        for values in [[one[key] for one in rounds]]
    }


def measure(row: Row, load: Path) -> dict[str, float]:
    with server(row.loop, *row.server) as (process, port):
        run_load(load, port, row, row.requests // 10)
        before = cpu_seconds(process.pid)
        printed = run_load(load, port, row, row.requests)
        cpu = cpu_seconds(process.pid) - before
    figures = {"requests_per_s": float(printed[1]), "cpu_us": round(cpu / row.requests * 1e6, 1)}
    if len(printed) > 2:
        figures |= {"p50_us": float(printed[2]), "p99_us": float(printed[3])}
    return figures


def run_load(load: Path, port: int, row: Row, requests: int) -> list[str]:
    arguments = (port, row.connections, row.depth, requests, row.body_bytes)
    return subprocess.run([str(load), *map(str, arguments)], check=True, capture_output=True, text=True).stdout.split()


def idle_memory(count: int, loop: str) -> float:
    """Resident bytes for each of `count` connections that asked once and are idle."""
    request = bytes.fromhex("0000000e00120000000000010004") + b"idle"
    with server(loop) as (process, port):
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
        before = resident_bytes(process.pid)
        clients += [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
        for client in clients:
            client.sendall(request)
        for client in clients:
            client.recv(1000)
        after = resident_bytes(process.pid)
        for client in clients:
            client.close()
    return round((after - before) / count)


@contextmanager
def server(loop: str, *options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    process = subprocess.Popen(
        [sys.executable, str(HERE / "network_echo.py"), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"KAVKA_LOOP": loop},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process, int(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait(30)
        time.sleep(0.05)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
