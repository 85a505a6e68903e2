"""confluent-kafka's own registry client and serializers against `kavka schema-registry`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

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


def test_json_records(client: SchemaRegistryClient) -> None:
    schema = {
        "title": "Person",
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
        "additionalProperties": False,
    }
    data = JSONSerializer(json.dumps(schema), client)({"name": "Ada"}, context("json"))
    assert JSONDeserializer(None, schema_registry_client=client)(data, context("json")) == {"name": "Ada"}
    schema["properties"] = {"name": {"type": "string"}, "age": {"type": "integer"}}
    newer = JSONSerializer(json.dumps(schema), client)({"name": "Eve", "age": 7}, context("json"))
    assert JSONDeserializer(None, schema_registry_client=client)(newer, context("json"))["age"] == 7
    schema["properties"] = {"name": {"type": "integer"}}
    with pytest.raises(SchemaRegistryError, match="TYPE_CHANGED"):
        JSONSerializer(json.dumps(schema), client)({"name": 5}, context("json"))


def test_protobuf_records_with_an_import_of_their_own(client: SchemaRegistryClient) -> None:
    pool = descriptor_pool.DescriptorPool()
    item = descriptor_pb2.FileDescriptorProto(name="shop/item.proto", package="shop", syntax="proto3")
    item.message_type.add(name="Item").field.add(name="n", number=1, type=5, label=1)
    order = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    order.dependency.append("shop/item.proto")
    order.message_type.add(name="Other")
    order.message_type.add(name="Order").field.add(name="item", number=1, type=11, label=1, type_name=".shop.Item")
    pool.Add(item)
    pool.Add(order)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    wanted = message()
    wanted.item.n = 5
    data = ProtobufSerializer(message, client, {"use.deprecated.format": False})(wanted, context("proto"))
    read = ProtobufDeserializer(message, {"use.deprecated.format": False}, client)(data, context("proto"))
    assert read == wanted
    found = client.get_latest_version("proto-value").schema
    assert found.schema_type == "PROTOBUF"
    assert 'import "shop/item.proto";' in found.schema_str
    assert [(each.name, each.subject, each.version) for each in found.references] == [
        ("shop/item.proto", "shop/item.proto", 1)
    ]


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
