"""RestService: a service beside the cluster that answers JSON over HTTP, such as Kafka Connect or a schema registry.

Decides how it is asked, and what of its answer is taken. Must not know what an answer means.

I1  A question ends after TIMEOUT_S, whatever the other side sends, and at most MOST_AT_ONCE of one service are under
    way; others wait their turn within the same time.
I2  An answer has at most MOST_BYTES, redirects are not followed, and no proxy of the environment is used: nothing but
    the operator's address is asked.
I3  What fails is a RestFailed in words that can be shown: no control characters, bounded, without a password.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from functools import lru_cache
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import quote

from kavka.console.look.format import visible
from kavka.errors import ConnectionFailed
from kavka.runtime.http.exchanges import Question, exchange, told
from kavka.runtime.http.http_services import in_own_thread, service_address

TIMEOUT_S: Final = 8.0
MOST_BYTES: Final = 4 * 1024 * 1024
MOST_AT_ONCE: Final = 4
LONGEST_MESSAGE: Final = 500


class RestFailed(ConnectionFailed):
    """There is no such answer; the message says why. status: of the answer, 0 where there was none."""

    def __init__(self, why: str, status: int = 0) -> None:
        super().__init__(why)
        self.status = status


def part(name: str) -> str:
    """A name as one part of a path. Raises ValueError for one that would lead elsewhere.

    >>> part("a/b c")
    'a%2Fb%20c'
    """
    if name in ("", ".", ".."):
        raise ValueError(f"{name!r} is no name")
    return quote(name, safe="")


class RestService:
    """One service. Its address may carry a name and a password: http://name:password@host:8083.

    Raises ValueError for what is no address.
    """

    def __init__(self, address: str) -> None:
        self._at = service_address(address, "no address")
        self._headers = {"Accept": "application/json, */*;q=0.1"}
        if self._at.authorization is not None:
            self._headers["Authorization"] = self._at.authorization
        self._context = ssl.create_default_context() if self._at.scheme == "https" else None
        self.address = self._at.shown
        """Without the password, to be shown."""
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON that it answers; None for an answer without any. Raises RestFailed."""
        try:
            async with asyncio.timeout(TIMEOUT_S), self._turns:
                return await in_own_thread(lambda: self._exchange(method, path, body), "kavka-rest")
        except TimeoutError as late:
            raise RestFailed(f"{self.address} did not answer within {TIMEOUT_S:g} s") from late

    def _exchange(self, method: str, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = self._headers if data is None else {**self._headers, "Content-Type": "application/json"}
        asked = Question(method, path, headers, data)
        try:
            answer = exchange(self._at, asked, seconds=TIMEOUT_S, most_bytes=MOST_BYTES, context=self._context)
        except (OSError, HTTPException, ValueError) as problem:
            why = visible(told(problem))[:LONGEST_MESSAGE]
            raise RestFailed(f"{self.address} does not answer: {why}") from problem
        if not 200 <= answer.status < 300:
            raise RestFailed(f"{self.address} answered {answer.status}{_message(answer.body)}", answer.status)
        if len(answer.body) > MOST_BYTES:
            raise RestFailed(f"{self.address} answered with more than {MOST_BYTES:,} bytes")
        if not answer.body.strip():
            return None
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError) as problem:
            raise RestFailed(f"{self.address} did not answer in JSON") from problem


@lru_cache(maxsize=1_000)
def service_at(address: str) -> RestService:
    """The one service of an operator's address: its bounds hold for all pages together."""
    return RestService(address)


def _message(answered: bytes) -> str:
    """What a refusal says."""
    try:
        return f": {visible(str(json.loads(answered)['message']))[:LONGEST_MESSAGE]}"
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
