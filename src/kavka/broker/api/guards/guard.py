"""What guards share: the forms of their outcomes, and how they refuse some items of a request and leave the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kavka.broker.api.security.authorized_operations import NOT_ASKED
from kavka.errors import ErrorCode
from kavka.security.acls import Operation
from kavka.security.resource_patterns import ResourceType

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


def refuse_topics(
    caller: Caller,
    operation: Operation,
    message: Any,
    refusal: Callable[[Any], Any],
    *,
    name: Callable[[Any], str] = attrgetter("name"),
    to: str = "topics",
) -> Then | None:
    """Takes the topics out of a message that the caller may not do this to; `refusal` makes the answer for each, which
    follows the handler's in the field `to`."""
    allowed = caller.allowed(operation, ResourceType.TOPIC, map(name, message.topics))
    message.topics, refused = sort_out(message.topics, lambda topic: None if name(topic) in allowed else refusal(topic))
    return then_add(refused, to=to)


def sort_out_groups(
    caller: Caller, operation: Operation, group_ids: Iterable[str], refusal: Callable[[str], Refusal]
) -> tuple[list[str], list[Refusal]]:
    """As `sort_out`, by what the caller may do to groups."""
    asked = list(group_ids)
    allowed = caller.allowed(operation, ResourceType.GROUP, asked)
    return sort_out(asked, lambda group_id: None if group_id in allowed else refusal(group_id))


def show_operations(caller: Caller, groups: Iterable[Any]) -> None:
    """Removes the operations that are not allowed from those that an answer shows of groups."""
    for group in groups:
        if group.authorized_operations != NOT_ASKED:
            group.authorized_operations = caller.operations(
                group.authorized_operations, ResourceType.GROUP, group.group_id
            )


def hide_members(caller: Caller, group: Any, names: Iterable[str]) -> None:
    """Takes the members out of a described group whose topics the caller may not all describe."""
    topics = set(names)
    if len(caller.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topics)) < len(topics):
        group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        group.error_message = "The group has described topic(s) that the client is not authorized to describe."
        group.members = []


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
