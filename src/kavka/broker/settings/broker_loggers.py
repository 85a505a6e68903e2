"""A broker's loggers as Kafka's administrators see them: configurations of a resource of their own (KIP-412).

Decides which levels there are to see, and which changes of them are refused with which code and words. Changes hold
until the broker ends; nothing is stored.

    I1  A refusal (`RequestError`) changes nothing; what is accepted is changed whole, and at once.

Source: Kafka's RuntimeLoggerManager, LoggingController and ConfigAdminManager, asked of running brokers of 3.9 and 4.3.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kavka.config.alter import Change, Operation, refuse_duplicates, refuse_nulls
from kavka.config.describe import ConfigEntry, ConfigSource
from kavka.errors import ErrorCode, RequestError
from kavka.logger import ROOT, Level, Logger, LogLevels, is_logger
from kavka.model import BrokerId

logger = Logger(__name__)

_NO_TYPE = 0


def describe_loggers(
    resource: str, broker_id: BrokerId, levels: LogLevels, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """The loggers of the broker that `resource` names, those in `names` where there are any. Raises RequestError."""
    if not resource:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    asked = _node_id(resource, "Broker id")
    if asked != broker_id:
        message = f"Unexpected broker id, expected {broker_id} but received {resource}"
        raise RequestError(ErrorCode.INVALID_REQUEST, message)
    return [
        ConfigEntry(
            name=name,
            value=level.name,
            source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            read_only=False,
            sensitive=False,
            type_code=_NO_TYPE,
            synonyms=(),
        )
        for name, level in levels.all().items()
        if not names or name in names
    ]


def change_loggers(
    resource: str, broker_id: BrokerId, levels: LogLevels, changes: Sequence[Change], *, validate_only: bool
) -> None:
    """Gives loggers levels, or takes them, of the broker that `resource` names. Raises RequestError."""
    refuse_duplicates(change.name for change in changes)
    refuse_nulls(changes)
    asked = _node_id(resource, "Node id")
    if asked != broker_id:
        message = f"Unexpected node id. Expected {broker_id}, but received {asked}"
        raise RequestError(ErrorCode.INVALID_REQUEST, message)
    for change in changes:
        _check(change)
    if not validate_only:
        for change in changes:
            _apply(levels, change)


def _node_id(resource: str, what: str) -> int:
    try:
        return int(resource)
    except ValueError:
        message = f"{what} must be an integer, but it is: {resource}"
        raise RequestError(ErrorCode.INVALID_REQUEST, message) from None


def _check(change: Change) -> None:
    name, operation, level = change
    if operation in (Operation.APPEND, Operation.SUBTRACT):
        message = f"{Operation(operation).name} operation is not allowed for the BROKER_LOGGER resource"
        raise RequestError(ErrorCode.INVALID_REQUEST, message)
    if operation not in (Operation.SET, Operation.DELETE):
        message = f"Unknown operation type {operation} is not allowed for the BROKER_LOGGER resource"
        raise RequestError(ErrorCode.INVALID_REQUEST, message)
    if not is_logger(name):
        raise RequestError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == Operation.SET and level not in Level.__members__:
        message = (
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. Valid log levels are "
            f"{', '.join(sorted(Level.__members__))}"
        )
        raise RequestError(ErrorCode.INVALID_CONFIG, message)
    if operation == Operation.DELETE and name == ROOT:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed")


def _apply(levels: LogLevels, change: Change) -> None:
    if change.operation == Operation.SET:
        assert change.value is not None, "nulls were refused"
        levels.give(change.name, Level[change.value])
    else:
        levels.take(change.name)
    logger.warning("log level changed", of=change.name, level=levels.of(change.name).name)
