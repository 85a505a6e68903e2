"""An issuer of tokens for tests: its keys, their public part as a JWKS document, and tokens, right and wrong.

It signs with the package cryptography by hand, not with what the broker verifies with.
"""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

ISSUER: Final = "https://issuer.example/realm"
AUDIENCE: Final = "kafka-brokers"
CURVES: Final[Mapping[str, tuple[type[ec.EllipticCurve], str, int]]] = {
    "ES256": (ec.SECP256R1, "P-256", 32),
    "ES384": (ec.SECP384R1, "P-384", 48),
    "ES512": (ec.SECP521R1, "P-521", 66),
}
_HASHES: Final[Mapping[str, hashes.HashAlgorithm]] = {
    "256": hashes.SHA256(),
    "384": hashes.SHA384(),
    "512": hashes.SHA512(),
}


def encoded(content: bytes | Mapping[str, Any]) -> str:
    """In base64url; a mapping as JSON."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value: int, size: int | None = None) -> str:
    return encoded(value.to_bytes(size or (value.bit_length() + 7) // 8))


@cache
def private_key(kid: str) -> Any:
    """The key of that name, which begins with its algorithm; made once."""
    algorithm = kid.split("-")[0]
    if algorithm in CURVES:
        return ec.generate_private_key(CURVES[algorithm][0]())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    if algorithm == "Ed448":
        return ed448.Ed448PrivateKey.generate()
    bits = kid.partition("bits")[2]
    return rsa.generate_private_key(65537, int(bits or 2048))


def public_key(kid: str, /, **more: Any) -> dict[str, Any]:
    """A key as a JWKS document has it."""
    algorithm = kid.split("-")[0]
    numbers: dict[str, Any]
    if algorithm in CURVES:
        _, name, size = CURVES[algorithm]
        point = private_key(kid).public_key().public_numbers()
        numbers = {"kty": "EC", "crv": name, "x": _number(point.x, size), "y": _number(point.y, size)}
    elif algorithm in ("EdDSA", "Ed448"):
        raw = private_key(kid).public_key().public_bytes_raw()
        numbers = {"kty": "OKP", "crv": "Ed25519" if algorithm == "EdDSA" else "Ed448", "x": encoded(raw)}
    else:
        public = private_key(kid).public_key().public_numbers()
        numbers = {"kty": "RSA", "n": _number(public.n), "e": _number(public.e)}
    return {"kid": kid, **numbers, **more}


def key_set(*kids: str) -> bytes:
    """A document with these keys."""
    return json.dumps({"keys": [public_key(kid) for kid in kids]}).encode()


def claims(now_s: float | None = None, **other: Any) -> dict[str, Any]:
    """The claims of a good token of alice's; with None one is left out."""
    now = int(time.time() if now_s is None else now_s)
    found = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": now, "exp": now + 600, "scope": "kafka"}
    return {name: value for name, value in {**found, **other}.items() if value is not None}


def signature(signed: bytes, kid: str, algorithm: str) -> bytes:
    """What the key makes of the bytes."""
    key = private_key(kid)
    if algorithm == "EdDSA":
        return bytes(key.sign(signed))
    digest = _HASHES[algorithm[2:]]
    if algorithm.startswith("ES"):
        size = CURVES[algorithm][2]
        r, s = decode_dss_signature(key.sign(signed, ec.ECDSA(digest)))
        return r.to_bytes(size) + s.to_bytes(size)
    if algorithm.startswith("PS"):
        return bytes(key.sign(signed, padding.PSS(padding.MGF1(digest), digest.digest_size), digest))
    return bytes(key.sign(signed, padding.PKCS1v15(), digest))


def token(
    content: Mapping[str, Any] | bytes | None = None,
    *,
    kid: str = "RS256-1",
    algorithm: str = "RS256",
    header: Mapping[str, Any] | None = None,
) -> str:
    """A signed token. `header` adds to its header; with None something is left out of it."""
    full = {"alg": algorithm, "typ": "JWT", "kid": kid, **(header or {})}
    head = encoded({name: value for name, value in full.items() if value is not None})
    body = encoded(claims() if content is None else content)
    return f"{head}.{body}.{encoded(signature(f'{head}.{body}'.encode(), kid, algorithm))}"


def first_message(text: str, *, authzid: str = "", **extensions: str) -> bytes:
    """The client's first message with a token."""
    who = f"a={authzid}" if authzid else ""
    more = "".join(f"{name}={value}\x01" for name, value in extensions.items())
    return f"n,{who},\x01auth=Bearer {text}\x01{more}\x01".encode()
