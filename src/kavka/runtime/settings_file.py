"""Files of settings that a process is started with: read as they were written, and by their owner alone.

Decides the file's rights: settings may hold passwords, so nobody else may read it, at no moment. Must not know what the
settings say.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from kavka.config.properties import format_properties


def write_settings(path: str, settings: Mapping[str, str], *, written_by: str) -> None:
    """Replaces the file `path`. Raises OSError."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    new = f"{path}.new"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)  # A file that an interrupted write left may have other rights.
        file.write(f"# Written by `{written_by}` at each start.\n")
        file.write(format_properties(settings))
    os.replace(new, path)
