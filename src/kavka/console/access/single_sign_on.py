"""SingleSignOn: somebody logs in at a provider of OpenID Connect, and comes back as who the provider says they are.

Decides what is sent to the provider, and what of its answers is believed. Must not know pages, sessions nor rights.

    browser   GET /login/sso                      -> to the provider, with state, nonce and a challenge; a cookie keeps
                                                     state, nonce, verifier and where to go afterwards
    provider  asks for the password, or does not  -> back to /login/sso/callback with state and a code
    console   POST code, verifier and secret to the token endpoint: an ID token comes, which is verified and dropped

I1  Only the browser that began a login ends it, within LOGIN_MS and once: its cookie holds what the answer is compared
    with, is signed, and goes with the first answer, good or bad.
I2  An ID token counts if its signature is by a key of the issuer, by an algorithm with a public key
    (security/json_web_tokens.py), if issuer, audience, authorized party and nonce are exactly ours, and if it is in
    time.
I3  Whatever the provider answers takes a bounded time and memory (runtime/http/documents.py), and ends in Identity or
    SsoRefused. Nothing of a token or of the secret is in either, in a log line or in a file.
I4  Keys are fetched again for a token by an unknown key, and when they are older than KEYS_S: a provider may rotate and
    withdraw them. They are asked for at most every KEYS_AGAIN_S, also where the provider does not answer: nobody makes
    the console ask in a loop.

Source: OpenID Connect Core 1.0 (3.1, code flow), Discovery 1.0; RFC 7636 (PKCE), 9207 (iss), 9700 (best practice).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from math import inf
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus, urlencode, urlsplit

from itsdangerous import BadSignature, URLSafeSerializer

from kavka.console.sso_settings import Identity, SsoSettings
from kavka.errors import ConfigError, ConnectionFailed
from kavka.installation import install_command
from kavka.runtime.http.documents import AnsweredOtherwise, fetch_document, post_form
from kavka.security.json_web_tokens import KeySet, MalformedKeySet, TokenRules, read_key_set, verified_claims
from kavka.security.key_stores import StoreSettings
from kavka.security.oauthbearer import TokenRefused
from kavka.security.sasl import FailureReason

LOGIN_MS: Final = 10 * 60 * 1000
DISCOVERY_S: Final = 3_600.0
FAILED_S: Final = 5.0
"""For so long a provider that did not answer is not asked again."""
KEYS_AGAIN_S: Final = 10.0
KEYS_S: Final = 3_600.0
AT_ONCE: Final = 8
"""Logins that talk to the provider at a time; others wait."""
LONGEST: Final = 4_096
"""Of a code, or of what else the provider gives a browser."""
MOST_TOKEN_CHARS: Final = 64 * 1024
MOST_GROUPS: Final = 2_000
LONGEST_NAME: Final = 200
_DISCOVERY: Final = "/.well-known/openid-configuration"


class SsoRefused(Exception):
    """A login that did not work out. `status` of the page; `advice`: what to do; `is_outage`: nobody was refused, the
    provider cannot be asked."""

    def __init__(self, why: str, *, status: int = 403, advice: str = "", is_outage: bool = False) -> None:
        super().__init__(why)
        self.status = status
        self.advice = advice
        self.is_outage = is_outage


class Begun(NamedTuple):
    """Where to send the browser, and what its cookie holds."""

    url: str
    cookie: str


@dataclass(frozen=True, slots=True)
class Provider:
    """What the provider says of itself."""

    authorization: str
    token: str
    keys: str
    end_session: str
    is_basic: bool
    """The secret goes into a header, not into the form."""
    says_issuer: bool
    """Its answers to browsers name the issuer."""


class SingleSignOn:
    """One provider. key: what cookies are signed with. now_ms: the wall clock. Raises ConfigError where what verifies
    signatures is not installed."""

    def __init__(self, settings: SsoSettings, key: bytes, now_ms: Callable[[], int]) -> None:
        if find_spec("joserfc") is None:
            raise ConfigError(f"[sso] needs a package that is not installed: {install_command('sso')}")
        self.settings = settings
        self._now_ms = now_ms
        self._signer = URLSafeSerializer(key, salt="kavka console sso")
        self._trusted = StoreSettings("trust", kind="PEM", location=settings.authorities or None)
        audiences = frozenset({settings.client_id})
        self._rules = TokenRules(settings.issuer, audiences, settings.clock_skew_s, scope_claim="")
        self._asking = asyncio.Lock()
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._provider: Provider | None = None
        self._provider_s = 0.0
        self._failed: tuple[float, str] = (-FAILED_S, "")
        self._keys = KeySet()
        self._keys_s = -inf
        self._no_keys: tuple[float, str] = (-inf, "")
        """When they could not be had last, and why."""

    async def begin(self, target: str) -> Begun:
        """A new login, which leads to `target`. Raises SsoRefused where the provider cannot be asked."""
        provider = await self._discovered()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        asked = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.settings.redirect_uri,
            "scope": " ".join(self.settings.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        cookie = self._signer.dumps([state, nonce, verifier, target, self._now_ms()])
        joined = "&" if urlsplit(provider.authorization).query else "?"
        url = f"{provider.authorization}{joined}{urlencode(asked)}"
        return Begun(url, cookie if isinstance(cookie, str) else cookie.decode())

    async def finish(self, cookie: str | None, answer: Mapping[str, str]) -> tuple[Identity, str]:
        """Who comes back with this answer of the provider, and where they wanted to go. Raises SsoRefused."""
        state, nonce, verifier, target = self._begun(cookie)
        if not hmac.compare_digest(answer.get("state", "").encode("utf-8", "replace"), state.encode()):
            raise _stale()
        if "error" in answer:
            raise SsoRefused(f"The provider refused the login: {_printable(answer['error'][:100])}")
        provider = await self._discovered()
        if answer.get("iss", self.settings.issuer if not provider.says_issuer else "") != self.settings.issuer:
            raise SsoRefused("The answer is not the provider's: it names another issuer.")
        code = answer.get("code", "")
        if not code or len(code) > LONGEST:
            raise SsoRefused("The provider's answer has no code.")
        async with self._turns:
            token = await self._token(provider, code, verifier)
            claims = await self._claims(provider, token)
        found = claims.get("nonce")
        if not isinstance(found, str) or not hmac.compare_digest(found.encode("utf-8", "replace"), nonce.encode()):
            raise SsoRefused("The provider's token was not believed: it was made for another login (nonce).")
        audiences, party = claims["aud"], claims.get("azp")
        is_shared = isinstance(audiences, list) and len(audiences) > 1
        if (party is not None or is_shared) and party != self.settings.client_id:
            raise SsoRefused("The provider's token was not believed: it was made for another client (azp).")
        return self._identity(claims), target

    def logout_url(self) -> str:
        """Where somebody logs out at the provider, too; '' where it does not say."""
        if self._provider is None or not self._provider.end_session:
            return ""
        there = self._provider.end_session
        asked = {"client_id": self.settings.client_id, "post_logout_redirect_uri": f"{self.settings.address}/login"}
        return f"{there}{'&' if urlsplit(there).query else '?'}{urlencode(asked)}"

    def _begun(self, cookie: str | None) -> tuple[str, str, str, str]:
        try:
            state, nonce, verifier, target, began_ms = self._signer.loads(cookie or "")
        except (BadSignature, TypeError, ValueError):
            raise _stale() from None
        if not 0 <= self._now_ms() - began_ms < LOGIN_MS:
            raise _stale()
        return state, nonce, verifier, target

    # ----------------------------------------------------------------------------------------------------- provider

    async def _discovered(self) -> Provider:
        """What the provider says of itself, an hour old at most; older where it does not answer now."""
        async with self._asking:
            now_s = asyncio.get_running_loop().time()
            if self._provider is not None and now_s - self._provider_s < DISCOVERY_S:
                return self._provider
            if now_s - self._failed[0] < FAILED_S:
                return self._former(self._failed[1])
            url = self.settings.issuer.rstrip("/") + _DISCOVERY
            try:
                found = _provider(await self._document(url), self.settings.issuer)
            except SsoRefused as refused:
                self._failed = (asyncio.get_running_loop().time(), str(refused))
                return self._former(str(refused))
            self._provider, self._provider_s = found, now_s
            return found

    def _former(self, why: str) -> Provider:
        if self._provider is not None:
            return self._provider
        raise _outage(why)

    async def _document(self, url: str) -> dict[str, Any]:
        try:
            return _object(await fetch_document(url, self._trusted), url)
        except ConnectionFailed as failed:
            raise _outage(str(failed)) from failed

    async def _token(self, provider: Provider, code: str, verifier: str) -> str:
        settings, headers = self.settings, {}
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": settings.redirect_uri,
            "code_verifier": verifier,
        }
        if not settings.secret:
            form["client_id"] = settings.client_id
        elif provider.is_basic:
            words = f"{quote_plus(settings.client_id)}:{quote_plus(settings.secret.reveal())}"
            headers["Authorization"] = f"Basic {b64encode(words.encode()).decode()}"
        else:
            form |= {"client_id": settings.client_id, "client_secret": settings.secret.reveal()}
        try:
            data = await post_form(provider.token, form, headers, self._trusted)
        except AnsweredOtherwise as answered:
            if answered.status not in (400, 401, 403):
                raise _outage(str(answered)) from answered
            raise SsoRefused(
                f"The provider did not take the login's code from this console: it answered {answered.status}.",
                advice="Log in again. If it stays so, see client_id, client_secret and address in the settings.",
            ) from None
        except ConnectionFailed as failed:
            raise _outage(str(failed)) from failed
        token = _object(data, provider.token).get("id_token")
        if not isinstance(token, str) or not token or len(token) > MOST_TOKEN_CHARS:
            raise SsoRefused("The provider gave no ID token. Is openid among the scopes?")
        return token

    async def _claims(self, provider: Provider, token: str) -> dict[str, Any]:
        if asyncio.get_running_loop().time() - self._keys_s >= KEYS_S:
            await self._take_keys(provider)
        try:
            return verified_claims(token, self._keys, self._rules, self._now_ms())
        except TokenRefused as refused:
            if refused.reason not in (FailureReason.UNKNOWN_KEY, FailureReason.NO_KEYS):
                raise _unbelieved(refused) from None
        await self._take_keys(provider)
        try:
            return verified_claims(token, self._keys, self._rules, self._now_ms())
        except TokenRefused as refused:
            raise _unbelieved(refused) from None

    async def _take_keys(self, provider: Provider) -> None:
        async with self._asking:
            now_s = asyncio.get_running_loop().time()
            if now_s - self._keys_s < KEYS_AGAIN_S:
                return
            if now_s - self._no_keys[0] < KEYS_AGAIN_S:
                raise _outage(self._no_keys[1])
            try:
                self._keys = read_key_set(await fetch_document(provider.keys, self._trusted))
                self._keys_s = now_s
            except (ConnectionFailed, MalformedKeySet) as failed:
                why = str(failed) if isinstance(failed, ConnectionFailed) else f"{provider.keys}: {failed}"
                self._no_keys = (asyncio.get_running_loop().time(), why)
                raise _outage(why) from failed

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        subject = claims["sub"]
        if subject != subject.strip():
            raise SsoRefused("The provider's number for this user begins or ends with white space.")
        name = claims.get(self.settings.name_claim)
        shown = _printable(name if isinstance(name, str) and name.strip() else subject)
        groups = _at(claims, self.settings.groups_claim)
        texts = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        if len(texts) > MOST_GROUPS:
            raise SsoRefused(f"The provider names {len(texts)} groups of this user; at most {MOST_GROUPS} are taken.")
        known = tuple(each for each in texts if isinstance(each, str))
        return Identity(self.settings.issuer, subject, shown.strip()[:LONGEST_NAME], known)


def _provider(found: Mapping[str, Any], issuer: str) -> Provider:
    """Raises SsoRefused for a provider that cannot be used."""
    if found.get("issuer") != issuer:
        raise _outage("the provider calls itself otherwise than the settings do (issuer)")
    places = {}
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
        places[name] = _place(found, name)
        if not places[name]:
            raise _outage(f"the provider names no {name} that is an https address")
    challenges = found.get("code_challenge_methods_supported")
    if challenges is not None and "S256" not in _texts(challenges):
        raise _outage("the provider does not take the challenge S256 (PKCE)")
    ways = _texts(found.get("token_endpoint_auth_methods_supported", ["client_secret_basic"]))
    return Provider(
        places["authorization_endpoint"],
        places["token_endpoint"],
        places["jwks_uri"],
        _place(found, "end_session_endpoint"),
        "client_secret_basic" in ways or "client_secret_post" not in ways,
        found.get("authorization_response_iss_parameter_supported") is True,
    )


def _place(found: Mapping[str, Any], name: str) -> str:
    text = found.get(name)
    if not isinstance(text, str) or len(text) > LONGEST or any(each <= " " or each == "\x7f" for each in text):
        return ""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return ""
    is_good = parts.scheme == "https" and parts.hostname and "@" not in parts.netloc and not parts.fragment
    return text if is_good and text.isascii() else ""


def _texts(found: object) -> list[str]:
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _object(data: bytes, url: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise _outage(f"{url} answered with something else than a JSON object")
    return found


def _at(claims: Mapping[str, Any], path: str) -> Any:
    """A claim by its name, which may have dots in it, or by the names that lead to it."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)


def _stale() -> SsoRefused:
    return SsoRefused(
        "This login began in another browser, or too long ago, or has ended already.",
        status=400,
        advice="Log in again.",
    )


def _outage(why: str) -> SsoRefused:
    return SsoRefused(
        _printable(why),
        status=503,
        advice="Try again in a moment. Users with a password of this console can log in meanwhile.",
        is_outage=True,
    )


def _unbelieved(refused: TokenRefused) -> SsoRefused:
    return SsoRefused(f"The provider's token was not believed: {refused.reason.value}.")
