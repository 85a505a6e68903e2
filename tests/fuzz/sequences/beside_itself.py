"""A sequence of a theme to a broker of the simulator, and what it answers.

mutants.py asks whether the same sequence is answered otherwise with a bug put back: only then could beside_kafka.py
find the bug. In virtual time the same seed has the same answers, and a sequence takes less than a second.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final

from kavka.logger import set_level
from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.create_topics_request import CreatableTopic
from kavka.protocol.messages.metadata_request import MetadataRequestTopic
from kavka.protocol.messages.update_features_request import FeatureUpdateKey
from kavka.simulator.host.broker import PORT
from kavka.simulator.world import World
from tests.fuzz.sequences.asker import Asker
from tests.fuzz.sequences.clients import nobody
from tests.fuzz.sequences.knowledge import Knowledge
from tests.fuzz.sequences.run import SETTINGS
from tests.fuzz.sequences.themes import Theme

TRIES: Final = 100
"""How often a coordinator is asked for."""
LOWEST: Final = {int(ApiKey.PRODUCE): 3}


def told(seed: int, steps: int, theme: Theme) -> list[str]:
    """What is asked in a sequence, and the answers, step by step."""
    set_level("error")
    world = World(seed, brokers=1, partitions=1, replicas=1, settings=SETTINGS)
    world.start()
    broker = world.brokers[1]
    broker.wire = None  # As in run.py.
    loop = world.clients.node("sequence")
    asker = Asker(world.network.port_of(loop.name, loop), (broker.node, PORT))
    task = loop.create_task(_play(asker, seed, steps, theme))
    world.run_until(task.done, within_s=36_000)
    return task.result()


async def _play(asker: Asker, seed: int, steps: int, theme: Theme) -> list[str]:
    knowledge = Knowledge(random.Random(seed))
    knowledge.groups, knowledge.of_their_own = knowledge.groups[: theme.groups], 0
    served = await _served(asker, knowledge, theme)
    requests = theme.requests(random.Random(f"{seed} requests"), knowledge, served)
    said: list[str] = []
    while len(said) < steps:
        asked = requests.draw()
        if asked.key is ApiKey.PRODUCE and asked.message.acks == 0:
            continue  # It has no answer.
        answer = await asker.ask(asked.message, asked.version)
        knowledge.learn(asked.key, asked.message, answer, asked.subject)
        said.append(f"{asked}\n    {answer!r}")
    asker.close()
    return said


async def _served(asker: Asker, knowledge: Knowledge, theme: Theme) -> dict[int, tuple[int, int]]:
    """The versions of what the theme asks for, once the topics are there, and a coordinator."""
    share = FeatureUpdateKey(feature="share.version", max_version_level=2)
    await asker.ask(m.UpdateFeaturesRequest(feature_updates=[share]), 1)
    names = knowledge.topic_names[: theme.topics]
    topics = [CreatableTopic(name=name, num_partitions=theme.partitions, replication_factor=1) for name in names]
    made = await asker.ask(m.CreateTopicsRequest(topics=topics), 7)
    knowledge.learn(ApiKey.CREATE_TOPICS, None, made, nobody())
    wanted = m.FindCoordinatorRequest(key_type=0, coordinator_keys=list(knowledge.groups))
    for _ in range(TRIES):
        if not any(each.error_code for each in (await asker.ask(wanted, 4)).coordinators):
            break
        await asyncio.sleep(0.1)
    found = await asker.ask(m.MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names]), 12)
    knowledge.learn(ApiKey.METADATA, None, found, nobody())
    served = (await asker.ask(m.ApiVersionsRequest(), 0)).api_keys
    return {
        each.api_key: (max(LOWEST.get(each.api_key, 0), each.min_version), each.max_version)
        for each in served
        if each.api_key in theme.compared
    }
