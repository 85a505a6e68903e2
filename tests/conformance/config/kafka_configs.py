"""KafkaConfigs: asks a broker's configuration requests through kafka-python, whole answers instead of exceptions."""

from __future__ import annotations

from typing import Any, NamedTuple

from kafka import KafkaAdminClient
from kafka.protocol.admin import (
    AlterConfigsRequest,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)

TOPIC, BROKER = 2, 4
BROKER_ID = 1


class Answer(NamedTuple):
    """The error code and the words of one resource's answer."""

    code: int
    message: str | None


class KafkaConfigs:
    """A connection for configuration requests to broker 1 of a cluster."""

    def __init__(self, bootstrap: str) -> None:
        self._client = KafkaAdminClient(bootstrap_servers=bootstrap)

    def close(self) -> None:
        self._client.close()

    def describe(
        self, resource_type: int, name: str, keys: list[str] | None = None
    ) -> tuple[Answer, dict[str, dict[str, Any]]]:
        """Every configuration of a resource, as the answer's own fields, by name."""
        request = DescribeConfigsRequest(
            resources=[(resource_type, name, keys)], include_synonyms=True, include_documentation=True, min_version=3
        )
        result = self._send(request).results[0]
        return Answer(result.error_code, result.error_message), {c.name: c.to_dict() for c in result.configs or []}

    def create_topic(self, name: str, overrides: dict[str, str | None]) -> Answer:
        topic = (name, 1, 1, [], list(overrides.items()))
        request = CreateTopicsRequest(
            topics=[topic], timeout_ms=10_000, validate_only=False, min_version=2, max_version=5
        )
        result = self._send(request).topics[0]
        return Answer(result.error_code, result.error_message)

    def alter(self, resource_type: int, name: str, entries: list[tuple[str, str | None]], *, validate: bool) -> Answer:
        request = AlterConfigsRequest(resources=[(resource_type, name, entries)], validate_only=validate)
        result = self._send(request).responses[0]
        return Answer(result.error_code, result.error_message)

    def alter_incrementally(
        self, resource_type: int, name: str, changes: list[tuple[str, int, str | None]], *, validate: bool
    ) -> Answer:
        request = IncrementalAlterConfigsRequest(resources=[(resource_type, name, changes)], validate_only=validate)
        result = self._send(request).responses[0]
        return Answer(result.error_code, result.error_message)

    def _send(self, request: Any) -> Any:
        manager = self._client._manager

        async def send() -> Any:
            return await manager.send(request, node_id=BROKER_ID)

        return manager.run(send)
