"""Brokers that log in on each other with tokens of an issuer (OAUTHBEARER)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from kavka.client.admin import Admin, NewTopic
from kavka.errors import ConfigError
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.keys_server import KeysServer
from tests.kit.sasl_script import LISTENER
from tests.kit.token_issuer import AUDIENCE, ISSUER, claims, key_set, token
from tests.kit.token_server import CLIENT, SECRET, TokenServer

OWN = f"listener.name.{LISTENER.lower()}.oauthbearer"
LIFE_S = 6


def settings_of(keys: KeysServer, tokens_url: str) -> dict[str, str]:
    credentials = f' clientId="{CLIENT}" clientSecret="{SECRET}";'
    return {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{LISTENER}:{LISTENER}",
        "inter.broker.listener.name": LISTENER,
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:brokers;User:ANONYMOUS",
        "connection.failed.authentication.delay.ms": "10",
        f"{OWN}.sasl.oauthbearer.jwks.endpoint.url": keys.url,
        f"{OWN}.sasl.oauthbearer.expected.issuer": ISSUER,
        f"{OWN}.sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{OWN}.sasl.oauthbearer.token.endpoint.url": tokens_url,
        f"{OWN}.sasl.oauthbearer.clock.skew.seconds": "0",
        f"{OWN}.sasl.jaas.config": keys.login.removesuffix(";") + credentials,
    }


async def replicates(cluster: InProcessCluster, topic: str) -> None:
    async with cluster.client() as client:
        assert await Admin(client).create_topics([NewTopic(topic, 3, 3)]) == {}
    for partition in range(3):
        await cluster.wait_for_isr(topic, partition, [1, 2, 3])


def test_brokers_replicate_with_tokens_and_take_new_ones_in_time(tmp_path: Path) -> None:
    """A token is good for six seconds: brokers log in again on open connections, with another one."""

    def make() -> str:
        return token(claims(sub="brokers", exp=int(time.time()) + LIFE_S))

    async def scenario(tokens: TokenServer, settings: dict[str, str]) -> None:
        async with InProcessCluster(tmp_path, settings=settings, more_listeners=[LISTENER]) as cluster:
            await cluster.wait_until_all_know([1, 2, 3])
            await replicates(cluster, "orders")
            gates = [cluster.broker(each).gates for each in (1, 2, 3)]
            await cluster.until(
                lambda: all(gate is not None and gate.counts[LISTENER].succeeded_again >= 1 for gate in gates),
                "brokers authenticate again",
            )
            assert all(gate is not None and gate.counts[LISTENER].expired == 0 for gate in gates)
            # Two of them may have done so with all three: the third one's turn comes with its next token.
            await cluster.until(lambda: tokens.asked >= 6, "three brokers ask for tokens, each again")
            await replicates(cluster, "later")

    with KeysServer(tmp_path, key_set("RS256-1")) as keys, TokenServer(make) as tokens:
        asyncio.run(asyncio.wait_for(scenario(tokens, settings_of(keys, tokens.url)), 280))


@pytest.mark.thorough
def test_a_broker_whose_issuer_is_away_starts_and_joins_when_it_is_back(tmp_path: Path) -> None:
    tokens = TokenServer(lambda: token(claims(sub="brokers")))  # It listens, and nobody answers yet.

    async def scenario(settings: dict[str, str]) -> None:
        async with InProcessCluster(tmp_path, settings=settings, more_listeners=[LISTENER]) as cluster:
            with tokens:
                await cluster.wait_until_all_know([1, 2, 3])
                await replicates(cluster, "orders")

    with KeysServer(tmp_path, key_set("RS256-1")) as keys:
        settings = settings_of(keys, tokens.url)
        settings[f"{OWN}.sasl.login.read.timeout.ms"] = "200"
        settings[f"{OWN}.sasl.login.retry.backoff.max.ms"] = "200"
        asyncio.run(asyncio.wait_for(scenario(settings), 280))


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ({f"{OWN}.sasl.oauthbearer.token.endpoint.url": "http://issuer.example/token"}, "must be https"),
        ({f"{OWN}.sasl.jaas.config": "OAuthBearerLoginModule required;"}, "needs the client's id and secret"),
        ({f"{OWN}.sasl.login.callback.handler.class": "com.example.H"}, "it may be org.apache.kafka"),
    ],
)
def test_tokens_that_cannot_be_had_keep_a_broker_from_starting(tmp_path: Path, own: dict[str, str], why: str) -> None:
    async def start(settings: dict[str, str]) -> None:
        async with InProcessCluster(tmp_path, count=1, settings=settings, more_listeners=[LISTENER]):
            pass

    with KeysServer(tmp_path, key_set("RS256-1")) as keys:
        settings = {**settings_of(keys, "https://issuer.example/token"), **own}
        with pytest.raises(ConfigError, match=why):
            asyncio.run(start(settings))
