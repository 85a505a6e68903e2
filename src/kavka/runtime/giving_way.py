"""Which connections of a processor are closed where all places are taken, or more than there may be.

Decides by who has said who it is, who was idle for longest, and who has been there for longest. Must not know how many
there may be (`listener`).

I1  Who must say who it is, and has not, goes before everybody else: bytes that trickle would make a client that is in
    look idle beside it.
I2  A walk over all connections, for a bound that is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from heapq import nsmallest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kavka.runtime.processor import Processor


def close_idlest(processor: Processor, count: int, is_spared: Callable[[str], bool]) -> int:
    """Closes `count` connections, but for those of listeners that are spared; how many were closed."""
    open_here = [one for one in processor.connections.values() if not is_spared(one.protocol.context.listener_name)]
    idlest = nsmallest(count, open_here, key=lambda one: (not one.is_unknown, one.active_at))
    for connection in idlest:
        processor.log.warning(
            "connection closed: there are more than max.connections, and it was idle for longest",
            client=connection.protocol.context.client_host,
            listener=connection.protocol.context.listener_name,
        )
        connection.close()
    return len(idlest)


def close_unknown(processor: Processor, count: int, stalled_s: float, spared: Collection[str]) -> None:
    """Closes at most `count` connections whose clients did not say within `stalled_s` who they are, oldest first.
    Those of listeners that are spared stay."""
    until = processor.loop.time() - stalled_s
    unknown = [
        one
        for one in processor.connections.values()
        if one.is_unknown and one.accepted_at <= until and one.protocol.context.listener_name not in spared
    ]
    for connection in nsmallest(count, unknown, key=lambda one: one.accepted_at):
        processor.log.warning(
            "connection closed: its client did not log in, and all places are taken",
            client=connection.protocol.context.client_host,
            listener=connection.protocol.context.listener_name,
        )
        connection.close()
