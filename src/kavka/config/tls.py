"""TLS settings of one listener: what `ssl.*` says, with what `listener.name.L.ssl.*` says laid over it.

Decides which text counts for a listener, and which values are refused. Must not read files. Loaded only where a broker
has a listener with TLS, or a client chooses cipher suites.

I1  Nothing is silently weaker than what was asked for: what cannot be honoured is refused.

Source: Kafka's SslConfigs, DefaultSslEngineFactory, ChannelBuilders (KIP-103, KIP-684).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.config.broker_settings import BrokerSettings
from kavka.config.setting import InvalidValue
from kavka.security.key_stores import StoreSettings
from kavka.security.ssl_principal_rules import PrincipalRules

if TYPE_CHECKING:
    import ssl

    from kavka.config.broker import BrokerConfig
    from kavka.config.listeners import Endpoint

VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_CONTEXTS: Final = ("TLS", *VERSIONS)
"""What ssl.protocol may name: which versions are spoken is ssl.enabled.protocols' to say, here as in Java."""
NEWEST_SUITES: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
"""The suites of TLS 1.3. Python cannot choose among them."""


class HandshakeLimits(NamedTuple):
    """How many handshakes may be under way in one network thread, and how long one may take."""

    most: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS of one listener. `client_auth` is none, requested or required; `suites` are OpenSSL's names, None for its
    own choice; `versions` those that are spoken."""

    listener: str
    key_store: StoreSettings
    trust_store: StoreSettings
    client_auth: str
    versions: frozenset[str]
    suites: tuple[str, ...] | None
    checks_host: bool
    principal_rules: str
    allows_other_name: bool
    allows_fewer_alternative_names: bool
    names_clients: bool = True
    """Whether a certificate says who a client is; on SASL_SSL its login does."""
    refuses_open_key: bool = False
    """Whether a key file that everybody on the machine may read is refused; else there is a warning."""
    revoked: str | None = None
    """A file with lists of certificates that were revoked; None: nobody asks."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files that its certificates are in."""
        stores = [store.location for store in (self.key_store, self.trust_store) if store.text is None]
        return tuple(path for path in (*stores, self.revoked) if path)


def tls_settings(config: BrokerConfig, endpoint: Endpoint) -> TlsSettings:
    """What holds for a listener. Raises InvalidValue."""
    values = _Values(config, endpoint.listener)
    key_store = StoreSettings(
        "key",
        values.text("ssl.keystore.type") or "JKS",
        values.text("ssl.keystore.location"),
        values.text("ssl.keystore.password"),
        values.text("ssl.keystore.certificate.chain"),
        values.text("ssl.keystore.key"),
        values.text("ssl.key.password"),
    )
    trust_store = StoreSettings(
        "trust",
        values.text("ssl.truststore.type") or "JKS",
        values.text("ssl.truststore.location"),
        values.text("ssl.truststore.password"),
        values.text("ssl.truststore.certificates"),
    )
    for store, name in ((key_store, "ssl.keystore.location"), (trust_store, "ssl.truststore.location")):
        if store.is_set and store.kind.upper() not in ("PEM", "JKS", "PKCS12"):
            kind_name = values.name(name.replace("location", "type"))
            raise InvalidValue(kind_name, store.kind, "Value must be PEM, JKS or PKCS12")
        if (refusal := store.refusal()) is not None:
            raise InvalidValue(values.name(name), store.location, refusal)
    versions = _versions(values)
    suites = values.names("ssl.cipher.suites")
    return TlsSettings(
        endpoint.listener,
        key_store,
        trust_store,
        _client_auth(values, endpoint),
        *with_suites(versions, suites, values.name("ssl.cipher.suites")),
        _checks_host(values),
        _principal_rules(values),
        values.value("ssl.allow.dn.changes") is True,
        values.value("ssl.allow.san.changes") is True,
        endpoint.security_protocol == "SSL",
        config.kavka_strict_key_permissions,
        config.kavka_ssl_crl_location,
    )


def handshake_limits(config: BrokerConfig) -> HandshakeLimits:
    return HandshakeLimits(config.kavka_tls_max_handshakes, config.kavka_tls_handshake_timeout_ms)


class _Values:
    """The values that hold for one listener."""

    def __init__(self, config: BrokerConfig, listener: str) -> None:
        self._prefix = f"listener.name.{listener.lower()}."
        self._texts: tuple[Mapping[str, str], ...] = (config.dynamic, config.dynamic_default, config.static)

    def name(self, name: str) -> str:
        """The name by which `name` was set: the listener's own, or the one for all."""
        own = self._prefix + name
        return own if any(own in texts for texts in self._texts) else name

    def is_of_listener(self, name: str) -> bool:
        return self.name(name) != name

    def value(self, name: str) -> object:
        row, found = BrokerSettings.rows[name], self.name(name)
        for texts in self._texts:
            if found in texts:
                return row.parse(texts[found])
        return row.default

    def text(self, name: str) -> str | None:
        value = self.value(name)
        return None if value is None else str(value)

    def names(self, name: str) -> tuple[str, ...]:
        value = self.value(name)
        if isinstance(value, str):
            value = tuple(part.strip() for part in value.split(","))
        return tuple(part for part in value if part) if isinstance(value, tuple) else ()


def _client_auth(values: _Values, endpoint: Endpoint) -> str:
    """On SASL_SSL only the listener's own setting counts (KIP-684)."""
    if endpoint.security_protocol == "SASL_SSL" and not values.is_of_listener("ssl.client.auth"):
        return "none"
    return values.text("ssl.client.auth") or "none"


def _checks_host(values: _Values) -> bool:
    text = (values.text("ssl.endpoint.identification.algorithm") or "").lower()
    if text not in ("", "https"):
        raise InvalidValue(
            values.name("ssl.endpoint.identification.algorithm"), text, "Value must be https, or empty for no check"
        )
    return bool(text)


def _principal_rules(values: _Values) -> str:
    text = values.text("ssl.principal.mapping.rules") or "DEFAULT"
    try:
        PrincipalRules(text)
    except ValueError as error:
        raise InvalidValue(values.name("ssl.principal.mapping.rules"), text, str(error)) from error
    return text


def _versions(values: _Values) -> frozenset[str]:
    protocol = values.text("ssl.protocol")
    if protocol not in _CONTEXTS:
        raise InvalidValue(values.name("ssl.protocol"), protocol, f"Value must be one of {', '.join(_CONTEXTS)}")
    names = values.names("ssl.enabled.protocols") or VERSIONS
    return safe_versions(names, values.name("ssl.enabled.protocols"))


def safe_versions(names: Iterable[str], setting: str) -> frozenset[str]:
    """The versions that `setting` names. Raises InvalidValue for those that are not safe, and unknown ones."""
    named = tuple(names)
    others = [name for name in named if name not in VERSIONS]
    if others:
        raise InvalidValue(
            setting,
            ",".join(named),
            f"{', '.join(others)} is not served: versions before TLSv1.2 are not safe; name TLSv1.2, TLSv1.3 or both",
        )
    return frozenset(named)


def with_suites(
    versions: frozenset[str], suites: tuple[str, ...], setting: str
) -> tuple[frozenset[str], tuple[str, ...] | None]:
    """The versions that are left with the suites that `setting` chose, and OpenSSL's names of those of TLS 1.2."""
    if not suites:
        return versions, None
    newest = {suite for suite in suites if suite in NEWEST_SUITES}
    if newest and newest != NEWEST_SUITES and "TLSv1.3" in versions:
        raise InvalidValue(
            setting,
            ",".join(suites),
            "Python cannot choose among the suites of TLS 1.3: name all three of them "
            f"({', '.join(sorted(NEWEST_SUITES))}), or none, which leaves TLS 1.2",
        )
    older = tuple(openssl_name(suite) for suite in suites if suite not in NEWEST_SUITES)
    left = frozenset(version for version in versions if (newest if version == "TLSv1.3" else older))
    if not left:
        raise InvalidValue(
            setting, ",".join(suites), f"none of them is of {', '.join(sorted(versions))}, which is enabled"
        )
    return left, older or None


def choose_suites(context: ssl.SSLContext, suites: tuple[str, ...], setting: str) -> None:
    """Makes a context use these suites of TLS 1.2, by OpenSSL's names. Raises ValueError if OpenSSL lacks one.

    By itself OpenSSL passes over names that it does not know.
    """
    try:
        context.set_ciphers(":".join(suites))
    except OSError:  # ssl.SSLError: it knows none of them
        known: set[str] = set()
    else:
        known = {str(cipher["name"]) for cipher in context.get_ciphers()}
    unknown = [suite for suite in suites if suite not in known]
    if unknown:
        raise ValueError(f"{setting}: OpenSSL does not have {', '.join(unknown)}, or does not allow it")


def openssl_name(suite: str) -> str:
    """OpenSSL's name of a suite that has Java's: TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256.

    Whether there is such a suite OpenSSL says, when it is given the name.
    """
    exchange, separator, rest = suite.removeprefix("TLS_").removeprefix("SSL_").partition("_WITH_")
    if not separator:
        return suite
    parts = list(_joined(rest.split("_")))
    if "POLY1305" in parts:
        parts = [part for part in parts if part != "SHA256"]
    prefix = [] if exchange == "RSA" else exchange.split("_")
    return "-".join((*prefix, *parts))


def java_name(suite: str) -> str:
    """Java's name of a suite that has OpenSSL's; those of TLS 1.3 have one name."""
    if suite.startswith("TLS_"):
        return suite
    exchange, authentication, cipher, *rest = suite.split("-")
    if cipher.startswith("AES"):
        cipher = f"AES_{cipher.removeprefix('AES')}" + ("" if len(rest) > 1 else "_CBC")
    elif rest == ["POLY1305"]:
        rest = ["POLY1305", "SHA256"]
    return f"TLS_{exchange}_{authentication}_WITH_{'_'.join((cipher, *rest))}"


def _joined(parts: Iterable[str]) -> Iterable[str]:
    """AES 128 CBC SHA: AES128 SHA."""
    previous = ""
    for part in parts:
        if part in ("128", "256") and previous in ("AES", "CAMELLIA"):
            yield previous + part
        elif part not in ("AES", "CAMELLIA", "CBC"):
            yield part
        previous = part
