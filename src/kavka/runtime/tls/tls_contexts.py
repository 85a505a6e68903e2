"""TLS contexts: certificates of a listener, or towards ZooKeeper, read from where settings say, as OpenSSL takes them.

Decides how Kafka's settings become OpenSSL's, and whether certificates fit together. It must not know connections.

I1  A certificate, key or store that cannot be used is a ConfigError with the listener's name, and without passwords.
I2  A key is never written to a disk: OpenSSL reads chains from files only, and gets one in memory.
I3  A file is read only if it is one, and not a large one: the broker's loop must not wait for it.
I4  Where clients show certificates, sessions are not resumed with tickets: these would outlive what they stand for.

Source: Kafka's DefaultSslEngineFactory and SslFactory (SslEngineValidator).
"""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kavka.config.tls import choose_suites
from kavka.errors import ConfigError
from kavka.logger import Logger
from kavka.runtime.tls.tls_channel import TlsSession
from kavka.security.certificates import Certificate, read_certificate
from kavka.security.key_stores import (
    Identity,
    KeyStoreError,
    StoreSettings,
    load,
    read_authorities,
    read_identity,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kavka.config.tls import TlsSettings
    from kavka.config.zookeeper import ZooKeeperTlsSettings

logger = Logger(__name__)

_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
LONGEST_HANDSHAKE_STEPS = 10
MAX_STORE_BYTES = 16 * 1024 * 1024


class TlsContexts(NamedTuple):
    """`server` for clients that come in, `client` for brokers that this one calls, and the listener's certificate.
    `trial` is as `client` without a check of the host: for handshakes in memory."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    trial: ssl.SSLContext
    certificate: Certificate


def tls_contexts(settings: TlsSettings, *, warn: Callable[[str], None] | None = None) -> TlsContexts:
    """Reads a listener's stores. Raises ConfigError."""
    try:
        if settings.refuses_open_key:
            warn = refuse_open_key
        identity = read_identity(load(settings.key_store, _read(warn)), settings.key_store)
        trusted = settings.trust_store
        authorities = read_authorities(load(trusted, _read(None)), trusted) if trusted.is_set else None
        certificate = read_certificate(identity.chain[0])
        made = TlsContexts(
            _server(settings, identity, authorities),
            _client(settings, identity, authorities, checks_host=settings.checks_host),
            _client(settings, identity, authorities, checks_host=False),
            certificate,
        )
        if settings.revoked is not None:
            lists = _read(None)(settings.revoked)
            for context in (made.server, made.client, made.trial):
                _refuse_revoked(context, lists, settings.revoked)
        return made
    except (ValueError, OSError) as error:  # of OpenSSL's, too: both kinds
        raise ConfigError(f"TLS of listener {settings.listener}: {_words(error)}") from error


def zookeeper_context(settings: ZooKeeperTlsSettings) -> ssl.SSLContext:
    """How ZooKeeper's servers are called. Raises ConfigError."""
    keys, trusted = settings.key_store, settings.trust_store
    try:
        warn = refuse_open_key if settings.refuses_open_key else warn_of_open_key
        identity = read_identity(load(keys, _read(warn)), keys) if keys.is_set else None
        authorities = read_authorities(load(trusted, _read(None)), trusted) if trusted.is_set else None
        context = _context(ssl.PROTOCOL_TLS_CLIENT, settings.versions, settings.suites, identity)
        _verify(context, authorities, checks_host=settings.checks_host)
        return context
    except (ValueError, OSError) as error:  # of OpenSSL's, too: both kinds
        words = _words(error).replace("ssl.key.password", "zookeeper.ssl.keystore.password")
        raise ConfigError(f"TLS to ZooKeeper: {words}") from error


def web_context(trusted: StoreSettings) -> ssl.SSLContext:
    """How a host is called of which an address is all that is known. Raises ConfigError."""
    try:
        authorities = read_authorities(load(trusted, _read(None)), trusted) if trusted.is_set else None
        context = _context(ssl.PROTOCOL_TLS_CLIENT, frozenset(_VERSIONS), None, None)
        _verify(context, authorities, checks_host=True)
        return context
    except (KeyStoreError, ssl.SSLError, OSError) as error:
        raise ConfigError(f"TLS: {_words(error)}") from error


FileState = tuple[int, int, int]


def file_states(paths: Iterable[str]) -> tuple[FileState | None, ...]:
    """How files are: what changes when one is written or replaced."""
    return tuple(_state(path) for path in paths)


def _state(path: str) -> FileState | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def require_handshake(server: TlsContexts, client: TlsContexts) -> None:
    """Shakes hands in memory, as brokers would. Raises ConfigError where they could not."""
    one, other = TlsSession(server.server, server_side=True), TlsSession(client.trial, server_side=False)
    to_one = to_other = b""
    try:
        for _ in range(LONGEST_HANDSHAKE_STEPS):
            _, to_one = other.step(to_other)
            is_over, to_other = one.step(to_one)
            if is_over:
                return
    except ssl.SSLError as error:
        raise ConfigError(
            f"brokers could not connect to each other with these certificates: {_words(error)}; each must be signed by "
            "an authority in ssl.truststore.location"
        ) from error
    raise ConfigError("brokers could not connect to each other with these certificates")


def _server(settings: TlsSettings, identity: Identity, authorities: tuple[bytes, ...] | None) -> ssl.SSLContext:
    context = _context(ssl.PROTOCOL_TLS_SERVER, settings.versions, settings.suites, identity)
    context.verify_mode = _AUTH[settings.client_auth]
    context.num_tickets = 1  # As Java has it. OpenSSL's two are for clients that open several connections at once.
    if context.verify_mode is not ssl.CERT_NONE:
        _trust(context, authorities)
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    return context


def _client(
    settings: TlsSettings, identity: Identity, authorities: tuple[bytes, ...] | None, *, checks_host: bool
) -> ssl.SSLContext:
    context = _context(ssl.PROTOCOL_TLS_CLIENT, settings.versions, settings.suites, identity)
    _verify(context, authorities, checks_host=checks_host)
    return context


def _verify(context: ssl.SSLContext, authorities: tuple[bytes, ...] | None, *, checks_host: bool) -> None:
    context.check_hostname = checks_host
    context.verify_mode = ssl.CERT_REQUIRED
    _trust(context, authorities)


def _context(
    protocol: int, versions: frozenset[str], suites: tuple[str, ...] | None, identity: Identity | None
) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    named = [_VERSIONS[name] for name in versions]
    context.minimum_version, context.maximum_version = min(named), max(named)
    if suites is not None:
        choose_suites(context, suites, "ssl.cipher.suites")
    if identity is not None:
        load_chain(context, identity)
    return context


def _trust(context: ssl.SSLContext, authorities: tuple[bytes, ...] | None) -> None:
    """As in Java a certificate in the trust store is trusted whoever signed it. Without a store the machine's are."""
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if authorities is None:
        context.set_default_verify_paths()
    else:
        context.load_verify_locations(cadata=b"".join(authorities))


def _refuse_revoked(context: ssl.SSLContext, lists: bytes, path: str) -> None:
    """Who shows a certificate is looked for in the lists; where its authority has none, it is refused, too."""
    count = lists.count(b"-----BEGIN X509 CRL-----")
    descriptor = os.memfd_create("kavka-crl", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(lists)
        before = context.cert_store_stats()["crl"]
        if count:
            context.load_verify_locations(cafile=f"/proc/self/fd/{descriptor}")
        if not count or context.cert_store_stats()["crl"] != before + count:
            raise KeyStoreError(f"kavka.ssl.crl.location: {path} has no list of revoked certificates that can be read")
    except ssl.SSLError as error:
        raise KeyStoreError(f"kavka.ssl.crl.location: {path} cannot be read: {error.reason or error}") from error
    finally:
        os.close(descriptor)
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def load_chain(context: ssl.SSLContext, identity: Identity) -> None:
    """Gives OpenSSL a chain and its key through a file in memory. Raises ssl.SSLError."""
    descriptor = os.memfd_create("kavka-chain", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(identity.key_pem + b"\n" + identity.chain_pem())
        # Without a password an encrypted key must not make OpenSSL ask the terminal.
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=identity.key_password or "")
    finally:
        os.close(descriptor)


def _read(warn: Callable[[str], None] | None) -> Callable[[str], bytes]:
    def read(path: str) -> bytes:
        with open(path, "rb", opener=_open_at_once) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise KeyStoreError(f"{path} is not a regular file")
            if found.st_size > MAX_STORE_BYTES:
                raise KeyStoreError(f"{path} is larger than {MAX_STORE_BYTES} bytes")
            if warn is not None and stat.S_IMODE(found.st_mode) & stat.S_IROTH:
                warn(path)
            return file.read(MAX_STORE_BYTES)

    return read


def _open_at_once(path: str, flags: int) -> int:
    """A pipe is opened without somebody at its other end."""
    return os.open(path, flags | os.O_NONBLOCK)


def warn_of_open_key(path: str) -> None:
    """A key that everybody on the machine can read."""
    logger.warning("key store readable by everybody on this machine", file=str(Path(path)), next=f"chmod o-r {path}")


def refuse_open_key(path: str) -> None:
    """The same, where it may not be. Raises KeyStoreError."""
    raise KeyStoreError(
        f"everybody on this machine can read {path}, and kavka.strict.key.permissions=true: chmod o-r {path}"
    )


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        if "PEM lib" in reason:
            return "the key or its chain cannot be read: ssl.key.password is missing or wrong, or the store is damaged"
        return _REASONS.get(reason, reason.lower().replace("_", " "))
    return str(error)


_REASONS = {
    "KEY_VALUES_MISMATCH": "the key does not belong to the certificate",
    "BAD_DECRYPT": "the key cannot be decrypted: ssl.key.password is missing or wrong",
    "BAD_PASSWORD_READ": "the key is encrypted, and ssl.key.password is not set",
}
