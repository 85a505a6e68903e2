"""What can be done from the console, against a live cluster, kavka's or Apache Kafka's: shown, confirmed, done once."""

from __future__ import annotations

import base64
import io
import json
import struct
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.cookiejar import Cookie
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import pytest

pytest.importorskip("starlette")

import fastavro
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from google.protobuf import descriptor_pb2

from kavka.testing import Cluster
from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.kit.console_client import ConsoleClient
from tests.kit.console_process import ConsoleProcess
from tests.kit.patience import PATIENT
from tests.kit.process_cluster import eventually
from tests.kit.schema_registry_server import RegistryServer
from tests.kit.topic_everywhere import wait_everywhere

PERSON = '{"type": "record", "name": "Person", "fields": [{"name": "name", "type": "string"}]}'


class Live:
    """A cluster of three brokers, the console over it, and Kafka's own client to see what became of it."""

    def __init__(self, bootstrap: str, console: ConsoleProcess, registry: RegistryServer) -> None:
        self.bootstrap = bootstrap
        self.console = console
        self.registry = registry
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def client(self) -> ConsoleClient:
        return ConsoleClient(self.console.address)

    def topic(self, name: str, partitions: int = 3, **configs: str) -> str:
        self.admin.create_topics([NewTopic(name, partitions, 3, config=configs)])[name].result(30)
        wait_everywhere(self.bootstrap, name, partitions)
        return name

    def topics(self) -> dict[str, Any]:
        return self.admin.list_topics(timeout=10).topics

    def partitions(self, name: str) -> int:
        found = self.topics().get(name)
        return 0 if found is None or found.error is not None else len(found.partitions)

    def config(self, name: str, setting: str) -> str | None:
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        return self.admin.describe_configs([resource])[resource].result(10)[setting].value

    def wait_for_config(self, name: str, setting: str, value: str) -> None:
        """Any broker may be asked, and those that did not make the change learn of it a moment later."""
        eventually(f"{setting} of {name}", lambda: self.config(name, setting) == value, every_s=0.1)

    def produce(self, topic: str, *records: tuple[bytes | None, bytes | None], **more: Any) -> None:
        settings = {"bootstrap.servers": self.bootstrap, "message.max.bytes": 2_000_000, "enable.idempotence": True}
        producer = Producer(settings)
        for key, value in records:
            producer.produce(topic, key=key, value=value, **more)
        assert producer.flush(30) == 0

    def commit(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        eventually("committed", lambda: consumer.commit(offsets=places, asynchronous=False))
        consumer.close()

    def committed(self, group: str, topic: str, partitions: int) -> list[int]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        try:
            places = [TopicPartition(topic, partition) for partition in range(partitions)]
            return [place.offset for place in consumer.committed(places, timeout=20)]
        finally:
            consumer.close()


def _zone_cookie(value: str) -> Cookie:
    """As static/live.js sets it."""
    place = {"domain": "127.0.0.1", "domain_specified": False, "domain_initial_dot": False}
    times = {"expires": None, "discard": True, "comment": None, "comment_url": None, "rest": {}}
    return Cookie(
        version=0,
        name="kavka_zone",
        value=value,
        port=None,
        port_specified=False,
        path="/",
        path_specified=True,
        secure=False,
        **place,
        **times,
    )


@contextmanager
def brokers(kind: str, directory: Path) -> Iterator[str]:
    """Three of them; where they are."""
    if kind == "kavka":
        with Cluster(brokers=3, settings=PATIENT) as cluster:
            yield cluster.bootstrap_servers
        return
    try:
        kafka = ApacheKafka(directory / kind, mode=kind, brokers=3, settings=KAFKA_SETTINGS, heap=HEAP)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with kafka:
        yield kafka.bootstrap


KAFKA = [pytest.mark.kafka, pytest.mark.thorough, pytest.mark.timeout(300)]
KINDS = ["kavka", pytest.param("zk", marks=KAFKA), pytest.param("kraft", marks=KAFKA)]
"""kavka, and Apache Kafka with ZooKeeper (3.9) and without (4)."""
KAFKA_SETTINGS = {"auto.create.topics.enable": "false"}
HEAP = "-Xmx256M -Xms128M"


@pytest.fixture(scope="module", params=KINDS)
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    directory = tmp_path_factory.mktemp("actions")
    with brokers(request.param, directory) as bootstrap, RegistryServer() as registry:
        settings = (
            f'poll_ms = 500\n[[cluster]]\nname = "live"\nbootstrap = "{bootstrap}"\n'
            f'schema_registry = "{registry.address}"\n[[cluster]]\nname = "shown"\n'
            f'bootstrap = "{bootstrap}"\nread_only = true\n'
            '[[cluster]]\nname = "away"\nbootstrap = "127.0.0.1:1"\n'
        )
        with ConsoleProcess(settings, directory) as console:
            found = Live(bootstrap, console, registry)
            eventually(
                "the console knows the cluster", lambda: found.client().get("/c/live/do/create-topic").status == 200
            )
            yield found
            assert not console.failures, console.failures


class TestTopics:
    def test_a_topic_is_shown_made_changed_grown_and_deleted(self, live: Live) -> None:
        client = live.client()
        page = client.preview(
            "live", "create-topic", {}, topic="life", partitions="2", replicas="3", settings="retention.ms=7200000"
        )
        assert page.status == 200
        assert "kavka topics create life" in page.text
        assert "kafka-topics.sh --create" in page.text
        assert "life" not in live.topics(), "a preview does nothing"
        page = client.confirm(page, "create-topic")
        assert "Done." in page.text
        assert eventually("made", lambda: live.partitions("life") == 2)

        page = client.preview("live", "alter-config", {"topic": "life"}, settings="min.insync.replicas=2")
        assert "retention.ms" in page.text
        assert "7200000" in page.text
        live.wait_for_config("life", "retention.ms", "7200000")
        client.confirm(page, "alter-config")
        live.wait_for_config("life", "min.insync.replicas", "2")
        assert live.config("life", "retention.ms") != "7200000", "what was taken out of the list is at its default"

        assert "Done." in client.do("live", "add-partitions", {"topic": "life"}, count="5").text
        assert eventually("grown", lambda: live.partitions("life") == 5)

        page = client.preview("live", "delete-topic", {"topic": "life"})
        assert "This cannot be undone" in page.text
        page = client.confirm(page, "delete-topic", typed="lifes")
        assert "The name you typed does not match" in page.text
        assert "life" in live.topics()
        assert "Done." in client.confirm(page, "delete-topic", typed="life").text
        eventually("gone", lambda: "life" not in live.topics())
        log = client.get("/audit?q=topic+life")
        for action in ("Create a topic", "Change settings", "Add partitions", "Delete a topic"):
            assert action in log.text

    @pytest.mark.parametrize(
        ("action", "subject", "fields", "why"),
        [
            ("create-topic", {}, {"topic": "bad name"}, "INVALID_TOPIC_EXCEPTION"),
            ("create-topic", {}, {"topic": "many", "replicas": "9"}, "INVALID_REPLICATION_FACTOR"),
            ("create-topic", {}, {"topic": "odd", "settings": "no.such.setting=1"}, "INVALID_CONFIG"),
            ("create-topic", {}, {"topic": "odd", "settings": "nonsense"}, "is not name=value"),
            ("create-topic", {}, {"topic": "odd", "partitions": "-3"}, "a number from 1"),
            ("create-topic", {}, {"topic": ""}, "is missing"),
        ],
    )
    def test_what_the_cluster_would_refuse_is_refused_before(
        self, live: Live, action: str, subject: dict[str, str], fields: dict[str, str], why: str
    ) -> None:
        before = set(live.topics())
        page = live.client().preview("live", action, subject, **fields)
        assert page.status == 400
        assert why in page.text
        assert "Nothing was changed." in page.text
        assert set(live.topics()) == before

    def test_the_same_confirmation_twice_is_one_action(self, live: Live) -> None:
        client = live.client()
        page = client.preview("live", "create-topic", {}, topic="once", partitions="1", replicas="1")
        first, second = client.confirm(page, "create-topic"), client.confirm(page, "create-topic")
        assert first.path == second.path, "the second sees what the first did"
        assert "Done." in second.text

    def test_of_two_operators_the_second_sees_what_the_first_did(self, live: Live) -> None:
        live.topic("shared")
        ada, eve = live.client(), live.client()
        of_ada = ada.preview("live", "alter-config", {"topic": "shared"}, settings="retention.ms=1000000")
        of_eve = eve.preview("live", "alter-config", {"topic": "shared"}, settings="retention.ms=2000000")
        assert "Done." in ada.confirm(of_ada, "alter-config").text
        late = eve.confirm(of_eve, "alter-config")
        assert late.status == 409
        assert "has changed since you looked" in late.text
        assert "Change settings topic shared" in late.text, "what was done meanwhile is named"
        live.wait_for_config("shared", "retention.ms", "1000000")
        assert "Done." in eve.confirm(late, "alter-config").text
        live.wait_for_config("shared", "retention.ms", "2000000")

    def test_records_before_an_offset_are_deleted(self, live: Live) -> None:
        live.topic("cut", 1)
        live.produce("cut", *[(None, b"v%d" % number) for number in range(10)])
        client = live.client()
        page = client.preview("live", "delete-records", {"topic": "cut"}, partition="0", before="20")
        assert "ends at 10" in page.text
        page = client.preview("live", "delete-records", {"topic": "cut"}, partition="0", before="4")
        assert "from 0" in page.text
        assert "Done." in client.confirm(page, "delete-records", typed="cut").text
        consumer = Consumer({"bootstrap.servers": live.bootstrap, "group.id": "cut"})
        assert consumer.get_watermark_offsets(TopicPartition("cut", 0), timeout=20) == (4, 10)
        consumer.close()


class TestProduce:
    def test_a_record_is_written_as_it_was_shown(self, live: Live) -> None:
        live.topic("typed", 3)
        client = live.client()
        page = client.do(
            "live",
            "produce",
            {"topic": "typed"},
            key="k1",
            value='{"a": 1}',
            value_form="json",
            headers="trace: 7",
            partition="2",
        )
        assert "Done." in page.text
        client.do("live", "produce", {"topic": "typed"}, key="k1", tombstone="1", partition="2")
        client.do("live", "produce", {"topic": "typed"}, value="00ff", value_form="hex", partition="2")
        consumer = Consumer({"bootstrap.servers": live.bootstrap, "group.id": "typed"})
        consumer.assign([TopicPartition("typed", 2, 0)])
        found = []
        while len(found) < 3:
            record = consumer.poll(20)
            assert record is not None
            assert record.error() is None, record.error()
            found.append((record.key(), record.value(), record.headers()))
        consumer.close()
        assert found == [
            (b"k1", b'{"a": 1}', [("trace", b"7")]),
            (b"k1", None, None),
            (None, b"\x00\xff", None),
        ]

    @pytest.mark.parametrize(
        "fields",
        [
            {"value": "{", "value_form": "json"},
            {"value": "0", "value_form": "hex"},
            {"value": "v", "partition": "99"},
            {"tombstone": "1"},
            {"value": "v", "headers": "no colon"},
        ],
    )
    def test_what_is_no_record_is_refused(self, live: Live, fields: dict[str, str]) -> None:
        if live.partitions("typed") == 0:
            live.topic("typed", 3)
        assert live.client().preview("live", "produce", {"topic": "typed"}, **fields).status == 400


class TestGroups:
    def test_offsets_are_set_back_after_a_preview(self, live: Live) -> None:
        live.topic("read", 2)
        for partition in range(2):
            live.produce("read", *[(None, b"v")] * 10, partition=partition)
        live.commit("readers", "read", {0: 8, 1: 3})
        client = live.client()
        page = client.preview("live", "reset-offsets", {"group": "readers"}, way="shift", number="-5", topic="read")
        assert "Offsets that are read again: 8" in page.text, "5 of partition 0, 3 of partition 1"
        assert "nearer end" in page.text
        assert "kafka-consumer-groups.sh" in page.text
        assert live.committed("readers", "read", 2) == [8, 3]
        assert "Done." in client.confirm(page, "reset-offsets").text
        assert live.committed("readers", "read", 2) == [3, 0]
        page = client.do("live", "reset-offsets", {"group": "readers"}, way="latest", topic="read", partition="1")
        assert live.committed("readers", "read", 2) == [3, 10]

    def test_a_typed_time_is_in_the_browsers_zone_and_never_in_the_future(self, live: Live) -> None:
        live.topic("by-time", 1)
        began = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=3)
        for hour in range(3):
            at_ms = int((began + timedelta(hours=hour)).timestamp() * 1000)
            live.produce("by-time", (None, b"v"), timestamp=at_ms)
        live.commit("by-time-readers", "by-time", {0: 3})
        client, tokyo = live.client(), ZoneInfo("Asia/Tokyo")  # no clock is put forward there
        client.cookies.set_cookie(_zone_cookie("Asia%2FTokyo"))
        asked = {"group": "by-time-readers"}
        there = (began + timedelta(hours=1)).astimezone(tokyo).replace(tzinfo=None).isoformat()
        page = client.preview("live", "reset-offsets", asked, way="time", time=there)
        assert f"{there.replace('T', ' ')} JST" in page.text
        assert "Done." in client.confirm(page, "reset-offsets").text
        assert live.committed("by-time-readers", "by-time", 1) == [1]
        later = (datetime.now(tokyo) + timedelta(minutes=5)).replace(tzinfo=None).isoformat(timespec="seconds")
        refused = client.preview("live", "reset-offsets", asked, way="time", time=later)
        assert refused.status == 400
        assert "is in the future" in refused.text
        found = client.get("/c/live/topics/by-time/messages?start=time&n=200&" + urlencode({"time": there}))
        assert "2 records in all." in found.text
        assert f'name="time" value="{there}"' in found.html

    def test_a_topics_page_has_a_groups_lag_on_that_topic(self, live: Live) -> None:
        for topic, committed in (("here", 3), ("elsewhere", 0)):
            live.topic(topic, 1)
            live.produce(topic, *[(None, b"v")] * 10)
            live.commit("of-two-topics", topic, {0: committed})
        client = live.client()
        eventually("its lag is read", lambda: "of-two-topics lag 10" in client.get("/c/live/topics/elsewhere").text)
        eventually("of this topic alone", lambda: "of-two-topics lag 7" in client.get("/c/live/topics/here").text)

    def test_a_group_with_members_is_left_alone(self, live: Live) -> None:
        live.topic("busy", 1)
        consumer = Consumer(
            {
                "bootstrap.servers": live.bootstrap,
                "group.id": "members",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["busy"])
        eventually("joined", lambda: consumer.poll(0.2) is None and consumer.assignment())
        client = live.client()
        page = client.preview("live", "reset-offsets", {"group": "members"}, way="earliest", topic="busy")
        assert page.status == 400
        assert "Stop its consumers first" in page.text
        assert "Stop its consumers first" in client.preview("live", "delete-group", {"group": "members"}).text
        consumer.close()

    def test_a_group_is_deleted_when_its_name_is_typed(self, live: Live) -> None:
        if live.partitions("read") == 0:
            live.topic("read", 2)
        live.commit("old", "read", {0: 0})
        assert "Done." in live.client().do("live", "delete-group", {"group": "old"}, typed="old").text
        assert "old" not in {group.group_id for group in live.admin.list_consumer_groups().result().valid}


class TestMessages:
    def read(self, live: Live, topic: str, **query: str) -> str:
        page = live.client().get(f"/c/live/topics/{topic}/messages?{urlencode(query)}")
        assert page.status == 200, page.text
        return page.html

    def test_records_are_found_by_place_key_value_header_field_and_time(self, live: Live) -> None:
        live.topic("found", 2)
        for number in range(30):
            value = json.dumps({"customer": {"id": number}, "text": f"order {number}"}).encode()
            live.produce(
                "found",
                (b"key-%d" % number, value),
                partition=number % 2,
                headers={"trace": f"t{number}"},
                timestamp=1_700_000_000_000 + number * 1000,
            )
        assert "order 29" in self.read(live, "found", n="1")
        assert "order 28" not in self.read(live, "found", n="1")
        assert "order 0" in self.read(live, "found", start="oldest", n="1", partition="0")
        by_offset = self.read(live, "found", start="offset", number="14", partition="1")
        assert "order 29" in by_offset
        assert "order 27" not in by_offset
        for query in (
            {"key": "key-17"},
            {"value": "order 17"},
            {"header": "trace=t17"},
            {"path": "customer.id=17"},
            {"start": "time", "time": "1700000017000", "until": "1700000017000"},
        ):
            html = self.read(live, "found", **query)
            assert "order 17" in html, query
            assert "order 16" not in html, query
            assert "order 18" not in html, query
        # A search ends after SCAN_S and says how far it came: on a busy machine, or a stopped one, not to the end.
        nothing = eventually(
            "it says how far it looked",
            lambda: html if "Searched 30 records" in (html := self.read(live, "found", value="none such")) else None,
        )
        assert "No record was found." in nothing

    def test_a_search_goes_on_where_it_stopped(self, live: Live) -> None:
        live.topic("pages", 2)
        live.produce("pages", *[(None, b"value %d" % number) for number in range(25)])
        client, seen = live.client(), []
        page = client.get("/c/live/topics/pages/messages?start=oldest&n=10")
        for _ in range(5):
            seen += page.html.split("<summary><code>")[1:]
            if 'rel="next"' not in page.html:
                break
            link = page.html.split('rel="next"')[0].rsplit('href="', 1)[1].split('"')[0].replace("&amp;", "&")
            page = client.get(link)
        values = {piece.split("</code>")[0] for piece in seen}
        assert len(seen) == len(values) == 25

    def test_hostile_records_are_text(self, live: Live) -> None:
        live.topic("hostile", 1)
        live.produce("hostile", (b"<img src=x onerror=alert(1)>", b"<script>alert(1)</script>"))
        live.produce("hostile", (b"\x1b[31m", b"caf\xe9 \xff\x00 broken but mostly text"))
        live.produce("hostile", (None, "gpj.\u202eexe".encode()), headers={"<b>x</b>": b"\x07<i>"})
        html = self.read(live, "hostile")
        assert "<script>alert" not in html
        assert "<img src=x" not in html
        assert "<b>x" not in html
        assert "\x1b" not in html
        assert "\u202e" not in html
        assert "caf\\xe9" in html
        page = live.client().get("/c/live/topics/hostile/messages/0/0")
        assert "<script>alert" not in page.html
        assert "&lt;script&gt;" in page.html

    def test_a_time_that_no_calendar_has_is_shown_as_a_number(self, live: Live) -> None:
        live.topic("far", 1, **{"message.timestamp.after.max.ms": str(2**63 - 1)})
        far = (2**63 - 1, 253_402_300_800_000)
        for at_ms in far:
            live.produce("far", (None, b"v"), timestamp=at_ms)
        for query in ({}, {"start": "oldest"}):
            html = self.read(live, "far", **query)
            assert all(f"1970-01-01 UTC + {at_ms:,} ms" in html for at_ms in far)
        assert f"{far[0]:,} ms" in live.client().get("/c/live/topics/far/messages/0/0").text
        assert live.client().get("/c/live/topics/far/messages/export?format=csv").status == 200

    def test_a_megabyte_is_cut_and_can_be_saved_whole(self, live: Live) -> None:
        live.topic("large", 1)
        value = bytes(range(256)) * 3_900
        live.produce("large", (b"k", value))
        html = self.read(live, "large")
        assert len(html) < 100_000
        assert "Cut:" in html
        client = live.client()
        page = client.get("/c/live/topics/large/messages/0/0/value")
        assert page.body == value
        assert page.headers["Content-Type"] == "application/octet-stream"
        assert page.headers["Content-Disposition"].startswith("attachment")
        assert "sandbox" in page.headers["Content-Security-Policy"]
        assert client.get("/c/live/topics/large/messages/0/1").status == 404

    def test_avro_is_read_with_the_registrys_schema(self, live: Live) -> None:
        live.topic("avro", 1)
        live.registry.schemas[7] = {"schema": PERSON}
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(PERSON)), {"name": "Ada"})
        live.produce("avro", (None, struct.pack("!bi", 0, 7) + out.getvalue()))
        live.produce("avro", (None, struct.pack("!bi", 0, 99) + b"whatever this is, it is long"))
        html = self.read(live, "avro", path="name=Ada")
        assert "Ada" in html
        assert "7 Person" in html
        assert "answered 404" in self.read(live, "avro")

    def test_protobuf_and_json_schema_are_read_and_what_does_not_fit_is_shown_as_it_is(self, live: Live) -> None:
        live.topic("schemas", 1)
        file = descriptor_pb2.FileDescriptorProto(name="person.proto", package="shop", syntax="proto3")
        file.message_type.add(name="Person").field.add(name="name", number=1, type=9, label=1)
        live.registry.schemas[9] = {"schema": 'syntax = "proto3"; ...', "schemaType": "PROTOBUF"}
        live.registry.serialized[9] = base64.b64encode(file.SerializeToString()).decode()
        live.registry.schemas[11] = {"schema": '{"title": "Order", "type": "object"}', "schemaType": "JSON"}
        ada, hostile = b"Ada Lovelace", b"<script>alert(1)</script>"
        for number, body in (
            (9, b"\x00\x0a" + bytes([len(ada)]) + ada),
            (9, b"\x00\x0a" + bytes([len(hostile)]) + hostile),
            (9, b"\x00\x0a\xff not what it says"),
            (11, b'{"order": {"id": 42}}'),
            (11, b"no JSON at all"),
        ):
            live.produce("schemas", (b"k", struct.pack("!bi", 0, number) + body))
        html = self.read(live, "schemas", path="name=Ada Lovelace")
        assert "Ada Lovelace" in html
        assert "alert(1)" not in html
        assert "protobuf" in html
        assert "42" in self.read(live, "schemas", path="order.id=42")
        everything = self.read(live, "schemas")
        assert "<script>alert" not in everything
        assert "11 Order" in everything
        reasons = [live.client().get(f"/c/live/topics/schemas/messages/0/{offset}").text for offset in (2, 4)]
        assert "schema 9" in reasons[0]
        assert "cannot decode it" in reasons[0]
        assert "no JSON behind the prefix" in reasons[1]

    def test_a_live_tail_of_a_flood_shows_a_few_and_counts_the_others(self, live: Live) -> None:
        live.topic("flood", 1)
        url = f"{live.console.address}/c/live/topics/flood/messages/tail"
        stop = threading.Event()

        def produce() -> None:
            while not stop.is_set():
                live.produce("flood", *[(b"k", b"<b>%d</b>" % number) for number in range(2_000)])

        with urllib.request.urlopen(url, timeout=60) as stream:
            assert stream.readline() == b"event: beat\n"
            writer = threading.Thread(target=produce)
            writer.start()
            began, shown, left_out = time.monotonic(), 0, 0
            try:
                while time.monotonic() < began + 60 and not (shown and left_out):
                    event = stream.readline()
                    shown += event == b"event: record\n"
                    if event == b"event: left-out\n":
                        left_out += json.loads(stream.readline().removeprefix(b"data: "))["n"]
            finally:
                stop.set()
                writer.join()
        seconds = int(time.monotonic() - began) + 2
        assert shown <= 20 * seconds, "twenty in each second by the clock, of which two may have begun"
        assert left_out > 0

    @pytest.mark.parametrize(
        "query",
        ["start=offset", "start=time", "start=time&time=never", "partition=x", "partition=77", "n=-1", "start=x"],
    )
    def test_nonsense_is_answered_in_words(self, live: Live, query: str) -> None:
        if live.partitions("pages") == 0:
            live.topic("pages", 2)
        page = live.client().get(f"/c/live/topics/pages/messages?{query}")
        assert page.status == 400
        assert "could not be read" in page.text

    def test_new_records_come_live(self, live: Live) -> None:
        live.topic("tailed", 1)
        url = f"{live.console.address}/c/live/topics/tailed/messages/tail?value=wanted"
        with urllib.request.urlopen(url, timeout=60) as stream:
            assert stream.readline() == b"event: beat\n"
            stop = threading.Event()

            def produce() -> None:
                while not stop.wait(0.3):
                    live.produce("tailed", (b"k", b"not this"), (b"k", b"<b>wanted</b>"))

            writer = threading.Thread(target=produce)
            writer.start()
            try:
                line = b""
                while not line.startswith(b"event: record"):
                    line = stream.readline()
                data = json.loads(stream.readline().removeprefix(b"data: "))
            finally:
                stop.set()
                writer.join()
        assert "&lt;b&gt;wanted" in data["html"]


class TestBounds:
    def test_a_cluster_that_is_shown_only_is_not_changed(self, live: Live) -> None:
        client = live.client()
        assert client.get("/c/shown/do/create-topic").status == 403
        token = client.get("/c/live/do/create-topic").form("/do/create-topic").fields["csrf"]
        fields = {"csrf": token, "topic": "sneaked", "step": "run"}
        assert client.post("/c/shown/do/create-topic", fields).status == 403
        assert client.post("/c/shown/do/elect", {"csrf": token}).status == 403
        assert "sneaked" not in live.topics()

    def test_a_confirmation_without_a_preview_is_a_preview(self, live: Live) -> None:
        client = live.client()
        token = client.get("/c/live/do/create-topic").form("/do/create-topic").fields["csrf"]
        for more in ({}, {"confirmation": "x"}, {"confirmation": "x", "fingerprint": "0" * 64}):
            page = client.post("/c/live/do/create-topic", {"csrf": token, "topic": "sneaked", "step": "run", **more})
            assert page.status == 409
        assert "sneaked" not in live.topics()

    def test_a_cluster_that_is_away_is_said_at_once(self, live: Live) -> None:
        client = live.client()

        def is_said_in_s() -> float:
            began = time.monotonic()
            for path in ("/c/away/do/create-topic", "/c/away/topics/x/messages"):
                page = client.get(path)
                assert page.status == 503
                assert "does not answer" in page.text
            token = client.get("/c/away/do/elect").form("/do/elect").fields["csrf"]
            assert client.post("/c/away/do/elect", {"csrf": token}).status == 503
            return time.monotonic() - began

        # A page that waits for a cluster does so each time; a busy machine lets one of several pages through.
        assert any(is_said_in_s() < 5 for _ in range(10))
