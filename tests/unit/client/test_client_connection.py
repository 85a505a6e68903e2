"""One connection: versions, pipelining, and the ways in which a request ends."""

import asyncio
from typing import Any

import pytest

from kavka.client.connection import BrokerConnection, VersionRange
from kavka.client.settings import ClientSettings
from kavka.errors import ConnectionFailed, ErrorCode, RequestError
from kavka.protocol.api import ApiKey, api
from kavka.protocol.messages import ApiVersionsResponse, MetadataRequest, MetadataResponse
from tests.unit.client.fake_cluster import DROP, SILENCE, FakeCluster

SETTINGS = ClientSettings(request_timeout_ms=2_000)


async def metadata(connection: BrokerConnection, **options: Any) -> MetadataResponse:
    return await connection.request(ApiKey.METADATA, MetadataRequest(topics=[]), MetadataResponse, **options)


def test_the_highest_version_of_both_sides_is_spoken() -> None:
    async def scenario() -> None:
        fake = FakeCluster()
        fake.versions[ApiKey.METADATA] = (0, 7)
        connection = await BrokerConnection.open(fake, "fake", 9001, SETTINGS)
        assert connection.versions[ApiKey.METADATA] == VersionRange(0, 7)
        assert connection.version_of(ApiKey.METADATA) == 7
        assert connection.version_of(ApiKey.METADATA, highest=4) == 4
        assert (await metadata(connection)).cluster_id == "fake"
        assert fake.requests[-1][1].api_version == 7
        connection.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("highest", [0, 1, 2, 3])
def test_a_broker_that_does_not_know_our_api_versions_is_asked_again_in_its_own(highest: int) -> None:
    async def scenario() -> None:
        fake = FakeCluster()
        fake.versions[ApiKey.API_VERSIONS] = (0, highest)
        connection = await BrokerConnection.open(fake, "fake", 9001, SETTINGS)
        asked = [header.api_version for _, header, _ in fake.requests if header.api_key == ApiKey.API_VERSIONS]
        assert asked == [highest]
        assert connection.version_of(ApiKey.METADATA) == api(ApiKey.METADATA).max_version
        connection.close()

    asyncio.run(scenario())


def test_an_api_or_version_that_the_broker_lacks_is_refused_before_anything_is_sent() -> None:
    async def scenario() -> None:
        fake = FakeCluster()
        fake.versions[ApiKey.METADATA] = (100, 101)
        connection = await BrokerConnection.open(fake, "fake", 9001, SETTINGS)
        sent = len(fake.requests)
        for attempt in (
            metadata(connection),
            connection.request(ApiKey.LIST_GROUPS, MetadataRequest(), MetadataResponse),
        ):
            with pytest.raises(RequestError) as refusal:
                await attempt
            assert refusal.value.code is ErrorCode.UNSUPPORTED_VERSION
        assert len(fake.requests) == sent
        connection.close()

    asyncio.run(scenario())


def test_many_requests_are_under_way_at_once_and_each_gets_its_own_answer() -> None:
    async def scenario() -> None:
        fake = FakeCluster()
        for number in range(50):
            fake.faults[ApiKey.METADATA].append(lambda *_, n=number: MetadataResponse(cluster_id=str(n)))
        connection = await BrokerConnection.open(fake, "fake", 9001, SETTINGS)
        answers = await asyncio.gather(*(metadata(connection) for _ in range(50)))
        assert [answer.cluster_id for answer in answers] == [str(number) for number in range(50)]
        assert connection.pending_requests == 0
        connection.close()

    asyncio.run(scenario())


def test_no_more_requests_wait_than_the_setting_says() -> None:
    async def scenario() -> None:
        fake = FakeCluster()
        connection = await BrokerConnection.open(fake, "fake", 9001, ClientSettings(max_pending_requests=3))
        fake.faults[ApiKey.METADATA].extend([lambda *_: SILENCE] * 3)
        waiting = [asyncio.create_task(metadata(connection)) for _ in range(5)]
        await asyncio.sleep(0.02)
        assert len(fake.asked(ApiKey.METADATA)) == 3
        assert connection.pending_requests == 3
        connection.close()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(result, ConnectionFailed) for result in results)

    asyncio.run(scenario())


def test_a_broken_connection_fails_all_that_wait_on_it() -> None:
    async def scenario() -> None:
        fake = FakeCluster()
        connection = await BrokerConnection.open(fake, "fake", 9001, SETTINGS)
        fake.faults[ApiKey.METADATA].extend([lambda *_: SILENCE, lambda *_: DROP])
        results = await asyncio.gather(metadata(connection), metadata(connection), return_exceptions=True)
        assert [type(result) for result in results] == [ConnectionFailed, ConnectionFailed]
        assert not connection.is_open
        with pytest.raises(ConnectionFailed):
            await metadata(connection)

    asyncio.run(scenario())


def test_a_silent_broker_costs_the_connection_after_the_time_out() -> None:
    async def scenario() -> None:
        fake = FakeCluster()
        connection = await BrokerConnection.open(fake, "fake", 9001, SETTINGS)
        fake.faults[ApiKey.METADATA].append(lambda *_: SILENCE)
        with pytest.raises(ConnectionFailed, match="did not answer Metadata within 30 ms"):
            await metadata(connection, timeout_ms=30)
        assert not connection.is_open

    asyncio.run(scenario())


def test_a_broker_that_accepts_and_says_nothing_is_given_up_after_the_time_to_connect() -> None:
    async def scenario() -> None:
        fake = FakeCluster()
        fake.faults[ApiKey.API_VERSIONS].append(lambda *_: SILENCE)
        settings = ClientSettings(connect_timeout_ms=20)
        with pytest.raises(ConnectionFailed, match="did not answer ApiVersions within 20 ms"):
            await BrokerConnection.open(fake, "localhost", 9001, settings)

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_cancelled_request_leaves_the_connection_to_the_others() -> None:
    async def scenario() -> None:
        fake = FakeCluster()
        connection = await BrokerConnection.open(fake, "fake", 9001, SETTINGS)
        task = asyncio.create_task(metadata(connection))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await metadata(connection)).cluster_id == "fake"
        connection.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("body", [b"", b"\x00", b"\xff" * 40, bytes(3)], ids=["nothing", "a byte", "ones", "three"])
def test_a_malformed_answer_is_a_failed_connection(body: bytes) -> None:
    async def scenario() -> None:
        fake = FakeCluster()
        connection = await BrokerConnection.open(fake, "fake", 9001, SETTINGS)
        usual = fake.answer

        def garbled(node: int, frame: bytes) -> bytes:
            answer = usual(node, frame)
            assert isinstance(answer, bytes)
            return answer[:4] + body

        fake.answer = garbled  # type: ignore[method-assign]
        with pytest.raises(ConnectionFailed):
            await metadata(connection)
        assert not connection.is_open

    asyncio.run(scenario())


def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    async def scenario() -> None:
        fake = FakeCluster()
        connection = await BrokerConnection.open(fake, "fake", 9001, SETTINGS)
        fake.connections[0]._frames.put_nowait(b"\x00\x00\x7f\xff")
        await asyncio.sleep(0.01)
        assert not connection.is_open

    asyncio.run(scenario())


def test_a_broker_that_refuses_api_versions_is_no_broker() -> None:
    async def scenario() -> None:
        fake = FakeCluster()
        refusal = ApiVersionsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        fake.faults[ApiKey.API_VERSIONS].append(lambda *_: refusal)
        with pytest.raises(ConnectionFailed, match="CLUSTER_AUTHORIZATION_FAILED"):
            await BrokerConnection.open(fake, "fake", 9001, SETTINGS)
        with pytest.raises(ConnectionFailed):
            await BrokerConnection.open(fake, "fake", 9999, SETTINGS)

    asyncio.run(scenario())
