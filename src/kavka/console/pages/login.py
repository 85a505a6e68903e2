"""The pages to log in and out, and what templates need of the door: the form's token, and what a user may do.

Decides what a login tells: never which of name and password was wrong, nor whether a name exists.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from starlette.responses import RedirectResponse
from starlette.routing import Route

from kavka.console.access import auth, csrf, route_rights
from kavka.console.access.audit import AuditRecord, Outcome
from kavka.console.access.guard import address_of, attempt_keys
from kavka.console.access.route_rights import rights_of
from kavka.console.rights import Role

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.console import Console

NEXT_LENGTH = 2_000


class FailedAttempt(NamedTuple):
    """What the form shows after a login that failed: the name, whether it was wrong, how long to wait."""

    name: str = ""
    is_wrong: bool = False
    wait_s: int = 0


def install(console: Console) -> None:
    console.templates.globals.update(
        may=route_rights.may,
        may_open=route_rights.may_open,
        may_read_log=lambda request: bool(rights_of(request).anywhere(Role.OPERATOR)),
        sees_all=route_rights.sees_all,
        reads_values=route_rights.reads_values,
        session_user=_session_user,
        has_users=_has_users,
    )
    console.guard.refusal = lambda request, status, text: console.render(
        request, "refused.html", status_code=status, status=status, text=text, live=False
    )


def routes(console: Console) -> list[Route]:
    async def form(request: Request) -> Response:
        return _form(console, request, request.query_params.get("next", ""))

    async def log_in(request: Request) -> Response:
        return await _log_in(console, request)

    async def log_out(request: Request) -> Response:
        session = request.state.session
        if session.user is not None:
            console.guard.sessions.end(session.number)
            _write_down(console, request, "logout", session.user.name, Outcome.COMMITTED)
        response = RedirectResponse("/login" if console.guard.login_required else "/", 303)
        console.guard.set_cookie(response.headers, console.guard.sessions.anonymous())
        return response

    return [
        Route("/login", form, methods=["GET"]),
        Route("/login", log_in, methods=["POST"]),
        Route("/logout", log_out, methods=["POST"]),
    ]


async def _log_in(console: Console, request: Request) -> Response:
    guard = console.guard
    fields = await request.form()
    name, password = str(fields.get("name", ""))[:64], str(fields.get("password", ""))
    target = str(fields.get("next", ""))[:NEXT_LENGTH]
    keys = attempt_keys(request, name)
    wait_s = guard.throttle.wait_s(keys, time.monotonic())
    if wait_s > 0:
        return _form(console, request, target, FailedAttempt(name, wait_s=int(wait_s) + 1), status=429)
    # Counted before it is checked: of a hundred sent at once only a few are looked at.
    guard.throttle.failed(keys, time.monotonic())
    user = await guard.users.check(name, password)
    if user is None:
        _write_down(console, request, "login", name, Outcome.DENIED)
        return _form(console, request, target, FailedAttempt(name, is_wrong=True), status=401)
    guard.throttle.succeeded(*keys)
    if request.state.session.user is not None:
        guard.sessions.end(request.state.session.number)
    response = RedirectResponse(csrf.safe_path(target), 303)
    guard.set_cookie(response.headers, guard.sessions.begin(user, guard.now_ms()))
    guard.mark_device(response.headers, user.name)
    _write_down(console, request, "login", user.name, Outcome.COMMITTED)
    return response


def _form(
    console: Console,
    request: Request,
    target: str,
    attempt: FailedAttempt | None = None,
    *,
    status: int = 200,
) -> Response:
    attempt = attempt or FailedAttempt()
    return console.render(
        request,
        "login.html",
        status_code=status,
        target=csrf.safe_path(target),
        name=attempt.name,
        is_wrong=attempt.is_wrong,
        wait_s=attempt.wait_s,
        live=False,
    )


def _write_down(console: Console, request: Request, action: str, name: str, outcome: Outcome) -> None:
    now_ms = console.guard.now_ms()
    key = f"{action} {now_ms} {time.perf_counter_ns()}"
    console.guard.audit.record(AuditRecord(key, name, address_of(request), "", action, name), outcome, now_ms)


def _has_users(request: Request) -> bool:
    guard = getattr(request.state, "guard", None)
    return guard is not None and bool(guard.users.all())


def _session_user(request: Request) -> auth.User | None:
    session = getattr(request.state, "session", None)
    return None if session is None else session.user
