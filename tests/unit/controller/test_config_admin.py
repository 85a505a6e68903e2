"""Configurations in ZooKeeper: compare-and-set, and the notifications by which others hear of a change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import pytest

from kavka.controller.work.config_admin import MAX_CHANGE_ATTEMPTS, ConfigAdmin, ConfigChanges
from kavka.errors import ConfigError, ErrorCode, RequestError, ZooKeeperError
from kavka.zookeeper.old_changes import CHANGE_RETENTION_MS, delete_old
from kavka.zookeeper.port import ConnectionLoss, CreateMode, Operation, OperationResult
from kavka.zookeeper.znodes import ConfigEntity
from tests.unit.controller.cluster_support import NOW_MS, Cluster, run

T = "topics/t"


def setting(name: str, value: str) -> Callable[[Mapping[str, str]], Mapping[str, str]]:
    return lambda current: {**current, name: value}


def test_a_change_writes_the_entity_and_notifies(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        config = ConfigAdmin(cluster.admin)
        assert await config.read(T) == ConfigEntity({})
        assert await config.change(T, setting("a", "1")) == ConfigEntity({"a": "1"})
        assert await config.change(T, setting("b", "2")) == ConfigEntity({"a": "1", "b": "2"})
        assert await config.read(T) == ConfigEntity({"a": "1", "b": "2"})
        assert await cluster.admin.children("/config/changes") == [
            "config_change_0000000000",
            "config_change_0000000001",
        ]
        data, _ = await cluster.admin.get("/config/changes/config_change_0000000001")
        assert data == b'{"version":2,"entity_path":"topics/t"}'
        assert await config.read_all("topics") == {"t": ConfigEntity({"a": "1", "b": "2"})}
        assert await config.read_all("nothing") == {}

    run(tmp_path, scenario)


def test_nested_entities_get_their_parents(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        config = ConfigAdmin(cluster.admin)
        await config.change("users/u/clients/c", setting("a", "1"))
        await config.change("users/u/clients/d", setting("a", "1"))
        assert await cluster.admin.children("/config/users/u/clients") == ["c", "d"]
        assert await config.read_all("users") == {"u": ConfigEntity({})}

    run(tmp_path, scenario)


def test_a_refused_or_validated_change_writes_nothing(tmp_path: Path) -> None:
    def refuse(current: Mapping[str, str]) -> Mapping[str, str]:
        raise ConfigError("no")

    async def scenario(cluster: Cluster) -> None:
        config = ConfigAdmin(cluster.admin)
        before = cluster.server.tree_zxid
        with pytest.raises(ConfigError):
            await config.change(T, refuse)
        assert await config.change(T, setting("a", "1"), validate_only=True) == ConfigEntity({"a": "1"})
        assert cluster.server.tree_zxid == before

    run(tmp_path, scenario)


def test_two_changes_at_once_both_count(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        one, other = ConfigAdmin(cluster.admin), ConfigAdmin(await cluster.server.connect())
        await asyncio.gather(
            *(admin.change(T, setting(f"k{number}", "1")) for number in range(4) for admin in (one, other))
        )
        assert sorted((await one.read(T)).config) == ["k0", "k1", "k2", "k3"]

    run(tmp_path, scenario)


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_a_change_whose_answer_was_lost_is_made(tmp_path: Path, lost: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        original, losses = cluster.admin.multi, [lost]

        async def lossy(operations: Sequence[Operation]) -> list[OperationResult]:
            if losses and losses.pop() == "request":
                raise ConnectionLoss("before")
            results = await original(operations)
            if lost == "answer" and len(done) == 0:
                done.append(1)
                raise ConnectionLoss("after")
            return results

        done: list[int] = []
        cluster.admin.multi = lossy  # type: ignore[method-assign]
        config = ConfigAdmin(cluster.admin)
        assert await config.change(T, setting("a", "1")) == ConfigEntity({"a": "1"})
        assert await config.read(T) == ConfigEntity({"a": "1"})

    run(tmp_path, scenario)


def test_a_change_that_is_always_overtaken_gives_up(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        config = ConfigAdmin(cluster.admin)
        await config.change(T, setting("a", "1"))
        original, attempts = cluster.admin.multi, []

        async def overtaken(operations: Sequence[Operation]) -> list[OperationResult]:
            attempts.append(1)
            await cluster.admin.set("/config/topics/t", ConfigEntity({"other": str(len(attempts))}).encode())
            return await original(operations)

        cluster.admin.multi = overtaken  # type: ignore[method-assign]
        with pytest.raises(RequestError) as refused:
            await config.change(T, setting("a", "2"))
        assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert len(attempts) == MAX_CHANGE_ATTEMPTS

    run(tmp_path, scenario)


class Listening:
    def __init__(self, cluster: Cluster) -> None:
        self.applied: list[tuple[str, Mapping[str, str]]] = []
        self.failed: list[str] = []
        self.read_all_times = 0
        self.failing_reads = 0
        self.changes = ConfigChanges(
            cluster.admin,
            self.apply,
            read_all=self.read_all,
            on_failure=lambda path, failure: self.failed.append(path),
        )

    async def apply(self, entity_path: str, entity: ConfigEntity) -> None:
        self.applied.append((entity_path, entity.config))

    async def read_all(self) -> None:
        if self.failing_reads:
            self.failing_reads -= 1
            raise ConnectionLoss("for the test")
        self.read_all_times += 1


def listening(
    scenario: Callable[[Cluster, Listening, ConfigAdmin], Awaitable[None]],
) -> Callable[[Cluster], Awaitable[None]]:
    async def with_listener(cluster: Cluster) -> None:
        other = ConfigAdmin(await cluster.server.connect())
        await other.change(T, setting("before", "1"))
        listener = Listening(cluster)
        await listener.changes.start()
        await scenario(cluster, listener, other)
        await listener.changes.stop()

    return with_listener


def test_a_listener_hears_every_change_after_its_start(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, listener: Listening, other: ConfigAdmin) -> None:
        await other.change(T, setting("a", "1"))
        await other.change("brokers/<default>", setting("b", "2"))
        await cluster.admin.sync("/")
        await listener.changes.settled()
        assert listener.applied == [(T, {"before": "1", "a": "1"}), ("brokers/<default>", {"b": "2"})]

    run(tmp_path, listening(scenario))


def test_a_listener_goes_on_after_garbage(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, listener: Listening, other: ConfigAdmin) -> None:
        garbage = await cluster.admin.create(
            "/config/changes/config_change_", b"garbage", mode=CreateMode.PERSISTENT_SEQUENTIAL
        )
        await other.change(T, setting("a", "1"))
        await cluster.admin.sync("/")
        await listener.changes.settled()
        assert listener.failed == [garbage.path]
        assert [path for path, _ in listener.applied] == [T]

    run(tmp_path, listening(scenario))


def test_a_listener_starts_and_goes_on_beside_nodes_that_are_no_notifications(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, listener: Listening, other: ConfigAdmin) -> None:
        for name in ("x", "config_change_", "config_change_1", "9999999999x"):
            await cluster.admin.create(f"/config/changes/{name}", b"garbage")
        late = Listening(cluster)
        await late.changes.start()
        await other.change(T, setting("a", "1"))
        await cluster.admin.sync("/")
        for each in (listener, late):
            await each.changes.settled()
            assert (each.failed, [path for path, _ in each.applied]) == ([], [T])
        await late.changes.stop()

    run(tmp_path, listening(scenario))


def test_a_listener_catches_up_after_its_session_expired(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, listener: Listening, other: ConfigAdmin) -> None:
        await cluster.server.expire(cluster.admin.session_id)
        await other.change(T, setting("a", "1"))
        await listener.changes.settled()
        assert listener.applied == []
        await cluster.admin.renew()
        await asyncio.sleep(0)
        await listener.changes.settled()
        assert [path for path, _ in listener.applied] == [T]
        assert listener.read_all_times == 0

    run(tmp_path, listening(scenario))


async def purge(cluster: Cluster) -> None:
    other = await cluster.server.connect()
    assert await delete_old(other, "/config/changes", NOW_MS + CHANGE_RETENTION_MS + 1)


async def back(cluster: Cluster, listener: Listening) -> None:
    await cluster.admin.renew()
    await asyncio.sleep(0)
    await listener.changes.settled()


@pytest.mark.parametrize("left", [0, 2], ids=["none left", "two left"])
def test_a_listener_that_was_away_for_longer_than_notifications_live_reads_all(tmp_path: Path, left: int) -> None:
    async def scenario(cluster: Cluster, listener: Listening, other: ConfigAdmin) -> None:
        await cluster.server.expire(cluster.admin.session_id)
        for value in "123":
            await other.change(T, setting("a", value))
        await purge(cluster)
        for value in "45"[:left]:
            await other.change(T, setting("a", value))
        await back(cluster, listener)
        assert listener.read_all_times == 1
        assert [path for path, _ in listener.applied] == [T] * left
        # It goes on from there, and reads all only once.
        await other.change(T, setting("b", "1"))
        await cluster.admin.sync("/")
        await listener.changes.settled()
        assert len(listener.applied) == left + 1
        await cluster.server.expire(cluster.admin.session_id)
        await back(cluster, listener)
        assert listener.read_all_times == 1

    run(tmp_path, listening(scenario))


def test_a_listener_reads_all_when_a_notification_went_before_it_looked(tmp_path: Path) -> None:
    """As with a broker that stood still, or another one's clock that is ahead by more than notifications live."""

    async def scenario(cluster: Cluster, listener: Listening, other: ConfigAdmin) -> None:
        original = cluster.admin.children

        async def late(path: str, *, watch: bool = False) -> list[str]:
            cluster.admin.children = original  # type: ignore[method-assign]
            await purge(cluster)
            await other.change(T, setting("a", "2"))
            return await original(path, watch=watch)

        cluster.admin.children = late  # type: ignore[method-assign]
        await other.change("topics/u", setting("a", "1"))
        await cluster.admin.sync("/")
        await listener.changes.settled()
        assert listener.read_all_times == 1

    run(tmp_path, listening(scenario))


def test_a_reading_of_all_that_fails_is_tried_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, listener: Listening, other: ConfigAdmin) -> None:
        await cluster.server.expire(cluster.admin.session_id)
        await other.change(T, setting("a", "1"))
        await purge(cluster)
        listener.failing_reads = 1
        await back(cluster, listener)
        assert (listener.read_all_times, listener.failed) == (0, ["/config/changes"])
        await other.change(T, setting("a", "2"))
        await cluster.admin.sync("/")
        await listener.changes.settled()
        assert listener.read_all_times == 1

    run(tmp_path, listening(scenario))


def test_a_listener_reads_all_from_a_zookeeper_that_was_restored(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, listener: Listening, other: ConfigAdmin) -> None:
        await other.change(T, setting("a", "1"))
        await cluster.admin.sync("/")
        await listener.changes.settled()
        listener.changes.last_sequence = 1_000  # As if it had seen what was made after the backup.
        await cluster.server.expire(cluster.admin.session_id)
        await back(cluster, listener)
        assert listener.read_all_times == 1
        await other.change(T, setting("a", "2"))
        await cluster.admin.sync("/")
        await listener.changes.settled()
        assert len(listener.applied) == 2

    run(tmp_path, listening(scenario))


def test_a_failure_of_zookeeper_is_told_and_the_next_event_tries_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster, listener: Listening, other: ConfigAdmin) -> None:
        original, failures = cluster.admin.get, [ConnectionLoss("for the test")]

        async def get(path: str, *, watch: bool = False) -> object:
            if failures:
                raise failures.pop()
            return await original(path, watch=watch)

        cluster.admin.get = get  # type: ignore[method-assign,assignment]
        await other.change(T, setting("a", "1"))
        await cluster.admin.sync("/")
        await listener.changes.settled()
        assert listener.failed == ["/config/changes"]
        await other.change(T, setting("b", "2"))
        await cluster.admin.sync("/")
        await listener.changes.settled()
        assert len(listener.applied) == 2

    run(tmp_path, listening(scenario))


def test_settings_that_cannot_be_read_can_be_set_anew(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.admin.create("/config/topics/t", b"garbage")
        config = ConfigAdmin(cluster.admin)
        await config.change(T, lambda current: {**current, "retention.ms": "1"}, validate_only=True)
        with pytest.raises(ZooKeeperError):
            await config.read(T)
        await config.change(T, lambda current: {**current, "retention.ms": "1"})
        assert await config.read(T) == ConfigEntity({"retention.ms": "1"})

    run(tmp_path, scenario)


def test_an_entity_that_cannot_be_read_is_an_error_for_one_and_nothing_among_all(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.admin.create("/config/topics/t", b"garbage")
        config = ConfigAdmin(cluster.admin)
        with pytest.raises(ZooKeeperError, match="/config/topics/t: malformed"):
            await config.read(T)
        assert await config.read_all("topics") == {"t": ConfigEntity({})}

    run(tmp_path, scenario)


def nothing(current: Mapping[str, str]) -> Mapping[str, str]:
    return {}


def test_an_entity_that_sets_nothing_any_more_goes_with_the_parents_that_only_it_needed(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        config = ConfigAdmin(cluster.admin)
        for path in ("users/u/clients/c", "users/u/clients/d", "users/v/clients/c", "clients/c"):
            await config.change(path, setting("a", "1"))
        await config.change("users/v", setting("a", "1"))
        await config.change("users/u/clients/c", nothing, removes_empty=True)
        assert await cluster.admin.children("/config/users/u/clients") == ["d"]
        await config.change("users/u/clients/d", nothing, removes_empty=True)
        assert await cluster.admin.children("/config/users") == ["v"]
        await config.change("users/v/clients/c", nothing, removes_empty=True)
        assert await cluster.admin.children("/config/users/v") == []
        await config.change("clients/c", nothing, removes_empty=True)
        assert await cluster.admin.children("/config/clients") == []
        assert await config.read_clients() == {"users/v": {"a": "1"}}

    run(tmp_path, scenario)


def test_a_user_that_sets_nothing_stays_for_its_client_ids(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        config = ConfigAdmin(cluster.admin)
        await config.change("users/u/clients/c", setting("b", "2"))
        await config.change("users/u", setting("a", "1"))
        await config.change("users/u", nothing, removes_empty=True)
        assert (await cluster.admin.get("/config/users/u"))[0] == b'{"version":1,"config":{}}'
        assert await config.read_clients() == {"users/u/clients/c": {"b": "2"}}

    run(tmp_path, scenario)


def test_what_was_not_set_leaves_no_node_and_is_notified(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        config = ConfigAdmin(cluster.admin)
        await config.change("users/nobody/clients/c", nothing, removes_empty=True)
        assert await cluster.admin.children("/config/users") == []
        assert len(await cluster.admin.children("/config/changes")) == 1

    run(tmp_path, scenario)
