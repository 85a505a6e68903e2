"""Documents: what stands at an https: or file: address, read whole; or what a form that is sent to one is answered.

A flow for what an operator's settings name, such as an issuer's keys. It must not know what a document means.

    I1  a document has at most MAX_BYTES, and is there after TIMEOUT_S, or is not read; whoever sends a byte now and
        then gains nothing
    I2  the other side is checked: its certificate, and that it is the host of the address
    I3  nothing but the address is read: no redirect is followed, and no proxy that the environment names is used
    I4  what fails is a ConnectionFailed that says nothing of the answer but its status
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
from collections.abc import Callable, Mapping
from http.client import HTTPException, HTTPSConnection
from typing import Final
from urllib.parse import unquote, urlencode, urlsplit

from kavka.errors import ConfigError, ConnectionFailed
from kavka.runtime.http.http_services import cut_after, in_own_thread
from kavka.runtime.tls.tls_contexts import web_context
from kavka.security.key_stores import StoreSettings

MAX_BYTES: Final = 1024 * 1024
TIMEOUT_S: Final = 10.0


class AnsweredOtherwise(ConnectionFailed):
    """The other side answered with another status than 200."""

    def __init__(self, where: str, status: int) -> None:
        super().__init__(f"{where} answered {status}")
        self.status = status


async def fetch_document(url: str, trust_store: StoreSettings) -> bytes:
    """The document at `url`. Raises ConnectionFailed."""
    return await _in_time(url, lambda: read_document(url, trust_store))


async def post_form(
    url: str, fields: Mapping[str, str], headers: Mapping[str, str], trust_store: StoreSettings
) -> bytes:
    """What an https: address answers to a form. Raises ConnectionFailed, which says nothing of the form."""
    return await _in_time(url, lambda: _posted(url, fields, headers, trust_store))


async def _in_time(url: str, read: Callable[[], bytes]) -> bytes:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await in_own_thread(read, "kavka-document")
    except TimeoutError as late:
        raise ConnectionFailed(f"{url} was not read within {TIMEOUT_S:.0f} s") from late


def read_document(url: str, trust_store: StoreSettings) -> bytes:
    """The same, on this thread."""
    try:
        parts = urlsplit(url)
        if parts.scheme == "file":
            document = _read_file(unquote(parts.path))
        else:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            document = _exchange("GET", parts.hostname or "", parts.port or 443, target, trust_store)
    except (OSError, HTTPException, ConfigError, ValueError) as failure:
        raise ConnectionFailed(f"{url} could not be read: {_words(failure)}") from failure
    return _bounded(document, url)


def _posted(url: str, fields: Mapping[str, str], headers: Mapping[str, str], trust_store: StoreSettings) -> bytes:
    try:
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        sent = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
        form = urlencode(fields)
        answer = _exchange("POST", parts.hostname or "", parts.port or 443, target, trust_store, form, sent)
    except (OSError, HTTPException, ConfigError, ValueError) as failure:
        raise ConnectionFailed(f"{url} could not be asked: {_words(failure)}") from failure
    return _bounded(answer, url)


def _bounded(document: bytes, url: str) -> bytes:
    if len(document) > MAX_BYTES:
        raise ConnectionFailed(f"{url} is longer than {MAX_BYTES} bytes")
    return document


def _read_file(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is not a file")
        return file.read(MAX_BYTES + 1)


def _exchange(  # noqa: PLR0913 - the parts of one request
    method: str,
    host: str,
    port: int,
    target: str,
    trust_store: StoreSettings,
    body: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    context = web_context(trust_store)
    with socket.create_connection((host, port), timeout=TIMEOUT_S) as raw:
        secured = context.wrap_socket(raw, server_hostname=host, do_handshake_on_connect=False)
    with secured, cut_after(secured, TIMEOUT_S) as is_cut:
        secured.do_handshake()
        connection = HTTPSConnection(host, port)
        connection.sock = secured
        wanted = {"Accept": "application/json", "Connection": "close", **(headers or {})}
        connection.request(method, target, body, wanted)
        answer = connection.getresponse()
        if 300 <= answer.status < 400:
            raise ConnectionFailed(f"https://{host}:{port} answered {answer.status}: redirects are not followed")
        if answer.status != 200:
            raise AnsweredOtherwise(f"https://{host}:{port}", answer.status)
        document = answer.read(MAX_BYTES + 1)
        if is_cut.is_set():
            raise ConnectionFailed(f"https://{host}:{port} was not read within {TIMEOUT_S:.0f} s")
        if answer.length and len(document) <= MAX_BYTES:
            raise ConnectionFailed(f"https://{host}:{port} ended before its answer did")
    return document


def _words(failure: Exception) -> str:
    if isinstance(failure, ssl.SSLCertVerificationError):
        return f"its certificate is not believed: {failure.verify_message}"
    if isinstance(failure, OSError) and failure.strerror:
        return failure.strerror
    # The library's words may contain what was answered.
    return type(failure).__name__ if isinstance(failure, HTTPException) else str(failure)
