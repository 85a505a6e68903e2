"""Dispatcher: from a request's bytes to its answer's bytes, through the one module that handles its API.

Decides: whether an API and version are served, and what happens to bytes that are no such request. Must not know what
any request means.

The steps, in order: is it served - decode - handle - encode. Two more have their place between decoding and handling,
and after it, and are not built yet: authorise (the principal is in `Request.context`), and quotas (the delay goes into
`Response.mute_ms` and the answer's throttle time).

    I1  a request that cannot be decoded, or of an API or version that is not served, ends its connection, as in Kafka;
        the one exception is ApiVersions (KIP-511)
    I2  a handler that fails harms its own connection only, except for an InvariantViolation, which halts the broker
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, NamedTuple

from kavka.broker.api_table import SERVED
from kavka.errors import ProtocolViolation
from kavka.protocol.api import ApiKey, api
from kavka.protocol.codec import decode, encode_chunks
from kavka.protocol.connection import NO_RESPONSE, Request, Response

if TYPE_CHECKING:
    from kavka.broker.api.loader import Handle
    from kavka.broker.api.ports import ApiBroker


class _Handler(NamedTuple):
    handle: Handle
    request_type: Any
    min_version: int
    max_version: int


class Dispatcher:
    """The broker's door: the listener calls `handle` with every request."""

    def __init__(self, broker: ApiBroker) -> None:
        self._broker = broker
        self._handlers: dict[int, _Handler] = {}

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """The answer, or an awaitable of it. Raises `ProtocolViolation` to have the connection closed."""
        header = request.header
        handler = self._handlers.get(header.api_key) or self._find(header.api_key)
        version = header.api_version
        if not handler.min_version <= version <= handler.max_version:
            return self._refuse_version(request)
        message = decode(handler.request_type, request.body, version)
        result = handler.handle(self._broker, request, message)
        if result is None:
            return NO_RESPONSE
        if isinstance(result, Response):
            return result
        if hasattr(result, "__await__"):
            return self._finish(result, version)
        return Response(encode_chunks(result, version))

    async def _finish(self, result: Awaitable[Any], version: int) -> Response:
        message = await result
        if message is None:
            return NO_RESPONSE
        if isinstance(message, Response):
            return message
        return Response(encode_chunks(message, version))

    def _find(self, api_key: int) -> _Handler:
        served = SERVED.get(api_key)
        if served is None:
            raise ProtocolViolation(f"API key {api_key} is not served")
        # With the first request, not at the start: what is imported late makes a start-up quick.
        from kavka.broker.api import loader

        key = ApiKey(api_key)
        handler = _Handler(loader.handler(key), api(key).request_type, served.min_version, served.max_version)
        self._handlers[api_key] = handler
        return handler

    def _refuse_version(self, request: Request) -> Response:
        header = request.header
        if header.api_key == ApiKey.API_VERSIONS:
            from kavka.broker.api import loader

            return Response(encode_chunks(loader.version_refusal(), 0))
        raise ProtocolViolation(f"version {header.api_version} of {ApiKey(header.api_key).name} is not served")
