"""What the broker must offer so that clients can authenticate and be authorized."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kavka.broker.authentication.delegation_tokens import Tokens
    from kavka.broker.authorization.authorization import Authorization
    from kavka.broker.settings.dynamic_configs import DynamicConfigs
    from kavka.config.broker import BrokerConfig
    from kavka.controller.controller import Controller


class SecurityBroker(Protocol):
    """The broker, as handlers of security see it."""

    @property
    def configs(self) -> DynamicConfigs:
        """All settings that can change at run time: users' credentials are kept among them."""

    @property
    def controller(self) -> Controller:
        """This broker as a candidate for the controller's office."""

    @property
    def authorization(self) -> Authorization | None:
        """The broker's authorizer, and the access control lists that it rests on. None: everything is allowed."""

    @property
    def tokens(self) -> Tokens | None:
        """The delegation tokens. None: there are none, because delegation.token.secret.key is not set."""

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings."""

    @property
    def wall_ms(self) -> Callable[[], int]:
        """The time in milliseconds since 1970."""
