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
from kavka.console.sso_settings import USER_PREFIX

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.access.single_sign_on import SsoRefused
    from kavka.console.console import Console

NEXT_LENGTH = 2_000
LEFT = "left"
"""In the address of the page after the logout of somebody who had logged in by the provider."""
UNKNOWN = "(unknown)"
"""What the audit log says for a name that no user has: people type passwords into that field. No user's name has a
bracket."""


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
        return login_form(console, request, request.query_params.get("next", ""))

    async def log_in(request: Request) -> Response:
        return await _log_in(console, request)

    async def log_out(request: Request) -> Response:
        session = request.state.session
        if session.user is not None:
            console.guard.sessions.end(session.number)
            write_login_down(console, request, session.user.name, Outcome.COMMITTED, action="logout")
        here = "/login" if console.guard.login_required else "/"
        was_sso = session.user is not None and session.user.name.startswith(USER_PREFIX)
        response = RedirectResponse(f"{here}?{LEFT}=1" if was_sso else here, 303)
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
        return login_form(console, request, target, FailedAttempt(name, wait_s=int(wait_s) + 1), status=429)
    # Counted before it is checked: of a hundred sent at once only a few are looked at.
    guard.throttle.failed(keys, time.monotonic())
    user = await guard.users.check(name, password)
    if user is None:
        is_known = guard.users.find(name) is not None
        write_login_down(console, request, name if is_known else UNKNOWN, Outcome.DENIED)
        return login_form(console, request, target, FailedAttempt(name, is_wrong=True), status=401)
    guard.throttle.succeeded(*keys)
    if request.state.session.user is not None:
        guard.sessions.end(request.state.session.number)
    response = RedirectResponse(csrf.safe_path(target), 303)
    guard.set_cookie(response.headers, guard.sessions.begin(user, guard.now_ms()))
    guard.mark_device(response.headers, user.name)
    write_login_down(console, request, user.name, Outcome.COMMITTED)
    return response


def login_form(
    console: Console,
    request: Request,
    target: str,
    attempt: FailedAttempt | None = None,
    *,
    refused: SsoRefused | None = None,
    status: int = 200,
) -> Response:
    """The page to log in; refused: why a login by the provider did not work out."""
    sso = console.guard.sso
    has_left = sso is not None and LEFT in request.query_params
    attempt = attempt or FailedAttempt()
    return console.render(
        request,
        "login.html",
        status_code=status,
        target=csrf.safe_path(target),
        name=attempt.name,
        is_wrong=attempt.is_wrong,
        wait_s=attempt.wait_s,
        here="/login",  # Not the address of the answer that a provider sent, which has its code in it.
        sso=None if sso is None else sso.settings,
        refused=refused,
        has_left=has_left,
        logout_url=sso.logout_url() if sso is not None and has_left else "",
        has_form=sso is None or bool(console.guard.users.all()),
        live=False,
    )


def write_login_down(
    console: Console, request: Request, name: str, outcome: Outcome, *, action: str = "login", remark: str = ""
) -> None:
    """Takes a login or logout into the audit log."""
    now_ms = console.guard.now_ms()
    key = f"{action} {now_ms} {time.perf_counter_ns()}"
    record = AuditRecord(key, name, address_of(request), "", action, name)
    console.guard.audit.record(record, outcome, now_ms, remark=remark)


def _has_users(request: Request) -> bool:
    guard = getattr(request.state, "guard", None)
    return guard is not None and (guard.sso is not None or bool(guard.users.all()))


def _session_user(request: Request) -> auth.User | None:
    session = getattr(request.state, "session", None)
    return None if session is None else session.user
