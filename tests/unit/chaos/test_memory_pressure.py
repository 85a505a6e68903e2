"""A process under memory pressure keeps to its limit, and is where it was afterwards."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.memory_pressure import MARGIN_BYTES, MemoryPressure, why_not

SCRIPT = """
import sys
data = bytearray(20 << 20)
print("has", flush=True)
sys.stdin.readline()
for _ in range(100):
    with open(sys.argv[1], "ab") as file:
        file.write(bytes(1 << 20))
print("wrote", flush=True)
sys.stdin.readline()
"""
pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


@pytest.fixture
def writer() -> Iterator[subprocess.Popen[str]]:
    """On a disk: what is written to a file system in memory cannot be given back."""
    with (
        tempfile.TemporaryDirectory(prefix="kavka-pressure-", dir="/var/tmp") as directory,
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, f"{directory}/file"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "has\n"
        yield process
        process.kill()


def test_a_process_writes_on_within_its_limit_and_is_where_it_was_afterwards(writer: subprocess.Popen[str]) -> None:
    before = Path(f"/proc/{writer.pid}/cgroup").read_text()
    pressure = MemoryPressure(writer.pid)
    try:
        assert pressure.limit_bytes >= MARGIN_BYTES
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write("go on\n")
        writer.stdin.flush()
        assert writer.stdout.readline() == "wrote\n"
        assert 0 < pressure.used_bytes <= pressure.limit_bytes
    finally:
        pressure.lift()
    assert Path(f"/proc/{writer.pid}/cgroup").read_text() == before
