"""OwnToken: the token that this broker logs in with on the others (OAUTHBEARER).

A flow between the source of tokens, which may ask an issuer and blocks, and the logins, which must not wait: before
each login the source is asked on another thread, and it answers at once while the token that it has is good.

    I1  a token stands in no message and no repr

Source: Kafka's LoginManager, ExpiringCredentialRefreshingLogin, OAuthBearerSaslClient.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING

from kavka.errors import ConnectionFailed, RequestError
from kavka.security.oauthbearer import client_exchange

if TYPE_CHECKING:
    from kavka.broker.assembly.ports import OwnTokens


class OwnToken:
    """`run_blocking` carries a call to another thread."""

    def __init__(self, tokens: OwnTokens, run_blocking: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
        self._tokens = tokens
        self._run_blocking = run_blocking
        self._token = ""

    async def prepare(self) -> None:
        """Sees to it that there is a good token. Raises ConnectionFailed."""
        found: list[str] = []
        try:
            await self._run_blocking(lambda: found.append(self._tokens.current()))
        except RequestError as refused:
            raise ConnectionFailed(f"this broker has no token to log in with: {refused}") from refused
        self._token = found[0]

    def exchange(self, _host: str) -> Generator[bytes, bytes, None]:
        """The client's side of one login."""
        return client_exchange(self._token, self._tokens.extensions)
