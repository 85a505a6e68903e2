"""One group of a newer protocol, as its coordinator describes it: consumer, share and streams groups alike."""

from __future__ import annotations

from typing import Any

from kavka.client.answers import raise_for
from kavka.client.cluster import Cluster
from kavka.protocol.api import ApiKey
from kavka.protocol.schema import Message


async def ask_about_group(
    cluster: Cluster, group_id: str, key: ApiKey, request: Message, answer_type: type[Any]
) -> tuple[int, Any]:
    """The coordinator's id, and its description of the group. Raises `RequestError`.

    `request` names this group alone. Any: each API's answer has a class of its own, whose `groups` have an error code.
    """

    async def ask() -> tuple[int, Any]:
        node_id = await cluster.find_coordinator(group_id)
        answer = await cluster.ask(key, request, answer_type, node_id=node_id)
        group = answer.groups[0]
        raise_for(group.error_code, f"group {group_id!r}")
        return node_id, group

    return await cluster.retry(ask, what=f"describe group {group_id!r}")
