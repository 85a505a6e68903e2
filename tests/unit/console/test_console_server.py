"""How the console is served: whose word counts for the address that a request comes from."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message, Receive, Scope, Send

from kavka.console.server import configuration

FORGED = "203.0.113.7"


def _address_seen() -> str:
    """What the application takes for the address of a request from loopback with a forged X-Forwarded-For."""
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["client"][0])

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        raise AssertionError(message)

    served = configuration(app)
    served.load()
    headers = [(b"x-forwarded-for", FORGED.encode())]
    scope = {"type": "http", "scheme": "http", "client": ("127.0.0.1", 5000), "headers": headers}
    asyncio.run(served.loaded_app(scope, receive, send))
    return seen[0]


def test_a_process_of_this_host_cannot_forge_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORWARDED_ALLOW_IPS", raising=False)
    assert _address_seen() == "127.0.0.1"


def test_a_proxy_that_the_environment_names_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "127.0.0.1")
    assert _address_seen() == FORGED
