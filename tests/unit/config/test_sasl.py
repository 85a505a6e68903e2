"""SASL of listeners: which of several settings counts, and what is refused."""

from __future__ import annotations

import pytest

from kavka.config.broker import BrokerConfig
from kavka.config.sasl import open_secrets, own_login, sasl_listeners
from kavka.errors import ConfigError
from kavka.security.secret import Secret

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="b" password="p" user_b="p";'
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="c" password="q";'


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig.from_properties(
        {
            "broker.id": "1",
            "log.dirs": "/d",
            "listeners": "SASL_PLAINTEXT://127.0.0.1:9092,OUTSIDE://0.0.0.0:9093",
            "advertised.listeners": "SASL_PLAINTEXT://127.0.0.1:9092,OUTSIDE://h:9093",
            "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,OUTSIDE:SASL_PLAINTEXT",
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": SCRAM,
            **settings,
        }
    )


def test_a_listeners_own_setting_counts_before_the_general_one() -> None:
    own = {
        "listener.name.outside.sasl.enabled.mechanisms": "PLAIN, SCRAM-SHA-256",
        "listener.name.outside.plain.sasl.jaas.config": PLAIN,
        "connections.max.reauth.ms": "1000",
        "listener.name.outside.connections.max.reauth.ms": "2000",
        "listener.name.outside.plain.connections.max.reauth.ms": "3000",
    }
    found = sasl_listeners(config(**own))
    assert found["SASL_PLAINTEXT"].mechanisms == ("SCRAM-SHA-512",)
    assert found["OUTSIDE"].mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert dict(found["OUTSIDE"].users) == {"b": Secret("p")}
    assert found["SASL_PLAINTEXT"].max_session_ms == {"SCRAM-SHA-512": 1000}
    assert found["OUTSIDE"].max_session_ms == {"PLAIN": 3000, "SCRAM-SHA-256": 2000}


def test_the_login_is_that_of_the_listener_that_is_called() -> None:
    other = {"listener.name.outside.scram-sha-512.sasl.jaas.config": SCRAM.replace('"c"', '"d"')}
    assert own_login(config(**other), "SASL_PLAINTEXT").username == "c"
    assert own_login(config(**other), "OUTSIDE").username == "d"
    with pytest.raises(ConfigError, match="has no username and password"):
        own_login(config(), "OUTSIDE")


def test_brokers_do_not_log_in_on_each_other_with_tokens_that_end() -> None:
    by_token = SCRAM.replace(";", ' tokenauth="true";')
    with pytest.raises(ConfigError, match="tokenauth"):
        own_login(config(**{"listener.name.outside.scram-sha-512.sasl.jaas.config": by_token}), "OUTSIDE")


def test_plain_without_tls_is_told_of_where_others_reach_it() -> None:
    assert open_secrets(config()) == []
    own = {
        f"listener.name.{name}.{setting}": text
        for name in ("outside", "sasl_plaintext")
        for setting, text in (
            ("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-512"),
            ("plain.sasl.jaas.config", PLAIN),
        )
    }
    assert open_secrets(config(**own)) == [("OUTSIDE://0.0.0.0:9093", "PLAIN")]
