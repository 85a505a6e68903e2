"""FirstMetadata: how long a broker that has just started lets clients wait that ask about the cluster.

Until the controller has sent it the cluster's metadata, a broker knows of no brokers and no topics, and a client that
is answered so may believe it.
"""

from __future__ import annotations

import asyncio
from typing import Final

METADATA_PATIENCE_S: Final = 2.0
"""How long after its start a broker lets clients wait that ask about a cluster of which it knows nothing yet."""


class FirstMetadata:
    """`informed` is set when the controller has sent the cluster's metadata."""

    def __init__(self, informed: asyncio.Event) -> None:
        self._informed = informed
        self._patient_until = 0.0

    def on_started(self) -> None:
        """The broker has started: from now on clients wait, for METADATA_PATIENCE_S at most."""
        self._patient_until = asyncio.get_running_loop().time() + METADATA_PATIENCE_S

    @property
    def is_there(self) -> bool:
        """Whether the broker was informed of the cluster, or had time enough to be."""
        return self._informed.is_set() or asyncio.get_running_loop().time() >= self._patient_until

    async def wait(self) -> None:
        """Returns when `is_there`."""
        await self.wait_for(self._patient_until - asyncio.get_running_loop().time())

    async def wait_for(self, timeout_s: float) -> bool:
        """Whether the broker was informed within `timeout_s`; until then it can name nobody to clients."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._informed.wait()
        except TimeoutError:
            return False
        return True
