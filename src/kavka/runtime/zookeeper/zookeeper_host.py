"""ZooKeeperHost: an embedded ZooKeeper inside a process that has brokers, for one of them or for all.

Decides where its tree is kept, that nobody else uses that directory, and whether its port is open to others. Must not
know what brokers write into it.

I1  A directory belongs to one process: it is locked before anything of it is read, since a second server would append
    to the log of the first, and close its sessions.
"""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kavka.config.broker import BrokerConfig
from kavka.filesystem import File, FileSystem, make_durable_directory
from kavka.runtime.process import wall_ms
from kavka.zookeeper.database import Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.embedded import DEFAULT_TICK_MS, EmbeddedZooKeeper

if TYPE_CHECKING:
    from kavka.runtime.zookeeper.zookeeper_server import ZooKeeperServer

ZOOKEEPER_LOCK = ".zookeeper.lock"
"""Held while the directory is in use; not `.lock`, so that it may lie in a log directory."""


@dataclass(frozen=True, slots=True)
class ZooKeeperPlace:
    """Where an embedded ZooKeeper keeps its tree, how it writes, and (`port` not None) where others reach it."""

    directory: str
    sync: SyncPolicy = SyncPolicy.ALWAYS
    host: str = "127.0.0.1"
    port: int | None = None
    tick_ms: int = DEFAULT_TICK_MS

    @classmethod
    def of(cls, config: BrokerConfig) -> ZooKeeperPlace:
        """The place that a broker's settings name: as set, else beside the first log directory."""
        directory = config.kavka_zookeeper_data_dir or (
            f"{os.path.dirname(os.path.abspath(config.log_directories[0]))}/kavka-zookeeper"
        )
        return cls(directory, SyncPolicy(config.kavka_zookeeper_sync))


class ZooKeeperHost:
    """An embedded ZooKeeper with its directory. `embedded` and `address` are there after `start`."""

    def __init__(
        self,
        place: ZooKeeperPlace,
        filesystem: FileSystem,
        *,
        run_blocking: Callable[[Callable[[], None]], Awaitable[None]],
        rng: random.Random,
        halt: Callable[[str], None],
    ) -> None:
        self._place = place
        self._filesystem = filesystem
        self._run_blocking = run_blocking
        self._rng = rng
        self._halt = halt
        self._lock: File | None = None
        self._server: ZooKeeperServer | None = None
        self._embedded: EmbeddedZooKeeper | None = None

    @property
    def embedded(self) -> EmbeddedZooKeeper:
        assert self._embedded is not None, "the ZooKeeper was not started"
        return self._embedded

    @property
    def address(self) -> str | None:
        """host:port where others reach it; None where its port is closed."""
        return None if self._server is None else f"{self._server.host}:{self._server.port}"

    async def start(self) -> None:
        """Opens the tree. Sessions of the process before are gone with it, and so are their ephemeral nodes.

        Raises StorageError (LogDirectoryLocked) and AddressUnavailable; `stop` then.
        """
        place = self._place
        make_durable_directory(self._filesystem, place.directory)
        self._lock = self._filesystem.lock(f"{place.directory}/{ZOOKEEPER_LOCK}")
        self._embedded = EmbeddedZooKeeper(
            Database.open(self._filesystem, place.directory, DatabaseSettings(sync=place.sync)),
            now_ms=wall_ms,
            rng=self._rng,
            run_blocking=self._run_blocking,
            tick_ms=place.tick_ms,
            on_failure=lambda failure: self._halt(f"the embedded ZooKeeper's disk failed: {failure}"),
        )
        await self._embedded.start(close_former_sessions=True)
        if place.port is not None:
            from kavka.runtime.zookeeper.zookeeper_server import (  # late: few open it
                ZooKeeperServer,
                ZooKeeperServerSettings,
            )

            server = ZooKeeperServer(
                self._embedded,
                directory=place.directory,
                settings=ZooKeeperServerSettings(tick_ms=place.tick_ms),
                on_bug=lambda bug: self._halt(f"an invariant is broken: {bug}"),
            )
            await server.listen(place.host, place.port)
            self._server = server

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop()
        if self._embedded is not None:
            await self._embedded.stop()
        if self._lock is not None:
            self._lock.close()
