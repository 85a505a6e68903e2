"""SecurityHeaders: what every answer of the console forbids the browser.

Decides the headers; an answer that sets one itself keeps its own. Plain ASGI, since a middleware that reads answers
would hold up the stream of live events.

Source: the W3C's Content Security Policy Level 3; RFC 6797 (HSTS); OWASP's list of secure headers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders

from kavka.console.access.csrf import is_loopback_host

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-src 'self'; frame-ancestors 'self'; base-uri 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "SAMEORIGIN",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
STATIC: Final = "/static/"
HSTS: Final = "max-age=31536000"
"""A browser that was here once by https comes by nothing else for a year (RFC 6797)."""


class SecurityHeaders:
    """Adds HEADERS to every answer that does not have them; pages are not to be kept by the browser.

    is_https: browsers are told to come by https alone. Not for the loopback's names: what else listens there would be
    out of reach, too.
    """

    def __init__(self, app: ASGIApp, *, is_https: bool = False) -> None:
        self._app = app
        self._is_https = is_https

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if self._is_https and not is_loopback_host(Headers(scope=scope).get("host")):
                    headers.setdefault("strict-transport-security", HSTS)
                if not scope["path"].startswith(STATIC):
                    headers.setdefault("cache-control", "no-store")
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)
