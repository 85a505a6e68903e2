"""Passwords of people who log in to a web page or an interface of ours: as they are kept, and how one is checked.

Decides whether a password belongs to a hash. Must not know who asks, nor how often one may be tried.

I1  A password is kept as scrypt's hash with a salt of its own, and nowhere else.
I2  A check takes the same time whether there is such a user or not: NO_HASH stands for one that is not there.

    scrypt:SALT:HASH    as settings hold it, in base64

Source: RFC 7914 (scrypt); the cost is OWASP's recommendation for 32 MiB.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from typing import Final, NamedTuple

COST, BLOCK_SIZE, PARALLEL = 2**15, 8, 1
SCRYPT_MEMORY_BYTES: Final = 64 * 1024 * 1024
SALT_BYTES: Final = 16
HASH_BYTES: Final = 64
LEAST_PASSWORD: Final = 10
"""Characters."""
LONGEST_PASSWORD: Final = 1_000
"""Characters; more is no password, but work for us."""


class SaltedHash(NamedTuple):
    """What is kept of a password."""

    salt: bytes
    found: bytes


NO_HASH: Final = SaltedHash(bytes(SALT_BYTES), b"")
"""Of nobody's password."""


def salted_hash(password: str) -> SaltedHash:
    """A new salt, and the hash. Raises ValueError for what is no password."""
    if not LEAST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise ValueError(f"a password has {LEAST_PASSWORD} to {LONGEST_PASSWORD} characters, not {len(password)}")
    salt = os.urandom(SALT_BYTES)
    return SaltedHash(salt, _hash(password, salt))


def is_password(password: str, known: SaltedHash) -> bool:
    """Whether this is the password. Takes a tenth of a second and 32 MiB."""
    found = _hash(password[:LONGEST_PASSWORD], known.salt)
    return hmac.compare_digest(found, known.found)


def password_text(password: str) -> str:
    """A password as settings hold it. Raises ValueError for what is no password."""
    return ":".join(["scrypt", *(base64.b64encode(each).decode() for each in salted_hash(password))])


def parse_password(text: str) -> SaltedHash:
    """The hash in a text of settings. Raises ValueError for what is none."""
    kind, *rest = text.split(":")
    salt, found = (base64.b64decode(each, validate=True) for each in rest)
    if kind != "scrypt" or len(salt) != SALT_BYTES or len(found) != HASH_BYTES:
        raise ValueError("no scrypt:SALT:HASH")
    return SaltedHash(salt, found)


def _hash(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(
        password.encode("utf-8", "surrogatepass"),
        salt=salt,
        n=COST,
        r=BLOCK_SIZE,
        p=PARALLEL,
        maxmem=SCRYPT_MEMORY_BYTES,
    )
