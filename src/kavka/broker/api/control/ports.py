"""What the broker must offer to the controller, and, where it is the controller itself, to the other brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kavka.broker.metadata.state_changes import StateChanges
    from kavka.broker.transactions.producer_ids import ProducerIds
    from kavka.controller.controller import Controller


class ControlBroker(Protocol):
    """The broker, as the controller and the other brokers see it."""

    @property
    def state_changes(self) -> StateChanges:
        """Carries out what the controller orders: lead, follow, stop, learn the metadata."""

    @property
    def controller(self) -> Controller:
        """This broker's part in controlling the cluster. Raises NotController unless it is the controller."""

    @property
    def producer_ids(self) -> ProducerIds:
        """Reserves blocks of producer ids."""
