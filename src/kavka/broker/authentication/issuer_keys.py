"""KeySource: the keys of the issuer whose tokens a listener believes.

A flow: it decides when the issuer's document is fetched again. Must not know how it is fetched, nor what keys are.

    every sasl.oauthbearer.jwks.endpoint.refresh.ms          as long as it succeeds
    retry.backoff.ms, doubling up to retry.backoff.max.ms    after a failure
    at once                                                  a token names a key that is not there (issuers change
                                                             them), but not within LOOK_AGAIN_MS of the last fetch

    I1  keys stay until a document came that has keys; whatever else comes changes nothing
    I2  however many tokens with unknown keys come, the issuer is asked every LOOK_AGAIN_MS at most because of them
    I3  a broker without keys serves, and believes no token

Source: Kafka's RefreshingHttpsJwks, which does not start a broker without keys, and tries again a refresh later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from kavka.errors import ConnectionFailed
from kavka.logger import Logger
from kavka.security.json_web_tokens import KeySet, MalformedKeySet

if TYPE_CHECKING:
    from kavka.config.oauthbearer import KeyEndpoint

logger = Logger(__name__)

LOOK_AGAIN_MS: Final = 10_000


class KeySource:
    """`fetch` gives the keys that the endpoint has now, or raises ConnectionFailed or MalformedKeySet."""

    def __init__(self, listener: str, endpoint: KeyEndpoint, fetch: Callable[[], Awaitable[KeySet]]) -> None:
        self.keys = KeySet()
        self.looked = asyncio.Event()
        """Set when the first fetch has ended, whatever came of it."""
        self._listener = listener
        self._endpoint = endpoint
        self._fetch = fetch
        self._loop = asyncio.get_running_loop()
        self._asked = asyncio.Event()
        self._fetched_ms = 0.0
        self._failing = ""

    def look_again(self) -> None:
        """A token is signed with a key that is not there."""
        if self.looked.is_set() and self._loop.time() * 1000 - self._fetched_ms >= LOOK_AGAIN_MS:
            self._asked.set()

    async def follow(self) -> None:
        """Fetches the keys again and again, until cancelled."""
        endpoint = self._endpoint
        backoff_ms = endpoint.backoff_ms
        while True:
            if await self._refresh():
                wait_ms, backoff_ms = endpoint.refresh_ms, endpoint.backoff_ms
            else:
                wait_ms, backoff_ms = backoff_ms, min(backoff_ms * 2, endpoint.max_backoff_ms)
            self._asked.clear()
            try:
                async with asyncio.timeout(wait_ms / 1000):
                    await self._asked.wait()
            except TimeoutError:
                pass

    async def _refresh(self) -> bool:
        self._fetched_ms = self._loop.time() * 1000
        try:
            keys = await self._fetch()
            if not keys.keys:
                raise MalformedKeySet("the document has no key that could verify a token")
        except (ConnectionFailed, MalformedKeySet) as failure:
            self._tell(str(failure))
            return False
        finally:
            self.looked.set()
        if self._failing or [key.kid for key in keys.keys] != [key.kid for key in self.keys.keys]:
            logger.info("keys of tokens fetched", listener=self._listener, url=self._endpoint.url, keys=len(keys.keys))
        self._failing = ""
        self.keys = keys
        return True

    def _tell(self, why: str) -> None:
        """Once for each reason: it is tried again and again."""
        if why != self._failing:
            logger.error(
                "keys of tokens could not be fetched",
                listener=self._listener,
                url=self._endpoint.url,
                why=why,
                kept=len(self.keys.keys),
                next_step="clients with tokens of kept keys still get in; see that the endpoint answers",
            )
        self._failing = why
