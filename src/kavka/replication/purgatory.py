"""Purgatory: requests that wait until a partition has moved far enough, or until their time is up.

Decides which waiting operations to check again when a partition changed, and when one has waited long enough. Must not
know what an operation waits for: it calls `try_complete` (`delayed_requests`, `follower_fetches`).

    I1  an operation is completed exactly once: by `try_complete`, by expiry, or by `cancel`
    I2  a completed operation is watched under no key
    I3  looking at a key costs in proportion to the operations that watch that key, not to all that wait

Source: Kafka's DelayedOperationPurgatory. There an operation stays in the lists of its other keys until a reaper comes
by, because removal needs locks; here there is one thread and removal is immediate. Timers are the event loop's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

AnswerT = TypeVar("AnswerT")


class DelayedOperation(Generic[AnswerT]):
    """One waiting request. Subclasses decide when it is done and what its answer is.

    `answer` is what the request's handler awaits.
    """

    __slots__ = ("_keys", "_timer", "answer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.answer: asyncio.Future[AnswerT] = loop.create_future()
        self._keys: list[Hashable] = []
        self._timer: asyncio.TimerHandle | None = None

    def try_complete(self, changed: Hashable | None) -> AnswerT | None:
        """The answer, if the operation is done. `changed` is the key that moved, None when the operation is new."""
        raise NotImplementedError

    def on_expiration(self) -> AnswerT:
        """The answer when time is up."""
        raise NotImplementedError


class Purgatory(Generic[AnswerT]):
    """Operations of one kind ("Produce", "Fetch", ...) that wait.

    `name` labels the metric PurgatorySize.
    """

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self.name = name
        self._loop = loop
        self.watched: dict[Hashable, dict[DelayedOperation[AnswerT], None]] = {}
        """The operations that wait for each key. Others only ask whether a key is in it, with every append."""
        self._waiting: dict[DelayedOperation[AnswerT], None] = {}

    @property
    def size(self) -> int:
        """Operations that wait."""
        return len(self._waiting)

    def watch(self, operation: DelayedOperation[AnswerT], keys: Sequence[Hashable], timeout_ms: int) -> None:
        """Makes `operation` wait for a change of any of `keys`, for at most `timeout_ms`.

        The caller has checked that it is not done yet. Nothing can have changed since, because there is only one
        thread.
        """
        operation._keys = list(keys)
        watched = self.watched
        for key in keys:
            there = watched.get(key)
            if there is None:
                watched[key] = {operation: None}
            else:
                there[operation] = None
        self._waiting[operation] = None
        operation._timer = self._loop.call_later(timeout_ms / 1000, self._expire, operation)

    def watch_also(self, operation: DelayedOperation[AnswerT], key: Hashable) -> None:
        """Makes `operation`, if it still waits, wait for a change of `key` too."""
        if operation in self._waiting:
            operation._keys.append(key)
            self.watched.setdefault(key, {})[operation] = None

    def watching(self, key: Hashable) -> list[DelayedOperation[AnswerT]]:
        """The operations that wait for `key`."""
        return list(self.watched.get(key, ()))

    def check(self, key: Hashable) -> int:
        """Checks all operations that wait for `key` again. Returns how many of them are done now."""
        there = self.watched.get(key)
        if there is None:
            return 0
        completed = 0
        for operation in list(there):
            if operation.answer.done():  # cancelled by its connection meanwhile
                self._forget(operation)
                continue
            answer = operation.try_complete(key)
            # 1. Its look meets a disk that fails. 2. What lies there goes offline, and who waits for it is looked at:
            # this operation too, which is answered by that.
            if answer is not None and not operation.answer.done():
                self._forget(operation)
                operation.answer.set_result(answer)
                completed += 1
        return completed

    def cancel(self, operation: DelayedOperation[AnswerT]) -> None:
        """Removes an operation whose client has disconnected."""
        if operation._timer is not None:
            self._forget(operation)
        operation.answer.cancel()

    def expire_all(self) -> None:
        """Answers all waiting operations as if they had timed out, because the broker is stopping."""
        self.expire(lambda _: True)

    def expire(self, is_meant: Callable[[DelayedOperation[AnswerT]], bool]) -> None:
        """Answers some of the waiting operations as if they had timed out."""
        for operation in list(self._waiting):
            if is_meant(operation):
                self._expire(operation)

    def _expire(self, operation: DelayedOperation[AnswerT]) -> None:
        self._forget(operation)
        if not operation.answer.done():
            operation.answer.set_result(operation.on_expiration())

    def _forget(self, operation: DelayedOperation[AnswerT]) -> None:
        for key in operation._keys:
            there = self.watched.get(key)
            if there is not None:
                there.pop(operation, None)
                if not there:
                    del self.watched[key]
        operation._keys = []
        if operation._timer is not None:
            operation._timer.cancel()
            operation._timer = None
            del self._waiting[operation]
