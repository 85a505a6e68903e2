"""AlterClientQuotas (key 49): sets and removes quotas of clients (KIP-546).

Behaviour   Each entity is changed by itself, in order; the whole of its changes is made or none. One that is named
            twice is changed twice, and answered once, with the last outcome. Whole numbers may be off by a millionth. A
            quota that is not set is removed without an error. The change is in force here when it is answered, and a
            moment later on the other brokers. An answer names a client id before a user, in whatever order they were
            asked about, as Kafka's do: clients compare whole answers.
Versions    0; 1 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.broker.api.zookeeper_patience import Patience
from kavka.errors import ErrorCode, RequestError, ZooKeeperError
from kavka.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from kavka.protocol.messages.alter_client_quotas_request import EntryData as Alteration
from kavka.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse, EntityData, EntryData
from kavka.security.quota_limits import CLIENT_ID, IP, USER, Change, entity_of

if TYPE_CHECKING:
    from kavka.broker.api.configs.ports import ConfigsBroker
    from kavka.protocol.connection import Request

TYPES_AS_ANSWERED: Final = (CLIENT_ID, USER, IP)
"""The order in which Java's HashMap keeps these keys, which is that of ClientQuotaEntity and so of Kafka's answers."""


async def handle(
    broker: ConfigsBroker, request: Request, message: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    outcomes: dict[frozenset[tuple[str, str | None]], EntryData] = {}
    patience = Patience()
    for alteration in message.entries:
        named = {part.entity_type: part.entity_name for part in alteration.entity}
        outcomes[frozenset(named.items())] = await _outcome(
            broker, named, alteration, patience, validate_only=message.validate_only
        )
    return AlterClientQuotasResponse(entries=list(outcomes.values()))


async def _outcome(
    broker: ConfigsBroker,
    named: dict[str, str | None],
    alteration: Alteration,
    patience: Patience,
    *,
    validate_only: bool,
) -> EntryData:
    kinds = sorted(named, key=lambda kind: (*TYPES_AS_ANSWERED, kind).index(kind))
    answer = EntryData(
        entity=[EntityData(entity_type=kind, entity_name=named[kind]) for kind in kinds], error_message=None
    )
    changes = [Change(op.key, None if op.remove else op.value) for op in alteration.ops]
    try:
        entity = entity_of(named.items())
        await patience.wait(broker.quota_store.alter(entity, changes, validate_only=validate_only))
    except RequestError as refused:
        answer.error_code, answer.error_message = refused.code, refused.message
    except ZooKeeperError as failure:
        answer.error_code, answer.error_message = ErrorCode.REQUEST_TIMED_OUT, str(failure)
    return answer
