"""The dispatcher beside its parts: whose requests are counted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from kavka.broker.dispatcher import Dispatcher
from kavka.protocol.api import ApiKey, RequestHeader
from kavka.protocol.codec import encode
from kavka.protocol.connection import ConnectionContext, Request, Response
from kavka.protocol.messages import ApiVersionsRequest


class Counted(Exception):
    """A request is counted for its client."""


class Quotas:
    is_active = True

    def meter(self, request: Request) -> NoReturn:
        raise Counted


def versions_asked(context: ConnectionContext, software: str = "c") -> Response:
    broker: Any = SimpleNamespace(
        quotas=SimpleNamespace(made=Quotas()),
        authorization=None,
        features=SimpleNamespace(finalized=SimpleNamespace(epoch=1, levels={})),
        serves_consumer_groups=lambda: True,
        serves_share_groups=lambda: True,
        serves_streams_groups=lambda: True,
        telemetry=lambda: SimpleNamespace(is_wanted=True),
    )
    body = encode(ApiVersionsRequest(client_software_name=software, client_software_version=software), 3)
    header = RequestHeader(ApiKey.API_VERSIONS, 3, 1, "a name that is made up")
    answer = Dispatcher(broker).handle(Request(header, memoryview(body), context))
    assert isinstance(answer, Response)
    return answer


@pytest.mark.parametrize("is_open", [False, True])
def test_nobody_is_counted_before_he_has_authenticated(is_open: bool) -> None:
    """What is counted is kept by the name of the client, which anybody can make up."""
    context = ConnectionContext("c", "10.0.0.1", 1, "SASL_PLAINTEXT")
    gate: Any = SimpleNamespace(is_open=is_open)
    context.gate = gate
    if is_open:
        with pytest.raises(Counted):
            versions_asked(context)
    else:
        assert versions_asked(context).mute_ms == 0


def test_of_a_software_name_as_long_as_the_wire_allows_little_is_kept() -> None:
    """Before a login each connection could have the broker keep 64 KB."""
    context = ConnectionContext("c", "10.0.0.1", 1, "SASL_PLAINTEXT")
    gate: Any = SimpleNamespace(is_open=False)
    context.gate = gate
    versions_asked(context, "librdkafka" * 3_000)
    assert context.client_software_name == context.client_software_version == ("librdkafka" * 26)[:255]


def test_where_nobody_authenticates_everybody_is_counted() -> None:
    with pytest.raises(Counted):
        versions_asked(ConnectionContext("c", "10.0.0.1", 1, "PLAINTEXT"))
