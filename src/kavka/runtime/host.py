"""Host: several broker processes of one machine, started, watched, started again and restarted one by one.

Decides when a broker that ended is started again, and what may be restarted with which settings. Must not know what a
broker is beyond its command, the line that it prints when it serves, and its end. Whether a restart is safe for the
cluster is not decided here: who asks for it knows (client/rolling_restart.py).

A broker's states, and what moves it:

    starting   -> serving    it printed that it is ready
    starting   -> waiting    it ended; on the first start of all, the host gives up instead
    serving    -> waiting    it ended without being asked to
    waiting    -> waiting    no process could be started (a full disk); also from stopping
    serving    -> stopping   a restart was asked for; also from starting and waiting
    waiting    -> starting   its pause is over
    stopping   -> starting   it has ended

The pause before a start is FIRST_PAUSE_S after the first end and doubles up to LONGEST_PAUSE_S with each further one,
until the broker has served for STEADY_S.

I1  At most one process of a broker runs, and it is ended by its pid alone.
I2  No child outlives this process (supervisor.py).
I3  One host runs on its directories: whoever holds the lock of the control directory.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from kavka.config.host_layout import HostLayout, PlannedBroker, why_other
from kavka.errors import ConfigError, KavkaError, StorageError
from kavka.logger import Logger
from kavka.runtime import process
from kavka.runtime.host_control import ControlServer, control_directory
from kavka.runtime.process import RESTART_VARIABLE
from kavka.runtime.settings_file import write_settings
from kavka.runtime.supervisor import Child, ChildPlan

logger = Logger(__name__)

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
STEADY_S: Final = 60.0
"""A broker that served for so long has recovered from what ended it before."""
START_PATIENCE_S: Final = 600.0
"""How long a restart that was asked for waits until the broker serves: whoever asks must hear of one that hangs. Checks
of logs after a crash may take longer; the broker goes on with them."""
MAX_LINE_BYTES: Final = 65_536
"""Of what a broker prints; what it is ready with is shorter."""


class BrokerState(Enum):
    """See the module's table. The value is the word that operators see."""

    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"
    WAITING = "waiting"


class BrokerEnd(NamedTuple):
    """How a broker's process ended, in words, and how many ends there were in a row. `pid`: -1 where none began."""

    pid: int
    how: str
    times: int

    def __str__(self) -> str:
        return f"process {self.pid} {self.how}" if self.pid >= 0 else self.how


@dataclass(frozen=True, slots=True)
class HostPlan:
    """What a host runs. `command` starts a broker, with its file of settings behind it; `read` reads the host's own
    file again, raising ConfigError where it is refused."""

    layout: HostLayout
    command: tuple[str, ...]
    read: Callable[[], HostLayout]


class HostStarted(NamedTuple):
    """What a host tells when all its brokers serve: their pids, by id."""

    pids: Mapping[int, int]
    seconds: float


def pause_s(times: int) -> float:
    """How long a broker waits that ended `times` times in a row.

    >>> [pause_s(times) for times in (1, 2, 3, 7, 1_000)]
    [1.0, 2.0, 4.0, 60.0, 60.0]
    """
    return LONGEST_PAUSE_S if times > 16 else min(FIRST_PAUSE_S * 2.0 ** (times - 1), LONGEST_PAUSE_S)


class _Kept:
    """One broker: its plan, its process if it has one, and its past."""

    def __init__(self, plan: PlannedBroker) -> None:
        self.plan = plan
        self.state = BrokerState.STARTING
        self.child: Child | None = None
        self.serving_since: float | None = None
        self.changed = asyncio.Event()
        """Set with the next change of `state`; then there is another one."""
        self.turn = asyncio.Lock()
        """One restart at a time."""
        self.pause: asyncio.TimerHandle | None = None
        self.starts = 0
        self.ends_in_a_row = 0
        self.last_end: BrokerEnd | None = None
        self.line = b""

    def move(self, state: BrokerState) -> None:
        self.state = state
        self.serving_since = time.monotonic() if state is BrokerState.SERVING else None
        before, self.changed = self.changed, asyncio.Event()
        before.set()


class Host:
    """`start`, `stop` and all else run on the event loop."""

    def __init__(self, plan: HostPlan) -> None:
        self._plan = plan
        self._layout = plan.layout
        self._directory = control_directory(plan.layout)
        self._control = ControlServer(self._directory, self._answer)
        self._kept = {broker.broker_id: _Kept(broker) for broker in plan.layout.brokers}
        self._metrics: Any = None
        self._stopping = False

    async def start(self) -> HostStarted:
        """Returns when all brokers serve. Raises `KavkaError`, having ended those that had started."""
        began = time.perf_counter()
        self._control.lock()
        try:
            for kept in self._kept.values():
                self._first_spawn(kept)
            # One end ends the wait: without it a broker that cannot start would be heard of after the slowest one.
            await asyncio.gather(*(self._served(kept) for kept in self._kept.values()))
            await self._show_metrics()
            await self._control.open()
        except BaseException:
            self._stopping = True
            for kept in self._kept.values():
                if kept.child is not None:
                    kept.child.kill()
            self._answer_no_more()
            self._control.unlock()
            raise
        pids = {broker_id: kept.child.pid for broker_id, kept in self._kept.items() if kept.child is not None}
        return HostStarted(pids, time.perf_counter() - began)

    async def stop(self) -> None:
        """Ends all brokers in order, at once: each hands over to brokers of other hosts."""
        self._stopping = True
        for kept in self._kept.values():
            if kept.pause is not None:
                kept.pause.cancel()
        self._answer_no_more()
        await asyncio.gather(*(kept.child.stop() for kept in self._kept.values() if kept.child is not None))
        self._control.unlock()

    def reload(self) -> None:
        """Each broker looks at its certificates."""
        for kept in self._kept.values():
            if kept.child is not None:
                kept.child.hang_up()

    def _answer_no_more(self) -> None:
        self._control.close()
        if self._metrics is not None:
            self._metrics.close()

    # -- what is asked of it

    async def restart(self, broker_id: int) -> None:
        """Stops a broker in order and starts it with the settings that its file has now; returns when it serves.

        Raises ConfigError where there is no such broker, the file is refused (the broker then runs on untouched), the
        broker ends before it serves (it is then tried again, as after any end), or does not serve within
        START_PATIENCE_S (it goes on starting).
        """
        if broker_id not in self._kept:
            raise ConfigError(
                f"broker {broker_id} is not one of this host, which has {', '.join(map(str, self._kept))}"
            )
        kept = self._kept[broker_id]
        async with kept.turn:
            layout = self._plan.read()
            why = why_other(self._layout, layout)
            if why is not None:
                raise ConfigError(f"{why}: stop the host and start it again for that")
            if kept.pause is not None:
                kept.pause.cancel()
                kept.pause = None
            kept.move(BrokerState.STOPPING)
            pid = -1
            if kept.child is not None:
                pid = kept.child.pid
                await kept.child.stop()
            if self._stopping:
                raise ConfigError("the host is being stopped")
            kept.plan = next(broker for broker in layout.brokers if broker.broker_id == broker_id)
            kept.ends_in_a_row = 0
            self._try_spawn(kept, {"cause": "asked", "pid": pid})
            try:
                async with asyncio.timeout(START_PATIENCE_S):
                    await self._served(kept)
            except TimeoutError:
                process_id = "" if kept.child is None else f" (process {kept.child.pid})"
                raise ConfigError(
                    f"broker {broker_id}{process_id} does not serve {START_PATIENCE_S:.0f} s after its start; "
                    f"it goes on starting, and its log lines say with what"
                ) from None

    def status(self) -> list[dict[str, object]]:
        """The brokers, as JSON has them."""
        now = time.monotonic()
        return [
            {
                "broker": broker_id,
                "state": kept.state.value,
                "pid": kept.child.pid if kept.child is not None and kept.child.is_running else None,
                "address": kept.plan.address,
                "serving_s": None if kept.serving_since is None else round(now - kept.serving_since, 1),
                "restarts": max(kept.starts - 1, 0),
                "last_end": None if kept.last_end is None else str(kept.last_end),
            }
            for broker_id, kept in self._kept.items()
        ]

    async def _answer(self, asked: Mapping[str, object]) -> Mapping[str, object]:
        """The control socket's answer."""
        match asked.get("do"):
            case "status":
                return {"brokers": self.status()}
            case "restart":
                broker_id = asked.get("broker")
                if not isinstance(broker_id, int):
                    return {"problem": "a restart names a broker"}
                try:
                    await self.restart(broker_id)
                except KavkaError as problem:
                    return {"problem": str(problem)}
                return {"broker": broker_id}
            case _:
                return {"problem": "this host knows status and restart"}

    # -- its brokers

    def _first_spawn(self, kept: _Kept) -> None:
        """Raises StorageError."""
        try:
            self._spawn(kept)
        except OSError as error:
            raise StorageError(self._directory, f"no broker can be started: {error.strerror or error}") from error

    def _try_spawn(self, kept: _Kept, restarted: Mapping[str, object]) -> None:
        """Where no process can be started, as on a full disk, that is tried again as after an end."""
        try:
            self._spawn(kept, restarted)
        except OSError as error:
            self._wait(kept, -1, f"before it began: {error.strerror or error}", "see to the machine's disk and memory")

    def _spawn(self, kept: _Kept, restarted: Mapping[str, object] | None = None) -> None:
        """Raises OSError."""
        file = os.path.join(self._directory, f"broker-{kept.plan.broker_id}.properties")
        write_settings(file, kept.plan.settings, written_by="kavka host")
        environment = {RESTART_VARIABLE: "" if restarted is None else json.dumps(restarted)}
        plan = ChildPlan(f"broker {kept.plan.broker_id}", (*self._plan.command, file), "", 0, environment)
        kept.line = b""
        kept.starts += 1
        kept.move(BrokerState.STARTING)
        kept.child = Child(
            plan, lambda child: self._on_exit(kept, child), lambda _child, piece: self._on_output(kept, piece)
        )

    async def _served(self, kept: _Kept) -> None:
        """Returns when the broker serves. Raises ConfigError where it ends before."""
        while kept.state is BrokerState.STARTING:
            await kept.changed.wait()
        if kept.state is not BrokerState.SERVING:
            end = kept.last_end
            whose = "" if end is None or end.pid < 0 else f" (process {end.pid})"
            said = "" if end is None else f"{whose} ended {end.how}"
            raise ConfigError(f"broker {kept.plan.broker_id}{said} before it was ready; see its log lines above")

    def _on_output(self, kept: _Kept, piece: bytes) -> None:
        """The first whole line says that it serves: with --json a broker prints no other."""
        if kept.state is BrokerState.STARTING and len(kept.line) < MAX_LINE_BYTES:
            kept.line += piece
            if b"\n" in kept.line and _is_ready(kept.line.partition(b"\n")[0]):
                kept.move(BrokerState.SERVING)

    def _on_exit(self, kept: _Kept, child: Child) -> None:
        if self._stopping or kept.state is BrokerState.STOPPING:
            return
        self._wait(kept, child.pid, child.status, "see its log lines above")

    def _wait(self, kept: _Kept, pid: int, how: str, next_step: str) -> None:
        """It has no process any more, or none could be started."""
        served_s = 0.0 if kept.serving_since is None else time.monotonic() - kept.serving_since
        kept.ends_in_a_row = 1 if served_s >= STEADY_S else kept.ends_in_a_row + 1
        kept.last_end = BrokerEnd(pid, how, kept.ends_in_a_row)
        wait_s = pause_s(kept.ends_in_a_row)
        # `start` waits for it to serve for the first time, and gives up.
        is_host_over = kept.starts == 1 and kept.state is BrokerState.STARTING
        then = "the host ends" if is_host_over else f"it is started again in {wait_s:.0f} s"
        kept.move(BrokerState.WAITING)
        logger.error(
            "process ended",
            name=f"broker {kept.plan.broker_id}",
            pid=pid,
            how=how,
            times=kept.ends_in_a_row,
            next_step=f"{next_step}; {then}",
        )
        kept.pause = asyncio.get_running_loop().call_later(wait_s, self._start_again, kept, kept.last_end, wait_s)

    def _start_again(self, kept: _Kept, end: BrokerEnd, waited_s: float) -> None:
        kept.pause = None
        if self._stopping:
            return
        after_ms = int(waited_s * 1000)
        facts = {"cause": "ended", "pid": end.pid, "how": end.how, "after_ms": after_ms, "times": end.times}
        self._try_spawn(kept, facts)

    async def _show_metrics(self) -> None:
        if self._layout.metrics is not None:
            from kavka.runtime.host_metrics import HostMetrics

            place = self._layout.metrics
            self._metrics = HostMetrics(place.of_brokers, self.status)
            await self._metrics.start(place.host, place.port)


def _is_ready(line: bytes) -> bool:
    with suppress(ValueError):
        said = json.loads(line)
        return isinstance(said, dict) and said.get("event") == "ready"
    return False


def run(plan: HostPlan, *, on_started: Callable[[HostStarted], None]) -> int:
    """Runs a host until a signal ends it; returns the exit status. Raises `KavkaError` where a broker cannot start."""
    return process.run(lambda _end: Host(plan), on_started)
