"""The files of the cluster in a page, shown by the console: only those, and with what a browser needs to run them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("starlette")

from kavka.console.app import create_app
from kavka.console.pages.playground import NEEDED
from kavka.console.settings import ConsoleSettings
from kavka.errors import ConfigError
from tests.kit.asgi_client import AsgiClient


@pytest.fixture
def files(tmp_path: Path) -> Path:
    place = tmp_path / "site"
    for name in NEEDED:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(name)
    (tmp_path / "secret").write_text("not for readers")
    (place / "secret").write_text("not for readers")
    return place


def client(tmp_path: Path, playground: str) -> AsgiClient:
    return AsgiClient(create_app(ConsoleSettings(data_directory=str(tmp_path / "data"), playground=playground)))


def test_its_pages_may_compile_web_assembly_and_the_consoles_own_may_not(tmp_path: Path, files: Path) -> None:
    reader = client(tmp_path, str(files))

    page = reader.get("/play/")
    assert (page.status, page.text) == (200, "play/index.html")
    worker = reader.get("/cluster/worker.js")
    assert "'wasm-unsafe-eval'" in worker.headers["content-security-policy"]
    assert "unsafe-eval" not in worker.headers["content-security-policy"].replace("wasm-unsafe-eval", "")
    assert worker.headers["content-type"].startswith("text/javascript")
    assert "wasm" not in reader.get("/").headers["content-security-policy"]
    again = reader.get("/cluster/kavka.zip", **{"if-none-match": reader.get("/cluster/kavka.zip").headers["etag"]})
    assert again.status == 304


@pytest.mark.parametrize("path", ["/play/../secret", "/play/%2e%2e/secret", "/play/../../secret", "/play//etc/passwd"])
def test_no_other_file_is_shown(tmp_path: Path, files: Path, path: str) -> None:
    answer = client(tmp_path, str(files)).get(path)
    assert answer.status == 404
    assert "not for readers" not in answer.text


def test_without_the_setting_there_is_none_and_a_directory_without_it_is_refused(tmp_path: Path) -> None:
    answer = client(tmp_path, "").get("/play/")
    assert answer.status == 404
    assert "docs/playground.md" in answer.text
    with pytest.raises(ConfigError, match=r"has no play/index.html: `make playground`"):
        client(tmp_path, str(tmp_path))
