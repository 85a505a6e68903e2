"""Which cluster a command talks to, and how it gets in: addresses, login and TLS.

Decides which source of these counts. Must not know how they are used, nor import typer: `kavka up` does without it.

    addresses   -b, else KAVKA_BOOTSTRAP, else the file's bootstrap.servers, else 127.0.0.1:9092
    file        --client-config, else KAVKA_CLIENT_CONFIG, else the administrator's that `kavka up --secure` wrote below
                the working directory (kavka-data/security/admin.properties)

    I1  the file below the working directory is used only where it belongs to who asks and to nobody else (0600), and
        where no other brokers were named than those that it names: a directory from elsewhere gives no orders
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from kavka.client.login import ClientLogin

BOOTSTRAP_VARIABLE: Final = "KAVKA_BOOTSTRAP"
CLIENT_CONFIG_VARIABLE: Final = "KAVKA_CLIENT_CONFIG"
DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
ADMIN_FILE: Final = "kavka-data/security/admin.properties"
"""As `kavka up --secure` leaves it, with its default directory."""

_chosen: list[str] = []
"""The file of --client-config; a process runs one command."""


class Way(NamedTuple):
    """How a command gets to its cluster. `file`: where the login is from; "" without one."""

    addresses: str
    login: ClientLogin
    file: str


def choose_file(path: str | None) -> None:
    """Takes over what --client-config names."""
    _chosen[:] = [] if path is None else [path]


def way_to(bootstrap: str | None) -> Way:
    """How to get to the cluster, with `bootstrap` from the command line. Raises ConfigError, OSError."""
    from kavka.client.login import ClientLogin

    asked = bootstrap or os.environ.get(BOOTSTRAP_VARIABLE) or None
    file = _chosen[0] if _chosen else os.environ.get(CLIENT_CONFIG_VARIABLE) or ""
    if file:
        login = read_file(file)
        return Way(asked or login.bootstrap or DEFAULT_BOOTSTRAP, login, file)
    if _is_ours_alone(ADMIN_FILE):
        login = read_file(ADMIN_FILE)
        if login.bootstrap and (asked is None or _addresses(asked) <= _addresses(login.bootstrap)):
            return Way(asked or login.bootstrap, login, ADMIN_FILE)
    return Way(asked or DEFAULT_BOOTSTRAP, ClientLogin(), "")


def read_file(path: str) -> ClientLogin:
    """The login in a file of a client's settings. Raises ConfigError, OSError."""
    from kavka.client.client_file import read_client_file

    return read_client_file(path)


def _is_ours_alone(path: str) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077


def _addresses(text: str) -> set[str]:
    return {part.strip() for part in text.split(",") if part.strip()}
