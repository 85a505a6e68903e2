"""The command that adds an extra: from where this kavka came."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from kavka import installation
from kavka.installation import install_command


class Installed:
    """A distribution with this direct_url.json."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def read_text(self, name: str) -> str | None:
        return self.text if name == "direct_url.json" else None


def command(monkeypatch: pytest.MonkeyPatch, text: str | None) -> str:
    monkeypatch.setattr(installation, "distribution", lambda name: Installed(text))
    return install_command("console")


def test_from_a_checkout_it_is_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "my kavka"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    said = command(monkeypatch, f'{{"dir_info": {{}}, "url": "{folder.as_uri()}"}}')
    assert shlex.split(said) == ["pip", "install", f"{folder}[console]"]


@pytest.mark.parametrize(
    "text",
    [None, "", "no JSON", "{}", '{"url": 1}', '{"url": "file:///no/such/folder"}', '{"url": "https://host/kavka.zip"}'],
)
def test_from_anywhere_else_it_is_the_index(monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    assert command(monkeypatch, text) == "pip install 'kavka[console]'"


def test_of_this_very_installation_it_can_be_said() -> None:
    assert shlex.split(install_command("spark"))[2].endswith("[spark]")
