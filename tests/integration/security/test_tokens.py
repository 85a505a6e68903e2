"""Delegation tokens on brokers: who gets one, for how long, what is recorded; several brokers; without a secret."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from kavka.client.admin import Admin, NewTopic
from kavka.decisions import DecisionKind
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.metadata_request import MetadataRequest
from kavka.security.acls import Operation
from kavka.security.delegation_tokens import TokenKey
from kavka.security.resource_patterns import ResourceType
from kavka.security.scram_credentials import ScramMechanism
from kavka.security.secret import Secret
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.sasl_script import Wire
from tests.kit.token_script import (
    LISTENER,
    MAX_MS,
    RENEWAL_MS,
    SECRET,
    Made,
    allow,
    by_token,
    create,
    describe,
    eventually,
    expire,
    log_in,
    logged_in,
    renew,
    settings,
)

OWN = {name: text for name, text in settings(0, 0).items() if not name.endswith("listeners")}
SECRET_NAME = "delegation.token.secret.key"


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **named), 280))

    return run


def cluster_of(path: Path, own: Mapping[str, str | None] | None = None, count: int = 1) -> InProcessCluster:
    chosen = {name: text for name, text in {**OWN, **(own or {})}.items() if text is not None}
    return InProcessCluster(path, count=count, settings=chosen, more_listeners=[LISTENER])


@pytest.mark.setting(
    "delegation.token.secret.key", "delegation.token.max.lifetime.ms", "delegation.token.expiry.time.ms"
)
@in_a_loop
async def test_a_token_is_made_renewed_seen_and_ended_by_whom_it_concerns(tmp_path: Path) -> None:
    def work(port: int, plaintext_port: int) -> None:
        with Wire(plaintext_port) as nobody:
            assert create(nobody)[1]["error"] == "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"
            assert describe(nobody) == ("DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", [])
        with logged_in(port, "alice") as alice, logged_in(port, "bob") as bob, logged_in(port, "carol") as carol:
            made, said = create(alice, renewers=["User:bob"])
            assert said == {
                "error": "NONE",
                "owner": "User:alice",
                "requester": "User:alice",
                "id": 22,
                "hmac": 64,
                "expires": RENEWAL_MS,
                "max": MAX_MS,
            }
            assert made.hmac == TokenKey(Secret(SECRET)).hmac(made.token_id)
            assert create(alice, renewers=["Group:x"])[1]["error"] == "INVALID_PRINCIPAL_TYPE"
            assert renew(bob, made.hmac, 600_000) == ("NONE", 60)
            assert renew(carol, made.hmac) == ("DELEGATION_TOKEN_OWNER_MISMATCH", -1)
            assert len(describe(bob)[1]) == 1
            assert describe(carol) == ("NONE", [])
            assert create(carol, owner="User:alice")[1]["error"] == "DELEGATION_TOKEN_AUTHORIZATION_FAILED"
            allow(plaintext_port, "carol", Operation.CREATE_TOKENS, ResourceType.USER, "User:alice")
            allow(plaintext_port, "carol", Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:alice")
            for_alice, said = create(carol, owner="User:alice")
            assert (said["error"], said["owner"], said["requester"]) == ("NONE", "User:alice", "User:carol")
            assert renew(carol, for_alice.hmac) == ("DELEGATION_TOKEN_OWNER_MISMATCH", -1)
            assert len(describe(carol)[1]) == 2
            assert expire(bob, made.hmac) == ("NONE", 0)
            assert expire(bob, made.hmac) == ("DELEGATION_TOKEN_NOT_FOUND", -1)

    async with cluster_of(tmp_path) as cluster:
        recorded: list[Any] = []
        tokens = cluster.broker(1).tokens
        assert tokens is not None
        tokens.records._record = recorded.append
        await asyncio.to_thread(work, cluster.ports_of[LISTENER][1], cluster.bootstrap[0][1])
        changes = [each.why for each in recorded if each.kind is DecisionKind.TOKEN_CHANGED]
        assert [why.split(" ")[4] for why in changes] == ["created", "shortened", "created", "removed"]
        refusals = [each.evidence["error"] for each in recorded if each.kind is DecisionKind.TOKEN_REFUSED]
        assert refusals == [
            "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
            "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
            "INVALID_PRINCIPAL_TYPE",
            "DELEGATION_TOKEN_OWNER_MISMATCH",
            "DELEGATION_TOKEN_NOT_FOUND",
        ]


@in_a_loop
async def test_without_a_secret_there_are_no_tokens(tmp_path: Path) -> None:
    def work(port: int) -> None:
        with logged_in(port, "alice") as alice:
            disabled = "DELEGATION_TOKEN_AUTH_DISABLED"
            assert create(alice)[1]["error"] == disabled
            assert (renew(alice, b"x"), expire(alice, b"x")) == ((disabled, -1), (disabled, -1))
            assert describe(alice) == (disabled, [])
            # In this order, as in Apache Kafka.
            assert create(alice, renewers=["Group:x"])[1]["error"] == "INVALID_PRINCIPAL_TYPE"
            assert create(alice, owner="User:bob")[1]["error"] == "DELEGATION_TOKEN_AUTHORIZATION_FAILED"

    async with cluster_of(tmp_path, {SECRET_NAME: None}) as cluster:
        assert cluster.broker(1).tokens is None
        await asyncio.to_thread(work, cluster.ports_of[LISTENER][1])


@pytest.mark.setting("delegation.token.master.key")
@pytest.mark.parametrize(("newer", "has_tokens"), [(None, True), ("", False), ("other", True)])
@in_a_loop
async def test_the_older_name_of_the_secret_counts_where_the_newer_is_not_set(
    tmp_path: Path, newer: str | None, has_tokens: bool
) -> None:
    def work(port: int) -> None:
        with logged_in(port, "alice") as alice:
            made, said = create(alice)
            assert said["error"] == ("NONE" if has_tokens else "DELEGATION_TOKEN_AUTH_DISABLED")
            if has_tokens:
                assert made.hmac == TokenKey(Secret(newer or "older")).hmac(made.token_id)

    async with cluster_of(tmp_path, {SECRET_NAME: newer, "delegation.token.master.key": "older"}) as cluster:
        await asyncio.to_thread(work, cluster.ports_of[LISTENER][1])


@pytest.mark.setting("delegation.token.expiry.check.interval.ms")
@in_a_loop
async def test_the_controller_removes_tokens_whose_time_is_over_from_every_broker(tmp_path: Path) -> None:
    def work(ports: list[int]) -> None:
        with logged_in(ports[0], "alice") as here, logged_in(ports[1], "alice") as there:
            made, _ = create(here)
            assert len(eventually(lambda: describe(there), describe(here))[1]) == 1
            assert renew(there, made.hmac, 0)[0] == "NONE"
            for wire in (here, there):
                assert eventually(lambda wire=wire: describe(wire), ("NONE", [])) == ("NONE", [])

    own = {"delegation.token.expiry.check.interval.ms": "100"}
    async with cluster_of(tmp_path, own, count=2) as cluster:
        await asyncio.to_thread(work, [cluster.ports_of[LISTENER][broker] for broker in (1, 2)])


@in_a_loop
async def test_who_logs_in_with_a_token_is_its_owner_and_makes_no_tokens(tmp_path: Path) -> None:
    def work(ports: list[int], plaintext_port: int) -> None:
        refused = "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"
        with logged_in(ports[0], "alice") as alice, logged_in(ports[0], "bob") as bob:
            made, _ = create(alice)
            others, _ = create(bob)
            for mechanism in ScramMechanism:
                # Made on one broker, used on the other.
                assert eventually(lambda: logins(ports[1], made, mechanism), "NONE") == "NONE"  # noqa: B023
                wire, said = by_token(ports[1], made, mechanism)
                with wire:
                    assert said == ("NONE", RENEWAL_MS // 10_000)
                    assert topics_seen(wire) == set()
                    assert create(wire)[1]["error"] == refused
                    assert (renew(wire, made.hmac), expire(wire, made.hmac)) == ((refused, -1), (refused, -1))
                    assert describe(wire) == (refused, [])
                    # Who it is does not change, whatever token or password comes next.
                    wire.handshake(mechanism.value)
                    assert log_in(wire, others, mechanism)[0] == "SASL_AUTHENTICATION_FAILED"
            wire, _said = by_token(ports[0], made)
            with wire:
                allow(plaintext_port, "alice", Operation.DESCRIBE, ResourceType.TOPIC, "orders")
                assert eventually(lambda: topics_seen(wire), {"orders"}) == {"orders"}
            for wrong in (Made(made.token_id, others.hmac), Made("alice", made.hmac), Made("nobody", b"x" * 64)):
                assert logins(ports[0], wrong) == "SASL_AUTHENTICATION_FAILED"
            assert expire(alice, made.hmac)[0] == "NONE"
            assert logins(ports[0], made) == "SASL_AUTHENTICATION_FAILED"
            assert eventually(lambda: logins(ports[1], made), "SASL_AUTHENTICATION_FAILED") != "NONE"

    async with cluster_of(tmp_path, count=2) as cluster:
        async with cluster.client() as client:
            await Admin(client).create_topics([NewTopic("orders", 1, 1)])
        gates = cluster.broker(1).gates
        assert gates is not None
        failures: list[Any] = []
        gates._ports.failures._record = failures.append
        ports = [cluster.ports_of[LISTENER][broker] for broker in (1, 2)]
        await asyncio.to_thread(work, ports, cluster.bootstrap[0][1])
        reasons = [failure.evidence["reason"] for failure in failures]
        assert reasons == ["wrong password", "unknown delegation token"]
        assert failures[0].evidence["user"] == "alice"


def logins(port: int, made: Made, mechanism: ScramMechanism = ScramMechanism.SHA_256) -> Any:
    wire, said = by_token(port, made, mechanism)
    with wire:
        return said[0]


def topics_seen(wire: Wire) -> set[str | None]:
    said = wire.ask(ApiKey.METADATA, 4, MetadataRequest(topics=None))
    return {topic.name for topic in said.topics}


@in_a_loop
async def test_a_session_ends_with_its_token_and_is_prolonged_by_logging_in_again(tmp_path: Path) -> None:
    def work(port: int) -> None:
        with logged_in(port, "alice") as alice:
            made, _ = create(alice)
            assert expire(alice, made.hmac, 10_000)[0] == "NONE"
            wire, said = by_token(port, made)
            with wire:
                assert said == ("NONE", 1)
                assert wire.is_served() == "served"
                clock["ms"] += 9_000
                assert renew(alice, made.hmac, 60_000)[0] == "NONE"
                wire.handshake("SCRAM-SHA-256")
                assert log_in(wire, made) == ("NONE", 6)
                assert wire.is_served() == "served"
            clock["ms"] += 60_001
            assert logins(port, made) == "SASL_AUTHENTICATION_FAILED"

    clock = {"ms": 0}
    async with cluster_of(tmp_path) as cluster:
        tokens = cluster.broker(1).tokens
        assert tokens is not None
        wall_ms = tokens.store._wall_ms
        tokens.store._wall_ms = tokens.logins._wall_ms = lambda: wall_ms() + clock["ms"]
        await asyncio.to_thread(work, cluster.ports_of[LISTENER][1])


@in_a_loop
async def test_a_session_whose_token_is_over_ends_at_the_next_request(tmp_path: Path) -> None:
    def work(port: int) -> None:
        with logged_in(port, "alice") as alice:
            made, _ = create(alice)
            assert expire(alice, made.hmac, 1_000)[0] == "NONE"
            wire, said = by_token(port, made)
            with wire:
                if said[0] == "NONE":  # Else it was over before the login, on a machine that was busy.
                    assert eventually(wire.is_served, "closed") == "closed"

    async with cluster_of(tmp_path) as cluster:
        await asyncio.to_thread(work, cluster.ports_of[LISTENER][1])
