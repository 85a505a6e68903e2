"""The group that an answer describes, for the describes of consumer, share and streams groups. Handles no API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from kavka.errors import ErrorCode, RequestError

G = TypeVar("G")


class Groups(Protocol):
    """The groups that this broker coordinates."""

    def is_there(self, group_id: str) -> bool:
        """Whether there is a group of any kind. Raises `RequestError`."""
        ...


def found_group(groups: Groups, group_id: str, *, find: Callable[[str], G | None], kind: str, is_served: bool) -> G:
    """Raises `RequestError`: UNSUPPORTED_VERSION where such groups are switched off, GROUP_ID_NOT_FOUND where `find`
    knows no such group, and what `find` raises."""
    if not is_served:
        raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
    group = find(group_id)
    if group is None:
        raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, not_found(groups, group_id, kind))
    return group


def not_found(groups: Groups, group_id: str, kind: str) -> str:
    """Why there is no group of this kind: none at all, or one of another kind. Raises `RequestError`."""
    return f"Group {group_id} is not a {kind} group." if groups.is_there(group_id) else f"Group {group_id} not found."
