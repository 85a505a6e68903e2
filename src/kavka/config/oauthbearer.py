"""OAUTHBEARER of one listener: which tokens it believes, and where the keys are that they are signed with.

Decides what Kafka's sasl.oauthbearer.* mean for a listener, and which combinations would let anybody in, or nobody.
Must not know files or connections. Loaded only where a listener has the mechanism.

    I1  a listener has an issuer, an audience and keys, or it does not start; Kafka leaves the first two to the operator
    I2  where the keys are is said by the broker's file alone: https, or a file
    I3  tokens that nobody has signed are believed only where kavka.oauthbearer.unsecured says so, and only by listeners
        on the loopback; Kafka's default, without a class for the handler, is to believe them
    I4  a setting of this mechanism is honoured or refused

Source: Kafka's ConfigurationUtils, AccessTokenValidatorFactory, VerificationKeyResolverFactory, JaasOptionsUtils.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from kavka.config.broker_settings import BrokerSettings
from kavka.config.effect import OF_TOKEN_LOGIN
from kavka.config.sasl import HANDLER_CLASS, LOGIN_HANDLER_CLASS, LOOPBACK, text_of
from kavka.config.setting import InvalidValue
from kavka.errors import ConfigError
from kavka.security.json_web_tokens import TokenRules
from kavka.security.key_stores import StoreSettings
from kavka.security.oauthbearer import MECHANISM

if TYPE_CHECKING:
    from kavka.config.broker import BrokerConfig
    from kavka.config.listeners import Endpoint
    from kavka.security.secret import Secret

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
HANDLERS: Final = (
    f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}.secured.OAuthBearerValidatorCallbackHandler",
)
"""Kafka's handler of tokens that are signed; the second is its older name."""
UNSECURED_HANDLER: Final = f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
VALIDATORS: Final = (f"{_PACKAGE}.DefaultJwtValidator", f"{_PACKAGE}.BrokerJwtValidator")
"""What sasl.oauthbearer.jwt.validator.class may name: in a broker with keys both are one."""
MAX_SKEW_S: Final = 3_600
"""By how much clocks may differ at most: beyond, tokens that have expired would be good for hours."""
_OF_KEYS: Final = (
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.expected.audience",
)
_CLAIM_NAMES: Final = ("sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.scope.claim.name")
_RETRIEVERS: Final = tuple(f"{_PACKAGE}.{kind}JwtRetriever" for kind in ("Default", "ClientCredentials", "File"))
"""What sasl.oauthbearer.jwt.retriever.class may name: which of them it is, the address of the tokens says."""
_OTHER_ORIGINS: Final = ("sasl.oauthbearer.assertion.", "sasl.oauthbearer.jwt.retriever.class")
TOKEN_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
UNSECURED: Final = "kavka.oauthbearer.unsecured"
ALLOWED_URLS: Final = "kavka.oauthbearer.allowed.urls"


@dataclass(frozen=True, slots=True)
class KeyEndpoint:
    """Where an issuer's keys are. `trust_store`: whom to believe to be that host; not set: whom the machine trusts."""

    url: str
    trust_store: StoreSettings
    refresh_ms: int
    backoff_ms: int
    max_backoff_ms: int


@dataclass(frozen=True, slots=True)
class OAuthBearerSettings:
    """Which tokens a listener believes. `keys` is None where they need not be signed."""

    rules: TokenRules
    keys: KeyEndpoint | None


def oauthbearer_settings(
    config: BrokerConfig, endpoint: Endpoint, trust_store: Mapping[str, Secret] | None
) -> OAuthBearerSettings:
    """What holds for a listener; `trust_store` are options of its login. Raises ConfigError."""
    values = _Values(config, endpoint.listener)
    _check_classes(values, is_unsecured=config.kavka_oauthbearer_unsecured)
    if config.kavka_oauthbearer_unsecured:
        return _unsecured(values, endpoint)
    url, issuer, audiences = values.text(_OF_KEYS[0]), values.text(_OF_KEYS[1]), values.texts(_OF_KEYS[2])
    missing = [values.name(name) for name, found in zip(_OF_KEYS, (url, issuer, audiences), strict=True) if not found]
    if missing:
        raise ConfigError(
            f"listener {endpoint.listener} enables {MECHANISM}, and does not say which tokens it believes: set "
            f"{', '.join(missing)}"
        )
    return OAuthBearerSettings(
        values.rules(issuer, frozenset(audiences)), _keys(config, values, url, trust_store or {})
    )


def own_tokens(config: BrokerConfig, listener: str) -> dict[str, str]:
    """What a client's settings would be that log in on this listener as this broker does, but for those of TLS. Raises
    ConfigError where they name no origin of tokens that the others believe."""
    found = {"sasl.mechanism": MECHANISM}
    for name in (*OF_TOKEN_LOGIN, LOGIN_HANDLER_CLASS, _CLAIM_NAMES[0], "sasl.jaas.config"):
        text = text_of(config, listener, MECHANISM, name)
        if text is not None:
            found[name] = text
    for name in BrokerSettings.rows:
        text = text_of(config, listener, MECHANISM, name) if name.startswith(_OTHER_ORIGINS) else None
        if text is not None and text.strip() not in ("", *_RETRIEVERS):
            raise ConfigError(
                f"{name}: brokers get their tokens with an id and a secret, or from a file. Leave the setting out."
            )
    values, url = _Values(config, listener), found.get(TOKEN_ENDPOINT, "").strip()
    if not url and not config.kavka_oauthbearer_unsecured:
        raise ConfigError(
            f"brokers log in on each other with {MECHANISM} over listener {listener}, and "
            f"{values.name(TOKEN_ENDPOINT)} does not say where their tokens come from"
        )
    allowed = config.kavka_oauthbearer_allowed_urls
    if url and allowed and url not in allowed:
        raise InvalidValue(values.name(TOKEN_ENDPOINT), _without_login(url), f"{ALLOWED_URLS} does not name it")
    return found


class _Values:
    """The settings that hold for one listener."""

    def __init__(self, config: BrokerConfig, listener: str) -> None:
        self._config = config
        self.listener = listener

    def name(self, setting: str) -> str:
        """The name to set it by."""
        return f"listener.name.{self.listener.lower()}.{MECHANISM.lower()}.{setting}"

    def text(self, setting: str) -> str:
        text = text_of(self._config, self.listener, MECHANISM, setting)
        row = BrokerSettings.rows[setting]
        return str(row.default or "") if text is None else text.strip()

    def texts(self, setting: str) -> list[str]:
        return [part for part in map(str.strip, self.text(setting).split(",")) if part]

    def number(self, setting: str, lowest: int, highest: int | None = None) -> int:
        value = int(BrokerSettings.rows[setting].parse(self.text(setting)))
        if value < lowest or (highest is not None and value > highest):
            bounds = f"at least {lowest}" if highest is None else f"between {lowest} and {highest}"
            raise InvalidValue(self.name(setting), value, f"Value must be {bounds}")
        return value

    def rules(self, issuer: str, audiences: frozenset[str]) -> TokenRules:
        sub, scope = (self.text(setting) for setting in _CLAIM_NAMES)
        for setting, name in zip(_CLAIM_NAMES, (sub, scope), strict=True):
            if not name:
                raise InvalidValue(self.name(setting), "", "Value must name a claim")
        skew_s = self.number("sasl.oauthbearer.clock.skew.seconds", 0, MAX_SKEW_S)
        return TokenRules(issuer, audiences, skew_s, sub, scope)


def _check_classes(values: _Values, *, is_unsecured: bool) -> None:
    handler, validator = values.text(HANDLER_CLASS), values.text("sasl.oauthbearer.jwt.validator.class")
    if handler == UNSECURED_HANDLER and not is_unsecured:
        raise ConfigError(
            f"{values.name(HANDLER_CLASS)} believes tokens that nobody has signed: anybody could log in as anybody. "
            f"Name {HANDLERS[0]}, or set {UNSECURED}=true where only this machine reaches the listener."
        )
    if handler and handler not in ((UNSECURED_HANDLER,) if is_unsecured else HANDLERS):
        raise ConfigError(
            f"{values.name(HANDLER_CLASS)} names {handler}: this is a Java class, and kavka would not call it. Leave "
            f"it out, or name {UNSECURED_HANDLER if is_unsecured else HANDLERS[0]}, which is built in."
        )
    if validator not in VALIDATORS:
        raise ConfigError(
            f"{values.name('sasl.oauthbearer.jwt.validator.class')} names {validator}: this is a Java class, and kavka "
            f"would not call it. Leave it out, or name {VALIDATORS[0]}, which is built in."
        )


def _unsecured(values: _Values, endpoint: Endpoint) -> OAuthBearerSettings:
    if endpoint.host not in LOOPBACK:
        raise ConfigError(
            f"{UNSECURED}=true would let anybody who reaches {endpoint} be anybody: it is for listeners on "
            f"{LOOPBACK[0]} only"
        )
    for setting in _OF_KEYS:
        if values.texts(setting):
            raise ConfigError(f"{setting} would have no effect with {UNSECURED}=true: set one of them")
    return OAuthBearerSettings(values.rules("", frozenset()), None)


def _keys(config: BrokerConfig, values: _Values, url: str, trust_store: Mapping[str, Secret]) -> KeyEndpoint:
    name = values.name(_OF_KEYS[0])
    try:
        parts = urlsplit(url)
        is_usable = (
            bool(parts.hostname) and parts.port != 0
            if parts.scheme == "https"
            else parts.scheme == "file" and parts.netloc in ("", "localhost") and bool(parts.path)
        )
    except ValueError:
        is_usable = False
    if not is_usable or "@" in parts.netloc or any(ord(sign) <= 32 or ord(sign) >= 127 for sign in url):
        raise InvalidValue(
            name,
            _without_login(url),
            "Value must be https://HOST/PATH or file:///PATH. Keys that come over http could be anybody's",
        )
    allowed = config.kavka_oauthbearer_allowed_urls
    if allowed and url not in allowed:
        raise InvalidValue(name, url, f"{ALLOWED_URLS} does not name it")
    texts = {option.removeprefix("ssl.truststore."): secret.reveal() for option, secret in trust_store.items()}
    store = StoreSettings(
        "trust",
        texts.get("type", "JKS"),
        texts.get("location"),
        texts.get("password"),
        texts.get("certificates"),
    )
    if (refusal := store.refusal()) is not None:
        raise ConfigError(f"{values.name('sasl.jaas.config')}: {refusal}")
    return KeyEndpoint(
        url,
        store,
        values.number("sasl.oauthbearer.jwks.endpoint.refresh.ms", 1),
        values.number("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 1),
        values.number("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 1),
    )


def _without_login(url: str) -> str:
    """The address without what stands before @: it may be a password."""
    return url.rpartition("@")[2]
