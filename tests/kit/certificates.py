"""Certificates for tests: an authority of one's own, and what it signs.

Decides nothing about TLS; it must not know brokers or clients. Keys are P-256, which are made at once.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


class Signed(NamedTuple):
    """A certificate and its key, as PEM texts."""

    certificate: str
    key: str

    @property
    def both(self) -> str:
        return self.key + self.certificate

    def write(self, path: Path) -> Path:
        """Key and certificate in one file, as a PEM key store has them."""
        path.write_text(self.both)
        path.chmod(0o600)
        return path


class Authority:
    """Signs certificates. `certificate` is its own, as PEM."""

    def __init__(self, name: str = "test authority", *, days: int = 30) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name([("CN", name)])
        made = _builder(self._name, self._name, self._key.public_key(), days=days)
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.certificate = _pem(made.sign(self._key, hashes.SHA256()))

    def sign(
        self,
        subject: str | Sequence[tuple[str, str]],
        *,
        names: Sequence[str] = ("localhost", "127.0.0.1"),
        days: int = 30,
        rsa_bits: int = 0,
    ) -> Signed:
        """A certificate for `subject`, a common name or pairs such as ("CN", "alice"), and host names or addresses.

        With negative days it has expired. `rsa_bits`: it has a key of RSA of that size, and not one of P-256.
        """
        key = rsa.generate_private_key(65537, rsa_bits) if rsa_bits else ec.generate_private_key(ec.SECP256R1())
        pairs = [("CN", subject)] if isinstance(subject, str) else list(subject)
        made = _builder(_name(pairs), self._name, key.public_key(), days=days)
        if names:
            made = made.add_extension(x509.SubjectAlternativeName([_host(name) for name in names]), critical=False)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Signed(_pem(made.sign(self._key, hashes.SHA256())), private.decode())

    def revoke(self, *revoked: Signed, days: int = 30) -> str:
        """The list of those that are revoked, as PEM."""
        now = datetime.datetime.now(datetime.UTC)
        made = x509.CertificateRevocationListBuilder().issuer_name(self._name)
        made = made.last_update(now - 2 * abs(days) * DAY).next_update(now + days * DAY)
        for each in revoked:
            number = x509.load_pem_x509_certificate(each.certificate.encode()).serial_number
            entry = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(now - DAY)
            made = made.add_revoked_certificate(entry.build())
        return made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


_OIDS = {"CN": NameOID.COMMON_NAME, "OU": NameOID.ORGANIZATIONAL_UNIT_NAME, "O": NameOID.ORGANIZATION_NAME}


def _name(pairs: Sequence[tuple[str, str]]) -> x509.Name:
    return x509.Name([x509.NameAttribute(_OIDS[kind], value) for kind, value in pairs])


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey, *, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    ends = now + days * DAY
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, ends) - DAY)
        .not_valid_after(ends)
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
