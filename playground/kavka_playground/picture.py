"""Picture: what a page shows of a run at one moment, as JSON holds it.

Decides what of a cluster is worth a look. It reads replicas, znodes and clients, and changes nothing: no chance is
drawn and no clock moves (I2 of `run`).

    field      what
    at_ms      virtual milliseconds; digest, steps, checked: how far the run is
    brokers    each with its state, its replica's offsets and epoch, and the last records of its log
    links      those that are cut or slow
    stored     what the partition's state znode says
    znodes     path, content, owner, and the brokers that watch it
    clients    what was sent, and what the producer was told
    events     what happened since the last picture
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.model import NO_EPOCH
from kavka.zookeeper.decide.watches import WatchKind
from kavka_playground.traffic import PARTITION

if TYPE_CHECKING:
    from kavka.simulator.host.broker import SimulatedBroker
    from kavka.simulator.host.trace import Event
    from kavka.zookeeper.decide.tree import Tree
    from kavka_playground.run import Run

CELLS: Final = 48
"""Records of a log that are shown, the last ones."""
TOLD: Final = 40
LOST: Final = 20
HIDDEN: Final = (
    *("/admin", "/cluster", "/config", "/delegation_token", "/feature", "/kafka-acl", "/kavka_log", "/latest_producer"),
    *("/log_dir", "/zookeeper"),
)
"""Znodes that tell nothing of brokers, leaders or the controller begin so."""
MAX_TEXT: Final = 400
MAX_ZNODE: Final = 4_000
"""A broker's node has 500 to 900 bytes of JSON, which a page reads as a whole."""


class Camera:
    """Takes pictures of one run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._shown = 0

    def take(self) -> dict[str, object]:
        """The moment where the run is."""
        run = self._run
        world = run.world
        stored = world.observer.stored[PARTITION]
        events = run.events_after(self._shown)
        self._shown = run.trace.recorded
        return {
            "at_ms": run.at_ms,
            "first_ms": run.first_ms,
            "digest": run.digest,
            "steps": world.scheduler.steps,
            "checked": world.observer.events_checked,
            "ended": run.ended,
            "controller": world.observer.controller,
            "stored": {
                "leader": stored.state.leader,
                "epoch": stored.state.leader_epoch,
                "isr": list(stored.state.isr),
                "version": stored.version,
                "controller_epoch": stored.state.controller_epoch,
                "replicas": list(world.observer.assigned.get(PARTITION, ())),
            },
            "brokers": [self._broker(broker) for broker in world.brokers.values()],
            "links": self._links(),
            "znodes": self._znodes(),
            "clients": self._clients(),
            "events": [as_json(event) for event in events],
        }

    def _broker(self, broker: SimulatedBroker) -> dict[str, object]:
        state = "dead" if not broker.is_alive else "paused" if broker.is_paused else "serving"
        if state == "serving" and not broker.is_serving:
            state = "starting"
        partition = broker.broker.replicas.partition(*PARTITION) if broker.broker is not None else None
        records = self._run.records[broker.broker_id]
        if partition is not None:
            records.follow(partition)
        role = "none" if partition is None else "leader" if partition.is_leader else "follower"
        return {
            "id": broker.broker_id,
            "state": state,
            "life": broker.life,
            "role": role,
            "epoch": partition.leader_epoch if partition is not None else NO_EPOCH,
            "leo": partition.log.log_end_offset if partition is not None else records.end,
            "hw": partition.log.high_watermark if partition is not None else -1,
            "cells": [
                [offset, epoch, value.decode().rpartition(" ")[2]]
                for offset, (epoch, value) in [*records.values.items()][-CELLS:]
            ],
        }

    def _links(self) -> list[list[str]]:
        world = self._run.world
        nodes = [*(broker.node for broker in world.brokers.values()), "zookeeper"]
        found = []
        for index, one in enumerate(nodes):
            for other in nodes[index + 1 :]:
                if world.network.link(one, other).cut or world.network.link(other, one).cut:
                    found.append([_short(one), _short(other), "cut"])
                elif (one, other) in self._run.slowed:
                    found.append([_short(one), _short(other), "slow"])
        return found

    def _znodes(self) -> list[dict[str, object]]:
        zookeeper = self._run.world.zookeeper
        tree = zookeeper.embedded.database.tree
        sessions = {
            broker.broker.session_id: broker.broker_id
            for broker in self._run.world.brokers.values()
            if broker.broker is not None
        }
        return [
            {
                "path": path,
                "data": (node.data or b"").decode("utf-8", "replace")[:MAX_ZNODE],
                "version": node.version,
                "owner": sessions.get(node.owner, -1) if node.owner else 0,
                "watched": _watchers(tree, path, sessions),
            }
            for path, node in sorted(tree.by_path.items())
            if path != "/" and not path.startswith(HIDDEN)
        ]

    def _clients(self) -> dict[str, object]:
        traffic = self._run.traffic
        sent = traffic.sent
        return {
            "acks": traffic.acks,
            "rate": traffic.rate,
            "sent": len(sent),
            "written": sum(record.is_promised for record in sent),
            "failed": sum(bool(record.error) for record in sent),
            "waiting": sum(record.told_ms < 0 for record in sent),
            "read": len(traffic.read),
            "lost": [loss.as_json() for loss in [*self._run.lost.values()][-LOST:]],
            "lost_count": len(self._run.lost),
            "told": [
                {
                    "number": record.number,
                    "acks": record.acks,
                    "sent_ms": record.sent_ms,
                    "told_ms": record.told_ms,
                    "offset": record.offset,
                    "error": record.error[:MAX_TEXT],
                    "lost": record.number in self._run.lost,
                }
                for record in sent[-TOLD:]
            ],
        }


def as_json(event: Event) -> dict[str, object]:
    """An event of the trace; fields that say nothing are left out."""
    fields: dict[str, object] = {"n": event.number, "t": event.at_ms, "node": event.node, "kind": event.kind}
    if event.partition:
        fields["partition"] = event.partition
    if event.leader_epoch >= 0:
        fields["epoch"] = event.leader_epoch
    if event.isr:
        fields["isr"] = list(event.isr)
    if event.log_end_offset >= 0:
        fields["leo"], fields["hw"] = event.log_end_offset, event.high_watermark
    if event.text:
        fields["text"] = event.text
    if event.decision is not None:
        fields["why"] = event.decision.why
        fields["evidence"] = {name: str(value) for name, value in event.decision.evidence.items()}
    return fields


def _watchers(tree: Tree, path: str, sessions: dict[int, int]) -> list[int]:
    return sorted({who for session, who in sessions.items() if tree.watches.has(path, session, WatchKind.ANY)})


def _short(node: str) -> str:
    return node.removeprefix("broker-").replace("zookeeper", "zk")
