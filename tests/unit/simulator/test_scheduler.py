"""Virtual time and the order of steps: what asyncio promises holds on every node, and a seed gives one run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time

import pytest

from kavka.simulator.host.scheduler import Scheduler, SimulationStuck

Trace = list[tuple[str, int, float]]

TRACED = """
import asyncio
from kavka.simulator.host.scheduler import Scheduler

def run(seed):
    scheduler = Scheduler(seed)
    trace = []
    async def talk(name, loop):
        queue = asyncio.Queue(3)
        async def produce():
            for number in range(200):
                await queue.put(number)
                if number % 3 == 0:
                    await asyncio.sleep(0.01)
        producer = asyncio.create_task(produce())
        for _ in range(200):
            async with asyncio.timeout(5):
                number = await queue.get()
            trace.append((name, number, loop.time()))
        await asyncio.gather(producer, *(asyncio.sleep(n / 10) for n in range(5)))
    nodes = [scheduler.node(f"node-{n}") for n in range(3)]
    tasks = [node.create_task(talk(node.name, node)) for node in nodes]
    scheduler.run_until(lambda: all(task.done() for task in tasks), within_s=100)
    for task in tasks:
        task.result()
    return trace
"""


def run(seed: int) -> Trace:
    space: dict[str, object] = {}
    exec(TRACED, space)
    trace = space["run"](seed)  # type: ignore[operator]
    assert isinstance(trace, list)
    return trace


def test_a_seed_gives_one_run_and_another_seed_another() -> None:
    assert run(1) == run(1)
    assert run(1) != run(2)


def test_a_run_does_not_depend_on_the_hash_seed() -> None:
    program = f"{TRACED}\nprint(run(7))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_hours_pass_in_no_time() -> None:
    scheduler = Scheduler(1)
    node = scheduler.node("a")
    began = time.monotonic()

    scheduler.run(node, asyncio.sleep(3_600 * 24), within_s=3_600 * 25)

    assert scheduler.now_ms == pytest.approx(24 * 3_600_000, abs=5)
    assert time.monotonic() - began < 60


def test_nothing_of_a_killed_node_runs_again_not_even_a_finally() -> None:
    scheduler = Scheduler(1)
    node, other = scheduler.node("a"), scheduler.node("b")
    ran: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(1)
            ran.append("went on")
        finally:
            ran.append("cleaned up")

    task = node.create_task(work())
    node.call_later(0.7, ran.append, "timer")
    scheduler.run_for(0.5)
    node.kill()
    del task
    node.call_soon(ran.append, "called")
    scheduler.run(other, asyncio.sleep(5), within_s=10)

    assert ran == []


def test_tasks_of_a_simulation_are_not_among_those_that_every_asyncio_run_of_the_process_walks_over() -> None:
    node = Scheduler(1).node("a")
    waiting = node.create_task(asyncio.sleep(1))

    assert asyncio.all_tasks(node) == set()
    assert not waiting.done()


def test_a_paused_node_goes_on_where_it_was_with_its_timers_in_order() -> None:
    scheduler = Scheduler(1)
    node, other = scheduler.node("a"), scheduler.node("b")
    ran: list[tuple[str, float]] = []
    for name, delay_s in (("second", 2.0), ("first", 1.0), ("late", 20.0)):
        node.call_later(delay_s, lambda name=name: ran.append((name, round(node.time(), 3))))  # type: ignore[misc]

    node.pause()
    scheduler.run(other, asyncio.sleep(10), within_s=20)
    assert ran == []
    node.resume()
    scheduler.run_for(30)

    assert ran == [("first", 10.0), ("second", 10.0), ("late", 20.0)]


def test_nodes_take_turns_by_lot_but_each_keeps_its_own_order() -> None:
    orders = set()
    for seed in range(20):
        scheduler = Scheduler(seed)
        steps: list[tuple[str, int]] = []
        for name in ("a", "b"):
            node = scheduler.node(name)
            for number in range(5):
                node.call_soon(steps.append, (name, number))
        scheduler.run_for(1)
        assert [step for step in steps if step[0] == "a"] == [("a", number) for number in range(5)]
        assert [step for step in steps if step[0] == "b"] == [("b", number) for number in range(5)]
        orders.add(tuple(steps))
    assert len(orders) > 10


def test_a_node_in_a_tight_loop_cannot_stop_the_clock() -> None:
    scheduler = Scheduler(1)
    busy, other = scheduler.node("busy"), scheduler.node("other")

    async def spin() -> None:
        while True:  # noqa: ASYNC110 - never ends on purpose
            await asyncio.sleep(0)

    busy.create_task(spin())
    scheduler.run(other, asyncio.sleep(0.01), within_s=1)


def test_what_never_happens_is_said() -> None:
    scheduler = Scheduler(1)
    node = scheduler.node("a")

    with pytest.raises(SimulationStuck, match="nothing is left"):
        scheduler.run(node, asyncio.Event().wait(), within_s=10)

    async def forever() -> None:
        while True:  # noqa: ASYNC110 - never ends on purpose
            await asyncio.sleep(1)

    with pytest.raises(SimulationStuck, match="not within 10 s"):
        scheduler.run(node, forever(), within_s=10)


def test_a_bug_in_a_callback_is_kept_for_who_runs_the_simulation() -> None:
    scheduler = Scheduler(1)
    node = scheduler.node("a")
    node.call_soon(lambda: 1 / 0)  # type: ignore[arg-type]
    scheduler.run_for(1)

    assert isinstance(node.failures[0]["exception"], ZeroDivisionError)


def test_a_node_that_spins_ends_the_run() -> None:
    async def spin() -> None:
        for _ in range(1_000_000):
            await asyncio.sleep(0)

    scheduler = Scheduler(1)
    scheduler.node("restless").create_task(spin())
    with pytest.raises(SimulationStuck, match="65536 steps in 65 ms, the last of restless"):
        scheduler.run_for(10)


def test_a_node_that_pauses_does_not() -> None:
    async def work() -> None:
        while True:
            for _ in range(3):
                await asyncio.sleep(0)
            await asyncio.sleep(0.000_02)

    scheduler = Scheduler(1)
    scheduler.node("busy").create_task(work())
    scheduler.run_for(1)
    assert scheduler.steps > 65_536
