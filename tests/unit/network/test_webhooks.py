"""Webhooks that are slow, or lead elsewhere: what counts as delivered, and that nothing is left of a try."""

from __future__ import annotations

import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler

import pytest

from kavka.runtime.http import webhooks
from kavka.runtime.http.webhooks import NotDelivered, Refused, post
from tests.kit.http_server import HttpServer, QuietHandler
from tests.kit.speaker import speaker


class Receiver(HttpServer):
    def __init__(self, status: int = 200, **headers: str) -> None:
        self.status, self.headers = status, headers
        self.received: list[object] = []
        super().__init__()

    def _handler(self) -> type[QuietHandler]:
        receiver = self

        class Handler(QuietHandler, BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.answer(receiver.status, b"said", **receiver.headers)

        return Handler


def threads() -> int:
    return sum(each.name == "kavka-webhook" for each in threading.enumerate())


@pytest.mark.parametrize("first", [b"H", b"HTTP/1.0 200 OK\r\nContent-Length: 300\r\n\r\n"])
def test_who_sends_a_byte_now_and_then_has_not_taken_it_and_the_connection_ends(
    monkeypatch: pytest.MonkeyPatch, first: bytes
) -> None:
    """A time-out for each read alone held up all alerts behind this one, and the book in which they are noted."""
    monkeypatch.setattr(webhooks, "TIMEOUT_S", 0.4)
    ended = threading.Event()

    def drip(peer: socket.socket) -> None:
        try:
            peer.sendall(first)
            for _ in range(400):
                time.sleep(0.05)
                peer.sendall(b" ")
        except OSError:
            ended.set()

    with speaker(drip) as address:
        began = time.monotonic()
        with pytest.raises(NotDelivered):
            post(address, {})
        assert time.monotonic() - began < 5
        assert ended.wait(10)
    deadline = time.monotonic() + 10
    while threads() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not threads()


def test_what_is_answered_decides() -> None:
    with Receiver() as well, Receiver(503) as ill, Receiver(302, Location="http://127.0.0.1:1/") as elsewhere:
        post(well.address, {"a": 1})
        assert well.received == [{"a": 1}]
        with pytest.raises(Refused, match="it answered 503 said"):
            post(ill.address, {})
        with pytest.raises(Refused, match="it answered 302"):
            post(elsewhere.address, {})
    with pytest.raises(NotDelivered, match="refused"):
        post(well.address, {})
    with pytest.raises(NotDelivered, match="unknown url type"):
        post("nowhere", {})


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as proxy:
        monkeypatch.setenv("http_proxy", proxy.address)
        monkeypatch.delenv("no_proxy", raising=False)
        post("http://hooks.example/kavka", {"b": 2})
        assert proxy.received == [{"b": 2}]
