"""How a client gets into a cluster: the login and the TLS that Kafka's client settings ask for.

Decides what `security.protocol`, `sasl.*` and `ssl.*` mean to kavka's own client, and refuses what it would not honour.
Must not know command lines. Names are Kafka's (Java), and librdkafka's where those say the same by another name.

    I1  a setting about security that is not known here is refused: nothing is silently weaker than it was asked for
    I2  no message contains a password or a key

Source: Kafka's CommonClientConfigs, SaslConfigs, SslConfigs; KIP-651; librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kavka.client.gssapi_login import SETTINGS as TICKET_SETTINGS
from kavka.client.gssapi_login import ticket_settings
from kavka.client.oauthbearer_login import SETTINGS as TOKEN_SETTINGS
from kavka.client.oauthbearer_login import token_settings
from kavka.client.security import SaslMechanism, SaslSettings, TlsSettings
from kavka.errors import ConfigError
from kavka.security.jaas import Login, MalformedJaas, parse
from kavka.security.key_stores import KeyStoreError, StoreSettings, load, read_authorities, read_identity, to_pem

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SETTINGS: Final = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.jaas.config",
        "sasl.username",
        "sasl.password",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.key.password",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.protocol",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
    }
    | TOKEN_SETTINGS
    | TICKET_SETTINGS
)
_TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_ABOUT_SECURITY: Final = ("security.", "sasl.", "ssl.", "enable.ssl.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLogin:
    """How a cluster is reached. `bootstrap` is what the settings name; None without TLS or login means none of it."""

    bootstrap: str | None = None
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None


def client_login(settings: Mapping[str, str], *, read: Callable[[str], bytes]) -> ClientLogin:
    """What the settings of a client say. `read` gives a file's bytes. Raises ConfigError, OSError."""
    for name in settings:
        if name.startswith(_ABOUT_SECURITY) and name not in SETTINGS:
            raise ConfigError(f"kavka's client has no setting {name}; it has {', '.join(sorted(SETTINGS))}")
    protocol = settings.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise ConfigError(f"security.protocol is {protocol!r}, expected one of {', '.join(PROTOCOLS)}")
    return ClientLogin(
        bootstrap=settings.get("bootstrap.servers") or settings.get("metadata.broker.list"),
        tls=_tls(settings, read) if protocol.endswith("SSL") else None,
        sasl=sasl_settings(settings, read) if protocol.startswith("SASL_") else None,
    )


def sasl_settings(settings: Mapping[str, str], read: Callable[[str], bytes]) -> SaslSettings:
    """The login that `sasl.*` ask for. Raises ConfigError, OSError."""
    named = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or "GSSAPI"
    try:
        mechanism = SaslMechanism(named.strip().upper())
    except ValueError:
        known = ", ".join(each.value for each in SaslMechanism)
        raise ConfigError(f"sasl.mechanism is {named!r}; kavka's client has {known}") from None
    if mechanism is SaslMechanism.OAUTHBEARER:
        return token_settings(settings, _jaas(settings, mechanism), read)
    if mechanism is SaslMechanism.GSSAPI:
        return ticket_settings(settings, _jaas(settings, mechanism))
    username, password = settings.get("sasl.username", ""), settings.get("sasl.password", "")
    is_by_token = False
    login = _jaas(settings, mechanism)
    if login is not None:
        username = login.username or ""
        password = "" if login.password is None else login.password.reveal()
        is_by_token = login.is_by_token
    return SaslSettings(mechanism=mechanism, username=username, password=password, is_by_token=is_by_token)


def _jaas(settings: Mapping[str, str], mechanism: SaslMechanism) -> Login | None:
    text = settings.get("sasl.jaas.config")
    if text is None:
        return None
    try:
        login = parse(text, is_clients=True)
    except MalformedJaas as malformed:
        raise ConfigError(f"sasl.jaas.config: {malformed}") from malformed
    if login.module != ("SCRAM" if mechanism.value.startswith("SCRAM") else mechanism.value):
        raise ConfigError(f"sasl.jaas.config has the login module of {login.module}, not for {mechanism.value}")
    return login


def _tls(settings: Mapping[str, str], read: Callable[[str], bytes]) -> TlsSettings:
    checked = settings.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if checked not in ("https", "", "none"):
        raise ConfigError(
            f"ssl.endpoint.identification.algorithm is {checked!r}, expected https, or empty for no check"
        )
    try:
        authorities = _authorities(settings, read)
        certificate, key, password = _identity(settings, read)
    except KeyStoreError as error:
        raise ConfigError(f"TLS: {error}") from error
    return TlsSettings(
        authorities=authorities,
        certificate=certificate,
        key=key,
        key_password=password,
        check_hostname=checked == "https",
        cipher_suites=_listed(settings, "ssl.cipher.suites"),
        versions=_versions(settings),
    )


def _listed(settings: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, settings.get(name, "").split(","))))


def _versions(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Versions that are safe. ssl.protocol names what Java makes its connections with, and changes nothing here."""
    protocol = settings.get("ssl.protocol", "TLS").strip()
    if protocol not in ("TLS", *_TLS_VERSIONS):
        raise ConfigError(f"ssl.protocol is {protocol!r}, expected one of TLS, {', '.join(_TLS_VERSIONS)}")
    named = _listed(settings, "ssl.enabled.protocols") or _TLS_VERSIONS
    others = [version for version in named if version not in _TLS_VERSIONS]
    if others:
        raise ConfigError(
            f"ssl.enabled.protocols names {', '.join(others)}: kavka's client has {' and '.join(_TLS_VERSIONS)}"
        )
    return named


def _authorities(settings: Mapping[str, str], read: Callable[[str], bytes]) -> str | None:
    store = StoreSettings(
        "trust",
        settings.get("ssl.truststore.type", "JKS"),
        settings.get("ssl.truststore.location"),
        settings.get("ssl.truststore.password"),
        settings.get("ssl.truststore.certificates"),
    )
    if not store.is_set and "ssl.ca.location" in settings:
        store = StoreSettings("trust", "PEM", settings["ssl.ca.location"])
    if (refusal := store.refusal()) is not None:
        raise ConfigError(f"ssl.truststore: {refusal}")
    if not store.is_set:
        return None
    return b"".join(map(to_pem, read_authorities(load(store, read), store))).decode()


def _identity(settings: Mapping[str, str], read: Callable[[str], bytes]) -> tuple[str | None, str | None, str | None]:
    """The client's chain, its key and the key's password."""
    password = settings.get("ssl.key.password")
    if "ssl.certificate.location" in settings:
        certificate = settings["ssl.certificate.location"]
        key = settings.get("ssl.key.location", certificate)
        store = StoreSettings(
            "key",
            "PEM",
            text=read(certificate).decode(errors="replace"),
            key_text=read(key).decode(errors="replace"),
            key_password=password,
        )
    else:
        store = StoreSettings(
            "key",
            settings.get("ssl.keystore.type", "JKS"),
            settings.get("ssl.keystore.location"),
            settings.get("ssl.keystore.password"),
            settings.get("ssl.keystore.certificate.chain"),
            settings.get("ssl.keystore.key"),
            password,
        )
    if (refusal := store.refusal()) is not None:
        raise ConfigError(f"ssl.keystore: {refusal}")
    if not store.is_set:
        return None, None, None
    identity = read_identity(load(store, read), store)
    return identity.chain_pem().decode(), identity.key_pem.decode(), identity.key_password
