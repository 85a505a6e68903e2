"""What ZooKeeper servers say of themselves: the four letter command `mntr`, on a connection of its own for each server.
Where that is not allowed, `srvr`, which is by default: it tells less, and is given mntr's names here.

Decides how long a server may take and how much of an answer is read. Must not know what is good or bad about it.

Source: ZooKeeper's administrator's guide, four letter words (`mntr` has to be in 4lw.commands.whitelist, where
`srvr` is alone by default).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kavka.client.cluster import parse_bootstrap
from kavka.observe.snapshot import Reading, ZooKeeperView

PATIENCE_S: Final = 2.0
MAX_ANSWER_BYTES: Final = 256 * 1024
MAX_SERVERS: Final = 32
DEFAULT_PORT: Final = 2181


async def read_zookeeper(addresses: str, now_ms: Callable[[], int]) -> tuple[ZooKeeperView, ...]:
    """Each server's answer, or why there is none."""
    servers = parse_bootstrap(addresses.partition("/")[0], default_port=DEFAULT_PORT)[:MAX_SERVERS]
    return tuple(await asyncio.gather(*(_ask(host, port, now_ms) for host, port in servers)))


async def _ask(host: str, port: int, now_ms: Callable[[], int]) -> ZooKeeperView:
    address = f"{host}:{port}"
    try:
        async with asyncio.timeout(PATIENCE_S):
            text = await _command(host, port, b"mntr")
            values = dict(line.split("\t", 1) for line in text.splitlines() if "\t" in line)
            if not values:
                values = parse_srvr(await _command(host, port, b"srvr"))
    except (OSError, TimeoutError) as problem:
        return ZooKeeperView(address, reading=Reading(0, 0, str(problem) or f"no answer within {PATIENCE_S:.0f} s"))
    if not values:
        return ZooKeeperView(address, reading=Reading(0, 0, text.strip()[:200] or "it closed the connection"))
    return ZooKeeperView(address, values.get("zk_server_state", ""), values, Reading(now_ms(), 0, ""))


async def _command(host: str, port: int, word: bytes) -> str:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(word)
        return await _answer(reader)
    finally:
        writer.close()


def parse_srvr(text: str) -> dict[str, str]:
    """The values of an answer to `srvr` under mntr's names; empty where it is none."""
    told = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    values = {name: told[own] for own, name in _SRVR.items() if own in told}
    parts = told.get("Latency min/avg/max", "").split("/")
    if len(parts) == len(_LATENCIES):
        values.update(zip(_LATENCIES, parts, strict=True))
    return values


_SRVR: Final = {
    "Mode": "zk_server_state",
    "Connections": "zk_num_alive_connections",
    "Outstanding": "zk_outstanding_requests",
    "Node count": "zk_znode_count",
}
_LATENCIES: Final = ("zk_min_latency", "zk_avg_latency", "zk_max_latency")


async def _answer(reader: asyncio.StreamReader) -> str:
    """All until the server closes the connection, up to the bound."""
    parts, size = [], 0
    while size < MAX_ANSWER_BYTES:
        part = await reader.read(MAX_ANSWER_BYTES - size)
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts).decode("utf-8", "replace")
