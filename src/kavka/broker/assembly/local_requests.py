"""LocalRequests: requests that this broker sends to itself, as its own controller or as its controller's client.

The controller and the links are made first, and need it. The broker, whose handlers answer, is made last.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kavka.broker.api_table import SERVED
from kavka.broker.assembly.tasks import Tasks
from kavka.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from kavka.broker.assembly.broker import Broker


class LocalRequests:
    """Requests are answered from `open` on; none is sent before."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._broker: Broker | None = None

    def open(self, broker: Broker) -> None:
        self._broker = broker

    async def answer(self, key: ApiKey, version: int, message: Any) -> Any:
        """What the handler of the API answers to a request that does not come over the network."""
        from kavka.broker.api.loader import local_answer

        assert self._broker is not None, "a request was sent before the broker was made"
        return await local_answer(key)(self._broker, message, version)

    async def deliver(self, key: ApiKey, message: Any) -> Any:
        """What this broker answers to its own controller.

        In a task of its own: a controller's term that ends meanwhile leaves no message half carried out, and a bug ends
        the broker.
        """
        return await asyncio.shield(self._tasks.run(self.answer(key, SERVED[key].max_version, message)))
