"""Nobody learns from a failed login whether a user or a token exists: the same answers, the same hashes computed, and
nothing that one failure costs and the other does not before its answer is out. Figures: `benchmarks/strangers.py`."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.authentication import delegation_token_logins
from kavka.broker.authentication.delegation_token_logins import TokenLogins
from kavka.broker.authentication.sasl_gate import RECORDED_AFTER_S
from kavka.controller.work.config_admin import ConfigAdmin
from kavka.protocol.connection import Response
from kavka.security.delegation_tokens import password
from kavka.security.plain import PlainServer, client_token
from kavka.security.sasl import AuthenticationFailed, FailureReason, LaboriousExchange, ServerExchange
from kavka.security.scram_credentials import ScramCredential, ScramMechanism, Shapes, credential_of, shape_of, stand_in
from kavka.security.scram_exchange import ScramServer, client_exchange
from kavka.security.secret import Secret
from tests.kit.virtual_time import in_virtual_time
from tests.unit.broker import test_credential_store as of_users
from tests.unit.broker import test_gate_guessing as of_gates
from tests.unit.broker import test_token_store as of_tokens

SHA_256, SHA_512 = ScramMechanism
Hashes = list[tuple[Any, ...]]


@contextmanager
def counted() -> Iterator[Hashes]:
    """Every hash that is computed meanwhile: which, and of how many bytes, or blocks. Comparisons in constant time,
    too."""
    done: Hashes = []

    def counting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def count(*arguments: Any, **named: Any) -> Any:
            sizes = [len(each) if isinstance(each, bytes | str) else each for each in arguments]
            done.append((name, *(_blocks(*sizes) if name == "sha256" else sizes), *named.values()))
            return function(*arguments, **named)

        return count

    with pytest.MonkeyPatch.context() as patch:
        for module, names in (
            (hashlib, ("new", "sha256", "shake_256", "pbkdf2_hmac")),
            (hmac, ("digest", "compare_digest")),
        ):
            for name in names:
                patch.setattr(module, name, counting(name, getattr(module, name)))
        yield done


def _blocks(size: int) -> list[int]:
    """An empty password costs as much as one of a block."""
    return [(size + 8) // 64 + 1]


def failed(exchange: ServerExchange, message: bytes) -> tuple[AuthenticationFailed, Hashes]:
    """What becomes of the last message, whose proof fits nothing, and the hashes of it. As the gate does: what takes
    long first."""
    with counted() as hashes:
        labour = exchange.labour(message) if isinstance(exchange, LaboriousExchange) else None
        if labour is not None:
            labour()
        with pytest.raises(AuthenticationFailed) as failure:
            exchange.step(message)
    return failure.value, hashes


def log_in_by_scram(exchange: ScramServer, name: str, *, is_by_token: bool = False) -> tuple[Any, ...]:
    """All that somebody can see of a login with a wrong password: the challenge, but for its salt, and the failure; and
    the hashes computed for each message."""
    extension = ",tokenauth=true" if is_by_token else ""
    first = f"n,,n={name},r=abc{extension}".encode()
    with counted() as for_first:
        labour = exchange.labour(first)
        assert labour is None
        challenge = exchange.step(first).answer
    nonce, salt, iterations = challenge.split(b",")
    failure, for_last = failed(exchange, b"c=biws," + nonce + b",p=" + b64encode(bytes(64)))
    return nonce, len(salt), iterations, failure.told, failure.is_retriable, for_first, for_last, failure.reason


def test_plain_computes_as_much_for_a_name_that_nobody_has() -> None:
    users = {"alice": Secret("right")}
    (one, ones), (other, others) = (
        failed(PlainServer(users), client_token(name, "wrong")) for name in ("alice", "bob")
    )
    assert ones == others
    assert ones.count(("sha256", 1)) == 2
    assert (one.told, one.is_retriable) == (other.told, other.is_retriable)
    assert (one.reason, other.reason) == (FailureReason.WRONG_PASSWORD, FailureReason.UNKNOWN_USER)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_scram_computes_as_much_for_a_name_that_nobody_has(mechanism: ScramMechanism, tmp_path: Path) -> None:
    async def scenario(brokers: of_users.Brokers) -> None:
        zookeeper, store = await brokers.new()
        size = hashlib.new(mechanism.hash_name).digest_size
        credential = credential_of(mechanism, b"7" * 25, bytes(size), 8192)
        await ConfigAdmin(zookeeper).change("users/alice", lambda _: {mechanism.value: credential.encode()})
        await of_users.until(lambda: store.find(mechanism, "alice").is_known)
        # A salt of Kafka's has 25 or 26 letters; the stranger is one whose salt has as many as hers.
        stranger = next(
            name
            for name in (f"al{number:03}" for number in range(1000))
            if len(store.find(mechanism, name).credential.salt) == 25
        )
        seen = {}
        for name in ("alice", stranger):
            exchange = ScramServer(mechanism, lambda user: store.find(mechanism, user), "d" * 32)
            *seen[name], reason = log_in_by_scram(exchange, name)
            assert reason is (FailureReason.WRONG_PASSWORD if name == "alice" else FailureReason.UNKNOWN_USER)
        assert seen["alice"] == seen[stranger]
        assert seen["alice"][2] == b"i=8192"

    of_users.run(tmp_path, scenario)


def test_a_credential_that_cannot_be_used_looks_like_nobodys(tmp_path: Path) -> None:
    """Kafka ends at the first message, and with that tells that there is such a user."""

    async def scenario(brokers: of_users.Brokers) -> None:
        zookeeper, store = await brokers.new()
        weak = credential_of(SHA_256, b"short", bytes(32), 100)
        await ConfigAdmin(zookeeper).change("users/weak", lambda _: {SHA_256.value: weak.encode()})
        await of_users.until(lambda: store.find(SHA_256, "weak").is_known)
        nobodys = store.find(SHA_256, "weak").credential
        assert (nobodys.iterations, nobodys.stored_key == weak.stored_key) == (4096, False)
        assert shape_of(nobodys) == shape_of(store.find(SHA_256, "nobody").credential)
        exchange = ScramServer(SHA_256, lambda user: store.find(SHA_256, user), "d" * 32)
        assert log_in_by_scram(exchange, "weak")[-1] is FailureReason.UNUSABLE_CREDENTIAL

    of_users.run(tmp_path, scenario)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_token_id_that_there_is_not_takes_as_much_the_first_time_and_the_next(
    mechanism: ScramMechanism, tmp_path: Path
) -> None:
    async def scenario(brokers: of_tokens.Brokers) -> None:
        _, store = await brokers.new()
        token, _ = await store.create(of_tokens.WISH)
        # Of a salt of the same length, which is drawn from the id.
        size = len(store.key.salt(mechanism, token.token_id))
        others = (f"{number:022}" for number in range(1000))
        other = next(each for each in others if len(store.key.salt(mechanism, each)) == size)
        logins = TokenLogins(store, wall_ms=lambda: brokers.now_ms)
        for is_first in (True, False):
            seen = {}
            for token_id in (token.token_id, other):
                exchange = ScramServer(mechanism, _nobody, "d" * 32, logins)
                *seen[token_id], reason = log_in_by_scram(exchange, token_id, is_by_token=True)
                is_there = token_id == token.token_id
                assert reason is (FailureReason.WRONG_PASSWORD if is_there else FailureReason.UNKNOWN_TOKEN)
            assert seen[token.token_id] == seen[other]
            computed = [each for each in seen[other][6] if each[0] == "pbkdf2_hmac"]
            assert len(computed) == is_first

    of_tokens.run(tmp_path, scenario)


def _nobody(name: str) -> Any:
    raise AssertionError(f"{name} was looked for among the users")


def test_credentials_of_token_ids_are_bounded_and_a_token_that_came_since_gets_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delegation_token_logins, "MOST_KEPT", 3)

    async def scenario(brokers: of_tokens.Brokers) -> None:
        _, store = await brokers.new()
        logins = TokenLogins(store, wall_ms=lambda: brokers.now_ms)
        for number in range(5):
            assert not logins.find(SHA_256, f"id-{number}", None).is_known
        assert len(logins) == 3
        assert logins.labour(SHA_256, "id-1") is not None
        assert logins.labour(SHA_256, "id-4") is None
        token, token_hmac = await store.create(of_tokens.WISH)
        exchange = ScramServer(SHA_256, _nobody, "d" * 32, logins)
        client = client_exchange(SHA_256, token.token_id, password(token_hmac), "abc", is_by_token=True)
        last = exchange.step(client.send(exchange.step(next(client)).answer))
        assert last.user == "alice"
        await store.expire(token_hmac, of_tokens.ALICE, -1)
        assert not logins.find(SHA_256, token.token_id, None).is_known

    of_tokens.run(tmp_path, scenario)


def test_nothing_is_recorded_before_the_answer_is_out() -> None:
    """Of each kind of failure the first of a minute is recorded, which takes time: (1) somebody fails as a user that
    there cannot be, so that this kind has been recorded, (2) and then under a name; only if there is such a user is
    there something to record."""

    async def scenario() -> None:
        world = of_gates.World()
        for expected in (1, 1):
            outcome = world.client().offer("wrong")
            assert not isinstance(outcome, Response)
            before = len(world.recorded)
            await asyncio.ensure_future(outcome)
            assert len(world.recorded) == before
            await asyncio.sleep(2 * RECORDED_AFTER_S)
            assert len(world.recorded) == expected

    in_virtual_time(scenario)


# -- how the credentials of strangers look


def of_user(salt: bytes, iterations: int) -> ScramCredential:
    return credential_of(SHA_256, salt, bytes(32), iterations)


def strangers(shapes: Shapes, count: int = 4000) -> list[ScramCredential]:
    return [stand_in(SHA_256, f"stranger-{number}", b"secret", shapes) for number in range(count)]


def test_each_shape_is_as_frequent_among_strangers_as_among_users() -> None:
    """Of Kafka's tools with two numbers of iterations, of librdkafka (64 bytes), and of somebody's own."""
    users = [of_user(b"7" * 25, 4096)] * 50 + [of_user(b"7" * 26, 8192)] * 30
    users += [of_user(bytes(range(64)), 4096)] * 15 + [of_user(b"pepper", 10_000)] * 5
    found = Counter(shape_of(each) for each in strangers(Shapes(users)))
    expected = Counter(shape_of(each) for each in users)
    assert found.keys() == expected.keys()
    for shape, count in expected.items():
        assert found[shape] / 4000 == pytest.approx(count / 100, abs=0.03)


def test_where_all_users_look_alike_so_do_strangers_and_stay_as_they_are() -> None:
    few, many = (Shapes([of_user(b"7" * 25, 4096)] * count) for count in (1, 1000))
    assert strangers(few, 50) == strangers(many, 50) == strangers(Shapes(), 50)
    assert {len(each.salt) for each in strangers(few)} <= {23, 24, 25, 26}


def test_a_user_that_comes_changes_few_strangers_and_those_as_if_their_passwords_were_changed() -> None:
    users = [of_user(b"7" * 25, 4096)] * 60 + [of_user(bytes(64), 4096)] * 40
    before, after = strangers(Shapes(users)), strangers(Shapes([*users, of_user(b"7" * 25, 8192)]))
    changed = [(one, other) for one, other in zip(before, after, strict=True) if one != other]
    assert 0 < len(changed) < 4000 * 0.05
    assert all(one.salt != other.salt for one, other in changed)


def test_a_credential_that_cannot_be_used_gives_no_shape() -> None:
    assert strangers(Shapes([of_user(b"x", 100)]), 20) == strangers(Shapes(), 20)


@pytest.mark.parametrize("salt", [b"", b"x" * 200, bytes(200), b"ABC", b"7" * 21, b"7" * 27])
def test_whatever_salt_users_have_strangers_have_such(salt: bytes) -> None:
    user = of_user(salt, 4096)
    found = strangers(Shapes([user]), 20)
    assert {shape_of(each) for each in found} == {shape_of(user)}
    assert len({each.salt for each in found}) == (20 if salt else 1)
