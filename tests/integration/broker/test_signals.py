"""What every process of kavka does with signals, and with a service that ends by itself."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

READY_S = 60
PROGRAM = """
import asyncio, sys
from kavka.runtime.process import run

class Service:
    def __init__(self, end):
        self.end = end

    async def start(self):
        print("starting", flush=True)
        if sys.argv[1] == "slow start":
            try:
                await asyncio.sleep(60)
            finally:
                print("given up", flush=True)
        if sys.argv[1] == "ends itself":
            asyncio.get_running_loop().call_later(0.05, self.end, 3)
        return "facts"

    async def stop(self):
        print("stopping", flush=True)
        if sys.argv[1] == "slow stop":
            await asyncio.sleep(60)
        if sys.argv[1] == "brief stop":
            await asyncio.sleep(0.2)
        print("stopped", flush=True)

sys.exit(run(Service, lambda facts: print("told", facts, flush=True)))
"""


@contextmanager
def running(service: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, service], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "starting\n"
        yield process
    finally:
        process.kill()
        process.wait(READY_S)


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().rstrip() for _ in range(count)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_service_in_order(number: signal.Signals) -> None:
    with running("plain") as process:
        assert lines(process, 1) == ["told facts"]
        process.send_signal(number)
        assert lines(process, 2) == ["stopping", "stopped"]
        assert process.wait(READY_S) == 0


def test_a_signal_during_the_start_gives_it_up() -> None:
    with running("slow start") as process:
        process.terminate()
        assert lines(process, 2) == ["given up", ""]
        assert process.wait(READY_S) == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_the_process_at_once_and_says_so(number: signal.Signals) -> None:
    with running("slow stop") as process:
        assert lines(process, 1) == ["told facts"]
        process.send_signal(number)
        assert lines(process, 1) == ["stopping"]
        until_it_ends(process, number)
        assert process.wait(READY_S) == 128 + number
        assert process.stderr is not None
        assert "Ended at once, before everything was written down: the next start recovers." in process.stderr.read()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_two_signals_at_once_are_one(number: signal.Signals) -> None:
    with running("brief stop") as process:
        assert lines(process, 1) == ["told facts"]
        process.send_signal(number)
        assert lines(process, 1) == ["stopping"]
        process.send_signal(number)
        assert lines(process, 1) == ["stopped"]
        assert process.wait(READY_S) == 0


def until_it_ends(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Sends the signal every now and then, as somebody does who does not know how soon is too soon."""
    while True:
        process.send_signal(number)
        try:
            process.wait(0.1)
            return
        except subprocess.TimeoutExpired:
            pass


def test_a_service_that_has_no_reason_to_go_on_is_stopped_and_gives_the_status() -> None:
    with running("ends itself") as process:
        assert lines(process, 3) == ["told facts", "stopping", "stopped"]
        assert process.wait(READY_S) == 3
