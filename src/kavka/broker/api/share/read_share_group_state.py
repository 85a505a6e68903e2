"""ReadShareGroupState (key 84): a new leader reads where a group is; who led before may write no more.

Behaviour   `broker.share.state_requests`. Only brokers send it; NOT_COORDINATOR where another broker keeps the state.
Versions    0.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.share import state_requests
from kavka.protocol.messages.read_share_group_state_request import ReadShareGroupStateRequest
from kavka.protocol.messages.read_share_group_state_response import ReadShareGroupStateResponse

if TYPE_CHECKING:
    from kavka.broker.api.share.ports import ShareBroker
    from kavka.protocol.connection import Request


def handle(
    broker: ShareBroker, request: Request, message: ReadShareGroupStateRequest
) -> Awaitable[ReadShareGroupStateResponse]:
    return state_requests.read(broker.share_states, message)
