"""A job's throttles: set before anything moves, and put back to what was there before when the job is over.

Decides which brokers and topics have one. Must not know why a job ends. The settings are those of KIP-73, as
`kavka reassign` and Kafka's own tool set them:

    broker N     leader.replication.throttled.rate, follower.replication.throttled.rate      bytes per second
    topic T      leader.replication.throttled.replicas, follower.replication.throttled.replicas     partition:broker,...

I1  What stood there before is known before it is changed; "" of a name means that nothing did.
I2  A broker's settings can be changed at itself only (Kafka refuses others), so one that is down keeps its throttle
    until it is back: `lift` says so by an exception, and the caller asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from kavka.client.admin import Admin, ConfigChange, ConfigOperation, ConfigResource, ConfigSource, ResourceType
from kavka.console.jobs.store import MoveRow
from kavka.errors import ErrorCode, RequestError

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
TIMEOUT_S = 10.0

Settings = Mapping[str, str | None]
"""Names to values; None where nothing was set."""


def resources(moves: Sequence[MoveRow], live: Iterable[int]) -> list[str]:
    """What gets a throttle, as `broker 1` and `topic orders`: live brokers that take part, and topics that copy."""
    copying = [move for move in moves if move.adding]
    brokers = sorted({node_id for move in copying for node_id in (*move.before, *move.after)} & set(live))
    return [f"broker {node_id}" for node_id in brokers] + [
        f"topic {name}" for name in sorted({move.partition.topic for move in copying})
    ]


def throttles(moves: Sequence[MoveRow], rate: int, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """What is set on each of `names`."""
    wanted: dict[str, dict[str, str]] = {}
    for name in names:
        kind, _, which = name.partition(" ")
        if kind == "broker":
            wanted[name] = dict.fromkeys(RATES, str(rate))
            continue
        leaders, followers = [], []
        for move in moves:
            if move.partition.topic == which and move.adding:
                leaders += [f"{move.partition.partition}:{each}" for each in move.before]
                followers += [f"{move.partition.partition}:{each}" for each in move.adding]
        wanted[name] = {REPLICAS[0]: ",".join(leaders), REPLICAS[1]: ",".join(followers)}
    return wanted


async def look(admin: Admin, names: Iterable[str]) -> dict[str, dict[str, str | None]]:
    """What stands there now. A broker or topic that cannot be asked is left out: it gets no throttle then."""
    found: dict[str, dict[str, str | None]] = {}
    for name in names:
        resource = _resource(name)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                entries = (await admin.describe_configs([resource]))[resource]
        except (RequestError, TimeoutError):
            continue
        own = {
            entry.name: entry.value
            for entry in entries
            if entry.name in (*RATES, *REPLICAS) and entry.source in (ConfigSource.DYNAMIC_BROKER, ConfigSource.TOPIC)
        }
        wanted = RATES if resource.resource_type is ResourceType.BROKER else REPLICAS
        found[name] = {setting: own.get(setting) for setting in wanted}
    return found


async def put(admin: Admin, name: str, settings: Settings) -> None:
    """Sets a broker's or topic's throttle, or takes it away (None). Raises KavkaError, TimeoutError."""
    changes = [
        ConfigChange(setting, value, ConfigOperation.DELETE if value is None else ConfigOperation.SET)
        for setting, value in settings.items()
    ]
    async with asyncio.timeout(TIMEOUT_S):
        for error in (await admin.alter_configs({_resource(name): changes})).values():
            raise error


async def lift(admin: Admin, name: str, before: Settings) -> None:
    """Puts back what was there. A topic that was deleted has no throttle any more. Raises KavkaError, TimeoutError."""
    try:
        await put(admin, name, before)
    except RequestError as refused:
        if refused.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise


def _resource(name: str) -> ConfigResource:
    kind, _, which = name.partition(" ")
    return ConfigResource(ResourceType.BROKER if kind == "broker" else ResourceType.TOPIC, which)
