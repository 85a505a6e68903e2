"""Secret: a text that must not be shown. It has no `str` and no `repr` that tell it; who needs it calls `reveal`.

I1  two secrets are compared in a time that does not depend on where they differ
"""

from __future__ import annotations

import hmac
from typing import Final

_HIDDEN: Final = "<hidden>"


class Secret:
    """A password or key."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself: for what must be computed or sent, never for what is shown."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return _HIDDEN

    def __repr__(self) -> str:
        return _HIDDEN
