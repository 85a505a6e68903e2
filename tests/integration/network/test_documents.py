"""Documents at addresses: read whole, in time, from whom they should come, or not at all."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka.errors import ConnectionFailed
from kavka.runtime.http import documents
from kavka.runtime.http.documents import MAX_BYTES, fetch_document
from kavka.security.key_stores import StoreSettings
from tests.kit.keys_server import KeysServer

NONE = StoreSettings("trust")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KeysServer]:
    with KeysServer(tmp_path, b'{"keys": [1]}') as running:
        yield running


def believing(server: KeysServer) -> StoreSettings:
    return StoreSettings("trust", "PEM", text=server.authority.certificate)


def read(url: str, trust: StoreSettings = NONE) -> bytes:
    return asyncio.run(fetch_document(url, trust))


def test_a_document_is_read_from_a_server_that_is_believed(server: KeysServer) -> None:
    assert read(server.url, believing(server)) == b'{"keys": [1]}'


@pytest.mark.parametrize(
    ("manner", "why"),
    [
        ("redirects", "answered 302: redirects are not followed"),
        ("fails", "answered 500"),
        ("huge", f"is longer than {MAX_BYTES} bytes"),
        ("endless", f"is longer than {MAX_BYTES} bytes"),
        ("cut", "ended before its answer did"),
    ],
)
def test_what_is_answered_badly_is_not_read(server: KeysServer, manner: str, why: str) -> None:
    server.manner = manner
    with pytest.raises(ConnectionFailed, match=why) as failed:
        read(server.url, believing(server))
    assert "canary" not in str(failed.value)
    assert server.asked == 1


@pytest.mark.parametrize("manner", ["silent", "drips", "drips headers"])
def test_whoever_takes_his_time_is_not_waited_for(
    server: KeysServer, manner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "TIMEOUT_S", 0.5)
    server.manner = manner
    with pytest.raises(ConnectionFailed):
        read(server.url, believing(server))
    # Nor does the thread stay that read.
    deadline = time.monotonic() + 60
    while any(each.name == "kavka-document" for each in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_document_that_was_cut_off_is_none(server: KeysServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the thread that reads is first: what came until then ends as an answer without a length does."""
    monkeypatch.setattr(documents, "TIMEOUT_S", 0.5)
    server.manner = "drips"
    with pytest.raises(ConnectionFailed):
        documents.read_document(server.url, believing(server))


def test_a_server_must_be_the_host_of_the_address_and_believed(server: KeysServer, tmp_path: Path) -> None:
    with pytest.raises(ConnectionFailed, match="its certificate is not believed"):
        read(server.url)
    with KeysServer(tmp_path, b"{}", names=("other.example",)) as other:
        with pytest.raises(ConnectionFailed, match="its certificate is not believed"):
            read(other.url, believing(other))
        assert other.asked == 0
    assert server.asked == 0


def test_nobody_there_is_a_failure_as_others() -> None:
    with pytest.raises(ConnectionFailed, match="refused"):
        read("https://127.0.0.1:1/keys")
    with pytest.raises(ConnectionFailed):
        read("https://no.such.host.invalid/keys")


def test_a_trust_store_that_cannot_be_read_is_a_failure(server: KeysServer, tmp_path: Path) -> None:
    for store in (
        StoreSettings("trust", "PEM", str(tmp_path / "nothing")),
        StoreSettings("trust", "PEM", text="garbage"),
    ):
        with pytest.raises(ConnectionFailed):
            read(server.url, store)


def test_a_file_is_a_document(tmp_path: Path) -> None:
    file = tmp_path / "the keys.json"
    file.write_bytes(b"{}")
    assert read(f"file://{tmp_path}/the%20keys.json") == b"{}"
    file.write_bytes(b" " * (MAX_BYTES + 1))
    os.mkfifo(tmp_path / "pipe")
    for name, why in (
        ("the%20keys.json", "longer than"),
        ("nothing", "No such file"),
        ("pipe", "not a file"),
        ("", "Is a directory|no file"),
    ):
        with pytest.raises(ConnectionFailed, match=why):
            read(f"file://{tmp_path}/{name}")
