"""The pages of Kafka Connect and of a schema registry, over a live cluster with both, and without either."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("starlette")
pytest.importorskip("jsonschema")
pytest.importorskip("playwright.sync_api")

from kavka.security.passwords import password_text
from tests.kit.browser import chromium, fill, look, page_of
from tests.kit.connect_server import ConnectServer
from tests.kit.console_client import ConsoleClient, Page
from tests.kit.console_process import ConsoleProcess
from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import eventually
from tests.kit.registry_process import RegistryProcess

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PASSWORD = "correct horse battery"
HOSTILE = '<img src=x onerror="window.hostile=1"/>'
USERS = {"ada": ["operator on *"], "eve": ["viewer on *"], "pat": ["viewer on live, topics payments-*, values"]}
FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "note", "type": "string", "default": ""}]}
BROKEN = {**FIRST, "fields": [{"name": "id", "type": "string"}]}


class Live:
    def __init__(self, console: ConsoleProcess, connect: ConnectServer, registry: RegistryProcess) -> None:
        self.console = console
        self.connect = connect
        self.registry = registry
        self._clients: dict[str, ConsoleClient] = {}

    def client(self, name: str) -> ConsoleClient:
        if name not in self._clients:
            self._clients[name] = ConsoleClient(self.console.address)
            assert self._clients[name].login(name, PASSWORD).status == 200
        return self._clients[name]

    def get(self, path: str, name: str = "ada") -> Page:
        return self.client(name).get(f"/c/live{path}")

    def register(self, subject: str, schema: object) -> None:
        body = json.dumps({"schema": json.dumps(schema)}).encode()
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        address = f"{self.registry.address}/subjects/{subject}/versions"
        urllib.request.urlopen(urllib.request.Request(address, body, headers), timeout=60).close()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    directory = tmp_path_factory.mktemp("services")
    users = "".join(
        f'[[user]]\nname = "{name}"\npassword = "{password_text(PASSWORD)}"\nrights = {json.dumps(rights)}\n'
        for name, rights in USERS.items()
    )
    with ExitStack() as stack:
        broker = stack.enter_context(KavkaProcess(directory / "broker"))
        connect = stack.enter_context(ConnectServer("another"))
        registry = stack.enter_context(RegistryProcess(broker.bootstrap, directory))
        cluster = f'[[cluster]]\nbootstrap = "{broker.bootstrap}"\n'
        services = f'connect = "{connect.address}"\nschema_registry = "{registry.address}"\n'
        dead = 'name = "dead"\nconnect = "http://127.0.0.1:1"\nschema_registry = "http://127.0.0.1:1"\n'
        clusters = f'{cluster}name = "live"\n{services}{cluster}name = "bare"\n{cluster}{dead}'
        with ConsoleProcess(f"login = true\npoll_ms = 300\n{users}{clusters}", directory / "console") as console:
            found = Live(console, connect, registry)
            eventually("the console knows it", lambda: found.get("/do/create-topic").status == 200)
            yield found
            assert not console.failures, console.failures


@pytest.fixture
def connectors(live: Live) -> ConnectServer:
    live.connect.connectors = {
        "jdbc/orders": {
            "config": {"connector.class": "io.x.JdbcSink", "topics": "orders", "connection.password": "hunter2"},
            "state": "RUNNING",
            "tasks": ["RUNNING", "FAILED"],
            "trace": f"java.lang.IllegalStateException: {HOSTILE}\n\tat x.Y(Z.java:1)",
        },
        HOSTILE: {"config": {"name": HOSTILE, HOSTILE: HOSTILE}, "state": HOSTILE, "tasks": [], "type": HOSTILE},
    }
    return live.connect


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def test_connectors_with_their_states_and_without_secrets(live: Live, connectors: ConnectServer) -> None:
    page = live.get("/connect")
    assert page.status == 200
    for told in ("jdbc/orders", "1 failed", "JdbcSink", "4.3.1", "works with another cluster"):
        assert told in page.text
    assert page.text.index("jdbc/orders") < page.text.index("RUNNING"), "what has failed comes first"
    one = live.get("/connect/jdbc%2Forders")
    assert "java.lang.IllegalStateException" in one.text
    assert "connection.password ***" in one.text
    for shown in (page, one, live.get("/connect/" + urllib.request.quote(HOSTILE, safe=""))):
        assert shown.status == 200
        assert "<img src=x" not in shown.html
        assert "hunter2" not in shown.html
    for missing in ("/connect/none", "/connect/..%2F..", "/connect/%2E%2E"):
        assert live.get(missing).status == 404
    assert "jdbc" in live.get("/connect?q=JDBC").text


def test_a_connector_is_told_after_a_preview_and_it_is_in_the_audit_log(live: Live, connectors: ConnectServer) -> None:
    client = live.client("ada")
    form = live.get("/do/connector?connector=jdbc%2Forders&what=restart-failed")
    preview = client.submit(form, "/do/connector")
    assert "task 1 FAILED RUNNING" in preview.text
    assert "task 0" not in preview.text
    assert "/connectors/jdbc%2Forders/restart?includeTasks=true&onlyFailed=true" in preview.text
    assert not [each for each in connectors.asked if each.startswith("POST")]
    done = client.submit(preview, "/do/connector", step="run")
    assert "committed" in done.text, done.text
    assert connectors.connectors["jdbc/orders"]["tasks"] == ["RUNNING", "RUNNING"]
    refused = client.submit(form, "/do/connector")
    assert "nothing of connector jdbc/orders has failed" in refused.text
    audit = client.get("/audit?q=connector").text
    assert "connector jdbc/orders" in audit
    task = client.submit(live.get("/do/connector?connector=jdbc%2Forders&task=0"), "/do/connector")
    assert "One task of the connector is restarted." in task.text
    stop = client.submit(live.get("/do/connector?connector=jdbc%2Forders"), "/do/connector", what="stop")
    assert "until somebody resumes this connector: orders" in stop.text
    client.submit(stop, "/do/connector", step="run")
    assert connectors.connectors["jdbc/orders"]["state"] == "STOPPED"


def test_what_connect_refuses_and_what_nobody_knows_are_told_apart(live: Live, connectors: ConnectServer) -> None:
    client = live.client("ada")
    form = live.get("/do/connector?connector=jdbc%2Forders")
    preview = client.submit(form, "/do/connector", what="pause")
    connectors.raw["/connectors/jdbc%2Forders/pause"] = (409, b'{"message": "rebalancing"}')
    refused = client.submit(preview, "/do/connector", step="run")
    assert "rejected" in refused.text
    assert "rebalancing" in refused.text
    del connectors.raw["/connectors/jdbc%2Forders/pause"]


def test_who_may_see_and_who_may_tell(live: Live, connectors: ConnectServer) -> None:
    for path in ("/connect", "/connect/jdbc%2Forders", "/schemas"):
        assert live.get(path, "eve").status == 200
        assert live.get(path, "pat").status == 403, "what is not about one topic takes a right for all"
    assert "/do/connector" not in live.get("/connect/jdbc%2Forders", "eve").html
    assert live.get("/do/connector?connector=jdbc%2Forders", "eve").status == 403


def test_subjects_versions_their_difference_and_a_check(live: Live) -> None:
    for schema in (FIRST, SECOND):
        live.register("orders-value", schema)
    page = live.get("/schemas")
    assert "orders-value 2 2 BACKWARD as the registry" in page.text
    one = live.get("/schemas/orders-value?version=2&with=1")
    assert "<ins>+       &#34;name&#34;: &#34;note&#34;,</ins>" in one.html
    assert "BACKWARD" in one.text
    client = live.client("eve")
    good = client.submit(live.get("/schemas/orders-value", "eve"), "/schemas/orders-value#check")
    assert "The registry would take it as the next version." in good.text
    bad = client.submit(good, "/schemas/orders-value#check", schema=json.dumps(BROKEN))
    assert "It is not compatible" in bad.text
    assert "READER" in bad.text.upper() or "TYPE" in bad.text.upper(), "the registry's reasons"
    wrong = client.submit(good, "/schemas/orders-value#check", schema="{")
    assert "The registry did not check it." in wrong.text
    for missing in ("/schemas/none", "/schemas/orders-value?version=9", "/schemas/%2E%2E"):
        assert live.get(missing).status == 404


def test_where_there_is_none_the_page_says_how_to_get_one(live: Live) -> None:
    client = live.client("ada")
    assert "bin/connect-distributed.sh" in client.get("/c/bare/connect").text
    assert "kavka schema-registry" in client.get("/c/bare/schemas").text
    for page in (client.get("/c/dead/connect"), client.get("/c/dead/schemas")):
        assert page.status == 200
        assert "did not answer as expected" in page.text
        assert "Check its address" in page.text
    assert client.get("/c/dead/connect/x").status == 503
    assert client.get("/c/bare/connect/x").status == 404


def test_they_are_in_a_browser_without_barriers(live: Live, connectors: ConnectServer, browser: Browser) -> None:
    for schema in (FIRST, SECOND):
        live.register("orders-value", schema)
    with page_of(browser) as page:
        page.goto(f"{live.console.address}/login")
        fill(page, name="ada", password=PASSWORD)
        page.click("main button")
        page.wait_for_load_state()
        for path in (
            "connect",
            "connect/jdbc%2Forders",
            f"connect/{urllib.request.quote(HOSTILE, safe='')}",
            "schemas",
        ):
            page.goto(f"{live.console.address}/c/live/{path}")
            look(page)
        page.goto(f"{live.console.address}/c/live/schemas/orders-value")
        page.select_option("main [name=with]", "1")
        page.click("main form button:has-text('Show')")
        page.locator(".difference ins").first.wait_for()
        look(page)
        page.goto(f"{live.console.address}/c/live/connect/jdbc%2Forders")
        page.click("a.button:has-text('Restart')")
        assert page.locator("main select[name=what]").input_value() == "restart-failed"
        page.click("button:has-text('Show what it would do')")
        page.locator('button:has-text("Do it")').last.click()
        page.get_by_text("committed").first.wait_for()
        look(page)
