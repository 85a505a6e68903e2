"""Scheduler: virtual time, and whose turn it is, for many event loops in one thread.

Every node of a simulation (a broker, a ZooKeeper server, a client) has an event loop of its own: a `NodeLoop`, an
`asyncio.AbstractEventLoop` as far as flows use one. One `Scheduler` drives them all: it picks which node takes its next
step, and lets time jump to the next timer when none has one. All of its choices come from one seed, so a run can be had
again, step by step.

What a node sees is what asyncio promises: its own callbacks run in the order in which they were handed in. What asyncio
does not promise, the order of steps of different nodes and of timers of one instant, is drawn by lot.

    I1  the same seed and the same program give the same steps (no clock, no `hash`, no identity takes part)
    I2  nothing of a killed node ever runs again, not even the `finally` of its coroutines: they are kept for ever, as
        a coroutine that is collected is run to its end first
    I3  a paused node runs nothing; its timers come due all the same, and run in their order when it goes on
    I4  time never goes back; a step costs STEP_NS, so that a node in a tight loop cannot stop the clock
    I5  clocks drift: `rate` of a node's seconds pass in one of the simulation's, for its timers as for its `time`
    I6  a run in which a node spins ends as one that got stuck: a loop without a pause would keep a core busy

Source: ARCHITECTURE.md's second idea; TigerBeetle's VOPR and FoundationDB's simulation for one scheduler over all.
"""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from random import Random
from typing import Any, Final, NamedTuple, TypeVar, TypeVarTuple, Unpack

from kavka.errors import KavkaError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

STEP_NS: Final = 1_000
"""What a step costs in virtual time: a callback of a flow takes about a microsecond and more in CPython."""
NANOSECONDS: Final = 1_000_000_000
MILESTONE_STEPS: Final = 4_096
"""So often it is written down where a run is: two runs that part do so between two milestones."""
RESTLESS_STEPS: Final = 16 * MILESTONE_STEPS
RESTLESS_NS: Final = 200_000_000
"""So many steps take longer than this (I6): a node that only spins takes them in a third of it. In undisturbed work a
cluster takes some thousand steps in a second."""
DIGEST_FACTOR: Final = 6_364_136_223_846_793_005
"""Knuth's multiplier for sequences modulo 2^64 (MMIX)."""
DIGEST_MASK: Final = (1 << 64) - 1


def _keep_for_ever(node: NodeLoop) -> None:
    """Makes a node, and with it all of its tasks, outlive the interpreter (I2).

    No list could: at the end the interpreter clears every list, and runs every coroutine that was held by it. A process
    that simulates much gives its memory back by ending.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(node))


class Milestone(NamedTuple):
    """Where a run was after so many steps: when, whose step that was, and the digest of all steps up to it."""

    steps: int
    now_ns: int
    node: str
    digest: int


class SimulationStuck(KavkaError):
    """A run waits for something, and nothing is left to happen, or the virtual time is over, or a node spins."""


class _Call(asyncio.TimerHandle):
    """A callback that waits for its turn or its time."""

    __slots__ = ("_node", "due_ns", "started")

    def __init__(
        self,
        due_ns: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        node: NodeLoop,
        context: contextvars.Context | None,
    ) -> None:
        super().__init__(due_ns / NANOSECONDS, callback, args, node, context)
        self.due_ns = due_ns
        self._node = node
        self.started = False


class NodeLoop(asyncio.AbstractEventLoop):
    """The event loop of one node. Made by `Scheduler.node`."""

    def __init__(self, scheduler: Scheduler, name: str, number: int) -> None:
        self.name = name
        self.number = number
        """Which one of the simulation it is, from 1 on."""
        self.owner: int | None = None
        """The broker whose process this is, for who watches; None for other nodes."""
        self.rate = 1.0
        """How much faster this node's clock goes than time does (I5)."""
        self._scheduler = scheduler
        self._ready: deque[asyncio.Handle] = deque()
        self._tasks: list[asyncio.Task[Any]] = []
        """Tasks that are not done, and some that are: nothing of them may be collected (I2)."""
        self._next_sweep = 1_000
        self._paused = False
        self._killed = False
        self.failures: list[dict[str, Any]] = []
        """What tasks and callbacks of this node let through to its loop: bugs."""

    # -- what the scheduler and faults use

    @property
    def is_killed(self) -> bool:
        return self._killed

    @property
    def is_paused(self) -> bool:
        return self._paused

    def pause(self) -> None:
        """As SIGSTOP: nothing runs until `resume`."""
        self._paused = True
        self._scheduler.on_runnable(self, runnable=False)

    def resume(self) -> None:
        self._paused = False
        self._scheduler.on_runnable(self, runnable=bool(self._ready) and not self._killed)

    def kill(self) -> None:
        """As SIGKILL: nothing of this node runs again (I2)."""
        self._killed = True
        self._ready.clear()
        self._scheduler.on_runnable(self, runnable=False)

    def run_one(self) -> None:
        """Takes the node's next step."""
        handle = self._ready.popleft()
        if not self._ready:
            self._scheduler.on_runnable(self, runnable=False)
        if handle.cancelled():
            return
        asyncio._set_running_loop(self)
        try:
            handle._run()
        finally:
            asyncio._set_running_loop(None)

    def come_due(self, call: _Call) -> None:
        """A timer's time has come."""
        if not self._killed and not call.cancelled():
            self._put(call)

    def _put(self, handle: asyncio.Handle) -> None:
        if self._killed:
            return
        self._ready.append(handle)
        if not self._paused:
            self._scheduler.on_runnable(self, runnable=True)

    # -- what asyncio and flows use

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._put(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        due_ns = self._scheduler.now_ns + max(round(delay * NANOSECONDS / self.rate), 0)
        return self._scheduler.set_timer(_Call(due_ns, callback, args, self, context), self)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_later(when - self.time(), callback, *args, context=context)

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """There are no threads here: as `call_soon`."""
        return self.call_soon(callback, *args, context=context)

    def time(self) -> float:
        """Monotonic seconds of this node's clock."""
        return self._scheduler.now_ns * self.rate / NANOSECONDS

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name, context=context)
        # asyncio's set of all tasks is the process's, and each `asyncio.run` in it walks over all of them. Tasks that
        # are kept for ever would make it slower with every run of a simulation: by 70 ms after some hundreds.
        asyncio._unregister_task(task)
        self._tasks.append(task)
        if len(self._tasks) >= self._next_sweep:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._next_sweep = 2 * len(self._tasks) + 1_000
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._killed:
            self.failures.append(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._killed

    def is_closed(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing to do: a cancelled timer is passed over when its time comes."""

    def __repr__(self) -> str:
        return f"<NodeLoop {self.name}>"


class Scheduler:
    """Drives all nodes of one simulation."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        """The one source of chance; nodes are given generators seeded from it."""
        self.now_ns = 0
        self.steps = 0
        self.digest = 0
        """Of every step so far: which node took it, and when. Two runs are the same as long as it is."""
        self.milestones: list[Milestone] = []
        self._closely = range(0)
        self._planned: dict[int, list[Callable[[], object]]] = {}
        self._next_milestone = MILESTONE_STEPS
        self._rest_ns = 0
        """When the last of RESTLESS_STEPS was taken."""
        self._nodes = 0
        self.last_node: NodeLoop | None = None
        """Whose step the last one was; None if it was a moment's, at which something came due."""
        self._timers: list[tuple[int, float, int, NodeLoop | None, _Call | Callable[[], object]]] = []
        self._timer_number = 0
        self._runnable: list[NodeLoop] = []
        self._index: dict[str, int] = {}
        """Where a runnable node stands in the list, by name; the list is kept without gaps, in a seeded order."""

    @property
    def now_ms(self) -> int:
        """Virtual milliseconds since the start."""
        return self.now_ns // 1_000_000

    def node(self, name: str) -> NodeLoop:
        """A new node. A restarted broker is a new node: `name` must be another one for each life."""
        self._nodes += 1
        loop = NodeLoop(self, name, self._nodes)  # type: ignore[abstract]  # sockets, processes, signals: flows do not use them
        _keep_for_ever(loop)
        return loop

    def new_random(self) -> Random:
        """A generator for one node."""
        return Random(self.random.getrandbits(64))

    def after(self, delay_s: float, action: Callable[[], object], *, lot: float | None = None) -> None:
        """Runs `action` outside of all nodes, after a virtual time: the simulation's own events.

        `lot`: its place among what is due at the same instant, from 0.0 on, if it is not to be drawn.
        """
        self._push(self.now_ns + max(round(delay_s * NANOSECONDS), 0), None, action, lot)

    # -- for node loops

    def set_timer(self, call: _Call, node: NodeLoop) -> _Call:
        self._push(call.due_ns, node, call)
        return call

    def _push(
        self, due_ns: int, node: NodeLoop | None, what: _Call | Callable[[], object], lot: float | None = None
    ) -> None:
        self._timer_number += 1
        lot = self.random.random() if lot is None else lot
        heapq.heappush(self._timers, (due_ns, lot, self._timer_number, node, what))

    def on_runnable(self, node: NodeLoop, *, runnable: bool) -> None:
        position = self._index.get(node.name)
        if runnable == (position is not None):
            return
        if position is None:
            self._index[node.name] = len(self._runnable)
            self._runnable.append(node)
            return
        last = self._runnable.pop()
        del self._index[node.name]
        if last is not node:
            self._runnable[position] = last
            self._index[last.name] = position

    # -- running

    def step(self) -> bool:
        """One step: a callback of one node, or the next moment at which something is due. False if nothing is left."""
        timers, runnable = self._timers, self._runnable
        if timers and timers[0][0] <= self.now_ns:
            self.last_node = None
            self._fire()
            return True
        if runnable:
            count = len(runnable)
            node = runnable[0 if count == 1 else int(self.random.random() * count)]
            self.steps += 1
            self.now_ns += STEP_NS
            self.digest = (self.digest * DIGEST_FACTOR + self.now_ns + node.number) & DIGEST_MASK
            if self.steps >= self._next_milestone:
                self._reach_milestone(node)
            self.last_node = node
            node.run_one()
            return True
        if not self._timers:
            return False
        self.now_ns = max(self.now_ns, self._timers[0][0])
        self.last_node = None
        self._fire()
        return True

    def look_closely(self, steps: range) -> None:
        """Makes each of these steps a milestone. Call it before the first of them."""
        self._closely = steps
        self._next_milestone = min(self._next_milestone, max(steps.start, 1))

    def at_step(self, step: int, action: Callable[[], object]) -> None:
        """Runs `action` right after this step, which must be ahead, before any other node takes one. Nothing is drawn:
        up to there the run is the same without it."""
        self._planned.setdefault(step, []).append(action)
        self._next_milestone = min(self._next_milestone, step)

    def _reach_milestone(self, node: NodeLoop) -> None:
        for action in self._planned.pop(self.steps, ()):
            self.after(0.0, action, lot=-1.0)  # The step itself is taken first: what is due comes after it.
        self.milestones.append(Milestone(self.steps, self.now_ns, node.name, self.digest))
        if self.steps % RESTLESS_STEPS == 0:
            if self.now_ns - self._rest_ns < RESTLESS_NS:
                took_ms = (self.now_ns - self._rest_ns) // 1_000_000
                raise SimulationStuck(f"{RESTLESS_STEPS} steps in {took_ms} ms, the last of {node.name}")
            self._rest_ns = self.now_ns
        close = self.steps in self._closely
        usual = self.steps + (1 if close else MILESTONE_STEPS - self.steps % MILESTONE_STEPS)
        self._next_milestone = min(usual, *self._planned) if self._planned else usual

    def _fire(self) -> None:
        _due_ns, _lot, _number, node, what = heapq.heappop(self._timers)
        if node is not None:
            assert isinstance(what, _Call)
            node.come_due(what)
        else:
            assert not isinstance(what, _Call)
            what()

    def run_for(self, seconds: float, after_step: Callable[[], None] | None = None) -> None:
        """Lets `seconds` of virtual time pass. `after_step` is called after every step: for invariants."""
        end_ns = self.now_ns + round(seconds * NANOSECONDS)
        while self.now_ns < end_ns and (self._runnable or (self._timers and self._timers[0][0] <= end_ns)):
            self.step()
            if after_step is not None:
                after_step()
        self.now_ns = max(self.now_ns, end_ns)

    def run_until(
        self, condition: Callable[[], bool], *, within_s: float, after_step: Callable[[], None] | None = None
    ) -> None:
        """Runs until `condition` holds. Raises SimulationStuck if that takes longer than `within_s` of virtual time."""
        end_ns = self.now_ns + round(within_s * NANOSECONDS)
        while not condition():
            if self.now_ns > end_ns:
                raise SimulationStuck(f"not within {within_s} s of virtual time")
            if not self.step():
                raise SimulationStuck("nothing is left that could happen")
            if after_step is not None:
                after_step()

    def run(
        self,
        node: NodeLoop,
        work: Coroutine[Any, Any, T],
        *,
        within_s: float,
        after_step: Callable[[], None] | None = None,
    ) -> T:
        """Runs `work` as a task of `node` to its end and returns what it returns."""
        task = node.create_task(work)
        self.run_until(task.done, within_s=within_s, after_step=after_step)
        return task.result()
