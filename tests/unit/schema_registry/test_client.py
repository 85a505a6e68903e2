"""The client of a registry against whatever may answer: how long it waits, whom it asks, what it says."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from kavka.runtime.http import http_services
from kavka.schema_registry import client
from kavka.schema_registry.client import RegistryClient, RegistryFailed, SchemaRegistry, SchemaUnknown
from tests.kit.certificates import Authority
from tests.kit.http_server import HttpServer, QuietHandler
from tests.kit.schema_registry_server import RegistryServer
from tests.kit.speaker import speaker

INT = {"subject": "s", "version": 1, "id": 7, "schema": '"int"'}
GOOD = json.dumps(INT).encode()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAUSE_S", 0.01)


class Scripted(HttpServer):
    """Answers one after the other, the last one again and again: status, body and further headers."""

    def __init__(self, *answers: tuple[int, bytes, dict[str, str]]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.authorization: list[str | None] = []
        super().__init__()

    def _handler(self) -> type[QuietHandler]:
        script = self

        class Handler(QuietHandler, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                script.asked.append(self.path)
                script.authorization.append(self.headers.get("Authorization"))
                status, body, headers = script.answers.pop(0) if len(script.answers) > 1 else script.answers[0]
                self.answer(status, body, **headers)

        return Handler


def refused(code: int, message: str = "no") -> bytes:
    return json.dumps({"error_code": code, "message": message}).encode()


def ends_soon(seconds: float, ask: Callable[[], object]) -> str:
    """What it raises, within so many seconds."""
    began = time.monotonic()
    with pytest.raises(RegistryFailed) as failed:
        ask()
    assert time.monotonic() - began < seconds
    return str(failed.value)


@pytest.mark.parametrize(
    "first", [b"H", b"HTTP/1.0 200 OK\r\nContent-Length: 99\r\n\r\n{", b"HTTP/1.0 200 OK\r\n\r\n{"]
)
def test_who_sends_a_byte_now_and_then_is_left(monkeypatch: pytest.MonkeyPatch, first: bytes) -> None:
    """A time-out for each read alone let one question last for weeks."""
    monkeypatch.setattr(client, "ANSWER_S", 0.3)

    def drip(peer: socket.socket) -> None:
        peer.sendall(first)
        for _ in range(200):
            time.sleep(0.05)
            peer.sendall(b" ")

    with speaker(drip) as address:
        said = ends_soon(5, lambda: RegistryClient(address).fetch(1))
    assert said.startswith(f"the schema registry at {address} does not answer: ")


def test_a_head_that_never_ends_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER_S", 0.3)

    def go_on(peer: socket.socket) -> None:
        while True:
            peer.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    with speaker(go_on) as address:
        assert "does not answer" in ends_soon(5, lambda: RegistryClient(address).fetch(1))


def test_a_name_that_is_looked_up_for_ever_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER_S", 0.2)
    done = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: done.wait(60))
    try:
        said = ends_soon(5, lambda: RegistryClient("http://registry.example:8081").fetch(1))
    finally:
        done.set()
    assert "does not answer: there was no answer within 0.2 s" in said


def test_all_references_together_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty references that come in five seconds each, four times over, are a quarter of an hour."""
    monkeypatch.setattr(client, "WHOLE_S", 0.5)
    chain = {**INT, "references": [{"name": "n", "subject": "s", "version": 1}]}

    def slow(peer: socket.socket) -> None:
        time.sleep(0.2)
        number = str(time.monotonic_ns())
        body = json.dumps({**chain, "references": [{"name": number, "subject": "s", "version": 1}]}).encode()
        peer.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + body)

    with speaker(slow) as address:
        said = ends_soon(5, lambda: RegistryClient(address, tries=4).fetch(1))
    assert said == f"the schema registry at {address} took longer than 0.5 s altogether"


@pytest.mark.parametrize(
    ("status", "body", "headers", "told"),
    [
        (401, refused(401), {}, "answered 401: no. Its address takes a login: http://NAME:PASSWORD@HOST:PORT"),
        (403, refused(40301), {}, "answered 403: no. The user of its address may not do this"),
        (409, refused(409), {}, "answered 409: no"),
        (422, refused(42201), {}, "answered 422: no"),
        (400, b"", {}, "answered 400"),
        (
            302,
            b"",
            {"Location": "https://ada:pw@other.example/schemas?token=pw"},
            "answered 302 and leads to https://other.example/schemas: redirects are not followed. "
            "Name the registry's own address",
        ),
        (307, b"", {"Location": "/login"}, "answered 307 and leads to /login: redirects are not followed."),
        (304, b"", {}, "answered 304 and leads: redirects"),
    ],
)
def test_what_will_not_pass_is_asked_for_once(status: int, body: bytes, headers: dict[str, str], told: str) -> None:
    with Scripted((status, body, headers)) as server:
        with pytest.raises(RegistryFailed) as failed:
            RegistryClient(server.address, tries=4).fetch(1)
        assert not isinstance(failed.value, SchemaUnknown)
        assert f"{server.address}/schemas/ids/1 {told}" in str(failed.value)
        assert "pw" not in str(failed.value)
        assert len(server.asked) == 1


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_may_pass_is_asked_for_again(status: int) -> None:
    with Scripted((status, refused(status), {}), (status, b"", {}), (200, GOOD, {})) as server:
        assert RegistryClient(server.address, tries=4).version("s", "latest").number == 7
        assert len(server.asked) == 3
    with Scripted((status, refused(status, "later"), {})) as server:
        with pytest.raises(RegistryFailed, match=f"answered {status}: later$"):
            RegistryClient(server.address, tries=3).fetch(1)
        assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("body", "headers", "told"),
    [
        (b"\xff\xfe\x00\xd8", {}, "did not answer in JSON: is that a registry?"),
        (b'{"schema": "\xe4"}', {}, "did not answer in JSON"),
        (gzip.compress(GOOD, mtime=0), {"Content-Encoding": "gzip"}, "Content-Encoding gzip, which was not asked for"),
        (b"[]", {}, "something else than an object"),
        (b'{"id": 1, "version": 1}', {}, "without a schema"),
        (b'{"schema": "\\"int\\"", "version": 1, "id": 1e999}', {}, "without an id"),
        (b'{"schema": "\\"int\\"", "version": 1, "id": 4294967296}', {}, "without an id"),
        (b'{"schema": "\\"int\\"", "version": true, "id": 1}', {}, "without a version"),
        (b'{"schema": "\\"int\\"", "version": 1, "id": ' + b"9" * 5000 + b"}", {}, "did not answer in JSON"),
    ],
)
def test_an_answer_that_is_none_is_told(body: bytes, headers: dict[str, str], told: str) -> None:
    with Scripted((200, body, headers)) as server:
        assert told in ends_soon(5, lambda: RegistryClient(server.address).version("s", "latest"))


def test_what_a_registry_says_is_shown_in_a_line_that_can_be_encoded() -> None:
    """Half of a character ended the task that reported it, with a fault of its own."""
    with Scripted((500, refused(50001, "a\nb\x1b[31m\ud800" + "x" * 5000), {})) as server:
        said = ends_soon(5, lambda: RegistryClient(server.address).fetch(1))
    said.encode()
    assert "a b [31m x" in said
    assert said.isprintable()
    assert len(said) < 1_200


def test_reasons_are_shown_however_long_they_are() -> None:
    """An answer of which a part was read was no JSON, and nothing of it was shown."""
    with Scripted((409, refused(409, "READER_FIELD_MISSING" + "x" * 20_000), {})) as server:
        assert "READER_FIELD_MISSING" in ends_soon(5, lambda: RegistryClient(server.address).fetch(1))


def test_a_connection_that_ends_in_the_midst_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{",
        b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(GOOD), GOOD),
    ]

    def speak(peer: socket.socket) -> None:
        # A reset, not an end.
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0" if len(said) > 1 else b"\0" * 8)
        peer.sendall(said.pop(0))

    with speaker(speak) as address:
        assert RegistryClient(address, tries=3).version("s", "1").text == '"int"'


def test_of_several_addresses_the_first_that_answers_counts() -> None:
    with RegistryServer() as gone:
        pass
    with Scripted((503, b"", {})) as ill, Scripted((200, GOOD, {})) as well:
        several = f"{gone.address}, {ill.address},{well.address.replace('://', '://ada:secret@')}"
        found = RegistryClient(several)
        assert found.address == f"{gone.address},{ill.address},{well.address}"
        assert found.version("s", "latest").number == 7
        assert found.version("s", "latest").number == 7
        # The one that answered is asked first from then on, and each login goes to its own address alone.
        assert (len(ill.asked), len(well.asked)) == (1, 2)
        assert ill.authorization == [None]
        assert well.authorization == ["Basic YWRhOnNlY3JldA=="] * 2
        well.answers = [(404, refused(40401, "Subject 's' not found."), {})]
        with pytest.raises(SchemaUnknown, match="Subject 's' not found"):
            found.version("s", "latest")
        assert len(ill.asked) == 1, "who knows that there is none is believed"
    said = ends_soon(20, lambda: found.version("s", "latest"))
    assert all(said.count(each.address) == 1 for each in (gone, ill, well))
    assert "secret" not in said


def test_a_login_does_not_follow_a_redirect() -> None:
    with Scripted((200, GOOD, {})) as other:
        with Scripted((301, b"", {"Location": f"{other.address}/schemas/ids/1"})) as server:
            asked = RegistryClient(server.address.replace("://", "://ada:secret@"), tries=4)
            with pytest.raises(RegistryFailed, match=f"leads to {other.address}/schemas/ids/1: redirects are not"):
                asked.fetch(1)
        assert other.asked == []


@pytest.mark.parametrize(
    "address",
    [
        "http://ada:pa/ss@host:8081",
        "http://ada:12/ss@host:8081",
        "http://ada:p#ss@host",
        "http://ada:p?ss@host",
        "http://ada:pa[ss@host:8081",
        "http://ada:pa\u2100ss@host:8081",
        "ftp://ada:pass@host",
        "http://ada:pass@host:0",
        "http://ada:pass@host:x",
        "http://ada:pass@",
        "http://one:8081,http://ada:pa/ss@two",
    ],
)
def test_an_address_that_is_none_is_told_without_its_password(address: str) -> None:
    """A slash in a password made the rest of it a port, and the error said which."""
    with pytest.raises(ValueError, match="not the address of a registry: write ") as failed:
        RegistryClient(address)
    assert "pa" not in str(failed.value).replace("password", "")
    assert "12" not in str(failed.value)
    assert failed.value.__suppress_context__ or failed.value.__context__ is None


def test_a_certificate_of_another_authority_is_told_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority()
    (tmp_path / "authority.pem").write_text(authority.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.sign("registry").write(tmp_path / "registry.pem"))
    with Scripted((200, GOOD, {})) as server:
        server.secure(context)
        said = ends_soon(5, lambda: RegistryClient(server.address, tries=4).version("s", "1"))
        assert f"the schema registry at {server.address} is not asked: its certificate is not believed: " in said
        assert said.endswith("SSL_CERT_FILE=FILE names authorities to believe")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
        assert RegistryClient(server.address).version("s", "1").number == 7
        plain = server.address.replace("https", "http")
        assert "does not answer" in ends_soon(10, lambda: RegistryClient(plain).version("s", "1"))
    with Scripted((200, GOOD, {})) as server:
        secured = server.address.replace("http", "https")
        assert "it speaks no TLS that is understood" in ends_soon(10, lambda: RegistryClient(secured).version("s", "1"))


def test_a_missing_reference_is_told_as_what_it_is() -> None:
    with RegistryServer() as server:
        server.schemas[8] = {"schema": '"int"', "references": [{"name": "P", "subject": "person", "version": 2}]}
        with pytest.raises(SchemaUnknown, match=r"schema 8 refers to what the registry does not have: .*/person/"):
            RegistryClient(server.address).fetch(8)


def test_a_registry_that_is_away_is_not_asked_for_each_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page with a hundred ids waited five seconds for each."""
    monkeypatch.setattr(client, "ANSWER_S", 0.3)
    asked: list[int] = []

    def silent(peer: socket.socket) -> None:
        asked.append(1)
        time.sleep(1)

    async def ask(address: str) -> list[object]:
        registry = SchemaRegistry(address)
        return [await registry.schema(number) for number in range(20)]

    with speaker(silent) as address:
        found = asyncio.run(ask(address))
    assert all(isinstance(each, str) and "does not answer" in each for each in found)
    assert len(asked) == 1


def test_within_raises_what_was_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        http_services.within(5, lambda: 1 // 0, "test")
    assert http_services.within(5, lambda: 7, "test") == 7
