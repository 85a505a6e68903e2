"""That a form was sent from one of our own pages: a token in it, and where the browser says it comes from.

Decides for one request; must not know what it asks for. Two checks, each enough for a browser that behaves:

    token    every form has one, made from the browser's session and the console's key: another site cannot read it
    origin   the Origin (or, where there is none, Referer) of what changes something is the host it is sent to

and, where no login is needed, a third: the Host that a request names is this machine's loopback. Without it a page
elsewhere whose name is made to point to 127.0.0.1 (DNS rebinding) would be of the same origin.

Source: OWASP's cross-site request forgery prevention (HMAC-based tokens, source origin).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

FIELD = "csrf"
HEADER = "x-csrf-token"
SAFE_METHODS = frozenset({"GET", "HEAD"})
_PURPOSE = b"kavka console form\0"


def token_for(key: bytes, number: str) -> str:
    """The token of a session's forms."""
    return hmac.new(key, _PURPOSE + number.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def token(request: HTTPConnection) -> str:
    """The token for forms of the page that is made for this request."""
    return str(request.state.csrf_token)


def is_token(given: str, expected: str) -> bool:
    """Compares in a time that does not show how much of it is right."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def is_same_origin(host: str | None, origin: str | None, referer: str | None, fetch_site: str | None) -> bool:
    """Whether the headers say that the request comes from a page of `host` itself.

    A browser sends Origin with every POST; where neither it nor a Referer is there it is no browser, which the token
    then decides about. `Sec-Fetch-Site`, where it is sent, has to agree.
    """
    if fetch_site is not None and fetch_site not in ("same-origin", "none"):
        return False
    source = origin if origin is not None else referer
    if source is None:
        return True
    if not host:
        return False
    parts = urlsplit(source)
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def is_foreign_load(headers: Mapping[str, str]) -> bool:
    """Whether a browser asks for this because a page of another site has it inside: an image, a script, a frame.

    Such a request is answered to nobody, but it costs: a search reads a topic. Whoever follows a link from there comes
    as a document of their own, and is let in. What sends no `Sec-Fetch-Site` is no browser, or one that asks in clear
    from elsewhere: then a session's cookie (SameSite=Lax) does not come along either.

    Source: the W3C's Fetch Metadata Request Headers, and the resource isolation policy that is built on them.
    """
    if headers.get("sec-fetch-site", "none") in ("same-origin", "none"):
        return False
    return (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) != ("navigate", "document")


def is_loopback_host(host: str | None) -> bool:
    """Whether a Host header names this machine's loopback: localhost, 127.x.y.z or [::1], with any port."""
    if not host:
        return False
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    return name is not None and is_loopback(name)


def is_loopback(name: str) -> bool:
    """Whether an address to listen on is reached from this machine alone."""
    if name.lower() == "localhost":
        return True
    try:
        return ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def safe_path(target: str | None, *, otherwise: str = "/") -> str:
    """Where to go after a login: a path of this console, or `otherwise` for anything that leads elsewhere.

    >>> safe_path("/c/main/topics?x=1")
    '/c/main/topics?x=1'
    >>> safe_path("//evil.example"), safe_path("https://evil.example/"), safe_path("/\\\\evil.example")
    ('/', '/', '/')
    """
    if not target or not target.startswith("/") or target.startswith(("//", "/\\")):
        return otherwise
    if any(character <= " " or character in "\\\x7f" for character in target):
        return otherwise
    parts = urlsplit(target)
    return otherwise if parts.scheme or parts.netloc else target
