"""What a request about SCRAM credentials may change: each user's wishes together, all of them or none.

Decides which users are refused, and why, and what the others' settings are to be. Must not know requests or ZooKeeper.

    refused    no name, a name that cannot be kept, too few or too many iterations 93 · a mechanism that nobody knows 33
               · a credential named twice 92 · one to be deleted that is not there 91

Source: Kafka's ZkAdminManager.alterUserScramCredentials, KIP-554.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kavka.errors import ErrorCode, RequestError
from kavka.security.principals import can_be_kept
from kavka.security.scram_exchange import MAX_ITERATIONS, MECHANISMS_BY_NUMBER, MIN_ITERATIONS, credential_of

NO_USER: Final = "Username must not be empty"
_NOT_KEPT: Final = "Username must not be '.' or '..'"
_UNKNOWN: Final = "Unknown SCRAM mechanism"
_TWICE: Final = "A user credential cannot be altered twice in the same request"
_MISSING: Final = "Attempt to delete a user credential that does not exist"


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
