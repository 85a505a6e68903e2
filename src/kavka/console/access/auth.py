"""Who may do what: users with roles, their passwords, and how often a wrong one may be tried.

Decides whether a name and a password belong together and what a role may do. Must not know cookies (sessions.py) nor
which page asks.

I1  A password is kept as scrypt's hash with a salt of its own, and nowhere else.
I2  A name that is not there costs as much time as a wrong password: neither tells which of the two it was.
I3  After `FREE_FAILURES` wrong attempts at a name, or from an address, each further one has to wait, longer each time;
    while it waits the password is not even looked at, so a right one that was guessed then tells nothing.

Source: RFC 7914 (scrypt); the cost is OWASP's recommendation for 32 MiB.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
import sqlite3
import time
from collections import OrderedDict
from enum import IntEnum
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

COST, BLOCK_SIZE, PARALLEL = 2**15, 8, 1
SCRYPT_MEMORY_BYTES = 64 * 1024 * 1024
SALT_BYTES = 16
LEAST_PASSWORD = 10
"""Characters."""
LONGEST_PASSWORD = 1_000
"""Characters; more is no password, but work for us."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
CHECKS_AT_ONCE = 2
"""Passwords that are checked at a time: each takes a core and 32 MiB for a tenth of a second."""
FREE_FAILURES = 5
FIRST_WAIT_S = 2.0
LONGEST_WAIT_S = 300.0
FORGET_AFTER_S = 3600.0
MOST_REMEMBERED = 10_000
"""Names and addresses whose failures are remembered."""


class Role(IntEnum):
    """What somebody may do; each may do what those before it may."""

    VIEWER = 1
    """Look at everything, messages included."""
    OPERATOR = 2
    """Change what can be changed back: topics, settings, offsets, moves of replicas; produce."""
    ADMIN = 3
    """Delete topics, records and groups, too."""


class User(NamedTuple):
    name: str
    role: Role


LOCAL_USER = User("local", Role.ADMIN)
"""Who asks where no login is needed: whoever can reach the loopback of this machine."""


def role_named(text: str) -> Role:
    """Raises ValueError, which says what there is."""
    try:
        return Role[text.upper()]
    except KeyError:
        raise ValueError(f"{text!r} is no role: viewer, operator or admin") from None


def require(request: HTTPConnection, role: str) -> User:
    """The user who asks; raises HTTPException (403) where the role may not do this. For pages and actions alike."""
    user: User | None = getattr(request.state, "user", None)
    if user is None:
        raise HTTPException(401, "log in first")
    if user.role < role_named(role):
        raise HTTPException(403, f"{user.name} is {user.role.name.lower()}, and this takes the role {role}")
    return user


def may(request: HTTPConnection, role: str) -> bool:
    """Whether the page is to offer this at all. The action itself asks `require`."""
    user: User | None = getattr(request.state, "user", None)
    return user is not None and user.role >= role_named(role)


# --------------------------------------------------------------------------------------------------------------- users


class Users:
    """The users, in the console's database."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._checks = asyncio.Semaphore(CHECKS_AT_ONCE)
        database.execute(
            "CREATE TABLE IF NOT EXISTS users (name TEXT PRIMARY KEY, role TEXT NOT NULL, salt BLOB NOT NULL, "
            "hash BLOB NOT NULL, changed_ms INTEGER NOT NULL) STRICT"
        )

    def add(self, name: str, password: str, role: Role) -> None:
        """Adds a user, or gives one another password and role. Raises ValueError for what is no name or password."""
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no user name: letters, digits and . _ @ -, at most 64")
        if not LEAST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
            raise ValueError(f"a password has {LEAST_PASSWORD} to {LONGEST_PASSWORD} characters, not {len(password)}")
        salt = os.urandom(SALT_BYTES)
        self._database.execute(
            "INSERT INTO users VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
            "role = excluded.role, salt = excluded.salt, hash = excluded.hash, changed_ms = excluded.changed_ms",
            (name, role.name.lower(), salt, _hash(password, salt), int(time.time() * 1000)),
        )

    def remove(self, name: str) -> bool:
        """Whether there was one."""
        return self._database.execute("DELETE FROM users WHERE name = ?", (name,)).rowcount > 0

    def all(self) -> list[User]:
        rows = self._database.execute("SELECT name, role FROM users ORDER BY name")
        return [User(row["name"], role_named(row["role"])) for row in rows]

    def find(self, name: str) -> tuple[User, int] | None:
        """The user, and when its password or role was last changed (ms): sessions that are older are void."""
        row = self._database.execute("SELECT role, changed_ms FROM users WHERE name = ?", (name,)).fetchone()
        return None if row is None else (User(name, role_named(row["role"])), row["changed_ms"])

    async def check(self, name: str, password: str) -> User | None:
        """The user that has this name and password."""
        row = self._database.execute("SELECT role, salt, hash FROM users WHERE name = ?", (name,)).fetchone()
        salt, expected = (row["salt"], row["hash"]) if row is not None else (bytes(SALT_BYTES), b"")
        async with self._checks:
            found = await asyncio.to_thread(_hash, password[:LONGEST_PASSWORD], salt)
        if row is None or not hmac.compare_digest(found, expected):
            return None
        return User(name, role_named(row["role"]))


def _hash(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(
        password.encode("utf-8", "surrogatepass"),
        salt=salt,
        n=COST,
        r=BLOCK_SIZE,
        p=PARALLEL,
        maxmem=SCRYPT_MEMORY_BYTES,
    )


# ------------------------------------------------------------------------------------------------------------ throttle


class _Failures(NamedTuple):
    times: int
    last_s: float


class LoginThrottle:
    """Counts wrong attempts by name and by address. Time is seconds of any clock that does not go back."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, _Failures] = OrderedDict()

    def wait_s(self, keys: tuple[str, ...], now_s: float) -> float:
        """How long these have to wait; 0: they may try."""
        return max((self._wait_of(key, now_s) for key in keys), default=0.0)

    def failed(self, keys: tuple[str, ...], now_s: float) -> None:
        for key in keys:
            known = self._failures.pop(key, None)
            count = 0 if known is None or now_s - known.last_s > FORGET_AFTER_S else known.times
            self._failures[key] = _Failures(count + 1, now_s)
            if len(self._failures) > MOST_REMEMBERED:
                self._failures.popitem(last=False)

    def succeeded(self, name: str, address: str) -> None:
        """An attempt that was counted as failed before it was checked was right after all.

        The name's failures are forgotten; of the address's this one only: else one's own login would clear the way for
        more guesses at others'.
        """
        self._failures.pop(name, None)
        known = self._failures.get(address)
        if known is not None:
            self._failures[address] = known._replace(times=max(known.times - 1, 0))

    def _wait_of(self, key: str, now_s: float) -> float:
        known = self._failures.get(key)
        if known is None or known.times < FREE_FAILURES:
            return 0.0
        wait = min(FIRST_WAIT_S * 2.0 ** min(known.times - FREE_FAILURES, 16), LONGEST_WAIT_S)
        return max(known.last_s + wait - now_s, 0.0)
