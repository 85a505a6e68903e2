"""QuotaAdmin: quotas of clients, as an administrator lists and changes them. Works with Apache Kafka from 2.6 on.

Decides how entities and filters are put into requests. Must not decide whose quota holds: that is `kavka.security`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kavka.client.answers import raise_for
from kavka.client.cluster import Cluster
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kavka.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from kavka.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from kavka.protocol.messages.describe_client_quotas_response import DescribeClientQuotasResponse
from kavka.security.quota_limits import DEFAULT, Change, Entity, Filter, Match, entity_of

_EXACT, _DEFAULT, _ANY = 0, 1, 2


class QuotaAdmin:
    """Questions and orders about quotas. Raises as `Cluster.retry` does."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def find(self, wanted: Filter) -> dict[Entity, dict[str, float]]:
        """The quotas of the entities that a filter takes."""
        request = DescribeClientQuotasRequest(components=list(map(_component, wanted.matches)), strict=wanted.strict)

        async def find() -> dict[Entity, dict[str, float]]:
            answer = await self._cluster.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, request, DescribeClientQuotasResponse)
            raise_for(answer.error_code, "quotas", answer.error_message)
            return {
                entity_of([(part.entity_type, part.entity_name) for part in entry.entity]): {
                    value.key: value.value for value in entry.values
                }
                for entry in answer.entries or ()
            }

        return await self._cluster.retry(find, what="list quotas")

    async def alter(self, entity: Entity, changes: Sequence[Change], *, validate_only: bool = False) -> None:
        """Sets and removes quotas of an entity, all or none. Raises RequestError where that is refused."""
        request = AlterClientQuotasRequest(
            entries=[
                EntryData(
                    entity=[
                        EntityData(entity_type=kind, entity_name=None if name is DEFAULT else str(name))
                        for kind, name in entity.parts()
                    ],
                    ops=[
                        OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                        for key, value in changes
                    ],
                )
            ],
            validate_only=validate_only,
        )

        async def alter() -> None:
            answer = await self._cluster.ask(ApiKey.ALTER_CLIENT_QUOTAS, request, AlterClientQuotasResponse)
            for entry in answer.entries:
                raise_for(entry.error_code, str(entity), entry.error_message)

        await self._cluster.retry(alter, what="change quotas")


def _component(match: Match) -> ComponentData:
    if match.name is None:
        return ComponentData(entity_type=match.kind, match_type=_ANY, match=None)
    if match.name is DEFAULT:
        return ComponentData(entity_type=match.kind, match_type=_DEFAULT, match=None)
    return ComponentData(entity_type=match.kind, match_type=_EXACT, match=str(match.name))
