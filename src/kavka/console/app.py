"""The web application: its pages, the guard before them, and what is said where a page fails.

Decides which pages there are: every module of `pages/` with `routes`. Must not know what a page shows.

    I1  Every request passes the guard (access/guard.py) before it sees a page.
    I2  Every page asks for the right that the table of access/route_rights.py names for it.
    I3  A failure of a cluster is a page that says so, never a traceback.

A module of `pages/` has `routes(console) -> list[Route]`, and may have `install(console)`, called once before.
"""

from __future__ import annotations

import importlib
import pkgutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from kavka.console import pages
from kavka.console.access.guard import Guard, GuardMiddleware
from kavka.console.access.headers import HEADERS, SecurityHeaders
from kavka.console.access.route_rights import guarded
from kavka.console.access.turns import TooBusy
from kavka.console.console import Console
from kavka.console.ledger import LEDGER, open_ledger
from kavka.console.live_events import live_routes
from kavka.console.metrics import metrics_routes
from kavka.console.rights import Role
from kavka.console.sources.rest_service import RestFailed
from kavka.errors import ConnectionFailed, ErrorCode, KavkaError, RequestError
from kavka.logger import Logger

if TYPE_CHECKING:
    from starlette.requests import Request

    from kavka.console.settings import ConsoleSettings

ERROR_TEMPLATE: Final = "error.html"
logger = Logger(__name__)


class _Number(IntegerConvertor):
    """A number in an address: of as many digits as fit into 64 bits. What is longer leads nowhere."""

    regex = "[0-9]{1,18}"


register_url_convertor("int", _Number())


def create_app(settings: ConsoleSettings) -> Starlette:
    """The application, whose clusters are watched from its start (ASGI lifespan) to its end.

    Raises ConfigError where nobody could log in, sqlite3.Error and OSError where the database cannot be had.
    """
    ledger = open_ledger(Path(settings.data_directory) / LEDGER)
    guard = Guard(
        ledger,
        listens_on=settings.host,
        login_required=settings.login,
        secure_cookies=settings.is_https,
        users=settings.users,
        sso=settings.sso,
    )
    console = Console(settings, ledger, guard)

    async def on_problem(request: Request, error: Exception) -> Response:
        # Not a plain function: Starlette calls those on another thread, and the ledger belongs to this one.
        return _problem(console, request, error)

    app = Starlette(
        routes=guarded(_routes(console)),
        middleware=[Middleware(SecurityHeaders, is_https=settings.is_https), Middleware(GuardMiddleware, guard=guard)],
        exception_handlers={
            HTTPException: on_problem,
            KavkaError: on_problem,
            Exception: on_problem,
        },
        lifespan=_lifespan(console, ledger),
    )
    app.state.console = console
    return app


def _lifespan(console: Console, ledger: sqlite3.Connection) -> Callable[[Starlette], Any]:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            await console.start()
            yield
        finally:
            await console.stop()
            ledger.close()

    return lifespan


def _routes(console: Console) -> list[BaseRoute]:
    found: list[BaseRoute] = [*live_routes(console), *metrics_routes(console)]
    modules = [
        importlib.import_module(f"{pages.__name__}.{entry.name}")
        for entry in sorted(pkgutil.iter_modules(pages.__path__), key=lambda entry: entry.name)
    ]
    for module in modules:
        if hasattr(module, "install"):
            module.install(console)
    for module in modules:
        if hasattr(module, "routes"):
            found += module.routes(console)
    # Starlette takes the first route that fits, and these have fixed words where others have names.
    found.sort(key=lambda route: ("{" in getattr(route, "path", ""), ":path}" in getattr(route, "path", "")))
    found.append(Mount("/static", StaticFiles(packages=[("kavka.console", "static")]), name="static"))
    return found


def _problem(console: Console, request: Request, error: Exception) -> Response:
    """The page of a request that failed: what, why, and what to do."""
    status, what, advice, headers = _explained(error)
    if status == 500:
        logger.error("page failed", path=request.url.path, error=repr(error), next="this is a bug: please report it")
    name = request.path_params.get("cluster") if request.scope.get("path_params") else None
    user = getattr(request.state, "user", None)
    # Who has no right on a cluster is not told that there is one.
    watch = console.clusters.get(name) if name and user is not None and user.rights.on(name, Role.VIEWER) else None
    return console.render(
        request,
        ERROR_TEMPLATE,
        status_code=status,
        headers={**HEADERS, **(headers or {})},  # Some fail before any middleware.
        status=status,
        what=what,
        why=str(getattr(error, "detail", "") or error) if status != 500 else "",
        advice=advice,
        watch=watch,
        cluster=watch,
        live=False,
    )


def _explained(error: Exception) -> tuple[int, str, str, Mapping[str, str] | None]:
    """Status, what happened, what to do, and headers."""
    if isinstance(error, HTTPException):
        what = "There is no such page" if error.status_code == 404 else "This cannot be done"
        return error.status_code, what, "", error.headers
    if isinstance(error, TooBusy):
        return 503, "The console is busy", "Wait a moment, then reload the page.", {"retry-after": "5"}
    if isinstance(error, RestFailed):
        return 503, "A service beside the cluster does not answer", "Check that it runs, then reload the page.", None
    if isinstance(error, ConnectionFailed):
        return 503, "The cluster does not answer", "Check that its brokers are running, then reload the page.", None
    if isinstance(error, RequestError):
        status = 404 if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else 409
        return status, "The cluster refused this", "", None
    if isinstance(error, KavkaError):
        return 409, "This cannot be done", "", None
    return 500, "This page failed", "The console's log has the cause. The cluster is not affected.", None
