"""Which cluster a command talks to, and with what login."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.cli import login
from kavka.cli.login import ADMIN_FILE, way_to
from kavka.errors import ConfigError

LOGIN = (
    "bootstrap.servers=127.0.0.1:7001,127.0.0.1:7002\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
    "sasl.username=ada\nsasl.password=x\n"
)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("KAVKA_BOOTSTRAP", "KAVKA_CLIENT_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(login, "_chosen", [])


def written(path: str, mode: int = 0o600) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(LOGIN)
    Path(path).chmod(mode)
    return path


def test_without_anything_it_is_a_broker_of_this_machine() -> None:
    assert way_to(None) == ("127.0.0.1:9092", login.way_to(None).login, "")
    assert way_to(None).login.sasl is None


def test_a_file_names_brokers_and_login_and_the_command_line_names_other_brokers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    login.choose_file(written("ada.properties"))
    found = way_to(None)
    assert found.addresses == "127.0.0.1:7001,127.0.0.1:7002"
    assert found.login.sasl is not None
    monkeypatch.setenv("KAVKA_BOOTSTRAP", "other:1")
    assert way_to(None).addresses == "other:1"
    assert way_to("third:1").addresses == "third:1"
    assert way_to("third:1").login.sasl is not None


def test_the_environment_names_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAVKA_CLIENT_CONFIG", written("ada.properties"))
    assert way_to(None).file == "ada.properties"
    monkeypatch.setenv("KAVKA_CLIENT_CONFIG", "missing.properties")
    with pytest.raises(OSError, match="missing"):
        way_to(None)


def test_the_file_of_a_secured_cluster_below_the_working_directory() -> None:
    written(ADMIN_FILE)
    assert way_to(None).file == ADMIN_FILE
    assert way_to("127.0.0.1:7002").file == ADMIN_FILE
    assert way_to("127.0.0.1:9092").file == ""
    assert way_to("127.0.0.1:9092").login.sasl is None


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660])
def test_a_file_below_the_working_directory_that_others_may_read_gives_no_orders(mode: int) -> None:
    written(ADMIN_FILE, mode)
    assert way_to(None).addresses == "127.0.0.1:9092"


def test_a_file_that_asks_for_what_there_is_not_is_named() -> None:
    Path("x.properties").write_text("security.protocol=KERBEROS\n")
    login.choose_file("x.properties")
    with pytest.raises(ConfigError, match=r"x\.properties: security\.protocol"):
        way_to(None)
