"""The directory of a secured cluster: what is there is used, what is missing is made, whatever came before."""

from __future__ import annotations

import shutil
import stat
import time
from pathlib import Path

import pytest

from kavka.client.login import client_login
from kavka.config.properties import parse_properties
from kavka.config.tls import TlsSettings
from kavka.runtime.tls import security_directory
from kavka.runtime.tls.security_directory import CLIENT_RULES, NotSecurable, SecurityDirectory
from kavka.runtime.tls.tls_contexts import require_handshake, tls_contexts
from kavka.security.certificates import Certificate, read_certificate
from kavka.security.key_stores import StoreSettings, read_identity
from kavka.security.ssl_principal_rules import PrincipalRules

NOW_MS = int(time.time()) * 1000
"""OpenSSL has a clock of its own: certificates must be valid now."""
DAY_MS = 86_400_000
BROKERS = (1, 2, 3)


class Killed(BaseException):
    """What kill -9 is to a test in this process."""


def certificate(path: str | Path) -> Certificate:
    return read_certificate(read_identity(Path(path).read_bytes(), StoreSettings("key", "PEM")).chain[0])


def made(path: Path, *, mtls: bool = False, names: tuple[str, ...] = ("kafka.example.com",)) -> SecurityDirectory:
    directory = SecurityDirectory(path, shows_certificates=mtls)
    directory.prepare(BROKERS, names, NOW_MS)
    directory.write_client_files("127.0.0.1:1,127.0.0.1:2")
    return directory


def require_whole(directory: SecurityDirectory) -> None:
    """Brokers can talk to each other, and the administrator's files fit together."""
    settings = {number: tls_settings(directory, number) for number in BROKERS}
    require_handshake(tls_contexts(settings[1]), tls_contexts(settings[2]))
    for name, separator in (("admin.properties", ""), ("admin.librdkafka.conf", "")):
        login = client_login(
            parse_properties((directory.path / name).read_text() + separator), read=lambda path: Path(path).read_bytes()
        )
        assert login.bootstrap == "127.0.0.1:1,127.0.0.1:2"
        assert login.tls is not None
        login.tls.context()
        if directory.shows_certificates:
            assert login.sasl is None
            assert login.tls.certificate is not None
        else:
            assert login.sasl is not None
            assert login.sasl.password == directory.password.reveal()
    for file in directory.path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700


def tls_settings(directory: SecurityDirectory, number: int) -> TlsSettings:
    return TlsSettings(
        "BROKERS",
        StoreSettings("key", "PEM", directory.broker_file(number)),
        StoreSettings("trust", "PEM", directory.file("ca.pem")),
        "required",
        frozenset({"TLSv1.2", "TLSv1.3"}),
        None,
        True,
        "DEFAULT",
        False,
        False,
    )


def contents(path: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in path.iterdir()}


@pytest.mark.parametrize("mtls", [False, True])
def test_what_is_made_fits_together_and_a_second_start_uses_it(tmp_path: Path, mtls: bool) -> None:
    directory = made(tmp_path / "security", mtls=mtls)
    require_whole(directory)
    assert len(directory.password.reveal()) == 24
    found = certificate(directory.broker_file(2))
    assert found.subject == "CN=broker,OU=brokers,O=kavka"
    assert {"DNS:localhost", "IP:7f000001", "DNS:kafka.example.com"} <= found.alternative_names
    assert (found.not_after_ms - NOW_MS) == 397 * DAY_MS
    if mtls:
        subject = certificate(directory.file("admin.pem")).subject
        assert PrincipalRules(CLIENT_RULES).name(subject) == "admin"
    before = contents(directory.path)
    made(tmp_path / "security", mtls=mtls)
    assert contents(directory.path) == before


@pytest.mark.parametrize("mtls", [False, True])
def test_a_start_that_was_killed_between_any_two_writes_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mtls: bool
) -> None:
    write = security_directory.write_private
    left = -1

    def until_killed(path: Path, text: str) -> None:
        nonlocal left
        if left == 0:
            path.with_name(f".{path.name}.new").write_text("half of a fi")
            raise Killed
        left -= 1
        write(path, text)

    for before in range(20):
        path = tmp_path / str(before)
        monkeypatch.setattr(security_directory, "write_private", until_killed)
        left = before
        try:
            made(path, mtls=mtls)
        except Killed:
            pass
        else:
            assert before >= 10
            return
        monkeypatch.setattr(security_directory, "write_private", write)
        directory = made(path, mtls=mtls)
        for leftover in path.glob(".*.new"):
            leftover.unlink()  # Of a file that was there already.
        require_whole(directory)
        assert directory.password_is_new, "ZooKeeper was never told"
    raise AssertionError("a start has no end")


def test_certificates_are_renewed_at_two_thirds_of_their_time_and_not_before(tmp_path: Path) -> None:
    directory = made(tmp_path)
    before = contents(tmp_path)
    names = ("kafka.example.com",)
    assert directory.renew(BROKERS, names, NOW_MS + 264 * DAY_MS) == []
    assert contents(tmp_path) == before
    later = NOW_MS + 265 * DAY_MS
    assert directory.renew(BROKERS, names, later) == [*(f"broker-{number}.pem" for number in BROKERS), "console.pem"]
    assert certificate(directory.broker_file(1)).not_after_ms == later + 397 * DAY_MS


def test_another_name_and_another_broker_need_certificates(tmp_path: Path) -> None:
    directory = made(tmp_path)
    directory.prepare((1, 2, 3, 4), ("kafka.example.com", "10.0.0.7"), NOW_MS)
    for number in (1, 4):
        assert "IP:0a000007" in certificate(directory.broker_file(number)).alternative_names
    before = contents(tmp_path)
    directory.prepare((1, 2, 3), ("10.0.0.7",), NOW_MS)
    assert contents(tmp_path) == before, "a name too many is no reason"


def test_the_authoritys_key_may_be_kept_elsewhere_until_it_is_needed(tmp_path: Path) -> None:
    directory = made(tmp_path)
    (tmp_path / "authority.pem").unlink()
    directory.prepare(BROKERS, (), NOW_MS)
    with pytest.raises(NotSecurable, match=r"authority\.pem is not there"):
        directory.prepare((4,), (), NOW_MS)


@pytest.mark.parametrize("name", ["authority.pem", "ca.pem", "broker-1.pem"])
def test_what_cannot_be_read_is_a_refusal_and_stays(tmp_path: Path, name: str) -> None:
    directory = made(tmp_path)
    if name == "ca.pem":
        (tmp_path / "authority.pem").unlink()
    (tmp_path / name).write_text("no certificate")
    with pytest.raises(NotSecurable):
        directory.prepare(BROKERS, (), NOW_MS)
    assert (tmp_path / name).read_text() == "no certificate"


def test_certificates_of_an_authority_before_are_signed_anew(tmp_path: Path) -> None:
    made(tmp_path / "one")
    directory = made(tmp_path / "two")
    shutil.copy(tmp_path / "one" / "broker-1.pem", tmp_path / "two" / "broker-1.pem")
    made(tmp_path / "two")
    require_whole(directory)


def test_no_password_or_key_shows(tmp_path: Path) -> None:
    directory = made(tmp_path, mtls=True)
    shown = repr(directory.admin("a:1")) + repr(directory.password)
    assert "PRIVATE" not in shown
    assert directory.password.reveal() not in shown
