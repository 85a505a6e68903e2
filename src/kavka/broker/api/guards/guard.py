"""What guards share: the forms of their outcomes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kavka.broker.api.ports import ApiBroker
    from kavka.broker.authorization.authorization import Caller

    Guard = Callable[[ApiBroker, Caller, Any], Any | Awaitable[Any]]


class Then(NamedTuple):
    """The handler goes on with what is left of the message; `change` makes the answer of what it says."""

    change: Callable[[Any], Any]


def nothing_to_ask(broker: ApiBroker, caller: Caller, message: object) -> None:
    """The guard of an API that needs no right, or whose whole row the dispatcher has asked for already."""
