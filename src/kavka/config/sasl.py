"""SASL of a broker's listeners: which mechanisms each has, who may log in, and how the broker itself does elsewhere.

Decides which of several settings counts (for a mechanism of a listener, for a listener, for all), and which are refused
before a broker starts. Must not know connections, nor what is in ZooKeeper.

    listener.name.<listener>.<mechanism>.<setting>   >   listener.name.<listener>.<setting>   >   <setting>

    I1  a listener serves only mechanisms that are named for it and that kavka has
    I2  no message contains a password

Source: Kafka's SaslConfigs, BrokerSecurityConfigs, JaasContext.loadServerContext, ChannelBuilders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kavka.config.broker_settings import BrokerSettings
from kavka.config.listeners import SASL_PROTOCOLS, Endpoint
from kavka.errors import ConfigError
from kavka.security.gssapi import MECHANISM as GSSAPI
from kavka.security.jaas import Login, MalformedJaas, parse
from kavka.security.oauthbearer import MECHANISM as OAUTHBEARER
from kavka.security.plain import MECHANISM as PLAIN
from kavka.security.scram_credentials import MECHANISMS as SCRAM_MECHANISMS
from kavka.security.secret import Secret

if TYPE_CHECKING:
    from kavka.config.broker import BrokerConfig
    from kavka.config.kerberos import KerberosSettings
    from kavka.config.oauthbearer import OAuthBearerSettings

MECHANISMS: Final = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER, GSSAPI)
"""What kavka has."""
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
HANDLER_CLASS: Final = "sasl.server.callback.handler.class"
LOGIN_HANDLER_CLASS: Final = "sasl.login.callback.handler.class"
_JAVA_CLASSES: Final = (
    HANDLER_CLASS,
    "sasl.client.callback.handler.class",
    "sasl.login.class",
    LOGIN_HANDLER_CLASS,
)


@dataclass(frozen=True, slots=True)
class OwnLogin:
    """How the broker logs in elsewhere. `username`: who it is there; None where a token or a ticket says that.
    `tokens`: with OAUTHBEARER, a client's settings of where they come from, by Kafka's names. `kerberos`: with GSSAPI,
    the keytab and principal of the listener, with which it also gets tickets."""

    mechanism: str
    username: str | None
    password: Secret = field(default_factory=lambda: Secret(""))
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    kerberos: KerberosSettings | None = None


@dataclass(frozen=True, slots=True)
class SaslListener:
    """One listener's SASL. `users` may log in with PLAIN. `max_session_ms`: how long a session lasts, by mechanism; 0
    for ever. `tokens`: which are believed, with OAUTHBEARER. `kerberos`: whose tickets are, with GSSAPI."""

    listener: str
    mechanisms: tuple[str, ...]
    users: Mapping[str, Secret]
    max_session_ms: Mapping[str, int]
    tokens: OAuthBearerSettings | None = None
    kerberos: KerberosSettings | None = None


def sasl_listeners(config: BrokerConfig) -> dict[str, SaslListener]:
    """The listeners that authenticate by SASL, by name. Raises ConfigError."""
    for listener in {config.inter_broker_listener, config.control_plane_listener or config.inter_broker_listener}:
        if config.security_protocols.get(listener) in SASL_PROTOCOLS:
            own_login(config, listener)
    return {
        endpoint.listener: _listener(config, endpoint)
        for endpoint in config.listener_endpoints
        if endpoint.security_protocol in SASL_PROTOCOLS
    }


def open_secrets(config: BrokerConfig) -> list[tuple[str, str]]:
    """The listeners that take passwords (PLAIN) or tokens (OAUTHBEARER) without TLS where others than this machine
    reach them, each with the mechanism."""
    listeners = sasl_listeners(config)
    return [
        (str(endpoint), mechanism)
        for endpoint in config.listener_endpoints
        if endpoint.security_protocol == "SASL_PLAINTEXT" and endpoint.host not in LOOPBACK
        for mechanism in listeners[endpoint.listener].mechanisms
        if mechanism in (PLAIN, OAUTHBEARER)
    ]


def own_login(config: BrokerConfig, listener: str) -> OwnLogin:
    """How this broker logs in on the others' listener of that name, which authenticates by SASL. Raises ConfigError."""
    name = "sasl.mechanism.inter.broker.protocol"
    mechanism = text_of(config, listener, None, name) or config.sasl_mechanism_inter_broker_protocol
    enabled = _mechanisms(config, listener)
    if mechanism not in enabled:
        raise ConfigError(
            f"{name} is {mechanism}, but listener {listener}, over which the brokers talk to each other, enables "
            f"{', '.join(enabled)}: set it to one of these"
        )
    if mechanism == OAUTHBEARER:
        from kavka.config.oauthbearer import own_tokens  # late: few brokers have them

        return OwnLogin(mechanism, None, tokens=own_tokens(config, listener))
    if mechanism == GSSAPI:
        kerberos = _kerberos(config, listener, _login(config, listener, mechanism))
        return OwnLogin(mechanism, None, kerberos=kerberos)
    return _own_password(config, listener, mechanism)


def _own_password(config: BrokerConfig, listener: str, mechanism: str) -> OwnLogin:
    """Raises ConfigError."""
    login = _login(config, listener, mechanism)
    if login is None or not login.username or not login.password:
        raise ConfigError(
            f"{_jaas_name(listener, mechanism)} has no username and password, with which this broker logs in on the "
            "other brokers"
        )
    if login.is_by_token:
        raise ConfigError(
            f"{_jaas_name(listener, mechanism)} has tokenauth: brokers do not log in on each other with delegation "
            "tokens, which end. Write a user and its password."
        )
    return OwnLogin(mechanism, login.username, login.password)


def _listener(config: BrokerConfig, endpoint: Endpoint) -> SaslListener:
    listener = endpoint.listener
    mechanisms = _mechanisms(config, listener)
    users: Mapping[str, Secret] = {}
    tokens = kerberos = None
    words = (HANDLER_CLASS, LOGIN_HANDLER_CLASS) if logs_in_with_tokens(config, listener) else (HANDLER_CLASS,)
    for name in _JAVA_CLASSES:
        for mechanism in (None, *mechanisms):
            if mechanism == OAUTHBEARER and name in words:
                continue  # Kafka's own are words that say which tokens are believed, and where they come from.
            if text_of(config, listener, mechanism, name):
                raise ConfigError(
                    f"{name}: this is a Java class, and kavka would not call it on listener {listener}. Leave it out; "
                    "PLAIN takes its users from the listener's JAAS text, SCRAM takes them from ZooKeeper."
                )
    for mechanism in mechanisms:
        login = _login(config, listener, mechanism)
        if mechanism == PLAIN:
            if login is None:
                raise ConfigError(
                    f"listener {listener} enables PLAIN, but {_jaas_name(listener, PLAIN)} is not set, which names "
                    "those who may log in"
                )
            users = login.users
        if mechanism == OAUTHBEARER:
            from kavka.config.oauthbearer import oauthbearer_settings  # late: few listeners have it

            tokens = oauthbearer_settings(config, endpoint, None if login is None else login.trust_store)
        if mechanism == GSSAPI:
            kerberos = _kerberos(config, listener, login)
    return SaslListener(
        listener,
        mechanisms,
        users,
        {mechanism: _max_session_ms(config, listener, mechanism) for mechanism in mechanisms},
        tokens,
        kerberos,
    )


def _kerberos(config: BrokerConfig, listener: str, login: Login | None) -> KerberosSettings:
    from kavka.config.kerberos import kerberos_settings  # late: few listeners have it

    return kerberos_settings(
        listener,
        login,
        _jaas_name(listener, GSSAPI),
        lambda name: text_of(config, listener, GSSAPI, name),
        config.sasl_kerberos_principal_to_local_rules,
    )


def _mechanisms(config: BrokerConfig, listener: str) -> tuple[str, ...]:
    name = "sasl.enabled.mechanisms"
    text = text_of(config, listener, None, name)
    named = tuple(part.strip() for part in text.split(",")) if text is not None else config.sasl_enabled_mechanisms
    mechanisms = tuple(dict.fromkeys(part for part in named if part))
    others = [mechanism for mechanism in mechanisms if mechanism not in MECHANISMS]
    if others or not mechanisms:
        what = f"{', '.join(others)}, which kavka does not have" if others else "none"
        raise ConfigError(
            f"listener {listener} authenticates by SASL, and {name} names {what}. Set {name}, or "
            f"listener.name.{listener.lower()}.{name}, to some of {', '.join(MECHANISMS)}."
        )
    return mechanisms


def _max_session_ms(config: BrokerConfig, listener: str, mechanism: str) -> int:
    name = "connections.max.reauth.ms"
    text = text_of(config, listener, mechanism, name)
    value = config.connections_max_reauth_ms if text is None else int(BrokerSettings.rows[name].parse(text))
    return max(value, 0)


def _login(config: BrokerConfig, listener: str, mechanism: str) -> Login | None:
    name = _jaas_name(listener, mechanism)
    text = config.static.get(name)
    if text is None:
        return None
    try:
        # Tokens of the broker's own: one text says whom to believe, and where they come from.
        login = parse(text, is_clients=mechanism == OAUTHBEARER and logs_in_with_tokens(config, listener))
    except MalformedJaas as malformed:
        raise ConfigError(f"{name}: {malformed}") from malformed
    if login.module != ("SCRAM" if mechanism in SCRAM_MECHANISMS else mechanism):
        raise ConfigError(f"{name} has the login module of {login.module}, which is not for {mechanism}")
    return login


def logs_in_with_tokens(config: BrokerConfig, listener: str) -> bool:
    """Whether brokers log in on each other over this listener, with tokens."""
    if listener not in (config.inter_broker_listener, config.control_plane_listener):
        return False
    named = text_of(config, listener, None, "sasl.mechanism.inter.broker.protocol")
    return (named or config.sasl_mechanism_inter_broker_protocol) == OAUTHBEARER


def _jaas_name(listener: str, mechanism: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"


def text_of(config: BrokerConfig, listener: str, mechanism: str | None, name: str) -> str | None:
    """The text that counts, but for the plain setting's default."""
    own = f"listener.name.{listener.lower()}."
    of_mechanism = () if mechanism is None else (f"{own}{mechanism.lower()}.{name}",)
    for candidate in (*of_mechanism, f"{own}{name}", name):
        if candidate in config.static:
            return config.static[candidate]
    return None
