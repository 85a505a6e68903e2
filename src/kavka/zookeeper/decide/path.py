"""Which paths ZooKeeper accepts, and where a node's parent is.

Source: ZooKeeper's PathUtils.
"""

from __future__ import annotations

import re
from typing import Final

from kavka.zookeeper.port import BadArguments

# Every name between slashes is neither empty nor "." nor "..", and holds no control or private-use character.
PATH: Final = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]+)+\Z")


def validate_path(path: str) -> None:
    """Raises BadArguments unless `path` is one that ZooKeeper accepts."""
    if path == "/" or PATH.match(path):
        return
    if not path.startswith("/"):
        raise BadArguments(path, "a path starts with /")
    if path.endswith("/"):
        raise BadArguments(path, "a path does not end with /")
    raise BadArguments(path, "an empty or relative name, or a forbidden character")


def parent_path(path: str) -> str:
    """Path of the parent of a node that is not the root."""
    return path[: path.rfind("/")] or "/"
