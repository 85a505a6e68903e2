"""confluent-kafka's own registry client and serializers against `kavka schema-registry`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.kit.kavka_process import KavkaProcess
from tests.kit.registry_process import RegistryProcess

V1 = '{"type":"record","name":"Person","fields":[{"name":"name","type":"string"}]}'
V2 = V1.replace("}]}", '},{"name":"age","type":"int","default":-1}]}')
BAD = V1.replace("}]}", '},{"name":"age","type":"int"}]}')


@pytest.fixture(scope="module")
def client(kavka_broker: KavkaProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaRegistryClient]:
    directory: Path = tmp_path_factory.mktemp("registry")
    with RegistryProcess(kavka_broker.bootstrap, directory) as registry:
        yield SchemaRegistryClient({"url": registry.address})


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_avro_records_of_two_versions(client: SchemaRegistryClient) -> None:
    old, new = AvroSerializer(client, V1), AvroSerializer(client, V2)
    written = [old({"name": "Ada"}, context("people")), new({"name": "Eve", "age": 7}, context("people"))]
    as_new = AvroDeserializer(client, V2)
    assert [as_new(each, context("people")) for each in written] == [
        {"name": "Ada", "age": -1},
        {"name": "Eve", "age": 7},
    ]
    assert client.get_versions("people-value") == [1, 2]
    assert client.get_latest_version("people-value").schema.schema_str == V2


def test_what_does_not_fit_is_refused(client: SchemaRegistryClient) -> None:
    client.register_schema("strict", Schema(V1, "AVRO"))
    with pytest.raises(SchemaRegistryError, match="incompatible with an earlier schema") as caught:
        client.register_schema("strict", Schema(BAD, "AVRO"))
    assert (caught.value.http_status_code, caught.value.error_code) == (409, 409)
    assert not client.test_compatibility("strict", Schema(BAD, "AVRO"))
    client.set_compatibility("strict", "NONE")
    assert client.get_compatibility("strict") == "NONE"
    assert client.test_compatibility("strict", Schema(BAD, "AVRO"))


def test_references_and_what_is_not_there(client: SchemaRegistryClient) -> None:
    client.register_schema("person", Schema(V1, "AVRO"))
    team = '{"type":"record","name":"Team","fields":[{"name":"lead","type":"Person"}]}'
    wanted = Schema(team, "AVRO", [SchemaReference("Person", "person", 1)])
    number = client.register_schema("team", wanted)
    assert client.lookup_schema("team", wanted).schema_id == number
    with pytest.raises(SchemaRegistryError) as caught:
        client.get_schema(99_999)
    assert caught.value.error_code == 40403
    with pytest.raises(SchemaRegistryError) as caught:
        client.get_latest_version("nobody")
    assert caught.value.error_code == 40401


def test_deleting(client: SchemaRegistryClient) -> None:
    client.register_schema("gone", Schema(V1, "AVRO"))
    client.register_schema("gone", Schema(V2, "AVRO"))
    assert client.delete_version("gone", 1) == 1
    assert client.delete_subject("gone") == [2]
    assert "gone" not in client.get_subjects()
    assert client.delete_subject("gone", permanent=True) in ([1, 2], [2])
