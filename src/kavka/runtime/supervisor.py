"""Supervisor: a ZooKeeper and brokers as processes of their own, started, watched and stopped together.

Decides in which order they start and stop, when the cluster is ready, and what is said of one that dies. It starts none
of them again: a broker that died has a reason, and its partitions have other replicas. Must not know what a broker is
beyond its command, its port and its answer to Metadata.

Start   ZooKeeper and the brokers at once (they wait for it) - ready when each broker answers Metadata with all of them
Stop    one broker after the other, the controller last, each handing over its partitions; then ZooKeeper
Death   of one: a line on standard error, the rest goes on. Of the last one: this process ends with status 1. Of this
        process, even by kill -9: the kernel kills them all (PR_SET_PDEATHSIG)

I1  No child outlives this process, and none is ended by anything but its pid.
I2  A signal of the terminal (Ctrl-C) reaches this process only, so that they end in order.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kavka.errors import ConfigError, ConnectionFailed, KavkaError
from kavka.logger import Logger
from kavka.network import Network
from kavka.protocol.api import ApiKey, RequestHeader, encode_request_header
from kavka.protocol.codec import decode, encode
from kavka.protocol.messages import MetadataRequest, MetadataResponse
from kavka.runtime import process
from kavka.runtime.network.network import SocketNetwork

logger = Logger(__name__)

START_TIMEOUT_S = 60.0
"""How long all of them may take until they know each other."""
STOP_TIMEOUT_S = 60.0
"""How long one of them may take to end in order; then it is killed."""
ALONE_TIMEOUT_S = 5.0
"""How long the last broker may take to learn that the others are gone."""
LOOK_S = 0.01
OUTPUT_BYTES = 65_536
"""Of a process's output, read at once."""
METADATA_VERSION = 9
PR_SET_PDEATHSIG = 1
"""prctl(2)"""


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """A process to start: its name in messages, its command, and where it answers."""

    name: str
    command: tuple[str, ...]
    host: str
    port: int
    environment: Mapping[str, str] | None = None
    """Variables that it has beside those of this process."""
    again: str = ""
    """The command with which a user starts it again."""


@dataclass(frozen=True, slots=True)
class SupervisorStarted:
    """What a supervisor tells when all of them serve: the pids, by the plans' names."""

    cluster_id: str
    pids: dict[str, int]
    seconds: float


class Child:
    """A process that was started here. `on_exit` is told of its end, with what Popen calls the return code; `on_output`
    of what it prints, in pieces. Making one raises OSError where none can be started."""

    def __init__(
        self, plan: ChildPlan, on_exit: Callable[[Child], None], on_output: Callable[[Child, bytes], None] | None = None
    ) -> None:
        self.plan = plan
        self._on_exit = on_exit
        self._on_output = on_output
        self._process = subprocess.Popen(
            plan.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if on_output is None else subprocess.PIPE,
            start_new_session=True,  # I2
            preexec_fn=_die_with(os.getpid()),
            env=None if plan.environment is None else {**os.environ, **plan.environment},
        )
        self.pid = self._process.pid
        self.ended = asyncio.Event()
        self._was_asked = False
        self._loop = asyncio.get_running_loop()
        try:
            self._descriptor = os.pidfd_open(self.pid)
        except OSError:  # Too many files are open: what cannot be watched must not run.
            self._process.kill()
            self._process.communicate()
            raise
        self._loop.add_reader(self._descriptor, self._on_end)
        self._output = self._process.stdout
        if self._output is not None:
            os.set_blocking(self._output.fileno(), False)
            self._loop.add_reader(self._output.fileno(), self._on_readable)

    @property
    def is_running(self) -> bool:
        return not self.ended.is_set()

    @property
    def status(self) -> str:
        """How it ended, in words."""
        code = self._process.returncode
        return f"by signal {signal.Signals(-code).name}" if code < 0 else f"with status {code}"

    async def stop(self) -> None:
        """Asks it to end, once (a second signal would end it at once), and waits; kills it where it takes too long."""
        if not self.is_running:
            return
        if not self._was_asked:
            self._was_asked = True
            self._process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self.ended.wait()
        except TimeoutError:
            logger.error("process killed", name=self.plan.name, pid=self.pid, why=f"no end in {STOP_TIMEOUT_S:.0f} s")
            self.kill()

    def hang_up(self) -> None:
        """Tells it to read its files again (SIGHUP)."""
        if self.is_running:
            self._process.send_signal(signal.SIGHUP)

    def kill(self) -> None:
        """Kills it, and reaps it."""
        if self.is_running:
            self._process.kill()
            self._process.wait()
            self._forget()

    def _on_end(self) -> None:
        self._process.wait()
        self._forget()
        self._on_exit(self)

    def _on_readable(self) -> None:
        assert self._output is not None, "it is watched"
        try:
            piece = os.read(self._output.fileno(), OUTPUT_BYTES)
        except BlockingIOError:
            return
        if not piece:
            self._close_output()
        elif self._on_output is not None:
            self._on_output(self, piece)

    def _close_output(self) -> None:
        if self._output is not None:
            self._loop.remove_reader(self._output.fileno())
            self._output.close()
            self._output = None

    def _forget(self) -> None:
        self._close_output()
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self.ended.set()


class Supervisor:
    """`start` and `stop` run on the event loop. `end` is called with an exit status when nothing is left to watch."""

    def __init__(self, zookeeper: ChildPlan, brokers: Sequence[ChildPlan], end: Callable[[int], None]) -> None:
        self._zookeeper_plan = zookeeper
        self._broker_plans = tuple(brokers)
        self._end = end
        self._network: Network = SocketNetwork()
        self._zookeeper: Child | None = None
        self._brokers: list[Child] = []
        self._stopping = False

    async def start(self) -> SupervisorStarted:
        """Returns when all serve and know each other. Raises `KavkaError`, having ended those that had started."""
        began = time.perf_counter()
        try:
            self._zookeeper = Child(self._zookeeper_plan, self._on_exit)
            self._brokers = [Child(plan, self._on_exit) for plan in self._broker_plans]
            answers = await asyncio.gather(*(self._ready(child) for child in self._brokers))
        except BaseException:
            self._stopping = True
            for child in self._children():
                child.kill()
            raise
        pids = {child.plan.name: child.pid for child in self._children()}
        return SupervisorStarted(str(answers[0].cluster_id), pids, time.perf_counter() - began)

    async def stop(self) -> None:
        """Stops them in order."""
        self._stopping = True
        controllers = await self._controllers()
        in_order = sorted(self._brokers, key=lambda child: child.plan.port in controllers)
        for child in in_order:
            if child is in_order[-1]:
                await self._until_alone(child)
            await child.stop()
        if self._zookeeper is not None:
            await self._zookeeper.stop()

    def reload(self) -> None:
        """Each broker looks at its certificates."""
        for child in self._brokers:
            child.hang_up()

    def _children(self) -> list[Child]:
        return [*self._brokers, *([] if self._zookeeper is None else [self._zookeeper])]

    def _on_exit(self, child: Child) -> None:
        if self._stopping:
            return
        again = f"; `{child.plan.again}` starts it again" if child.plan.again else ""
        logger.error(
            "process ended",
            name=child.plan.name,
            pid=child.pid,
            how=child.status,
            next_step=f"its own log lines, if any, are above; the others go on{again}",
        )
        if not any(other.is_running for other in self._children()):
            self._end(process.FAILED)

    # -- what they answer

    async def _ready(self, child: Child) -> MetadataResponse:
        """The first Metadata answer that names all brokers and a controller. Raises ConfigError where it dies first."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            answer = await self._metadata(child.plan)
            if answer is not None and len(answer.brokers) >= len(self._brokers) and answer.controller_id >= 0:
                return answer
            for one in self._children():
                if not one.is_running:
                    raise ConfigError(f"{one.plan.name} (process {one.pid}) ended {one.status} before it was ready")
            if time.monotonic() > deadline:
                raise ConfigError(f"{child.plan.name} (process {child.pid}) was not ready in {START_TIMEOUT_S:.0f} s")
            await asyncio.sleep(LOOK_S)

    async def _until_alone(self, child: Child) -> None:
        """The last one is to know that the others are gone: it would warn that it finds nobody to hand over to."""
        deadline = time.monotonic() + ALONE_TIMEOUT_S
        while child.is_running and time.monotonic() < deadline:
            answer = await self._metadata(child.plan)
            if answer is None or len(answer.brokers) <= 1:
                return
            await asyncio.sleep(LOOK_S)

    async def _controllers(self) -> set[int]:
        """Ports of the brokers that any of them takes for the controller."""
        ports = set()
        for child in self._brokers:
            answer = await self._metadata(child.plan) if child.is_running else None
            if answer is not None:
                ports |= {broker.port for broker in answer.brokers if broker.node_id == answer.controller_id}
        return ports

    async def _metadata(self, plan: ChildPlan) -> MetadataResponse | None:
        """What a broker knows of the cluster; None where it does not answer."""
        try:
            async with asyncio.timeout(1.0):
                connection = await self._network.connect(plan.host, plan.port)
                try:
                    header = RequestHeader(ApiKey.METADATA, METADATA_VERSION, 1, "kavka-supervisor")
                    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
                    connection.send_frame([encode_request_header(header), encode(request, METADATA_VERSION)])
                    frame = await connection.receive_frame()
                finally:
                    connection.close()
        except (ConnectionFailed, TimeoutError):
            return None
        try:
            return decode(MetadataResponse, memoryview(frame)[ANSWER_HEADER_BYTES:], METADATA_VERSION)
        except KavkaError:
            return None


ANSWER_HEADER_BYTES = 5
"""A flexible answer begins with its correlation id and an empty set of tagged fields."""


def run(zookeeper: ChildPlan, brokers: Sequence[ChildPlan], *, on_started: Callable[[SupervisorStarted], None]) -> int:
    """Runs them until a signal ends them; returns the exit status. Raises `KavkaError` where one cannot start."""
    return process.run(lambda end: Supervisor(zookeeper, brokers, end), on_started)


def _die_with(parent: int) -> Callable[[], None]:
    """What a child does before it becomes its program: the kernel kills it when `parent` is gone (I1)."""
    import ctypes

    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # It died before it was asked for.
            os._exit(process.FAILED)

    return ask
