"""What the log's errors mean to a coordinator, and what it answers its clients when an append fails.

Source: Kafka's mapping in CoordinatorOperationExceptionHelper and TransactionStateManager.
"""

from __future__ import annotations

from typing import Final

from kavka.errors import ErrorCode

OUTCOME_UNKNOWN: Final = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
"""Answers of the log after which the records may be committed all the same."""


def answer_for(error: ErrorCode, too_large: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR) -> ErrorCode:
    """What a coordinator answers when the log answered `error`; `too_large` where a batch would not fit."""
    match error:
        case (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode.NOT_ENOUGH_REPLICAS
            | ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            | ErrorCode.REQUEST_TIMED_OUT
        ):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        case ErrorCode.NOT_LEADER_OR_FOLLOWER | ErrorCode.KAFKA_STORAGE_ERROR:
            return ErrorCode.NOT_COORDINATOR
        case ErrorCode.MESSAGE_TOO_LARGE | ErrorCode.RECORD_LIST_TOO_LARGE | ErrorCode.INVALID_FETCH_SIZE:
            return too_large
        case _:
            return error
