"""Services beside a cluster that are slow, send too much or lie: what is taken of their answers, and for how long."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("starlette")

from kavka.console.actions import connectors as connector_actions
from kavka.console.actions.connectors import CommandConnector
from kavka.console.sources import rest_service
from kavka.console.sources.connectors import (
    HIDDEN,
    command,
    connector_of,
    read_connector,
    read_connectors,
    shown_settings,
)
from kavka.console.sources.rest_service import MOST_BYTES, RestFailed, RestService, part
from kavka.console.sources.subjects import (
    MOST_LINES,
    check,
    difference,
    laid_out,
    read_level,
    read_subjects,
    read_version,
    read_versions,
)
from kavka.errors import ConfigError, RequestError
from kavka.observe.cluster_settings import ClusterSettings
from tests.kit.connect_server import ConnectServer
from tests.kit.schema_registry_server import RegistryServer
from tests.kit.speaker import speaker

HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m"


def ask(address: str, path: str = "/") -> Any:
    return asyncio.run(RestService(address).ask("GET", path))


def test_who_sends_a_byte_now_and_then_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_service, "TIMEOUT_S", 0.5)

    def drip(peer: socket.socket) -> None:
        for _ in range(100):
            peer.sendall(b"H")
            time.sleep(0.1)

    with speaker(drip) as address:
        began, threads = time.monotonic(), threading.active_count()
        with pytest.raises(RestFailed, match=r"within 0\.5 s|longer than 0\.5 s|does not answer"):
            ask(address)
        assert time.monotonic() - began < 5
        deadline = time.monotonic() + 60
        while threading.active_count() > threads and time.monotonic() < deadline:
            time.sleep(0.05)
        assert threading.active_count() <= threads, "the thread that asked has ended, too"


def test_no_more_is_read_than_the_bound() -> None:
    def flood(peer: socket.socket) -> None:
        peer.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
        for _ in range(3 * MOST_BYTES // 65_536):
            peer.sendall(b"[" * 65_536)

    with speaker(flood) as address, pytest.raises(RestFailed, match="more than 4,194,304 bytes"):
        ask(address)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\n<html>", "did not answer in JSON"),
        (b"HTTP/1.0 200 OK\r\n\r\n" + b"[" * 100_000, "did not answer in JSON"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\n[1]", "does not answer"),
        (b"HTTP/1.0 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", "answered 302"),
        (b'HTTP/1.0 500 No\r\n\r\n{"message": "a\\u001b[31mb"}', r"answered 500: a\\x1b"),
        (b"HTTP/1.0 409 No\r\n\r\n[]", "answered 409$"),
        (b"nonsense\r\n\r\n", "does not answer"),
        (b"", "does not answer"),
    ],
)
def test_what_is_no_answer_is_told_in_words(said: bytes, why: str) -> None:
    with speaker(lambda peer: peer.sendall(said)) as address, pytest.raises(RestFailed, match=why):
        ask(address)


def test_few_questions_are_under_way_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_service, "TIMEOUT_S", 1.0)

    async def many(address: str) -> list[object]:
        service = RestService(address)
        return await asyncio.gather(*(service.ask("GET", "/") for _ in range(30)), return_exceptions=True)

    most = 0

    def silent(peer: socket.socket) -> None:
        nonlocal most
        most = max(most, sum(each.name == "kavka-rest" for each in threading.enumerate()))
        time.sleep(1.5)

    with speaker(silent) as address:
        found = asyncio.run(many(address))
    assert all(isinstance(each, RestFailed) for each in found)
    assert most <= rest_service.MOST_AT_ONCE


def test_a_name_and_a_password_are_sent_and_not_shown() -> None:
    with RegistryServer() as server:
        server.raw["/subjects"] = (200, b"[]")
        service = RestService(server.address.replace("://", "://ada:s%40cret@"))
        assert asyncio.run(service.ask("GET", "/subjects")) == []
        assert server.authorization == ["Basic YWRhOnNAY3JldA=="]
        assert service.address == server.address
        with pytest.raises(RestFailed) as failed:
            asyncio.run(service.ask("GET", "/nothing"))
        assert "s@cret" not in str(failed.value)


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_leads_nowhere_else(name: str) -> None:
    with pytest.raises(ValueError, match="is no name"):
        part(name)


@pytest.mark.parametrize("address", ["ftp://x:1", "http://", "http://h:99999", "file:///etc/passwd"])
def test_what_is_no_address_of_a_service_is_refused_at_the_start(address: str) -> None:
    for name in ("connect", "schema_registry"):
        with pytest.raises(ConfigError, match="cluster a"):
            ClusterSettings("a", "h:1", **{name: address})


class TestConnectors:
    def test_they_are_read_with_their_tasks_and_without_secrets(self) -> None:
        with ConnectServer() as server:
            server.connectors["a/b ä"] = {
                "config": {"connector.class": "x.Y", "topics": "t", "db.password": "p"},
                "state": "RUNNING",
                "tasks": ["RUNNING", "FAILED"],
                "trace": HOSTILE,
            }
            service = RestService(server.address)
            (found,) = asyncio.run(read_connectors(service))
            assert found == asyncio.run(read_connector(service, "a/b ä"))
            assert (found.failed_tasks, found.level, found.topics) == (1, "bad", "t")
            assert found.tasks[1].trace == HOSTILE, "the page shows it by its codes"
            assert found.config["db.password"] == HIDDEN
            asyncio.run(command(service, "a/b ä", "restart", 1))
            asyncio.run(command(service, "a/b ä", "stop"))
            assert server.asked[-2:] == [
                "POST /connectors/a%2Fb%20%C3%A4/tasks/1/restart",
                "PUT /connectors/a%2Fb%20%C3%A4/stop",
            ]
            with pytest.raises(RestFailed) as missing:
                asyncio.run(read_connector(service, "none"))
            assert missing.value.status == 404

    @pytest.mark.parametrize(
        ("name", "value", "is_hidden"),
        [
            ("ssl.keystore.location", "/a", True),
            ("sasl.jaas.config", "x", True),
            ("AWS_SECRET", "x", True),
            ("private_key", "x", True),
            ("url", "https://ada:pw@host/", True),
            ("url", "jdbc:x;user=a;password=b", True),
            ("http.headers", "Authorization: Basic bWU6aHVudGVyMg==", True),
            ("http.headers", "X-A: bearer abc.def.ghi", True),
            ("pem", "-----BEGIN PRIVATE KEY-----", True),
            ("password", "${file:/a:b}", False),
            ("password", "${file:/a:b}x", True),
            ("password", "", False),
            ("key.converter", "StringConverter", False),
            ("tasks.max", "4", False),
            ("topics", "orders", False),
        ],
    )
    def test_what_may_be_secret_is_hidden(self, name: str, value: str, is_hidden: bool) -> None:
        assert shown_settings({name: value}) == {name: HIDDEN if is_hidden else value}

    JSON = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["status", "info", "connector", "tasks", "id", "state", "config"]), inner)
        ),
        max_leaves=12,
    )

    def test_the_cause_is_the_last_one_of_the_trace_in_one_line(self) -> None:
        """A trace of Java begins with what was wrong last, and ends with what was wrong at first, a screen below."""
        trace = "a.Kafka: no client\n\tat a.B(B.java:1)\nCaused by: a.Other: no\nCaused by: a.Config: x is small\n\tat"
        failed = {"state": "FAILED", "trace": trace}
        assert connector_of("a", {"status": {"connector": failed}}).cause == "a.Config: x is small"
        of_a_task = {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "RUNNING"}, {"id": 1, **failed}]}
        assert connector_of("a", {"status": of_a_task}).cause == "a.Config: x is small"
        assert (
            connector_of("a", {"status": {"connector": {"state": "FAILED", "trace": "a.B: y\n\tat"}}}).cause == "a.B: y"
        )
        assert connector_of("a", {"status": {"connector": {"state": "FAILED", "trace": "\n"}}}).cause == ""

    def test_a_trace_that_quotes_a_password_is_without_it(self) -> None:
        trace = "java.sql.SQLException: refused\n\tjdbc:postgresql://me:hunter2@db/x\n\tat io.x.Sink"
        state = {"state": "FAILED", "trace": trace}
        found = connector_of("a", {"status": {"connector": state, "tasks": [{"id": 0, **state}]}})
        assert found.trace == found.tasks[0].trace == f"java.sql.SQLException: refused\n{HIDDEN}\n\tat io.x.Sink"
        began = time.process_time()
        connector_of("a", {"status": {"connector": {"trace": "://" + ":" * 19_000}}})
        assert time.process_time() - began < 1

    @pytest.mark.parametrize(
        ("status", "raised"), [(0, RestFailed), (409, RequestError), (500, RestFailed), (504, RestFailed)]
    )
    def test_what_a_worker_that_fails_has_done_is_not_known(
        self, status: int, raised: type[Exception], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A proxy's 504 was written down as refused, and the connector was restarted."""

        async def refused(*_: object) -> None:
            raise RestFailed("no", status)

        monkeypatch.setattr(connector_actions, "command", refused)
        watch: Any = SimpleNamespace(settings=SimpleNamespace(connect="http://127.0.0.1:1"))
        with pytest.raises(raised):
            asyncio.run(CommandConnector().execute(watch, {"connector": "a", "what": "restart"}))

    @given(JSON)
    @settings(max_examples=300)
    def test_any_answer_makes_aconnector_of(self, answer: object) -> None:
        found = connector_of("a", answer if isinstance(answer, dict) else {})
        assert found.level in ("ok", "warn", "bad")
        assert isinstance(found.topics, str)


class TestSubjects:
    def test_they_are_read(self) -> None:
        with RegistryServer() as server:
            server.raw["/subjects"] = (200, json.dumps(["b", "a", 3, None, "a"]).encode())
            server.raw["/subjects/a/versions"] = (200, b'[2, 1, "x", -1, 99999999999]')
            server.subjects["a", "2"] = {"id": 7, "schema": '{"type":"string"}', "references": [{"name": "n"}, 4]}
            server.raw["/config"] = (200, b'{"compatibilityLevel": "FULL"}')
            server.raw["/config/b"] = (200, b'{"compatibilityLevel": "NONE"}')
            service = RestService(server.address)
            assert asyncio.run(read_subjects(service)) == ["a", "b"]
            assert asyncio.run(read_versions(service, "a")) == [1, 2]
            shown = asyncio.run(read_version(service, "a", 2))
            assert (shown.number, shown.kind, shown.text) == (7, "AVRO", '{\n  "type": "string"\n}')
            assert asyncio.run(read_level(service, "a")) == ("FULL", False)
            assert asyncio.run(read_level(service, "b")) == ("NONE", True)

    def test_an_answer_that_is_none_is_told(self) -> None:
        with RegistryServer() as server:
            server.raw["/subjects/a/versions/1"] = (200, b'{"schema": 3}')
            server.raw["/subjects"] = (200, b'{"error": 1}')
            with pytest.raises(RestFailed, match="without a schema"):
                asyncio.run(read_version(RestService(server.address), "a", 1))
            assert asyncio.run(read_subjects(RestService(server.address))) == []

    def test_a_difference_is_bounded(self) -> None:
        assert difference("a", "a") == []
        assert difference("\n" * (MOST_LINES + 2), "a") is None
        began = time.process_time()
        difference("\n".join(f"}},{number % 3}" for number in range(1_400)), "\n".join("}," * 1_400))
        assert time.process_time() - began < 5

    def test_json_is_laid_out_and_other_text_stays(self) -> None:
        assert laid_out('{"a":[1]}') == '{\n  "a": [\n    1\n  ]\n}'
        assert laid_out('syntax = "proto3";') == 'syntax = "proto3";'
        assert laid_out("[" * 100_000) == "[" * 100_000

    @pytest.mark.parametrize("depth", [400, 900, 985, 990, 993])
    def test_a_deep_schema_does_not_fill_memory_with_what_indents_it(self, depth: int) -> None:
        """200 KB became 80 MB in half a minute; 4 MB would have been more memory than there is."""
        text = "[" * depth + "1," * 100_000 + "1" + "]" * depth
        began = time.process_time()
        assert laid_out(text) == text
        assert time.process_time() - began < 5

    def test_a_schema_is_checked(self) -> None:
        with ConnectServer() as server:
            where = "/compatibility/subjects/a/versions/latest"
            server.raw[where] = (200, b'{"is_compatible": false, "messages": ["why", 3]}')
            verdict = asyncio.run(check(RestService(server.address), "a", "JSON", "{}"))
            assert verdict == (False, ("why", "3"))
            server.raw[where] = (200, b'{"is_compatible": "yes"}')
            with pytest.raises(RestFailed, match="without a verdict"):
                asyncio.run(check(RestService(server.address), "a", "AVRO", "{}"))


def test_an_address_that_is_none_is_named_without_its_password() -> None:
    with pytest.raises(ValueError, match=r"'broker:21' is no address") as refused:
        RestService("ftp://ada:canary@broker:21")
    assert "canary" not in str(refused.value)
