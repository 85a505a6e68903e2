"""The path that a request asked for, as its address has it.

Decides nothing else; the door and the pages make links to where somebody is by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection


def path_of(request: HTTPConnection) -> str:
    """The path that was asked for, as an address has it: a group may have / ? # in its name, which mean something else
    where they are not encoded."""
    asked = request.scope.get("raw_path")
    if asked is None:
        return quote(request.url.path, errors="replace")
    return quote(asked.decode("latin-1"), safe="%/:@!$&'()*+,;=~")
