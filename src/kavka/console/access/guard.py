"""The door: what every request goes through before a page sees it.

Decides, for each request: who asks; whether a login is needed; whether it comes from our own page; how large it may be.
Must not know the pages; it asks auth, sessions and csrf. Plain ASGI, so that an endless stream of events passes through
as it is.

I1  Beyond loopback nobody gets anything but the login page, its style and /metrics (with a name and a password) without
    a session; and the console does not start there while it has no user.
I2  Nothing is changed by a request without the session's token in it, or from another origin (csrf.py).
    Nor does a page of another site have anything of the console inside it, be it only to cost (`is_foreign_load`).
I3  At most `MOST_BODY_BYTES` of a request are held, `MOST_ANONYMOUS_BYTES` of one by nobody, `MOST_HELD_BYTES` of all
    that are under way, and none for longer than `BODY_S` before it is whole.
I4  A stream of events ends after `STREAM_S` and begins anew with the session it has then: one that has expired, or
    whose user was removed, is not served on.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kavka.console.access import csrf
from kavka.console.access.audit import AuditLog, AuditRecord, Outcome
from kavka.console.access.auth import LOCAL_USER, LoginThrottle, User, Users
from kavka.console.access.sessions import ABSOLUTE_MS, Session, Sessions
from kavka.console.access.single_sign_on import LOGIN_MS, SingleSignOn
from kavka.console.asked_path import path_of
from kavka.console.settings import UserSettings
from kavka.console.sso_settings import CALLBACK, SsoSettings
from kavka.errors import ConfigError

MOST_BODY_BYTES = 4 * 1024 * 1024
"""Of a form: a record of a megabyte in hex, and what stands around it."""
MOST_ANONYMOUS_BYTES = 64 * 1024
"""Of a login."""
MOST_HELD_BYTES = 64 * 1024 * 1024
BODY_S = 60.0
MOST_FIELDS = 5_000
MOST_DENIALS = 30
"""Refusals of one user in a minute that the audit log takes; more are more of the same."""
DEVICE_S = 365 * 24 * 3600
STREAM_S = 300.0
SSO_PATH = "/login/sso"
OPEN_PATHS = ("/login", SSO_PATH, CALLBACK)
OPEN_FILES = "/static/"
METRICS_PATH = "/metrics"
LIVE_HEADER = "x-kavka-live"
"""What an open page sends when it asks for itself again."""
EVENTS = "text/event-stream"
BASIC_KEPT_S = 60.0
"""How long a name and password that were right for /metrics are not hashed again."""
Refusal = Callable[[Request, int, str], Response]


class Guard:
    """Users, sessions, throttle and audit log of one console, and whether a login is needed.

    listens_on: the address that the console listens on. users: those of the settings. sso: by which provider one may
    log in. Raises ConfigError where a login is needed (the address is not loopback, `login_required` says so, or there
    is a provider) and nobody could log in, or a user of the settings has no password.
    """

    def __init__(  # noqa: PLR0913 - each is a setting of the console's
        self,
        database: sqlite3.Connection,
        *,
        listens_on: str,
        login_required: bool = False,
        secure_cookies: bool = False,
        users: Sequence[UserSettings] = (),
        sso: SsoSettings | None = None,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self.users = Users(database, users)
        self.sessions = Sessions(database, self.users, sso)
        self.sso = None if sso is None else SingleSignOn(sso, self.sessions.key, now_ms)
        self.audit = AuditLog(database)
        self.throttle = LoginThrottle()
        self.now_ms = now_ms
        self.secure_cookies = secure_cookies
        self.login_required = login_required or sso is not None or not csrf.is_loopback(listens_on)
        self.held_bytes = 0
        """Of requests whose end has not come yet."""
        self._denials: tuple[int, Counter[str]] = (0, Counter())
        self.refusal: Refusal = _plain_refusal
        """How a refused request is answered; the pages put one of theirs here."""
        if self.login_required and sso is None and not self.users.all():
            raise ConfigError(
                f"the console would listen on {listens_on} and has no user: nobody could log in. "
                "Add one first: kavka console user add NAME --role admin"
            )
        missing = self.users.without_password() if self.login_required else []
        if missing:
            raise ConfigError(
                f"users of the settings without a password: {', '.join(missing)}. Give each a password there "
                f"(kavka console user hash), or in the console's database: kavka console user add {missing[0]}"
            )

    def set_cookie(self, response_headers: MutableHeaders, session: Session) -> None:
        """Gives the browser the session's number."""
        value = self.sessions.cookie_of(session.number)
        self._set_cookie(response_headers, self.sessions.cookie_name, value, "/", ABSOLUTE_MS // 1000)

    def mark_device(self, response_headers: MutableHeaders, name: str) -> None:
        """Marks the browser as one in which `name` has logged in."""
        value = self.sessions.new_device(name)
        self._set_cookie(response_headers, self.sessions.device_cookie_name, value, "/login", DEVICE_S)

    def keep_sso(self, response_headers: MutableHeaders, cookie: str) -> None:
        """Gives the browser what a login by a provider is compared with when it comes back; '' takes it away."""
        age_s = LOGIN_MS // 1000 if cookie else 0
        self._set_cookie(response_headers, self.sessions.sso_cookie_name, cookie, SSO_PATH, age_s)

    def _set_cookie(self, headers: MutableHeaders, name: str, value: str, path: str, age_s: int) -> None:
        cookie = f"{name}={value}; Path={path}; HttpOnly; SameSite=Lax; Max-Age={age_s}"
        headers.append("set-cookie", cookie + ("; Secure" if self.secure_cookies else ""))

    def takes_denial(self, user: str) -> bool:
        """Whether the audit log takes one more refusal of this user: nobody is to fill it."""
        minute = self.now_ms() // 60_000
        if minute != self._denials[0]:
            self._denials = (minute, Counter())
        self._denials[1][user] += 1
        return self._denials[1][user] <= MOST_DENIALS


class GuardMiddleware:
    """The guard in front of an application."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard
        self._basic: tuple[str, float, User | None] = ("", 0.0, None)
        """The last Authorization header of /metrics that was right, until when it is taken without a look, and whose
        it is."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        guard, headers = self._guard, Headers(scope=scope)
        cookie = _cookie(headers.get("cookie"), guard.sessions.cookie_name)
        is_use = LIVE_HEADER not in headers and EVENTS not in headers.get("accept", "")
        session = guard.sessions.find(cookie, guard.now_ms(), is_use=is_use)
        is_new = session is None
        session = session or guard.sessions.anonymous()
        user = session.user or (None if guard.login_required else LOCAL_USER)
        state: dict[str, Any] = scope.setdefault("state", {})
        state["user"], state["session"], state["guard"] = user, session, guard
        state["csrf_token"] = csrf.token_for(guard.sessions.key, session.number)
        answer = _Answer(send, guard, scope, session if is_new else None)
        request = Request(scope, receive)
        refused = await self._refuse(request, user)
        if refused is not None:
            await refused(scope, receive, answer)
            return
        if scope["method"] not in csrf.SAFE_METHODS:
            try:
                receive = await _checked_body(request, guard)
            except HTTPException as problem:
                response = guard.refusal(request, problem.status_code, problem.detail)
                await response(scope, receive, answer)
                return
        await answer.run(self._app, scope, receive)

    async def _refuse(self, request: Request, user: User | None) -> Response | None:
        guard, headers, path = self._guard, request.headers, request.url.path
        if not guard.login_required and not csrf.is_loopback_host(headers.get("host")):
            text = "This console needs no login, and so it answers to localhost and 127.0.0.1 only."
            return PlainTextResponse(text, 403)
        if request.method in csrf.SAFE_METHODS and csrf.is_foreign_load(headers):
            return PlainTextResponse("This console shows nothing inside another site's pages.", 403)
        if user is not None or path in OPEN_PATHS or path.startswith(OPEN_FILES):
            return None
        if path == METRICS_PATH:
            request.state.user = await self._basic_user(request)
            if request.state.user is not None:
                return None
            return PlainTextResponse("log in", 401, {"www-authenticate": 'Basic realm="kavka console"'})
        if request.method not in csrf.SAFE_METHODS or EVENTS in headers.get("accept", ""):
            return guard.refusal(request, 401, "Nobody is logged in, or the session has expired. Nothing was done.")
        target = path_of(request) + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?next={quote(target, safe='')}", 303)

    async def _basic_user(self, request: Request) -> User | None:
        given = request.headers.get("authorization", "")
        now_s = time.monotonic()
        if given and given == self._basic[0] and now_s < self._basic[1]:
            return self._basic[2]
        scheme, _, encoded = given.partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except ValueError:
            return None
        # Who was right before is not made to wait by others' wrong attempts at the name.
        is_known = hmac.compare_digest(given.encode("utf-8", "replace"), self._basic[0].encode("utf-8", "replace"))
        keys = (f"metrics of {name[:64]}",) if is_known else attempt_keys(request, name)
        if self._guard.throttle.wait_s(keys, now_s) > 0:
            return None
        self._guard.throttle.failed(keys, now_s)
        user = await self._guard.users.check(name, password)
        if user is None:
            return None
        self._guard.throttle.succeeded(*keys)
        self._basic = (given, now_s + BASIC_KEPT_S, user)
        return user


def attempt_keys(request: Request, name: str) -> tuple[str, ...]:
    """What wrong logins are counted by: the browser, where this name has logged in before, so that nobody else locks
    its owner out; else the name and the address.

    Source: OWASP's "Slow Down Online Guessing Attacks with Device Cookies".
    """
    sessions = request.state.guard.sessions
    device = sessions.device_of(request.cookies.get(sessions.device_cookie_name), name)
    if device is not None:
        return (f"device {device}",)
    return (f"name {name[:64]}", f"address {address_of(request)}")


def address_of(request: Request) -> str:
    return "" if request.client is None else request.client.host


class _Answer:
    """The answer on its way out: headers are added, a refusal is written down, a stream ends in time."""

    def __init__(self, send: Send, guard: Guard, scope: Scope, fresh: Session | None) -> None:
        self._send = send
        self._guard = guard
        self._scope = scope
        self._fresh = fresh
        self._timeout: asyncio.Timeout | None = None

    async def run(self, app: ASGIApp, scope: Scope, receive: Receive) -> None:
        timeout = self._timeout = asyncio.timeout(None)
        try:
            async with timeout:
                await app(scope, receive, self)
        except TimeoutError:
            if not timeout.expired():
                raise
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            is_static = self._scope["path"].startswith("/static/")
            if not is_static:
                headers.setdefault("cache-control", "no-store")
            if self._fresh is not None and not is_static and self._scope["path"] != METRICS_PATH:
                self._set_first_cookie(headers, self._fresh)
            if headers.get("content-type", "").startswith(EVENTS) and self._timeout is not None:
                self._timeout.reschedule(asyncio.get_running_loop().time() + STREAM_S)
            # Not what the door refuses: a page of another site could fill the log in somebody's name.
            if self._timeout is not None and (message["status"] == 403 or self._scope["state"].get("is_denied")):
                self._write_down(is_hidden=message["status"] != 403)
        await self._send(message)

    def _set_first_cookie(self, headers: MutableHeaders, session: Session) -> None:
        """Unless the page has given the browser another one, as a login does."""
        if f"{self._guard.sessions.cookie_name}=" not in "".join(headers.getlist("set-cookie")):
            self._guard.set_cookie(headers, session)

    def _write_down(self, *, is_hidden: bool) -> None:
        """Somebody tried what they may not: to change something, or to see a cluster that does not exist for them.
        Only of who is logged in: the log is not to be filled from outside."""
        user: User | None = self._scope["state"]["user"]
        is_change = self._scope["method"] not in csrf.SAFE_METHODS
        if user is None or not (is_change or is_hidden) or not self._guard.takes_denial(user.name):
            return
        request = Request(self._scope)
        now_ms = self._guard.now_ms()
        key = f"denied {now_ms} {time.perf_counter_ns()}"
        record = AuditRecord(
            key, user.name, address_of(request), "", "denied", f"{request.method} {request.url.path}"[:500]
        )
        self._guard.audit.record(record, Outcome.DENIED, now_ms)


async def _checked_body(request: Request, guard: Guard) -> Receive:
    """Reads the request, checks that it is from our own page; returns what gives it to the page. HTTPException else."""
    headers = request.headers
    if not csrf.is_same_origin(
        headers.get("host"), headers.get("origin"), headers.get("referer"), headers.get("sec-fetch-site")
    ):
        raise HTTPException(403, "This request comes from another site. Nothing was done.")
    try:
        async with asyncio.timeout(BODY_S):
            body = await _whole_body(request, guard)
    except TimeoutError:
        raise HTTPException(408, "The request did not arrive in time. Nothing was done.") from None
    given = headers.get(csrf.HEADER, "") or await _field(request.scope, body)
    if not csrf.is_token(given, csrf.token(request)):
        raise HTTPException(
            403,
            "This form is older than your session (or not from this console). "
            "Nothing was done: go back, load the page again and send it again.",
        )
    return _again(body, request.receive)


async def _whole_body(request: Request, guard: Guard) -> bytes:
    """Raises HTTPException where it is too large, or breaks off."""
    most = MOST_ANONYMOUS_BYTES if request.state.user is None else MOST_BODY_BYTES
    too_large = HTTPException(413, f"At most {most:,} bytes are taken. Nothing was done.")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and (len(length) > 18 or int(length) > most):
        raise too_large
    body = bytearray()
    try:
        while True:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise HTTPException(400, "The request broke off. Nothing was done.")
            piece = message.get("body", b"")
            body += piece
            guard.held_bytes += len(piece)
            if len(body) > most:
                raise too_large
            if guard.held_bytes > MOST_HELD_BYTES:
                raise HTTPException(503, "The console is busy with other requests. Nothing was done.")
            if not message.get("more_body", False):
                return bytes(body)
    finally:
        guard.held_bytes -= len(body)


async def _field(scope: Scope, body: bytes) -> str:
    form = await Request(scope, _again(body, None)).form(max_fields=MOST_FIELDS, max_part_size=MOST_BODY_BYTES)
    try:
        value = form.get(csrf.FIELD, "")
        return value if isinstance(value, str) else ""
    finally:
        await form.close()


def _again(body: bytes, then: Receive | None) -> Receive:
    """The body once, then what the connection brings."""
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        if then is None:
            return {"type": "http.disconnect"}
        return await then()

    return receive


def _cookie(header: str | None, name: str) -> str | None:
    try:
        found = SimpleCookie(header or "").get(name)
    except CookieError:
        return None
    return None if found is None else found.value


def _plain_refusal(request: Request, status: int, text: str) -> Response:
    return PlainTextResponse(text, status)
