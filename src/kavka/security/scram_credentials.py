"""SCRAM credentials: what a broker keeps of a password, its iterations, and which changes of it are refused.

With a credential nobody can log in, but only guess. Decides a credential's form and bounds, what stands in for one that
is missing, and which users' changes are refused. Must not know requests, ZooKeeper, or how a client proves its password
(`scram_exchange`).

    refused    no name, a name that cannot be kept, too few or too many iterations 93 · a mechanism that nobody knows 33
               · a credential named twice 92 · one to be deleted that is not there 91

    I1  the wishes for a user are carried out together, or none of them
    I2  credentials show in no repr
    I3  among what stands in for many strangers, each shape of a credential is as frequent as among the users: what is
        told of a credential, its salt and iterations, does not say whose it is

Source: RFC 5802, KIP-84, KIP-554; Kafka's ScramMechanism, ScramCredential, ScramFormatter, ScramCredentialUtils, and
ZkAdminManager.alterUserScramCredentials.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate
from typing import Final, NamedTuple

from kavka.errors import ErrorCode, RequestError
from kavka.security.principals import can_be_kept

MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384
"""What Kafka's brokers accept for a credential."""
DEFAULT_ITERATIONS: Final = 4_096
"""What kafka-configs takes without any."""
SALT_BITS: Final = 130
"""Kafka's salts are numbers of so many bits, in base 36."""
USUAL_SALT: Final = -1
"""Instead of a length."""
USUAL_SALT_BYTES: Final = (22, 26)
"""How long Kafka's salts are, one that is shorter once in 36**3 * 2 times."""
PLACE_BITS: Final = 64
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
_STORED: Final = ("salt", "stored_key", "server_key", "iterations")

NO_USER: Final = "Username must not be empty"
_NOT_KEPT: Final = "Username must not be '.' or '..'"
_UNKNOWN: Final = "Unknown SCRAM mechanism"
_NO_PASSWORD: Final = "Salted password must not be empty"
_TWICE: Final = "A user credential cannot be altered twice in the same request"
_MISSING: Final = "Attempt to delete a user credential that does not exist"


class ScramMechanism(Enum):
    """The mechanisms, by their names on the wire."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def hash_name(self) -> str:
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"

    @property
    def number(self) -> int:
        """In requests about credentials (KIP-554)."""
        return 1 if self is ScramMechanism.SHA_256 else 2


MECHANISMS: Final = {mechanism.value: mechanism for mechanism in ScramMechanism}
MECHANISMS_BY_NUMBER: Final = {mechanism.number: mechanism for mechanism in ScramMechanism}


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server keeps of a password."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    def encode(self) -> str:
        """As Kafka stores it."""
        salt, stored_key, server_key = (
            b64encode(part).decode() for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={self.iterations}"

    @staticmethod
    def decode(text: str) -> ScramCredential:
        """The credential of what Kafka stored. Raises ValueError, whose text does not contain it."""
        parts = dict(part.partition("=")[::2] for part in text.split(","))
        if sorted(parts) != sorted(_STORED):
            raise ValueError(f"a SCRAM credential has {', '.join(_STORED)}; this one has other parts")
        try:
            salt, stored_key, server_key = (b64decode(parts[name], validate=True) for name in _STORED[:3])
        except BadBase64:
            raise ValueError("a part of a SCRAM credential is no base64") from None
        if not re.fullmatch(r"[0-9]{1,9}", parts["iterations"]):
            raise ValueError("the iterations of a SCRAM credential are no number")
        return ScramCredential(salt, stored_key, server_key, int(parts["iterations"]))


def credential_of(mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int) -> ScramCredential:
    """The credential of a password that was salted already."""
    name = mechanism.hash_name
    client_key = hmac.digest(salted_password, b"Client Key", name)
    server_key = hmac.digest(salted_password, b"Server Key", name)
    return ScramCredential(salt, hashlib.new(name, client_key).digest(), server_key, iterations)


def salted(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """The salted password: what a tool sends to a broker instead of the password. Takes milliseconds, on purpose."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def new_salt(random_bits: int) -> bytes:
    """A salt, as Kafka makes them, of a random number of SALT_BITS bits."""
    digits = bytearray()
    while random_bits:
        random_bits, digit = divmod(random_bits, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return bytes(reversed(digits)) or b"0"


class Shape(NamedTuple):
    """How a credential looks to who asks for it: its iterations, and the kind of its salt. `salt_bytes` is USUAL_SALT
    for Kafka's salts, whose lengths differ by chance. `is_text`: of small letters and digits, as those are."""

    iterations: int = DEFAULT_ITERATIONS
    salt_bytes: int = USUAL_SALT
    is_text: bool = True


def shape_of(credential: ScramCredential) -> Shape:
    """The shape of a user's credential."""
    salt = credential.salt
    is_text = not salt.strip(_DIGITS)
    if is_text and USUAL_SALT_BYTES[0] <= len(salt) <= USUAL_SALT_BYTES[1]:
        return Shape(credential.iterations)
    return Shape(credential.iterations, len(salt), is_text)


class Shapes:
    """The shapes of all users' credentials of one mechanism. A stranger gets the shape that stands at its place among
    them: where a user comes or goes, few strangers get another one."""

    __slots__ = ("_ends", "_shapes", "_total")

    def __init__(self, credentials: Iterable[ScramCredential] = ()) -> None:
        counts = Counter(shape_of(each) for each in credentials if each.iterations >= MIN_ITERATIONS)
        self._shapes = sorted(counts) or [Shape()]
        self._ends = list(accumulate(counts[each] for each in self._shapes))
        self._total = self._ends[-1]

    def at(self, place: int) -> Shape:
        """`place`: of 2**PLACE_BITS."""
        return self._shapes[bisect_right(self._ends, place * self._total >> PLACE_BITS)] if self._total else Shape()


def stand_in(mechanism: ScramMechanism, user: str, secret: bytes, shapes: Shapes) -> ScramCredential:
    """What an unknown user is answered with (`security.scram_exchange`, I2): the same each time for a name, and no
    password fits it. Where it gets another shape, it looks as if its password had been changed."""
    name = f"{mechanism.value}\0{user}".encode()
    place = hmac.digest(secret, name, "sha512")
    shape = shapes.at(int.from_bytes(place[: PLACE_BITS // 8], "big"))
    made = hmac.digest(secret, b"salt\0%d\0%d\0%d\0" % shape + name, "sha512")
    if shape.salt_bytes == USUAL_SALT:
        salt = new_salt(int.from_bytes(made[:17], "big") >> (17 * 8 - SALT_BITS))
    else:
        drawn = hashlib.shake_256(made).digest(shape.salt_bytes)
        salt = bytes(_DIGITS[each % len(_DIGITS)] for each in drawn) if shape.is_text else drawn
    size = hashlib.new(mechanism.hash_name).digest_size
    key = hmac.digest(secret, b"no key\0" + made, "sha512")[:size]
    return ScramCredential(salt, key, key, shape.iterations)


# -- changes of credentials


class Deletion(NamedTuple):
    """A user's credential of a mechanism, by its number in requests, is to go."""

    user: str
    mechanism: int


class Upsertion(NamedTuple):
    """A user's credential is to be set."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


Wish = Deletion | Upsertion


def refusals(wishes: Sequence[Wish]) -> dict[str, RequestError]:
    """The users whose wishes can be refused without a look at what there is. Deletions stand before upsertions."""
    refused: dict[str, RequestError] = {}
    for wish in wishes:
        refusal = _refusal(wish)
        if refusal is not None:
            refused[wish.user] = refusal
    named = Counter((wish.user, wish.mechanism) for wish in wishes if wish.user not in refused)
    for (user, _mechanism), times in named.items():
        if times > 1:
            refused[user] = RequestError(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
    return refused


def _refusal(wish: Wish) -> RequestError | None:
    if not wish.user:
        return RequestError(ErrorCode.UNACCEPTABLE_CREDENTIAL, NO_USER)
    if not can_be_kept(wish.user):
        return RequestError(ErrorCode.UNACCEPTABLE_CREDENTIAL, _NOT_KEPT)
    if wish.mechanism not in MECHANISMS_BY_NUMBER:
        return RequestError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, _UNKNOWN)
    if isinstance(wish, Upsertion):
        if wish.iterations > MAX_ITERATIONS:
            return RequestError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        if wish.iterations < MIN_ITERATIONS:
            return RequestError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if not wish.salted_password:
            return RequestError(ErrorCode.UNACCEPTABLE_CREDENTIAL, _NO_PASSWORD)
    return None


def changed(settings: Mapping[str, str], wishes: Sequence[Wish]) -> dict[str, str]:
    """One user's settings after its wishes. Raises RequestError: RESOURCE_NOT_FOUND."""
    wanted = dict(settings)
    for wish in wishes:
        mechanism = MECHANISMS_BY_NUMBER[wish.mechanism]
        if isinstance(wish, Upsertion):
            credential = credential_of(mechanism, wish.salt, wish.salted_password, wish.iterations)
            wanted[mechanism.value] = credential.encode()
        elif mechanism.value not in settings:
            raise RequestError(ErrorCode.RESOURCE_NOT_FOUND, _MISSING)
        else:
            wanted.pop(mechanism.value)
    return wanted
