"""Delegation tokens on brokers: who gets one, for how long, what is recorded; several brokers; without a secret."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from kavka.decisions import DecisionKind
from kavka.security.acls import Operation, ResourceType
from kavka.security.secret import Secret
from kavka.security.tokens import TokenKey
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.sasl_script import Wire
from tests.kit.token_script import (
    LISTENER,
    MAX_MS,
    RENEWAL_MS,
    SECRET,
    allow,
    create,
    describe,
    eventually,
    expire,
    logged_in,
    renew,
    settings,
)

OWN = {name: text for name, text in settings(0, 0).items() if not name.endswith("listeners")}
SECRET_NAME = "delegation.token.secret.key"


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **named), 100))

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
