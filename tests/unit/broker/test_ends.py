"""In which order the parts of a broker end."""

import asyncio

import pytest

from kavka.broker.assembly.ends import Ends, Stage


class Parts:
    """Writes down what ended, and how."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.ends = Ends()

    def add(self, stage: Stage, name: str) -> None:
        async def stop() -> None:
            await asyncio.sleep(0)
            self.ended.append(name)

        self.ends.add(stage, stop=stop, abort=lambda: self.ended.append(f"{name}!"))

    def add_failing(self, stage: Stage) -> None:
        async def stop() -> None:
            raise RuntimeError("does not stop")

        self.ends.add(stage, stop=stop, abort=lambda: self.ended.append("failing!"))


@pytest.fixture
def parts() -> Parts:
    made = Parts()
    made.add(Stage.STORES, "logs")
    made.add(Stage.INPUTS, "sessions")
    made.add(Stage.WORKERS, "controller")
    made.add(Stage.WORKERS, "maintenance")
    made.add(Stage.TASKS, "tasks")
    made.add(Stage.CONNECTIONS, "links")
    return made


IN_ORDER = ["sessions", "tasks", "links", "maintenance", "controller", "logs"]


def test_parts_stop_stage_by_stage_and_the_last_of_a_stage_first(parts: Parts) -> None:
    asyncio.run(parts.ends.stop())
    assert parts.ended == IN_ORDER


def test_an_abort_goes_the_same_way(parts: Parts) -> None:
    parts.ends.abort()
    assert parts.ended == [f"{name}!" for name in IN_ORDER]


def test_what_has_stopped_is_not_aborted(parts: Parts) -> None:
    asyncio.run(parts.ends.stop())
    parts.ends.abort()
    assert parts.ended == IN_ORDER


def test_a_part_that_does_not_stop_keeps_no_other_from_it(parts: Parts) -> None:
    parts.add_failing(Stage.TASKS)
    with pytest.raises(RuntimeError, match="does not stop"):
        asyncio.run(parts.ends.stop())
    assert parts.ended == IN_ORDER


def test_a_stop_that_is_cut_short_can_be_followed_by_an_abort(parts: Parts) -> None:
    async def cut_short() -> None:
        is_stopping = asyncio.Event()

        async def stop() -> None:
            is_stopping.set()
            await asyncio.sleep(3600)

        parts.ends.add(Stage.CONNECTIONS, stop=stop, abort=lambda: parts.ended.append("slow!"))
        stopping = asyncio.create_task(parts.ends.stop())
        await is_stopping.wait()
        parts.ends.abort()
        stopping.cancel()
        await asyncio.wait([stopping])

    asyncio.run(cut_short())
    assert parts.ended[:2] == ["sessions", "tasks"]
    assert "slow!" in parts.ended
    assert parts.ended[-1] == "logs!"
