"""Columns of a list of messages, searches with a name, and copies of records: what is allowed, and who sees what."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest

pytest.importorskip("starlette")

from starlette.requests import Request
from starlette.responses import Response

from kavka.client.consumer import ConsumerRecord
from kavka.console.actions import replay as replay_action
from kavka.console.actions.action import ActionRefused
from kavka.console.actions.replay import BY_KEY, MOST_REPLAYED, SAME, Masks, Replay, places_of
from kavka.console.masks import TopicMask
from kavka.console.messages.columns import BUILT_IN, MOST_FIELDS, Columns, WrongColumn, cells, columns_of
from kavka.console.messages.decoding import decode
from kavka.console.messages.masking import HIDDEN, Seen
from kavka.console.messages.saved import MOST_OF_ONE, MOST_OF_USER, Saved, SavedSearches, TooMany
from kavka.console.messages.search import Chosen, Query
from kavka.console.pages import replay as replay_pages
from kavka.console.pages.messages import query_of
from kavka.console.pages.saved_searches import query_to_keep
from kavka.errors import ErrorCode, RequestError
from kavka.records.batch import TimestampType


def record(key: bytes | None = None, value: bytes | None = b"v") -> ConsumerRecord:
    return ConsumerRecord("a", 0, 1, 0, key, value, (), TimestampType.CREATE_TIME, 0)


class TestColumns:
    def test_nothing_chosen_is_all_and_the_offset_is_always_there(self) -> None:
        assert columns_of([], "") == Columns()
        assert columns_of(["value", "time"], "").shown == ("time", "offset", "value")
        assert columns_of(BUILT_IN, "").is_default

    @pytest.mark.parametrize(
        ("chosen", "fields", "why"),
        [
            (["colour"], "", "no column 'colour'"),
            ([], "total", "'total' names no field"),
            ([], "value.", "names no field"),
            ([], "value." + "x" * 300, "at most 200 characters"),
            ([], " ".join(f"value.a{number}" for number in range(MOST_FIELDS + 1)), "at most 12 fields"),
        ],
    )
    def test_what_is_no_column_is_refused(self, chosen: list[str], fields: str, why: str) -> None:
        with pytest.raises(WrongColumn, match=why):
            columns_of(chosen, fields)

    def test_a_field_is_one_line_and_what_is_not_there_is_empty(self) -> None:
        value = decode(b'{"a": {"b": [1, {"c": true}]}, "t": "x\\ny\\u202e", "n": null, "long": "' + b"z" * 999 + b'"}')
        found = cells(
            ["value.a.b.1.c", "value.a", "value.t", "value.n", "value.no", "value.long", "key.id", "headers.h"],
            decode(b"7"),
            value,
            [("h", b"one"), ("h", b"two")],
        )
        assert found[:5] == ("true", '{"b": [1, {"c": true}]}', "x y\\u202e", "", "")
        assert len(found[5]) == 200
        assert found[6:] == ("", "one")

    def test_a_field_that_is_large_or_deep_is_begun_and_no_more(self) -> None:
        large = decode(b'{"a": [' + b"1234, " * 200_000 + b'1], "d": ' + b"[" * 900 + b"]" * 900 + b"}")
        began = time.process_time()
        found = cells(["value.a"] * 12 * 20, large, large, [])
        assert time.process_time() - began < 2, "all of it was written for each column"
        assert len(found[0]) == 200
        deep: list[object] = []
        for _ in range(5_000):
            deep = [deep]
        (cell,) = cells(["value.d"], large, large._replace(value={"d": deep}), [])
        assert cell.startswith("[[[")


def search(name: str, user: str, *, is_shared: bool = False, saw_all: bool = True) -> Saved:
    return Saved(0, name, "start=oldest", user, is_shared, saw_all, 1)


class TestSavedSearches:
    @pytest.fixture
    def saved(self) -> SavedSearches:
        ledger = sqlite3.connect(":memory:", isolation_level=None)
        ledger.row_factory = sqlite3.Row
        return SavedSearches(ledger)

    def names(self, saved: SavedSearches, user: str, *, sees_all: bool = True, topic: str = "t") -> list[str]:
        return [each.name for each in saved.seen_by("c", topic, user, sees_all=sees_all)]

    def test_each_sees_their_own_and_what_is_shared(self, saved: SavedSearches) -> None:
        saved.save("c", "t", search("mine", "ada"))
        saved.save("c", "t", search("ours", "ada", is_shared=True))
        assert self.names(saved, "ada") == ["mine", "ours"]
        assert self.names(saved, "eve") == ["ours"]
        assert self.names(saved, "ada", topic="u") == []

    def test_what_somebody_saved_who_sees_all_is_not_shared_with_whom_something_is_masked_for(
        self, saved: SavedSearches
    ) -> None:
        saved.save("c", "t", search("by all", "ada", is_shared=True, saw_all=True))
        saved.save("c", "t", search("by some", "bob", is_shared=True, saw_all=False))
        assert self.names(saved, "eve", sees_all=False) == ["by some"]
        assert self.names(saved, "ada", sees_all=False) == ["by all", "by some"], "one's own"

    def test_a_name_is_used_again_and_there_is_a_bound(self, saved: SavedSearches) -> None:
        for number in range(MOST_OF_ONE):
            saved.save("c", "t", search(f"s{number}", "ada"))
        saved.save("c", "t", search("s1", "ada")._replace(query="start=newest"))
        assert len(self.names(saved, "ada")) == MOST_OF_ONE
        with pytest.raises(TooMany):
            saved.save("c", "t", search("one more", "ada"))
        saved.save("c", "t", search("hers", "eve"))

    def test_topics_that_nobody_has_made_are_no_way_around_the_bound(self, saved: SavedSearches) -> None:
        for number in range(MOST_OF_USER):
            saved.save("c", f"t{number}", search("s", "ada"))
        with pytest.raises(TooMany):
            saved.save("c", "another", search("s", "ada"))
        saved.save("c", "another", search("s", "eve"))

    def test_only_ones_own_or_as_an_administrator_a_shared_one_is_removed(self, saved: SavedSearches) -> None:
        saved.save("c", "t", search("mine", "ada"))
        saved.save("c", "t", search("ours", "ada", is_shared=True))
        mine, ours = (each.number for each in saved.seen_by("c", "t", "ada", sees_all=True))
        assert not saved.remove("c", "t", ours, "eve", is_admin=False)
        assert not saved.remove("c", "t", mine, "eve", is_admin=True)
        assert not saved.remove("c", "other", ours, "ada", is_admin=True)
        assert saved.remove("c", "t", ours, "eve", is_admin=True)
        assert saved.remove("c", "t", mine, "ada", is_admin=False)


class TestCopies:
    def masked(self, theirs: Mapping[str, Sequence[str]]) -> Replay:
        async def read(topic: str, places: Sequence[tuple[int, int]]) -> list[Chosen]:
            raise AssertionError("nothing is read for what is refused")

        def mask(topic: str) -> TopicMask | None:
            return TopicMask(theirs[topic]) if topic in theirs else None

        return Replay(read, Masks(mask, mask))

    @pytest.mark.parametrize(
        ("source", "target", "is_allowed"),
        [
            ("open", "open", True),
            ("open", "cards", True),
            ("cards", "cards", True),
            ("cards", "stricter", True),
            ("cards", "open", False),
            ("cards", "otherwise", False),
            ("stricter", "cards", False),
        ],
    )
    def test_what_is_masked_is_not_copied_to_where_it_could_be_read(
        self, source: str, target: str, is_allowed: bool
    ) -> None:
        action = self.masked({"cards": ["value.pan"], "stricter": ["value.pan", "key"], "otherwise": ["value.name"]})
        if is_allowed:
            action.check_masks(source, target)
            return
        with pytest.raises(ActionRefused, match="you could read it there"):
            action.check_masks(source, target)

    def copier(self, masks: Sequence[str], partitions: Mapping[str, int], record: ConsumerRecord) -> tuple[Replay, Any]:
        """Copies one record, of which who asks sees nothing; and the cluster, whose topics are these."""

        async def read(topic: str, places: Sequence[tuple[int, int]]) -> list[Chosen]:
            return [Chosen(record, Seen(record._replace(key=HIDDEN, value=HIDDEN)))]

        async def topic(name: str) -> object:
            return SimpleNamespace(partitions=range(partitions[name]))

        def mask(topic: str) -> TopicMask:
            return TopicMask(masks)

        watch = SimpleNamespace(cluster=SimpleNamespace(topic=topic), settings=SimpleNamespace(bootstrap="b:1"))
        return Replay(read, Masks(mask, mask)), watch

    def test_a_preview_does_not_tell_how_long_a_masked_value_is(self) -> None:
        """Of one record it did, to the byte, to who asked and to all readers of the audit log."""
        said = []
        for length in (3, 300):
            action, watch = self.copier(["value"], {"a": 1, "b": 7}, record(value=b"x" * length))
            preview = asyncio.run(action.preview(watch, {"source": "a", "topic": "b", "records": "0:1"}))
            said.append((preview.wanted, preview.changes, preview.summary))
        assert said[0] == said[1]

    @pytest.mark.parametrize(
        ("target", "by", "is_allowed"), [("same", BY_KEY, True), ("other", SAME, True), ("other", BY_KEY, False)]
    )
    def test_partitions_tell_nothing_of_a_masked_key(self, target: str, by: str, is_allowed: bool) -> None:
        """Previews into topics of 2, 3, 5 .. partitions told the hash of the key: enough to guess a card's number."""
        action, watch = self.copier(["key"], {"a": 3, "same": 3, "other": 5}, record(key=b"4111"))
        values = {"source": "a", "topic": target, "records": "0:1", "partition_by": by}
        if is_allowed:
            asyncio.run(action.preview(watch, values))
            return
        for asked in (action.preview, action.execute):
            with pytest.raises(ActionRefused, match="masked for you"):
                asyncio.run(asked(watch, values))

    def test_where_sending_breaks_off_what_was_sent_before_is_told(self) -> None:
        class Sender:
            def __init__(self) -> None:
                self.sent = 0

            async def send(self, *_: object, **__: object) -> asyncio.Future[None]:
                if self.sent == 2:
                    raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone")
                self.sent += 1
                done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                done.set_result(None)
                return done

            async def flush(self) -> None:
                pass

        sender: Any = Sender()
        values = {"source": "a", "topic": "b"}
        told = asyncio.run(replay_action._written(sender, values, [record()] * 4, [None] * 4))
        assert [each is None for each in told] == [True, True, False, False]

    @pytest.mark.parametrize(("step", "is_done"), [("run", True), ("preview", False)])
    def test_what_is_being_written_goes_on_without_its_visitor(
        self, step: str, is_done: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It ended with the page: some records written, and in the audit log begun and never ended."""
        done = []

        class Pages:
            def __init__(self, *_: object) -> None:
                pass

            async def submitted(self, request: Request) -> Response:
                await asyncio.sleep(0.05)
                done.append(step)
                return Response("")

        monkeypatch.setattr(replay_pages, "ActionPages", Pages)
        monkeypatch.setattr(replay_pages, "_action", lambda *_: None)
        console: Any = None
        _, route = replay_pages.routes(console)
        messages = [{"type": "http.request", "body": f"step={step}".encode()}, {"type": "http.disconnect"}]

        async def receive() -> dict[str, object]:
            return messages.pop(0)

        content = [(b"content-type", b"application/x-www-form-urlencoded")]
        scope = {"type": "http", "method": "POST", "headers": content, "query_string": b"", "path_params": {}}
        asyncio.run(route.endpoint(Request(scope, receive)))
        assert bool(done) == is_done

    def test_places_are_bounded_and_each_is_copied_once(self) -> None:
        assert places_of({"records": "1:2,0:3,1:2"}) == [(1, 2), (0, 3)]
        for said in ("", "1", "a:b", "1:-2", ",".join(f"0:{number}" for number in range(MOST_REPLAYED + 1))):
            with pytest.raises(ActionRefused):
                places_of({"records": said})


class TestAddresses:
    def asked(self, **query: str) -> Query:
        scope = {"type": "http", "headers": [], "query_string": urlencode(query).encode()}
        return query_of(Request(scope), "t", None)

    def test_a_search_goes_on_in_each_of_thousands_of_partitions(self) -> None:
        """At 1,000 characters the text was cut: later partitions were passed over, and of one the offset was wrong."""
        places = {number: 10_000_000 + number for number in range(2_000)}
        said = ",".join(f"{number}:{offset}" for number, offset in places.items())
        assert self.asked(resume=said, upto=said).resume == places
        assert self.asked(resume=said, upto=said).upto == places
        with pytest.raises(ActionRefused, match="too many partitions"):
            self.asked(resume=said * 3)

    def test_what_a_saved_search_keeps_is_what_a_search_asks_for(self) -> None:
        kept = query_to_keep("start=oldest&resume=0:1&col=time&col=key&csrf=x&upto=1:2&value=a%26b&n=")
        assert kept == "start=oldest&col=time&col=key&value=a%26b"
