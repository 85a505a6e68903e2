"""Faults of transactional producers.

transactor crashes    its process dies, perhaps in the middle of a transaction; another takes its transactional id
transactor pauses     it does nothing for a while, sometimes longer than its transaction may last; sometimes another
                      takes its transactional id meanwhile, and it wakes up a zombie
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.simulator.faults.place_faults import PlaceFaults

if TYPE_CHECKING:
    from kavka.simulator.clients.transactors import Transactors
    from kavka.simulator.faults.fault_group import Arguments

KINDS: Final = ("transactor crashes", "transactor pauses")


class TransactorFaults(PlaceFaults):
    """Crashes and pauses of transactional producers."""

    @property
    def places(self) -> Transactors:
        return self.world.transactors

    def draw_transactor_crashes(self) -> Arguments | None:
        return self.draw_for_a_while()

    def transactor_crashes(self, place: int, ms: int) -> bool:
        return self.crashes(place, ms)

    def draw_transactor_pauses(self) -> Arguments | None:
        drawn = self.draw_for_a_while()
        return None if drawn is None else {**drawn, "twin": self.random.random() < 0.5}

    def transactor_pauses(self, place: int, ms: int, *, twin: bool) -> bool:
        if not self.pauses(place, ms):
            return False
        if twin:
            self.places.join_as_twin(place)
        return True
