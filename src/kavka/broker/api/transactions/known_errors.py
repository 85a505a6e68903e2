"""Which error an older version of a transaction API is given where it does not know the one that is meant."""

from __future__ import annotations

from typing import Final

from kavka.errors import ErrorCode

FENCED_SINCE: Final = 2
"""From this version on AddPartitionsToTxn, AddOffsetsToTxn and EndTxn know PRODUCER_FENCED (KIP-588)."""


def known_to(version: int, error: ErrorCode, *, fenced_since: int = FENCED_SINCE) -> ErrorCode:
    """The error, or INVALID_PRODUCER_EPOCH where it is PRODUCER_FENCED and the version is below `fenced_since`."""
    if error is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
