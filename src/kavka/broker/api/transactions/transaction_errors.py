"""What older versions of the transaction APIs are told instead of an error that they do not know."""

from __future__ import annotations

from kavka.errors import ErrorCode

_FIRST_VERSION_WITH_PRODUCER_FENCED = 2


def known_to(version: int, error: ErrorCode) -> ErrorCode:
    """AddPartitionsToTxn, AddOffsetsToTxn and EndTxn know PRODUCER_FENCED from version 2 on (KIP-588)."""
    if error is ErrorCode.PRODUCER_FENCED and version < _FIRST_VERSION_WITH_PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
