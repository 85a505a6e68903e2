"""A KDC that does not answer: connections give up in time, and nothing else in the process waits for it."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kavka.client.connection import BrokerConnection
from kavka.client.security import SaslMechanism, SaslSettings
from kavka.client.settings import ClientSettings
from kavka.errors import ConnectionFailed
from tests.unit.client.fake_cluster import FakeCluster


class NoTickets:
    """Kerberos' library, while no KDC answers."""

    def __init__(self) -> None:
        self.gives_up = threading.Event()

    def prepare(self) -> None:
        self.gives_up.wait(30)


def test_what_else_has_threads_does_not_wait_for_a_kdc_that_does_not_answer() -> None:
    tickets: Any = NoTickets()
    sasl = SaslSettings(mechanism=SaslMechanism.GSSAPI, username="", tickets=tickets)
    settings = ClientSettings(sasl=sasl, connect_timeout_ms=100)

    async def scenario() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        try:
            tries = [BrokerConnection.open(FakeCluster(), "fake", 9001, settings) for _ in range(8)]
            for failed in await asyncio.gather(*tries, return_exceptions=True):
                with pytest.raises(ConnectionFailed, match="Kerberos gave no ticket"):
                    raise failed  # type: ignore[misc]  # it is one
            async with asyncio.timeout(20):
                assert await asyncio.to_thread(lambda: "a name was looked up") == "a name was looked up"
        finally:
            tickets.gives_up.set()

    asyncio.run(scenario())
