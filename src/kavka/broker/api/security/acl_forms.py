"""Bindings and filters of access control lists, read from requests. Not an API: the three that have them share it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.security.acls import Binding, Entry, EntryFilter, Filter, Operation, Permission
from kavka.security.resource_patterns import Pattern, PatternFilter, PatternType, ResourceType

if TYPE_CHECKING:
    from kavka.protocol.messages.create_acls_request import AclCreation
    from kavka.protocol.messages.delete_acls_request import DeleteAclsFilter
    from kavka.protocol.messages.describe_acls_request import DescribeAclsRequest


def binding_of(creation: AclCreation) -> Binding:
    """The binding that is to be added; it may be one that cannot be kept."""
    pattern_type = PatternType.of(creation.resource_pattern_type)
    return Binding(
        Pattern(ResourceType.of(creation.resource_type), creation.resource_name, pattern_type),
        Entry(
            creation.principal,
            creation.host,
            Operation.of(creation.operation),
            Permission.of(creation.permission_type),
        ),
    )


def filter_of(asked: DescribeAclsRequest | DeleteAclsFilter) -> Filter:
    """The filter of a request. It may have unknown elements."""
    return Filter(
        PatternFilter(
            ResourceType.of(asked.resource_type_filter),
            asked.resource_name_filter,
            PatternType.of(asked.pattern_type_filter),
        ),
        EntryFilter(
            asked.principal_filter,
            asked.host_filter,
            Operation.of(asked.operation),
            Permission.of(asked.permission_type),
        ),
    )
