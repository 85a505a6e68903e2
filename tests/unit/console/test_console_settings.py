"""The console's settings: which source wins, and what is refused with which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.client.security import SaslMechanism, SaslSettings, TlsSettings
from kavka.console.settings import ConsoleSettings, parse_settings, with_bootstrap, with_environment
from kavka.errors import ConfigError
from kavka.observe.cluster_settings import ClusterSettings
from kavka.observe.health.findings import Thresholds

FILE = """
port = 8100
data = "/var/lib/console"
[[cluster]]
name = "orders"
bootstrap = "a:9092,b:9092"
zookeeper = "z:2181"
read_only = true
[[cluster]]
name = "web"
bootstrap = "c:9092"
"""


def test_a_file_has_clusters_and_settings() -> None:
    found = parse_settings(FILE)
    assert (found.port, found.data_directory, found.host) == (8100, "/var/lib/console", "127.0.0.1")
    assert found.clusters == (
        ClusterSettings("orders", "a:9092,b:9092", zookeeper="z:2181", read_only=True),
        ClusterSettings("web", "c:9092"),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("port = ", "not valid TOML"),
        ("prot = 1", "unknown setting 'prot'"),
        ('port = "8090"', "port is '8090', expected int"),
        ("port = 70000", "port is 70000, expected 0 to 65535"),
        ("poll_ms = 1", "poll_ms is 1"),
        ("cluster = 1", "[[cluster]]"),
        ("health = 1", "[health]: expected name = number"),
        ("[health]\nstuck = 1", "unknown setting 'stuck'"),
        ("[health]\nstuck_ms = 1.5", "stuck_ms is 1.5, expected int"),
        ("[health]\ndisk_free_percent = -1", "expected 0 or more"),
        ('[[cluster]]\nname = "a"', "bootstrap is missing"),
        ('[[cluster]]\nname = "a/b"\nbootstrap = "h:1"', "cluster name 'a/b'"),
        ('[[cluster]]\nname = "a"\nbootstrap = "h:x"', "'h:x' is not host:port"),
        ('[[cluster]]\nname = "a"\nbootstrap = "h:1"\nread_only = "yes"', "read_only is 'yes', expected bool"),
        ('[[cluster]]\nname = "a"\nbootstrap = "h:1"\n[[cluster]]\nname = "a"\nbootstrap = "h:1"', "given twice"),
    ],
)
def test_what_is_wrong_is_named(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_settings(text)
    assert words in str(refused.value)


def test_the_environment_wins_over_the_file_and_the_command_line_over_its_clusters() -> None:
    found = with_environment(parse_settings(FILE), {"KAVKA_CONSOLE_PORT": "9000", "KAVKA_CONSOLE_DATA": "/d"})
    assert (found.port, found.data_directory) == (9000, "/d")
    with pytest.raises(ConfigError, match="KAVKA_CONSOLE_PORT"):
        with_environment(found, {"KAVKA_CONSOLE_PORT": "x"})
    assert [each.name for each in with_bootstrap(found, ["h:1"]).clusters] == ["local"]
    named = with_bootstrap(found, ["one=h:1,i:2", "j:3"]).clusters
    assert [(each.name, each.bootstrap) for each in named] == [("one", "h:1,i:2"), ("cluster-2", "j:3")]


def test_a_cluster_may_ask_who_the_console_is_and_speak_tls() -> None:
    text = """
    [[cluster]]
    name = "a"
    bootstrap = "h:1"
    sasl = { mechanism = "SCRAM-SHA-512", username = "console", password = "secret" }
    tls = { authorities = "/ca.pem", check_hostname = false }
    """
    (found,) = parse_settings(text).clusters
    assert found.sasl == SaslSettings(mechanism=SaslMechanism.SCRAM_SHA_512, username="console", password="secret")
    assert found.tls == TlsSettings(authorities="/ca.pem", check_hostname=False)
    assert "secret" not in repr(found)
    for before, after, words in (
        ("SCRAM-SHA-512", "GSSAPI", "expected PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        (', password = "secret"', "", "password is missing"),
        ("check_hostname = false", 'check_hostname = "no"', "expected bool"),
    ):
        with pytest.raises(ConfigError) as refused:
            parse_settings(text.replace(before, after))
        assert words in str(refused.value)


def test_a_clients_file_says_how_a_cluster_is_reached(tmp_path: Path) -> None:
    """With every mechanism of kavka's client; the table has passwords only."""
    file = tmp_path / "tokens.properties"
    file.write_text(
        "bootstrap.servers=h:1,i:2\nsecurity.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
        "sasl.oauthbearer.token.endpoint.url=https://issuer.example/token\n"
        'sasl.jaas.config=OAuthBearerLoginModule required clientId="console" clientSecret="secret";\n'
    )
    text = f"""
    [[cluster]]
    name = "a"
    client_config = "{file}"
    """
    (found,) = parse_settings(text).clusters
    assert found.bootstrap == "h:1,i:2"
    assert found.sasl is not None
    assert found.sasl.mechanism is SaslMechanism.OAUTHBEARER
    assert found.sasl.tokens is not None
    assert found.tls == TlsSettings()
    assert "secret" not in repr(found)
    assert parse_settings(f'{text}\nbootstrap = "j:3"').clusters[0].bootstrap == "j:3"

    def refusal(more: str) -> str:
        with pytest.raises(ConfigError) as refused:
            parse_settings(text + more)
        return str(refused.value)

    assert "client_config of a: tls is set, too" in refusal("tls = {}")
    file.write_text("security.protocol=PLAINTEXT\n")
    assert "neither bootstrap nor bootstrap.servers" in refusal("")
    file.write_text("security.protocol=SASL_SSL\nsasl.mechanism=CRAM\n")
    assert f"{file}: sasl.mechanism is 'CRAM'" in refusal("")
    file.unlink()
    assert f"cannot read {file}: No such file" in refusal("")


def test_thresholds_of_the_health_checks_are_settings() -> None:
    found = parse_settings("[health]\nunder_replicated_ms = 5000\ndisk_free_percent = 10").thresholds
    assert found == Thresholds(under_replicated_ms=5_000, disk_free_percent=10.0)


def test_there_is_a_bound_on_clusters() -> None:
    many = tuple(ClusterSettings(f"c{number}", "h:1") for number in range(101))
    with pytest.raises(ConfigError, match="at most 100"):
        ConsoleSettings(clusters=many)
