"""How a client authenticates itself and checks the broker: settings for SASL and TLS.

Decides what is a valid combination, and builds the `ssl.SSLContext`. It must not know connections: the exchange of SASL
messages is `sasl`, sockets under TLS are `runtime.tls_network`.

Invariants
  I1  A password shows in no `repr`, no message and no log line.
  I2  A certificate is always checked against authorities that the caller named or the machine trusts, and against the
      broker's host name unless that was switched off by name.

Source: Kafka's `security.protocol`, `sasl.*` and `ssl.*` client settings; KIP-651 (PEM files and values).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from kavka.errors import ConfigError

if TYPE_CHECKING:
    import ssl

    from kavka.client.oauthbearer_tokens import AccessTokens
    from kavka.security.kerberos_tickets import Tickets


class SaslMechanism(Enum):
    """SASL mechanisms. The value is the name on the wire."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"
    GSSAPI = "GSSAPI"


PASSWORD_MECHANISMS: Final = (SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512)
"""Those with a user name and a password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """The client's SASL login."""

    mechanism: SaslMechanism
    username: str
    """With OAUTHBEARER: the client's id, for messages; it may be empty. With GSSAPI: the principal, the same way."""
    password: str = field(default="", repr=False)
    is_by_token: bool = False
    """With SCRAM: user name and password are the id and the HMAC of a delegation token."""

    tokens: AccessTokens | None = None
    """With OAUTHBEARER: where tokens come from."""
    tickets: Tickets | None = None
    """With GSSAPI: whose tickets are shown."""

    def __post_init__(self) -> None:
        if self.mechanism is SaslMechanism.GSSAPI:
            if self.tickets is None:
                raise ConfigError("GSSAPI needs to know whose tickets are shown")
            return
        if self.mechanism is SaslMechanism.OAUTHBEARER:
            if self.tokens is None:
                raise ConfigError("OAUTHBEARER needs to know where its tokens come from")
            return
        if not self.username or not self.password:
            raise ConfigError(f"{self.mechanism.value} needs a user name and a password")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """TLS to the brokers. Certificates and keys are PEM: the path of a file, or the text itself."""

    authorities: str | None = None
    """The trusted authorities. None means those that the machine trusts."""
    certificate: str | None = None
    """The client's own certificate chain, for brokers that ask for one."""
    key: str | None = field(default=None, repr=False)
    """Its private key. None means that it is in the same PEM as the certificate."""
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    cipher_suites: tuple[str, ...] = ()
    """The suites that may be used, by Java's or OpenSSL's names. Empty means those of the TLS library."""
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    """The versions that may be used, by Java's names."""

    def context(self) -> ssl.SSLContext:
        """The context for connections. Raises `ConfigError` if a PEM is invalid or missing, or a suite unknown."""
        try:
            context = self._believing()
            context.check_hostname = self.check_hostname
            _choose_versions(context, self.versions)
            if self.cipher_suites:
                _choose_suites(context, self.cipher_suites, self.versions)
            if self.certificate is not None:
                self._load_chain(context, self.certificate)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"TLS: cannot use the certificates: {error}; expected PEM (authorities "
                f"{_shown(self.authorities)}, certificate {_shown(self.certificate)})"
            ) from error
        return context

    def _believing(self) -> ssl.SSLContext:
        """Where authorities are named these alone count: without an argument the machine's would be loaded besides."""
        import ssl  # Costs 10 ms, and most clients need none.

        if self.authorities is None:
            return ssl.create_default_context()
        if _is_pem(self.authorities):
            return ssl.create_default_context(cadata=self.authorities)
        return ssl.create_default_context(cafile=self.authorities)

    def _load_chain(self, context: ssl.SSLContext, certificate: str) -> None:
        """OpenSSL reads a chain from files only: what was given as text is in one in memory for as long as that takes.
        Without a password an encrypted key must not make it ask the terminal."""
        with ExitStack() as files:
            paths = [
                path if path is None or not _is_pem(path) else _file(path, files) for path in (certificate, self.key)
            ]
            assert paths[0] is not None
            context.load_cert_chain(paths[0], paths[1], self.key_password or "")


def _file(text: str, files: ExitStack) -> str:
    """The path of a file in memory with this text; it is gone with `files`."""
    descriptor = os.memfd_create("kavka-pem", os.MFD_CLOEXEC)
    files.callback(os.close, descriptor)
    with open(descriptor, "w", encoding="utf-8", closefd=False) as file:
        file.write(text)
    return f"/proc/self/fd/{descriptor}"


def _is_pem(text: str) -> bool:
    return "-----BEGIN " in text


def _choose_versions(context: ssl.SSLContext, versions: Iterable[str]) -> None:
    import ssl

    named = sorted(ssl.TLSVersion[version.replace(".", "_")] for version in versions)
    context.minimum_version, context.maximum_version = named[0], named[-1]


def _choose_suites(context: ssl.SSLContext, suites: tuple[str, ...], enabled: tuple[str, ...]) -> None:
    """Raises `ConfigError` where one is unknown, or not to be had."""
    from kavka.config.tls import choose_suites, with_suites

    setting = "ssl.cipher.suites"
    versions, older = with_suites(frozenset(enabled), suites, setting)
    if older is not None:
        try:
            choose_suites(context, older, setting)
        except ValueError as unknown:
            raise ConfigError(str(unknown)) from unknown
    _choose_versions(context, versions)


def _shown(text: str | None) -> str:
    if text is None:
        return "none"
    return "given as text" if _is_pem(text) else repr(text)
