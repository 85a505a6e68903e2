"""How a service over HTTP is asked whose address an operator gave: a registry, Kafka Connect, an issuer of keys.

Decides what such an address is, and that a question has an end. Must not know what is asked.

    I1  a name's look-up cannot be ended: it has a thread of its own, and holds up nobody else's work
    I2  a socket's time-out is for each piece of an answer; `cut_after` ends all of them together, and says that it did
"""

from __future__ import annotations

import asyncio
import base64
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from kavka.errors import ConnectionFailed

Answer = TypeVar("Answer")


class ServiceAddress(NamedTuple):
    """Where a service is. `shown`: without the password. `authorization`: a header's value, None without a login."""

    shown: str
    scheme: str
    host: str
    port: int
    path: str
    authorization: str | None


def service_address(given: str, what: str) -> ServiceAddress:
    """Of http://name:password@HOST:PORT/path; without a scheme it is http. Raises ValueError: it is `what`.

    >>> service_address("registry:8081", "no address").shown
    'http://registry:8081'
    """
    named = given.rpartition("@")[2]
    """Without a password."""
    try:
        parts = urlsplit(given if "://" in given else f"http://{given}")
        port = parts.port
    except ValueError:
        # What it says has parts of the password: where this holds a slash, they are taken for the port.
        why = "write http://HOST:PORT, and / ? # [ ] of a name or a password as %2F %3F %23 %5B %5D"
        raise ValueError(f"{named!r} is {what}: {why}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(f"{named!r} is {what}: write http://HOST:PORT")
    if "@" in parts.path + parts.query + parts.fragment:
        raise ValueError(f"{named!r} is {what}: write / ? # of a name or a password as %2F %3F %23")
    authorization = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode()
    path = parts.path.rstrip("/")
    shown = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", ""))
    port = port or (443 if parts.scheme == "https" else 80)
    return ServiceAddress(shown, parts.scheme, parts.hostname, port, path, authorization)


async def in_own_thread(ask: Callable[[], Answer], name: str) -> Answer:
    """What `ask` returns, or the ConnectionFailed that it raises. Cancelled, it leaves the thread to its end."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Answer] = loop.create_future()

    def tell(failure: ConnectionFailed | None, answers: list[Answer]) -> None:
        if found.done():
            return
        if failure is not None:
            found.set_exception(failure)
        else:
            found.set_result(answers[0])

    def work() -> None:
        failure, answers = None, []
        try:
            answers.append(ask())
        except ConnectionFailed as failed:
            failure = failed
        try:
            loop.call_soon_threadsafe(tell, failure, answers)
        except RuntimeError:
            pass  # The loop has ended, and with it whoever asked.

    threading.Thread(target=work, name=name, daemon=True).start()
    return await found


def within(seconds: float, ask: Callable[[], Answer], name: str) -> Answer:
    """What `ask` returns or raises, for who waits on a thread. Raises TimeoutError; then that thread is left to its
    end."""
    answers: list[Answer] = []
    failures: list[Exception] = []

    def work() -> None:
        try:
            answers.append(ask())
        except Exception as failed:  # noqa: BLE001 - it is raised again where it is waited for
            failures.append(failed)

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    thread.join(seconds)
    if failures:
        raise failures[0]
    if not answers:
        raise TimeoutError(f"there was no answer within {seconds:g} s")
    return answers[0]


@contextmanager
def cut_after(wire: socket.socket, seconds: float) -> Iterator[threading.Event]:
    """Ends the connection after so long, whoever reads it. The event says that it was: an answer without a length ends
    with its connection, and may have had more to come."""
    is_cut = threading.Event()
    end = threading.Timer(seconds, _cut, [wire, is_cut])
    end.daemon = True
    end.start()
    try:
        yield is_cut
    finally:
        end.cancel()


def _cut(wire: socket.socket, is_cut: threading.Event) -> None:
    is_cut.set()  # First: the other thread looks when its read has ended.
    try:
        socket.socket.shutdown(wire, socket.SHUT_RDWR)
    except OSError:
        pass
