"""Sessions: who a browser is, from one request to the next.

Decides whether a cookie stands for a login that still holds. Must not know passwords nor pages.

A cookie carries a random number, signed; what it stands for is a row here, so that a logout, a new password and a
removed user end it at once, wherever the cookie was copied to.

I1  A login gets a number of its own; the number that a browser came with is never made a login's (session fixation).
I2  A session ends `IDLE_MS` after it was last used and `ABSOLUTE_MS` after it began, whatever happens in between.
I3  A browser in which somebody has logged in before has a mark of that, signed, for this name alone: wrong attempts
    elsewhere do not make it wait (guard.attempt_keys). It lets nobody in.
I4  A login by a provider holds as long as the settings name that provider, with the rights that their rules give now.
    Of what the provider said, the subject, the name and those groups are kept that a rule named at the login.
I5  The database holds hashes of numbers only: who reads the file cannot log in with it.

Source: OWASP's session management; itsdangerous for signatures.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from typing import NamedTuple

from itsdangerous import BadSignature, URLSafeSerializer

from kavka.console.access.auth import User, Users
from kavka.console.sso_settings import USER_PREFIX, Identity, SsoSettings

COOKIE = "kavka_console"
DEVICE_COOKIE = "kavka_device"
SSO_COOKIE = "kavka_sso"
"""With a part of their console's own behind it: browsers hold the same cookies for all ports of a host."""
IDLE_MS = 30 * 60 * 1000
ABSOLUTE_MS = 12 * 60 * 60 * 1000
SEEN_EVERY_MS = 30 * 1000
"""How exact the time of last use is: not every request writes to the disk."""
MOST_SESSIONS = 10_000
"""At the bound those that were used longest ago end."""
_KEY_BYTES = 32


class Session(NamedTuple):
    """`number` is the secret that the cookie carries; `user` is None for a browser that has not logged in."""

    number: str
    user: User | None
    expires_ms: int


class Sessions:
    """The sessions, in the console's database, and the key that cookies are signed with."""

    def __init__(self, database: sqlite3.Connection, users: Users, sso: SsoSettings | None = None) -> None:
        self._database = database
        self._users = users
        self._sso = sso
        database.execute("CREATE TABLE IF NOT EXISTS secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT")
        database.execute(
            "CREATE TABLE IF NOT EXISTS sessions (id BLOB PRIMARY KEY, user TEXT NOT NULL, began_ms INTEGER NOT NULL, "
            "seen_ms INTEGER NOT NULL) STRICT"
        )
        database.execute(
            "CREATE TABLE IF NOT EXISTS sso_sessions (id BLOB PRIMARY KEY, issuer TEXT NOT NULL, "
            "subject TEXT NOT NULL, name TEXT NOT NULL, groups TEXT NOT NULL) STRICT"
        )
        self.key = self._load_key()
        self._signer = URLSafeSerializer(self.key, salt="kavka console session")
        self._devices = URLSafeSerializer(self.key, salt="kavka console device")
        own = hashlib.sha256(self.key).hexdigest()[:8]
        self.cookie_name, self.device_cookie_name = f"{COOKIE}_{own}", f"{DEVICE_COOKIE}_{own}"
        self.sso_cookie_name = f"{SSO_COOKIE}_{own}"

    def cookie_of(self, number: str) -> str:
        signed = self._signer.dumps(number)
        return signed if isinstance(signed, str) else signed.decode()

    def new_device(self, name: str) -> str:
        """What a browser in which `name` has logged in is marked with."""
        signed = self._devices.dumps([name, secrets.token_urlsafe(12)])
        return signed if isinstance(signed, str) else signed.decode()

    def device_of(self, mark: str | None, name: str) -> str | None:
        """The browser's number, where `name` has logged in before."""
        try:
            found = self._devices.loads(mark or "")
        except BadSignature:
            return None
        is_theirs = isinstance(found, list) and len(found) == 2 and found[0] == name
        return str(found[1]) if is_theirs else None

    def anonymous(self) -> Session:
        """For a browser that has no session: nothing is kept of it but its cookie, which CSRF tokens hang on."""
        return Session(secrets.token_urlsafe(24), None, 0)

    def begin_sso(self, identity: Identity, now_ms: int) -> Session:
        """After a login by the provider of the settings."""
        assert self._sso is not None
        session = self.begin(self._user_by(identity), now_ms)
        kept = json.dumps(self._sso.counted(identity.groups))
        self._database.execute("DELETE FROM sso_sessions WHERE id NOT IN (SELECT id FROM sessions)")
        self._database.execute(
            "INSERT INTO sso_sessions VALUES (?, ?, ?, ?, ?)",
            (_id(session.number), identity.issuer, identity.subject, identity.name, kept),
        )
        return session

    def begin(self, user: User, now_ms: int) -> Session:
        """After a login: a new session, whatever the browser had before."""
        number = secrets.token_urlsafe(32)
        self._database.execute(
            "DELETE FROM sessions WHERE began_ms < ? OR seen_ms < ?", (now_ms - ABSOLUTE_MS, now_ms - IDLE_MS)
        )
        self._database.execute(
            "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions ORDER BY seen_ms DESC LIMIT -1 OFFSET ?)",
            (MOST_SESSIONS - 1,),
        )
        self._database.execute("INSERT INTO sessions VALUES (?, ?, ?, ?)", (_id(number), user.name, now_ms, now_ms))
        return Session(number, user, now_ms + ABSOLUTE_MS)

    def find(self, cookie: str | None, now_ms: int, *, is_use: bool = True) -> Session | None:
        """What the cookie stands for; None where it is not ours. A session that has ended has no user any more.

        is_use: whether somebody did something. A page that is open and keeps itself up to date is no use of a session.
        """
        if not cookie:
            return None
        try:
            number = self._signer.loads(cookie)
        except BadSignature:
            return None
        if not isinstance(number, str):
            return None
        row = self._database.execute("SELECT * FROM sessions WHERE id = ?", (_id(number),)).fetchone()
        if row is None:
            return Session(number, None, 0)
        user = self._user_of(row, now_ms)
        if user is None:
            self.end(number)
            return Session(number, None, 0)
        if is_use and now_ms - row["seen_ms"] >= SEEN_EVERY_MS:
            self._database.execute("UPDATE sessions SET seen_ms = ? WHERE id = ?", (now_ms, _id(number)))
        return Session(number, user, row["began_ms"] + ABSOLUTE_MS)

    def end(self, number: str) -> None:
        self._database.execute("DELETE FROM sessions WHERE id = ?", (_id(number),))
        self._database.execute("DELETE FROM sso_sessions WHERE id = ?", (_id(number),))

    def _user_of(self, row: sqlite3.Row, now_ms: int) -> User | None:
        if now_ms - row["began_ms"] >= ABSOLUTE_MS or now_ms - row["seen_ms"] >= IDLE_MS:
            return None
        if row["user"].startswith(USER_PREFIX):
            return self._sso_user_of(row["id"])
        found = self._users.find(row["user"])
        if found is None or found[1] > row["began_ms"]:
            return None
        return found[0]

    def _sso_user_of(self, session: bytes) -> User | None:
        row = self._database.execute("SELECT * FROM sso_sessions WHERE id = ?", (session,)).fetchone()
        if row is None or self._sso is None or row["issuer"] != self._sso.issuer:
            return None
        return self._user_by(Identity(row["issuer"], row["subject"], row["name"], tuple(json.loads(row["groups"]))))

    def _user_by(self, identity: Identity) -> User:
        assert self._sso is not None
        return User(identity.user_name, self._sso.rights_of(identity.subject, identity.groups))

    def _load_key(self) -> bytes:
        # Of two processes that start at once the second finds the first one's key.
        self._database.execute(
            "INSERT OR IGNORE INTO secrets VALUES ('cookie key', ?)", (secrets.token_bytes(_KEY_BYTES),)
        )
        row = self._database.execute("SELECT value FROM secrets WHERE name = 'cookie key'").fetchone()
        return bytes(row["value"])


def _id(number: str) -> bytes:
    return hashlib.sha256(number.encode("utf-8", "surrogatepass")).digest()
