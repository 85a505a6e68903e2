"""Brokers: three of them in one cluster, whoever made them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from kavka.client.admin import Admin
from kavka.client.cluster import Cluster, parse_bootstrap
from kavka.client.settings import ClientSettings
from kavka.runtime.network.network import SocketNetwork

Result = TypeVar("Result")


class Brokers(NamedTuple):
    """A running cluster of brokers 1, 2 and 3."""

    bootstrap: str

    def port(self, broker_id: int) -> int:
        """Where the broker with this id listens."""
        return int(self.bootstrap.split(",")[broker_id - 1].rpartition(":")[2])

    def ask(self, work: Callable[[Admin], Awaitable[Result]]) -> Result:
        """What the work with an administrator returns."""

        async def session() -> Result:
            hosts = parse_bootstrap(self.bootstrap)
            async with Cluster(SocketNetwork(), hosts, ClientSettings(api_timeout_ms=20_000)) as cluster:
                return await work(Admin(cluster))

        return asyncio.run(asyncio.wait_for(session(), 60))
