"""A webhook: JSON to an address that an operator gave, by POST.

Decides what counts as delivered. Must not know what is told, or when.

    I1  delivered is what was answered with 2xx within `TIMEOUT_S`, however slowly; what was not delivered may be sent
        again
    I2  a redirect is not followed: it would take what is sent elsewhere
    I3  a connection that is slower is ended: whoever sends a byte now and then would have one more of them each time
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import urllib.error
import urllib.request
from types import TracebackType
from typing import Any, Final

from kavka import __version__
from kavka.runtime.http.http_services import within

TIMEOUT_S: Final = 10.0
LONGEST_ANSWER: Final = 2_000
SHOWN: Final = 200
"""Characters of an answer that refuses."""


class NotDelivered(Exception):
    """It was refused, or nobody knows: it may be sent again."""


class Refused(NotDelivered):
    """The webhook answered, and not with 2xx."""


def post(address: str, body: Any) -> None:
    """Blocks until it is delivered. Raises `Refused` and `NotDelivered`."""
    headers = {"content-type": "application/json", "user-agent": f"kavka/{__version__}"}
    try:
        request = urllib.request.Request(address, json.dumps(body).encode(), headers, method="POST")
        within(TIMEOUT_S, lambda: _post(request), "kavka-webhook")
    except (OSError, ValueError, http.client.HTTPException) as failed:
        why = getattr(failed, "reason", failed)  # A URLError's own words are Python's.
        raise NotDelivered(str(why) or type(failed).__name__) from None


def _post(request: urllib.request.Request) -> None:
    with _Connections(TIMEOUT_S) as connections:
        opener = urllib.request.build_opener(_NoRedirect, *connections.handlers())
        try:
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                answer.read(LONGEST_ANSWER)
        except urllib.error.HTTPError as refused:
            raise Refused(f"it answered {refused.code} {_said(refused)}".strip()) from None


def _said(refused: urllib.error.HTTPError) -> str:
    try:
        with refused:
            return " ".join(refused.read(LONGEST_ANSWER).decode(errors="replace").split())[:SHOWN]
    except (OSError, http.client.HTTPException):
        return ""


class _Connections:
    """Those that one request opens, also through a proxy and before TLS: they end after so many seconds (I3)."""

    def __init__(self, seconds: float) -> None:
        self._end = threading.Timer(seconds, self._cut)
        self._end.daemon = True
        self._lock = threading.Lock()
        self._spares: list[socket.socket] = []
        """A second handle of each: TLS takes the first one over."""
        self._is_over = False

    def __enter__(self) -> _Connections:
        self._end.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.cancel()
        with self._lock:
            for each in self._spares:
                each.close()
            self._spares.clear()

    def handlers(self) -> tuple[urllib.request.BaseHandler, urllib.request.BaseHandler]:
        """How urllib opens them."""
        connect = self._connect

        class Plain(http.client.HTTPConnection):
            def __init__(self, *given: Any, **named: Any) -> None:
                super().__init__(*given, **named)
                self._create_connection = connect

        class Secured(http.client.HTTPSConnection):
            def __init__(self, *given: Any, **named: Any) -> None:
                super().__init__(*given, **named)
                self._create_connection = connect

        class Http(urllib.request.HTTPHandler):
            def http_open(self, req: urllib.request.Request) -> Any:
                return self.do_open(Plain, req)

        class Https(urllib.request.HTTPSHandler):
            def https_open(self, req: urllib.request.Request) -> Any:
                return self.do_open(Secured, req, context=ssl.create_default_context())

        return Http(), Https()

    def _connect(self, *given: Any, **named: Any) -> socket.socket:
        wire = socket.create_connection(*given, **named)
        with self._lock:
            if not self._is_over:
                self._spares.append(wire.dup())
                return wire
        wire.close()
        raise TimeoutError("it took too long")

    def _cut(self) -> None:
        with self._lock:
            self._is_over = True
            for each in self._spares:
                try:
                    each.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **more: Any) -> None:
        return None
