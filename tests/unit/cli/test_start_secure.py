"""`kavka up` is not open by accident, and what was secured is not opened by leaving an option out."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.cli.run.start import Start, WrongUsage, settings_of, start
from kavka.cli.run.start_cluster import settings_of_broker
from kavka.cli.run.start_secure import checked, require_closed
from kavka.config.broker import BrokerConfig
from kavka.config.sasl import sasl_listeners
from kavka.config.tls import tls_settings

OPEN = (
    Start(host="10.0.0.1"),
    Start(host="0.0.0.0", advertise="kafka.example.com"),
    Start(host="::", advertise="localhost"),
    Start(advertise="kafka.example.com"),
    Start(advertise="kafka.example.com:19092"),
    Start(settings=("listeners=PLAINTEXT://10.0.0.1:9092",)),
    Start(settings=("listeners=PLAINTEXT://127.0.0.1:9092", "advertised.listeners=PLAINTEXT://kafka:9092")),
)
CLOSED = (Start(), Start(host="localhost"), Start(host="::1"), Start(host="127.0.0.2"), Start(advertise="localhost:1"))


@pytest.mark.parametrize("plan", OPEN)
def test_an_address_that_others_reach_needs_a_word(plan: Start) -> None:
    with pytest.raises(WrongUsage, match=r"--secure .*--insecure"):
        require_closed(plan, settings_of(plan))


@pytest.mark.parametrize("plan", CLOSED)
def test_the_loopback_needs_none(plan: Start) -> None:
    require_closed(plan, settings_of(plan))


@pytest.mark.parametrize("more", [{}, {"brokers": 3}, {"brokers": 3, "processes": True}])
def test_every_way_of_up_refuses_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: dict[str, int]
) -> None:
    data = tmp_path / "data"
    assert start(Start(host="0.0.0.0", advertise="kafka", data=str(data), **more)) == 2  # type: ignore[arg-type]  # a bool is an int
    said = capsys.readouterr().err
    assert "--secure" in said
    assert "--insecure" in said
    assert not data.exists()


def secured(tmp_path: Path, **options: object) -> Start:
    return checked(Start(data=str(tmp_path), secure=True, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"insecure": True}, "the opposite"),
        ({"zookeeper_port": 0}, "--zookeeper-port and --secure"),
        ({"processes": True}, "--processes and --secure"),
        ({"settings": ("super.users=User:mallory",)}, "--set super.users"),
        ({"settings": ("allow.everyone.if.no.acl.found=true",)}, "--set allow.everyone"),
        ({"settings": ("listeners=PLAINTEXT://:1",)}, "--set listeners"),
        ({"settings": ("ssl.client.auth=none",)}, "--set ssl.client.auth"),
        ({"settings": ("listener.name.brokers.ssl.client.auth=none",)}, "--set listener.name"),
        ({"settings": ("kavka.metrics.host=0.0.0.0",)}, "--set kavka.metrics.host"),
    ],
)
def test_what_would_open_a_secured_cluster_is_refused(tmp_path: Path, options: dict[str, object], said: str) -> None:
    with pytest.raises(WrongUsage, match=said):
        secured(tmp_path, **options)


def test_certificates_for_clients_are_a_way_of_secure(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match="--secure"):
        checked(Start(data=str(tmp_path), mtls=True))


def test_what_was_secured_stays_so(tmp_path: Path) -> None:
    (tmp_path / "security").mkdir()
    assert checked(Start(data=str(tmp_path))).secure
    assert not checked(Start(data=str(tmp_path))).mtls
    with pytest.raises(WrongUsage, match="is secured"):
        checked(Start(data=str(tmp_path), insecure=True))
    (tmp_path / "security" / "admin.pem").touch()
    assert checked(Start(data=str(tmp_path))).mtls
    assert not secured(tmp_path).mtls


@pytest.mark.parametrize("mtls", [False, True])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_the_settings_of_a_secured_broker(tmp_path: Path, mtls: bool, host: str) -> None:
    plan = secured(tmp_path, mtls=mtls, host=host, advertise="kafka.example.com", metrics_port=9404)
    config = BrokerConfig.from_properties(settings_of_broker(plan, 2, 3))
    assert config.clear_text_endpoints == ()
    require_closed(plan, config)
    protocols = {each.listener: each.security_protocol for each in config.listener_endpoints}
    assert protocols == {("SSL" if mtls else "SASL_SSL"): ("SSL" if mtls else "SASL_SSL"), "BROKERS": "SSL"}
    assert config.inter_broker_listener == "BROKERS"
    hosts = {each.listener: each.host for each in config.listener_endpoints}
    assert hosts["BROKERS"] == "127.0.0.1"
    auth = {each.listener: tls_settings(config, each).client_auth for each in config.listener_endpoints}
    assert auth == {("SSL" if mtls else "SASL_SSL"): ("required" if mtls else "none"), "BROKERS": "required"}
    assert config.kavka_metrics_host == "127.0.0.1"
    assert not config.allow_everyone_if_no_acl_found
    assert config.super_users == "User:admin;User:CN=broker,OU=brokers,O=kavka"
    if not mtls:
        assert sasl_listeners(config)["SASL_SSL"].mechanisms == ("SCRAM-SHA-512", "SCRAM-SHA-256")
