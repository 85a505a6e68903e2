"""TokenExpiry: the controller removes delegation tokens whose time is over.

A flow that runs on every broker with tokens, and does something on the controller only: when it becomes the controller,
and every delegation.token.expiry.check.interval.ms from then on. Nobody gets in with such a token before it is gone
(`kavka.security.delegation_tokens`). Two brokers that both believe to be the controller do no harm: a token is
removed only as it was read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kavka.broker.authentication.delegation_token_records import TokenRecords
from kavka.broker.authentication.delegation_token_store import TokenStore
from kavka.errors import RequestError, ZooKeeperError
from kavka.logger import Logger

logger = Logger(__name__)


class TokenExpiry:
    """`is_controller` says whether this broker is the controller."""

    def __init__(
        self, store: TokenStore, records: TokenRecords, *, is_controller: Callable[[], bool], interval_ms: int
    ) -> None:
        self._store = store
        self._records = records
        self._is_controller = is_controller
        self._interval_s = interval_ms / 1000
        self._wake = asyncio.Event()

    def on_controller_changed(self) -> None:
        """There is another controller; it may be this broker."""
        self._wake.set()

    async def run(self) -> None:
        while True:
            self._wake.clear()
            if self._is_controller():
                await self._remove()
            try:
                async with asyncio.timeout(self._interval_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _remove(self) -> None:
        try:
            for token in await self._store.remove_expired():
                self._records.expired(token)
        except (RequestError, ZooKeeperError) as failure:
            logger.warning("expired delegation tokens stay for now", why=str(failure))
