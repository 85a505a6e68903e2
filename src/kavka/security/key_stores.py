"""Key stores and trust stores: the certificates and keys of PEM, JKS and PKCS12 files, as one kind of value.

Decides what a store holds and which combinations of settings are refused, in Kafka's words. Must not know files,
sockets or OpenSSL: bytes come in. PKCS12 needs the package cryptography (extra `security`), which is imported when such
a store is read.

I1  A password or key shows in no repr, no message and no log line.
I2  A store that is wrong, cut off, or opened with a wrong password is refused with a KeyStoreError, and nothing else.
I3  A JKS store is believed only where its digest fits, if there is a password to check it with.

Source: Kafka's DefaultSslEngineFactory (KIP-651); Java's sun.security.provider.JavaKeyStore and KeyProtector.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from kavka.security import der

_JKS_MAGIC: Final = 0xFEEDFEED
_JKS_DIGEST_SALT: Final = b"Mighty Aphrodite"
_JKS_PROTECTION: Final = "1.3.6.1.4.1.42.2.17.1.1"
_KEY_ENTRY, _TRUSTED_ENTRY = 1, 2
MAX_ENTRIES: Final = 10_000
_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_u32 = Struct(">I")
_u16 = Struct(">H")


class KeyStoreError(ValueError):
    """A store that cannot be used, with the reason."""


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """What the settings say of one store. `text` is PEM in the setting itself; `key_text` likewise, of a key store.

    `what` is "key" or "trust", for messages.
    """

    what: str
    kind: str = "JKS"
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    text: str | None = field(default=None, repr=False)
    key_text: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)

    def refusal(self) -> str | None:
        """Why Kafka refuses this combination; None if it does not."""
        pem = self.kind.upper() == "PEM"
        if self.what == "key":
            return self._key_refusal(pem)
        if self.text is not None:
            if not pem:
                return f"SSL trust store certs can be specified only for PEM, but trust store type is {self.kind}."
            if self.location is not None:
                return "Both SSL trust store location and separate trust certificates are specified."
        if pem and self.password is not None:
            return "SSL trust store password cannot be specified for PEM format."
        if self.location is None and self.text is None and self.password is not None:
            return "SSL trust store is not specified, but trust store password is specified."
        return None

    def _key_refusal(self, pem: bool) -> str | None:
        if self.key_text is not None:
            if not pem:
                return f"SSL private key can be specified only for PEM, but key store type is {self.kind}."
            if self.text is None:
                return "SSL private key is specified, but certificate chain is not specified."
            if self.location is not None:
                return "Both SSL key store location and separate private key are specified."
        elif self.text is not None:
            return "SSL certificate chain is specified, but private key is not specified"
        if pem and self.password is not None:
            return "SSL key store password cannot be specified with PEM format, only key password may be specified"
        if self.location is None and self.password is not None:
            return "SSL key store is not specified, but key store password is specified."
        if not pem and self.location is not None and self.password is None:
            return "SSL key store is specified, but key store password is not specified."
        return None

    @property
    def is_set(self) -> bool:
        return self.location is not None or self.text is not None


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a broker is: its certificate first, then those of its issuers, in DER; its key as PEM, perhaps encrypted."""

    chain: tuple[bytes, ...]
    key_pem: bytes = field(repr=False)
    key_password: str | None = field(default=None, repr=False)

    def chain_pem(self) -> bytes:
        return b"".join(map(to_pem, self.chain))


def to_pem(certificate: bytes, label: str = "CERTIFICATE") -> bytes:
    """DER as PEM."""
    return f"-----BEGIN {label}-----\n".encode() + base64.encodebytes(certificate) + f"-----END {label}-----\n".encode()


def read_identity(data: bytes, settings: StoreSettings) -> Identity:
    """The broker's certificate and key, of a key store's bytes. Raises KeyStoreError."""
    if settings.kind.upper() == "PEM":
        return _identity_of_pem(data, settings)
    password = settings.password or ""
    key_password = settings.key_password or password
    if _is_jks(data):
        keys, _ = _read_jks(data, settings.password, key_password)
        if not keys:
            raise KeyStoreError("the key store has no private key")
        chain, key = keys[0]
        if not chain:
            raise KeyStoreError("the key store has a private key without a certificate")
        return Identity(chain, to_pem(key, "PRIVATE KEY"))
    return _identity_of_pkcs12(data, password)


def read_authorities(data: bytes, settings: StoreSettings) -> tuple[bytes, ...]:
    """The trusted certificates, in DER, of a trust store's bytes. Raises KeyStoreError."""
    if settings.kind.upper() == "PEM":
        found = _certificates(data)
    elif _is_jks(data):
        keys, found = _read_jks(data, settings.password, None)
        found += [chain[0] for chain, _ in keys if chain]
    else:
        found = _authorities_of_pkcs12(data, settings.password)
    if not found:
        raise KeyStoreError("the trust store has no certificates")
    return tuple(found)


# -- PEM


def _certificates(data: bytes) -> list[bytes]:
    found = []
    for label, body in _BLOCK.findall(data):
        if label in (b"CERTIFICATE", b"X509 CERTIFICATE", b"TRUSTED CERTIFICATE"):
            try:
                found.append(base64.b64decode(b"".join(body.split()), validate=True))
            except binascii.Error as error:
                raise KeyStoreError("a certificate that is no base64") from error
    return found


def _identity_of_pem(data: bytes, settings: StoreSettings) -> Identity:
    chain = _certificates(data)
    if not chain:
        raise KeyStoreError("no certificate in PEM: expected -----BEGIN CERTIFICATE-----")
    keys = data if settings.key_text is None else settings.key_text.encode()
    for match in _BLOCK.finditer(keys):
        if match[1].endswith(b"PRIVATE KEY"):
            return Identity(tuple(chain), match[0] + b"\n", settings.key_password)
    raise KeyStoreError(
        "no private key in PEM: expected -----BEGIN PRIVATE KEY----- or -----BEGIN ENCRYPTED PRIVATE KEY-----"
    )


# -- PKCS12


def _identity_of_pkcs12(data: bytes, password: str) -> Identity:
    key, certificate, others = _open_pkcs12(data, password)
    if key is None or certificate is None:
        raise KeyStoreError("the key store has no private key with a certificate")
    return Identity((certificate, *_issuers(certificate, others)), key)


def _authorities_of_pkcs12(data: bytes, password: str | None) -> list[bytes]:
    _, certificate, others = _open_pkcs12(data, password)
    return [one for one in (certificate, *others) if one is not None]


def _open_pkcs12(data: bytes, password: str | None) -> tuple[bytes | None, bytes | None, list[bytes]]:
    """Key (PEM), its certificate, other certificates (DER)."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as missing:
        from kavka.installation import install_command

        raise KeyStoreError(
            f"a PKCS12 store needs the package cryptography: {install_command('security')}, or use PEM"
        ) from missing
    try:
        found = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except Exception as error:  # whatever the bytes are: the library names several kinds
        raise KeyStoreError("neither a JKS nor a PKCS12 store, or the password is wrong") from error
    encoding = serialization.Encoding.DER
    key = None
    if found.key is not None:
        key = found.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    certificate = None if found.cert is None else found.cert.certificate.public_bytes(encoding)
    return key, certificate, [one.certificate.public_bytes(encoding) for one in found.additional_certs]


def _issuers(certificate: bytes, others: list[bytes]) -> list[bytes]:
    """Of `others` the chain of the certificate's issuers, the nearest first: a store keeps them in no order."""
    from kavka.security.certificates import read_certificate

    chain: list[bytes] = []
    try:
        by_subject = {read_certificate(other).subject: other for other in others}
        issuer = read_certificate(certificate).issuer
        while issuer in by_subject:
            found = by_subject.pop(issuer)
            chain.append(found)
            issuer = read_certificate(found).issuer
    except der.MalformedDer as error:
        raise KeyStoreError(f"a certificate that cannot be read: {error}") from error
    return chain


# -- JKS


def _is_jks(data: bytes) -> bool:
    return len(data) >= 4 and _u32.unpack_from(data)[0] == _JKS_MAGIC


def _read_jks(
    data: bytes, password: str | None, key_password: str | None
) -> tuple[list[tuple[tuple[bytes, ...], bytes]], list[bytes]]:
    """The keys with their chains, and the trusted certificates. Without `key_password` keys stay encrypted."""
    if password is not None:
        digest = hashlib.sha1(_java_password(password) + _JKS_DIGEST_SALT + data[:-20]).digest()
        if not hmac.compare_digest(digest, data[-20:]):
            raise KeyStoreError("the key store was changed, or its password is wrong")
    reader = _Reader(data[:-20], 4)
    version, count = reader.number(), reader.number()
    if version not in (1, 2) or count > MAX_ENTRIES:
        raise KeyStoreError(f"a JKS store of version {version} with {count} entries")
    keys: list[tuple[tuple[bytes, ...], bytes]] = []
    trusted: list[bytes] = []
    for _ in range(count):
        kind = reader.number()
        reader.text()  # the alias
        reader.take(8)  # when it was made
        if kind == _KEY_ENTRY:
            protected = reader.take(reader.number())
            length = reader.number()
            if length > MAX_ENTRIES:
                raise KeyStoreError(f"a chain of {length} certificates")
            chain = tuple(reader.certificate(version) for _ in range(length))
            keys.append((chain, protected if key_password is None else _unprotected(protected, key_password)))
        elif kind == _TRUSTED_ENTRY:
            trusted.append(reader.certificate(version))
        else:
            raise KeyStoreError(f"an entry of kind {kind} in a JKS store")
    return keys, trusted


class _Reader:
    """Reads Java's DataInput."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position

    def take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise KeyStoreError("the key store is cut off")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def number(self) -> int:
        return int(_u32.unpack(self.take(4))[0])

    def text(self) -> bytes:
        return self.take(_u16.unpack(self.take(2))[0])

    def certificate(self, version: int) -> bytes:
        if version == 2 and (kind := self.text()) != b"X.509":
            raise KeyStoreError(f"a certificate of type {kind!r}, expected X.509")
        return self.take(self.number())


def _java_password(password: str) -> bytes:
    return password.encode("utf-16-be")


def _unprotected(protected: bytes, password: str) -> bytes:
    """The PKCS8 key of an entry: XOR with a stream of SHA-1 digests, salt in front, a check behind."""
    try:
        algorithm, content = der.read_whole(protected).list(der.SEQUENCE)
        name = der.object_identifier(algorithm.list(der.SEQUENCE)[0].content)
    except (der.MalformedDer, ValueError, IndexError) as error:
        raise KeyStoreError("a key entry that cannot be read") from error
    if name != _JKS_PROTECTION or content.tag != der.OCTET_STRING or len(content.content) < 40:
        raise KeyStoreError(f"a key that is protected by {name}, expected JKS's own way")
    salt, cipher, check = content.content[:20], content.content[20:-20], content.content[-20:]
    secret = _java_password(password)
    stream, digest = bytearray(), salt
    while len(stream) < len(cipher):
        digest = hashlib.sha1(secret + digest).digest()
        stream += digest
    plain = bytes(left ^ right for left, right in zip(cipher, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + plain).digest(), check):
        raise KeyStoreError("the password of the key is wrong")
    return plain


def load(settings: StoreSettings, read_file: Callable[[str], bytes]) -> bytes:
    """The bytes of a store: of the setting itself, or of its file. Raises KeyStoreError."""
    if settings.text is not None:
        return settings.text.encode()
    assert settings.location is not None
    try:
        return read_file(settings.location)
    except OSError as error:
        raise KeyStoreError(
            f"Failed to load SSL keystore {settings.location} of type {settings.kind}: {error}"
        ) from error
