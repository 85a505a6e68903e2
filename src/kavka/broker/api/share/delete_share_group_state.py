"""DeleteShareGroupState (key 86): a group's coordinator has states deleted, with their group.

Behaviour   `broker.share.state_requests`. Only brokers send it; NOT_COORDINATOR where another broker keeps the state.
Versions    0.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.share import state_requests
from kavka.protocol.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
from kavka.protocol.messages.delete_share_group_state_response import DeleteShareGroupStateResponse

if TYPE_CHECKING:
    from kavka.broker.api.share.ports import ShareBroker
    from kavka.protocol.connection import Request


def handle(
    broker: ShareBroker, request: Request, message: DeleteShareGroupStateRequest
) -> Awaitable[DeleteShareGroupStateResponse]:
    return state_requests.delete(broker.share_states, message)
