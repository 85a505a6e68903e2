"""A file with a client's settings, as Kafka's own tools take it (--command-config): how a cluster is reached.

Decides nothing of its own: `login` says what the settings mean. Must not know who names the file.
"""

from __future__ import annotations

from kavka.client.login import ClientLogin, client_login
from kavka.config.properties import parse_properties
from kavka.errors import ConfigError


def read_client_file(path: str) -> ClientLogin:
    """The login in a file of Kafka's client settings. Raises ConfigError, which names the file, and OSError."""
    with open(path, encoding="utf-8") as file:
        try:
            settings = parse_properties(file.read())
        except UnicodeDecodeError as problem:
            raise ConfigError(f"{path}: not a text: {problem}") from problem
    try:
        return client_login(settings, read=_read)
    except ConfigError as problem:
        raise ConfigError(f"{path}: {problem}") from problem


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
