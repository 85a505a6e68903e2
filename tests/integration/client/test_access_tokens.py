"""Tokens of a real endpoint, and kavka's client that logs in with them on a broker that verifies them."""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kavka.client.cluster import Cluster
from kavka.client.login import client_login
from kavka.client.security import SaslSettings
from kavka.client.settings import ClientSettings
from kavka.errors import ConnectionFailed, ErrorCode, RequestError
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import MetadataRequest, MetadataResponse
from kavka.runtime.network.network import SocketNetwork
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.integration.security.test_oauthbearer import settings_of
from tests.kit.keys_server import KeysServer
from tests.kit.sasl_script import LISTENER
from tests.kit.token_endpoint import CLIENT, SECRET, TokenEndpoint
from tests.kit.token_issuer import claims, key_set, token


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with TokenEndpoint(token) as running:
        yield running


def login(url: str, *, secret: str = SECRET, more: Mapping[str, str] | None = None) -> SaslSettings:
    text = (
        f'OAuthBearerLoginModule required clientId="{CLIENT}" clientSecret="{secret}" scope="a b" extension_trace="x";'
    )
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.login.retry.backoff.ms": "10",
        "sasl.login.retry.backoff.max.ms": "50",
        "sasl.jaas.config": text,
        **(more or {}),
    }
    found = client_login(settings, read=lambda path: Path(path).read_bytes()).sasl
    assert found is not None
    return found


def current(sasl: SaslSettings) -> str:
    assert sasl.tokens is not None
    return sasl.tokens.current()


def test_a_token_is_asked_for_once_until_it_has_to_be_renewed(endpoint: TokenEndpoint) -> None:
    sasl = login(endpoint.url)
    first = current(sasl)
    assert current(sasl) == first
    assert endpoint.asked == [{"grant_type": ["client_credentials"], "scope": ["a b"]}]
    assert current(pickle.loads(pickle.dumps(sasl))).count(".") == 2  # Spark's workers ask for their own.
    assert len(endpoint.asked) == 2
    assert "canary" not in repr(sasl)


def test_a_token_that_is_good_is_shown_while_the_endpoint_fails(endpoint: TokenEndpoint) -> None:
    endpoint.make = lambda: token(claims(time.time() - 590))
    rules = {"sasl.login.refresh.buffer.seconds": "0", "sasl.login.refresh.min.period.seconds": "0"}
    sasl = login(endpoint.url, more=rules)
    kept = current(sasl)
    endpoint.manner = "fails"
    assert current(sasl) == kept
    tries = len(endpoint.asked)
    assert tries > 2
    assert current(sasl) == kept
    assert len(endpoint.asked) == tries  # It is left alone for a while.


def test_an_endpoint_that_fails_once_is_asked_again(endpoint: TokenEndpoint) -> None:
    endpoint.manner = "fails once"
    assert current(login(endpoint.url, more={"sasl.login.retry.backoff.max.ms": "10000"}))
    assert len(endpoint.asked) == 2


@pytest.mark.parametrize(
    ("manner", "said"),
    [
        ("redirects", "answered 307"),
        ("lies", "without an access_token"),
        ("huge", "more than 1048576 bytes"),
        ("opaque", "no JSON Web Token"),
    ],
)
def test_an_endpoint_that_lies_is_told_and_not_asked_again(endpoint: TokenEndpoint, manner: str, said: str) -> None:
    endpoint.manner = manner
    with pytest.raises(RequestError, match=said) as refused:
        current(login(endpoint.url))
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert len(endpoint.asked) == 1
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (claims(time.time() - 700), "already ended"),
        (claims(exp=None), "until when it is good"),
        (claims(sub=None), "does not say in sub"),
    ],
)
def test_a_token_that_no_broker_would_take_is_not_shown(
    endpoint: TokenEndpoint, content: Mapping[str, object], said: str
) -> None:
    endpoint.make = lambda: token(content)
    with pytest.raises(RequestError, match=said):
        current(login(endpoint.url))


def test_a_wrong_secret_ends_the_tries_and_an_endpoint_that_fails_does_not(endpoint: TokenEndpoint) -> None:
    with pytest.raises(RequestError, match="401"):
        current(login(endpoint.url, secret="wrong"))
    assert len(endpoint.asked) == 1
    endpoint.manner = "fails"
    with pytest.raises(ConnectionFailed, match="503"):
        current(login(endpoint.url))
    assert len(endpoint.asked) > 2
    with pytest.raises(ConnectionFailed, match="gave no token"):
        current(login("http://127.0.0.1:1/token"))


def test_a_token_in_a_file_is_read(tmp_path: Path) -> None:
    sasl = login((tmp_path / "a token").as_uri())
    with pytest.raises(ConnectionFailed, match="could not be read"):
        current(sasl)
    (tmp_path / "a token").write_text(text := token())
    assert current(sasl) == text


def test_kavkas_client_logs_in_with_tokens_and_learns_of_a_refused_one(tmp_path: Path, endpoint: TokenEndpoint) -> None:
    async def scenario(settings: dict[str, str]) -> None:
        async with InProcessCluster(tmp_path / "k", count=1, settings=settings, more_listeners=[LISTENER]) as cluster:
            bootstrap = [("127.0.0.1", cluster.ports_of[LISTENER][1])]
            async with Cluster(SocketNetwork(), bootstrap, ClientSettings(sasl=login(endpoint.url))) as client:
                await client.refresh()
                assert client.brokers
            endpoint.make = lambda: token(claims(aud="others-canary"))
            with pytest.raises(RequestError, match=f"refused OAUTHBEARER as '{CLIENT}'") as refused:
                await Cluster(SocketNetwork(), bootstrap, ClientSettings(sasl=login(endpoint.url))).connect()
            assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
            assert "canary" not in str(refused.value)

    with KeysServer(tmp_path, key_set("RS256-1")) as server:
        asyncio.run(asyncio.wait_for(scenario(settings_of(server.url, server.login)), 280))


def test_kavkas_client_brings_a_fresh_token_where_its_session_ends_with_the_old_one(
    tmp_path: Path, endpoint: TokenEndpoint
) -> None:
    made: list[str] = []

    def make() -> str:
        made.append(token(claims(exp=int(time.time()) + (600 if made else 3), jti=str(len(made)))))
        return made[-1]

    async def scenario(settings: dict[str, str]) -> None:
        async with InProcessCluster(tmp_path / "k", count=1, settings=settings, more_listeners=[LISTENER]) as cluster:
            gates = cluster.broker(1).gates
            assert gates is not None
            counts = gates.counts[LISTENER]
            endpoint.make = make
            bootstrap = [("127.0.0.1", cluster.ports_of[LISTENER][1])]
            async with Cluster(SocketNetwork(), bootstrap, ClientSettings(sasl=login(endpoint.url))) as client:
                connection = await client.any_connection()
                await asyncio.sleep(3.1)  # Nothing but time ends a token.
                await connection.request(ApiKey.METADATA, MetadataRequest(topics=[]), MetadataResponse)
                assert len(made) == 2
                assert (counts.succeeded_again, counts.failed_again, counts.expired) == (1, 0, 0)

    with KeysServer(tmp_path, key_set("RS256-1")) as server:
        asyncio.run(asyncio.wait_for(scenario(settings_of(server.url, server.login)), 280))
