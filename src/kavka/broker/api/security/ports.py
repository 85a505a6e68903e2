"""What the broker must offer so that clients can authenticate and be authorized.

This broker has no SASL and no delegation tokens, so that most handlers here know their answer already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kavka.broker.authorization.authorization import Authorization


class SecurityBroker(Protocol):
    """The broker, as handlers of security see it."""

    @property
    def authorization(self) -> Authorization | None:
        """The broker's authorizer, and the access control lists that it rests on. None: everything is allowed."""
