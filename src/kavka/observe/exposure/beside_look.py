"""What stands beside the brokers: ZooKeeper as a client without identity sees it, and the address of metrics.

Decides which znodes are looked at. Reads names, access control lists and the brokers' registrations; the content of
a node with secrets is never read. Must not judge.

I1  Nothing is written. The address is taken without its chroot, which connecting would make.
"""

from __future__ import annotations

import asyncio
import json
import random
from ipaddress import ip_address
from typing import Final

from kavka.errors import ConnectionFailed
from kavka.network import Network
from kavka.observe.broker_metrics import ScrapeFailed, http_get
from kavka.observe.exposure.sightings import Door, MetricsSighting, ZooKeeperSighting
from kavka.zookeeper.client import ZooKeeperClient
from kavka.zookeeper.port import AclList, NoAuth, NoNode, Permission, Rejected

PATIENCE_S: Final = 5.0
SESSION_MS: Final = 6_000
MAX_REGISTERED: Final = 100
SECRETS: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""Kafka's sensitive roots (ZkData.SensitiveRootPaths): passwords can be guessed from what is there."""
ORDERS: Final = ("/brokers", "/config", "/controller_epoch", "/admin", "/kafka-acl", "/kafka-acl-changes", *SECRETS)
"""Who may write there commands the cluster."""


async def look_at_zookeeper(network: Network, connect_string: str) -> ZooKeeperSighting:
    """Raises KavkaError where ZooKeeper cannot be asked."""
    address, slash, chroot = connect_string.partition("/")
    root = f"/{chroot.rstrip('/')}" if slash and chroot.rstrip("/") else ""
    try:
        async with asyncio.timeout(PATIENCE_S):
            client = await ZooKeeperClient.connect(
                network,
                address,
                session_timeout_ms=SESSION_MS,
                connection_timeout_ms=int(PATIENCE_S * 1000),
                rng=random.Random(),
            )
    except TimeoutError as late:
        raise ConnectionFailed(f"ZooKeeper at {address} did not answer within {PATIENCE_S:.0f} s") from late
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await _look(client, address, root)
    except TimeoutError as late:
        raise ConnectionFailed(f"ZooKeeper at {address} did not answer within {PATIENCE_S:.0f} s") from late
    finally:
        await client.close()


async def _look(client: ZooKeeperClient, address: str, root: str) -> ZooKeeperSighting:
    try:
        await client.children(root or "/")
    except (NoAuth, NoNode) as refused:
        if isinstance(refused, NoNode):
            raise
        return ZooKeeperSighting(address, Door.CLOSED)
    readable = [path for path in SECRETS if _may(await _list(client, root + path), Permission.READ)]
    for user in await _names(client, f"{root}/config/users"):
        if _may(await _list(client, f"{root}/config/users/{user}"), Permission.READ):
            readable.append(f"/config/users/{user}")
            break  # One is enough to say it, and names of users are not to be spread.
    writes = Permission.WRITE | Permission.CREATE | Permission.ADMIN
    writable = [path for path in ORDERS if _may(await _list(client, root + path), writes)]
    listeners: list[str] = []
    for broker in (await _names(client, f"{root}/brokers/ids"))[:MAX_REGISTERED]:
        listeners += await _registered(client, f"{root}/brokers/ids/{broker}")
    return ZooKeeperSighting(address, Door.OPEN, tuple(readable), tuple(writable), tuple(dict.fromkeys(listeners)))


async def _list(client: ZooKeeperClient, path: str) -> AclList:
    try:
        return (await client.get_acl(path))[0]
    except Rejected:
        return ()


async def _names(client: ZooKeeperClient, path: str) -> list[str]:
    try:
        return sorted(await client.children(path))
    except Rejected:
        return []


async def _registered(client: ZooKeeperClient, path: str) -> list[str]:
    """The endpoints that a broker registered, with the protocol of each in place of its name."""
    try:
        data, _ = await client.get(path)
        said = json.loads(data or b"{}")
        protocols = said.get("listener_security_protocol_map", {})
        names = [str(each) for each in said.get("endpoints", ())]
        return [f"{protocols.get(name, name)}://{rest}" for name, _, rest in (each.partition("://") for each in names)]
    except (Rejected, ValueError, AttributeError, TypeError):
        return []


def _may(acl: AclList, permissions: int) -> bool:
    return any(entry.scheme == "world" and entry.permissions & permissions for entry in acl)


async def look_at_metrics(address: str) -> MetricsSighting | None:
    """None where the address does not show metrics to this client. Raises ConnectionFailed where it says nothing."""
    url = address if address.startswith("http") else f"http://{address}/metrics"
    try:
        async with asyncio.timeout(PATIENCE_S):
            await http_get(url)
    except ScrapeFailed:
        return None
    except ConnectionRefusedError:
        return None
    except (OSError, TimeoutError) as problem:
        raise ConnectionFailed(f"{url}: {str(problem) or 'no answer in time'}") from problem
    host = url.split("://", 1)[1].split("/", 1)[0].rsplit(":", 1)[0].strip("[]")
    return MetricsSighting(url, is_loopback(host))


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
