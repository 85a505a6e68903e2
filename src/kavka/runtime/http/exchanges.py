"""One question over HTTP and its whole answer: a request goes out, a status and a body come back.

Decides how long that may take and how much is read. Must not know what is asked, nor who asks again.

    I1  it ends `seconds` after it began, but for a name's look-up, which cannot be ended (http_services.within): who
        sends a byte now and then gains nothing
    I2  of a body `most_bytes` and one more are read: the one says that there are more
    I3  nothing but the address is asked: no redirect is followed, and no proxy that the environment names is used
    I4  a body that ended too early is a failure, and no answer
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from typing import NamedTuple

from kavka.runtime.http.http_services import ServiceAddress, cut_after


class Question(NamedTuple):
    """What is sent. path: behind the address's own; data: a body, None for none."""

    method: str
    path: str
    headers: Mapping[str, str]
    data: bytes | None = None


class HttpAnswer(NamedTuple):
    """What came back. location: where a redirect would lead; encoding: of the body, empty for none."""

    status: int
    body: bytes
    location: str = ""
    encoding: str = ""


def exchange(
    at: ServiceAddress, asked: Question, *, seconds: float, most_bytes: int, context: ssl.SSLContext | None
) -> HttpAnswer:
    """Asks, on this thread. context: for https. Raises OSError, HTTPException and ValueError, for which `told` has
    words."""
    until = time.monotonic() + seconds
    with socket.create_connection((at.host, at.port), timeout=seconds) as raw:
        wire: socket.socket = raw
        if at.scheme == "https" and context is not None:
            wire = context.wrap_socket(raw, server_hostname=at.host, do_handshake_on_connect=False)
        with wire, cut_after(wire, max(0.0, until - time.monotonic())) as is_cut:
            try:
                answer = _answer(wire, at, asked, most_bytes)
            except (OSError, HTTPException) as problem:
                if is_cut.is_set() or isinstance(problem, TimeoutError):
                    raise TimeoutError(f"its answer took longer than {seconds:g} s") from problem
                raise
            if is_cut.is_set():
                raise TimeoutError(f"its answer took longer than {seconds:g} s")
            return answer


def _answer(wire: socket.socket, at: ServiceAddress, asked: Question, most_bytes: int) -> HttpAnswer:
    if isinstance(wire, ssl.SSLSocket):
        wire.do_handshake()
    connection = HTTPConnection(at.host, at.port)
    connection.sock = wire
    headers = {**asked.headers, "Connection": "close"}
    connection.request(asked.method, at.path + asked.path, asked.data, headers)
    response = connection.getresponse()
    body = response.read(most_bytes + 1)
    if response.length and len(body) <= most_bytes:
        raise OSError("its answer was cut short")
    return HttpAnswer(
        response.status, body, response.getheader("Location") or "", response.getheader("Content-Encoding") or ""
    )


def told(problem: Exception) -> str:
    """Why there is no answer, in words."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"its certificate is not believed: {problem.verify_message}"
    if isinstance(problem, ssl.SSLError):
        return f"it speaks no TLS that is understood: {problem.reason or problem}"
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    return str(problem) or type(problem).__name__
