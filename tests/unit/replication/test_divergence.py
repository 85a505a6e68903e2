"""Whatever leaders came and went, followers end with the log of the last one, which is left alone."""

from __future__ import annotations

import random

import pytest

from kavka.replication.fetcher_manager import FetcherSettings
from tests.unit.replication.fetching_support import DEFAULT_SETTINGS, ORDERS, Node, World

BEFORE_2_7 = FetcherSettings(inter_broker_protocol_version="2.6")
STEPS = 60
SMALL_FETCHES = 300
"""replica.fetch.max.bytes of a few batches: logs are caught halfway by what happens."""


class History:
    """One partition on three brokers, and what happens to it by lot. Elections take anybody: most are unclean."""

    def __init__(self, seed: int, settings: FetcherSettings) -> None:
        self.random = random.Random(seed)
        self.world = World(seed, settings._replace(max_bytes=SMALL_FETCHES))
        self.nodes = [self.world.node(broker_id) for broker_id in (1, 2, 3)]
        self.leader_epoch = 0
        self.world.lead(1, 0)
        self.down: Node | None = None
        self.number = 0

    def run(self) -> None:
        actions = [self.append] * 4 + [self.elect] * 2 + [self.cut, self.heal, self.kill, self.restart, self.wait]
        for _ in range(STEPS):
            self.random.choice(actions)()
            self.world.run_for(self.random.choice([0, 0.0002, 0.001, 0.01]))

    def living(self) -> list[Node]:
        return [node for node in self.nodes if node is not self.down]

    def append(self) -> None:
        for node in self.living():
            partition = node.replicas.partition(*ORDERS)
            # A leader that was not told of its successor goes on writing.
            if partition is not None and partition.is_leader:
                for _ in range(self.random.randrange(4)):
                    self.number += 1
                    node.append(b"%d of broker %d" % (self.number, node.broker_id))

    def elect(self) -> None:
        self.leader_epoch += 1
        leader = self.random.choice(self.living())
        told = [int(node.broker_id) for node in self.living() if self.random.random() < 0.7]
        self.random.shuffle(told)
        self.world.lead(int(leader.broker_id), self.leader_epoch, tell=told, isr=[int(leader.broker_id)])

    def cut(self) -> None:
        one, other = self.random.sample(["broker-1", "broker-2", "broker-3"], 2)
        self.world.network.cut(one, other, both=self.random.random() < 0.5)

    def heal(self) -> None:
        self.world.network.heal_all()

    def kill(self) -> None:
        if self.down is None:
            self.down = self.random.choice(self.nodes)
            self.down.kill()
            del self.world.nodes[self.down.broker_id]

    def restart(self) -> None:
        node, self.down = self.down, None
        if node is not None:
            self.world.nodes[node.broker_id] = node
            node.start()
            for each in self.world.nodes.values():
                each.fetchers.set_endpoints(self.world.endpoints())
            if self.random.random() < 0.7:
                node.apply(ORDERS, self.world.states[ORDERS])

    def wait(self) -> None:
        self.world.run_for(self.random.uniform(0, 1.0))


@pytest.mark.parametrize("settings", [DEFAULT_SETTINGS, BEFORE_2_7], ids=["3.9", "2.6"])
@pytest.mark.parametrize("seed", range(40))
def test_all_logs_end_as_the_last_leaders(seed: int, settings: FetcherSettings) -> None:
    history = History(seed, settings)
    history.run()
    history.heal()
    history.restart()
    world, leader = history.world, history.random.choice(history.nodes)
    world.lead(int(leader.broker_id), history.leader_epoch + 1, isr=[int(leader.broker_id)])
    content, end = leader.bytes_of(), leader.end()
    world.run_until(lambda: all(node.end() == end == node.high_watermark() for node in history.nodes), within_s=20.0)
    leader.append(b"the last word")
    world.run_until(lambda: all(node.high_watermark() == end + 1 for node in history.nodes), within_s=5.0)
    assert leader.bytes_of().startswith(content)
    assert {node.bytes_of() for node in history.nodes} == {leader.bytes_of()}
    epochs = leader.partition().log.epoch_entries
    assert all(node.partition().log.epoch_entries == epochs for node in history.nodes)
