"""AclAdmin: access control lists, as an administrator lists and changes them. Works with Apache Kafka from 2.0 on.

Decides how bindings and filters are put into requests. Must not decide what they mean: that is `kavka.security`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kavka.client.answers import error_of, raise_for
from kavka.client.cluster import Cluster
from kavka.errors import RequestError
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from kavka.protocol.messages.create_acls_response import CreateAclsResponse
from kavka.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kavka.protocol.messages.delete_acls_response import DeleteAclsResponse
from kavka.protocol.messages.describe_acls_request import DescribeAclsRequest
from kavka.protocol.messages.describe_acls_response import DescribeAclsResponse
from kavka.security.acls import Binding, Entry, Filter, Operation, Permission
from kavka.security.resource_patterns import Pattern, PatternType, ResourceType


class AclAdmin:
    """Questions and orders about access control lists. Raises as `Cluster.retry` does."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def find(self, wanted: Filter) -> list[Binding]:
        """The bindings that a filter means, in order."""
        (kind, name, pattern_type), (principal, host, operation, permission) = wanted
        request = DescribeAclsRequest(
            resource_type_filter=kind,
            resource_name_filter=name,
            pattern_type_filter=pattern_type,
            principal_filter=principal,
            host_filter=host,
            operation=operation,
            permission_type=permission,
        )

        async def find() -> list[Binding]:
            answer = await self._cluster.ask(ApiKey.DESCRIBE_ACLS, request, DescribeAclsResponse)
            raise_for(answer.error_code, "access control lists", answer.error_message)
            return sorted(
                _binding(
                    (resource.resource_type, resource.resource_name, resource.pattern_type),
                    (acl.principal, acl.host, acl.operation, acl.permission_type),
                )
                for resource in answer.resources
                for acl in resource.acls
            )

        return await self._cluster.retry(find, what="list access control lists")

    async def add(self, bindings: Sequence[Binding]) -> None:
        """Adds bindings; what is there already stays. Raises RequestError for the first one that is refused."""
        request = CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=pattern.resource_type,
                    resource_name=pattern.name,
                    resource_pattern_type=pattern.pattern_type,
                    principal=entry.principal,
                    host=entry.host,
                    operation=entry.operation,
                    permission_type=entry.permission,
                )
                for pattern, entry in bindings
            ]
        )

        async def add() -> None:
            answer = await self._cluster.ask(ApiKey.CREATE_ACLS, request, CreateAclsResponse)
            for binding, result in zip(bindings, answer.results, strict=False):
                raise_for(result.error_code, str(binding), result.error_message)

        await self._cluster.retry(add, what="add access control lists")

    async def remove(self, filters: Sequence[Filter]) -> list[Binding]:
        """Removes what the filters mean, and returns it. Raises RequestError where any of it could not be removed."""
        request = DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=pattern.resource_type,
                    resource_name_filter=pattern.name,
                    pattern_type_filter=pattern.pattern_type,
                    principal_filter=entry.principal,
                    host_filter=entry.host,
                    operation=entry.operation,
                    permission_type=entry.permission,
                )
                for pattern, entry in filters
            ]
        )
        removed: list[Binding] = []

        async def remove() -> None:
            answer = await self._cluster.ask(ApiKey.DELETE_ACLS, request, DeleteAclsResponse)
            for result in answer.filter_results:
                raise_for(result.error_code, "access control lists", result.error_message)
                for acl in result.matching_acls:
                    binding = _binding(
                        (acl.resource_type, acl.resource_name, acl.pattern_type),
                        (acl.principal, acl.host, acl.operation, acl.permission_type),
                    )
                    if acl.error_code:
                        raise RequestError(error_of(acl.error_code), f"{binding}: {acl.error_message}")
                    removed.append(binding)

        await self._cluster.retry(remove, what="remove access control lists")
        return sorted(set(removed))


def _binding(pattern: tuple[int, str, int], entry: tuple[str, str, int, int]) -> Binding:
    kind, name, pattern_type = pattern
    principal, host, operation, permission = entry
    return Binding(
        Pattern(ResourceType.of(kind), name, PatternType.of(pattern_type)),
        Entry(principal, host, Operation.of(operation), Permission.of(permission)),
    )
