"""Late parts: made once, with the first use; and each of their modules can be imported."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil

import pytest

import kavka
from kavka.broker.late import Late, every

MODULES = sorted(
    found.name
    for room in ("broker", "controller", "coordinator", "log", "replication", "runtime", "zookeeper")
    for found in pkgutil.walk_packages([f"{kavka.__path__[0]}/{room}"], f"kavka.{room}.")
)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_that_no_start_imports_can_be_imported(module: str) -> None:
    importlib.import_module(module)


def test_a_part_is_made_with_its_first_use_and_once() -> None:
    late = Late(list[int])
    assert late.made is None
    first = late()
    assert late() is first
    assert late.made is first


def test_work_is_done_from_when_the_part_was_made() -> None:
    async def run() -> list[str]:
        worked: list[str] = []
        has_worked = asyncio.Event()
        late = Late(lambda: "part")

        async def work(part: str) -> None:
            worked.append(part)
            has_worked.set()

        task = asyncio.create_task(every(1, late, work))
        await asyncio.sleep(0.01)
        assert worked == []
        late()
        async with asyncio.timeout(60):
            await has_worked.wait()
        task.cancel()
        return worked

    assert asyncio.run(run())[0] == "part"
