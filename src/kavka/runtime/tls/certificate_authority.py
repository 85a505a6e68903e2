"""CertificateAuthority: an authority of one's own, and the certificates that it signs.

Decides what stands in them: P-256 keys; ten years for the authority, 397 days for what it signs. Must not know where
they are kept. Needs the package cryptography (extra `security`); reading certificates does not
(kavka.security.certificates).

Source: RFC 5280; the CA/Browser Forum's bound on lifetimes.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS: Final = 3650
SIGNED_DAYS: Final = 397
SLOW_CLOCKS: Final = timedelta(hours=1)
"""Certificates begin earlier than they are made: other machines' clocks are late."""


@dataclass(frozen=True, slots=True)
class Signed:
    """A certificate and its key, as PEM texts."""

    certificate: str
    key: str = field(repr=False)

    @property
    def both(self) -> str:
        return self.key + self.certificate


class CertificateAuthority:
    """`certificate` is its own, as a PEM text. Made with `new`, or `load`ed from what `dump` gave."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @property
    def certificate(self) -> str:
        return self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    @classmethod
    def new(cls, now_ms: int) -> CertificateAuthority:
        key = ec.generate_private_key(ec.SECP256R1())
        # The name differs from that of an authority before: a certificate of that one is then known for what it is.
        name = _name("authority", f"kavka {secrets.token_hex(4)}")
        builder = _builder(name, name, key.public_key(), now_ms, AUTHORITY_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        return cls(key, builder.sign(key, hashes.SHA256()))

    @classmethod
    def load(cls, text: str) -> CertificateAuthority:
        """Raises ValueError for a text that is no key and its certificate."""
        key = serialization.load_pem_private_key(text.encode(), None)
        certificate = x509.load_pem_x509_certificate(text.encode())
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise ValueError("the key does not belong to the certificate")
        return cls(key, certificate)

    def dump(self) -> str:
        """Key and certificate, as PEM."""
        return _pem(self._key) + self.certificate

    def sign_broker(self, names: Iterable[str], now_ms: int) -> Signed:
        """A broker's certificate for host names and addresses, as server and as client of other brokers."""
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._sign(_name("brokers", "broker"), now_ms, both, sorted(set(names)))

    def sign_server(self, service: str, names: Iterable[str], now_ms: int) -> Signed:
        """The certificate of a server that is no broker, for host names and addresses; brokers do not take it as a
        client's."""
        return self._sign(_name("services", service), now_ms, [ExtendedKeyUsageOID.SERVER_AUTH], sorted(set(names)))

    def sign_client(self, user: str, now_ms: int) -> Signed:
        """A client's certificate."""
        return self._sign(_name("clients", user), now_ms, [ExtendedKeyUsageOID.CLIENT_AUTH], [])

    def _sign(self, subject: x509.Name, now_ms: int, usages: list[x509.ObjectIdentifier], names: list[str]) -> Signed:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = self._certificate
        builder = _builder(subject, issuer.subject, key.public_key(), now_ms, SIGNED_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(authority, critical=False)
        if names:
            hosts = x509.SubjectAlternativeName([_host(name) for name in names])
            builder = builder.add_extension(hosts, critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        return Signed(signed.public_bytes(serialization.Encoding.PEM).decode(), _pem(key))


def _name(unit: str, name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "kavka"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now_ms: int, days: int
) -> x509.CertificateBuilder:
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SLOW_CLOCKS)
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
