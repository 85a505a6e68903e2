"""ZooKeeperThread: the cluster's ZooKeeper, on its own event loop and in its own thread, reached over its protocol.

It starts kavka's ZooKeeper server on a port, keeps one session for the test, and runs questions on its loop. Brokers
reach it over sockets, so their sessions expire when they fall silent, as on an ensemble.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from kavka.logger import Level, LogLevels, Sink, levels, sink
from kavka.runtime.disk import LocalFileSystem
from kavka.runtime.loop import new_event_loop
from kavka.runtime.zookeeper.zookeeper_host import ZooKeeperHost, ZooKeeperPlace
from kavka.zookeeper.embedded import LocalZooKeeper

Result = TypeVar("Result")

TIMEOUT_S = 60.0


class ZooKeeperThread:
    """All methods are called from other threads."""

    def __init__(self, place: ZooKeeperPlace, take_line: Sink) -> None:
        self._place = place
        self._take_line = take_line
        self._loop = new_event_loop()
        self._session: LocalZooKeeper
        self._ready: Future[str] = Future()
        self._going_on = threading.Event()
        self._going_on.set()
        self._thread = threading.Thread(target=self._run, name="kavka-zookeeper", daemon=True)

    def start(self) -> str:
        """Returns its address, host:port. Raises KavkaError."""
        self._thread.start()
        return self._ready.result(TIMEOUT_S)

    def close(self) -> None:
        """Ends it; the tree stays on the disk."""
        self.resume()
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)

    def pause(self) -> None:
        """As SIGSTOP; returns when it stands still."""
        still = threading.Event()

        def stand_still() -> None:
            still.set()
            self._going_on.wait()

        self._going_on.clear()
        self._loop.call_soon_threadsafe(stand_still)
        still.wait()

    def resume(self) -> None:
        """As SIGCONT."""
        self._going_on.set()

    def ask(
        self, question: Callable[[LocalZooKeeper], Coroutine[Any, Any, Result]], *, timeout_s: float = TIMEOUT_S
    ) -> Result:
        """Runs `question` on ZooKeeper's loop with the test's session, and returns the answer. Raises what it
        raises."""
        return self.carry_out(question(self._session), timeout_s=timeout_s)

    def expire(self, session_id: int) -> None:
        """Ends a session as if it had timed out."""
        self.carry_out(self._host.embedded.expire(session_id))

    def carry_out(self, work: Coroutine[Any, Any, Result], *, timeout_s: float = TIMEOUT_S) -> Result:
        """Runs `work` on ZooKeeper's loop. Raises what it raises, and TimeoutError."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def _run(self) -> None:
        sink.set(self._take_line)
        levels.set(LogLevels(Level.DEBUG))
        loop = self._loop
        asyncio.set_event_loop(loop)
        with ThreadPoolExecutor(1, thread_name_prefix="kavka-zookeeper") as workers:

            async def run_blocking(work: Callable[[], None]) -> None:
                await loop.run_in_executor(workers, work)

            self._host = ZooKeeperHost(
                self._place, LocalFileSystem(), run_blocking=run_blocking, rng=random.Random(), halt=self._on_failure
            )
            try:
                loop.run_until_complete(self._start())
                loop.run_forever()
                loop.run_until_complete(self._host.stop())
            except Exception as failure:  # noqa: BLE001  # told to the thread that waits
                if self._ready.done():
                    self._on_failure(repr(failure))
                else:
                    self._ready.set_exception(failure)
            finally:
                loop.close()

    async def _start(self) -> None:
        await self._host.start()
        self._session = await self._host.embedded.connect()
        address = self._host.address
        assert address is not None
        self._ready.set_result(address)

    def _on_failure(self, why: str) -> None:
        self._take_line("error", "ZooKeeper failed", {"why": why})
