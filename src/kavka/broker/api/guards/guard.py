"""What guards share: the forms of their outcomes, and how they refuse some items of a request and leave the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kavka.errors import ErrorCode

if TYPE_CHECKING:
    from kavka.broker.api.ports import ApiBroker
    from kavka.broker.authorization.authorization import Caller

    Guard = Callable[[ApiBroker, Caller, Any], Any | Awaitable[Any]]

Item = TypeVar("Item")
Refusal = TypeVar("Refusal")


class Then(NamedTuple):
    """The handler goes on with what is left of the message; `change` makes the answer of what it says."""

    change: Callable[[Any], Any]


def sort_out(items: Iterable[Item], refusal: Callable[[Item], Refusal | None]) -> tuple[list[Item], list[Refusal]]:
    """The items that the handler may see, and the refusals of the others, both in the request's order. `refusal`
    returns None for an item that is allowed."""
    left: list[Item] = []
    refused: list[Refusal] = []
    for item in items:
        denied = refusal(item)
        if denied is None:
            left.append(item)
        else:
            refused.append(denied)
    return left, refused


def then_join(refused: Sequence[Refusal | None], to: str) -> Then | None:
    """As `then_add`, in the request's order. `refused` has a place for each item, None for one that the handler sees;
    the handler answers all of these, in their order."""
    if not any(refusal is not None for refusal in refused):
        return None

    def join(answer: Any) -> Any:
        if getattr(answer, "error_code", ErrorCode.NONE) == ErrorCode.NONE:
            setattr(answer, to, joined(refused, getattr(answer, to)))
        return answer

    return Then(join)


def joined(refused: Iterable[Refusal | None], answers: Iterable[Refusal]) -> list[Refusal]:
    """The refusals, with the answers in the places between them."""
    rest = iter(answers)
    found = (next(rest, None) if refusal is None else refusal for refusal in refused)
    return [each for each in found if each is not None] + list(rest)


def then_add(refused: list[Any], to: str) -> Then | None:
    """The handler goes on, and the refusals follow its answers in the field `to`. An answer that failed as a whole
    stays as it is."""
    if not refused:
        return None

    def add(answer: Any) -> Any:
        if getattr(answer, "error_code", ErrorCode.NONE) == ErrorCode.NONE:
            setattr(answer, to, [*getattr(answer, to), *refused])
        return answer

    return Then(add)


def nothing_to_ask(broker: ApiBroker, caller: Caller, message: object) -> None:
    """The guard of an API that needs no right, or whose whole row the dispatcher has asked for already."""
