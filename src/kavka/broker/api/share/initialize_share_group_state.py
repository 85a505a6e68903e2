"""InitializeShareGroupState (key 83): a group's coordinator has states made, before their partitions are assigned.

Behaviour   `broker.share.state_requests`. Only brokers send it; NOT_COORDINATOR where another broker keeps the state.
Versions    0.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.share import state_requests
from kavka.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from kavka.protocol.messages.initialize_share_group_state_response import InitializeShareGroupStateResponse

if TYPE_CHECKING:
    from kavka.broker.api.share.ports import ShareBroker
    from kavka.protocol.connection import Request


def handle(
    broker: ShareBroker, request: Request, message: InitializeShareGroupStateRequest
) -> Awaitable[InitializeShareGroupStateResponse]:
    return state_requests.initialize(broker.share_states, message)
