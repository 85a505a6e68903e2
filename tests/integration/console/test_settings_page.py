"""Settings in the console, over kavka and Apache Kafka: all of them with their meaning, one changed, two compared."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest

pytest.importorskip("starlette")

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from tests.integration.console.test_actions import KINDS, Live, brokers
from tests.kit.console_client import ConsoleClient, Page
from tests.kit.console_process import ConsoleProcess
from tests.kit.process_cluster import eventually
from tests.kit.schema_registry_server import RegistryServer

TOPIC, OTHER = "orders", "audit"
PLACE = f"/c/live/topics/{TOPIC}/settings"


@pytest.fixture(scope="module", params=KINDS)
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    directory = tmp_path_factory.mktemp("settings")
    with brokers(request.param, directory) as bootstrap, RegistryServer() as registry:
        settings = f'poll_ms = 500\n[[cluster]]\nname = "live"\nbootstrap = "{bootstrap}"\n'
        with ConsoleProcess(settings, directory) as console:
            found = Live(bootstrap, console, registry)
            found.topic(TOPIC, **{"retention.ms": "7200000", "cleanup.policy": "compact,delete"})
            found.topic(OTHER)
            for place in (PLACE, PLACE.replace(TOPIC, OTHER)):
                eventually("the console knows the topics", lambda: found.client().get(place).status == 200)  # noqa: B023
            yield found
            assert not console.failures, console.failures


def test_each_setting_has_value_default_source_and_meaning(live: Live) -> None:
    page = live.client().get(f"{PLACE}?q=retention.ms")
    row = page.text[page.text.index("retention.ms") :]
    assert "7200000 2 h" in row, "the number, and in units"
    assert "604800000" in row, "the default"
    assert "this topic" in row
    assert "long" in row
    assert len(live.client().get(f"{PLACE}?only=set").text) < len(live.client().get(PLACE).text)


def test_what_counts_at_the_start_only_is_said_and_offers_no_change(live: Live) -> None:
    client = live.client()
    broker = min(live.admin.list_topics(timeout=10).brokers)
    page = client.get(f"/c/live/brokers/{broker}/settings?q=log.dirs&only=start")
    assert "at start only" in page.text
    assert "set-config" not in page.html
    form = client.get(f"/c/live/do/set-config?broker={broker}&setting=log.dirs")
    assert form.status == 400
    assert "counts at start only" in form.text


def test_one_setting_is_shown_changed_and_taken_away(live: Live) -> None:
    client, subject = live.client(), {"topic": TOPIC, "setting": "segment.ms"}
    form = client.get(f"/c/live/do/set-config?topic={TOPIC}&setting=segment.ms")
    assert "milliseconds" in form.text
    assert "reset" not in form.form("/do/set-config").fields, "there is nothing of its own yet"
    refused = client.preview("live", "set-config", subject, value="soon")
    assert refused.status == 400
    assert "segment.ms" in refused.text
    assert "Done." in client.do("live", "set-config", subject, value="3600000").text
    assert live.config(TOPIC, "segment.ms") == "3600000"
    assert live.config(TOPIC, "retention.ms") == "7200000", "nothing else changes"
    assert "nothing changes" in client.preview("live", "set-config", subject, value="3600000").text
    preview = client.preview("live", "set-config", subject, reset="1")
    assert "kavka configs unset" in preview.text
    assert "Done." in client.confirm(preview, "set-config").text
    assert live.config(TOPIC, "segment.ms") == "604800000"


def test_two_topics_are_compared(live: Live) -> None:
    page = live.client().get(f"{PLACE}?with={OTHER}")
    assert "retention.ms 7200000 this topic 604800000 default differs" in page.text
    assert "segment.jitter.ms" not in page.text
    assert "segment.jitter.ms" in live.client().get(f"{PLACE}?with={OTHER}&all=1").text
    assert live.client().get(f"{PLACE}?with=none-such").status == 404


def test_two_brokers_are_compared(live: Live) -> None:
    first, second = sorted(live.admin.list_topics(timeout=10).brokers)[:2]
    page = live.client().get(f"/c/live/brokers/{first}/settings?with={second}")
    assert f"{first} the broker's file {second} the broker's file differs" in page.text
    assert live.client().get(f"/c/live/brokers/{first}/settings?with=77").status == 404


def test_a_topic_is_made_as_a_file_says(live: Live) -> None:
    client = live.client()
    live.topic("kept", 1, **{"retention.ms": "7200000", "segment.ms": "5000000"})
    place = "/c/live/topics/kept/settings"
    page = eventually("the console knows it", lambda: _found(client, place))
    file = "# the team's\nretention.ms: 3600000\ncleanup.policy=compact, delete\n"
    compared = client.submit(page, place, text=file)
    assert "retention.ms 7200000 this topic 3600000 differs" in compared.text
    assert "segment.ms 5000000 this topic nothing only in the topic" in compared.text
    preview = client.submit(compared, "/do/alter-config")
    assert live.config("kept", "retention.ms") == "7200000", "a preview does nothing"
    assert "Done." in client.confirm(preview, "alter-config").text
    # Each broker hears of a change from ZooKeeper: the one that is asked may do so after the one that made it.
    eventually("a broker has read it", lambda: live.config("kept", "retention.ms") == "3600000")
    eventually("with what it took back", lambda: live.config("kept", "segment.ms") == "604800000")

    def compare() -> str:
        return client.submit(client.get(place), place, text=file).text

    eventually("the console sees it", lambda: "The topic is as the file says" in compare())
    wrong = client.submit(client.get(place), place, text="retention.minutes=5")
    assert wrong.status == 400
    assert "no setting retention.minutes" in wrong.text


def test_a_file_is_taken_as_a_browser_sends_it(live: Live) -> None:
    client = live.client()
    token = client.get(PLACE).form(PLACE).fields["csrf"]
    parts = [
        ('name="csrf"', token),
        ('name="chosen"; filename="orders.json"\r\nContent-Type: application/json', '{"config": {"retention.ms": 5}}'),
    ]
    body = (
        "".join(f"--X\r\nContent-Disposition: form-data; {head}\r\n\r\n{text}\r\n" for head, text in parts)
        + "--X--\r\n"
    )
    headers = {"Content-Type": "multipart/form-data; boundary=X"}
    page = client.send(urllib.request.Request(client.address + PLACE, body.encode(), headers))
    assert page.status == 200
    assert "retention.ms 7200000 this topic 5 differs" in page.text


def _found(client: ConsoleClient, place: str) -> Page | None:
    page = client.get(place)
    return page if page.status == 200 else None


def test_a_value_that_others_set_meanwhile_is_shown_again(live: Live) -> None:
    client, subject = live.client(), {"topic": OTHER, "setting": "max.message.bytes"}
    preview = client.preview("live", "set-config", subject, value="2000000")
    resource = ConfigResource(
        ConfigResource.Type.TOPIC,
        OTHER,
        incremental_configs=[ConfigEntry("max.message.bytes", "3000000", incremental_operation=AlterConfigOpType.SET)],
    )
    live.admin.incremental_alter_configs([resource])[resource].result(20)
    late = client.confirm(preview, "set-config")
    assert late.status == 409
    assert live.config(OTHER, "max.message.bytes") == "3000000"
