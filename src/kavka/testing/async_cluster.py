"""AsyncCluster: a `Cluster` for tests that run on an event loop: the same methods, to await.

The cluster has its own threads. This class runs its blocking calls in a thread, so that the test's loop, and the
client on it, go on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from kavka.client.group_admin import ShownGroup
    from kavka.security.acls import Binding
    from kavka.share.decide.in_flight import InFlight
    from kavka.testing.cluster import Cluster, Partition
    from kavka.testing.cuts import Member
    from kavka.testing.secure_cluster import SecureCluster

Answer = TypeVar("Answer")
TIMEOUT_S = 30.0


class AsyncCluster:
    """What `async with Cluster() as cluster` gives. See `Cluster` for what each method does."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def run(self, call: Callable[[], Answer]) -> Answer:
        """Runs any blocking call in a thread and returns its result."""
        return await asyncio.to_thread(call)

    async def open(self) -> AsyncCluster:
        await self.run(self.cluster.open)
        return self

    async def close(self) -> None:
        await self.run(self.cluster.close)

    # -- what needs no waiting

    @property
    def bootstrap_servers(self) -> str:
        return self.cluster.bootstrap_servers

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return self.cluster.broker_ids

    @property
    def running(self) -> list[int]:
        return self.cluster.running

    @property
    def zookeeper_connect(self) -> str:
        return self.cluster.zookeeper_connect

    @property
    def directory(self) -> Path:
        return self.cluster.directory

    def address(self, broker_id: int) -> str:
        return self.cluster.address(broker_id)

    def log(self, count: int = 100) -> list[str]:
        return self.cluster.log(count)

    # -- processes

    async def start(self, *broker_ids: int) -> None:
        await self.run(lambda: self.cluster.start(*broker_ids))

    async def stop(self, *broker_ids: int) -> None:
        await self.run(lambda: self.cluster.stop(*broker_ids))

    async def kill(self, *broker_ids: int) -> None:
        await self.run(lambda: self.cluster.kill(*broker_ids))

    async def pause(self, member: Member) -> None:
        await self.run(lambda: self.cluster.pause(member))

    async def resume(self, member: Member) -> None:
        await self.run(lambda: self.cluster.resume(member))

    # -- network, disk, session

    async def cut(self, source: Member, target: Member, *, both_ways: bool = True) -> None:
        await self.run(lambda: self.cluster.cut(source, target, both_ways=both_ways))

    async def isolate(self, broker_id: int) -> None:
        await self.run(lambda: self.cluster.isolate(broker_id))

    async def heal(self, source: Member | None = None, target: Member | None = None) -> None:
        await self.run(lambda: self.cluster.heal(source, target))

    async def stall_syncs(self, broker_id: int, *, stalled: bool = True) -> None:
        await self.run(lambda: self.cluster.stall_syncs(broker_id, stalled=stalled))

    async def slow_disk(self, broker_id: int, ms: float) -> None:
        await self.run(lambda: self.cluster.slow_disk(broker_id, ms))

    async def expire_session(self, broker_id: int) -> None:
        await self.run(lambda: self.cluster.expire_session(broker_id))

    async def restore(self, *, timeout: float = TIMEOUT_S) -> None:
        await self.run(lambda: self.cluster.restore(timeout=timeout))

    # -- topics and partitions

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replicas: int | None = None,
        *,
        settings: Mapping[str, str | int | float | bool] | None = None,
        assignment: Mapping[int, Iterable[int]] | None = None,
    ) -> None:
        await self.run(
            lambda: self.cluster.create_topic(name, partitions, replicas, settings=settings, assignment=assignment)
        )

    async def partition(self, topic: str, partition: int = 0) -> Partition:
        return await self.run(lambda: self.cluster.partition(topic, partition))

    async def leader(self, topic: str, partition: int = 0) -> int:
        return await self.run(lambda: self.cluster.leader(topic, partition))

    async def isr(self, topic: str, partition: int = 0) -> list[int]:
        return await self.run(lambda: self.cluster.isr(topic, partition))

    async def controller(self) -> int:
        return await self.run(self.cluster.controller)

    async def high_watermark(self, topic: str, partition: int = 0) -> int:
        return await self.run(lambda: self.cluster.high_watermark(topic, partition))

    async def high_watermarks(self, topic: str) -> dict[int, int]:
        return await self.run(lambda: self.cluster.high_watermarks(topic))

    async def log_end_offset(self, broker_id: int, topic: str, partition: int = 0) -> int:
        return await self.run(lambda: self.cluster.log_end_offset(broker_id, topic, partition))

    # -- groups

    async def configure_group(self, group_id: str, settings: Mapping[str, str | int | float | bool]) -> None:
        await self.run(lambda: self.cluster.configure_group(group_id, settings))

    async def group(self, group_id: str) -> ShownGroup:
        return await self.run(lambda: self.cluster.group(group_id))

    async def wait_for_group(
        self, group_id: str, *, members: int | None = None, state: str = "Stable", timeout: float = TIMEOUT_S
    ) -> ShownGroup:
        return await self.run(
            lambda: self.cluster.wait_for_group(group_id, members=members, state=state, timeout=timeout)
        )

    async def share_records(self, group_id: str, topic: str, partition: int = 0) -> InFlight | None:
        return await self.run(lambda: self.cluster.share_records(group_id, topic, partition))

    async def deliveries(self, group_id: str, topic: str, partition: int = 0) -> dict[int, int]:
        return await self.run(lambda: self.cluster.deliveries(group_id, topic, partition))

    async def expire_locks(self, group_id: str) -> int:
        return await self.run(lambda: self.cluster.expire_locks(group_id))

    # -- waiting

    async def wait_in_sync(self, topic: str | None = None, *, timeout: float = TIMEOUT_S) -> None:
        await self.run(lambda: self.cluster.wait_in_sync(topic, timeout=timeout))

    async def wait_for_leader(
        self, topic: str, partition: int = 0, *, other_than: int = -1, timeout: float = TIMEOUT_S
    ) -> int:
        return await self.run(
            lambda: self.cluster.wait_for_leader(topic, partition, other_than=other_than, timeout=timeout)
        )

    async def wait_until(self, condition: Callable[[], object], *, timeout: float = TIMEOUT_S) -> None:
        await self.run(lambda: self.cluster.wait_until(condition, timeout=timeout))


class AsyncSecureCluster(AsyncCluster):
    """What `async with SecureCluster() as cluster` gives. See `SecureCluster`."""

    def __init__(self, cluster: SecureCluster) -> None:
        super().__init__(cluster)
        self.cluster: SecureCluster = cluster

    def client_config(self, user: str = "admin", **choices: str) -> dict[str, Any]:
        return self.cluster.client_config(user, **choices)

    async def add_user(
        self,
        name: str,
        password: str | None = None,
        *,
        allow: Iterable[str | Binding] = (),
        groups: Iterable[str] = (),
    ) -> str:
        return await self.run(lambda: self.cluster.add_user(name, password, allow=allow, groups=groups))

    async def remove_user(self, name: str) -> None:
        await self.run(lambda: self.cluster.remove_user(name))
