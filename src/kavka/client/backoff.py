"""How long to wait before a retry.

Decides the pauses: exponential from `retry_backoff_ms` up to `retry_backoff_max_ms`, each with up to 20 % of jitter, so
that many clients that failed together do not come back together (KIP-580). Knows nothing of what is tried.
"""

from __future__ import annotations

from random import Random

from kavka.client.settings import ClientSettings

JITTER = 0.2
_MAX_DOUBLINGS = 30


def backoff_ms(settings: ClientSettings, failures: int, random: Random) -> float:
    """Pause in ms after this many failures in a row, from 1."""
    pause_ms = settings.retry_backoff_ms * 2.0 ** min(failures - 1, _MAX_DOUBLINGS)
    return min(pause_ms, settings.retry_backoff_max_ms) * random.uniform(1 - JITTER, 1 + JITTER)
