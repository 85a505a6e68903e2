"""SecurityDirectory: the authority, certificates and passwords of a cluster that `kavka up --secure` started.

Decides what is there already, what is missing, and when a certificate is renewed. Must not know command lines.

    authority.pem      the authority's key and certificate: whoever has it can make himself a broker of this cluster
    ca.pem             its certificate: whom clients are to believe
    broker-N.pem       a broker's key and certificate, for its host names; 397 days, renewed at two thirds of them
    console.pem        the console's key and certificate
    admin.password     the administrator's password, for SCRAM and the console
    admin.pem          the administrator's key and certificate, where clients show certificates
    admin.properties, admin.librdkafka.conf, admin.env        for clients of the administrator (client.login_files)
    admin.password.new there as long as ZooKeeper may not know the password

I1  Every file is written whole or not at all, with 0600, in a directory with 0700. A start that was killed between any
    two of them is finished by the next one: each is made of those before it in the list.
I2  What is there is used. What cannot be read is a refusal to start, never a reason to make it anew: clients trust it.
I3  A password is stored where there is none, or where it is new; one that was changed since then is left alone.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import string
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kavka.client.login_files import Credentials, env, java, librdkafka
from kavka.errors import KavkaError
from kavka.installation import install_command
from kavka.security.certificates import Certificate, read_certificate
from kavka.security.der import MalformedDer
from kavka.security.key_stores import KeyStoreError, StoreSettings, read_identity
from kavka.security.secret import Secret

if TYPE_CHECKING:
    from kavka.runtime.tls.certificate_authority import CertificateAuthority

ADMIN: Final = "admin"
MECHANISM: Final = "SCRAM-SHA-512"
BROKER_PRINCIPAL: Final = "User:CN=broker,OU=brokers,O=kavka"
CLIENT_RULES: Final = "RULE:^CN=([a-zA-Z0-9._@-]+),OU=clients,O=kavka$/$1/,DEFAULT"
"""What name a client's certificate stands for: alice, not the whole subject."""
ALWAYS: Final = ("localhost", "127.0.0.1", "::1")
"""Names that every broker's certificate has."""
PASSWORD_SIGNS: Final = string.ascii_letters + string.digits
PASSWORD_LENGTH: Final = 24
RENEWED_AT: Final = 2 / 3
"""Of a certificate's life."""
AUTHORITY, TRUSTED = "authority.pem", "ca.pem"
CONSOLE = "console.pem"
PASSWORD, PASSWORD_IS_NEW = "admin.password", "admin.password.new"


class NotSecurable(KavkaError):
    """The directory cannot be used, or made. `next_step` says what to do."""

    def __init__(self, problem: str, next_step: str) -> None:
        self.next_step = next_step
        super().__init__(problem)


class SecurityDirectory:
    """The files of one cluster. All methods block: call them before brokers start, or elsewhere than on a loop."""

    def __init__(self, path: str | Path, *, shows_certificates: bool = False) -> None:
        self.path = Path(path)
        self.shows_certificates = shows_certificates
        """Whether clients show certificates instead of logging in."""

    def file(self, name: str) -> str:
        return str(self.path / name)

    def broker_file(self, broker_id: int) -> str:
        return self.file(f"broker-{broker_id}.pem")

    # -- what is needed

    def prepare(self, broker_ids: Iterable[int], names: Iterable[str], now_ms: int) -> None:
        """Makes what is missing: authority, brokers' certificates, the administrator's password and certificate.

        Raises NotSecurable, OSError.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)
        if not (self.path / AUTHORITY).exists() and not (self.path / TRUSTED).exists():
            self._write(AUTHORITY, _signing().new(now_ms).dump())
        if (self.path / AUTHORITY).exists():
            self._write(TRUSTED, _certificate_of((self.path / AUTHORITY).read_text(encoding="utf-8"), AUTHORITY))
        if not (self.path / PASSWORD).exists():
            self._write(PASSWORD_IS_NEW, "")
            self._write(PASSWORD, new_password().reveal() + "\n")
        self.renew(broker_ids, names, now_ms)

    def renew(self, broker_ids: Iterable[int], names: Iterable[str], now_ms: int) -> list[str]:
        """Signs certificates anew that are missing, belong to another authority, lack a name, or have passed two thirds
        of their time. Returns the files. Raises NotSecurable, OSError."""
        trusted = self._certificate(TRUSTED)
        assert trusted is not None
        wanted = {*ALWAYS, *names}
        renewed = []
        for broker_id in broker_ids:
            name = Path(self.broker_file(broker_id)).name
            if self._is_due(name, trusted, wanted, now_ms):
                self._write(name, self._authority().sign_broker(wanted, now_ms).both)
                renewed.append(name)
        if self._is_due(CONSOLE, trusted, wanted, now_ms):
            self._write(CONSOLE, self._authority().sign_server("console", wanted, now_ms).both)
            renewed.append(CONSOLE)
        if self.shows_certificates and self._is_due("admin.pem", trusted, set(), now_ms):
            self._write("admin.pem", self._authority().sign_client(ADMIN, now_ms).both)
            renewed.append("admin.pem")
        return renewed

    def sign_client(self, user: str, now_ms: int) -> str:
        """Key and certificate of a user, as PEM. Raises NotSecurable."""
        return self._authority().sign_client(user, now_ms).both

    @property
    def authorities(self) -> str:
        """Whom clients are to believe, as PEM."""
        return (self.path / TRUSTED).read_text(encoding="utf-8")

    @property
    def password(self) -> Secret:
        """The administrator's."""
        return Secret((self.path / PASSWORD).read_text(encoding="utf-8").strip())

    @property
    def password_is_new(self) -> bool:
        """Whether ZooKeeper may not know it yet."""
        return (self.path / PASSWORD_IS_NEW).exists()

    def on_password_stored(self) -> None:
        """ZooKeeper knows the password."""
        (self.path / PASSWORD_IS_NEW).unlink(missing_ok=True)

    def write_client_files(self, bootstrap: str) -> Credentials:
        """Writes what clients of the administrator take, for brokers at these addresses."""
        login = self.admin(bootstrap)
        authorities = self.file(TRUSTED)
        identity = self.file("admin.pem") if self.shows_certificates else None
        self._write("admin.properties", java(login))
        self._write("admin.librdkafka.conf", librdkafka(login, authorities=authorities, identity=identity))
        self._write("admin.env", env(login, authorities=authorities, identity=identity))
        return login

    def admin(self, bootstrap: str) -> Credentials:
        """The administrator's login."""
        if not self.shows_certificates:
            return Credentials(
                bootstrap=bootstrap,
                user=ADMIN,
                mechanism=MECHANISM,
                password=self.password,
                authorities=self.authorities,
            )
        return credentials_of(bootstrap, ADMIN, (self.path / "admin.pem").read_text(encoding="utf-8"), self.authorities)

    # -- files

    def _authority(self) -> CertificateAuthority:
        made = _signing()
        path = self.path / AUTHORITY
        try:
            return made.load(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise NotSecurable(
                f"{path} is not there, and a certificate has to be signed with it", "put the file back for this start"
            ) from None
        except ValueError as error:
            raise NotSecurable(f"{path} cannot be used: {error}", "restore the file") from error

    def _is_due(self, name: str, trusted: Certificate, names: set[str], now_ms: int) -> bool:
        found = self._certificate(name)
        if found is None or found.issuer != trusted.subject:
            return True
        lasts_ms = found.not_after_ms - found.not_before_ms
        if now_ms >= found.not_before_ms + lasts_ms * RENEWED_AT:
            return True
        return not {_as_read(name) for name in names} <= {each.lower() for each in found.alternative_names}

    def _certificate(self, name: str) -> Certificate | None:
        """The certificate in a file; None where there is no file. Raises NotSecurable."""
        path = self.path / name
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            if name == TRUSTED:
                from kavka.security.key_stores import read_authorities

                return read_certificate(read_authorities(data, StoreSettings("trust", "PEM"))[0])
            return read_certificate(read_identity(data, StoreSettings("key", "PEM")).chain[0])
        except (KeyStoreError, MalformedDer) as error:
            raise NotSecurable(f"{path} cannot be used: {error}", "restore the file, or remove it") from error

    def _write(self, name: str, text: str) -> None:
        """I1. A file that has this text already is left alone: its time tells brokers that certificates changed."""
        write_private(self.path / name, text)


def new_password() -> Secret:
    """One that nobody has to type."""
    return Secret("".join(secrets.choice(PASSWORD_SIGNS) for _ in range(PASSWORD_LENGTH)))


def write_private(path: Path, text: str) -> None:
    """Writes a file for its owner alone, whole or not at all; leaves one with this text alone. Raises OSError."""
    try:
        if path.read_text(encoding="utf-8") == text:
            path.chmod(0o600)
            return
    except FileNotFoundError:
        pass
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    new.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def credentials_of(bootstrap: str, user: str, pem: str, authorities: str) -> Credentials:
    """The login of a user whose key and certificate are in one PEM text."""
    at = pem.index("-----BEGIN CERTIFICATE-----")
    return Credentials(bootstrap=bootstrap, user=user, authorities=authorities, certificate=pem[at:], key=pem[:at])


def _certificate_of(text: str, name: str) -> str:
    """The certificate of a PEM text with a key. Raises NotSecurable."""
    at = text.find("-----BEGIN CERTIFICATE-----")
    if at < 0:
        raise NotSecurable(f"{name} has no certificate", "restore the file")
    return text[at:]


def _as_read(name: str) -> str:
    """A host as certificates name it (security.certificates)."""
    try:
        return f"ip:{ipaddress.ip_address(name).packed.hex()}"
    except ValueError:
        return f"dns:{name.lower()}"


def _signing() -> type[CertificateAuthority]:
    """Raises NotSecurable where the package that makes certificates is not installed."""
    try:
        from kavka.runtime.tls.certificate_authority import CertificateAuthority
    except ModuleNotFoundError as missing:
        raise NotSecurable(
            f"certificates are made with the package {(missing.name or 'cryptography').partition('.')[0]}, which is "
            "not installed",
            install_command("security"),
        ) from missing
    return CertificateAuthority
