"""Who may come in: users with their rights, their passwords, and how often a wrong one may be tried.

Decides whether a name and a password belong together. Must not know cookies (sessions.py), nor which page asks and what
right it takes (route_rights.py).

I1  A password is kept as its hash, and nowhere else (security/passwords.py).
I2  A name that is not there costs as much time as a wrong password: neither tells which of the two it was.
I3  After `FREE_FAILURES` wrong attempts at a name, or from an address, each further one has to wait, longer each time;
    while it waits the password is not even looked at, so a right one that was guessed then tells nothing. A browser
    in which that name has logged in before counts by itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from kavka.console.rights import Rights, Role, full, role_named
from kavka.console.settings import UserSettings
from kavka.errors import ConfigError
from kavka.security.passwords import (
    NO_HASH,
    SaltedHash,
    is_password,
    parse_password,
    salted_hash,
)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
CHECKS_AT_ONCE = 2
"""Passwords that are checked at a time: each takes a core and 32 MiB for a tenth of a second."""
FREE_FAILURES = 5
FIRST_WAIT_S = 2.0
LONGEST_WAIT_S = 300.0
FORGET_AFTER_S = 3600.0
MOST_REMEMBERED = 10_000
"""Names and addresses whose failures are remembered."""


class User(NamedTuple):
    name: str
    rights: Rights


LOCAL_USER = User("local", full(Role.ADMIN))
"""Who asks where no login is needed: whoever can reach the loopback of this machine."""


# --------------------------------------------------------------------------------------------------------------- users


class Users:
    """The users: of the console's database, where the command line puts them, and of its settings.

    of_settings: those count as the settings say; one without a password there has the database's. Raises ConfigError
    if a password is not a hash.
    """

    def __init__(self, database: sqlite3.Connection, of_settings: Sequence[UserSettings] = ()) -> None:
        self._database = database
        self._of_settings = {each.name: each for each in of_settings}
        self._hashes = {each.name: _parsed(each) for each in of_settings if each.password}
        self._checks = asyncio.Semaphore(CHECKS_AT_ONCE)
        database.execute(
            "CREATE TABLE IF NOT EXISTS users (name TEXT PRIMARY KEY, role TEXT NOT NULL, salt BLOB NOT NULL, "
            "hash BLOB NOT NULL, changed_ms INTEGER NOT NULL) STRICT"
        )
        database.execute(
            "CREATE TABLE IF NOT EXISTS settings_users (name TEXT PRIMARY KEY, digest BLOB NOT NULL, "
            "changed_ms INTEGER NOT NULL) STRICT"
        )
        for each in of_settings:
            self._note(each)

    def add(self, name: str, password: str, role: Role) -> None:
        """Adds a user, or gives one another password and role. Raises ValueError for what is no name or password."""
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no user name: letters, digits and . _ @ -, at most 64")
        salt, found = salted_hash(password)
        self._database.execute(
            "INSERT INTO users VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
            "role = excluded.role, salt = excluded.salt, hash = excluded.hash, changed_ms = excluded.changed_ms",
            (name, role.name.lower(), salt, found, int(time.time() * 1000)),
        )

    def remove(self, name: str) -> bool:
        """Whether there was one."""
        return self._database.execute("DELETE FROM users WHERE name = ?", (name,)).rowcount > 0

    def all(self) -> list[User]:
        """All that can log in."""
        names = {row["name"] for row in self._database.execute("SELECT name FROM users")} | set(self._hashes)
        return [found[0] for name in sorted(names) if (found := self.find(name)) is not None]

    def without_password(self) -> list[str]:
        """Users of the settings for whom there is none, there or in the database: nobody could log in as them."""
        known = {row["name"] for row in self._database.execute("SELECT name FROM users")} | set(self._hashes)
        return sorted(set(self._of_settings) - known)

    def find(self, name: str) -> tuple[User, int] | None:
        """The user, and when its password or rights were last changed (ms): sessions that are older are void."""
        row = self._database.execute("SELECT role, changed_ms FROM users WHERE name = ?", (name,)).fetchone()
        said = self._of_settings.get(name)
        if said is None:
            return None if row is None else (User(name, full(role_named(row["role"]))), row["changed_ms"])
        if row is None and name not in self._hashes:
            return None
        noted = self._database.execute("SELECT changed_ms FROM settings_users WHERE name = ?", (name,)).fetchone()
        of_password = 0 if name in self._hashes else row["changed_ms"]
        return User(name, said.rights), max(noted["changed_ms"], of_password)

    async def check(self, name: str, password: str) -> User | None:
        """The user that has this name and password."""
        known = self._hashes.get(name)
        if known is None:
            row = self._database.execute("SELECT salt, hash FROM users WHERE name = ?", (name,)).fetchone()
            known = None if row is None else SaltedHash(row["salt"], row["hash"])
        async with self._checks:
            is_right = await asyncio.to_thread(is_password, password, known or NO_HASH)
        if known is None or not is_right:
            return None
        user = self.find(name)
        return None if user is None else user[0]

    def _note(self, user: UserSettings) -> None:
        """Notes since when the settings say this of the user."""
        digest = hashlib.sha256(f"{user.password}\n{[*map(str, user.rights)]}".encode()).digest()
        self._database.execute(
            "INSERT INTO settings_users VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
            "digest = excluded.digest, changed_ms = excluded.changed_ms WHERE digest != excluded.digest",
            (user.name, digest, int(time.time() * 1000)),
        )


def _parsed(user: UserSettings) -> SaltedHash:
    try:
        return parse_password(user.password)
    except ValueError as problem:
        why = f"the password of user {user.name} is not a hash; make one with `kavka console user hash`"
        raise ConfigError(why) from problem


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

    def succeeded(self, name: str, *addresses: str) -> None:
        """An attempt that was counted as failed before it was checked was right after all.

        The name's failures are forgotten; of an address's this one only: else one's own login would clear the way for
        more guesses at others'.
        """
        self._failures.pop(name, None)
        for address in addresses:
            known = self._failures.get(address)
            if known is not None:
                self._failures[address] = known._replace(times=max(known.times - 1, 0))

    def _wait_of(self, key: str, now_s: float) -> float:
        known = self._failures.get(key)
        if known is None or known.times < FREE_FAILURES:
            return 0.0
        wait = min(FIRST_WAIT_S * 2.0 ** min(known.times - FREE_FAILURES, 16), LONGEST_WAIT_S)
        return max(known.last_s + wait - now_s, 0.0)
