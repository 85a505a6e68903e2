"""DescribeClientQuotas (key 48): which quotas clients have (KIP-546).

Behaviour   Lists the quotas that stand in ZooKeeper, of the entities that the filter takes: those that have all the
            types that it names, with the names that it asks for. A strict filter takes no entities with further types.
            The credentials that a user has beside its quotas are never shown.
Versions    0; 1 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.broker.api.zookeeper_patience import Patience
from kavka.errors import ErrorCode, RequestError, ZooKeeperError
from kavka.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from kavka.protocol.messages.describe_client_quotas_response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kavka.security.quota_limits import DEFAULT, ENTITY_TYPES, Filter, Match

if TYPE_CHECKING:
    from kavka.broker.api.configs.ports import ConfigsBroker
    from kavka.protocol.connection import Request

_EXACT: Final = 0
_DEFAULT: Final = 1
_SPECIFIED: Final = 2
"""What a request asks of a type: one name, the default, any."""


async def handle(
    broker: ConfigsBroker, request: Request, message: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    try:
        wanted = Filter(tuple(map(_match, message.components)), message.strict)
        found = await Patience().wait(broker.quota_store.find(wanted))
    except RequestError as refused:
        return DescribeClientQuotasResponse(error_code=refused.code, error_message=refused.message, entries=None)
    except ZooKeeperError as failure:
        return DescribeClientQuotasResponse(
            error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=str(failure), entries=None
        )
    return DescribeClientQuotasResponse(
        entries=[
            EntryData(
                entity=[
                    EntityData(entity_type=kind, entity_name=None if name is DEFAULT else str(name))
                    for kind, name in entity.parts()
                ],
                values=[ValueData(key=key, value=value) for key, value in quotas.items()],
            )
            for entity, quotas in found.items()
        ]
    )


def _match(component: ComponentData) -> Match:
    """Raises RequestError for a match that there is not, of a type that there is: others are refused with the rest."""
    kind = component.entity_type
    if component.match_type == _DEFAULT:
        return Match(kind, DEFAULT)
    if component.match_type == _SPECIFIED:
        return Match(kind, None)
    if kind in ENTITY_TYPES and component.match_type != _EXACT:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Unexpected match type {component.match_type} of '{kind}'")
    if kind in ENTITY_TYPES and component.match is None:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"An exact match of '{kind}' takes a name")
    return Match(kind, component.match)
