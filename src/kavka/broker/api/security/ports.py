"""What the broker must offer so that clients can authenticate and be authorized: nothing yet.

This broker has no SASL, no delegation tokens and no authorizer, so that every handler here knows its answer already.
"""

from __future__ import annotations

from typing import Protocol


class SecurityBroker(Protocol):
    """The broker, as handlers of security see it."""
