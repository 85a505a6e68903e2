"""Messages by an expression, by a whole key in the partitions where clients put it, and saved as files."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

pytest.importorskip("starlette")
pytest.importorskip("cel")

from confluent_kafka import Producer

from kavka.client.partitioner import partition_for_key
from tests.integration.console.test_actions import Live, brokers
from tests.kit.browser import chromium, page_of
from tests.kit.console_client import Page
from tests.kit.console_process import ConsoleProcess
from tests.kit.process_cluster import eventually
from tests.kit.schema_registry_server import RegistryServer

TOPIC, PARTITIONS = "orders", 6
PLACE = f"/c/live/topics/{TOPIC}/messages"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    directory = tmp_path_factory.mktemp("filters")
    with brokers("kavka", directory) as bootstrap, RegistryServer() as registry:
        settings = f'poll_ms = 500\n[[cluster]]\nname = "live"\nbootstrap = "{bootstrap}"\n'
        with ConsoleProcess(settings, directory) as console:
            found = Live(bootstrap, console, registry)
            found.topic(TOPIC, PARTITIONS)
            fill(bootstrap)
            eventually("the console knows the topic", lambda: found.client().get(PLACE).status == 200)
            yield found
            assert not console.failures, console.failures


def fill(bootstrap: str) -> None:
    """Thirty orders by librdkafka's partitioner, thirty by Java's, and one that is no JSON."""
    for partitioner, first in (("consistent_random", 0), ("murmur2_random", 30)):
        producer = Producer({"bootstrap.servers": bootstrap, "partitioner": partitioner})
        for number in range(first, first + 30):
            value = json.dumps({"total": number * 10, "customer": {"id": number % 7}, "items": [{"sku": f"A{number}"}]})
            producer.produce(TOPIC, key=f"k{number % 30}", value=value)
        producer.produce(TOPIC, key="odd", value=b"\xff\x00", partition=0)
        assert producer.flush(30) == 0


def ask(live: Live, **query: str) -> Page:
    return live.client().get(f"{PLACE}?{urlencode({'start': 'oldest', 'n': '200', **query})}")


def shown(page: Page) -> int:
    """How many records the page shows: each links to its own."""
    return len(re.findall(rf'<a href="{PLACE}/\d', page.html))


def test_an_expression_finds_what_it_says_and_tells_what_it_failed_for(live: Live) -> None:
    page = ask(
        live, expression='value.total >= 500 && value.customer.id in [1, 2] && value.items.exists(x, x.sku != "A1")'
    )
    wanted = [number for number in range(60) if number * 10 >= 500 and number % 7 in (1, 2)]
    assert shown(page) == len(wanted)
    assert "The expression failed for 2 records" in page.text, "those that are no JSON"
    assert "value.customer.id" in page.html, "names of fields are offered"
    wrong = ask(live, expression="value.total >")
    assert wrong.status == 400
    assert "parse" in wrong.text
    assert ask(live, expression="total > 1").status == 400
    assert live.client().get(f"{PLACE}/tail?start=tail&expression=%28").status == 400


def test_a_key_is_looked_for_where_either_partitioner_puts_it(live: Live) -> None:
    page = ask(live, key_is="k7")
    assert shown(page) == 2, "one by librdkafka's, one by Java's partitioner"
    assert str(partition_for_key(b"k7", PARTITIONS)) in page.text.split("The key was looked for in partition")[1][:40]
    assert shown(ask(live, key_is="k7", anywhere="1")) == 2
    assert "The key was looked for" not in ask(live, key_is="k7", anywhere="1").text
    assert shown(ask(live, key_is="k")) == 0, "the whole key, not a part of it"


def test_what_is_found_is_saved(live: Live) -> None:
    client = live.client()
    query = urlencode({"start": "oldest", "expression": "has(value.total) && value.total < 300"})
    page = client.get(f"{PLACE}/export?{query}&format=jsonl")
    assert page.status == 200
    assert page.headers["content-disposition"].startswith('attachment; filename="orders.jsonl"')
    assert sorted(json.loads(line)["value"]["total"] for line in page.html.splitlines()) == [n * 10 for n in range(30)]
    told = list(csv.DictReader(io.StringIO(client.get(f"{PLACE}/export?{query}&format=csv").body.decode(), newline="")))
    assert {each["key"] for each in told} == {f"k{number}" for number in range(30)}
    pq = pytest.importorskip("pyarrow.parquet")
    table = pq.read_table(io.BytesIO(client.get(f"{PLACE}/export?{query}&format=parquet").body))
    assert table.num_rows == 30
    assert client.get(f"{PLACE}/export?{query}&format=xls").status == 404
    assert client.get(f"{PLACE}/export?format=csv&expression=%28").status == 400
    link = f"{PLACE}/export?start=oldest&amp;key=k7&amp;format=csv"
    assert link in live.client().get(f"{PLACE}?start=oldest&key=k7").html


def test_names_of_fields_are_put_into_the_expression(live: Live) -> None:
    ask(live)
    with chromium() as browser, page_of(browser) as page:
        page.goto(f"{live.console.address}{PLACE}")
        page.click("#narrow > summary")
        page.fill("[name=expression]", "")
        page.type("[name=expression]", "size > 1 && value.cust")
        page.click("#names button:has-text('value.customer.id')")
        assert page.input_value("[name=expression]") == "size > 1 && value.customer.id"
        page.type("[name=expression]", " == 3")
        page.click("button.primary")
        page.wait_for_load_state()
        assert page.input_value("[name=expression]") == "size > 1 && value.customer.id == 3"
        assert page.locator("#records tr").count() > 0
