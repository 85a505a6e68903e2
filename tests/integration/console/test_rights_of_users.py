"""Users of the settings file, over a live cluster: what each is shown, and what stays closed to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

pytest.importorskip("starlette")

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.security.passwords import password_text
from tests.kit.console_client import ConsoleClient, Page
from tests.kit.console_process import ConsoleProcess
from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import eventually

PASSWORD = "correct horse battery"
USERS = {
    "nobody": [],
    "cashier": ["operator on live, topics payments-*"],
    "clerk": ["viewer on live, topics payments-*, values"],
    "watcher": ["operator on live"],
    "root": ["admin on *, values"],
}
TOPICS = ("payments-card", "salaries")


class Live:
    def __init__(self, console: ConsoleProcess, bootstrap: str) -> None:
        self.console = console
        self.bootstrap = bootstrap
        self._clients: dict[str, ConsoleClient] = {}

    def client(self, name: str) -> ConsoleClient:
        if name not in self._clients:
            client = ConsoleClient(self.console.address)
            assert client.login(name, PASSWORD).status == 200
            self._clients[name] = client
        return self._clients[name]

    def get(self, name: str, path: str) -> Page:
        return self.client(name).get(path)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    directory = tmp_path_factory.mktemp("rights")
    password = password_text(PASSWORD)
    users = "".join(
        f'[[user]]\nname = "{name}"\npassword = "{password}"\nrights = {json.dumps(rights)}\n'
        for name, rights in USERS.items()
    )
    with KavkaProcess(directory / "broker") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for made in admin.create_topics([NewTopic(topic, 1, 1) for topic in TOPICS]).values():
            made.result(30)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for topic in TOPICS:
            producer.produce(topic, key="k", value=json.dumps({"secret": f"of {topic}"}))
        assert producer.flush(30) == 0
        clusters = f'[[cluster]]\nname = "live"\nbootstrap = "{broker.bootstrap}"\n'
        settings = f"login = true\npoll_ms = 300\n{users}{clusters}"
        with ConsoleProcess(settings, directory / "console") as console:
            found = Live(console, broker.bootstrap)
            for topic in TOPICS:
                eventually("the topics are read", lambda: topic in found.get("root", "/c/live/topics").html)  # noqa: B023
            yield found
            assert not console.failures, console.failures


def test_a_user_without_rights_is_told_of_no_cluster(live: Live) -> None:
    wall = live.get("nobody", "/")
    assert "You have no right on any cluster." in wall.text
    assert "live" not in wall.text
    made_up, there = live.get("nobody", "/c/there-is-none/topics"), live.get("nobody", "/c/live/topics")
    assert (made_up.status, there.status) == (404, 404)
    assert "/c/live/" not in there.html.replace("/c/live/topics", ""), "not even a link to it"


def test_of_topics_only_those_that_a_pattern_names_are_shown(live: Live) -> None:
    for name in ("cashier", "clerk"):
        overview = live.get(name, "/c/live/")
        assert overview.path == "/c/live/topics"
        assert "payments-card" in overview.text
        assert "salaries" not in overview.html
        assert "salaries" not in live.get(name, "/").html
        assert live.get(name, "/c/live/topics/payments-card").status == 200
        assert live.get(name, "/c/live/topics/salaries").status == 403
        assert "/c/live/brokers" not in overview.html, "no link to what is closed"
    assert "salaries" in live.get("watcher", "/c/live/topics").text


def test_messages_are_for_those_who_may_read_values(live: Live) -> None:
    path = "/c/live/topics/payments-card/messages"
    assert "of payments-card" in live.get("clerk", path).text
    for name in ("cashier", "watcher"):
        assert path not in live.get(name, "/c/live/topics/payments-card").html
        for rest in ("", "?value=secret", "/0/0", "/0/0/value", "/0/0/key", "/tail"):
            page = live.get(name, path + rest)
            assert page.status == 403
            assert "of payments-card" not in page.html
    assert live.get("clerk", "/c/live/topics/salaries/messages").status == 403


def test_a_form_names_only_topics_of_ones_own(live: Live) -> None:
    client = live.client("cashier")
    for form, fields in (
        ("alter-config", {"settings": "retention.ms=1"}),
        ("add-partitions", {"count": "5"}),
        ("produce", {"value": "x"}),
        ("create-topic", {"partitions": "1"}),
    ):
        own = client.get(f"/c/live/do/{form}?topic=payments-card")
        assert own.status == 200, form
        for topic in ("salaries", " salaries", "payments-card\nsalaries", ""):
            query = urlencode({"topic": topic})
            said = client.submit(own, f"/c/live/do/{form}", **fields, topic=topic)
            assert said.status in (400, 403, 409), (form, topic)
            if topic.strip() == "salaries":
                assert said.status == 403
                assert client.get(f"/c/live/do/{form}?{query}").status == 403, (form, topic)
    assert client.get("/c/live/do/alter-config?broker=all").status == 403, "settings of brokers are of all topics"
    for asked in ("set-config?broker=", "set-config?topic=&broker=1", "set-config"):
        assert client.get(f"/c/live/do/{asked}").status == 403, asked
    assert client.get("/c/live/do/delete-topic?topic=payments-card").status == 403


def test_a_form_that_asks_which_topic_offers_ones_own_only_and_sends_nothing_by_itself(live: Live) -> None:
    for form in ("set-config?topic=", "add-partitions"):
        page = live.get("cashier", f"/c/live/do/{form}")
        assert '<option value="payments-card">' in page.html, form
        assert "salaries" not in page.html, form
        assert "data-shown-at-once" not in page.html, "half a name is another topic's, and would be refused and noted"
    done = live.client("cashier").preview(
        "live", "set-config", {"topic": ""}, topic="payments-card", setting="segment.ms", value="3600000"
    )
    assert "3600000" in done.text
    hidden = live.client("cashier").preview(
        "live", "set-config", {"topic": ""}, topic="salaries", setting="segment.ms", value="3600000"
    )
    assert hidden.status == 403


def test_a_produced_record_is_in_the_log_without_what_is_in_it(live: Live) -> None:
    client = live.client("cashier")
    done = client.do("live", "produce", {"topic": "payments-card"}, value="pin 1234")
    assert "Done." in done.text
    assert "value of 8 bytes" in done.text
    assert "pin 1234" not in done.html
    path = done.path
    assert live.get("clerk", path).status == 404, "another's, and the clerk does not see all of the cluster"
    for name, is_shown in (("watcher", False), ("root", True)):
        for page in (live.get(name, path), live.get(name, "/audit" + path.removeprefix("/c/live/done"))):
            assert page.status == 200
            assert "pin 1234" not in page.html, name
            assert ("value of 8 bytes" in page.html) is is_shown, name
    assert live.get("cashier", "/audit").status == 200
    assert "payments-card" not in live.get("cashier", "/audit").text, "the log is of whole clusters"


def test_metrics_are_of_the_clusters_that_somebody_sees_whole(live: Live) -> None:
    def families(name: str) -> str:
        return live.get(name, "/metrics").body.decode()

    eventually("all is read", lambda: 'topic="salaries"' in families("watcher"))
    for name in ("nobody", "cashier", "clerk"):
        assert 'cluster="live"' not in families(name)
