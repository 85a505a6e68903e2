"""RestService: a service beside the cluster that answers JSON over HTTP, such as Kafka Connect or a schema registry.

Decides how it is asked, and what of its answer is taken. Must not know what an answer means.

I1  A question ends after TIMEOUT_S, whatever the other side sends, and at most MOST_AT_ONCE of one service are under
    way; others wait their turn within the same time.
I2  An answer has at most MOST_BYTES, redirects are not followed, and no proxy of the environment is used: nothing but
    the operator's address is asked.
I3  What fails is a RestFailed in words that can be shown: no control characters, bounded, without a password.

A thread for each question, not one of the loop's: a name's look-up cannot be ended, and must hold up nobody else.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import threading
from functools import lru_cache
from http.client import HTTPConnection, HTTPException
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from kavka.console.look.format import visible
from kavka.errors import ConnectionFailed

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
        parts = urlsplit(address if "://" in address else f"http://{address}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{address!r} is no address: write http://HOST:PORT")
        self._headers = {"Accept": "application/json, */*;q=0.1"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        self._host, self._port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
        self._context = ssl.create_default_context() if parts.scheme == "https" else None
        self._path = parts.path.rstrip("/")
        self.address = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], self._path, "", ""))
        """Without the password, to be shown."""
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON that it answers; None for an answer without any. Raises RestFailed."""
        try:
            async with asyncio.timeout(TIMEOUT_S), self._turns:
                return await self._in_thread(method, path, body)
        except TimeoutError as late:
            raise RestFailed(f"{self.address} did not answer within {TIMEOUT_S:g} s") from late

    async def _in_thread(self, method: str, path: str, body: Any) -> Any:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Any] = loop.create_future()

        def tell(answer: Any, failure: RestFailed | None) -> None:
            if found.done():
                return
            if failure is None:
                found.set_result(answer)
            else:
                found.set_exception(failure)

        def work() -> None:
            answer, failure = None, None
            try:
                answer = self._exchange(method, path, body)
            except RestFailed as failed:
                failure = failed
            try:
                loop.call_soon_threadsafe(tell, answer, failure)
            except RuntimeError:
                pass  # The loop has ended, and with it whoever asked.

        threading.Thread(target=work, name="kavka-rest", daemon=True).start()
        return await found

    def _exchange(self, method: str, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, "Connection": "close"}
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            status, answered = self._answer(method, self._path + path, data, headers)
        except (OSError, HTTPException, ValueError) as problem:
            why = visible(str(problem) or type(problem).__name__)[:LONGEST_MESSAGE]
            raise RestFailed(f"{self.address} does not answer: {why}") from problem
        if not 200 <= status < 300:
            raise RestFailed(f"{self.address} answered {status}{_message(answered)}", status)
        if len(answered) > MOST_BYTES:
            raise RestFailed(f"{self.address} answered with more than {MOST_BYTES:,} bytes")
        if not answered.strip():
            return None
        try:
            return json.loads(answered)
        except (ValueError, RecursionError) as problem:
            raise RestFailed(f"{self.address} answered with something else than JSON") from problem

    def _answer(self, method: str, target: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        raw = socket.create_connection((self._host, self._port), timeout=TIMEOUT_S)
        wire: socket.socket = raw
        if self._context is not None:
            wire = self._context.wrap_socket(raw, server_hostname=self._host, do_handshake_on_connect=False)
        is_cut = threading.Event()
        # A socket's time-out is for each piece: this one is for all of them.
        end = threading.Timer(TIMEOUT_S, _cut, [wire, is_cut])
        end.daemon = True
        with wire:
            end.start()
            try:
                if isinstance(wire, ssl.SSLSocket):
                    wire.do_handshake()
                connection = HTTPConnection(self._host, self._port)
                connection.sock = wire
                connection.request(method, target, data, headers)
                response = connection.getresponse()
                answered = response.read(MOST_BYTES + 1)
                if is_cut.is_set():
                    # An answer without a length ends with its connection: this one may have more to come.
                    raise OSError(f"its answer took longer than {TIMEOUT_S:g} s")
                if response.length and len(answered) <= MOST_BYTES:
                    raise OSError("its answer ended before it was whole")
                return response.status, answered
            finally:
                end.cancel()


@lru_cache(maxsize=1_000)
def service_at(address: str) -> RestService:
    """The one service of an operator's address: its bounds hold for all pages together."""
    return RestService(address)


def _cut(wire: socket.socket, is_cut: threading.Event) -> None:
    """Ends a connection that another thread reads, and says so first."""
    is_cut.set()
    try:
        socket.socket.shutdown(wire, socket.SHUT_RDWR)
    except OSError:
        pass


def _message(answered: bytes) -> str:
    """What a refusal says."""
    try:
        return f": {visible(str(json.loads(answered)['message']))[:LONGEST_MESSAGE]}"
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
