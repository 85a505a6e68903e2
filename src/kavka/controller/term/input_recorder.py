"""InputRecorder: is shown what the controller decides from, and what comes of it.

Decides nothing. The flight recorder is one: what was decided once can be decided again, elsewhere and later
(docs/flight-recorder.md).

Invariant:
I1  A recorder returns at once, raises nothing and changes nothing: what it is shown is read before it returns.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from kavka.model import BrokerId, TopicPartition
from kavka.zookeeper.znodes import PartitionState

if TYPE_CHECKING:
    from kavka.controller.decide.context import ControllerContext, KnownState
    from kavka.controller.decide.election import PartitionChange
    from kavka.controller.decide.isr_proposals import Proposal, Verdict
    from kavka.controller.decide.questions import Question


class EligibleReplicasKept(NamedTuple):
    """`after`, about to replace `before`, was written with its eligible leader replicas, as `kept`. They were decided
    from `staying`, the replicas that are left, `needed`, how many are to be in sync, and the brokers that are back
    uncleanly."""

    before: PartitionState
    after: PartitionState
    kept: PartitionState
    staying: Collection[BrokerId]
    needed: int
    unclean: Collection[BrokerId]


class InputRecorder:
    """This one records nothing."""

    def on_asked(
        self, partition: TopicPartition, known: KnownState, question: Question, answer: PartitionChange | None
    ) -> None:
        """The question was asked about the partition's known state."""

    def on_kept(self, partition: TopicPartition, kept: EligibleReplicasKept) -> None:
        """The partition's eligible leader replicas were decided anew."""

    def on_judged(self, proposal: Proposal, context: ControllerContext, verdict: Verdict, *, version: int) -> None:
        """A leader's proposal was judged by what the context says."""
