"""Topics that a broker creates itself: what is said where there are too few brokers for a coordinator's topic."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kavka.broker.topics.topic_creation import FACTOR_SETTINGS, TopicCreation, TopicRequests
from kavka.config.broker import BrokerConfig
from kavka.controller.decide.topic_plans import TopicRequest
from kavka.controller.work.topic_admin import TopicOutcome
from kavka.decisions import Decision, DecisionKind
from kavka.errors import ErrorCode, RequestError
from kavka.logger import sink

STATE = "__share_group_state"
SETTING = "share.coordinator.state.topic.replication.factor"


class World:
    """A controller that has the brokers of `ids`, and refuses topics with more replicas."""

    def __init__(self) -> None:
        self.ids = [1, 2]
        self.told: list[Decision] = []
        self.lines: list[Mapping[str, Any]] = []
        config = BrokerConfig.from_properties({"broker.id": "1", "log.dirs": "/data", "zookeeper.connect": "z:2181"})
        metadata = SimpleNamespace(
            topic=lambda _name: None, brokers=lambda: [SimpleNamespace(broker_id=each) for each in self.ids]
        )
        controller = SimpleNamespace(is_active=True, topics=SimpleNamespace(create_topics=self.create))
        self.creation = TopicCreation(
            TopicRequests(config, is_alone=False),
            cast(Any, SimpleNamespace(broker=config)),
            cast(Any, metadata),
            cast(Any, controller),
            cast(Any, None),
            cast(Any, None),
            record=self.told.append,
            wall_ms=lambda: 7,
        )

    async def create(self, wishes: list[TopicRequest]) -> list[TopicOutcome]:
        codes = (ErrorCode.NONE, ErrorCode.INVALID_REPLICATION_FACTOR)
        return [TopicOutcome(wish.name, codes[wish.replication_factor > len(self.ids)]) for wish in wishes]

    def ask(self, name: str) -> ErrorCode:
        token = sink.set(lambda _level, _event, keys: self.lines.append(keys))
        try:
            asyncio.run(self.creation.ensure_internal_topic(name))
        except RequestError as refused:
            return refused.code
        finally:
            sink.reset(token)
        return ErrorCode.NONE


@pytest.mark.parametrize("name", sorted(FACTOR_SETTINGS))
def test_with_too_few_brokers_for_a_coordinators_topic_the_line_names_them_and_the_setting(name: str) -> None:
    world = World()
    assert world.ask(name) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    (line,) = world.lines
    assert line["why"].endswith(f"{FACTOR_SETTINGS[name]}=3, and the brokers that run are 1, 2")
    assert line["next_step"].startswith(f"start another broker, or set {FACTOR_SETTINGS[name]} lower")


def test_it_is_recorded_once_until_brokers_come_or_go() -> None:
    world = World()
    for _ in range(3):
        world.ask(STATE)
    (decision,) = world.told
    assert (decision.kind, decision.about_broker, decision.at_ms) == (DecisionKind.TOPIC_NOT_CREATED, 1, 7)
    assert decision.why.startswith(f"{STATE} wants {SETTING}=3, and the brokers that run are 1, 2; start another")
    assert decision.evidence == {"topic": STATE, "replicas": 3, "brokers": (1, 2), "setting": SETTING}
    world.ids = [1]
    world.ask(STATE)
    world.ids = [1, 2, 3]
    assert world.ask(STATE) is ErrorCode.NONE
    world.ids = [1]
    world.ask(STATE)
    assert len(world.told) == 3, "what is wrong anew is told anew"
