"""What has settings: the types of resources, and what a request must say of one. Not an API: handlers share it."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from kavka.errors import ErrorCode, RequestError

if TYPE_CHECKING:
    from kavka.broker.api.configs.ports import ConfigsBroker


class ResourceType(IntEnum):
    """What a request means by a resource's type (Kafka's ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def require_topic(broker: ConfigsBroker, name: str) -> None:
    """Raises RequestError if the topic does not exist."""
    if not name:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if broker.metadata.topic(name) is None:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def require_name(name: str, otherwise: str) -> None:
    """Raises RequestError with the message `otherwise` where the name of a resource that has no default is empty."""
    if not name:
        raise RequestError(ErrorCode.INVALID_REQUEST, otherwise)
