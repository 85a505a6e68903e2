"""Operations that wait are answered exactly once: by a change, by time, or not at all when they are cancelled."""

from __future__ import annotations

import asyncio

from kavka.replication.purgatory import DelayedOperation, Purgatory


class Countdown(DelayedOperation[str]):
    """Done when it was looked at `looks` times."""

    __slots__ = ("looks",)

    def __init__(self, loop: asyncio.AbstractEventLoop, looks: int) -> None:
        super().__init__(loop)
        self.looks = looks

    def try_complete(self, changed: object) -> str | None:
        self.looks -= 1
        return f"changed by {changed}" if self.looks == 0 else None

    def on_expiration(self) -> str:
        return "expired"


def test_a_change_of_any_watched_key_completes_and_forgets_all_keys() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        purgatory: Purgatory[str] = Purgatory("Fetch", loop)
        operation = Countdown(loop, 2)
        purgatory.watch(operation, ("a", "b"), 60_000)
        assert purgatory.size == 1
        assert purgatory.check("a") == 0
        assert purgatory.check("b") == 1
        assert await operation.answer == "changed by b"
        assert purgatory.size == 0
        assert not purgatory.watched

    asyncio.run(scenario())


def test_time_answers_what_no_change_did() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        purgatory: Purgatory[str] = Purgatory("Fetch", loop)
        operation = Countdown(loop, 2)
        purgatory.watch(operation, ("a",), 1)
        assert await operation.answer == "expired"
        assert purgatory.check("a") == 0
        assert purgatory.size == 0

    asyncio.run(scenario())


def test_a_cancelled_operation_is_neither_completed_nor_expired() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        purgatory: Purgatory[str] = Purgatory("Produce", loop)
        gone, cancelled = Countdown(loop, 1), Countdown(loop, 1)
        purgatory.watch(gone, ("a",), 60_000)
        purgatory.watch(cancelled, ("a",), 60_000)
        gone.answer.cancel()
        purgatory.cancel(cancelled)
        assert purgatory.check("a") == 0
        assert purgatory.size == 0

    asyncio.run(scenario())


def test_stopping_answers_all_as_if_their_time_were_up() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        purgatory: Purgatory[str] = Purgatory("Produce", loop)
        operations = [Countdown(loop, 2) for _ in range(3)]
        for operation in operations:
            purgatory.watch(operation, ("a", "b"), 60_000)
        purgatory.expire_all()
        assert [await operation.answer for operation in operations] == ["expired"] * 3
        assert purgatory.size == 0

    asyncio.run(scenario())
