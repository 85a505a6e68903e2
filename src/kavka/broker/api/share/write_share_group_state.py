"""WriteShareGroupState (key 85): a leader stores what became of records.

Behaviour   `broker.share.state_requests`. Only brokers send it; NOT_COORDINATOR where another broker keeps the state.
Versions    0; 1 how many records need no delivery any more (KIP-1226).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.share import state_requests
from kavka.protocol.messages.write_share_group_state_request import WriteShareGroupStateRequest
from kavka.protocol.messages.write_share_group_state_response import WriteShareGroupStateResponse

if TYPE_CHECKING:
    from kavka.broker.api.share.ports import ShareBroker
    from kavka.protocol.connection import Request


def handle(
    broker: ShareBroker, request: Request, message: WriteShareGroupStateRequest
) -> Awaitable[WriteShareGroupStateResponse]:
    return state_requests.write(broker.share_states, message)
