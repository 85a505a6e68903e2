"""ProcessFaults: what one process asks of its disk fails or takes longer, and its wall clock stands elsewhere."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kit.process_faults import NoProcessFaults, ProcessFaults

WRITER = """
import os, sys, time
began = time.monotonic()
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
failed = 0
for _ in range(200):
    try:
        os.write(file, b"x")
    except OSError as error:
        failed += error.errno == 5
print(failed, time.time(), time.monotonic() - began)
"""


@pytest.fixture
def faults(tmp_path: Path) -> ProcessFaults:
    (tmp_path / "place").mkdir()
    try:
        return ProcessFaults(tmp_path / "orders", tmp_path / "place")
    except NoProcessFaults as missing:
        pytest.skip(str(missing))


def run(faults: ProcessFaults, file: Path) -> tuple[int, float, float]:
    """Writes that failed of 200, the process's time, and the seconds that it took."""
    command = [*faults.prefix, sys.executable, "-c", WRITER, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    failed, now, took = done.stdout.split()
    return int(failed), float(now), float(took)


def test_without_orders_a_process_is_as_always(faults: ProcessFaults, tmp_path: Path) -> None:
    failed, now, _took = run(faults, tmp_path / "place" / "file")
    assert failed == faults.errors == faults.delays == 0
    assert abs(now - time.time()) < 60


def test_writes_fail_below_the_place_and_nowhere_else(faults: ProcessFaults, tmp_path: Path) -> None:
    faults.fail_disk(0.5)
    assert run(faults, tmp_path / "elsewhere")[0] == 0
    failed, _now, _took = run(faults, tmp_path / "place" / "file")
    assert 50 < failed < 150
    assert faults.errors == failed
    faults.heal_disk()
    assert run(faults, tmp_path / "place" / "file")[0] == 0


def test_writes_take_longer(faults: ProcessFaults, tmp_path: Path) -> None:
    faults.slow_disk(1.0, 0.002)
    assert run(faults, tmp_path / "place" / "file")[2] >= 0.4
    assert faults.delays == 200


@pytest.mark.parametrize("offset_s", [-3600.75, 86_400.5])
def test_the_wall_clock_steps_and_monotonic_time_goes_on(
    faults: ProcessFaults, tmp_path: Path, offset_s: float
) -> None:
    faults.set_clock(offset_s)
    _failed, now, took = run(faults, tmp_path / "place" / "file")
    assert abs(now - offset_s - time.time()) < 60
    assert 0 <= took < 60
