"""The client's session over a network that fails: what is repeated, what is unknown, what its listeners hear."""

from __future__ import annotations

import asyncio
import random

import pytest

from kavka.errors import ConfigError, ConnectionFailed
from kavka.zookeeper import client_session
from kavka.zookeeper.client import READS_IN_ONE, SINGLE_READS, ZooKeeperClient
from kavka.zookeeper.decide.connect_string import ConnectString, ZooKeeperAddress, parse_connect_string
from kavka.zookeeper.decide.jute import (
    ConnectAnswer,
    MultiAnswer,
    OpCode,
    PathAnswer,
    ReplyHeader,
    Request,
    SetWatchesRequest,
    StatAnswer,
    encode_connect_answer,
    encode_reply,
)
from kavka.zookeeper.port import (
    Acl,
    BadArguments,
    Check,
    ConnectionLoss,
    Create,
    Created,
    CreateMode,
    Event,
    EventType,
    NoAuth,
    NodeExists,
    NoNode,
    OutcomeUnknown,
    Permission,
    RequestTooLarge,
    SessionEvent,
    SessionExpired,
    SessionState,
    SetAcl,
    SetData,
    Stat,
    Unimplemented,
    WatchEvent,
    WatchMode,
    ZooKeeper,
)
from tests.unit.zookeeper.memory_ensemble import HOSTS, SESSION_MS, JumpingLoop, MemoryEnsemble, MemoryLink, run

SESSION_S = SESSION_MS / 1000
CONNECTED = SessionEvent(SessionState.CONNECTED)
DISCONNECTED = SessionEvent(SessionState.DISCONNECTED)
EXPIRED = SessionEvent(SessionState.EXPIRED)


def hear(client: ZooKeeper) -> list[Event]:
    heard: list[Event] = []
    client.subscribe(heard.append)
    return heard


def watched(heard: list[Event]) -> list[tuple[EventType, str]]:
    return [(event.type, event.path) for event in heard if isinstance(event, WatchEvent)]


async def until(condition: object, heard: list[Event]) -> None:
    """Waits until the event was heard, for a minute of virtual time."""
    for _ in range(6000):
        if condition in heard:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{condition} was not heard: {heard}")


# ------------------------------------------------------------------------------------------------- connect strings


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("a:1", [("a", 1)], ""),
        ("a", [("a", 2181)], ""),
        (" a:1 , b:2/x/y ", [("a", 1), ("b", 2)], "/x/y"),
        ("a:1/", [("a", 1)], ""),
        ("[::1]:5,[fe80::2]", [("::1", 5), ("fe80::2", 2181)], ""),
    ],
)
def test_a_connect_string_names_servers_and_a_chroot(text: str, servers: list[tuple[str, int]], chroot: str) -> None:
    expected = ConnectString(tuple(ZooKeeperAddress(*server) for server in servers), chroot)
    assert parse_connect_string(text) == expected


@pytest.mark.parametrize("text", ["", "/x", "a:0", "a:65536", "a:b", ":1", "[::1", "[::1]5", "a:1/x//y", "a:1/x/"])
def test_a_malformed_connect_string_is_refused_with_what_it_said(text: str) -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.connect"):
        parse_connect_string(text)


# -------------------------------------------------------------------------------------------------------- sessions


def test_the_chroot_is_made_where_it_is_missing_and_nobody_sees_it() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client(connect_string="z1,z2/deep/root")
        plain = await ensemble.client()
        assert await plain.children("/deep/root") == []
        heard = hear(client)
        created = await client.create("/a", b"1")
        assert created.path == "/a"
        assert (await plain.get("/deep/root/a"))[0] == b"1"
        assert await client.children("/", watch=True) == ["a"]
        await client.get("/", watch=True)
        numbered = await client.create("/", mode=CreateMode.PERSISTENT_SEQUENTIAL)
        assert numbered.path == "/0000000001"
        await plain.set("/deep/root", b"")
        results = await client.multi([SetData("/a", b"2"), Create("/a/b")])
        assert getattr(results[1], "path", None) == "/a/b"
        with pytest.raises(NodeExists) as refused:
            await client.multi([Check("/a", 1), Create("/a/b")])
        assert (refused.value.path, refused.value.operation_index) == ("/a/b", 1)
        assert watched(heard) == [(EventType.NODE_CHILDREN_CHANGED, "/"), (EventType.NODE_DATA_CHANGED, "/")]
        again = await ensemble.client(connect_string="z1/deep/root")
        assert await again.children("/") == ["0000000001", "a"]

    run(scenario)


def test_servers_are_tried_in_a_random_order_and_those_that_refuse_are_passed_over() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        first = set()
        for seed in range(20):
            ensemble.attempts.clear()
            client = await ensemble.client(rng=random.Random(seed))
            first.add(ensemble.attempts[0])
            await client.close()
        assert first == set(HOSTS)
        ensemble.down = {"z1", "z3"}
        ensemble.attempts.clear()
        await ensemble.client(rng=random.Random(2))
        assert ensemble.attempts[-1] == "z2"

    run(scenario)


def test_no_session_in_time_names_the_servers_and_the_last_failure() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        ensemble.down = set(HOSTS)
        before = asyncio.get_running_loop().time()
        with pytest.raises(ConnectionFailed, match=r"z\d:2181.*2000 ms.*refuses"):
            await ensemble.client(connection_timeout_ms=2000)
        assert asyncio.get_running_loop().time() == pytest.approx(before + 2)
        assert len(ensemble.attempts) < 30, "there are pauses between the rounds"
        ensemble.down, ensemble.silent = set(), set(HOSTS)
        with pytest.raises(ConnectionFailed, match="no answer"):
            await ensemble.client(connection_timeout_ms=2000)

    run(scenario)


def test_a_server_that_takes_connections_and_says_nothing_costs_its_share_of_the_time_only() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        ensemble.silent = {"z1", "z2"}
        loop = asyncio.get_running_loop()
        before = loop.time()
        client = await ensemble.client()
        assert loop.time() - before <= SESSION_S * 2 / 3
        await client.create("/a")

    run(scenario)


def test_pings_keep_an_idle_session_alive_and_a_busy_one_needs_none() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client()
        heard = hear(client)
        await client.create("/e", mode=CreateMode.EPHEMERAL)
        await asyncio.sleep(600)
        assert await client.exists("/e") is not None
        assert heard == []
        pings = sum(request.op == OpCode.PING for request in ensemble.requests)
        assert pings == pytest.approx(600 / (SESSION_S / 3), abs=2)
        ensemble.requests.clear()
        for _ in range(60):
            await client.exists("/e")
            await asyncio.sleep(1)
        assert not any(request.op == OpCode.PING for request in ensemble.requests)

    run(scenario)


def test_the_session_goes_on_at_another_server_with_its_id_and_ephemeral_nodes() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client()
        heard = hear(client)
        created = await client.create("/e", mode=CreateMode.EPHEMERAL)
        served_by = ensemble.links[0].host
        ensemble.down = {served_by}
        ensemble.cut()
        assert await client.exists("/e") == created.stat, "reads wait for the next server"
        assert heard == [DISCONNECTED, CONNECTED]
        (_, first), (host, second) = ensemble.greetings
        assert host != served_by
        assert (first.session_id, second.session_id) == (0, client.session_id)
        assert second.last_zxid_seen == created.stat.czxid

    run(scenario)


def test_a_server_that_falls_silent_is_left_in_time_to_keep_the_session() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client()
        heard = hear(client)
        await client.create("/e", mode=CreateMode.EPHEMERAL)
        loop = asyncio.get_running_loop()
        before = loop.time()
        ensemble.silent = {ensemble.links[0].host}
        assert await client.exists("/e") is not None
        assert loop.time() - before == pytest.approx(SESSION_S * 2 / 3, abs=0.01)
        assert heard == [DISCONNECTED, CONNECTED]

    run(scenario)


def standing_still(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    loop.stand_still(seconds)


@pytest.mark.parametrize("share", [0.5, 0.66, 0.7, 0.9, 1.5])
def test_a_server_is_not_taken_for_silent_because_this_process_stood_still(share: float) -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client()
        heard = hear(client)
        for pause_s in (0.1, SESSION_S / 3 - 0.01, SESSION_S / 2):
            await asyncio.sleep(pause_s)
            standing_still(share * SESSION_S)
            await asyncio.sleep(2 * SESSION_S)
        assert heard == []
        assert len(ensemble.greetings) == 1

    run(scenario)


def test_a_server_that_is_silent_is_left_soon_also_where_this_process_stands_still_again_and_again() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client()
        heard = hear(client)
        ensemble.silent = {ensemble.links[0].host}
        before = asyncio.get_running_loop().time()
        for _ in range(20):
            await asyncio.sleep(0.01)
            standing_still(SESSION_S / 5)
        assert heard[:1] == [DISCONNECTED]
        assert asyncio.get_running_loop().time() - before < 5 * SESSION_S

        ensemble.silent = {ensemble.links[-1].host}
        heard.clear()
        await asyncio.sleep(0.01)
        standing_still(SESSION_S * 0.7)
        before = asyncio.get_running_loop().time()
        await until(DISCONNECTED, heard)
        assert asyncio.get_running_loop().time() - before < SESSION_S / 4

    run(scenario)


def test_a_session_is_expired_when_a_server_says_so_and_not_before() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client()
        heard = hear(client)
        await client.create("/e", mode=CreateMode.EPHEMERAL)
        old = client.session_id
        ensemble.down = set(HOSTS)
        ensemble.cut()
        await asyncio.sleep(10 * SESSION_S)
        assert heard == [DISCONNECTED], "nobody can know"
        waiting = [asyncio.ensure_future(client.exists("/e")), asyncio.ensure_future(client.set("/e", b""))]
        await asyncio.sleep(1)
        assert not any(request.done() for request in waiting)
        ensemble.down = set()
        for request in waiting:
            with pytest.raises(SessionExpired):
                await request
        assert heard == [DISCONNECTED, EXPIRED]
        for attempt in (client.get("/"), client.create("/a"), client.multi([])):
            with pytest.raises(SessionExpired):
                await attempt
        assert await client.renew() != old
        assert await client.renew() == client.session_id, "it is alive"
        assert await client.exists("/e") is None
        assert heard == [DISCONNECTED, EXPIRED, CONNECTED]

    run(scenario)


def test_an_answer_that_says_expired_ends_the_session_at_once() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client()
        heard = hear(client)

        async def expire(link: MemoryLink, request: Request) -> None:
            ensemble.embedded.detach(client.session_id)  # The request's answer comes first, then the end.
            await ensemble.embedded.expire(client.session_id)

        ensemble.before_request = expire
        asked = [asyncio.ensure_future(client.create(f"/{number}")) for number in range(30)]
        for each in asked:
            with pytest.raises(SessionExpired):
                await each
        assert heard == [EXPIRED]
        ensemble.before_request = None
        await client.renew()
        assert await client.children("/") == ["zookeeper"]

    run(scenario)


def test_renewing_without_a_server_fails_for_the_moment_and_works_later() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client()
        heard = hear(client)
        await ensemble.embedded.expire(client.session_id)
        await until(EXPIRED, heard)
        ensemble.down = set(HOSTS)
        with pytest.raises(ConnectionLoss, match="6000 ms"):
            await client.renew()
        with pytest.raises(SessionExpired):
            await client.get("/")
        renewing = [asyncio.ensure_future(client.renew()) for _ in range(3)]
        await asyncio.sleep(1)
        ensemble.down = set()
        sessions = [await each for each in renewing]
        assert sessions == [client.session_id] * 3
        assert heard.count(CONNECTED) == 1

    run(scenario)


def test_a_renewed_session_has_no_watches() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client, other = await ensemble.client(), await ensemble.client()
        await client.exists("/a", watch=True)
        await client.add_watch("/", WatchMode.PERSISTENT_RECURSIVE)
        heard = hear(client)
        await ensemble.embedded.expire(client.session_id)
        await until(EXPIRED, heard)
        await client.renew()
        await other.create("/a")
        await client.sync("/")
        assert watched(heard) == []

    run(scenario)


def test_closing_ends_ephemeral_nodes_at_once_and_answers_what_was_sent() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client, other = await ensemble.client(max_in_flight=1), await ensemble.client()
        await client.create("/e", mode=CreateMode.EPHEMERAL)
        sent, unsent = (asyncio.ensure_future(client.create(f"/{name}")) for name in ("sent", "unsent"))
        await asyncio.sleep(0)
        await client.close()
        await client.close()
        assert (await sent).path == "/sent"
        with pytest.raises(SessionExpired):
            await unsent
        assert await other.exists("/e") is None
        for attempt in (client.get("/"), client.renew()):
            with pytest.raises(SessionExpired):
                await attempt

    run(scenario)


def test_closing_while_nobody_answers_ends_soon() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        loop = asyncio.get_running_loop()
        for fault in ("silent", "cut", "down"):
            client = await ensemble.client()
            before = loop.time()
            writing = asyncio.ensure_future(client.create("/never"))
            ensemble.silent = set(HOSTS)
            await asyncio.sleep(0)
            if fault == "cut":
                loop.call_later(1, ensemble.cut)
            elif fault == "down":
                ensemble.cut()
                await asyncio.sleep(0.1)
            await client.close()
            with pytest.raises(ConnectionLoss):
                await writing
            assert loop.time() - before <= {"silent": client_session.CLOSE_MS / 1000, "cut": 1.01, "down": 0.2}[fault]
            ensemble.silent = set()

    run(scenario)


# ---------------------------------------------------------------------------------------------- outcomes of requests


def test_a_write_whose_answer_is_lost_has_an_unknown_outcome_whether_it_was_carried_out_or_not() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client()
        await client.create("/a")
        ensemble.holding = True
        writing = asyncio.ensure_future(client.multi([SetData("/a", b"1"), Create("/b")]))
        await asyncio.sleep(0.1)
        ensemble.holding = False
        ensemble.cut()
        with pytest.raises(ConnectionLoss):
            await writing
        assert (await client.get("/a"))[0] == b"1", "it was carried out"

        ensemble.silent = {ensemble.links[0].host}
        writing = asyncio.ensure_future(client.multi([SetData("/a", b"2"), Create("/c")]))
        await asyncio.sleep(0.1)
        ensemble.cut()
        with pytest.raises(ConnectionLoss):
            await writing
        assert (await client.get("/a"))[0] == b"1", "it was not"

    run(scenario)


def test_writes_that_were_not_sent_wait_for_the_next_server_and_are_carried_out_once_in_order() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client(max_in_flight=2)
        ensemble.silent = set(HOSTS)
        writing = [asyncio.ensure_future(client.create("/n", mode=CreateMode.PERSISTENT_SEQUENTIAL)) for _ in range(10)]
        await asyncio.sleep(0.1)
        ensemble.silent = set()
        ensemble.cut()
        outcomes = await asyncio.gather(*writing, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes[:2]] == [ConnectionLoss, ConnectionLoss]
        assert [getattr(outcome, "path", outcome) for outcome in outcomes[2:]] == [f"/n{n:010}" for n in range(8)]

    run(scenario)


def test_reads_are_asked_again_and_answered_in_their_order() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client(max_in_flight=3)
        for number in range(20):
            await client.create(f"/{number}", str(number).encode())
        answered: list[int] = []

        async def read(number: int) -> None:
            assert (await client.get(f"/{number}"))[0] == str(number).encode()
            answered.append(number)

        ensemble.holding = True
        reading = [asyncio.ensure_future(read(number)) for number in range(20)]
        await asyncio.sleep(0.1)
        ensemble.holding = False
        ensemble.cut()
        await asyncio.gather(*reading)
        assert answered == list(range(20))
        many = asyncio.ensure_future(client.get_many([f"/{number}" for number in range(22)]))
        await asyncio.sleep(0)
        ensemble.cut()
        found = await many
        assert [node and node[0] for node in found] == [str(n).encode() for n in range(20)] + [None, None]

    run(scenario)


def test_no_more_requests_are_in_flight_than_allowed() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client(max_in_flight=4)
        ensemble.holding = True
        ensemble.requests.clear()
        reading = asyncio.ensure_future(client.get_many(["/"] * 30))
        await asyncio.sleep(0.1)
        assert len(ensemble.requests) == 4
        ensemble.release()
        assert len(await reading) == 30

    run(scenario)


async def make_many(client: ZooKeeper) -> tuple[list[str], list[bytes | None]]:
    """More nodes than are read one by one, each third of them missing; and what is in them."""
    numbers = range(SINGLE_READS + 2 * READS_IN_ONE + 1)
    await client.multi([Create(f"/{number}", str(number).encode()) for number in numbers if number % 3])
    return [f"/{number}" for number in numbers], [str(n).encode() if n % 3 else None for n in numbers]


def test_many_nodes_are_read_with_few_requests() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client(connect_string="z1/chroot")
        paths, expected = await make_many(client)
        one_by_one = [await client.get(path) for path in paths[1:3]]
        ensemble.requests.clear()
        found = await client.get_many(paths)
        assert [node and node[0] for node in found] == expected
        assert found[1:3] == one_by_one
        asked = ensemble.ops()
        assert set(asked) == {OpCode.MULTI_READ}
        assert len(asked) == -(-len(paths) // READS_IN_ONE) + 1, "and one that finds out whether it is known"
        await client.get_many(paths)
        assert len(ensemble.ops()) == 2 * len(asked) - 1
        ensemble.requests.clear()
        await client.get_many(paths[:SINGLE_READS])
        assert set(ensemble.ops()) == {OpCode.GET_DATA}

    run(scenario)


def test_a_read_of_many_nodes_goes_on_at_the_next_connection() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client()
        paths, expected = await make_many(client)
        await client.get_many(paths)
        ensemble.holding = True
        reading = asyncio.ensure_future(client.get_many(paths))
        await asyncio.sleep(0.1)
        ensemble.holding = False
        ensemble.cut()
        assert [node and node[0] for node in await reading] == expected

    run(scenario)


def test_of_many_nodes_one_that_may_not_be_read_is_named() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client()
        paths, _ = await make_many(client)
        await client.set_acl("/110", (Acl(Permission.WRITE, "world", "anyone"),))
        with pytest.raises(NoAuth) as refused:
            await client.get_many(paths)
        assert refused.value.path == "/110"

    run(scenario)


def test_from_a_server_that_is_too_old_many_nodes_are_read_one_by_one() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client()
        paths, expected = await make_many(client)
        ensemble.unknown.add(OpCode.MULTI_READ)
        ensemble.requests.clear()
        assert [node and node[0] for node in await client.get_many(paths)] == expected
        assert ensemble.ops().count(OpCode.MULTI_READ) == 1
        await client.get_many(paths)
        assert ensemble.ops().count(OpCode.MULTI_READ) == 1, "it is known by now"

    run(scenario)


def test_a_session_that_goes_on_at_an_older_server_reads_many_nodes_all_the_same() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client()
        paths, expected = await make_many(client)
        await client.get_many(paths)
        ensemble.unknown.add(OpCode.MULTI_READ)
        assert [node and node[0] for node in await client.get_many(paths)] == expected

    run(scenario)


def test_a_request_that_was_given_up_before_it_was_sent_is_not_sent() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client(max_in_flight=1)
        ensemble.holding = True
        writing = [asyncio.ensure_future(client.create(f"/{name}")) for name in "abc"]
        await asyncio.sleep(0.1)
        writing[0].cancel()
        writing[1].cancel()
        await asyncio.sleep(0)
        ensemble.release()
        await writing[2]
        assert await client.children("/") == ["a", "c", "zookeeper"]

    run(scenario)


def test_too_many_requests_that_wait_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_session, "MAX_WAITING_REQUESTS", 5)

    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client(max_in_flight=1)
        ensemble.holding = True
        waiting = [asyncio.ensure_future(client.exists("/a")) for _ in range(6)]
        await asyncio.sleep(0)
        with pytest.raises(ConnectionLoss, match="5 requests wait"):
            await client.exists("/b")
        waiting[3].cancel()
        await asyncio.sleep(0)
        waiting.append(asyncio.ensure_future(client.exists("/c")))
        await asyncio.sleep(0)
        ensemble.release()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [
            outcome for outcome in outcomes if outcome is not None and not isinstance(outcome, asyncio.CancelledError)
        ] == []

    run(scenario)


def test_an_answer_that_is_too_long_fails_its_read_instead_of_coming_again_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_session, "MAX_ANSWER_BYTES", 2000)

    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client()
        await client.create("/long", bytes(3000))
        with pytest.raises(ConnectionLoss):
            await client.get("/long")
        await client.set("/long", b"")
        assert (await client.get("/long"))[0] == b""

    run(scenario)


def test_what_cannot_be_sent_is_refused_before() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client()
        ensemble.requests.clear()
        with pytest.raises(RequestTooLarge):
            await client.create("/a", bytes(1 << 20))
        for path in ("a", "/a/", "//", "/a//b", "/a/.."):
            with pytest.raises(BadArguments):
                await client.get(path)
        with pytest.raises(BadArguments) as refused:
            await client.multi([Create("/a"), SetAcl("/a", ())])
        assert refused.value.operation_index == 1
        assert ensemble.ops() == []

    run(scenario)


# --------------------------------------------------------------------------------------------------------- watches


def test_one_shot_watches_are_left_again_and_what_they_missed_is_told() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client, other = await ensemble.client(connect_string="z1,z2,z3/root"), await ensemble.client()
        for path in ("/data", "/same", "/gone", "/parent", "/told"):
            await client.create(path)
        heard = hear(client)
        for path in ("/data", "/same", "/gone", "/told"):
            await client.get(path, watch=True)
        for path in ("/made", "/later"):
            assert await client.exists(path, watch=True) is None
        await client.exists("/gone", watch=True)
        await client.children("/parent", watch=True)
        await other.set("/root/told", b"")
        await client.sync("/")
        assert watched(heard) == [(EventType.NODE_DATA_CHANGED, "/told")]
        heard.clear()

        ensemble.down = set(HOSTS)
        ensemble.links[0].cut()
        await other.set("/root/data", b"new")
        await other.set("/root/told", b"again")
        await other.delete("/root/gone")
        await other.create("/root/parent/child")
        await other.create("/root/made")
        ensemble.down = set()
        assert (await client.get("/data"))[0] == b"new"
        assert heard == [
            DISCONNECTED,
            CONNECTED,
            *(
                event._replace(zxid=heard[2].zxid)
                for event in (
                    WatchEvent(EventType.NODE_DATA_CHANGED, "/data", 0),
                    WatchEvent(EventType.NODE_DELETED, "/gone", 0),
                    WatchEvent(EventType.NODE_CREATED, "/made", 0),
                    WatchEvent(EventType.NODE_CHILDREN_CHANGED, "/parent", 0),
                )
                if isinstance(heard[2], WatchEvent)
            ),
        ]
        heard.clear()
        await other.set("/root/same", b"")
        await other.set("/root/data", b"")
        await other.create("/root/later")
        await client.sync("/")
        assert watched(heard) == [(EventType.NODE_DATA_CHANGED, "/same"), (EventType.NODE_CREATED, "/later")]

    run(scenario)


def test_watches_that_stay_are_left_again() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client, other = await ensemble.client(), await ensemble.client()
        await client.add_watch("/a", WatchMode.PERSISTENT)
        await client.add_watch("/b", WatchMode.PERSISTENT_RECURSIVE)
        await client.add_watch("/c", WatchMode.PERSISTENT)
        await client.remove_watches("/c")
        heard = hear(client)
        ensemble.cut()
        await until(CONNECTED, heard)
        heard.clear()
        for path in ("/a", "/a/child", "/b", "/b/child", "/c"):
            await other.create(path)
        await client.sync("/")
        assert watched(heard) == [
            (EventType.NODE_CREATED, "/a"),
            (EventType.NODE_CHILDREN_CHANGED, "/a"),
            (EventType.NODE_CREATED, "/b"),
            (EventType.NODE_CREATED, "/b/child"),
        ]

    run(scenario)


def test_removing_watches_while_the_connection_ends_removes_them() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client, other = await ensemble.client(), await ensemble.client()
        await client.add_watch("/a", WatchMode.PERSISTENT)
        await client.exists("/a", watch=True)
        heard = hear(client)
        ensemble.silent = set(HOSTS)
        removing = asyncio.ensure_future(client.remove_watches("/a"))
        await asyncio.sleep(0.1)
        ensemble.silent = set()
        ensemble.cut()
        await removing
        await other.create("/a")
        await client.sync("/")
        assert watched(heard) == []

    run(scenario)


def test_many_watches_are_restored_in_several_requests_and_none_of_their_events_is_lost_between_them() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        other, client = await ensemble.client(), await ensemble.client()
        heard = hear(client)
        paths = [f"/{'x' * 1000}{number:03}" for number in range(400)]
        for path in paths:
            await other.create(path)
            await client.get(path, watch=True)
        ensemble.down = set(HOSTS)
        ensemble.links[1].cut()
        for path in paths:
            await other.set(path, b"")
        # The connection that brings the first half of the events ends before it brings the other.
        restored = 0

        async def cut_in_the_middle(link: MemoryLink, request: Request) -> None:
            nonlocal restored
            if isinstance(request.record, SetWatchesRequest):
                restored += 1
                if restored == 3:
                    await asyncio.sleep(0.1)
                    link.cut()

        ensemble.before_request = cut_in_the_middle
        ensemble.requests.clear()
        ensemble.down = set()
        for _ in range(4):
            await client.sync("/")
        assert sorted(watched(heard)) == [(EventType.NODE_DATA_CHANGED, path) for path in paths]
        assert heard.count(DISCONNECTED) == 2
        assert restored > 4

    run(scenario)


def test_the_second_of_two_events_of_one_transaction_is_not_lost_with_the_connection_between_them() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client, other = await ensemble.client(), await ensemble.client()
        heard = hear(client)
        for path in ("/a", "/b"):
            await client.exists(path, watch=True)
        link = ensemble.links[0]
        await client.sync("/")
        wrote = link.write

        def only_the_first(payload: bytes) -> None:
            wrote(payload)
            asyncio.get_running_loop().call_soon(link.cut)
            link.write = lambda payload: None  # type: ignore[method-assign]

        link.write = only_the_first  # type: ignore[method-assign]
        await other.multi([Create("/a"), Create("/b")])
        await until(CONNECTED, heard)
        await client.sync("/")
        assert watched(heard) == [(EventType.NODE_CREATED, "/a"), (EventType.NODE_CREATED, "/b")]

    run(scenario)


def test_an_event_comes_before_the_answer_that_shows_its_change_and_after_those_before_it() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client, other = await ensemble.client(), await ensemble.client()
        history: list[str] = []
        client.subscribe(lambda event: history.append("event") if isinstance(event, WatchEvent) else None)

        async def look(name: str) -> None:
            stat = await client.exists("/a", watch=name == "first")
            history.append(f"{name}: {'there' if stat else 'not there'}")

        # All of it comes at once.
        ensemble.holding = True
        looking = [asyncio.ensure_future(look("first"))]
        await asyncio.sleep(0.1)
        ensemble.links[1].release()
        creating = asyncio.ensure_future(other.create("/a"))
        await asyncio.sleep(0.1)
        looking.append(asyncio.ensure_future(look("second")))
        await asyncio.sleep(0.1)
        ensemble.release()
        await asyncio.gather(*looking, creating)
        assert history == ["first: not there", "event", "second: there"]

    run(scenario)


# ------------------------------------------------------------------------------------- servers that do not play along


class Script:
    """A Network whose server answers each frame with the next one of the script, and ends behind the last."""

    def __init__(self, *answers: bytes) -> None:
        self._script = list(answers)
        self._answers: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def connect(self, host: str, port: int, *, max_frame_bytes: int = 1 << 28) -> Script:
        return self

    def send_frame(self, parts: object) -> None:
        self._answers.put_nowait(self._script.pop(0) if self._script else None)

    async def drain(self) -> None:
        pass

    async def receive_frame(self) -> bytes:
        answer = await self._answers.get()
        if answer is None:
            raise ConnectionFailed("the script is over")
        return answer

    def close(self) -> None:
        self._answers.put_nowait(None)


async def connect(script: Script) -> ZooKeeperClient:
    return await ZooKeeperClient.connect(
        script, "z1", session_timeout_ms=1000, connection_timeout_ms=1000, rng=random.Random(1)
    )


@pytest.mark.parametrize("garbage", [b"", b"\xff" * 40, bytes(3)])
def test_a_server_that_greets_with_garbage_is_no_server(garbage: bytes) -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        with pytest.raises(ConnectionFailed):
            await connect(Script(garbage, garbage))

    run(scenario)


GREETING = encode_connect_answer(ConnectAnswer(0, 1000, 7, bytes(16), False))


def test_a_creation_in_a_multi_that_is_answered_without_its_stat_is_read() -> None:
    """As ZooKeeper 3.8.0 does. What changed since the creation is not told."""
    read = Stat(5, 9, 11, 12, 3, 1, 0, 7, 2, 1, 9)
    paths = MultiAnswer(((OpCode.CREATE, PathAnswer("/a")), (OpCode.CREATE, PathAnswer("/gone"))))

    async def scenario(ensemble: MemoryEnsemble) -> None:
        script = Script(
            GREETING,
            encode_reply(ReplyHeader(1, 5), paths),
            encode_reply(ReplyHeader(2, 9), StatAnswer(read)),
            encode_reply(ReplyHeader(3, 9, NoNode.code)),
        )
        client = await connect(script)
        results = await client.multi([Create("/a", b"123", CreateMode.EPHEMERAL), Create("/gone")])
        assert results == [
            Created("/a", Stat(5, 5, 11, 11, 0, 0, 0, 7, 3, 0, 5)),
            Created("/gone", Stat(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
        ]
        await client.close()

    run(scenario)


@pytest.mark.parametrize(
    ("code", "kind"), [(-6, Unimplemented), (-102, NoAuth), (-127, OutcomeUnknown), (-118, ConnectionLoss)]
)
def test_error_codes_are_rejections_where_nothing_can_have_happened(code: int, kind: type[Exception]) -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await connect(Script(GREETING, encode_reply(ReplyHeader(1, 5, code))))
        with pytest.raises(kind) as refused:
            await client.set("/a", b"")
        assert type(refused.value) is kind
        await client.close()

    run(scenario)


def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await connect(Script(GREETING, encode_reply(ReplyHeader(7, 5))))
        with pytest.raises(ConnectionLoss, match="an answer to request 7, expected 1"):
            await client.set("/a", b"")
        await client.close()

    run(scenario)


def test_the_time_out_is_what_the_server_says() -> None:
    async def scenario(ensemble: MemoryEnsemble) -> None:
        client = await ensemble.client(session_timeout_ms=100, connection_timeout_ms=5000)
        await client.create("/e", mode=CreateMode.EPHEMERAL)
        await asyncio.sleep(30)
        assert await client.exists("/e") is not None
        pings = sum(request.op == OpCode.PING for request in ensemble.requests)
        assert pings == pytest.approx(30 / (1.0 / 3), abs=2), "of two ticks, not of what was asked for"

    run(scenario)
