"""ZnodeTrees: the znodes of the clusters whose ZooKeeper is in the console's settings, read and never written.

Decides how long a session is kept, which znodes' data is not shown, and what data looks like. One session for each
cluster, begun when somebody looks and ended when nobody has for IDLE_S, or the console stops.

    I1  no operation here writes; a chroot in the address is the root of what is shown, and is never made
    I2  data of sensitive paths is not read, wherever a cluster has its chroot: credentials and tokens stay in ZooKeeper
    I3  at most MAX_DATA bytes and MAX_CHILDREN names are shown
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kavka.errors import ConnectionFailed, KavkaError
from kavka.runtime.network.network import SocketNetwork
from kavka.zookeeper.client import ZooKeeperClient
from kavka.zookeeper.decide.connect_string import parse_connect_string
from kavka.zookeeper.port import NoNode, Rejected, SessionExpired
from kavka.zookeeper.znode_acls import SENSITIVE

if TYPE_CHECKING:
    from kavka.zookeeper.port import Stat

SESSION_TIMEOUT_MS: Final = 15_000
CONNECTION_TIMEOUT_MS: Final = 4_000
PATIENCE_S: Final = 5.0
IDLE_S: Final = 120.0
MAX_DATA: Final = 64 * 1024
MAX_CHILDREN: Final = 2_000
_MEANINGS: Final = {
    "/brokers/ids": "Each live broker has an ephemeral node here. The node disappears when the broker's session ends.",
    "/brokers/topics": "Topics, with the replicas of each partition.",
    "/controller": "The controller: an ephemeral node, which belongs to whoever creates it first.",
    "/controller_epoch": "Counts the controllers elected so far. Brokers refuse requests of an earlier epoch.",
    "/admin/reassign_partitions": "A request to move replicas (as before KIP-455).",
    "/admin/delete_topics": "Topics waiting to be deleted.",
    "/isr_change_notification": "Brokers notify the controller here of ISR changes (before KIP-497).",
    "/config": "Settings of topics, brokers, clients and users.",
    "/cluster/id": "The cluster's identity.",
    "/feature": "Feature levels in force.",
}


@dataclass(frozen=True, slots=True)
class Znode:
    """One node. `text` is its data as text, '' where it has none; `hidden` where it is kept back."""

    path: str
    stat: Stat
    text: str
    is_binary: bool
    hidden: bool
    children: tuple[str, ...]
    more_children: int
    meaning: str


class ZnodeTrees:
    """The trees of all clusters. Of one event loop."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[ZooKeeperClient, str]] = {}
        self._used_s: dict[str, float] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._sweeper: asyncio.Task[None] | None = None

    async def read(self, address: str, path: str) -> Znode | None:
        """The node at `path` of the ZooKeeper at `address`; None where there is none. Raises KavkaError."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                client, chroot = await self._session(address)
                return await _read(client, chroot, path)
        except TimeoutError as silent:
            await self._drop(address)
            raise ConnectionFailed(f"ZooKeeper at {address} did not answer within {PATIENCE_S:.0f} s") from silent
        except NoNode:
            return None
        except SessionExpired:
            await self._drop(address)
            raise

    async def stop(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        for address in list(self._open):
            await self._drop(address)

    async def _session(self, address: str) -> tuple[ZooKeeperClient, str]:
        self._used_s[address] = time.monotonic()
        async with self._locks.setdefault(address, asyncio.Lock()):
            if address not in self._open:
                parsed = parse_connect_string(address)
                client = await ZooKeeperClient.connect(
                    SocketNetwork(),
                    address.partition("/")[0],
                    session_timeout_ms=SESSION_TIMEOUT_MS,
                    connection_timeout_ms=CONNECTION_TIMEOUT_MS,
                    rng=random.Random(),
                )
                self._open[address] = client, parsed.chroot
                if self._sweeper is None or self._sweeper.done():
                    self._sweeper = asyncio.create_task(self._sweep(), name="znode trees")
        return self._open[address]

    async def _sweep(self) -> None:
        while self._open:
            await asyncio.sleep(IDLE_S / 4)
            for address, used_s in list(self._used_s.items()):
                if time.monotonic() - used_s > IDLE_S:
                    await self._drop(address)

    async def _drop(self, address: str) -> None:
        self._used_s.pop(address, None)
        found = self._open.pop(address, None)
        if found is not None:
            try:
                async with asyncio.timeout(1):
                    await found[0].close()
            except (TimeoutError, KavkaError):
                pass  # The server ends the session by itself.


async def _read(client: ZooKeeperClient, chroot: str, path: str) -> Znode:
    full = (chroot + path).rstrip("/") or "/"
    hidden = is_secret(full)
    if hidden:
        stat = await client.exists(full)
        if stat is None:
            raise NoNode(full)
        data: bytes | None = None
    else:
        data, stat = await client.get(full)
    try:
        children = sorted(await client.children(full), key=_order)
    except Rejected:
        children = []
    text, is_binary = readable(data or b"")
    return Znode(
        path,
        stat,
        text,
        is_binary,
        hidden and stat.data_length > 0,
        tuple(children[:MAX_CHILDREN]),
        max(len(children) - MAX_CHILDREN, 0),
        meaning(path),
    )


def is_secret(path: str) -> bool:
    """Whether a node's data is kept back: it is a sensitive one, or below one, of a cluster at any chroot."""
    return any(f"{sensitive}/" in f"{path}/" for sensitive in SENSITIVE)


def _order(name: str) -> tuple[int, int, str]:
    return (0, int(name), "") if name.isdecimal() and len(name) < 19 else (1, 0, name)


def readable(data: bytes) -> tuple[str, bool]:
    """Data as text, JSON laid out; bytes that are no text as hexadecimal numbers, with True."""
    try:
        text = data[:MAX_DATA].decode()
    except UnicodeDecodeError:
        return data[:1024].hex(" "), True
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False), False
    except (ValueError, RecursionError):
        return text, False


def meaning(path: str) -> str:
    """What Kafka keeps there; '' where nothing is known of it."""
    if path.startswith("/brokers/topics/") and path.endswith("/state"):
        return "Leader, leader epoch and ISR of a partition. This is what counts, whatever a broker believes."
    return _MEANINGS.get(path, "")
