"""Where a client's OAUTHBEARER tokens come from: an issuer's token endpoint, a file, or the client itself, for tests.

Decides when a token is taken anew, and what a bad answer of an endpoint means. Must not know brokers or SASL messages.

    until the refresh                                       the token that is there
    refresh.window.factor (+ jitter) of its life is over    a new one; if there is none, the old one until it ends
    no token, or it has ended                               a new one, or a failure

    I1  neither a token nor the secret stands in a message or a repr
    I2  the secret goes to an endpoint over https, or over http on this machine; no redirect is followed
    I3  a try ends: connecting, each read of the answer's head, and its body have a limit of time, a body has at most
        MAX_ANSWER_BYTES, and no try of one call begins later than retry.backoff.max.ms after its first, as in Kafka
    I4  one thread at a time asks; others wait for what it gets

Apache Kafka takes new tokens in a thread of their own (ExpiringCredentialRefreshingLogin). Here the next connection
that is opened takes it, by the same rule: an idle client does not ask.

Source: Kafka's HttpAccessTokenRetriever, FileTokenRetriever, Retry, LoginAccessTokenValidator,
OAuthBearerUnsecuredLoginCallbackHandler, ExpiringCredentialRefreshingLogin; RFC 6749, section 4.4.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard
from urllib.parse import quote_plus, urlsplit

from kavka.client.security import TlsSettings
from kavka.errors import ConfigError, ConnectionFailed, ErrorCode, RequestError

MAX_ANSWER_BYTES: Final = 1024 * 1024
MAX_TOKEN_CHARS: Final = 64 * 1024
"""What a broker of kavka accepts."""
LOOK_AGAIN_MS: Final = 10_000
"""After a refresh that failed, the token that is still good is shown for so long before the next try, as in Kafka."""
_FINAL: Final = frozenset({*range(400, 408), *range(409, 416), 501, 505})
"""Answers after which Kafka does not try again; 408 and 429 are for another time."""
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_TOKEN: Final = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEndpoint:
    """An issuer's endpoint, asked with the grant client_credentials. `urlencode`: encode id and secret (RFC 6749)."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    tls: TlsSettings = field(default_factory=TlsSettings)
    connect_timeout_ms: int = 10_000
    read_timeout_ms: int = 10_000
    backoff_ms: int = 100
    max_backoff_ms: int = 10_000
    urlencode: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme != "https" and (parts.scheme != "http" or parts.hostname not in _LOOPBACK):
            raise ConfigError(
                "sasl.oauthbearer.token.endpoint.url must be https://HOST/PATH or file:///PATH; http would show the "
                "client's secret to the network, and is for this machine only"
            )
        if not parts.hostname or "@" in parts.netloc:
            raise ConfigError("sasl.oauthbearer.token.endpoint.url has no host, or a login before it")


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file with a token; somebody else renews it."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsecuredToken:
    """Claims of a token that nobody signs, made here: for tests."""

    claims: Mapping[str, str | int | float | list[str]]
    lifetime_s: int = 3600


Origin: TypeAlias = TokenEndpoint | TokenFile | UnsecuredToken


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshRules:
    """When a token is taken anew, as Kafka's sasl.login.refresh.* say."""

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_s: int = 60
    buffer_s: int = 300

    def refresh_ms(self, now_ms: int, start_ms: int, end_ms: int, chance: float) -> int:
        """When, in ms of the wall clock. `chance` is in [0, 1)."""
        share = self.window_factor + self.window_jitter * chance
        proposed = int(start_ms + (end_ms - start_ms) * share)
        earliest, latest = now_ms + self.min_period_s * 1000, end_ms - self.buffer_s * 1000
        # Where a token does not live long enough for both bounds, Kafka keeps to neither.
        return proposed if earliest > latest else min(max(proposed, earliest), latest)


class _Kept(NamedTuple):
    token: str
    refresh_ms: int
    end_ms: int


class AccessTokens:
    """Tokens of one origin. Safe to use from several loops and threads; a pickle has the origin only."""

    def __init__(
        self,
        origin: Origin,
        *,
        rules: RefreshRules = RefreshRules(),
        claim: str = "sub",
        extensions: Mapping[str, str] | None = None,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.origin = origin
        self.extensions = dict(extensions or {})
        self._rules = rules
        self._claim = claim
        self._wall_ms = wall_ms
        self._lock = threading.Lock()
        self._kept: _Kept | None = None

    def __reduce__(self) -> tuple[Callable[..., AccessTokens], tuple[Any, ...]]:
        return _revived, (self.origin, self._rules, self._claim, self.extensions)

    def __repr__(self) -> str:
        return f"AccessTokens({self.origin!r})"

    def current(self) -> str:
        """A token that is good now. It may block for as long as I3 allows: call it beside the loop.

        Raises ConnectionFailed where a later try may succeed, RequestError(SASL_AUTHENTICATION_FAILED) where it cannot.
        """
        with self._lock:
            kept, now_ms = self._kept, self._wall_ms()
            if kept is not None and now_ms < min(kept.refresh_ms, kept.end_ms):
                return kept.token
            try:
                token = _obtained(self.origin, now_ms)
                start_ms, end_ms = _life_ms(token, self._claim, now_ms)
                if end_ms <= self._wall_ms():
                    raise _refused("the token that came has already ended: see this machine's clock and the issuer's")
            except (ConnectionFailed, RequestError):
                if kept is None or self._wall_ms() >= kept.end_ms:
                    raise
                self._kept = kept._replace(refresh_ms=self._wall_ms() + LOOK_AGAIN_MS)
                return kept.token
            self._kept = _Kept(token, self._rules.refresh_ms(now_ms, start_ms, end_ms, random.random()), end_ms)
            return token


def _revived(origin: Origin, rules: RefreshRules, claim: str, extensions: Mapping[str, str]) -> AccessTokens:
    return AccessTokens(origin, rules=rules, claim=claim, extensions=extensions)


def _obtained(origin: Origin, now_ms: int) -> str:
    if isinstance(origin, TokenEndpoint):
        return _asked(origin)
    if isinstance(origin, TokenFile):
        try:
            return Path(origin.path).read_text(encoding="ascii", errors="replace").strip()
        except OSError as error:
            raise ConnectionFailed(f"OAUTHBEARER: the token's file could not be read: {error}") from error
    now_s = now_ms / 1000
    claims = {"iat": now_s, "exp": now_s + origin.lifetime_s, **origin.claims}
    return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


def _asked(endpoint: TokenEndpoint) -> str:
    """Asks until there is an answer, as Kafka's Retry does: for max_backoff_ms in all."""
    end_s = time.monotonic() + endpoint.max_backoff_ms / 1000
    wait_s = endpoint.backoff_ms / 1000
    while True:
        try:
            return _asked_once(endpoint)
        except ConnectionFailed:
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                raise
            time.sleep(min(wait_s, left_s))
            wait_s *= 2


def _asked_once(endpoint: TokenEndpoint) -> str:
    from http.client import HTTPConnection, HTTPException, HTTPSConnection  # late: few clients have tokens

    parts = urlsplit(endpoint.url)
    assert parts.hostname is not None
    where = f"the token endpoint {parts.scheme}://{parts.netloc}{parts.path}"
    connect_s = endpoint.connect_timeout_ms / 1000
    connection = (
        HTTPSConnection(parts.hostname, parts.port, timeout=connect_s, context=endpoint.tls.context())
        if parts.scheme == "https"
        else HTTPConnection(parts.hostname, parts.port, timeout=connect_s)
    )
    body = "grant_type=client_credentials"
    if endpoint.scope:
        body += f"&scope={quote_plus(endpoint.scope)}"
    try:
        connection.connect()
        connection.sock.settimeout(endpoint.read_timeout_ms / 1000)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, _headers(endpoint))
        answer = connection.getresponse()
        content, end_s = b"", time.monotonic() + endpoint.read_timeout_ms / 1000
        while len(content) <= MAX_ANSWER_BYTES and (more := answer.read1(MAX_ANSWER_BYTES)):
            content += more
            if time.monotonic() > end_s:
                raise TimeoutError("its answer does not end")
    except (OSError, HTTPException) as error:
        why = str(error) or type(error).__name__
        raise ConnectionFailed(f"OAUTHBEARER: {where} gave no token: {why}") from error
    finally:
        connection.close()
    if answer.status in _FINAL or 300 <= answer.status < 400:
        raise _refused(f"{where} answered {answer.status} {answer.reason}: see the client's id, secret and scope")
    if answer.status not in (200, 201):
        raise ConnectionFailed(f"OAUTHBEARER: {where} answered {answer.status} {answer.reason}")
    return _token_in(content, where)


def _headers(endpoint: TokenEndpoint) -> dict[str, str]:
    identity = (endpoint.client_id, endpoint.client_secret)
    user, secret = map(quote_plus, identity) if endpoint.urlencode else identity
    basic = b64encode(f"{user}:{secret}".encode()).decode()
    return {
        "Authorization": f"Basic {basic}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
    }


def _token_in(content: bytes, where: str) -> str:
    if len(content) > MAX_ANSWER_BYTES:
        raise _refused(f"{where} answered with more than {MAX_ANSWER_BYTES} bytes")
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        answer = None
    token = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(token, str) or not token.strip():
        raise _refused(f"{where} answered without an access_token")
    return token.strip()


def _life_ms(token: str, claim: str, now_ms: int) -> tuple[int, int]:
    """From when and until when a token is good. Its signature is the broker's affair."""
    parts = token.split(".")
    claims: Any = None
    if len(token) <= MAX_TOKEN_CHARS and len(parts) == 3 and _TOKEN.fullmatch(token):
        try:
            claims = json.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        except (ValueError, RecursionError):
            claims = None
    if not isinstance(claims, dict):
        raise _refused("what came as a token is no JSON Web Token")
    end_s, start_s, who = claims.get("exp"), claims.get("iat", now_ms / 1000), claims.get(claim)
    if not _is_time(end_s) or not _is_time(start_s):
        raise _refused("the token does not say until when it is good (exp), or says since when in no number (iat)")
    if not isinstance(who, str) or not who.strip():
        raise _refused(f"the token does not say in {claim} whose it is")
    return int(float(start_s) * 1000), int(float(end_s) * 1000)


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12


def _encoded(content: Mapping[str, object]) -> str:
    return urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def _refused(why: str) -> RequestError:
    return RequestError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"OAUTHBEARER: {why}")
