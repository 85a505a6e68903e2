"""OAUTHBEARER, right and wrong, on raw sockets: what a broker answers. Runs against kavka and Apache Kafka alike.

How long a session lasts is told to the minute: both say what is left of the token when they have verified it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kit.sasl_script import LISTENER, Wire, versions
from tests.kit.token_issuer import AUDIENCE, ISSUER, claims, encoded, first_message, public_key, token

OWN = f"listener.name.{LISTENER.lower()}.oauthbearer"
LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
KIDS = ("RS256-1", "RS256-2", "ES256-1", "ES384-1", "ES512-1")


def write_keys(path: Path) -> str:
    """The address of a file with the issuer's keys."""
    other = public_key("RS256-1", use="enc")
    keys = [*(public_key(kid) for kid in KIDS), {**other, "kid": "RS256-enc"}]
    path.write_text(json.dumps({"keys": keys}))
    return f"file://{path}"


def settings(keys: str) -> dict[str, str]:
    return {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{LISTENER}:{LISTENER}",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{OWN}.sasl.jaas.config": LOGIN,
        f"{OWN}.sasl.server.callback.handler.class": HANDLER,
        f"{OWN}.sasl.oauthbearer.jwks.endpoint.url": keys,
        f"{OWN}.sasl.oauthbearer.expected.issuer": ISSUER,
        f"{OWN}.sasl.oauthbearer.expected.audience": AUDIENCE,
        "connection.failed.authentication.delay.ms": "50",
        "sasl.server.max.receive.size": "200000",
    }


def _rounded(told: Any) -> Any:
    if isinstance(told, tuple) and len(told) == 4:
        return (*told[:3], round(told[3] / 60_000))
    return told


def _login(wire: Wire, message: bytes) -> list[Any]:
    """The answers until the client is in or out."""
    said = [wire.handshake("OAUTHBEARER"), _rounded(wire.token(message))]
    if isinstance(said[1], tuple) and said[1][0] == "NONE":
        said += [_rounded(wire.token(b"\x01")), wire.ended()] if said[1][2] else [wire.is_served()]
    else:
        said.append(wire.ended())
    return said


Case = Callable[[Wire], Any]


def _with(text: Callable[[], str], **how: Any) -> Case:
    return lambda wire: _login(wire, first_message(text(), **how))


def _says(**other: Any) -> Case:
    return _with(lambda: token(claims(**other)))


def _in(seconds: int) -> int:
    return int(time.time()) + seconds


def _bare(wire: Wire, message: bytes) -> list[Any]:
    said: list[Any] = [wire.handshake("OAUTHBEARER", 0)]
    wire.raw(message)
    answer = wire.receive()
    said.append(answer)
    if answer:
        wire.raw(b"\x01")
        return [*said, wire.ended()]
    return [*said, "closed" if answer is None else wire.is_served()]


def _again(wire: Wire, text: str) -> list[Any]:
    first = [wire.handshake("OAUTHBEARER"), _rounded(wire.token(first_message(token())))]
    again = [wire.handshake("OAUTHBEARER"), _rounded(wire.token(first_message(text)))]
    if again[1][0] == "NONE" and again[1][2]:
        return [*first, *again, wire.token(b"\x01"), wire.ended()]
    return [*first, *again, wire.is_served() if again[1][0] == "NONE" else wire.ended()]


def _raw(message: bytes) -> Case:
    return lambda wire: _login(wire, message)


CASES: dict[str, Case] = {
    "a good token": _with(token),
    "after ApiVersions": lambda wire: [versions(wire), *_login(wire, first_message(token()))],
    **{
        f"signed with {algorithm}": _with(lambda a=algorithm, k=kid: token(kid=k, algorithm=a))  # type: ignore[misc]
        for algorithm, kid in (
            ("RS256", "RS256-2"),
            ("RS384", "RS256-1"),
            ("RS512", "RS256-1"),
            ("PS256", "RS256-1"),
            ("PS384", "RS256-1"),
            ("PS512", "RS256-1"),
            ("ES256", "ES256-1"),
            ("ES384", "ES384-1"),
            ("ES512", "ES512-1"),
        )
    },
    "own authzid": _with(token, authzid="alice"),
    "another authzid": _with(token, authzid="admin"),
    "extensions": _with(token, traceId="1 2", other="x=="),
    "signed with alg none": _with(lambda: f"{encoded({'alg': 'none'})}.{encoded(claims())}."),
    "signed with alg none and something": _with(lambda: f"{encoded({'alg': 'none'})}.{encoded(claims())}.AAAA"),
    "an unknown key": _with(lambda: token(kid="RS256-unknown")),
    "another key": _with(lambda: token(kid="RS256-evil", header={"kid": "RS256-1"})),
    "a key of another kind": _with(lambda: token(header={"kid": "ES256-1"})),
    "a key for encryption": _with(lambda: token(header={"kid": "RS256-enc"})),
    "crit": _with(lambda: token(header={"crit": ["x"], "x": 1})),
    "another issuer": _says(iss="https://evil.example"),
    "no issuer": _says(iss=None),
    "another audience": _says(aud="x"),
    "one of several audiences": _says(aud=["x", AUDIENCE]),
    "no audience": _says(aud=None),
    "no exp": _says(exp=None),
    "exp as text": _says(exp="soon"),
    "expired": _with(lambda: token(claims(time.time() - 1000))),
    "expired within the skew": _with(lambda: token(claims(exp=_in(-5), iat=_in(-50)))),
    "no iat": _says(iat=None),
    "iat as text": _says(iat="now"),
    "not yet": _with(lambda: token(claims(nbf=_in(300)))),
    "nbf within the skew": _with(lambda: token(claims(nbf=_in(5)))),
    "exp before iat": _with(lambda: token(claims(exp=_in(300), iat=_in(310)))),
    "no sub": _says(sub=None),
    "an empty sub": _says(sub=""),
    "a sub of spaces": _says(sub="   "),
    "a number as sub": _says(sub=7),
    "a sub with spaces around": _says(sub="  alice "),
    "several scopes": _says(scope=["a", "b"]),
    "a scope twice": _says(scope=["a", "a"]),
    "an empty scope": _says(scope=""),
    "no scope": _says(scope=None),
    "a claim twice": _with(lambda: token(json.dumps(claims()).encode()[:-1] + b', "sub": "admin"}')),
    "claims that are no object": _with(lambda: token(b"[1]")),
    "claims that are no JSON": _with(lambda: token(b"{")),
    "no token": _with(lambda: "abc"),
    "two parts": _with(lambda: token().rpartition(".")[0]),
    "no signature": _with(lambda: token().rpartition(".")[0] + "."),
    "a signature cut off": _with(lambda: token()[:-8]),
    "four parts": _with(lambda: token() + ".AAAA"),
    "scheme in other letters": lambda wire: _login(wire, first_message(token()).replace(b"Bearer", b"bEARER")),
    "spaces before the token": lambda wire: _login(wire, first_message(token()).replace(b"Bearer ", b"Bearer   ")),
    "channel binding y": lambda wire: _login(wire, b"y" + first_message(token())[1:]),
    "no separator at the end": lambda wire: _login(wire, first_message(token())[:-1]),
    "one separator too many": lambda wire: _login(wire, first_message(token()) + b"\x01"),
    "an extension with a dash": lambda wire: _login(wire, first_message(token(), **{"trace-id": "1"})),
    "an empty extension": lambda wire: _login(wire, first_message(token(), trace="")),
    "an extension beyond ASCII": lambda wire: _login(wire, first_message(token(), trace="ä")),
    "no auth": _raw(b"n,,\x01x=y\x01\x01"),
    "nothing": _raw(b""),
    "garbage": _raw(b"garbage"),
    "only ^A": _raw(b"\x01"),
    "auth twice": lambda wire: _login(wire, b"n,,\x01auth=Bearer x\x01" + first_message(token())[4:]),
    "bare": lambda wire: _bare(wire, first_message(token())),
    "bare, refused": lambda wire: _bare(wire, first_message("x")),
    "bare, garbage": lambda wire: _bare(wire, b"garbage"),
    "re-authentication": lambda wire: _again(wire, token()),
    "re-authentication as somebody else": lambda wire: _again(wire, token(claims(sub="bob"))),
    "re-authentication with a refused token": lambda wire: _again(wire, "x"),
    "in version 0 of SaslAuthenticate": lambda wire: [
        wire.handshake("OAUTHBEARER"),
        wire.token(first_message(token()), 0)[:3],
        wire.is_served(),
    ],
}
"""What both answer alike."""

CLOSED_BY_KAFKA: dict[str, Case] = {
    # It asks the wrong pattern for the scheme's name, and an exception that nobody expects ends the connection.
    "another scheme": lambda wire: _login(wire, first_message(token()).replace(b"Bearer", b"Basic")),
}

STRICTER: dict[str, Case] = {
    "iat in the future": _with(lambda: token(claims(iat=_in(300)))),
    "a control character in sub": _says(sub="a\tb"),
    "without kid, where several keys fit": _with(lambda: token(header={"kid": None})),
    "jku": _with(lambda: token(header={"jku": "https://evil.example"})),
    "jwk": _with(lambda: token(header={"jwk": public_key("RS256-1")})),
    "another token after a refused one": lambda wire: [
        wire.handshake("OAUTHBEARER"),
        wire.token(first_message("x"))[:3],
        wire.token(first_message(token()))[0],
    ],
}
"""What Apache Kafka takes and kavka refuses."""


def run(port: int, cases: dict[str, Case]) -> dict[str, Any]:
    """What is answered, by case."""
    found = {}
    for name, case in cases.items():
        with Wire(port) as wire:
            found[name] = case(wire)
    return found
