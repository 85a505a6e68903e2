"""Access control lists, users and quotas in the console: listed, shown, changed, told as they came out.

Over a secured cluster of kavka, and over one without an authorizer; Apache Kafka's are the same requests
(tests/conformance), and a thorough run has them, too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("cryptography")

from kavka.testing import Cluster, SecureCluster
from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.kit.console_client import ConsoleClient, Page
from tests.kit.console_process import ConsoleProcess
from tests.kit.patience import PATIENT
from tests.kit.process_cluster import eventually

PASSWORD = "correct horse"
READ = {"principal": "User:alice", "permission": "Allow", "operations": "Read, Describe", "kind": "Topic"}
AUTHORIZER = {
    "zk": "kafka.security.authorizer.AclAuthorizer",
    "kraft": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}


class Live:
    def __init__(self, console: ConsoleProcess, directory: Path) -> None:
        self.console = console
        self.directory = directory

    def client(self) -> ConsoleClient:
        return ConsoleClient(self.console.address)

    def ledger(self) -> str:
        """Everything that the console has written down."""
        with sqlite3.connect(self.directory / "data" / "ledger.sqlite") as database:
            return "\n".join(database.iterdump())


def settings_of(kind: str, stack: ExitStack, directory: Path) -> str:
    """Starts a cluster; its table in the console's settings."""
    if kind == "kavka":
        cluster = stack.enter_context(SecureCluster(brokers=1, settings=PATIENT))
        config = cluster.client_config()
        login = f'mechanism = "{config["sasl.mechanism"]}", username = "admin", password = "{config["sasl.password"]}"'
        tls = f'tls = {{ authorities = "{config["ssl.ca.location"]}" }}\n'
        return f'bootstrap = "{cluster.bootstrap_servers}"\nsasl = {{ {login} }}\n{tls}'
    more = {"authorizer.class.name": AUTHORIZER[kind], "allow.everyone.if.no.acl.found": "true"}
    try:
        kafka = ApacheKafka(directory / kind, mode=kind, brokers=1, heap="-Xmx256M", settings=more)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    stack.enter_context(kafka)
    return f'bootstrap = "{kafka.bootstrap}"\n'


LATER = [pytest.mark.kafka, pytest.mark.thorough, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", params=["kavka", pytest.param("zk", marks=LATER), pytest.param("kraft", marks=LATER)])
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    directory = tmp_path_factory.mktemp("access")
    with ExitStack() as stack:
        table = settings_of(request.param, stack, directory)
        settings = f'poll_ms = 500\n[[cluster]]\nname = "live"\n{table}'
        console = stack.enter_context(ConsoleProcess(settings, directory))
        found = Live(console, directory)
        eventually("the cluster is read", lambda: "alive" in found.client().get("/c/live/brokers").text)
        yield found
        assert not console.failures, console.failures


def test_a_list_is_shown_added_and_removed(live: Live) -> None:
    client = live.client()
    fields = {**READ, "resource": "payments-", "pattern": "prefixed", "host": "*"}
    page = client.preview("live", "add-acl", {}, **fields)
    assert "that begins with payments-" in page.text
    assert (
        "kavka acls add --allow-principal User:alice --operation Read --operation Describe --topic payments- "
        "--resource-pattern-type prefixed"
    ) in page.text
    assert "kavka acls remove --allow-principal User:alice" in page.text, "how to undo it"
    assert "payments-" not in client.get("/c/live/access").text, "a preview does nothing"
    assert "Done." in client.confirm(page, "add-acl").text
    page = eventually("listed", lambda: _with(client, "/c/live/access?q=payments-", "Describe"))
    assert "User:alice Allow Read Topic payments- all that begin so" in page.text
    assert "these access control lists are there already" in client.preview("live", "add-acl", {}, **fields).text
    one = {**fields, "operations": "Read"}
    page = client.preview("live", "remove-acl", one)
    assert "removed: 1." in page.text
    assert "Done." in client.confirm(page, "remove-acl").text
    page = eventually("gone", lambda: _without(client, "/c/live/access?q=payments-", "Allow Read"))
    assert "Describe" in page.text, "the other stays"
    assert "no longer exists" in client.preview("live", "remove-acl", one).text
    assert "# to undo it:" in live.ledger()


def test_who_may_do_what_is_worked_out_from_all_lists_that_apply(live: Live) -> None:
    client = live.client()
    everything = {**READ, "operations": "All", "resource": "*", "pattern": "literal"}
    client.do("live", "add-acl", {}, **everything)
    page = client.preview(
        "live", "add-acl", {}, **{**READ, "permission": "Deny", "operations": "Write", "resource": "orders"}
    )
    assert "User:alice may" in page.text
    assert "everything" in page.text
    client.confirm(page, "add-acl")
    page = eventually(
        "worked out",
        lambda: _with(client, "/c/live/access?kind=Topic&resource=orders", "Who may do what with Topic orders"),
    )
    row = page.text[page.text.index("Denied") :]
    assert "Read" in row
    assert "everything" not in row.split("Super users")[0]
    client.do("live", "remove-acl", everything)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"operations": "Fly"}, "is no operation on a Topic"),
        ({"operations": "ClusterAction"}, "is no operation on a Topic"),
        ({"principal": "alice"}, "expected a principal"),
        ({"principal": "User:"}, "has no name"),
        ({"resource": ""}, "the resource's name is missing"),
        ({"resource": "a/b"}, "invalid resource name"),
    ],
)
def test_a_list_that_cannot_be_is_refused_before(live: Live, fields: dict[str, str], why: str) -> None:
    page = live.client().preview("live", "add-acl", {}, **{**READ, "resource": "orders", **fields})
    assert page.status == 400
    assert why in page.text


def test_a_user_gets_a_password_and_loses_it_and_nobody_reads_it(live: Live) -> None:
    client = live.client()
    fields = {"user": "dora", "password": PASSWORD, "again": PASSWORD, "mechanism": "SCRAM-SHA-512"}
    assert "the two passwords differ" in client.preview("live", "set-user", {}, **{**fields, "again": "x"}).text
    page = client.preview("live", "set-user", {}, **fields)
    assert PASSWORD not in page.text
    assert page.headers["cache-control"] == "no-store"
    done = client.confirm(page, "set-user")
    assert "Done." in done.text
    assert PASSWORD not in done.html
    page = eventually("listed", lambda: _with(client, "/c/live/access/users", "dora SCRAM-SHA-512 (4096)"))
    again = client.preview("live", "set-user", {"user": "dora"}, **fields)
    assert "is replaced" in again.text
    page = client.preview("live", "remove-user", {"user": "dora"})
    assert "Done." in client.confirm(page, "remove-user", typed="dora").text
    eventually("gone", lambda: _without(client, "/c/live/access/users", "dora"))
    assert "has no password here" in client.preview("live", "remove-user", {"user": "dora"}).text
    assert PASSWORD not in live.ledger()


def test_quotas_are_shown_set_changed_and_taken_away(live: Live) -> None:
    client = live.client()
    fields = {"user": "alice", "client": "(default)", "producer_byte_rate": "1048576", "request_percentage": "12.5"}
    page = client.preview("live", "set-quota", {}, **fields)
    assert "kavka quotas set --user alice --default-client-id --produce 1048576 --request 12.5" in page.text
    assert "kavka quotas remove --user alice --default-client-id --produce --request" in page.text, "how to undo it"
    assert "Done." in client.confirm(page, "set-quota").text
    eventually("listed", lambda: _with(client, "/c/live/access/quotas", "Bytes written each second: 1048576"))
    form = client.get("/c/live/do/set-quota?user=alice&client=(default)").form("/do/set-quota")
    assert form.fields["request_percentage"] == "12.5"
    page = client.post(form.action, {**form.fields, "producer_byte_rate": "", "consumer_byte_rate": "2048"})
    assert "Done." in client.confirm(page, "set-quota").text
    nothing = client.preview("live", "set-quota", {"user": "alice"}, consumer_byte_rate="0")
    assert "lets nothing through" in nothing.text or "must be greater than 0" in nothing.text, (
        "Apache Kafka 4 refuses it"
    )
    page = eventually("changed", lambda: _without(client, "/c/live/access/quotas", "1048576"))
    assert "Bytes read each second: 2048" in page.text
    assert "Percent of a request thread: 12.5" in page.text
    client.do("live", "set-quota", {}, user="alice", client="(default)")
    eventually("none", lambda: _without(client, "/c/live/access/quotas", "12.5"))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"producer_byte_rate": "1"}, "name a user"),
        ({"ip": "10.0.0.1", "user": "a"}, "an address has a quota of its own"),
        ({"ip": "10.0.0.1", "producer_byte_rate": "1"}, "cannot have a limit of this kind"),
        ({"user": "a", "producer_byte_rate": "-1"}, "is no limit"),
        ({"user": "a", "producer_byte_rate": "nan"}, "is no limit"),
        ({"user": "a"}, "nothing changes"),
    ],
)
def test_a_quota_that_cannot_be_is_refused_before(live: Live, fields: dict[str, str], why: str) -> None:
    page = live.client().preview("live", "set-quota", {}, **fields)
    assert page.status == 400
    assert why in page.text


def test_a_cluster_without_an_authorizer_says_so(tmp_path: Path) -> None:
    with Cluster(brokers=1, settings=PATIENT) as cluster:
        table = f'[[cluster]]\nname = "open"\nbootstrap = "{cluster.bootstrap_servers}"\n'
        with ConsoleProcess(f"poll_ms = 500\n{table}", tmp_path) as console:
            client = ConsoleClient(console.address)
            page = eventually("it is said", lambda: _with(client, "/c/open/access", "This cluster has no authorizer"))
            assert "add-acl" not in page.html
            refused = client.preview("open", "add-acl", {}, **{**READ, "resource": "orders"})
            assert refused.status == 409
            assert "The cluster refused this" in refused.text
            assert not console.failures, console.failures


def _with(client: ConsoleClient, path: str, text: str) -> Page | None:
    page = client.get(path)
    return page if text in page.text else None


def _without(client: ConsoleClient, path: str, text: str) -> Page | None:
    page = client.get(path)
    return page if text not in page.text else None
