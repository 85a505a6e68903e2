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
from tests.kit.browser import chromium, look, page_of
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


def test_a_file_is_told_of_as_it_comes_and_what_is_cut_off_or_cancelled_is_no_file(live: Live) -> None:
    with chromium() as browser, page_of(browser) as page:
        page.goto(f"{live.console.address}{PLACE}?start=oldest&key=k7")
        with page.expect_download() as saved:
            page.click("#exports a:has-text('JSON lines')")

        def see(text: str) -> None:
            page.locator("#export [role=status]", has_text=text).wait_for()

        see("Saved orders")
        assert saved.value.suggested_filename == "orders.jsonl"
        rows = [json.loads(line) for line in saved.value.path().read_text(encoding="utf-8").splitlines()]
        assert sorted(row["value"]["total"] for row in rows) == [70, 370]
        assert re.match(r"Saved orders\.jsonl: 2 records, \d+ B\.", page.inner_text("#export [role=status]"))
        assert not page.is_visible("#export button"), "nothing is left to cancel"
        look(page)

        def told(*pieces: bytes) -> None:
            page.unroute("**/export*")
            page.route("**/export*", lambda route: route.fulfill(status=200, body=b"".join(pieces)))
            page.click("#exports a:has-text('CSV')")

        progress = b'{"records": 9000, "found": 12, "bytes": 2097152}\n'
        told(progress, b'{"part": 100}\n', b"a,b,c")
        see("No file was saved: the connection broke off.")
        told(progress, b'{"problem": "broker 2 is gone"}\n')
        see("No file was saved: broker 2 is gone")
        with page.expect_download() as saved:
            told(progress, b'{"part": 3}\na,b', b'{"end": 3, "name": "orders.part.csv", "records": 1, "rest": "0:9"}\n')
        assert saved.value.path().read_bytes() == b"a,b"
        see("the file has only a part.")
        assert "resume=0%3A9" in str(page.get_attribute("#export a", "href"))
        page.unroute("**/export*")
        page.route("**/export*", lambda route: None)
        page.click("#exports a:has-text('CSV')")
        page.click("#export button")
        see("Cancelled: no file was saved.")


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


def test_columns_are_chosen_and_a_field_has_one_of_its_own(live: Live) -> None:
    page = live.client().get(
        f"{PLACE}?start=oldest&n=10&col=time&col=key&fields=value.customer.id+headers.none&key=k7&expression=has(value.total)"
    )
    headings = re.findall(r'<th scope="col" class="c-(\w+)', page.html)
    assert headings == ["time", "offset", "key", "field", "field"]
    assert "value.customer.id" in page.text
    assert re.findall(r'data-name="value.customer.id"><code>(\d)</code>', page.html) == ["0", "2"], "7 % 7 and 37 % 7"
    assert "col=time&amp;col=key" in page.html, "links of the page keep them"
    assert live.client().get(f"{PLACE}?col=colour").status == 400
    assert "names no field" in live.client().get(f"{PLACE}?fields=total").text


def test_a_search_is_saved_under_a_name_and_removed(live: Live) -> None:
    client = live.client()
    page = client.get(f"{PLACE}?start=oldest&key=k7&col=key&resume=0:3&no=thing")
    saved = client.submit(page, "/messages/saved", name="sevens", shared="1")
    assert saved.status == 200
    link = f'href="{PLACE}?start=oldest&amp;key=k7&amp;col=key"'
    assert link in saved.html, "without the place it went on at, and without what is no search's"
    assert "shared by you" in saved.text
    assert client.submit(page, "/messages/saved", name=" ").status == 400
    assert client.submit(page, "/messages/saved", name="x", csrf="another").status == 403
    gone = client.submit(saved, "/remove")
    assert "sevens" not in gone.text


def test_the_link_to_these_records_shows_them_after_others_were_written(live: Live) -> None:
    for start in ("newest", "oldest"):
        page = live.client().get(f"{PLACE}?start={start}&n=7&until=2099-01-01T12:00&zone=Asia/Shanghai")
        link = re.search(r'<a href="([^"]+)" id="pinned"', page.html)
        assert link is not None
        producer = Producer({"bootstrap.servers": live.bootstrap})
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, key="late", value="late", partition=partition)
        assert producer.flush(30) == 0
        offsets = rf'<a href="({PLACE}/\d+/\d+)"'
        again = live.client().get(link[1].replace("&amp;", "&"))
        assert re.findall(offsets, again.html) == re.findall(offsets, page.html)
        assert "until=2099-01-01T04%3A00%3A00.000Z" in link[1], "an instant, whatever the reader's zone"


def test_chosen_records_are_copied_whole_after_a_preview(live: Live) -> None:
    live.topic("orders-again", 2)
    client = live.client()
    producer = Producer({"bootstrap.servers": live.bootstrap})
    producer.produce(
        TOPIC, key=b"\x00k", value=b"\xffraw", headers=[("trace", b"t1")], partition=3, timestamp=1_700_000_000_000
    )
    assert producer.flush(30) == 0
    (offset,) = re.findall(rf'<a href="{PLACE}/3/(\d+)"', client.get(f"{PLACE}?partition=3&n=1").html)
    form = client.get(f"/c/live/do/replay?source={TOPIC}&record=3:{offset}&record=0:0")
    assert f"2 records of {TOPIC}" in form.text
    preview = client.submit(form, "/do/replay", topic="orders-again", mark="1")
    assert "2 records of orders are written to orders-again" in preview.text
    assert f"orders-3 @ {offset}" in preview.text
    assert f"kavka consume orders -b {live.bootstrap} -p 3 -o {offset} -c 1 --json" in preview.text
    done = client.submit(preview, "/do/replay", step="run")
    assert "committed" in done.text, done.text
    rows = client.get("/c/live/topics/orders-again/messages/export?start=oldest&format=jsonl").html.splitlines()
    (copied,) = [row for row in map(json.loads, rows) if ["trace", "t1"] in row["headers"]]
    assert copied["value"] == {"base64": "/3Jhdw=="}
    assert copied["timestamp"] == "2023-11-14T22:13:20.000+00:00", "as it was"
    assert ["kavka.copied.from", f"orders-3@{offset}"] in copied["headers"]
    assert len(rows) == 2
    again = client.submit(preview, "/do/replay", step="run")
    assert "committed" in again.text
    assert (
        len(client.get("/c/live/topics/orders-again/messages/export?start=oldest&format=jsonl").html.splitlines()) == 2
    )
    for fields, why in (
        ({"topic": "nowhere"}, "there is no topic nowhere"),
        ({"topic": "orders-again", "records": "0:999999"}, "there is no record orders-0 @ 999999"),
        (
            {"topic": "orders-again", "records": "5:0", "partition_by": "the same number"},
            "a record is from partition 5, which orders-again does not have",
        ),
        ({"topic": "orders-again", "records": "x"}, "not the place of a record"),
    ):
        refused = client.submit(form, "/do/replay", **fields)
        assert refused.status == 400
        assert why in refused.text
    assert "get them a second time" in client.submit(form, "/do/replay", topic=TOPIC).text


def test_columns_a_saved_search_and_a_copy_in_a_browser(live: Live) -> None:
    live.topic("orders-copied", 1)
    with chromium() as browser, page_of(browser) as page:
        page.goto(f"{live.console.address}{PLACE}?start=oldest&n=5&expression=has(value.total)")
        page.click("#columns > summary")
        for name in ("headers", "format", "size"):
            page.uncheck(f"#columns [value={name}]")
        page.fill("[name=fields]", "value.total")
        page.click("button.primary")
        page.wait_for_load_state()
        assert page.locator(".records thead th").count() == 7, "a box, five columns, a field"
        look(page)
        page.click("#saved > summary")
        page.fill("#saved [name=name]", "totals")
        page.click("#saved button:has-text('Save it')")
        page.click("#saved > summary")
        page.click("#saved a:has-text('totals')")
        page.wait_for_load_state()
        assert page.input_value("[name=fields]") == "value.total"
        page.get_by_role("checkbox", name="Choose all").check()
        page.click("button:has-text('Copy chosen records')")
        page.fill("main [name=topic]", "orders-copied")
        look(page)
        page.click("button:has-text('Show what it would do')")
        page.get_by_text("5 records of orders are written to orders-copied").wait_for()
        look(page)
        page.click("button:has-text('Write them')")
        page.get_by_text("committed").first.wait_for()
