"""Misspelt names of settings, topics and groups: the one that was probably meant.

Decides how like two names must be. Must not know where they come from.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

SIMILAR: Final = 0.8
"""difflib's ratio: `num.partition`, `retention.mss` and `min.insync.replica` are above, other settings' names below."""


def similar_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` is most like; None where it is like none."""
    from difflib import get_close_matches  # late: a broker's start needs none

    return next(iter(get_close_matches(name, known, n=1, cutoff=SIMILAR)), None)
