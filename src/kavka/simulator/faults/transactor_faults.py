"""Faults of transactional producers.

transactor crashes    its process dies, perhaps in the middle of a transaction; another takes its transactional id
transactor pauses     it does nothing for a while, sometimes longer than its transaction may last; sometimes another
                      takes its transactional id meanwhile, and it wakes up a zombie
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.simulator.faults.fault_group import FaultGroup

if TYPE_CHECKING:
    from collections.abc import Collection

    from kavka.simulator.faults.fault_group import Arguments
    from kavka.simulator.host.scheduler import NodeLoop

KINDS: Final = ("transactor crashes", "transactor pauses")


class TransactorFaults(FaultGroup):
    """Crashes and pauses of transactional producers."""

    def heal(self, brokers: Collection[int]) -> None:
        self.world.transactors.heal()

    def _draw(self) -> dict[str, int] | None:
        count = len(self.world.transactors)
        return {"place": int(self.random.random() * count), "ms": self.draw_ms(0.1, 20.0)} if count else None

    def _awake(self, place: int) -> NodeLoop | None:
        loop = self.world.transactors.loop(place)
        return None if loop is None or loop.is_paused else loop

    def draw_transactor_crashes(self) -> Arguments | None:
        return self._draw()

    def transactor_crashes(self, place: int, ms: int) -> bool:
        if self._awake(place) is None:
            return False
        self.world.transactors.crash(place)
        self.later(lambda: self.world.transactors.join(place), ms)
        return True

    def draw_transactor_pauses(self) -> Arguments | None:
        drawn = self._draw()
        return None if drawn is None else {**drawn, "twin": self.random.random() < 0.5}

    def transactor_pauses(self, place: int, ms: int, *, twin: bool) -> bool:
        loop = self._awake(place)
        if loop is None:
            return False
        loop.pause()
        self.later(loop.resume, ms, lambda: loop.is_paused)
        if twin:
            self.world.transactors.join(place, as_twin=True)
        return True
