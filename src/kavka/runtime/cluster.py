"""Cluster: several brokers in one process, on one event loop and one embedded ZooKeeper.

Decides in which order they start and stop, and when the cluster is ready: when each broker knows all the others. Must
not know what brokers say to each other; they do it over sockets, as brokers of several processes do.

What they share is the process: its memory, its processor core, and its end. A broker that must halt ends all of them,
so this is for machines where memory and start time count; `kavka up --processes` keeps brokers apart.

Start   ZooKeeper - all brokers together
Stop    one broker after the other, the controller last, each handing over its partitions to those that are left
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from kavka.config.broker import BrokerConfig
from kavka.logger import ROOT, Logger, LogLevels, levels, on_broker, process_levels
from kavka.runtime import process
from kavka.runtime.disk import LocalFileSystem
from kavka.runtime.loop import FileShares, raise_file_limit, share_files
from kavka.runtime.process import halt
from kavka.runtime.server import Prepare, Server, Started, Surroundings, log_recovery
from kavka.runtime.zookeeper.zookeeper_host import ZooKeeperHost, ZooKeeperPlace
from kavka.zookeeper.embedded import DEFAULT_SESSION_TIMEOUT_MS

logger = Logger(__name__)

Result = TypeVar("Result")

READY_TIMEOUT_S = 30.0
"""How long brokers may take to know each other. They serve meanwhile; after it the cluster is called ready all the
same, and a line says who is missing."""
LOOK_S = 0.002
"""How often it is looked whether they do."""


@dataclass(frozen=True, slots=True)
class ClusterStarted:
    """What a cluster tells when it serves. `zookeeper` is host:port where its ZooKeeper's port is open."""

    brokers: tuple[Started, ...]
    zookeeper: str | None
    seconds: float


class Cluster:
    """Brokers of one process. `start` and `stop` run on its event loop."""

    def __init__(
        self,
        configs: Sequence[BrokerConfig],
        place: ZooKeeperPlace,
        files: FileShares,
        *,
        prepare: Prepare | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        workers = self._workers = ThreadPoolExecutor(1, thread_name_prefix="kavka-zookeeper")
        filesystem = LocalFileSystem()

        async def run_blocking(work: Callable[[], None]) -> None:
            await loop.run_in_executor(workers, work)

        self._configs = tuple(configs)
        self._prepare = prepare
        self._files = FileShares(files.connections // len(configs), files.segments // len(configs))
        self._zookeeper = ZooKeeperHost(place, filesystem, run_blocking=run_blocking, rng=random.Random(), halt=halt)
        self._log_levels = {config.broker_id: LogLevels(process_levels.of(ROOT)) for config in configs}
        self.servers: dict[int, Server] = {}
        """By broker id; those that serve."""

    async def start(self) -> ClusterStarted:
        """Serves when it returns. Raises `KavkaError` after letting go of all that it had taken."""
        began = time.perf_counter()
        try:
            await self._zookeeper.start()
            await self._prepare_zookeeper()
            started = await self._start_brokers()
            await self._wait_until_they_know_each_other()
        except BaseException:
            for server in self.servers.values():
                server.abort()
            await self._zookeeper.stop()
            self._workers.shutdown(wait=False)
            raise
        return ClusterStarted(started, self._zookeeper.address, time.perf_counter() - began)

    async def stop(self) -> None:
        """Stops in order; every log is marked clean."""
        for broker_id in self._stop_order():
            server = self.servers.pop(broker_id)
            await self._as_broker(broker_id, server.stop(hand_over=bool(self.servers)))
        await self._zookeeper.stop()
        self._workers.shutdown()

    def reload(self) -> None:
        """Each broker looks at its certificates."""
        for broker_id, server in self.servers.items():
            token = on_broker.set(broker_id)
            try:
                server.reload()
            finally:
                on_broker.reset(token)

    async def _prepare_zookeeper(self) -> None:
        """What is done before any broker looks at it."""
        if self._prepare is not None:
            session = await self._zookeeper.embedded.connect(timeout_ms=DEFAULT_SESSION_TIMEOUT_MS)
            try:
                await self._prepare(session)
            finally:
                await session.close()

    async def _start_brokers(self) -> tuple[Started, ...]:
        """All together. Where one fails, the others' starts are given up, and it is raised why."""
        starts = [self._as_broker(config.broker_id, self._start_broker(config)) for config in self._configs]
        try:
            return tuple(await asyncio.gather(*starts))
        except BaseException:
            for start in starts:
                start.cancel()
            await asyncio.gather(*starts, return_exceptions=True)
            raise

    async def _start_broker(self, config: BrokerConfig) -> Started:
        server = Server(config, self._files, Surroundings(zookeeper=self._zookeeper.embedded))
        started = await server.start()
        self.servers[started.broker_id] = server
        return started

    def _as_broker(self, broker_id: int, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Carries out `work` so that its lines, and those of all tasks and timers that it makes, name the broker and
        have its levels."""
        context = contextvars.copy_context()
        context.run(on_broker.set, broker_id)
        context.run(levels.set, self._log_levels[broker_id])
        return asyncio.get_running_loop().create_task(work, context=context)

    async def _wait_until_they_know_each_other(self) -> None:
        wanted = set(self.servers)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            strangers = self._strangers(wanted)
            if not strangers:
                return
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(LOOK_S)
        for broker_id, others in strangers.items():
            logger.warning("broker does not know all others yet", broker=broker_id, missing=sorted(others))

    def _strangers(self, wanted: set[int]) -> dict[int, set[int]]:
        """For each broker those of `wanted` that it does not know."""
        known = {
            broker_id: {int(other.broker_id) for other in server.broker.metadata.brokers()}
            for broker_id, server in self.servers.items()
        }
        return {broker_id: wanted - others for broker_id, others in known.items() if wanted - others}

    def _stop_order(self) -> list[int]:
        controllers = {int(server.broker.metadata.controller_id) for server in self.servers.values()}
        return sorted(self.servers, key=lambda broker_id: (broker_id in controllers, -broker_id))


def run(
    configs: Sequence[BrokerConfig],
    place: ZooKeeperPlace,
    *,
    on_started: Callable[[ClusterStarted], None],
    prepare: Prepare | None = None,
) -> int:
    """Runs brokers in this process until a signal ends them; returns the exit status.

    `prepare` works in ZooKeeper before any of them does; `on_started` is called once they serve. Raises
    `KavkaError` where one cannot start.
    """
    files = share_files(raise_file_limit())

    def tell(started: ClusterStarted) -> None:
        on_started(started)
        for broker in started.brokers:
            log_recovery(broker.report)

    return process.run(lambda _end: Cluster(configs, place, files, prepare=prepare), tell)
