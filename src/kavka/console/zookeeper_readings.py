"""What ZooKeeper servers say of themselves: the four letter command `mntr`, on a connection of its own for each server.

Decides how long a server may take and how much of an answer is read. Must not know what is good or bad about it.

Source: ZooKeeper's administrator's guide, four letter words (`mntr` has to be in 4lw.commands.whitelist).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kavka.client.cluster import parse_bootstrap
from kavka.console.snapshot import Reading, ZooKeeperView

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
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(b"mntr")
                text = await _answer(reader)
            finally:
                writer.close()
    except (OSError, TimeoutError) as problem:
        return ZooKeeperView(address, reading=Reading(0, 0, str(problem) or f"no answer within {PATIENCE_S:.0f} s"))
    values = dict(line.split("\t", 1) for line in text.splitlines() if "\t" in line)
    if not values:
        return ZooKeeperView(address, reading=Reading(0, 0, text.strip()[:200] or "it closed the connection"))
    return ZooKeeperView(address, values.get("zk_server_state", ""), values, Reading(now_ms(), 0, ""))


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
