"""Places: what the members of any group are in a simulated cluster, and transactional producers.

A member is a place: after a crash another process takes it, with another client and another member id. Must not know
what a member does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from random import Random

    from kavka.simulator.host.scheduler import NodeLoop
    from kavka.simulator.world import World

Client = TypeVar("Client")


class Places(ABC, Generic[Client]):
    """The places of one group, and which process has each. `node` is what a member's process is called."""

    node: str

    def __init__(self, world: World) -> None:
        self.world = world
        self.loops: list[NodeLoop | None] = []
        self.clients: list[Client | None] = []
        self.leaving: list[bool] = []

    def __len__(self) -> int:
        return len(self.loops)

    def add(self) -> None:
        """Another place, taken at once."""
        self.loops.append(None)
        self.clients.append(None)
        self.leaving.append(False)
        self.join(len(self.loops) - 1)

    def loop(self, place: int) -> NodeLoop | None:
        """The process that has the place. None while it is empty."""
        return self.loops[place] if place < len(self.loops) else None

    def join(self, place: int) -> None:
        """Takes the place if it is empty."""
        if self.loops[place] is None:
            loop = self.loops[place] = self.world.clients.node(self.node)
            self.leaving[place] = False
            self.world.clients.watch(loop.create_task(self._live(place, loop, self.world.scheduler.new_random())))

    def leave(self, place: int) -> None:
        """The member ends what it does in order, and leaves, when it looks next."""
        self.leaving[place] = True

    def crash(self, place: int) -> None:
        loop = self.loops[place]
        if loop is not None:
            loop.kill()
            self.world.network.process_died(loop)
            self.empty(place)

    def empty(self, place: int) -> None:
        """Nobody has the place any more."""
        self.loops[place] = self.clients[place] = None

    def heal(self) -> None:
        """All places are taken, and no process is paused."""
        for place, loop in enumerate(self.loops):
            if loop is not None and loop.is_paused:
                loop.resume()
            self.leaving[place] = False
            self.join(place)

    @abstractmethod
    async def _live(self, place: int, loop: NodeLoop, random: Random) -> None:
        """What a member does until it leaves; then it has emptied its place."""
