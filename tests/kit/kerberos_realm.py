"""KerberosRealm: a real KDC (MIT's, of Debian) on the loopback, as a process of a test, with files of its own.

It must not know Kafka. Nothing of the machine's Kerberos is read or written: krb5.conf, the KDC's profile, its
database, keytabs, ticket caches and replay caches lie in the directory that a test names.

I1  The KDC is ended by the pid that was started here.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Final

from tests.kit.ports import free_port

HOST: Final = "localhost"
_SBIN: Final = "/usr/sbin:/sbin:/usr/bin:/bin"
PROGRAMS: Final = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")


def missing() -> str:
    """What a realm needs and is not here; empty: nothing."""
    programs = [name for name in PROGRAMS if shutil.which(name, path=_SBIN) is None]
    packages = [] if find_spec("gssapi") else ["the package gssapi"]
    return ", ".join(programs + packages)


class KerberosRealm:
    """A realm. `environment` is for whatever should belong to it. `skew_s`: by how much clocks may differ."""

    def __init__(self, directory: Path, realm: str = "KAVKA.TEST", *, skew_s: int = 300) -> None:
        self.directory = directory
        self.realm = realm
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._kdc: subprocess.Popen[bytes] | None = None
        self.config = directory / "krb5.conf"
        self.config.write_text(
            f"[libdefaults]\n default_realm = {realm}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            f" dns_canonicalize_hostname = false\n rdns = false\n clockskew = {skew_s}\n udp_preference_limit = 1\n"
            f"[realms]\n {realm} = {{\n  kdc = 127.0.0.1:{self.port}\n }}\n[domain_realm]\n {HOST} = {realm}\n"
        )
        (directory / "kdc.conf").write_text(
            f'[kdcdefaults]\n kdc_listen = ""\n kdc_tcp_listen = 127.0.0.1:{self.port}\n[realms]\n {realm} = {{\n'
            f"  database_name = {directory}/principal\n  key_stash_file = {directory}/stash\n  max_life = 10h\n"
            f"  acl_file = {directory}/acl\n  supported_enctypes = aes256-cts:normal\n }}\n"
            f"[logging]\n kdc = FILE:{directory}/kdc.log\n"
        )

    @property
    def environment(self) -> dict[str, str]:
        return {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self.directory}/tickets",
            "KRB5RCACHEDIR": str(self.directory),
        }

    def __enter__(self) -> KerberosRealm:
        self._run("kdb5_util", "create", "-s", "-r", self.realm, "-P", "master")
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the KDC, and waits until it answers."""
        self._kdc = subprocess.Popen(
            [str(shutil.which("krb5kdc", path=_SBIN)), "-n"],
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 60
        while True:
            assert self._kdc.poll() is None, f"the KDC ended: {(self.directory / 'kdc.log').read_text()}"
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, "the KDC does not answer"
                time.sleep(0.02)

    def stop(self) -> None:
        """Ends the KDC."""
        if self._kdc is not None:
            self._kdc.terminate()
            self._kdc.wait(30)
            self._kdc = None

    def add(self, *principals: str) -> None:
        """New principals with random keys."""
        self._admin(*(f"addprinc -randkey {each}" for each in principals))

    def change_key(self, principal: str) -> None:
        self._admin(f"cpw -randkey {principal}")

    def keytab(self, *principals: str, name: str = "") -> Path:
        """The keys of principals in a file of their own."""
        path = self.directory / f"{name or principals[0].replace('/', '-')}.keytab"
        path.unlink(missing_ok=True)
        self._admin(f"ktadd -norandkey -k {path} {' '.join(principals)}")
        return path

    def tickets(self, principal: str, keytab: Path, *, life: str = "1h") -> Path:
        """A ticket cache with a ticket of the principal's."""
        path = self.directory / f"{principal.replace('/', '-')}.tickets"
        self._run("kinit", "-l", life, "-c", f"FILE:{path}", "-k", "-t", str(keytab), principal)
        return path

    @contextmanager
    def around(self) -> Iterator[None]:
        """This process belongs to the realm, as long as it lasts."""
        before = {name: os.environ.get(name) for name in self.environment}
        os.environ.update(self.environment)
        try:
            yield
        finally:
            for name, text in before.items():
                if text is None:
                    del os.environ[name]
                else:
                    os.environ[name] = text

    def _admin(self, *queries: str) -> None:
        for query in queries:
            said = self._run("kadmin.local", "-r", self.realm, "-q", query)
            assert "created" in said or "added to keytab" in said or "randomized" in said, said

    def _run(self, program: str, *arguments: str) -> str:
        ended = subprocess.run(
            [str(shutil.which(program, path=_SBIN)), *arguments],
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert ended.returncode == 0, f"{program} {arguments}: {ended.stdout}{ended.stderr}"
        return ended.stdout + ended.stderr
