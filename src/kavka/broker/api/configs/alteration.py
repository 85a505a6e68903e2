"""Settings changed, resource by resource: what AlterConfigs and IncrementalAlterConfigs share. Not an API.

Each resource of a request is changed for itself, in order: a refusal of one leaves the others alone. How the new
settings follow from the present ones is each request's own (`kavka.config.alter`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kavka.broker.api.configs.resources import require_name, require_topic
from kavka.broker.api.zookeeper_patience import Patience
from kavka.config.alter import is_this_broker
from kavka.errors import ErrorCode, RequestError, ZooKeeperError
from kavka.zookeeper.port import RequestTooLarge
from kavka.zookeeper.znode_paths import CLIENT_METRICS_ENTITY, GROUPS_ENTITY

if TYPE_CHECKING:
    from kavka.broker.api.configs.ports import ConfigsBroker

    Settings = Mapping[str, str]


class Resource(Protocol):
    """A resource that is to be changed, in either request."""

    resource_type: int
    resource_name: str


class Response(Protocol):
    """A resource's part of either answer."""

    def __init__(
        self, *, error_code: ErrorCode, error_message: str | None, resource_type: int, resource_name: str
    ) -> None: ...


AnyResource = TypeVar("AnyResource", bound=Resource)
AnyResponse = TypeVar("AnyResponse", bound=Response)


async def alter_each(
    resources: Sequence[AnyResource],
    alter: Callable[[AnyResource], Coroutine[Any, Any, None]],
    response: type[AnyResponse],
) -> list[AnyResponse]:
    """Changes each resource by `alter`, which raises RequestError or ZooKeeperError, and returns a response for each.
    NONE means that the change is written, or would be (validate_only).

    A resource that is named twice is changed by neither: nobody can tell which change is meant.
    """
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    responses, patience = [], Patience()
    for resource in resources:
        code, message = ErrorCode.NONE, None
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                raise RequestError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            await patience.wait(alter(resource))
        except RequestError as refused:
            code, message = refused.code, refused.message
        except RequestTooLarge as failure:
            code, message = ErrorCode.INVALID_CONFIG, str(failure)
        except ZooKeeperError as failure:
            code, message = ErrorCode.REQUEST_TIMED_OUT, str(failure)
        responses.append(
            response(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return responses


async def change_topic(
    broker: ConfigsBroker, name: str, decide: Callable[[Settings], Settings], *, validate_only: bool
) -> None:
    """Gives the topic the settings that `decide` makes of the present ones. Of a topic that does not exist, what is
    wrong with them is said first, as in Apache Kafka 4."""
    if name and broker.metadata.topic(name) is None:
        decide({})
    require_topic(broker, name)
    await broker.configs.change_topic(name, decide, validate_only=validate_only)


async def change_broker(
    broker: ConfigsBroker, name: str, decide: Callable[[Settings, bool], Settings], *, validate_only: bool
) -> None:
    """Gives this broker, or all brokers by default (no name), the settings that `decide` makes of the present ones.

    `decide` is also given whether the settings are this broker's own.
    """
    per_broker = is_this_broker(name, broker.broker_id)
    await broker.configs.change_broker(
        lambda current: decide(current, per_broker), per_broker=per_broker, validate_only=validate_only
    )


async def change_group(
    broker: ConfigsBroker, name: str, decide: Callable[[Settings], Settings], *, validate_only: bool
) -> None:
    """Gives the group the settings that `decide` makes of the present ones."""
    require_name(name, "Default group resources are not allowed.")
    await broker.configs.change_other(GROUPS_ENTITY, name, decide, validate_only=validate_only)


async def change_client_metrics(
    broker: ConfigsBroker, name: str, decide: Callable[[Settings], Settings], *, validate_only: bool
) -> None:
    """Gives the subscription to clients' metrics the settings that `decide` makes of the present ones."""
    require_name(name, "Subscription name can't be empty")
    await broker.configs.change_other(CLIENT_METRICS_ENTITY, name, decide, validate_only=validate_only)
