"""ShareRoom: joins what a broker has of share groups: sessions, leaders, fetches, the way to their states.

Decides nothing. A late part (`broker/late.py`): it is made with the first request of a share group.
"""

from __future__ import annotations

from collections.abc import Callable

from kavka.broker.share.fetches import ShareFetches
from kavka.broker.share.led_share_partitions import ShareLeaders
from kavka.broker.share.offsets import ShareOffsets
from kavka.broker.share.persister import SharePersister
from kavka.broker.share.sessions import ShareSessions


class ShareRoom:
    """`most_sessions` is a setting."""

    def __init__(
        self,
        persister: SharePersister,
        leaders: ShareLeaders,
        fetches: ShareFetches,
        offsets: ShareOffsets,
        most_sessions: Callable[[], int],
    ) -> None:
        self.persister = persister
        self.leaders = leaders
        self.fetches = fetches
        self.offsets = offsets
        self.sessions = ShareSessions(most_sessions, leaders.now, leaders.release, leaders.forget)

    def close(self) -> None:
        """Ends what is under way."""
        self.leaders.close()
        self.persister.close()
