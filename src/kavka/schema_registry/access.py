"""Who may ask a registry.

Decides, for each request, before any path is looked at.

    LocalOnly   whoever reaches this machine's loopback, and no page of a browser: what has an Origin of another host,
                or a Host that is not the loopback's (DNS rebinding), is refused
    Logins      who has a name and a password (HTTP Basic); a user's role says what it may do

    role        may
    reader      read, look schemas up, ask for compatibility
    writer      register, delete softly
    admin       set levels and modes, delete for good

I1  What is refused reaches no handler. A request's role is read off the same path that chooses its handler: as it was
    sent, for %2F is a slash in a name and no end of one.
I2  A name that is not there costs as much time as a wrong password.
I3  An address that fails waits longer each time (security/failed_login_delay.py), and while it waits no password is
    looked at. Tries that came at once wait for each other, and count one after the other.
I4  What is remembered of a password that was right is a digest with a key of this process, for REMEMBER_S.

Source: RFC 7617 (Basic).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
import re
import time
import tomllib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse

from kavka.errors import ConfigError
from kavka.security.failed_login_delay import Guessing
from kavka.security.passwords import NO_HASH, SaltedHash, is_password, parse_password

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

FREE_FAILURES_PER_MINUTE: Final = 20
MAX_DELAY_MS: Final = 10_000
CHECKS_AT_ONCE: Final = 2
"""Passwords that are checked at a time: each takes a core and 32 MiB for a tenth of a second."""
REMEMBER_S: Final = 600.0
MOST_REMEMBERED: Final = 1_000
MOST_USERS: Final = 1_000
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
DENIED: Final = 40301
"""Confluent's code for a user who may not."""


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
                    await refused(403, 403, why)(scope, receive, send)
                    return
            await app(scope, receive, send)

        return guard


class Role(IntEnum):
    """See the table above; each may what those below it may."""

    READER = 1
    WRITER = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True)
class RegistryUser:
    name: str
    role: Role
    password: SaltedHash = field(repr=False)


class _Remembered(NamedTuple):
    user: RegistryUser
    until_s: float


class Logins:
    """Users with names and passwords."""

    def __init__(self, users: Sequence[RegistryUser]) -> None:
        self._users = {each.name: each for each in users}
        self._guessing = Guessing(FREE_FAILURES_PER_MINUTE, MAX_DELAY_MS)
        self._checks = asyncio.Semaphore(CHECKS_AT_ONCE)
        self._key = os.urandom(32)
        self._remembered: OrderedDict[bytes, _Remembered] = OrderedDict()

    def guarded(self, app: ASGIApp) -> ASGIApp:
        async def guard(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                problem = await self._problem(scope)
                if problem is not None:
                    await problem(scope, receive, send)
                    return
            await app(scope, receive, send)

        return guard

    async def _problem(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
            # A browser sends a password that it knows with whatever a page asks for.
            return refused(403, 403, f"Pages of {origin[:100]!r} may not ask this registry")
        address = (scope.get("client") or ("", 0))[0]
        user = await self._user(headers.get("authorization", ""), address)
        if isinstance(user, JSONResponse):
            return user
        needed = role_for(scope["method"], sent_path(scope), scope.get("query_string", b"").decode("latin-1"))
        if user.role < needed:
            what = f"User {user.name} is a {user.role.name.lower()}, and this takes a {needed.name.lower()}"
            return refused(403, DENIED, what)
        return None

    def _has_to_wait(self, address: str) -> JSONResponse | None:
        wait_ms = self._guessing.wait_ms(address, "", _now_ms())
        if wait_ms <= 0:
            return None
        more = {"retry-after": str(-(-wait_ms // 1000))}
        return refused(429, 429, "Too many wrong passwords: wait a moment", more)

    async def _user(self, header: str, address: str) -> RegistryUser | JSONResponse:
        """Who asks, or what is answered to one who is nobody."""
        too_early = self._has_to_wait(address)
        if too_early is not None:
            return too_early
        digest = hmac.new(self._key, header.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()
        known = self._remembered.get(digest)
        if known is not None and known.until_s > time.monotonic():
            return known.user
        pair = _pair(header)
        if pair is None:
            return _nobody()
        user = self._users.get(pair[0])
        async with self._checks:
            # Others of this address may have failed while this one waited for its turn.
            too_early = self._has_to_wait(address)
            if too_early is not None:
                return too_early
            is_right = await asyncio.to_thread(is_password, pair[1], NO_HASH if user is None else user.password)
        if user is None or not is_right:
            self._guessing.on_failure(address, "", _now_ms())
            return _nobody()
        self._remembered[digest] = _Remembered(user, time.monotonic() + REMEMBER_S)
        while len(self._remembered) > MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return user


def sent_path(scope: Scope) -> str:
    """The path as it was sent, where %2F is no slash; without one at its end."""
    path = str(scope["path"])
    if scope.get("raw_path"):
        path = scope["raw_path"].partition(b"?")[0].decode("latin-1")
    return path if path == "/" else path.rstrip("/")


def role_for(method: str, path: str, query: str) -> Role:
    """What a request takes. path: as it was sent."""
    parts = path.split("/")[1:]
    if parts[:1] == ["contexts"] and len(parts) > 2:
        parts = parts[2:]
    if method in ("GET", "HEAD", "OPTIONS"):
        return Role.READER
    if method == "POST" and (parts[:1] == ["compatibility"] or (parts[:1] == ["subjects"] and len(parts) == 2)):
        return Role.READER
    is_for_good = any(each.lower() == "true" for each in parse_qs(query).get("permanent", ()))
    if parts[:1] == ["subjects"] and not is_for_good:
        return Role.WRITER
    return Role.ADMIN


def parse_users(text: str, *, where: str) -> list[RegistryUser]:
    """The users of a file in TOML:

        [[user]]
        name = "ada"
        password = "scrypt:...:..."     # kavka console user hash
        role = "writer"                 # reader, writer or admin

    Raises ConfigError."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(f"{where}: not TOML: {problem}") from problem
    listed = document.pop("user", [])
    if document:
        raise ConfigError(f"{where}: {sorted(document)[0]!r} is not a setting, expected tables [[user]]")
    if not isinstance(listed, list) or not listed or len(listed) > MOST_USERS:
        raise ConfigError(f"{where}: expected 1 to {MOST_USERS} tables [[user]]")
    users: dict[str, RegistryUser] = {}
    for each in listed:
        found = _parse_user(each if isinstance(each, dict) else {}, where)
        if found.name in users:
            raise ConfigError(f"{where}: user {found.name!r} is given twice")
        users[found.name] = found
    return list(users.values())


def _parse_user(found: dict[str, object], where: str) -> RegistryUser:
    name, role, password = (found.pop(each, None) for each in ("name", "role", "password"))
    if found:
        raise ConfigError(f"{where}: {sorted(found)[0]!r} is not a setting of a user: name, password and role are")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ConfigError(f"{where}: {name!r} is not a user name: at most 64 letters, digits and . _ @ -")
    if not isinstance(role, str) or role.upper() not in Role.__members__:
        raise ConfigError(f"{where}: the role of {name} is {role!r}, expected reader, writer or admin")
    try:
        return RegistryUser(name, Role[role.upper()], parse_password(str(password)))
    except ValueError as problem:
        raise ConfigError(
            f"{where}: the password of {name} is not a hash: `kavka console user hash` makes one"
        ) from problem


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


def refused(status: int, code: int, why: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """An answer in the registry's form."""
    return JSONResponse({"error_code": code, "message": why}, status_code=status, headers=headers)


def _nobody() -> JSONResponse:
    return refused(401, 401, "This registry asks for a login", {"www-authenticate": 'Basic realm="schemas"'})


def _pair(header: str) -> tuple[str, str] | None:
    """Name and password of an Authorization header."""
    scheme, _, rest = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (name, password) if colon else None


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
