"""`kavka schema-registry` on a real broker: several at once, killed, without brokers, on topics of any content."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.kit.kavka_process import KavkaProcess
from tests.kit.registry_process import RegistryProcess

StartKavka = Callable[..., KavkaProcess]


def schema(name: str, *fields: str) -> dict[str, str]:
    found = {"type": "record", "name": name, "fields": [{"name": each, "type": "int"} for each in fields]}
    return {"schema": json.dumps(found)}


def make_topic(bootstrap: str, name: str, partitions: int, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for each in admin.create_topics([NewTopic(name, partitions, 1, config=settings)]).values():
        each.result(60)


def test_two_registries_that_write_at_once_give_each_schema_one_id(kavka_broker: KavkaProcess, tmp_path: Path) -> None:
    options = ("--topic", "two-writers")
    with (
        RegistryProcess(kavka_broker.bootstrap, tmp_path, *options, name="one") as one,
        RegistryProcess(kavka_broker.bootstrap, tmp_path, *options, name="two") as two,
    ):
        ids: dict[str, list[int]] = {}

        def work(registry: RegistryProcess) -> None:
            for number in range(15):
                status, found = registry.ask("POST", f"/subjects/s{number}/versions", schema(f"R{number}", "a"))
                assert status == 200, found
                ids.setdefault(f"s{number}", []).append(found["id"])

        threads = [threading.Thread(target=work, args=(each,)) for each in (one, two)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        # Both registered all of them: each schema has one id, whoever was first, and no id is there twice.
        assert all(len(found) == 2 and len(set(found)) == 1 for found in ids.values()), ids
        assert sorted(found[0] for found in ids.values()) == list(range(1, 16))
        for each in (one, two):
            assert [found["id"] for found in each.ask("GET", "/schemas")[1]] == [ids[name][0] for name in sorted(ids)]
            assert "passed over" not in each.log


def test_what_is_registered_survives_kill_9(kavka_broker: KavkaProcess, tmp_path: Path) -> None:
    registry = RegistryProcess(kavka_broker.bootstrap, tmp_path, "--topic", "killed")
    registry.start()
    registry.ask("POST", "/subjects/s/versions", schema("R", "a"))
    registry.ask("PUT", "/config/s", {"compatibility": "NONE"})
    registry.kill()
    with registry:
        assert "(1 subject in killed" in registry.log
        assert registry.ask("GET", "/subjects/s/versions/1")[1]["id"] == 1
        assert registry.ask("GET", "/config/s") == (200, {"compatibilityLevel": "NONE"})
        assert registry.ask("POST", "/subjects/s/versions", schema("R", "b"))[1]["id"] == 2


def test_a_topic_with_records_that_are_no_registrys_is_served(kavka_broker: KavkaProcess, tmp_path: Path) -> None:
    make_topic(kavka_broker.bootstrap, "garbage", 1, **{"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": kavka_broker.bootstrap})
    good = {"subject": "s", "version": 1, "id": 5, "schema": '"int"', "deleted": False}
    for key, value in (
        (b"\xff\xfe", b"\x00"),
        (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', json.dumps(good).encode()),
        (b'{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}', b'{"id":5,"schema":"other"}'),
        (b'{"keytype":"SCHEMA","subject":"u","version":1,"magic":1}', b'{"id":6,"schema":"{broken"}'),
        (b"x" * 100_000, b"y"),
    ):
        producer.produce("garbage", value, key)
    producer.flush(60)
    with RegistryProcess(kavka_broker.bootstrap, tmp_path, "--topic", "garbage") as registry:
        assert registry.ask("GET", "/schemas/ids/5") == (200, {"schema": '"int"'})
        assert "records of the schemas topic passed over" in registry.log
        # A version that is no schema is nobody's to compare with; what to do is said.
        status, found = registry.ask("POST", "/subjects/u/versions", schema("R", "a"))
        assert (status, "OLD_SCHEMA_UNREADABLE" in found["message"]) == (409, True)
        assert registry.ask("POST", "/subjects/v/versions", schema("R", "a"))[1]["id"] == 7


def test_records_are_those_that_confluents_registry_writes(kavka_broker: KavkaProcess, tmp_path: Path) -> None:
    with RegistryProcess(kavka_broker.bootstrap, tmp_path, "--topic", "format") as registry:
        registry.ask("POST", "/subjects/s/versions", {"schema": '"int"'})
        registry.ask("PUT", "/config", {"compatibility": "FULL"})
        registry.ask("DELETE", "/subjects/s")
        registry.ask("DELETE", "/subjects/s?permanent=true")
    consumer = Consumer(
        {"bootstrap.servers": kavka_broker.bootstrap, "group.id": "format", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["format"])
    found: list[tuple[bytes | None, bytes | None]] = []
    while len(found) < 5:
        record = consumer.poll(60)
        assert record is not None
        assert record.error() is None
        found.append((record.key(), record.value()))
    consumer.close()
    assert found == [
        (
            b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            b'{"subject":"s","version":1,"id":1,"schema":"\\"int\\"","deleted":false}',
        ),
        (b'{"keytype":"CONFIG","magic":0}', b'{"compatibilityLevel":"FULL"}'),
        (b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}', b'{"subject":"s","version":1}'),
        # Confluent's passes over this one, whatever its value is.
        (b'{"keytype":"NOOP","magic":0}', b'{"highestIds":{".":1}}'),
        (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', None),
    ]


def test_while_brokers_are_away_it_serves_what_it_knows(start_kavka: StartKavka, tmp_path: Path) -> None:
    broker = start_kavka()
    with RegistryProcess(broker.bootstrap, tmp_path) as registry:
        registry.ask("POST", "/subjects/s/versions", schema("R", "a"))
        broker.kill()
        assert registry.ask("GET", "/subjects") == (200, ["s"])
        # What is registered already needs no broker.
        assert registry.ask("POST", "/subjects/s/versions", schema("R", "a"))[1]["id"] == 1
        status, found = registry.ask("POST", "/subjects/t/versions", schema("T", "a"), timeout_s=60)
        assert (status, found["error_code"]) == (500, 50001) or (status, found["error_code"]) == (500, 50002)
        broker.start()
        status, found = registry.ask("POST", "/subjects/t/versions", schema("T", "a"), timeout_s=60)
        assert (status, found["id"]) == (200, 2)


def test_topics_that_would_lose_schemas_are_refused(kavka_broker: KavkaProcess, tmp_path: Path) -> None:
    make_topic(kavka_broker.bootstrap, "three", 3, **{"cleanup.policy": "compact"})
    make_topic(kavka_broker.bootstrap, "deleting", 1, **{"cleanup.policy": "delete"})
    said = RegistryProcess(kavka_broker.bootstrap, tmp_path, "--topic", "three", name="three").fails()
    assert "topic three has 3 partitions" in said
    assert "Traceback" not in said
    said = RegistryProcess(kavka_broker.bootstrap, tmp_path, "--topic", "deleting", name="deleting").fails()
    assert "cleanup.policy=delete" in said
    assert "kavka configs set --topic deleting cleanup.policy=compact" in said


def test_a_start_that_cannot_be_says_why(unused_port: int, tmp_path: Path) -> None:
    said = RegistryProcess(f"127.0.0.1:{unused_port}", tmp_path, name="nobody").fails()
    assert f"127.0.0.1:{unused_port}" in said
    assert "Traceback" not in said
    said = RegistryProcess(f"127.0.0.1:{unused_port}", tmp_path, "--host", "0.0.0.0", name="open").fails()
    assert "beyond the loopback" in said
