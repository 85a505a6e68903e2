"""Connections of one Python worker process, kept from task to task.

Spark reuses its Python workers, so a task that finds its cluster here saves connecting, negotiating and asking for
metadata: most of what a small micro-batch would take. Decides how long a connection is kept, and gets coroutines onto
the loop. It must not know what they do.

Invariants
  I1  A process has one event loop for this, in one daemon thread. Spark's own thread never runs it: it decodes and
      writes rows while the loop receives the next ones.
  I2  At most `KEPT_CLUSTERS` clusters stay connected; the one that was longest unused is closed for another.
  I3  A process that was forked inherits nothing: a socket that two processes read from gives both of them rubbish.
  I4  A coroutine ends with the call that waits for it: where Spark's thread is interrupted, it is cancelled.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import OrderedDict
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from kavka.client.cluster import Cluster, TopicMetadata
from kavka.model import TopicPartition
from kavka_spark.first_contact import first_contact
from kavka_spark.options import ConnectionOptions

Result = TypeVar("Result")

KEPT_CLUSTERS = 8
"""Clusters, or ways to reach one, that a worker process stays connected to."""
KEPT_SIZES = 10_000
"""Partitions whose records' size a worker process remembers."""
CLOSE_TIMEOUT_S = 5.0


class WorkerConnection:
    """A connected cluster, and the loop on which its coroutines run."""

    def __init__(self, cluster: Cluster, loop: asyncio.AbstractEventLoop) -> None:
        self.cluster = cluster
        """Use it only in coroutines that are passed to `run` or `submit`. `known_topic` looks at it."""
        self._loop = loop
        self._sizes: OrderedDict[TopicPartition, float] = OrderedDict()
        """Bytes of log per offset, as measured by the readers of this process."""

    def learn_size(self, partition: TopicPartition, bytes_per_offset: float) -> None:
        """Remembers it for the next task that reads this partition in this process."""
        self._sizes[partition] = bytes_per_offset
        self._sizes.move_to_end(partition)
        if len(self._sizes) > KEPT_SIZES:
            self._sizes.popitem(last=False)

    def size(self, partition: TopicPartition) -> float | None:
        """Bytes per offset, if a task of this process has read this partition."""
        return self._sizes.get(partition)

    def known_topic(self, name: str) -> TopicMetadata | None:
        """What the cluster knows of the topic without asking, and without a turn of the loop's thread: two changes of
        threads for each task."""
        return self.cluster.known_topic(name, now_s=self._loop.time())

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Runs the coroutine on the loop's thread, waits, and raises what it raises."""
        future = self.submit(work)
        try:
            return future.result()
        finally:
            future.cancel()

    def submit(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Starts the coroutine on the loop's thread. The caller must take its result or cancel it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)


class _Connections:
    """The connections of this process."""

    def __init__(self) -> None:
        self.process_id = os.getpid()
        self.lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._kept: OrderedDict[ConnectionOptions, WorkerConnection] = OrderedDict()
        threading.Thread(target=self._loop.run_forever, name="kavka connections", daemon=True).start()

    def get(self, options: ConnectionOptions, *, begins: bool) -> WorkerConnection:
        found = self._kept.get(options)
        if found is None:
            found = self._open(options, begins=begins)
            self._kept[options] = found
        self._kept.move_to_end(options)
        while len(self._kept) > KEPT_CLUSTERS:
            _, unused = self._kept.popitem(last=False)
            asyncio.run_coroutine_threadsafe(unused.cluster.close(), self._loop).result(CLOSE_TIMEOUT_S)
        return found

    def _open(self, options: ConnectionOptions, *, begins: bool) -> WorkerConnection:
        from kavka.runtime.network.client_network import client_network

        network = client_network(options.tls, connect_timeout_s=options.client.connect_timeout_ms / 1000)
        cluster = Cluster(network, options.bootstrap, options.client)
        connection = WorkerConnection(cluster, self._loop)
        try:
            connection.run(first_contact(cluster, options, begins=begins))
        except BaseException:
            connection.run(cluster.close())
            raise
        return connection


_connections: _Connections | None = None
_making = threading.Lock()


def connection(options: ConnectionOptions, *, begins: bool = False) -> WorkerConnection:
    """The connection to that cluster. Connects if this process is not connected yet: for a query that `begins`, or for
    a task of one that runs and waits longer (`first_contact`).

    Raises `UnreachableError` where no broker answers in time, `ConfigError` for certificates that cannot be used,
    `RequestError` for a wrong password.
    """
    global _connections
    with _making:
        if _connections is None or _connections.process_id != os.getpid():
            _connections = _Connections()
        current = _connections
    with current.lock:
        return current.get(options, begins=begins)
