"""Quotas of changes (KIP-599): may partitions be made or deleted for a request? Not an API.

From some version of each API on the quota is strict: what exceeds it is refused. In older versions, whose clients do
not know the error, everything is done, and the client waits afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kavka.protocol.connection import Request


def admission(request: Request, *, strict_since: int) -> Callable[[int], bool] | None:
    """Called with a number of partitions, whether they may be made or deleted; None if no quota is set."""
    if request.meter is None:
        return None
    return partial(request.meter.mutate, strict=request.header.api_version >= strict_since)
