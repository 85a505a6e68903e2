"""The two addresses of a login by a provider: to the provider, and back from it.

Decides what is written down of such a login, and what a visitor is told where it did not work out. Must not know what
is believed (access/single_sign_on.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.routing import Route

from kavka.console.access import csrf
from kavka.console.access.audit import Outcome
from kavka.console.access.guard import SSO_PATH
from kavka.console.access.single_sign_on import SingleSignOn, SsoRefused
from kavka.console.pages.login import NEXT_LENGTH, login_form, write_login_down
from kavka.console.sso_settings import CALLBACK, USER_PREFIX

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.console import Console

NOBODY = f"{USER_PREFIX}?"
"""Who a login that was refused is written down for."""


def routes(console: Console) -> list[Route]:
    async def begin(request: Request) -> Response:
        return await _begin(console, request)

    async def finish(request: Request) -> Response:
        return await _finish(console, request)

    return [Route(SSO_PATH, begin), Route(CALLBACK, finish)]


async def _begin(console: Console, request: Request) -> Response:
    target = csrf.safe_path(request.query_params.get("next", "")[:NEXT_LENGTH])
    try:
        begun = await _provider(console).begin(target)
    except SsoRefused as refused:
        return login_form(console, request, target, refused=refused, status=refused.status)
    response = RedirectResponse(begun.url, 303)
    console.guard.keep_sso(response.headers, begun.cookie)
    return response


async def _finish(console: Console, request: Request) -> Response:
    """There is nothing to guess here, so nobody is made to wait for another's wrong answers; of these the audit log
    takes some in a minute."""
    guard, sso = console.guard, _provider(console)
    try:
        cookie = request.cookies.get(guard.sessions.sso_cookie_name)
        identity, target = await sso.finish(cookie, dict(request.query_params))
    except SsoRefused as refused:
        if not refused.is_outage and guard.takes_denial(NOBODY):
            write_login_down(console, request, NOBODY, Outcome.DENIED, remark=str(refused))
        response = login_form(console, request, "", refused=refused, status=refused.status)
        guard.keep_sso(response.headers, "")
        return response
    if request.state.session.user is not None:
        guard.sessions.end(request.state.session.number)
    session = guard.sessions.begin_sso(identity, guard.now_ms())
    response = RedirectResponse(csrf.safe_path(target), 303)
    guard.keep_sso(response.headers, "")
    guard.set_cookie(response.headers, session)
    counted = ", ".join(sso.settings.counted(identity.groups)) or "none that a rule names"
    remark = f"subject {identity.subject}; groups: {counted}"
    write_login_down(console, request, identity.user_name, Outcome.COMMITTED, remark=remark)
    return response


def _provider(console: Console) -> SingleSignOn:
    if console.guard.sso is None:
        raise HTTPException(404, "This console has no provider of logins.")
    return console.guard.sso
