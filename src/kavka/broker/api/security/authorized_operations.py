"""Which operations an answer says a client may do (KIP-430), a bit per operation code. Not an API: answers share it.

Without an authorizer all that a resource knows are allowed; with one, guards leave out what is not. The codes are
those of Kafka's AclOperation.
"""

from __future__ import annotations

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = 3, 4, 5, 6, 7, 8
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 9, 10, 11, 12

NOT_ASKED = -(2**31)
"""The field's value where the client did not ask."""


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = _bits(_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
CLUSTER_OPERATIONS = _bits(
    _CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE
)
GROUP_OPERATIONS = _bits(_READ, _DELETE, _DESCRIBE)
GROUP_OPERATIONS_SINCE_4 = GROUP_OPERATIONS | _bits(_DESCRIBE_CONFIGS, _ALTER_CONFIGS)
"""Since groups have settings of their own; DescribeGroups shows them from version 6 on."""
