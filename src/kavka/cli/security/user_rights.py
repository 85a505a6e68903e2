"""What `kavka users add` gives a user besides a password: rights, and the files to log in with.

Decides which files a login has; what --allow and --group mean is `security.right_words`'. Must not ask a cluster.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kavka.cli.output import usage
from kavka.security.right_words import TOPIC_WORDS, NoRight
from kavka.security.right_words import rights as granted

if TYPE_CHECKING:
    from kavka.cli.login import Way
    from kavka.client.login_files import Credentials
    from kavka.security.acls import Binding
    from kavka.security.secret import Secret

FILE_NAME: Final = re.compile(r"[A-Za-z0-9_@-][A-Za-z0-9._@-]{0,99}")


def rights(name: str, allowed: Sequence[str], groups: Sequence[str]) -> list[Binding]:
    """The bindings that options ask for. Raises Failure."""
    try:
        return granted(name, allowed, groups)
    except NoRight as problem:
        usage(f"--allow {problem}", f"write read:orders or write:orders-*; {', '.join(TOPIC_WORDS)}")


def shows_certificates(way: Way) -> bool:
    """Whether the cluster's clients show certificates, and the authority is at hand that signs them."""
    login = way.login
    is_one = login.sasl is None and login.tls is not None and login.tls.certificate is not None
    return is_one and (Path(way.file).parent / "authority.pem").exists()


def credentials(name: str, way: Way, password: Secret | None, mechanism: str) -> Credentials:
    """The user's login where `way` is the administrator's. Without a password: with a new certificate."""
    from kavka.client.login_files import Credentials
    from kavka.runtime.tls.security_directory import SecurityDirectory, credentials_of

    tls = way.login.tls
    authorities = None if tls is None else tls.authorities
    if password is None:
        directory = SecurityDirectory(Path(way.file).parent, shows_certificates=True)
        pem = directory.sign_client(name, time.time_ns() // 1_000_000)
        return credentials_of(way.addresses, name, pem, directory.authorities)
    return Credentials(
        bootstrap=way.addresses,
        user=name,
        mechanism=mechanism,
        password=password,
        has_tls=tls is not None,
        authorities=authorities,
    )


def require_file_name(name: str) -> None:
    """Raises Failure for a user whose name cannot be a file's."""
    if not FILE_NAME.fullmatch(name):
        usage(f"{name!r} cannot be the name of a file", "without --allow, --group and --files no files are written")


def write_files(login: Credentials, directory: Path) -> list[str]:
    """Writes the user's files, for their owner alone; returns them. Raises OSError."""
    from kavka.client.login_files import env, java, librdkafka
    from kavka.runtime.tls.security_directory import write_private

    directory = directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    authorities, identity = directory / f"{login.user}.ca.pem", directory / f"{login.user}.pem"
    named = {
        "authorities": str(authorities) if login.authorities is not None else None,
        "identity": str(identity) if login.key is not None else None,
    }
    texts = {
        authorities: login.authorities,
        identity: None if login.key is None else f"{login.key}{login.certificate}",
        directory / f"{login.user}.properties": java(login),
        directory / f"{login.user}.librdkafka.conf": librdkafka(login, **named),
        directory / f"{login.user}.env": env(login, **named),
    }
    written = []
    for path, text in texts.items():
        if text is not None:
            write_private(path, text)
            written.append(str(path))
    return written
