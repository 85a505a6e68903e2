"""BrokerThread: one run of one broker, on its own event loop and in its own thread, as if it were a process.

Decides how a thread plays a process: what its start, its clean end, SIGSTOP and SIGKILL are. Must not know clusters.

    state      input    next       what happens
    STARTING   started  RUNNING    the server serves
    STARTING   failed   ENDED      `start` raises why
    RUNNING    stop     ENDED      the server stops in order: partitions handed over, logs marked clean
    RUNNING    pause    PAUSED     the thread stands still
    PAUSED     resume   RUNNING    the thread goes on; timers that came due meanwhile run at once
    any        kill     ENDED      nothing of it reaches disk or network any more; its sockets are closed
    RUNNING    halt     ENDED      as kill, by the broker itself; `halted` says why

Why a thread and a loop for each: SIGSTOP stops all of a process, the kernel goes on accepting connections and taking
bytes for it, and SIGCONT finds a clock that went on. A blocked thread is just that: its selector is not asked, so
connections wait in the backlog and bytes in socket buffers; none of its tasks and timers runs; `loop.time()` goes on.
Worker threads are held at the disk (life.py). What it cannot play: it stops between two callbacks of the loop, never
within one; a process can be stopped within a write.

kill -9 likewise falls between two callbacks. The kernel then closes the sockets (peers see the end of the stream, or a
reset where they had sent what nobody read) and keeps what was written. So: the life is over, so that nothing that still
runs has an effect; sockets are closed; tasks are cancelled and run to their end in the void; files are closed last.

I1  After `kill` returned, no thread of this life runs.
I2  A ZooKeeper session is never closed by kill: it is left to expire.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from enum import Enum
from typing import Any, TypeVar

from kavka.config.broker import BrokerConfig
from kavka.errors import InvariantViolation, KavkaError
from kavka.logger import Level, LogLevels, Sink, levels, on_broker, sink
from kavka.network import Network
from kavka.runtime.disk import LocalFileSystem
from kavka.runtime.loop import FileShares, new_event_loop
from kavka.runtime.network.network import SocketNetwork
from kavka.runtime.server import Server, Started, Surroundings
from kavka.testing.cuts import Cuts, CuttableNetwork, Member
from kavka.testing.disk import Disk
from kavka.testing.life import Dead, Life

Result = TypeVar("Result")

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
PATIENCE_S = 2.0
"""How long a broker may take to come to the end of the callback that it is in, before it is killed within it."""
VOID_S = 2.0
"""How long the tasks of a killed broker may take to end; nothing that they do has an effect."""


class State(Enum):
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    ENDED = "ended"


class BrokerThread:
    """One run of a broker. Call all methods from other threads; each returns when its work is done."""

    def __init__(
        self, config: BrokerConfig, files: FileShares, cuts: Cuts, members: Mapping[int, Member], take_line: Sink
    ) -> None:
        self.broker_id = config.broker_id
        self.state = State.STARTING
        self.halted: str | None = None
        """Why the broker halted; None where it did not."""
        self.life = Life()
        self._config = config
        self._files = files
        self._cuts = cuts
        self._members = members
        self._take_line = take_line
        self._disk = Disk(self.life, LocalFileSystem())
        self._networks: list[CuttableNetwork] = []
        self._server: Server | None = None
        self._loop = new_event_loop()
        self._loop.set_exception_handler(self._on_loop_exception)
        self._started: Future[Started] = Future()
        self._still = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kavka-broker-{config.broker_id}", daemon=True)

    # -- what tests do to it

    def launch(self) -> None:
        """Starts the thread without waiting. Call `wait_until_started` for the outcome."""
        self._thread.start()

    def wait_until_started(self) -> Started:
        """Raises KavkaError if the broker could not start, TimeoutError if it is not ready in START_TIMEOUT_S."""
        return self._started.result(START_TIMEOUT_S)

    @property
    def is_running(self) -> bool:
        """Whether the broker serves at this moment."""
        return self.state is State.RUNNING

    @property
    def is_alive(self) -> bool:
        """Whether the broker has not ended. It may be paused."""
        return self.state in (State.RUNNING, State.PAUSED)

    @property
    def server(self) -> Server:
        """The server, for use in questions to `ask`."""
        assert self._server is not None, f"broker {self.broker_id} was not started"
        return self._server

    def stop(self) -> None:
        """Stops the broker in order, as SIGTERM does. It must not be paused."""
        self._carry_out(self.server.stop(), STOP_TIMEOUT_S)
        self.state = State.ENDED
        self._end_thread()

    def kill(self) -> None:
        """Kills the broker in any state, as SIGKILL does."""
        if self.state is not State.PAUSED:
            self._soon(self._die)
            self._thread.join(PATIENCE_S)
        self.life.end()
        self._end_thread()

    def pause(self) -> None:
        """Pauses the broker, as SIGSTOP does. Returns when it is paused."""
        self._still.clear()
        self._soon(self._stand_still)
        self._still.wait()
        self.state = State.PAUSED

    def resume(self) -> None:
        """Resumes the broker, as SIGCONT does."""
        self.state = State.RUNNING
        self.life.go_on()

    def ask(self, question: Callable[[Server], Result], *, timeout_s: float = 10.0) -> Result:
        """Runs `question` on the broker's loop and returns the answer. Raises TimeoutError, also while the broker is
        paused."""

        async def answer() -> Result:
            return question(self.server)

        return self._carry_out(answer(), timeout_s)

    # -- its thread

    def _run(self) -> None:
        on_broker.set(self.broker_id)
        sink.set(self._take_line)
        levels.set(LogLevels(Level.DEBUG))
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            started = loop.run_until_complete(self._start())
            self.state = State.RUNNING
            self._started.set_result(started)
            loop.run_forever()
        except RuntimeError:
            self._started.set_exception(KavkaError(f"broker {self.broker_id} was killed while it started"))
        except (Exception, Dead) as failure:  # noqa: BLE001  # told to the thread that waits
            self._started.set_exception(KavkaError(self.halted) if self.halted else failure)
        finally:
            self.state = State.ENDED
            self.life.end()
            self._dissolve()

    async def _start(self) -> Started:
        network = self._cuttable(SocketNetwork(resets=True))
        surroundings = Surroundings(filesystem=self._disk, network=network, halt=self._halt, over_tls=self._cuttable)
        server = self._server = Server(self._config, self._files, surroundings)
        return await server.start()

    def _cuttable(self, network: Network) -> CuttableNetwork:
        """With TLS, too, a cut holds whole frames back: before they are encrypted, and after they are decrypted."""
        self._networks.append(CuttableNetwork(self.life, network, self._cuts, self.broker_id, self._members))
        return self._networks[-1]

    def _stand_still(self) -> None:
        """Runs on the loop, and keeps it."""
        self.life.stop()
        self._still.set()
        self.life.wait()
        if self.life.is_dead:
            self._die()

    def _halt(self, why: str) -> None:
        """The Ports' `halt`: a process would end within this call."""
        if not self.life.is_dead:
            self.halted = why
            self._take_line("error", "broker halted", {"on_broker": self.broker_id, "why": why})
            self._soon(self._die)
            self.life.end()
        raise Dead

    def _die(self) -> None:
        """Runs on the loop: from here on it is in the void."""
        self.life.end()
        self.state = State.ENDED
        for network in self._networks:
            network.abort()
        if self._server is not None:
            self._server.abort_sockets()
        self._loop.stop()

    def _dissolve(self) -> None:
        """What is left of a life that has ended is taken apart, and reaches nothing. Whatever fails in it, its
        files are closed: no process that has ended holds a lock."""
        try:
            self._let_go()
        except (Exception, Dead) as failure:  # noqa: BLE001  # told to the thread that waits
            self._take_line("error", "broker not taken apart", {"on_broker": self.broker_id, "why": repr(failure)})
        finally:
            self._disk.close_all()
            self._loop.close()

    def _let_go(self) -> None:
        loop = self._loop
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            with suppress(BaseException):
                loop.run_until_complete(asyncio.wait(tasks, timeout=VOID_S))
        for network in self._networks:
            network.abort()
        if self._server is not None:
            self._server.abort()

    def _end_thread(self) -> None:
        if not self._loop.is_closed():
            self._soon(self._loop.stop)
        self._thread.join(STOP_TIMEOUT_S)
        assert not self._thread.is_alive(), f"the thread of broker {self.broker_id} does not end"

    # -- from thread to thread

    def _soon(self, call: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # The loop is closed: it has ended by itself.
            self._loop.call_soon_threadsafe(call)

    def _carry_out(self, work: Coroutine[Any, Any, Result], timeout_s: float) -> Result:
        """Raises TimeoutError."""
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError as closed:
            work.close()
            raise TimeoutError(f"broker {self.broker_id} has ended") from closed
        try:
            return future.result(timeout_s)
        except TimeoutError:
            future.cancel()
            raise

    def _on_loop_exception(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        failure = context.get("exception")
        if self.life.is_dead or isinstance(failure, Dead):
            return
        if isinstance(failure, InvariantViolation):
            with suppress(Dead):
                self._halt(f"an invariant is broken: {failure}")
            return
        keys = {"on_broker": self.broker_id, "what": context.get("message"), "why": repr(failure)}
        self._take_line("error", "unexpected failure", keys)
