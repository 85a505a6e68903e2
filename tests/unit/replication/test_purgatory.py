"""Operations that wait are answered exactly once: by a change, by time, or not at all when they are cancelled."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from kavka.replication.purgatory import DelayedOperation, Purgatory
from tests.kit.virtual_time import in_virtual_time


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
        assert operation.answer.result() == "changed by b"
        assert purgatory.size == 0
        assert not purgatory.watched

    asyncio.run(scenario())


def test_what_is_answered_is_not_kept_until_its_time_would_be_up() -> None:
    """A produce request with acks=all waits for milliseconds, and might for 30 s: thousands a second would pile up."""

    class Watched(Countdown):
        __slots__ = ("__weakref__",)

    async def scenario() -> None:
        purgatory: Purgatory[str] = Purgatory("Produce", asyncio.get_running_loop())
        operation: Watched | None = Watched(asyncio.get_running_loop(), 1)
        assert operation is not None
        is_there = weakref.ref(operation)
        purgatory.watch(operation, ("a",), 60_000)
        assert purgatory.check("a") == 1
        del operation
        gc.collect()
        assert is_there() is None

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
        assert [operation.answer.result() for operation in operations] == ["expired"] * 3
        assert purgatory.size == 0

    asyncio.run(scenario())


class Waiting:
    """A purgatory in virtual time, with the operations of one test."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.purgatory: Purgatory[str] = Purgatory("Fetch", self.loop)

    def watch(self, *keys: str, looks: int = 2, timeout_ms: int = 60_000) -> Countdown:
        operation = Countdown(self.loop, looks)
        self.purgatory.watch(operation, keys, timeout_ms)
        return operation

    def is_empty(self) -> bool:
        return self.purgatory.size == 0 and not self.purgatory.watched


def test_time_is_up_in_the_millisecond_that_was_said_and_not_before() -> None:
    async def scenario() -> None:
        waiting = Waiting()
        operation = waiting.watch("a", timeout_ms=1_500)
        await asyncio.sleep(1.499)
        assert not operation.answer.done()
        assert await operation.answer == "expired"
        assert waiting.loop.time() == pytest.approx(1.5)
        assert waiting.is_empty()

    in_virtual_time(scenario)


def test_a_look_at_a_key_asks_those_that_wait_for_it_and_tells_how_many_are_done() -> None:
    async def scenario() -> None:
        waiting = Waiting()
        done, not_yet, other = waiting.watch("a", looks=1), waiting.watch("a", "b", looks=2), waiting.watch("b")
        also = waiting.watch("a", looks=1)
        assert waiting.purgatory.watching("a") == [done, not_yet, also]
        assert waiting.purgatory.watching("nothing") == []
        assert waiting.purgatory.check("nothing") == 0
        assert waiting.purgatory.check("a") == 2
        assert (done.answer.result(), also.answer.result()) == ("changed by a", "changed by a")
        assert (not_yet.looks, other.looks) == (1, 2)
        assert waiting.purgatory.watching("a") == [not_yet]
        assert waiting.purgatory.size == 2
        assert waiting.purgatory.check("b") == 1
        assert not_yet.answer.result() == "changed by b"
        assert list(waiting.purgatory.watched) == ["b"]
        assert waiting.purgatory.watching("b") == [other]

    in_virtual_time(scenario)


def test_what_is_done_is_not_answered_again_when_its_time_is_up() -> None:
    async def scenario() -> None:
        waiting, bugs = Waiting(), []
        waiting.loop.set_exception_handler(lambda loop, context: bugs.append(context))
        operation = waiting.watch("a", looks=1, timeout_ms=100)
        waiting.purgatory.check("a")
        cancelled = waiting.watch("a", timeout_ms=100)
        cancelled.answer.cancel()
        await asyncio.sleep(1.0)
        assert operation.answer.result() == "changed by a"
        assert cancelled.answer.cancelled()
        assert waiting.is_empty()
        assert bugs == []

    in_virtual_time(scenario)


def test_those_behind_one_whose_connection_has_gone_are_looked_at_too() -> None:
    async def scenario() -> None:
        waiting = Waiting()
        gone, stays = waiting.watch("a", looks=1), waiting.watch("a", looks=1)
        gone.answer.cancel()
        assert waiting.purgatory.check("a") == 1
        assert stays.answer.result() == "changed by a"
        assert gone.looks == 1, "nobody wants to know"
        assert waiting.is_empty()

    in_virtual_time(scenario)


def test_who_is_answered_while_it_is_looked_at_is_not_answered_twice() -> None:
    class Answered(Countdown):
        __slots__ = ()

        def try_complete(self, changed: object) -> str | None:
            self.answer.set_result("by somebody else")
            return super().try_complete(changed)

    async def scenario() -> None:
        waiting = Waiting()
        operation = Answered(waiting.loop, 1)
        waiting.purgatory.watch(operation, ("a",), 60_000)
        assert waiting.purgatory.check("a") == 0
        assert operation.answer.result() == "by somebody else"

    in_virtual_time(scenario)


def test_what_waits_can_wait_for_another_key_too_and_what_is_done_cannot() -> None:
    async def scenario() -> None:
        waiting = Waiting()
        operation = waiting.watch("a", looks=1)
        waiting.purgatory.watch_also(operation, "b")
        assert waiting.purgatory.watching("b") == [operation]
        assert waiting.purgatory.check("b") == 1
        assert waiting.is_empty()
        waiting.purgatory.watch_also(operation, "c")
        assert waiting.is_empty()

    in_virtual_time(scenario)


def test_a_cancelled_operation_leaves_those_beside_it() -> None:
    async def scenario() -> None:
        waiting = Waiting()
        cancelled, stays = waiting.watch("a", "b"), waiting.watch("a")
        waiting.purgatory.cancel(cancelled)
        assert cancelled.answer.cancelled()
        assert (waiting.purgatory.size, list(waiting.purgatory.watched)) == (1, ["a"])
        assert waiting.purgatory.watching("a") == [stays]
        never_watched = Countdown(waiting.loop, 1)
        waiting.purgatory.cancel(never_watched)
        assert never_watched.answer.cancelled()
        waiting.purgatory.cancel(cancelled)
        assert waiting.purgatory.size == 1

    in_virtual_time(scenario)


def test_only_those_that_are_meant_are_answered_before_their_time() -> None:
    async def scenario() -> None:
        waiting = Waiting()
        one, other = waiting.watch("a"), waiting.watch("a")
        waiting.purgatory.expire(lambda operation: operation is other)
        assert other.answer.result() == "expired"
        assert not one.answer.done()
        assert waiting.purgatory.watching("a") == [one]

    in_virtual_time(scenario)


def test_an_operation_says_itself_when_it_is_done_and_what_it_is_answered_when_its_time_is_up() -> None:
    async def scenario() -> None:
        operation: DelayedOperation[str] = DelayedOperation(asyncio.get_running_loop())
        with pytest.raises(NotImplementedError):
            operation.try_complete(None)
        with pytest.raises(NotImplementedError):
            operation.on_expiration()

    in_virtual_time(scenario)
