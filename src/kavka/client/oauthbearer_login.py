"""OAUTHBEARER of a client: what Kafka's settings and JAAS options say about where its tokens come from.

Decides which origin the settings name, and refuses what would not be honoured. Must not know connections.

    sasl.oauthbearer.token.endpoint.url=https://...   clientId, clientSecret and scope of the JAAS text, or of the
                                                      settings sasl.oauthbearer.client.credentials.* (Kafka 4.1)
    sasl.oauthbearer.token.endpoint.url=file:///...   a file with a token
    without it                                        unsecuredLogin... options of the JAAS text: a token for tests

Source: Kafka's OAuthBearerLoginCallbackHandler, OAuthBearerUnsecuredLoginCallbackHandler, AccessTokenRetrieverFactory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from kavka.client.oauthbearer_tokens import AccessTokens, Origin, RefreshRules, TokenEndpoint, TokenFile, UnsecuredToken
from kavka.client.security import SaslMechanism, SaslSettings, TlsSettings
from kavka.errors import ConfigError
from kavka.security.jaas import TRUST_STORE, Login
from kavka.security.key_stores import KeyStoreError, StoreSettings, load, read_authorities, to_pem

URL: Final = "sasl.oauthbearer.token.endpoint.url"
_HANDLER: Final = "sasl.login.callback.handler.class"
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
_HANDLERS: Final = (
    f"{_PACKAGE}.OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}.secured.OAuthBearerLoginCallbackHandler",
)
_UNSECURED_HANDLER: Final = f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
_CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
SETTINGS: Final = frozenset(
    {
        URL,
        _HANDLER,
        _CLIENT_ID,
        _CLIENT_SECRET,
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.oauthbearer.header.urlencode",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.buffer.seconds",
    }
)
_UNSECURED: Final = "unsecuredLogin"
_EXTENSION: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")


def token_settings(settings: Mapping[str, str], login: Login | None, read: Callable[[str], bytes]) -> SaslSettings:
    """The login of a client with tokens. Raises ConfigError, OSError."""
    options = {} if login is None else {name: secret.reveal() for name, secret in login.options.items()}
    url = settings.get(URL, "").strip()
    unsecured = [name for name in options if name.startswith(_UNSECURED)]
    if url and unsecured:
        raise ConfigError(f"{URL} and the option {unsecured[0]} name two origins of tokens: leave one out")
    handler = settings.get(_HANDLER, "").strip()
    known = _HANDLERS if url else (_UNSECURED_HANDLER,)
    if handler and handler not in known:
        raise ConfigError(f"{_HANDLER} is {handler!r}; with these settings it may be {known[0]}, or left out")
    claim = settings.get("sasl.oauthbearer.sub.claim.name", "sub").strip()
    origin: Origin
    if not url:
        who = options.get(f"{_UNSECURED}PrincipalClaimName", "sub").strip() or "sub"
        origin, claim = _unsecured(options, who), who
    elif urlsplit(url).scheme == "file":
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost") or not parts.path:
            raise ConfigError(f"{URL} is {url!r}, expected file:///PATH")
        origin = TokenFile(unquote(parts.path))
    else:
        origin = _endpoint(settings, options, url, login, read)
    tokens = AccessTokens(origin, rules=_rules(settings), claim=claim, extensions=_extensions(options))
    user = origin.client_id if isinstance(origin, TokenEndpoint) else ""
    return SaslSettings(mechanism=SaslMechanism.OAUTHBEARER, username=user, tokens=tokens)


def _endpoint(
    settings: Mapping[str, str], options: Mapping[str, str], url: str, login: Login | None, read: Callable[[str], bytes]
) -> TokenEndpoint:
    user = options.get("clientId") or settings.get(_CLIENT_ID, "")
    secret = options.get("clientSecret") or settings.get(_CLIENT_SECRET, "")
    if not user or not secret:
        raise ConfigError(
            f"OAUTHBEARER with {URL} needs the client's id and secret: clientId and clientSecret in sasl.jaas.config, "
            f"or {_CLIENT_ID} and {_CLIENT_SECRET}"
        )
    urlencode = settings.get("sasl.oauthbearer.header.urlencode", "false").strip().lower()
    if urlencode not in ("true", "false"):
        raise ConfigError("sasl.oauthbearer.header.urlencode is neither true nor false")
    return TokenEndpoint(
        url=url,
        client_id=user.strip(),
        client_secret=secret.strip(),
        scope=(options.get("scope") or settings.get("sasl.oauthbearer.scope", "")).strip() or None,
        tls=_tls(login, read),
        connect_timeout_ms=_number(settings, "sasl.login.connect.timeout.ms", 10_000, 1, 600_000),
        read_timeout_ms=_number(settings, "sasl.login.read.timeout.ms", 10_000, 1, 600_000),
        backoff_ms=_number(settings, "sasl.login.retry.backoff.ms", 100, 1, 600_000),
        max_backoff_ms=_number(settings, "sasl.login.retry.backoff.max.ms", 10_000, 0, 600_000),
        urlencode=urlencode == "true",
    )


def _tls(login: Login | None, read: Callable[[str], bytes]) -> TlsSettings:
    texts = (
        {}
        if login is None
        else {name.rpartition(".")[2]: secret.reveal() for name, secret in login.trust_store.items()}
    )
    store = StoreSettings(
        "trust", texts.get("type", "JKS"), texts.get("location"), texts.get("password"), texts.get("certificates")
    )
    if (refusal := store.refusal()) is not None:
        raise ConfigError(f"sasl.jaas.config: {TRUST_STORE[0]}: {refusal}")
    if not store.is_set:
        return TlsSettings()
    try:
        return TlsSettings(authorities=b"".join(map(to_pem, read_authorities(load(store, read), store))).decode())
    except KeyStoreError as error:
        raise ConfigError(f"sasl.jaas.config: {TRUST_STORE[0]}: {error}") from error


def _unsecured(options: Mapping[str, str], who: str) -> UnsecuredToken:
    claims: dict[str, str | int | float | list[str]] = {}
    lifetime_s = 3600
    for name, text in options.items():
        kind, _, claim = name.removeprefix(_UNSECURED).partition("_")
        if not name.startswith(_UNSECURED) or kind == "Extension":
            continue
        try:
            if kind == "StringClaim" and claim:
                claims[claim] = text
            elif kind == "NumberClaim" and claim:
                claims[claim] = float(text)
            elif kind == "ListClaim" and claim and text:
                claims[claim] = [part for part in text[1:].split(text[0]) if part]
            elif kind == "LifetimeSeconds" and not claim:
                lifetime_s = int(text)
            elif kind != "PrincipalClaimName":
                raise ConfigError(f"sasl.jaas.config: option {name} has no meaning for a client with OAUTHBEARER")
        except ValueError:
            raise ConfigError(f"sasl.jaas.config: option {name} is not a number") from None
    if not claims.get(who):
        raise ConfigError(
            f"OAUTHBEARER needs {URL}, or for tests {_UNSECURED}StringClaim_{who} in sasl.jaas.config, which says who "
            "the client is"
        )
    return UnsecuredToken(claims=claims, lifetime_s=lifetime_s)


def _extensions(options: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for option, text in options.items():
        for prefix in ("extension_", f"{_UNSECURED}Extension_"):
            if option.startswith(prefix):
                found[option.removeprefix(prefix)] = text
    for name, text in found.items():
        if name == "auth" or not _EXTENSION.fullmatch(name) or not _EXTENSION_VALUE.fullmatch(text):
            raise ConfigError(f"sasl.jaas.config: extension {name!r} is not of the form that RFC 7628 has")
    return found


def _rules(settings: Mapping[str, str]) -> RefreshRules:
    prefix = "sasl.login.refresh"
    return RefreshRules(
        window_factor=_share(settings, f"{prefix}.window.factor", 0.8, 0.5, 1.0),
        window_jitter=_share(settings, f"{prefix}.window.jitter", 0.05, 0.0, 0.25),
        min_period_s=_number(settings, f"{prefix}.min.period.seconds", 60, 0, 900),
        buffer_s=_number(settings, f"{prefix}.buffer.seconds", 300, 0, 3600),
    )


def _number(settings: Mapping[str, str], name: str, default: int, lowest: int, highest: int) -> int:
    value = _share(settings, name, default, lowest, highest)
    if value != int(value):
        raise ConfigError(f"{name} is {settings[name]!r}, expected a whole number")
    return int(value)


def _share(settings: Mapping[str, str], name: str, default: float, lowest: float, highest: float) -> float:
    text = settings.get(name)
    try:
        value = default if text is None else float(text)
    except ValueError:
        value = float("nan")
    if not lowest <= value <= highest:
        raise ConfigError(f"{name} is {text!r}, expected a number from {lowest} to {highest}")
    return value
