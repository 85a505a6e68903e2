"""Which share groups' states may go because an administrator has asked for it, as seen on the wire.

Decides that a deletion goes on until it is answered, and after a failure until another one is answered as done: what a
coordinator has sent by then may still arrive. After that no state goes which is made anew (SH17 of `share_rules`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.errors import ErrorCode
from kavka.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kavka.simulator.host.wire import Exchange

KEYS: Final = (ApiKey.DELETE_GROUPS, ApiKey.DELETE_SHARE_GROUP_OFFSETS)
_NOT_BEGUN: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""Refusals: nothing was asked of who keeps the states."""


class ShareDeletions:
    """All that administrators have asked for."""

    def __init__(self) -> None:
        self._open: dict[str, set[Exchange]] = {}
        self._failed: set[str] = set()

    def may_go(self, group_id: str) -> bool:
        """Whether states of the group may be deleted now."""
        return bool(self._open.get(group_id)) or group_id in self._failed

    def on_request(self, exchange: Exchange) -> None:
        request = exchange.request
        groups = request.groups_names if exchange.key is ApiKey.DELETE_GROUPS else [request.group_id]
        for group_id in groups:
            self._open.setdefault(group_id, set()).add(exchange)

    def on_answer(self, exchange: Exchange) -> None:
        for group_id, errors in _told(exchange):
            self._open.get(group_id, set()).discard(exchange)
            if not errors - {ErrorCode.NONE}:
                self._failed.discard(group_id)
            elif errors - {ErrorCode.NONE, *_NOT_BEGUN}:
                self._failed.add(group_id)


def _told(exchange: Exchange) -> Iterator[tuple[str, set[int]]]:
    """The errors of each group."""
    answer = exchange.answer
    if exchange.key is ApiKey.DELETE_GROUPS:
        for result in answer.results:
            yield result.group_id, {result.error_code}
    else:
        yield exchange.request.group_id, {answer.error_code, *(topic.error_code for topic in answer.responses)}
