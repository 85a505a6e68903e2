"""TokenVerifiers: the listeners with OAUTHBEARER, each with whom it believes, and the thread that verifies tokens.

Loaded only where a listener has the mechanism. To verify a token takes 45 us (RS256) to 560 us (ES512) of CPU, measured
on a machine that was not quiet: of many clients that come at once, the loop should not wait for each. A set of keys
takes longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from kavka.broker.authentication.issuer_keys import KeySource
from kavka.errors import ConfigError
from kavka.logger import Logger
from kavka.security.json_web_tokens import KeySet, TokenRules, believe, read_key_set, verify
from kavka.security.oauthbearer import Bearer, OAuthBearerServer
from kavka.security.sasl import FailureReason, ServerExchange

if TYPE_CHECKING:
    from kavka.broker.assembly.ports import Fetch
    from kavka.config.oauthbearer import KeyEndpoint, OAuthBearerSettings

logger = Logger(__name__)

START_PATIENCE_S: Final = 2.0
"""How long a broker that starts waits for keys, so that its first clients find them."""
_LOOK_AGAIN: Final = (FailureReason.UNKNOWN_KEY, FailureReason.NO_KEYS)


class TokenVerifiers:
    """`believed` says which tokens count, by listener. Raises ConfigError."""

    def __init__(
        self,
        believed: Mapping[str, OAuthBearerSettings],
        *,
        fetch: Fetch,
        wall_ms: Callable[[], int],
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self._wall_ms = wall_ms
        self._fetch = fetch
        self._spawn = spawn
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kavka-tokens")
        self._sources: list[KeySource] = []
        self._exchanges: dict[str, Callable[[], ServerExchange]] = {}
        for listener, settings in believed.items():
            if settings.keys is None:
                logger.warning(
                    "tokens need not be signed: anybody on this machine can log in as anybody",
                    listener=listener,
                    next_step="for tests only; else leave kavka.oauthbearer.unsecured out",
                )
                self._exchanges[listener] = self._unsigned(settings.rules)
            else:
                if find_spec("joserfc") is None:
                    from kavka.installation import install_command

                    raise ConfigError(
                        f"listener {listener} enables OAUTHBEARER, which needs the package joserfc: "
                        f"{install_command('security')}"
                    )
                self._exchanges[listener] = self._signed(settings.rules, self._source(listener, settings.keys))

    async def start(self) -> None:
        """Fetches keys from now on. Returns with the first keys, with a failure, or when time is up."""
        for source in self._sources:
            self._spawn(source.follow())
        try:
            async with asyncio.timeout(START_PATIENCE_S):
                for source in self._sources:
                    await source.looked.wait()
        except TimeoutError:
            pass

    def exchange(self, listener: str) -> ServerExchange:
        """A new exchange on a listener."""
        return self._exchanges[listener]()

    async def beside(self, work: Callable[[], None]) -> None:
        """Carries out `work` on the thread."""
        await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _unsigned(self, rules: TokenRules) -> Callable[[], ServerExchange]:
        return lambda: OAuthBearerServer(lambda token: believe(token, rules, self._wall_ms()))

    def _signed(self, rules: TokenRules, source: KeySource) -> Callable[[], ServerExchange]:
        def check(token: str) -> Bearer:
            return verify(token, source.keys, rules, self._wall_ms())

        def on_refused(reason: FailureReason) -> None:
            if reason in _LOOK_AGAIN:
                source.look_again()

        return lambda: OAuthBearerServer(check, on_refused)

    def _source(self, listener: str, endpoint: KeyEndpoint) -> KeySource:
        async def fetch() -> KeySet:
            document = await self._fetch(endpoint.url, endpoint.trust_store)
            return await asyncio.get_running_loop().run_in_executor(self._thread, read_key_set, document)

        source = KeySource(listener, endpoint, fetch)
        self._sources.append(source)
        return source
