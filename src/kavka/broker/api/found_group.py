"""The group that an answer describes, for the describes of consumer, share and streams groups. Handles no API."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kavka.errors import ErrorCode, RequestError

G = TypeVar("G")


def found_group(group_id: str, find: Callable[[str], G | None], *, is_served: bool) -> G:
    """Raises `RequestError`: UNSUPPORTED_VERSION where such groups are switched off, GROUP_ID_NOT_FOUND where `find`
    knows no such group, and what `find` raises."""
    if not is_served:
        raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
    group = find(group_id)
    if group is None:
        raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    return group
