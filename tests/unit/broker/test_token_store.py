"""Delegation tokens in ZooKeeper: Kafka's bytes, several brokers, lost answers and sessions, garbage, expiry."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.authentication import delegation_token_store as room
from kavka.broker.authentication.delegation_token_expiry import TokenExpiry
from kavka.broker.authentication.delegation_token_records import Asker, TokenRecords
from kavka.broker.authentication.delegation_token_store import TokenStore
from kavka.decisions import Decision, DecisionKind
from kavka.errors import ErrorCode, RequestError, ZooKeeperError
from kavka.model import BrokerId
from kavka.runtime.disk import LocalFileSystem
from kavka.security.delegation_tokens import Lifetimes, Token, TokenKey, Wish, password
from kavka.security.principals import Principal
from kavka.security.secret import Secret
from kavka.zookeeper.database import Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.embedded import EmbeddedZooKeeper, LocalZooKeeper
from kavka.zookeeper.old_changes import CHANGE_RETENTION_MS, PURGE_INTERVAL_MS
from kavka.zookeeper.port import ConnectionLoss, SessionExpired

ALICE, BOB, CAROL = (Principal("User", name) for name in ("alice", "bob", "carol"))
WISH = Wish(ALICE, CAROL, (BOB,), -1)
KEY = TokenKey(Secret("token-secret-1"))
BY_KAFKA = (
    b'{"issueTimestamp":1000,"renewers":[],"tokenRequester":"User%3Aalice","tokenId":"aZqNkIqhR0OogxunHXPW8Q",'
    b'"owner":"User%3Aalice","expiryTimestamp":5000,"maxTimestamp":9000,"version":3}'
)
HMAC_BY_KAFKA = "BgNU4U4WI3LwSDQ0jDQv8vXpDglXTryAr5r8l5oJiNaiF5GA0VZ1abHRuGl8izRys0jfj6XZh958lWOaRP/w1w=="
TOKENS, CHANGES = "/delegation_token/tokens", "/delegation_token/token_changes"


class Brokers:
    """Brokers on one ZooKeeper."""

    def __init__(self, server: EmbeddedZooKeeper) -> None:
        self.server = server
        self.now_ms = 1000
        self.flows: list[asyncio.Task[None]] = []

    def spawn(self, flow: Coroutine[None, None, None]) -> None:
        self.flows.append(asyncio.get_running_loop().create_task(flow))

    async def new(self) -> tuple[LocalZooKeeper, TokenStore]:
        zookeeper = await self.server.connect()
        store = TokenStore(
            zookeeper,
            KEY,
            Lifetimes(max_ms=10_000, renewal_ms=1_000),
            wall_ms=lambda: self.now_ms,
            spawn=self.spawn,
            randbytes=random.Random(len(self.flows)).randbytes,
        )
        await store.start()
        return zookeeper, store


def run(tmp_path: Path, scenario: Callable[[Brokers], Awaitable[None]]) -> None:
    async def main() -> None:
        database = Database.open(LocalFileSystem(), str(tmp_path), DatabaseSettings(sync=SyncPolicy.NEVER))
        server = EmbeddedZooKeeper(database, now_ms=lambda: brokers.now_ms, rng=random.Random(1))
        brokers = Brokers(server)
        await server.start(close_former_sessions=True)
        try:
            await scenario(brokers)
        finally:
            for flow in brokers.flows:
                flow.cancel()
            await server.stop()

    asyncio.run(asyncio.wait_for(main(), 60))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what it waits for has no event.
            await asyncio.sleep(0.005)


async def refusal(work: Awaitable[Any]) -> ErrorCode:
    with pytest.raises(RequestError) as refused:
        await work
    return refused.value.code


def once(zookeeper: LocalZooKeeper, fault: Callable[[Any, Any], Awaitable[Any]]) -> None:
    """The next multi goes through `fault(write, operations)`."""
    write = zookeeper.multi

    async def strike(operations: Any) -> Any:
        zookeeper.multi = write  # type: ignore[method-assign]
        return await fault(write, operations)

    zookeeper.multi = strike  # type: ignore[method-assign]


async def answer_lost(write: Any, operations: Any) -> Any:
    await write(operations)
    raise ConnectionLoss("lost")


async def request_lost(write: Any, operations: Any) -> Any:
    raise ConnectionLoss("lost")


def test_a_token_and_its_change_are_written_as_kafka_writes_them(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        zookeeper, store = await brokers.new()
        token, token_hmac = await store.create(WISH)
        assert token == Token(token.token_id, ALICE, CAROL, (BOB,), 1000, 2000, 11_000)
        assert token_hmac == KEY.hmac(token.token_id)
        stored = (await zookeeper.get(f"{TOKENS}/{token.token_id}"))[0]
        assert (
            stored
            == (
                b'{"issueTimestamp":1000,"renewers":["User%%3Abob"],"tokenRequester":"User%%3Acarol","tokenId":"%s",'
                b'"owner":"User%%3Aalice","expiryTimestamp":2000,"maxTimestamp":11000,"version":3}'
            )
            % token.token_id.encode()
        )
        (change,) = await zookeeper.children(CHANGES)
        assert change == "token_change_0000000000"
        assert (await zookeeper.get(f"{CHANGES}/{change}"))[0] == token.token_id.encode()

    run(tmp_path, scenario)


def test_what_kafka_wrote_is_read_at_the_start_and_followed(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        zookeeper, first = await brokers.new()
        await zookeeper.create(f"{TOKENS}/aZqNkIqhR0OogxunHXPW8Q", BY_KAFKA)
        _, second = await brokers.new()
        ((token, token_hmac),) = second.all()
        assert (token.expires_ms, password(token_hmac)) == (5000, HMAC_BY_KAFKA)
        assert first.all() == []  # Kafka tells of it in a second write.
        await zookeeper.create(f"{CHANGES}/token_change_", b"aZqNkIqhR0OogxunHXPW8Q", mode=room.CreateMode(2))
        await until(lambda: len(first.all()) == 1)
        await second.expire(token_hmac, ALICE, -1)
        await until(lambda: first.all() == [])
        assert await zookeeper.children(TOKENS) == []

    run(tmp_path, scenario)


def test_a_change_is_in_force_here_at_once_and_elsewhere_a_moment_later(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        _, here = await brokers.new()
        _, there = await brokers.new()
        token, token_hmac = await here.create(WISH)
        assert here.find(token.token_id) == token
        await until(lambda: there.find(token.token_id) == token)
        brokers.now_ms += 500
        changed = await there.renew(token_hmac, BOB, 3000)
        assert (changed.before, changed.after) == (token, there.find(token.token_id))
        await until(lambda: here.all() == there.all())
        assert here.all()[0][0].expires_ms == 4500
        assert await refusal(here.renew(token_hmac, CAROL, 1)) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert await refusal(here.renew(b"x" * 64, ALICE, 1)) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert (await here.expire(token_hmac, ALICE, -1)).after is None
        assert await refusal(here.expire(token_hmac, ALICE, -1)) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        await until(lambda: there.all() == [])

    run(tmp_path, scenario)


@pytest.mark.parametrize("fault", [answer_lost, request_lost])
def test_a_lost_answer_or_request_leaves_one_token_one_renewal_and_none_after_the_end(
    tmp_path: Path, fault: Callable[[Any, Any], Awaitable[Any]]
) -> None:
    async def scenario(brokers: Brokers) -> None:
        zookeeper, store = await brokers.new()
        once(zookeeper, fault)
        token, token_hmac = await store.create(WISH)
        assert await zookeeper.children(TOKENS) == [token.token_id]
        once(zookeeper, fault)
        assert (await store.renew(token_hmac, ALICE, 7)).after == store.find(token.token_id)
        assert json.loads((await zookeeper.get(f"{TOKENS}/{token.token_id}"))[0] or b"")["expiryTimestamp"] == 1007
        once(zookeeper, fault)
        assert (await store.expire(token_hmac, ALICE, -1)).before is not None
        assert await zookeeper.children(TOKENS) == []
        assert len(await zookeeper.children(CHANGES)) == 3

    run(tmp_path, scenario)


def test_a_token_whose_write_nobody_answers_is_told_to_nobody_and_found_with_the_next_session(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        zookeeper, store = await brokers.new()
        read = zookeeper.get_many

        async def gone(paths: Any) -> Any:
            raise SessionExpired("gone")

        async def fault(write: Any, operations: Any) -> Any:
            await write(operations)
            zookeeper.get_many = gone  # type: ignore[method-assign]
            raise ConnectionLoss("lost")

        once(zookeeper, fault)
        with pytest.raises(ZooKeeperError):
            await store.create(WISH)
        zookeeper.get_many = read  # type: ignore[method-assign]
        await brokers.server.expire(zookeeper.session_id)
        await zookeeper.renew()
        await until(lambda: len(store.all()) == 1)

    run(tmp_path, scenario)


def test_two_brokers_that_renew_one_token_at_once_both_get_through(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        _, here = await brokers.new()
        _, there = await brokers.new()
        token, token_hmac = await here.create(WISH)
        await until(lambda: there.find(token.token_id) is not None)
        await asyncio.gather(*(store.renew(token_hmac, ALICE, 100 + n) for n in range(4) for store in (here, there)))
        await until(lambda: here.all() == there.all())
        assert await refusal(here.renew(token_hmac, CAROL, 1)) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH

    run(tmp_path, scenario)


def test_a_renewal_that_comes_after_an_end_finds_nothing(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        zookeeper, here = await brokers.new()
        _, there = await brokers.new()
        token, token_hmac = await here.create(WISH)
        await until(lambda: there.find(token.token_id) is not None)

        async def outrun(write: Any, operations: Any) -> Any:
            await there.expire(token_hmac, ALICE, -1)
            return await write(operations)

        once(zookeeper, outrun)
        assert await refusal(here.renew(token_hmac, ALICE, 5000)) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert await zookeeper.children(TOKENS) == []

    run(tmp_path, scenario)


def test_after_a_lost_session_every_token_is_read_again_also_what_no_change_node_tells(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        zookeeper, away = await brokers.new()
        _, here = await brokers.new()
        token, token_hmac = await here.create(WISH)
        await until(lambda: away.find(token.token_id) is not None)
        await brokers.server.expire(zookeeper.session_id)
        await here.expire(token_hmac, ALICE, -1)
        second, _ = await here.create(WISH)
        other = await brokers.server.connect()
        for name in await other.children(CHANGES):
            await other.delete(f"{CHANGES}/{name}")
        await zookeeper.renew()
        await until(lambda: [token for token, _hmac in away.all()] == [second])

    run(tmp_path, scenario)


def test_a_writer_that_dies_between_a_token_and_its_change_node_leaves_a_token_for_the_next_start(
    tmp_path: Path,
) -> None:
    async def scenario(brokers: Brokers) -> None:
        zookeeper, before = await brokers.new()
        await zookeeper.create(f"{TOKENS}/aZqNkIqhR0OogxunHXPW8Q", BY_KAFKA)
        _, after = await brokers.new()
        brokers.now_ms = 20_000
        records = TokenRecords(BrokerId(1), lambda _: None, now_ms=lambda: 0, wall_ms=lambda: 0)
        expiry = TokenExpiry(after, records, **CONTROLLER)
        brokers.spawn(expiry.run())
        await until(lambda: after.all() == [])
        assert (await zookeeper.children(TOKENS), before.all()) == ([], [])

    run(tmp_path, scenario)


CONTROLLER: Any = {"is_controller": lambda: True, "interval_ms": 3_600_000}


@pytest.mark.parametrize(
    "garbage",
    [
        b"garbage",
        b"[]",
        b"\xff",
        BY_KAFKA.replace(b'"version":3', b'"version":4'),
        BY_KAFKA.replace(b"User%3Aalice", b"alice"),
        BY_KAFKA.replace(b"User%3Aalice", b"User:\\ud800"),
        BY_KAFKA.replace(b'"tokenId":"aZ', b'"tokenId":"bZ'),
    ],
)
def test_a_token_that_cannot_be_read_is_none_and_stays_where_it_is(tmp_path: Path, garbage: bytes) -> None:
    async def scenario(brokers: Brokers) -> None:
        zookeeper, _store = await brokers.new()
        await zookeeper.create(f"{TOKENS}/aZqNkIqhR0OogxunHXPW8Q", garbage)
        _, fresh = await brokers.new()
        assert fresh.all() == []
        hmac = KEY.hmac("aZqNkIqhR0OogxunHXPW8Q")
        assert await refusal(fresh.renew(hmac, ALICE, 1)) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        brokers.now_ms = 10**9
        assert await fresh.remove_expired() == []
        assert (await zookeeper.get(f"{TOKENS}/aZqNkIqhR0OogxunHXPW8Q"))[0] == garbage

    run(tmp_path, scenario)


@pytest.mark.parametrize("told", [b"..", b"a/b", b"", b"\xff", b"never-there"])
def test_change_nodes_of_garbage_do_not_stop_the_following(tmp_path: Path, told: bytes) -> None:
    async def scenario(brokers: Brokers) -> None:
        zookeeper, here = await brokers.new()
        _, there = await brokers.new()
        await zookeeper.create(f"{CHANGES}/token_change_", told, mode=room.CreateMode(2))
        token, _ = await here.create(WISH)
        await until(lambda: there.find(token.token_id) == token)

    run(tmp_path, scenario)


def test_change_nodes_go_after_a_quarter_of_an_hour(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        zookeeper, store = await brokers.new()
        await store.create(WISH)
        brokers.now_ms += CHANGE_RETENTION_MS + 1
        await store.create(WISH)
        async with asyncio.timeout(60):
            while len(await zookeeper.children(CHANGES)) != 1:  # noqa: ASYNC110 - deleted beside.
                await asyncio.sleep(0)

    run(tmp_path, scenario)


def test_whoever_makes_renews_and_ends_a_token_does_not_wait_for_old_change_nodes(tmp_path: Path) -> None:
    """A token that was written late was answered REQUEST_TIMED_OUT, and nothing told who had made it."""

    async def scenario(brokers: Brokers) -> None:
        zookeeper, store = await brokers.new()
        children = zookeeper.children

        async def asked(path: str, *, watch: bool = False) -> list[str]:
            if path == CHANGES and not watch:
                await asyncio.get_running_loop().create_future()
            return await children(path, watch=watch)

        zookeeper.children = asked  # type: ignore[method-assign]
        token, hmac = await store.create(WISH)
        assert (await store.renew(hmac, BOB, 500)).after is not None
        brokers.now_ms += PURGE_INTERVAL_MS
        assert (await store.expire(hmac, BOB, -1)).after is None
        assert store.find(token.token_id) is None

    run(tmp_path, scenario)


def test_an_owner_has_a_bounded_number_of_tokens_and_others_still_get_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(brokers: Brokers) -> None:
        _, store = await brokers.new()
        await store.create(WISH)
        await store.create(WISH)
        assert await refusal(store.create(WISH)) is ErrorCode.POLICY_VIOLATION
        await store.create(WISH._replace(owner=BOB))

    monkeypatch.setattr(room, "MAX_TOKENS_OF_OWNER", 2)
    run(tmp_path, scenario)


def test_the_names_in_an_owners_tokens_have_a_bound_and_others_still_get_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand tokens with a megabyte of renewers each would fill the memory of every broker."""

    async def scenario(brokers: Brokers) -> None:
        _, store = await brokers.new()
        long = WISH._replace(renewers=tuple(Principal("User", "x" * 1000) for _ in range(10)))
        await store.create(long)
        await store.create(long)
        assert await refusal(store.create(WISH)) is ErrorCode.POLICY_VIOLATION
        await store.create(WISH._replace(owner=BOB))

    monkeypatch.setattr(room, "MAX_OWNERS_BYTES", 20_000)
    run(tmp_path, scenario)


def test_short_names_take_room_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand renewers of one letter each are 5,000 characters, and 176 kB in the memory of every broker."""

    async def scenario(brokers: Brokers) -> None:
        _, store = await brokers.new()
        short = WISH._replace(renewers=tuple(Principal("User", letter) for letter in "abcdefghij") * 100)
        await store.create(short)
        await store.create(short)
        assert await refusal(store.create(WISH)) is ErrorCode.POLICY_VIOLATION

    monkeypatch.setattr(room, "MAX_OWNERS_BYTES", 300_000)
    run(tmp_path, scenario)


def test_a_new_token_does_not_have_all_names_of_its_owners_tokens_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be millions, and every request of the broker would wait meanwhile."""
    looks = 0
    plain = Token.names_bytes.fget  # type: ignore[attr-defined]  # a property

    def counted(token: Token) -> int:
        nonlocal looks
        looks += 1
        return int(plain(token))

    async def scenario(brokers: Brokers) -> None:
        _, store = await brokers.new()
        for _ in range(10):
            await store.create(WISH)
        assert looks <= 20  # Once as it is made, once as the change is read.

    monkeypatch.setattr(Token, "names_bytes", property(counted))
    run(tmp_path, scenario)


def test_the_room_of_a_token_that_has_ended_is_its_owners_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(brokers: Brokers) -> None:
        _, store = await brokers.new()
        long = WISH._replace(renewers=tuple(Principal("User", "x" * 1000) for _ in range(10)))
        _, first = await store.create(long)
        await store.renew(first, ALICE, 500)
        await store.renew(first, ALICE, 600)
        _, second = await store.create(long)
        assert await refusal(store.create(WISH)) is ErrorCode.POLICY_VIOLATION
        await store.expire(second, ALICE, -1)
        await store.create(WISH)

    monkeypatch.setattr(room, "MAX_OWNERS_BYTES", 20_000)
    run(tmp_path, scenario)


def test_what_zookeeper_does_not_take_is_refused(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        _, store = await brokers.new()
        renewers = tuple(Principal("User", "x" * 2000) for _ in range(600))
        assert await refusal(store.create(WISH._replace(renewers=renewers))) is ErrorCode.INVALID_REQUEST
        assert store.all() == []

    run(tmp_path, scenario)


def test_the_controller_removes_what_is_over_when_it_comes_and_nobody_else_does(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        zookeeper, store = await brokers.new()
        recorded: list[Decision] = []
        controller = [False]
        records = TokenRecords(BrokerId(1), recorded.append, now_ms=lambda: 0, wall_ms=lambda: brokers.now_ms)
        expiry = TokenExpiry(store, records, is_controller=lambda: controller[0], interval_ms=3_600_000)
        brokers.spawn(expiry.run())
        token, token_hmac = await store.create(WISH)
        await store.create(WISH)
        await store.renew(token_hmac, ALICE, 9000)
        brokers.now_ms += 5000
        for _ in range(20):
            expiry.on_controller_changed()
            await asyncio.sleep(0)
        assert len(await zookeeper.children(TOKENS)) == 2
        controller[0] = True
        expiry.on_controller_changed()
        await until(lambda: len(store.all()) == 1 and len(recorded) == 1)
        assert await zookeeper.children(TOKENS) == [token.token_id]
        assert recorded[0].kind is DecisionKind.TOKEN_CHANGED
        assert "the controller removed delegation token" in recorded[0].why

    run(tmp_path, scenario)


def test_a_token_that_was_renewed_meanwhile_elsewhere_is_not_removed(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        zookeeper, here = await brokers.new()
        _, there = await brokers.new()
        token, token_hmac = await here.create(WISH)
        await until(lambda: there.find(token.token_id) is not None)
        brokers.now_ms = 2000
        read = zookeeper.get_many

        async def outrun(paths: Any) -> Any:
            zookeeper.get_many = read  # type: ignore[method-assign]
            brokers.now_ms = 2000
            await there.renew(token_hmac, ALICE, 5000)
            brokers.now_ms = 2001
            return await read(paths)

        zookeeper.get_many = outrun  # type: ignore[method-assign]
        brokers.now_ms = 2001
        assert await here.remove_expired() == []
        assert await zookeeper.children(TOKENS) == [token.token_id]

    run(tmp_path, scenario)


def test_a_clock_that_is_set_back_keeps_no_refusal_from_being_recorded() -> None:
    recorded: list[Decision] = []
    now, wall = [0], [3_600_000]
    records = TokenRecords(BrokerId(1), recorded.append, now_ms=lambda: now[0], wall_ms=lambda: wall[0])
    by = Asker("User:carol", "10.0.0.1")
    for now[0], wall[0] in ((0, 3_600_000), (1_000, 90_000_000), (60_000, 0)):  # set forward a day, and back again
        records.refused("RENEW_DELEGATION_TOKEN", ErrorCode.DELEGATION_TOKEN_NOT_FOUND, by)
    assert [each.at_ms for each in recorded] == [3_600_000, 0]
    assert [each.evidence["unrecorded_before"] for each in recorded] == [0, 1]


@pytest.mark.parametrize("fault", [answer_lost, request_lost])
def test_a_start_goes_on_when_zookeeper_was_silent_while_the_znodes_were_made(tmp_path: Path, fault: Any) -> None:
    async def scenario(brokers: Brokers) -> None:
        connect = brokers.server.connect

        async def silent(*, timeout_ms: int = 30_000) -> LocalZooKeeper:
            zookeeper = await connect(timeout_ms=timeout_ms)
            once(zookeeper, fault)
            return zookeeper

        brokers.server.connect = silent  # type: ignore[method-assign]
        zookeeper, store = await brokers.new()
        await store.create(WISH)
        assert len(await zookeeper.children(TOKENS)) == 1

    run(tmp_path, scenario)


def test_changes_and_refusals_are_recorded_without_hmacs(tmp_path: Path) -> None:
    recorded: list[Decision] = []
    now = [1000]
    records = TokenRecords(BrokerId(1), recorded.append, now_ms=lambda: now[0], wall_ms=lambda: 1000)
    token = Token("id", ALICE, CAROL, (BOB,), 1000, 61_000, 90_000)
    by = Asker("User:carol", "10.0.0.1")
    records.created(token, by)
    records.changed(token, None, by)
    for _ in range(3):
        records.refused("RENEW_DELEGATION_TOKEN", ErrorCode.DELEGATION_TOKEN_NOT_FOUND, by)
    now[0] += 60_000
    records.refused("RENEW_DELEGATION_TOKEN", ErrorCode.DELEGATION_TOKEN_NOT_FOUND, by)
    assert [each.why for each in recorded] == [
        "User:carol from host 10.0.0.1 created delegation token id of User:alice, good for 60 s",
        "User:carol from host 10.0.0.1 removed delegation token id of User:alice",
        "User:carol from host 10.0.0.1 asked for RENEW_DELEGATION_TOKEN and was refused: DELEGATION_TOKEN_NOT_FOUND",
        "User:carol from host 10.0.0.1 asked for RENEW_DELEGATION_TOKEN and was refused: DELEGATION_TOKEN_NOT_FOUND",
    ]
    assert [each.evidence.get("unrecorded_before") for each in recorded] == [None, None, 0, 2]
    assert recorded[1].before == {"expires_ms": 61_000, "max_ms": 90_000}
