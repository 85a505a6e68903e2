"""ReadShareGroupStateSummary (key 87): where a group is in a partition, without the states of single records.

Behaviour   `broker.share.state_requests`. Only brokers send it; NOT_COORDINATOR where another broker keeps the state.
Versions    0; 1 how many records need no delivery any more (KIP-1226).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.share import state_requests
from kavka.protocol.messages.read_share_group_state_summary_request import ReadShareGroupStateSummaryRequest
from kavka.protocol.messages.read_share_group_state_summary_response import ReadShareGroupStateSummaryResponse

if TYPE_CHECKING:
    from kavka.broker.api.share.ports import ShareBroker
    from kavka.protocol.connection import Request


def handle(
    broker: ShareBroker, request: Request, message: ReadShareGroupStateSummaryRequest
) -> Awaitable[ReadShareGroupStateSummaryResponse]:
    return state_requests.summary(broker.share_states, message)
