"""DescribeClientQuotas (key 48): which quotas clients have (KIP-546).

Behaviour   No quotas are in force here, so the list is empty. The broker checks the filter as Apache Kafka does. Quotas
            that Apache Kafka keeps in a ZooKeeper that it shares with kavka are not listed: they do not hold here.
Versions    0; 1 flexible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from kavka.protocol.messages.describe_client_quotas_response import DescribeClientQuotasResponse

if TYPE_CHECKING:
    from kavka.broker.api.configs.ports import ConfigsBroker
    from kavka.protocol.connection import Request

_USER, _CLIENT_ID, _IP = "user", "client-id", "ip"
_ENTITIES = {_USER: "user", _CLIENT_ID: "client", _IP: "ip"}
"""Types of entities, and what Kafka's messages call them."""


def handle(
    broker: ConfigsBroker, request: Request, message: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    try:
        _check(message.components)
    except RequestError as refused:
        return DescribeClientQuotasResponse(error_code=refused.code, error_message=str(refused), entries=None)
    return DescribeClientQuotasResponse()


def _check(components: Sequence[ComponentData]) -> None:
    """Raises `RequestError` where no entity could be meant."""
    seen = set()
    for component in components:
        kind = component.entity_type
        if kind in seen:
            message = f"Duplicate {_ENTITIES[kind]} filter component entity type"
            raise RequestError(ErrorCode.INVALID_REQUEST, message)
        if not kind:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type")
        if kind not in _ENTITIES:
            raise RequestError(ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{kind}' not supported")
        seen.add(kind)
    if _IP in seen and len(seen) > 1:
        message = (
            "Invalid entity filter component combination, IP filter component should not be used with user or clientId "
            "filter component."
        )
        raise RequestError(ErrorCode.INVALID_REQUEST, message)
