"""What a fetcher leaves alone from then on, and who hears of a bug in what it asks beside its fetches."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kavka.model import TopicPartition
from kavka.protocol.api_keys import ApiKey
from tests.unit.replication.test_fetcher import Follower, fetching


def test_what_is_unfollowed_is_fetched_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(follower: Follower) -> None:
        follower.follow(0, 1)
        await asyncio.sleep(0.1)
        follower.fetcher.unfollow(TopicPartition("orders", 0))
        await asyncio.sleep(1.0)
        _, second, third = (one.message for one in follower.leader.asked)
        assert [topic.partitions for topic in second.forgotten_topics_data] == [[0]]
        assert third.forgotten_topics_data == []
        assert [state.topic_partition.partition for state in follower.fetcher.partitions] == [1]

    fetching(monkeypatch, scenario)


def test_a_bug_in_the_question_that_hastens_a_fetch_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(follower: Follower) -> None:
        bug, answer = RuntimeError("a bug"), follower.leader.answer

        async def fails(key: ApiKey, message: Any) -> Any:
            if key is ApiKey.OFFSET_FOR_LEADER_EPOCH:
                raise bug
            return await answer(key, message)

        monkeypatch.setattr(follower.leader, "answer", fails)
        follower.follow(0)
        await asyncio.sleep(0.1)
        follower.follow(1)
        await asyncio.sleep(0.1)
        assert follower.bugs == [bug]
        follower.bugs.clear()

    fetching(monkeypatch, scenario)
