"""Witness: is shown what the controller decides from, and what comes of it.

A `Question` is all that a partition's next state is decided from, as a value; to answer it is to ask the deciding code
with nothing else. So what was decided once can be decided again, elsewhere and later (docs/flight-recorder.md).

Decides nothing. Invariants:
I1  A question holds values only: numbers, booleans, texts and tuples of them.
I2  A witness returns at once, raises nothing and changes nothing: what it is shown is read before it returns.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Protocol

from kavka.model import BrokerId, TopicPartition
from kavka.zookeeper.znodes import PartitionState

if TYPE_CHECKING:
    from kavka.controller.decide.context import ControllerContext, KnownState
    from kavka.controller.decide.election import Succession
    from kavka.controller.decide.isr_proposals import Proposal, Verdict


class Question(Protocol):
    """What becomes of a partition: a NamedTuple, in the module of the code that it asks."""

    def answer(self, state: PartitionState) -> Succession | None:
        """What becomes of a partition in that state; None: it stays as it is."""
        ...

    def _asdict(self) -> dict[str, Any]: ...


class Witness:
    """This one looks away."""

    def on_asked(
        self, partition: TopicPartition, known: KnownState, question: Question, answer: Succession | None
    ) -> None:
        """The question was asked about the partition's known state."""

    def on_kept(
        self,
        partition: TopicPartition,
        before: PartitionState,
        after: PartitionState,
        kept: PartitionState,
        *,
        staying: Collection[BrokerId],
        needed: int,
        unclean: Collection[BrokerId],
    ) -> None:
        """`after`, about to replace `before`, is written with its eligible leader replicas: as `kept`."""

    def on_judged(self, proposal: Proposal, context: ControllerContext, verdict: Verdict, *, version: int) -> None:
        """A leader's proposal was judged by what the context says."""
