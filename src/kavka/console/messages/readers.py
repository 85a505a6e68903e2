"""Readers: who reads the messages of each cluster, for all pages: so that bounds on reading hold for them together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from kavka.console.access.counted_stream import StreamCount
from kavka.console.messages.apart import Apart
from kavka.console.messages.search import Messages
from kavka.schema_registry.client import SchemaRegistry

if TYPE_CHECKING:
    from kavka.console.clusters import ClusterWatch

TAILS_AT_ONCE: Final = 20
"""Open live tails of the whole console: each reads its topic by itself."""
TAILS_OF_ONE: Final = 10
"""Of one visitor."""


class Readers:
    """The readers of clusters' messages, one each, and how many tails are open."""

    def __init__(self) -> None:
        self._of: WeakKeyDictionary[ClusterWatch, Messages] = WeakKeyDictionary()
        self.tails = StreamCount(TAILS_AT_ONCE, TAILS_OF_ONE)
        self._apart = Apart()

    def of(self, watch: ClusterWatch) -> Messages:
        found = self._of.get(watch)
        if found is None:
            address = watch.settings.schema_registry
            registry = SchemaRegistry(address) if address else None
            found = self._of[watch] = Messages(watch.cluster, registry, apart=self._apart)
        return found

    async def close(self) -> None:
        await self._apart.close()
