"""Feature levels: which level of each feature is in force, and whether a change of one is allowed.

Decides on values only: what was set (/feature) and what each live broker says that it supports (its registration).
It must not know what a feature is good for, nor who asks.

    set to a level   that level, if all live brokers support it, else the highest that all of them do
    switched off     0
    neither          the highest level that all live brokers support: a cluster of kavka's brokers alone has everything

A broker of Apache Kafka 3.9 in ZooKeeper mode supports nothing, so next to one every level is 0; and it ends itself
where /feature holds a level that it does not support. That is why defaults are not written there.

    I1  a level in force is supported by every live broker
    I2  a level is written only while every live broker supports it

Source: KIP-584, KIP-1022; Kafka's FinalizedFeatureCache and KafkaController.processFeatureUpdates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from kavka.errors import ErrorCode, RequestError
from kavka.zookeeper.znodes import FeatureNode

SupportedFeatures: TypeAlias = Mapping[str, tuple[int, int]]
"""Of one broker: name to (lowest, highest) level."""


class UpgradeType(IntEnum):
    """How a level may change, with the protocol's numbers."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """A client's request. Level 0 with one of the downgrades turns a feature off."""

    name: str
    level: int
    upgrade_type: int


def levels_in_force(node: FeatureNode, brokers: Sequence[SupportedFeatures]) -> dict[str, int]:
    """The level of every feature that all these live brokers know, those at 0 too, by name."""
    if not brokers:
        return {}
    common = sorted(name for name in brokers[0] if all(name in supported for supported in brokers))
    levels = {}
    for name in common:
        highest = min(supported[name][1] for supported in brokers)
        wanted = 0 if name in node.held_at_zero else node.features.get(name, highest)
        levels[name] = min(wanted, highest)
    return levels


def updated(node: FeatureNode, update: FeatureUpdate, brokers: Sequence[SupportedFeatures]) -> FeatureNode:
    """The content of /feature after a change. Raises RequestError (INVALID_REQUEST) if the change is not allowed."""
    name, level = update.name, update.level
    if not name:
        raise _refused("the name of a feature must not be empty")
    if update.upgrade_type not in tuple(UpgradeType):
        raise _refused(f"unknown upgrade type {update.upgrade_type}; choose 1, 2 or 3")
    is_upgrade = update.upgrade_type == UpgradeType.UPGRADE
    if level < 0 or (level == 0 and is_upgrade):
        raise _refused(f"level {level} of {name} is below 1; to switch it off, downgrade it to 0")
    present = node.features.get(name)
    in_force = levels_in_force(node, brokers).get(name, 0) if present is None else present
    if level == 0:
        if present is None and in_force == 0:
            raise _refused(f"{name} has no level to remove")
        off = (*node.held_at_zero, name) if all(name in supported for supported in brokers) else node.held_at_zero
        levels = {key: value for key, value in node.features.items() if key != name}
        return replace(node, features=levels, held_at_zero=off)
    if level == present:
        raise _refused(f"{name} is at level {level} already")
    if level < in_force and is_upgrade:
        raise _refused(f"{name} is at level {in_force}; to lower it to {level}, ask for a downgrade")
    if level > in_force and not is_upgrade:
        raise _refused(f"{name} is at level {in_force}, which a downgrade to {level} would raise")
    for supported in brokers:
        if name not in supported:
            known = ", ".join(sorted(supported)) or "no feature"
            raise _refused(f"a live broker does not know {name}; it knows {known}")
        lowest, highest = supported[name]
        if not lowest <= level <= highest:
            raise _refused(f"a live broker supports {name} from {lowest} to {highest}, not {level}")
    return replace(
        node,
        features={**node.features, name: level},
        held_at_zero=tuple(held for held in node.held_at_zero if held != name),
    )


def _refused(why: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, why)
