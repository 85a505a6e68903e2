"""JSON web tokens: whom does a signed token name, and is it to be believed?

    token = header . claims . signature, each in base64url; header and claims are JSON

Decides from a token, the keys of its issuer, rules and the time. Must not know where keys come from. The arithmetic of
keys and signatures is joserfc's (extra `security`), which is imported with the first key; what a token may be is
decided here, before any key is looked for.

    I1  the algorithm is one of ALGORITHMS, and the key is of the kind that it needs: never none, never one with a
        shared secret (a public key would be the secret), never a key that the token itself brings
    I2  nothing of the claims is believed before the signature is verified
    I3  exp, iat, issuer, audience and the principal's claim must be there, and each of its type
    I4  any bytes lead to Bearer or TokenRefused, and neither contains the token

Source: RFC 7515-7519, 8037, 8725; Kafka's ValidatorAccessTokenValidator, ClaimValidationUtils and the jose4j that it
uses. Stricter than these: algorithms with a shared secret, iat in the future, RSA keys below 2,048 bits whatever the
settings, control characters in a principal.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Never

from kavka.security.oauthbearer import Bearer, TokenRefused
from kavka.security.sasl import FailureReason

ALGORITHMS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    **{f"{family}{size}": ("RSA", ()) for family in ("RS", "PS") for size in (256, 384, 512)},
    "ES256": ("EC", ("P-256",)),
    "ES384": ("EC", ("P-384",)),
    "ES512": ("EC", ("P-521",)),
    "EdDSA": ("OKP", ("Ed25519", "Ed448")),
}
"""What a token may be signed with: the kind of key and its curves."""
REFUSED_HEADERS: Final = ("jku", "jwk", "x5u", "crit")
"""A key that the token brings or points to, and demands that a reader must understand."""
MAX_KEYS: Final = 1_000
"""Of one set."""
RSA_BITS: Final = range(2_048, 16_384 + 1)
"""Of a key: RFC 7518 wants so many, and OpenSSL takes no more."""
MAX_NAME_CHARS: Final = 1_024
"""Of a principal."""
MAX_SECONDS: Final = 2**53
"""Of times: what JSON's numbers carry exactly."""
_PUBLIC: Final[Mapping[str, tuple[str, ...]]] = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
"""What of a key is read, by its kind: nothing that is secret."""
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]*")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_JAVA_SPACE: Final = "".join(map(chr, range(0x21)))
"""What Java's trim takes away."""


class MalformedKeySet(ValueError):
    """A document that is no set of keys."""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token must say. It needs one of `audiences`; clocks may differ by `skew_s` seconds."""

    issuer: str
    audiences: frozenset[str]
    skew_s: int = 30
    sub_claim: str = "sub"
    scope_claim: str = "scope"


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key. `kid` and `algorithm` are None where the set does not say."""

    kid: str | None
    kind: str
    curve: str
    algorithm: str | None
    material: Any = field(repr=False, compare=False)

    def fits(self, algorithm: str) -> bool:
        """Whether a token with that algorithm may be signed with it."""
        kind, curves = ALGORITHMS[algorithm]
        return self.kind == kind and (not curves or self.curve in curves) and self.algorithm in (None, algorithm)


class KeySet:
    """The keys of an issuer."""

    def __init__(self, keys: Sequence[VerificationKey] = ()) -> None:
        self.keys = tuple(keys)

    def find(self, kid: str | None, algorithm: str) -> VerificationKey | None:
        """The key of a token; None: it is not known. A token without `kid` must leave no choice."""
        fitting = [key for key in self.keys if key.fits(algorithm)]
        if kid is None:
            return fitting[0] if len(fitting) == 1 else None
        return next((key for key in fitting if key.kid == kid), None)


def read_key_set(data: bytes) -> KeySet:
    """The keys of a document as RFC 7517 has it that can verify tokens; others are left out. Raises MalformedKeySet."""
    try:
        document = _json(data)
    except ValueError as error:
        raise MalformedKeySet("the document is no JSON") from error
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list):
        raise MalformedKeySet('the document has no list "keys"')
    if len(keys) > MAX_KEYS:
        raise MalformedKeySet(f"the document has {len(keys)} keys, expected at most {MAX_KEYS}")
    return KeySet([key for key in map(_key, keys) if key is not None])


def verify(token: str, keys: KeySet, rules: TokenRules, now_ms: int) -> Bearer:
    """Whom a token names. Raises TokenRefused."""
    return _verified(token, keys, rules, now_ms)[0]


def verified_claims(token: str, keys: KeySet, rules: TokenRules, now_ms: int) -> dict[str, Any]:
    """All that a token says which `verify` believes. Raises TokenRefused."""
    return _verified(token, keys, rules, now_ms)[1]


def _verified(token: str, keys: KeySet, rules: TokenRules, now_ms: int) -> tuple[Bearer, dict[str, Any]]:
    header_text, claims_text, signature_text = _parts(token)
    header = _object(header_text)
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise TokenRefused(FailureReason.REFUSED_ALGORITHM)
    if any(name in header for name in REFUSED_HEADERS):
        raise TokenRefused(FailureReason.REFUSED_HEADER)
    kid = header.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise TokenRefused(FailureReason.MALFORMED_TOKEN)
    signature = _decoded(signature_text)
    if not keys.keys:
        raise TokenRefused(FailureReason.NO_KEYS)
    key = keys.find(kid, algorithm)
    if key is None:
        raise TokenRefused(FailureReason.UNKNOWN_KEY)
    if not _is_signed(f"{header_text}.{claims_text}".encode(), signature, algorithm, key):
        raise TokenRefused(FailureReason.WRONG_SIGNATURE)
    claims = _object(claims_text)
    user = _principal(claims, rules.sub_claim)
    if claims.get("iss") != rules.issuer:
        raise TokenRefused(FailureReason.WRONG_ISSUER, user)
    if not _texts(claims.get("aud"), user) & rules.audiences:
        raise TokenRefused(FailureReason.WRONG_AUDIENCE, user)
    return _in_time(claims, rules, user, now_ms, needs_iat=True), claims


def believe(token: str, rules: TokenRules, now_ms: int) -> Bearer:
    """Whom a token names that nobody has signed: anybody can make one. Raises TokenRefused.

    As Kafka's OAuthBearerUnsecuredValidatorCallbackHandler: of `rules` only the claims' names and the skew count.
    """
    header_text, claims_text, signature = _parts(token)
    if _object(header_text).get("alg") != "none" or signature:
        raise TokenRefused(FailureReason.REFUSED_ALGORITHM)
    claims = _object(claims_text)
    return _in_time(claims, rules, _principal(claims, rules.sub_claim), now_ms, needs_iat=False)


def _in_time(claims: Mapping[str, Any], rules: TokenRules, user: str, now_ms: int, *, needs_iat: bool) -> Bearer:
    now_s, skew_s = now_ms // 1000, rules.skew_s
    expires_s, issued_s, from_s = (_seconds(claims, name, user) for name in ("exp", "iat", "nbf"))
    if expires_s is None or (issued_s is None and needs_iat):
        _wrong_claim(user)
    if now_s - skew_s >= expires_s:
        raise TokenRefused(FailureReason.EXPIRED_TOKEN, user)
    begins = [second for second in (issued_s, from_s) if second is not None]
    if any(expires_s < second for second in begins):
        _wrong_claim(user)
    if any(now_s + skew_s < second for second in begins):
        raise TokenRefused(FailureReason.EARLY_TOKEN, user)
    scopes = claims.get(rules.scope_claim)
    if isinstance(scopes, str | list):
        _check_scopes([scopes] if isinstance(scopes, str) else scopes, user)
    return Bearer(user, max(expires_s * 1000 - now_ms, 0))


# -- parts of a token


def _parts(token: str) -> tuple[str, str, str]:
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenRefused(FailureReason.MALFORMED_TOKEN)
    return parts[0], parts[1], parts[2]


def _object(text: str) -> dict[str, Any]:
    try:
        found = _json(_decoded(text))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise TokenRefused(FailureReason.MALFORMED_TOKEN)
    return found


def _decoded(text: str) -> bytes:
    if not _BASE64URL.fullmatch(text) or len(text) % 4 == 1:
        raise TokenRefused(FailureReason.MALFORMED_TOKEN)
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _json(data: bytes) -> Any:
    """Raises ValueError. A name that stands twice would let two readers see two documents."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a name stands twice")
        return found

    def no_number(text: str) -> Never:
        raise ValueError(f"{text} is not a number")

    try:
        return json.loads(data.decode(), object_pairs_hook=once, parse_constant=no_number)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


# -- claims, of a token that is signed


def _principal(claims: Mapping[str, Any], name: str) -> str:
    text = claims.get(name)
    if not isinstance(text, str):
        _wrong_claim(None)
    text = text.strip(_JAVA_SPACE)
    try:
        text.encode()
    except UnicodeEncodeError:
        _wrong_claim(None)
    if not text or len(text) > MAX_NAME_CHARS or _CONTROL.search(text):
        _wrong_claim(None)
    return text


def _texts(claim: object, user: str) -> frozenset[str]:
    found = [claim] if isinstance(claim, str) else claim
    if found is None:
        return frozenset()
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        _wrong_claim(user)
    return frozenset(found)


def _seconds(claims: Mapping[str, Any], name: str, user: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_SECONDS:
        _wrong_claim(user)
    return int(value)


def _check_scopes(scopes: Collection[object], user: str) -> None:
    """As Kafka: each is a text with something in it, and none stands twice."""
    found = [scope.strip(_JAVA_SPACE) if isinstance(scope, str) else "" for scope in scopes]
    if not all(found) or len(set(found)) != len(found):
        _wrong_claim(user)


def _wrong_claim(user: str | None) -> Never:
    raise TokenRefused(FailureReason.WRONG_CLAIM, user)


# -- keys and signatures: joserfc


def _key(entry: object) -> VerificationKey | None:
    """The public part of a key that may verify signatures; None for all others."""
    if not isinstance(entry, dict):
        return None
    kind, kid, algorithm = entry.get("kty"), entry.get("kid"), entry.get("alg")
    operations = entry.get("key_ops")
    if not isinstance(kind, str) or kind not in _PUBLIC or entry.get("use", "sig") != "sig":
        return None
    if operations is not None and not (isinstance(operations, list) and "verify" in operations):
        return None
    if any(text is not None and not isinstance(text, str) for text in (kid, algorithm)):
        return None
    public = {name: entry.get(name) for name in _PUBLIC[kind]}
    if not all(isinstance(value, str) for value in public.values()):
        return None
    if kind != "RSA" and not any(kind == of and public["crv"] in curves for of, curves in ALGORITHMS.values()):
        return None
    material = _material(kind, public)
    if material is None:
        return None
    return VerificationKey(kid, kind, str(public.get("crv", "")), algorithm, material)


def _material(kind: str, public: Mapping[str, Any]) -> Any | None:
    from joserfc import jwk

    try:
        if kind == "RSA" and int.from_bytes(_decoded(public["n"])).bit_length() not in RSA_BITS:
            return None
        return jwk.import_key({"kty": kind, **public})
    except Exception:  # noqa: BLE001 - whatever the texts are: the libraries name several kinds.
        return None


def _is_signed(signed: bytes, signature: bytes, algorithm: str, key: VerificationKey) -> bool:
    from joserfc import jws

    model = jws.JWSRegistry.algorithms[algorithm]
    try:
        model.check_key(key.material)
        return model.verify(signed, signature, key.material) is True
    except Exception:  # noqa: BLE001 - a signature of the wrong form is a wrong signature.
        return False
