"""Long lists in pages, links that keep a table's state, znodes as text, and where a preference may lead."""

from __future__ import annotations

import time
from types import SimpleNamespace
from urllib.parse import unquote
from uuid import UUID

import pytest

pytest.importorskip("starlette")
pytest.importorskip("jinja2")

from markupsafe import Markup
from starlette.requests import Request

from kavka.client.cluster import Broker, PartitionMetadata, TopicMetadata
from kavka.console.access.csrf import safe_path
from kavka.console.look.format import path_part
from kavka.console.look.history_charts import window_of
from kavka.console.look.templating import base_context, environment
from kavka.console.look.view import cut, links, number, ordered
from kavka.console.pages.durability import ORDER, worst_topics_first
from kavka.console.pages.preferences import own_path
from kavka.console.pages.topics import Missing, missing_of
from kavka.console.sources.znodes import MAX_DATA, meaning, readable
from kavka.decisions import DECISIONS_TOPIC
from kavka.model import TopicPartition
from kavka.observe.readings import Described
from kavka.observe.snapshot import ClusterSnapshot, GroupOffset, GroupView, Reading
from kavka.observe.snapshot_assembly import SnapshotAssembly


def request(query: str) -> Request:
    scope = {
        "type": "http",
        "path": "/c/prod/topics",
        "query_string": query.encode(),
        "headers": [],
        "server": ("x", 80),
    }
    return Request(scope)


@pytest.mark.parametrize(
    ("query", "page", "first", "last"),
    [("", 1, 1, 100), ("page=3", 3, 201, 250), ("page=99", 3, 201, 250), ("page=-1", 1, 1, 100), ("page=x", 1, 1, 100)],
)
def test_a_page_of_a_long_list(query: str, page: int, first: int, last: int) -> None:
    found = cut(list(range(250)), request(query))
    assert (found.page, found.pages, found.first, found.last, found.total) == (page, 3, first, last, 250)
    assert list(found.items) == list(range(first - 1, last))


def test_an_empty_list_has_one_page() -> None:
    found = cut([], request("page=2"))
    assert (found.page, found.pages, found.first, found.last) == (1, 1, 0, 0)


def test_a_link_keeps_the_rest_of_the_query() -> None:
    link = links(request("q=a%26b&sort=size&page=4"))
    assert link(page=5) == "/c/prod/topics?q=a%26b&sort=size&page=5"
    assert link(sort="name", page=1) == "/c/prod/topics?q=a%26b&sort=name"
    assert link(q=None, sort=None, page=1) == "/c/prod/topics"


@pytest.mark.parametrize("group", ["a/b", "x?q=1", "a#b", "a/../b", "50%25", "%2e%2e", '"><img src=x>', "grüße"])
def test_a_link_leads_to_where_it_stands_whatever_name_is_in_the_address(group: str) -> None:
    """Of an address that was decoded only the part before a ? or # was left."""
    address = f"/c/prod/groups/{path_part(group)}"
    asked = Request({**request("sort=lag").scope, "path": unquote(address), "raw_path": address.encode()})
    assert links(asked)(order="down") == f"{address}?sort=lag&order=down"
    assert base_context(asked)["here"] == f"{address}?sort=lag"
    assert own_path(f"{address}?sort=lag") == safe_path(f"{address}?sort=lag") == f"{address}?sort=lag"


def test_a_link_keeps_what_is_said_several_times_whatever_that_costs() -> None:
    assert links(request("col=a&col=&col=b"))(page=2) == "/c/prod/topics?col=a&col=b&page=2"
    began = time.process_time()
    links(request("&".join(["a=1"] * 15_000)))
    assert time.process_time() - began < 3, "an address of 64 KB held up everybody for half a minute"


def test_what_is_not_known_comes_last_whichever_way_it_is_sorted() -> None:
    for query, wanted in (("sort=n", [1, 3, None]), ("sort=n&order=down", [3, 1, None])):
        assert ordered([3, None, 1], request(query), {"n": lambda each: each}, "n")[0] == wanted


def test_an_unknown_column_is_the_default_one() -> None:
    assert ordered([2, 1], request("sort=__class__"), {"n": lambda each: each}, "n") == ([1, 2], "n", "up")


def test_what_stands_in_order_is_not_sorted_again_but_by_another_column_or_backwards() -> None:
    columns = {"n": lambda each: each, "m": lambda each: -each}
    assert ordered([1, 2], request(""), columns, "n", is_in_order=True)[0] == [1, 2]
    assert ordered([1, 2], request("order=down"), columns, "n", is_in_order=True)[0] == [2, 1]
    assert ordered([1, 2], request("sort=m"), columns, "n", is_in_order=True)[0] == [2, 1]


@pytest.mark.parametrize("text", ["", "x", "-1", "1" * 30, "1.5", "٣٤x"])
def test_a_number_that_is_none_is_the_default(text: str) -> None:
    assert number(request(f"minutes={text}"), "minutes", 7) == 7


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/c/prod/", "/c/prod/"),
        ("/c/prod/topics?q=a#b", "/c/prod/topics?q=a#b"),
        ("//example.org", "/"),
        ("/\\example.org", "/"),
        ("https://example.org", "/"),
        ("/a\r\nSet-Cookie: x=y", "/"),
        ("", "/"),
    ],
)
def test_a_preference_leads_to_a_path_of_this_site(text: str, path: str) -> None:
    assert own_path(text) == path


def test_data_of_a_znode_is_shown_as_what_it_is() -> None:
    assert readable(b'{"leader":1,"isr":[1,2]}') == ('{\n  "leader": 1,\n  "isr": [\n    1,\n    2\n  ]\n}', False)
    assert readable(b"plain") == ("plain", False)
    assert readable(b"\xff\x00") == ("ff 00", True)
    assert readable(b"") == ("", False)
    assert len(readable(b"x" * (2 * MAX_DATA))[0]) == MAX_DATA


def test_known_znodes_say_what_they_are_for() -> None:
    assert "ISR" in meaning("/brokers/topics/orders/partitions/0/state")
    assert meaning("/controller")
    assert meaning("/somebody/elses") == ""


def test_the_lag_of_one_topic_of_a_group() -> None:
    offsets = (
        GroupOffset(TopicPartition("orders", 0), 40, 100),
        GroupOffset(TopicPartition("orders", 1), 40, 45),
        GroupOffset(TopicPartition("clicks", 0), 7, None),
    )
    group = GroupView("billing", "classic", "Stable", "consumer", "range", 1, offsets=offsets)
    assert group.lag_of("orders") == 65
    assert group.lag_of("clicks") is None
    assert group.lag_of("elsewhere") == 0


def test_a_command_names_the_cluster_and_quotes_what_the_cluster_named() -> None:
    watch = SimpleNamespace(settings=SimpleNamespace(bootstrap="far:9092,away:9092"))
    parts = environment().get_template("_parts.html").make_module({**base_context(request("")), "cluster": watch})
    said = str(parts.kavka("kavka topics list", "kavka top"))  # type: ignore[attr-defined]
    assert "<code>kavka topics list -b far:9092,away:9092; kavka top -b far:9092,away:9092</code>" in said
    known = environment().from_string("{{ name|shell_word }}").render(name="x; rm -rf $HOME")
    assert Markup(known).unescape() == "'x; rm -rf $HOME'"


def test_brokers_whose_replicas_are_out_of_sync_are_dead_or_alive() -> None:
    assembly = SnapshotAssembly()
    partitions = (PartitionMetadata(0, 1, 0, (1, 2, 3), (1,), ()),)
    topics = {
        name: TopicMetadata(name, UUID(int=number), False, partitions)
        for number, name in enumerate(("orders", DECISIONS_TOPIC))
    }
    brokers = {number: Broker(number, "host", 9092) for number in (1, 3)}
    assembly.take_metadata(Described("c", 1, brokers, topics), 1_000)
    views, broker_views, _ = assembly.views()
    snapshot = ClusterSnapshot("c", "b", brokers=broker_views, topics=views)
    assert missing_of(views["orders"], snapshot) == Missing([2], [3])
    assert [views[name].is_internal for name in topics] == [False, True]


def test_a_lag_that_counts_partitions_without_a_commit_is_said_to_be_the_most_it_can_be() -> None:
    parts = environment().get_template("_parts.html").make_module(base_context(request("")))
    assert str(parts.lag(65)) == "65"  # type: ignore[attr-defined]
    said = str(parts.lag(65, 2))  # type: ignore[attr-defined]
    assert "at most 65" in said
    assert "Nothing is committed for 2 partitions" in said


def test_a_size_that_could_not_be_read_since_says_when_it_was_read() -> None:
    context = base_context(request(""))
    now_ms = context["now_ms"]
    assert isinstance(now_ms, int)
    parts = environment().get_template("_parts.html").make_module(context)
    assert str(parts.size_read(2_048, Reading(now_ms, 0, ""))) == "2.0 KiB"  # type: ignore[attr-defined]
    old = str(parts.size_read(2_048, Reading(now_ms - 300_000, 0, "the broker does not answer")))  # type: ignore[attr-defined]
    assert old.startswith('2.0 KiB <small class="soft" title="the broker does not answer">read <time')
    assert "5 min ago" in old
    assert "unknown" in str(parts.size_read(None, Reading()))  # type: ignore[attr-defined]


def test_a_link_to_a_time_shows_the_same_to_everybody_and_later() -> None:
    fixed = window_of(request("span=1h&until=1700000000000"))
    assert (fixed.since_ms, fixed.until_ms, fixed.is_fixed) == (1_700_000_000_000 - 3_600_000, 1_700_000_000_000, True)


@pytest.mark.parametrize("until", ["", "soon", "-5", "9" * 15, "1" * 400])
def test_what_is_no_time_that_was_is_now(until: str) -> None:
    window = window_of(request(f"until={until}"))
    assert not window.is_fixed
    assert window.until_ms - window.since_ms == 900_000


def test_durability_names_ones_own_topics_first_and_the_worst_of_them_first() -> None:
    worst, *_, fine = ORDER
    judged = [
        (SimpleNamespace(topic=topic, partition=partition), health)
        for topic, partition, health in (
            ("__offsets", 0, worst),
            ("a", 0, fine),
            ("b", 0, fine),
            ("b", 1, worst),
            ("a", 1, fine),
        )
    ]
    found = worst_topics_first(judged, {"__offsets"})  # type: ignore[arg-type]  # it looks at names alone
    assert [(each.topic, each.partition) for each, _ in found] == [
        ("b", 1),
        ("b", 0),
        ("a", 0),
        ("a", 1),
        ("__offsets", 0),
    ]


@pytest.mark.parametrize(
    ("topics", "said"),
    [
        ((DECISIONS_TOPIC, "orders"), "Its decisions are not known yet. did not answer in time"),
        (("orders",), "This cluster does not publish its decisions."),
    ],
)
def test_decisions_that_could_not_be_read_are_not_said_to_be_none(topics: tuple[str, ...], said: str) -> None:
    page = '{% import "_stories.html" as told with context %}{{ told.timeline(none) }}'
    snapshot = SimpleNamespace(brokers={1: None}, topics=dict.fromkeys(topics))
    decisions = SimpleNamespace(reading=Reading(0, 0, "did not answer in time"))
    known = {"snapshot": snapshot, "cluster": SimpleNamespace(name="prod", decisions=decisions)}
    shown = environment().from_string(page).render({**base_context(request("")), **known})
    assert said in " ".join(Markup(shown).striptags().split())
