"""Who may ask a registry.

Decides, for each request, before any path is looked at.

    LocalOnly   whoever reaches this machine's loopback, and no page of a browser: what has an Origin of another host,
                or a Host that is not the loopback's (DNS rebinding), is refused

I1  What is refused reaches no handler.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


class Access(Protocol):
    """A rule of who may ask."""

    def guarded(self, app: ASGIApp) -> ASGIApp:
        """The application behind this rule."""


class LocalOnly:
    """No login: see the module's opening."""

    def guarded(self, app: ASGIApp) -> ASGIApp:
        async def guard(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                why = foreign_page(Headers(scope=scope))
                if why:
                    await refused(403, why)(scope, receive, send)
                    return
            await app(scope, receive, send)

        return guard


def foreign_page(headers: Headers) -> str:
    """Why a request may come from a page of another site; empty where it does not."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if not is_loopback(host):
        return f"Without a login this registry answers to names of the loopback only, not to {host[:100]!r}"
    if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
        return f"Pages of {origin[:100]!r} may not ask this registry"
    return ""


def is_loopback(host: str) -> bool:
    """Whether a Host header names this machine's loopback."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def refused(status: int, why: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """An answer in the registry's form."""
    return JSONResponse({"error_code": status, "message": why}, status_code=status, headers=headers)
