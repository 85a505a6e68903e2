"""Questions: all that a partition's next state is decided from, as values; as JSON and back.

To answer a `Question` is to ask the deciding code with nothing else, so what was decided once can be decided again.
Each stands in the module of the code that it asks.

Invariant:
I1  A question holds values only: numbers, booleans, texts and tuples of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from kavka.controller.decide.controlled_shutdown import Leaving
from kavka.controller.decide.election import PartitionChange
from kavka.controller.decide.eligible_leaders import LiveBrokers
from kavka.controller.decide.reassignment import Beginning, Settling
from kavka.controller.decide.requested_election import Wished
from kavka.zookeeper.znodes import PartitionState


class Question(Protocol):
    """What becomes of a partition: a NamedTuple, in the module of the code that it asks."""

    def answer(self, state: PartitionState) -> PartitionChange | None:
        """What becomes of a partition in that state; None: it stays as it is."""
        ...

    def _asdict(self) -> dict[str, Any]: ...


QUESTIONS: Final[Mapping[str, Callable[..., Question]]] = {
    "brokers changed": LiveBrokers,
    "leaving": Leaving,
    "wished": Wished,
    "beginning": Beginning,
    "settling": Settling,
}
_NAMES: Final = {made: name for name, made in QUESTIONS.items()}


def question_fields(question: Question) -> dict[str, Any]:
    """The question as a dict for JSON."""
    return {"question": _NAMES[type(question)], **question._asdict()}


def question_of(fields: Mapping[str, Any]) -> Question:
    """The question of these fields, which `question_fields` made. Raises KeyError or TypeError for other fields."""
    values = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items() if name != "question"
    }
    return QUESTIONS[fields["question"]](**values)
