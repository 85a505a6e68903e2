"""Dispatcher: from a request's bytes to its answer's bytes, through the one module that handles its API.

Decides: whether an API and version are served, and what happens to bytes that are no such request. Must not know what
any request means.

The steps, in order: is it served - decode - authorize - handle - charge - encode. Where the broker has an authorizer, a
request passes its row (`api_rights`) and its guard (`api/guards`) before its handler. Where clients have quotas, what
the request used up is counted, and the delay that follows stands in its answer and in `Response.mute_ms`.

    I1  a request that cannot be decoded, or of an API or version that is not served, ends its connection, as in Kafka;
        the one exception is ApiVersions (KIP-511)
    I2  a handler that fails harms its own connection only, except for an InvariantViolation, which halts the broker
    I3  with an authorizer, nothing is handled that has no row and no guard, and nothing before they have let it pass
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kavka.broker.api_table import SERVED
from kavka.errors import ProtocolViolation
from kavka.model import new_tuple
from kavka.protocol.api import ApiKey, api
from kavka.protocol.codec import decode, encode_chunks
from kavka.protocol.connection import NO_RESPONSE, Request, Response, silence

if TYPE_CHECKING:
    from kavka.broker.api.guards.guard import Guard
    from kavka.broker.api.loader import Handle
    from kavka.broker.api.ports import ApiBroker
    from kavka.broker.api_rights import ApiRights
    from kavka.broker.authorization.authorization import Authorization, Caller
    from kavka.broker.quotas.client_quotas import ClientQuotas, RequestMeter


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
        self._guards: dict[int, tuple[ApiRights, Guard]] = {}

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """The answer, or an awaitable of it. Raises `ProtocolViolation` to have the connection closed."""
        header = request.header
        handler = self._handlers.get(header.api_key) or self._find(header.api_key)
        version = header.api_version
        if not handler.min_version <= version <= handler.max_version:
            return self._refuse_version(request)
        quotas = self._broker.quotas.made
        if quotas is not None and quotas.is_active and _is_counted(request):
            return self._handle_within_quotas(quotas, handler, request)
        message = decode(handler.request_type, request.body, version)
        authorization = self._broker.authorization
        if authorization is None:  # As `_call`, without the call: all that a client sends comes by here.
            result = handler.handle(self._broker, request, message)
        else:
            result = self._handle_guarded(authorization, handler, request, message)
        if result is None:
            return NO_RESPONSE
        if isinstance(result, Response):
            return result
        if hasattr(result, "__await__"):
            return self._finish(result, version)
        return new_tuple(Response, (encode_chunks(result, version), 0))

    def _call(self, handler: _Handler, request: Request, message: Any) -> Any:
        broker = self._broker
        if broker.authorization is not None:
            return self._handle_guarded(broker.authorization, handler, request, message)
        return handler.handle(broker, request, message)

    def _handle_within_quotas(
        self, quotas: ClientQuotas, handler: _Handler, request: Request
    ) -> Response | Awaitable[Response]:
        """As `handle`, and counts what the request uses up of its client's quotas."""
        meter = quotas.meter(request)
        request = request._replace(meter=meter)
        version = request.header.api_version
        message = decode(handler.request_type, request.body, version)
        result = self._call(handler, request, message)
        meter.handled()
        if hasattr(result, "__await__"):
            return self._finish_within_quotas(result, meter, message, version)
        return _charged(result, meter, message, version)

    async def _finish_within_quotas(
        self, result: Awaitable[Any], meter: RequestMeter, message: Any, version: int
    ) -> Response:
        return _charged(await result, meter, message, version)

    def _handle_guarded(self, authorization: Authorization, handler: _Handler, request: Request, message: Any) -> Any:
        """What `handler` gives, with what its caller may not do left out and answered as refused."""
        key = request.header.api_key
        entry = self._guards.get(key) or self._find_guard(key)
        rights, guard = entry
        caller = authorization.caller(request)
        if rights.whole and not _passes_whole(rights, caller):
            from kavka.broker.api import loader

            _refuse_exemption(request)
            return loader.whole_refusal(ApiKey(key), message)
        outcome = guard(self._broker, caller, message)
        if hasattr(outcome, "__await__"):
            return self._go_on_later(handler, request, message, outcome)
        return self._go_on(handler, request, message, outcome)

    async def _go_on_later(self, handler: _Handler, request: Request, message: Any, outcome: Awaitable[Any]) -> Any:
        result = self._go_on(handler, request, message, await outcome)
        return await result if hasattr(result, "__await__") else result

    def _go_on(self, handler: _Handler, request: Request, message: Any, outcome: Any) -> Any:
        if outcome is None:
            return handler.handle(self._broker, request, message)
        change = getattr(outcome, "change", None)
        if change is None:
            _refuse_exemption(request)
            return outcome
        result = handler.handle(self._broker, request, message)
        return _change_later(change, result) if hasattr(result, "__await__") else _changed(change, result)

    def _find_guard(self, api_key: int) -> tuple[ApiRights, Guard]:
        from kavka.broker.api import loader
        from kavka.broker.api_rights import API_RIGHTS

        rights = API_RIGHTS.get(api_key)
        if rights is None:
            raise ProtocolViolation(f"API key {api_key} has no row of rights, and is not served with an authorizer")
        found = self._guards[api_key] = (rights, loader.guard(ApiKey(api_key)))
        return found

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


def _charged(answer: Any, meter: RequestMeter, message: Any, version: int) -> Response:
    """The answer, with the delay that follows from what its request used up."""
    if answer is None:
        answer = NO_RESPONSE
    delay_ms = meter.charge(message)
    if isinstance(answer, Response):
        return silence(delay_ms) if answer is NO_RESPONSE else answer
    if delay_ms and hasattr(answer, "throttle_time_ms"):
        answer.throttle_time_ms = delay_ms
    return Response(encode_chunks(answer, version), delay_ms)


def _refuse_exemption(request: Request) -> None:
    """Nothing of the request may be done."""
    if request.meter is not None:
        request.meter.refuse()


def _is_counted(request: Request) -> bool:
    """Not before its client has authenticated: what is counted is kept by names, and anybody can make them up."""
    gate = request.context.gate
    return gate is None or gate.is_open


def _passes_whole(rights: ApiRights, caller: Caller) -> bool:
    """Whether the request as a whole may be handled: its row names operations on the cluster."""
    if rights.between_brokers:
        return caller.may_as_broker()
    return any(caller.may_on_cluster(operation) for operation in rights.whole)


async def _change_later(change: Callable[[Any], Any], result: Awaitable[Any]) -> Any:
    return _changed(change, await result)


def _changed(change: Callable[[Any], Any], result: Any) -> Any:
    """A handler may also end the connection; then there is no answer to change."""
    ends = isinstance(result, Response) and result is not NO_RESPONSE
    return result if ends else change(result)
