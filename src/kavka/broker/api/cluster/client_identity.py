"""Who pushes metrics: what a request says of the client that sent it. Not an API: both APIs of KIP-714 share it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.telemetry.client_telemetry import ClientIdentity

if TYPE_CHECKING:
    import uuid

    from kavka.protocol.connection import Request


def identity_of(request: Request, client_instance_id: uuid.UUID) -> ClientIdentity:
    """The client at the other end of the connection."""
    context = request.context
    return ClientIdentity(
        str(client_instance_id),
        request.header.client_id or "",
        context.client_software_name,
        context.client_software_version,
        context.client_host,
        str(context.client_port),
    )
