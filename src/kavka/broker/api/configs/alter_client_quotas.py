"""AlterClientQuotas (key 49): sets and removes quotas of clients (KIP-546).

Behaviour   There are no quotas here. Removing one succeeds, as Apache Kafka removes a quota that is not set. Setting
            one is INVALID_REQUEST, so that nobody relies on a limit that does not hold.
Versions    0; 1 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.errors import ErrorCode
from kavka.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from kavka.protocol.messages.alter_client_quotas_request import EntryData as Alteration
from kavka.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse, EntityData, EntryData

if TYPE_CHECKING:
    from kavka.broker.api.configs.ports import ConfigsBroker
    from kavka.protocol.connection import Request

_ENTITIES = ({"user"}, {"client-id"}, {"user", "client-id"}, {"ip"})
"""The types of entities that may stand together."""


def handle(broker: ConfigsBroker, request: Request, message: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=[_outcome(entry) for entry in message.entries])


def _outcome(entry: Alteration) -> EntryData:
    problem = _problem(entry)
    return EntryData(
        error_code=ErrorCode.NONE if problem is None else ErrorCode.INVALID_REQUEST,
        error_message=problem,
        entity=[EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity],
    )


def _problem(entry: Alteration) -> str | None:
    if {part.entity_type for part in entry.entity} not in _ENTITIES:
        return "Invalid client quota entity"
    wanted = [op.key for op in entry.ops if not op.remove]
    if wanted:
        return f"This broker has no client quotas yet: {', '.join(wanted)} would not hold."
    return None
