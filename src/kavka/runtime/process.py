"""What every process of kavka has: signals that end it in order, failures that end it at once.

Decides when a service starts to stop and which exit status comes of it. Must not know what the service is.

SIGINT, SIGTERM   the service stops in order. During the start: what was begun is given up. A second signal ends the
                  process at once, and says that the next start recovers; but not one that comes with the first, as
                  when Ctrl-C is pressed twice, or a shell and a supervisor both pass it on.
SIGHUP            the service reads certificates again. Where the terminal has gone from which it was started, it stops
                  in order instead; not where the signal was ignored (nohup).
Halt              a broken invariant, or nothing left to write to: the process ends at once, without touching a file.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn, Protocol, TypeVar

from kavka.errors import InvariantViolation
from kavka.logger import Logger
from kavka.runtime.garbage import FullCollections, keep_all
from kavka.runtime.loop import new_event_loop

logger = Logger(__name__)

FAILED = 1
HALTED = 70
"""Exit status of a process that halted (EX_SOFTWARE)."""
RESTART_VARIABLE = "KAVKA_RESTARTED"
"""By which `kavka host` tells a broker's process why it was started again, as JSON (broker/decisions/restarts.py)."""
SAME_PRESS_S = 0.5
"""A signal that comes so soon after the first is taken for the same."""
STOPS_IN_SILENCE_S = 1.0
"""After Ctrl-C a stop that takes longer says that it is under way."""

Facts_co = TypeVar("Facts_co", covariant=True)
Facts = TypeVar("Facts")


class Service(Protocol[Facts_co]):
    """What a process runs. `start` lets go of everything where it fails or is cancelled."""

    async def start(self) -> Facts_co: ...

    async def stop(self) -> None: ...

    def reload(self) -> None:
        """Reads again what may change in files. Called between `start` and `stop`."""
        ...


End = Callable[[int], None]
"""Called by a service that has no reason to go on: it is stopped, and the process ends with this status."""


def run(make: Callable[[End], Service[Facts]], on_started: Callable[[Facts], None]) -> int:
    """Runs a service until a signal ends it, or it ends itself; returns the exit status.

    `make` is called on the loop. `on_started` is told what `start` returned. Raises what `start` raises.
    """
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        collections = FullCollections(runner.get_loop())
        collections.start()
        try:
            return runner.run(_run(make, on_started))
        finally:
            collections.stop()


async def _run(make: Callable[[End], Service[Facts]], on_started: Callable[[Facts], None]) -> int:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_on_loop_exception)
    stopping = asyncio.Event()
    status = 0
    first: tuple[float, int] | None = None
    """When the first signal came, and which."""

    def end(with_status: int) -> None:
        nonlocal status
        status = with_status
        stopping.set()

    def on_signal(number: int) -> None:
        nonlocal first
        if first is None:
            first = loop.time(), number
            stopping.set()
        elif loop.time() - first[0] >= SAME_PRESS_S:
            _say("Ended at once, before everything was written down: the next start recovers.")
            os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    service = make(end)
    has_started = False

    def reload() -> None:
        if has_started and not stopping.is_set():
            service.reload()

    on_hangup(loop, reload, lambda: on_signal(signal.SIGHUP))
    starting = loop.create_task(service.start())
    stop_asked = loop.create_task(stopping.wait())
    await asyncio.wait((starting, stop_asked), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.wait((starting,))
        return 128 + (first[1] if first is not None else signal.SIGTERM)
    facts = starting.result()
    keep_all()
    on_started(facts)
    has_started = True
    await stopping.wait()
    if first is not None and first[1] == signal.SIGINT:
        loop.call_later(STOPS_IN_SILENCE_S, _say, "Stopping; a second Ctrl-C ends it at once.")
    await service.stop()
    return status


def leave(status: int) -> NoReturn:
    """Ends the process with its objects as they are: taking apart those of ten thousand partitions takes a second."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def on_hangup(loop: asyncio.AbstractEventLoop, reload: Callable[[], None], stop: Callable[[], None]) -> None:
    """What SIGHUP does from now on: `reload`, or `stop` where this process had a terminal and it is gone."""
    had_terminal = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and _has_terminal()
    loop.add_signal_handler(signal.SIGHUP, lambda: stop() if had_terminal and not _has_terminal() else reload())


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _say(text: str) -> None:
    """A line for whoever sits at the terminal, who may be gone."""
    with suppress(OSError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def halt(why: str) -> None:
    """Ends the process at once: what is durable stays as it is, and the next start recovers."""
    logger.error("broker halted", why=why, next_step="check the cause, then start it again: it recovers its logs")
    os._exit(HALTED)


def report_loop_exception(context: dict[str, Any], on_halt: Callable[[str], None]) -> None:
    """What a timer or a task let through: nobody waits for its outcome, so it ends here."""
    failure = context.get("exception")
    if isinstance(failure, InvariantViolation):
        on_halt(f"an invariant is broken: {failure}")
    logger.error("unexpected failure", what=context.get("message"), exc_info=failure)


def _on_loop_exception(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    report_loop_exception(context, halt)
