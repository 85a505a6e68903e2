"""Security towards ZooKeeper: TLS by `zookeeper.ssl.*` (KIP-515), a login, and whether znodes may have lists of access.

Decides which values are refused. Must not know files or OpenSSL. Loaded only where a broker has such settings.

I1  Nothing is silently weaker than what was asked for: what cannot be honoured is refused.

Source: Kafka's ZkConfigs and KafkaConfig; ZooKeeper's X509Util, ClientX509Util, KeyStoreFileType, SaslServerPrincipal.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.config.setting import InvalidValue
from kavka.config.tls import VERSIONS, safe_versions, with_suites
from kavka.security.jaas import ZOOKEEPER_LOGIN_MODULES, MalformedJaas, parse
from kavka.security.kerberos_login import KerberosLogin, kerberos_login
from kavka.security.key_stores import StoreSettings
from kavka.security.secret import Secret

if TYPE_CHECKING:
    from kavka.config.broker import BrokerConfig

_JAAS: Final = "kavka.zookeeper.sasl.jaas.config"
NETTY: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
_PLAIN: Final = "org.apache.zookeeper.ClientCnxnSocketNIO"
_SERVICE: Final = "zookeeper"
"""The first part of the servers' principals, unless the option serviceName says otherwise. In Java it is a property of
the virtual machine, zookeeper.sasl.client.username."""
_KINDS: Final = {".jks": "JKS", ".pem": "PEM", ".p12": "PKCS12"}
"""ZooKeeper guesses the kind of a store from the end of its name."""


class Password(NamedTuple):
    """A login with DIGEST-MD5."""

    username: str
    password: Secret


@dataclass(frozen=True, slots=True)
class ZooKeeperTlsSettings:
    """TLS of connections to ZooKeeper. `suites` are OpenSSL's names, None for its own choice."""

    key_store: StoreSettings
    trust_store: StoreSettings
    versions: frozenset[str]
    suites: tuple[str, ...] | None
    checks_host: bool
    refuses_open_key: bool = False
    """Whether a key file that everybody on the machine may read is refused; else there is a warning."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files that certificates are in."""
        return tuple(store.location for store in (self.key_store, self.trust_store) if store.location)


def check(config: BrokerConfig) -> None:
    """Raises InvalidValue."""
    _check_socket(config)
    tls = zookeeper_tls(config)
    login = zookeeper_login(config)
    if not config.zookeeper_set_acl:
        return
    if not config.zookeeper_connect:
        raise InvalidValue(
            "zookeeper.set.acl",
            "true",
            "without zookeeper.connect the broker has a ZooKeeper of its own, which does not ask it who it is: lists "
            "could name nobody",
        )
    if login is None and (tls is None or not tls.key_store.is_set):
        raise InvalidValue(
            "zookeeper.set.acl",
            "true",
            "the broker could not tell ZooKeeper who it is: set zookeeper.ssl.client.enable and "
            "zookeeper.ssl.keystore.location, or kavka.zookeeper.sasl.jaas.config",
        )


def zookeeper_login(config: BrokerConfig) -> Password | KerberosLogin | None:
    """How the broker logs in; None where it does not. Raises InvalidValue."""
    text = config.kavka_zookeeper_sasl_jaas_config
    if text is None:
        return None
    try:
        login = parse(text, ZOOKEEPER_LOGIN_MODULES)
        if login.module == "GSSAPI":
            named = "serviceName" in login.options
            return replace(
                kerberos_login(login.options, None if named else _SERVICE), named_by=f"option serviceName of {_JAAS}"
            )
        if not login.username or not login.password or login.users:
            raise MalformedJaas("it must have a username and a password, and no users")
        if not (login.username + login.password.reveal()).isascii():
            raise MalformedJaas("DIGEST-MD5 takes a username and a password in ASCII")
        require_md5()
    except MalformedJaas as error:
        raise InvalidValue(_JAAS, "[hidden]", str(error)) from error
    return Password(login.username, login.password)


def require_md5() -> None:
    """Raises MalformedJaas on a machine that has no MD5, as FIPS wants it."""
    try:
        hashlib.md5(b"")
    except ValueError as error:
        raise MalformedJaas("this machine's OpenSSL refuses MD5, and with it DIGEST-MD5") from error


def zookeeper_tls(config: BrokerConfig) -> ZooKeeperTlsSettings | None:
    """What holds; None where connections to ZooKeeper do not use TLS. Raises InvalidValue."""
    if not config.zookeeper_ssl_client_enable:
        return None
    key_store = _store(
        "key",
        config.zookeeper_ssl_keystore_location,
        config.zookeeper_ssl_keystore_type,
        config.zookeeper_ssl_keystore_password,
    )
    trust_store = _store(
        "trust",
        config.zookeeper_ssl_truststore_location,
        config.zookeeper_ssl_truststore_type,
        config.zookeeper_ssl_truststore_password,
    )
    suites = tuple(config.zookeeper_ssl_cipher_suites or ())
    return ZooKeeperTlsSettings(
        key_store,
        trust_store,
        *with_suites(_versions(config), suites, "zookeeper.ssl.cipher.suites"),
        _checks_host(config),
        config.kavka_strict_key_permissions,
    )


def _check_socket(config: BrokerConfig) -> None:
    """Two of Java's classes stand for what kavka does anyway."""
    name = config.zookeeper_client_cnxn_socket
    if name not in (None, NETTY, _PLAIN):
        raise InvalidValue(
            "zookeeper.clientCnxnSocket",
            name,
            f"It names a Java class, which would not be called; leave it, or {NETTY}",
        )
    if name == _PLAIN and config.zookeeper_ssl_client_enable:
        raise InvalidValue(
            "zookeeper.clientCnxnSocket",
            name,
            f"ZooKeeper's client has TLS with {NETTY} only, and zookeeper.ssl.client.enable asks for TLS",
        )


def _store(what: str, location: str | None, kind: str | None, password: str | None) -> StoreSettings:
    """A store; its settings are named as `what` says. In a PEM file the password is that of the key."""
    if location is None:
        if password is not None:
            raise InvalidValue(
                f"zookeeper.ssl.{what}store.password", "[hidden]", f"zookeeper.ssl.{what}store.location is not set"
            )
        return StoreSettings(what)
    if kind is None:
        kind = next((found for ending, found in _KINDS.items() if location.endswith(ending)), None)
        if kind is None:
            raise InvalidValue(
                f"zookeeper.ssl.{what}store.location",
                location,
                f"its kind cannot be told from its name ({', '.join(_KINDS)}); set zookeeper.ssl.{what}store.type",
            )
    if kind.upper() not in _KINDS.values():
        raise InvalidValue(f"zookeeper.ssl.{what}store.type", kind, "Value must be PEM, JKS or PKCS12")
    if kind.upper() == "PEM":
        return StoreSettings(what, "PEM", location, key_password=password)
    return StoreSettings(what, kind.upper(), location, password)


def _versions(config: BrokerConfig) -> frozenset[str]:
    """Those enabled, else the one of zookeeper.ssl.protocol: as in ZooKeeper, TLSv1.2 alone by default."""
    protocol = config.zookeeper_ssl_protocol
    enabled = tuple(config.zookeeper_ssl_enabled_protocols or ())
    if enabled:
        if protocol not in ("TLS", *VERSIONS):
            raise InvalidValue("zookeeper.ssl.protocol", protocol, f"Value must be one of TLS, {', '.join(VERSIONS)}")
        return safe_versions(enabled, "zookeeper.ssl.enabled.protocols")
    return safe_versions((protocol,), "zookeeper.ssl.protocol")


def _checks_host(config: BrokerConfig) -> bool:
    text = config.zookeeper_ssl_endpoint_identification_algorithm or ""
    if text.lower() not in ("", "https"):
        raise InvalidValue(
            "zookeeper.ssl.endpoint.identification.algorithm", text, "Value must be https, or empty for no check"
        )
    return bool(text)
