"""The console with logins, over real sockets, as an attacker or a tired operator tries it."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from confluent_kafka.admin import AdminClient

from kavka.console.access.auth import Users
from kavka.console.ledger import LEDGER, open_ledger
from kavka.console.rights import Role
from kavka.testing import Cluster
from tests.kit.command_line import run_alone
from tests.kit.console_client import ConsoleClient
from tests.kit.console_process import ConsoleProcess
from tests.kit.patience import PATIENT
from tests.kit.process_cluster import eventually

PASSWORD = "correct horse battery"


def user(directory: Path, *words: str, password: str = PASSWORD) -> subprocess.CompletedProcess[bytes]:
    return run_alone("console", "user", *words, "--data", str(directory), given=password.encode() + b"\n")


class Live:
    def __init__(self, cluster: Cluster, console: ConsoleProcess, data: Path) -> None:
        self.cluster = cluster
        self.console = console
        self.data = data
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})

    def client(self, name: str = "") -> ConsoleClient:
        client = ConsoleClient(self.console.address)
        if name:
            assert client.login(name, PASSWORD).status == 200
        return client

    def topics(self) -> set[str]:
        return set(self.admin.list_topics(timeout=10).topics)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    directory = tmp_path_factory.mktemp("security")
    data = directory / "console" / "data"
    with Cluster(brokers=1, settings=PATIENT) as cluster:
        users = Users(open_ledger(data / LEDGER))
        for role in Role:
            users.add(role.name.lower(), PASSWORD, role)
        settings = (
            f'poll_ms = 500\nhost = "0.0.0.0"\n[[cluster]]\nname = "live"\nbootstrap = "{cluster.bootstrap_servers}"\n'
        )
        with ConsoleProcess(settings, directory / "console") as console:
            found = Live(cluster, console, data)
            client = found.client("admin")
            eventually("the console knows it", lambda: client.get("/c/live/do/create-topic").status == 200)
            yield found
            assert not console.failures, console.failures


def test_beyond_loopback_it_does_not_start_without_a_user(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kavka.cli.main", "console", "--host", "0.0.0.0", "--port", "0"]
    command += ["--bootstrap", "127.0.0.1:1", "--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1
    assert "kavka console user add" in done.stderr


def test_nothing_is_shown_before_the_login(live: Live) -> None:
    client = live.client()
    for path in ("/", "/c/live/", "/c/live/topics", "/audit", "/c/live/do/create-topic", "/c/live/jobs"):
        page = client.get(path)
        assert page.path == "/login", path
        assert 'href="/c/' not in page.html, "not even which clusters there are"
    assert 'href="/c/' not in client.get("/static/there-is-none").html
    for path in ("/c/live/live", "/c/live/topics/x/messages/tail"):
        request = urllib.request.Request(live.console.address + path, headers={"accept": "text/event-stream"})
        assert client.send(request).status == 401
    assert client.get("/metrics").status == 401


def test_a_login_leads_back_and_nowhere_else(live: Live) -> None:
    client = live.client()
    assert client.login("viewer", PASSWORD, then="/c/live/topics").path == "/c/live/topics"
    for target in ("https://evil.example/", "//evil.example", "/%5Cevil.example", "javascript:alert(1)"):
        page = live.client().login("viewer", PASSWORD, then=target)
        assert page.url == live.console.address + "/", target


def test_after_the_logout_the_old_cookie_is_worth_nothing(live: Live) -> None:
    client = live.client("operator")
    kept = {cookie.name: cookie.value for cookie in client.cookies}
    assert "httponly" in {name.lower() for cookie in client.cookies for name in cookie._rest}
    assert client.submit(client.get("/"), "/logout").path == "/login"
    stolen = urllib.request.Request(
        live.console.address + "/audit", headers={"cookie": "; ".join(f"{name}={kept[name]}" for name in kept)}
    )
    assert ConsoleClient(live.console.address).send(stolen).path == "/login"


def test_what_is_refused_is_said_in_the_readers_language(live: Live) -> None:
    client = ConsoleClient(live.console.address, {"Accept-Language": "zh"})
    pages = {
        "login": client.get("/login"),
        "wrong": client.login("nobody", "not the password"),
        "in": client.login("viewer", PASSWORD),
        "not allowed": client.get("/c/live/do/create-topic"),
        "without a token": client.post("/c/live/do/create-topic", {"topic": "x"}),
        "from elsewhere": client.post("/c/live/do/create-topic", {}, {"Origin": "http://elsewhere.example"}),
        "log": client.get("/audit"),
        "no page": client.get("/nothing"),
        "no cluster": client.get("/c/nobody/"),
    }
    assert [pages[name].status for name in ("not allowed", "without a token", "from elsewhere")] == [403] * 3
    english = {name: page.english() for name, page in pages.items() if page.english()}
    assert not english, english


def test_a_role_is_not_got_round_by_sending_the_form_oneself(live: Live) -> None:
    admin = live.client("admin")
    shown = admin.preview("live", "create-topic", {}, topic="sneaked", partitions="1", replicas="1")
    fields = shown.form("/do/create-topic").fields
    viewer = live.client("viewer")
    token = viewer.get("/").form("/logout").fields["csrf"]
    assert viewer.post("/c/live/do/create-topic", {**fields, "csrf": token, "step": "run"}).status == 403
    assert viewer.post("/c/live/do/elect", {"csrf": token}).status == 403
    operator = live.client("operator")
    token = operator.get("/").form("/logout").fields["csrf"]
    assert operator.post("/c/live/do/delete-topic", {"csrf": token, "topic": "x", "step": "run"}).status == 403
    assert operator.get("/c/live/do/delete-topic?topic=x").status == 403
    assert live.client("viewer").get("/audit").status == 403
    assert "sneaked" not in live.topics()
    assert "denied" in admin.get("/audit?user=viewer").text


def test_a_form_without_token_or_from_elsewhere_changes_nothing(live: Live) -> None:
    admin = live.client("admin")
    shown = admin.preview("live", "create-topic", {}, topic="forged", partitions="1", replicas="1")
    fields = {**shown.form("/do/create-topic").fields, "step": "run"}
    assert admin.post("/c/live/do/create-topic", {**fields, "csrf": ""}).status == 403
    assert admin.post("/c/live/do/create-topic", fields, {"origin": "http://evil.example"}).status == 403
    assert admin.post("/c/live/do/create-topic", fields, {"sec-fetch-site": "cross-site"}).status == 403
    assert "forged" not in live.topics()
    assert "Done." in admin.post("/c/live/do/create-topic", fields, {"origin": live.console.address}).text
    eventually("made", lambda: "forged" in live.topics())


def test_a_name_that_nobody_has_is_not_written_down(live: Live) -> None:
    """Passwords are typed where names belong. Whose name was right is said."""
    client = live.client()
    client.login("in-the-wrong-field", "x")
    client.login("viewer", "wrong password")
    denied = live.client("admin").get("/audit?q=login")
    assert "in-the-wrong-field" not in denied.html
    assert "(unknown)" in denied.text
    assert "viewer" in denied.text


def test_an_audit_line_has_who_and_from_where(live: Live) -> None:
    operator = live.client("operator")
    operator.do("live", "create-topic", {}, topic="noted", partitions="1", replicas="1")
    text = live.client("admin").get("/audit?q=noted").text
    assert "operator" in text
    assert "127.0.0.1" in text
    assert "committed" in text


def test_a_removed_user_is_out_at_once(live: Live) -> None:
    assert user(live.data, "add", "leaver", "--role", "operator").returncode == 0
    client = live.client("leaver")
    assert client.get("/audit").path == "/audit"
    listed = user(live.data, "list")
    assert b"leaver" in listed.stdout
    assert user(live.data, "remove", "leaver").returncode == 0
    assert client.get("/audit").path == "/login"
    assert user(live.data, "remove", "leaver").returncode == 1


def test_a_short_password_is_refused(tmp_path: Path) -> None:
    done = user(tmp_path, "add", "ada", password="short")
    assert done.returncode == 2
    assert b"10 to" in done.stderr


def test_wrong_passwords_tell_nothing_and_cost_more_and_more(live: Live) -> None:
    # The last of these tests: what is counted by address keeps everybody else here out, too.
    assert user(live.data, "add", "target", "--role", "viewer").returncode == 0
    client = live.client()
    told = {client.login(name, "wrong password").text for name in ("nobody-there", "target")}
    assert len({text.replace("nobody-there", "").replace("target", "") for text in told}) == 1
    statuses = [client.login("target", f"guess {number}").status for number in range(6)]
    assert statuses[-1] == 429
    assert client.login("target", PASSWORD).status == 429, "while it waits the right one is not looked at either"
