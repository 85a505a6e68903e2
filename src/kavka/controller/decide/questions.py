"""The questions that a partition's next state is decided from, as JSON and back.

Decides nothing; each `Question` stands in the module of the code that it asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kavka.controller.decide.controlled_shutdown import Leaving
from kavka.controller.decide.eligible_leaders import BrokersChanged
from kavka.controller.decide.reassignment import Beginning, Settling
from kavka.controller.decide.requested_election import Wished
from kavka.controller.term.input_recorder import Question

QUESTIONS: Final[Mapping[str, Callable[..., Question]]] = {
    "brokers changed": BrokersChanged,
    "leaving": Leaving,
    "wished": Wished,
    "beginning": Beginning,
    "settling": Settling,
}
_NAMES: Final = {made: name for name, made in QUESTIONS.items()}


def question_fields(question: Question) -> dict[str, Any]:
    """The question as what JSON holds."""
    return {"question": _NAMES[type(question)], **question._asdict()}


def question_of(fields: Mapping[str, Any]) -> Question:
    """The question that `question_fields` told. Raises KeyError or TypeError where it is none."""
    values = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items() if name != "question"
    }
    return QUESTIONS[fields["question"]](**values)
