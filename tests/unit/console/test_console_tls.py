"""The console's own certificate: taken anew while it serves, and never half of it."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from kavka.console.access.headers import HSTS, SecurityHeaders
from kavka.console.settings import ConsoleSettings, parse_settings
from kavka.errors import ConfigError
from kavka.runtime.tls.server_tls import ServerTls, ServerTlsSettings
from tests.kit.asgi_client import AsgiClient
from tests.kit.certificates import Authority


async def name_shown(tls: ServerTls, authority: Authority) -> str:
    """The common name that a browser sees, by a real handshake. Raises ssl.SSLError."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls.context)
    trust = ssl.create_default_context(cadata=authority.certificate)
    async with server:
        port = server.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
        shown = writer.get_extra_info("peercert")["subject"]
        writer.close()
    return str(dict(pair for (pair,) in shown)["commonName"])


def test_a_new_certificate_is_taken_without_a_restart_and_a_broken_one_is_not(tmp_path: Path) -> None:
    authority = Authority()
    file = authority.sign("first").write(tmp_path / "console.pem")
    tls = ServerTls(ServerTlsSettings(certificate=str(file)))

    async def run() -> None:
        assert await name_shown(tls, authority) == "first"
        assert not tls.reload_if_changed()
        authority.sign("second").write(file)
        assert tls.reload_if_changed()
        assert await name_shown(tls, authority) == "second"
        file.write_text(authority.sign("third").certificate + authority.sign("another's").key)
        assert not tls.reload_if_changed()
        assert await name_shown(tls, authority) == "second"
        file.unlink()
        assert not tls.reload_if_changed()
        assert await name_shown(tls, authority) == "second"
        authority.sign("fourth").write(file)
        assert tls.reload_if_changed()
        assert await name_shown(tls, authority) == "fourth"

    asyncio.run(run())


def test_key_and_certificate_may_lie_in_two_files(tmp_path: Path) -> None:
    authority = Authority()
    signed = authority.sign("console")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.write_text(signed.certificate)
    key.write_text(signed.key)
    tls = ServerTls(ServerTlsSettings(certificate=str(certificate), key=str(key)))
    assert asyncio.run(name_shown(tls, authority)) == "console"


def test_it_does_not_start_with_files_that_it_cannot_use(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no-such-file"):
        ServerTls(ServerTlsSettings(certificate=str(tmp_path / "no-such-file")))


def test_settings_name_the_files() -> None:
    found = parse_settings('tls = { certificate = "/a.pem", key = "/b.pem" }')
    assert found.tls == ServerTlsSettings(certificate="/a.pem", key="/b.pem")
    assert found.is_https
    assert not ConsoleSettings().is_https
    for wrong in ("tls = true", "tls = {}", 'tls = { certificate = "/a.pem", keys = "/b.pem" }'):
        with pytest.raises(ConfigError):
            parse_settings(wrong)


async def _page(scope: object, receive: object, send: object) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]  # ASGI
    await send({"type": "http.response.body", "body": b""})  # type: ignore[operator]  # ASGI


@pytest.mark.parametrize(
    ("host", "is_https", "told"),
    [("console.example", True, HSTS), ("console.example", False, None), ("localhost:8090", True, None)],
)
def test_browsers_are_told_to_come_by_https_alone_but_for_the_loopback(
    host: str, is_https: bool, told: str | None
) -> None:
    client = AsgiClient(SecurityHeaders(_page, is_https=is_https), host=host)
    assert client.get("/").headers.get("strict-transport-security") == told
