"""Faults between nodes, and of ZooKeeper, which all nodes need.

    cut          two nodes do not hear each other, one way or both
    isolate      a broker is cut off from all other brokers, or from ZooKeeper, or from both, one way or both
    swizzle      some brokers are cut off one by one over some seconds, and come back one by one in another order
    clog         a link is slow for a while
    resets       connections break
    zookeeper    the server dies and comes back

Source: FoundationDB's swizzle-clogging; TigerBeetle's partition modes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.simulator.faults.fault_group import FaultGroup
from kavka.simulator.host.zookeeper import NODE as ZOOKEEPER

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kavka.simulator.faults.fault_group import Arguments

KINDS: Final = ("cut", "isolate", "swizzle", "clog", "resets", "zookeeper")
BOTH, IN, OUT = "both", "in", "out"


class NetworkFaults(FaultGroup):
    """See the module."""

    def heal(self, brokers: Collection[int]) -> None:
        for broker_id in brokers:
            self.world.network.let_go(self.world.brokers[broker_id].node)
        self.world.network.heal_all()
        if not self.world.zookeeper.is_up:
            self.world.zookeeper.start()

    def _draw_nodes(self) -> list[str]:
        return self.random.sample([*(broker.node for broker in self.world.brokers.values()), ZOOKEEPER], 2)

    def draw_cut(self) -> Arguments | None:
        one, other = self._draw_nodes()
        return {"one": one, "other": other, "both": self.random.random() < 0.5, "ms": self.draw_ms(0.1, 20.0)}

    def cut(self, one: str, other: str, *, both: bool, ms: int) -> bool:
        self.world.network.cut(one, other, both=both)
        self.later(lambda: self.world.network.heal(one, other, both=both), ms)
        return True

    def draw_isolate(self) -> Arguments | None:
        return {
            "broker": self.draw_broker(),
            "brokers": self.random.random() < 0.7,
            "zookeeper": self.random.random() < 0.5,
            "way": (BOTH, IN, OUT)[int(self.random.random() * 3)],
            "ms": self.draw_ms(0.5, 25.0),
        }

    def isolate(self, broker: int, way: str, ms: int, *, brokers: bool, zookeeper: bool) -> bool:
        others = [each.node for each in self.world.brokers.values() if each.broker_id != broker] if brokers else []
        if zookeeper or not others:
            others.append(ZOOKEEPER)
        node = self.world.brokers[broker].node
        for other in others:
            if way != OUT:
                self.world.network.cut(other, node, both=False)
            if way != IN:
                self.world.network.cut(node, other, both=False)
        self.later(lambda: self._heal_links(node, others), ms)
        return True

    def draw_swizzle(self) -> Arguments | None:
        brokers = list(self.world.brokers)
        chosen = self.random.sample(brokers, 1 + int(self.random.random() * len(brokers)))
        return {
            "away": chosen,
            "back": self.random.sample(chosen, len(chosen)),
            "step_ms": self.draw_ms(0.1, 4.0),
            "ms": self.draw_ms(0.1, 15.0),
        }

    def swizzle(self, away: Sequence[int], back: Sequence[int], step_ms: int, ms: int) -> bool:
        nodes = [ZOOKEEPER, *(broker.node for broker in self.world.brokers.values())]
        for turn, broker in enumerate(away):
            node = self.world.brokers[broker].node
            others = [other for other in nodes if other != node]
            back_ms = len(away) * step_ms + ms + back.index(broker) * step_ms

            def leave(node: str = node, others: list[str] = others) -> None:
                for other in others:
                    self.world.network.cut(node, other)

            def come_back(node: str = node, others: list[str] = others) -> None:
                self._heal_links(node, others)

            self.later(leave, turn * step_ms, lambda: self.world.faults.is_active)
            self.later(come_back, back_ms)
        return True

    def _heal_links(self, node: str, others: Sequence[str]) -> None:
        for other in others:
            self.world.network.heal(node, other)

    def draw_clog(self) -> Arguments | None:
        one, other = self._draw_nodes()
        return {"one": one, "other": other, "ms": self.draw_ms(0.0, 5.0)}

    def clog(self, one: str, other: str, ms: int) -> bool:
        until_s = self.world.scheduler.now_ns / 1e9 + ms / 1_000
        self.world.network.link(one, other).clogged_until_s = until_s
        self.world.tell("network", "clogged", f"{one} --> {other} until {until_s:.3f}")
        return True

    def draw_resets(self) -> Arguments | None:
        return {"share": round(self.random.random(), 2)}

    def resets(self, share: float) -> bool:
        count = self.world.network.reset_some(share)
        if count:
            self.world.tell("network", "connections reset", f"{count} of them")
        return True

    def draw_zookeeper(self) -> Arguments | None:
        return {"back_ms": self.draw_ms(0.1, 10.0)}

    def zookeeper(self, back_ms: int) -> bool:
        zookeeper = self.world.zookeeper
        if not zookeeper.is_serving:
            return False
        zookeeper.kill()
        self.later(zookeeper.start, back_ms, lambda: not zookeeper.is_up)
        return True
