"""The way every action goes, on values alone: outcomes, forms, where offsets would be set to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC
from typing import Any

import pytest

pytest.importorskip("starlette")

from kavka.console.access.audit import Outcome
from kavka.console.actions import action as actions
from kavka.console.actions.action import (
    Action,
    ActionRefused,
    Change,
    Field,
    Preview,
    Values,
    carry_out,
    quoted,
    settings,
    whole,
)
from kavka.console.actions.groups import Position, Way, targets
from kavka.console.actions.produce import as_bytes, headers_of
from kavka.console.actions.topics import CreateTopic, DeleteTopic
from kavka.console.actions.typed_time import instant, past_ms, time_ms, zone_of_name
from kavka.console.messages.decoding import decode
from kavka.console.messages.search import _has_field
from kavka.decisions import YEAR_9000_MS
from kavka.errors import ConnectionFailed, ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.observe.health.report import Statement


class Scripted(Action):
    """Does what it is told to."""

    name, title, role, section = "scripted", "Scripted", "operator", "topics"

    def __init__(self, failure: BaseException | None = None, look: str | BaseException = "as it is") -> None:
        self.failure = failure
        self.seen = look
        self.done = 0

    def topics(self, values: Values) -> None:
        return None

    async def fields(self, watch: Any, values: Values) -> Sequence[Field]:
        return ()

    async def preview(self, watch: Any, values: Values) -> Preview:
        return Preview("thing", Statement("it is done"))

    async def execute(self, watch: Any, values: Values) -> None:
        self.done += 1
        if self.failure is not None:
            raise self.failure

    async def look(self, watch: Any, values: Values) -> str:
        if isinstance(self.seen, BaseException):
            raise self.seen
        return self.seen


def outcome_of(action: Action) -> actions.Result:
    return asyncio.run(carry_out(action, None, {}))  # type: ignore[arg-type]  # it asks no cluster


class TestOutcomes:
    def test_what_was_answered_is_committed(self) -> None:
        assert outcome_of(Scripted()) == (Outcome.COMMITTED, "as it is", "")

    def test_what_was_refused_is_rejected_with_the_reason(self) -> None:
        found = outcome_of(Scripted(RequestError(ErrorCode.POLICY_VIOLATION, "not on Fridays")))
        assert (found.outcome, found.remark) == (Outcome.REJECTED, "POLICY_VIOLATION: not on Fridays")

    def test_what_was_not_answered_is_unknown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert outcome_of(Scripted(ConnectionFailed("broker 1 went away"))).outcome is Outcome.UNKNOWN
        assert outcome_of(Scripted(RequestError(ErrorCode.REQUEST_TIMED_OUT, "late"))).outcome is Outcome.UNKNOWN
        monkeypatch.setattr(actions, "TIMEOUT_S", 0.01)

        class Slow(Scripted):
            async def execute(self, watch: Any, values: Values) -> None:
                await asyncio.sleep(5)

        assert outcome_of(Slow()).outcome is Outcome.UNKNOWN

    def test_a_refusal_that_may_come_of_our_own_lost_attempt_is_unknown(self) -> None:
        assert CreateTopic().is_ambiguous(RequestError(ErrorCode.TOPIC_ALREADY_EXISTS, ""))
        assert DeleteTopic().is_ambiguous(RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""))
        assert not CreateTopic().is_ambiguous(RequestError(ErrorCode.INVALID_PARTITIONS, ""))

    def test_what_cannot_be_read_afterwards_is_said(self) -> None:
        found = outcome_of(Scripted(look=ConnectionFailed("nobody answers")))
        assert (found.outcome, found.after) == (Outcome.COMMITTED, "not known: nobody answers")


class TestPreviews:
    def test_previews_that_say_the_same_have_the_same_fingerprint(self) -> None:
        one = Preview("topic a", Statement("{n} change", {"n": 1}), (Change("x", "1", "2"),))
        assert one.fingerprint == one._replace(button="Go").fingerprint
        for other in (
            one._replace(target="topic b"),
            one._replace(changes=(Change("x", "3", "2"),)),
            one._replace(before="something else"),
            one._replace(summary=Statement("{n} change", {"n": 2})),
        ):
            assert other.fingerprint != one.fingerprint

    def test_words_are_quoted_for_the_shell(self) -> None:
        assert quoted("a; rm -rf /") == "'a; rm -rf /'"


class TestForms:
    def test_settings_are_lines_of_name_and_value(self) -> None:
        assert settings({"s": "a=1\r\n\r\n b = x=y \n"}, "s") == {"a": "1", "b": "x=y"}
        for wrong in ("a", "=1", "a=1\na=2"):
            with pytest.raises(ActionRefused):
                settings({"s": wrong}, "s")

    @pytest.mark.parametrize("said", ["", "x", "1.5", "-1", "--1", "11", "9" * 30, "٣٣٣"])
    def test_a_number_is_within_its_range(self, said: str) -> None:
        with pytest.raises(ActionRefused):
            whole({"n": said}, "n", "it", least=0, most=10)

    def test_what_is_typed_becomes_bytes(self) -> None:
        assert as_bytes("é\r\n", "text") == "é\n".encode()
        for said, form in (("{", "json"), ("0g", "hex"), ("=", "base64"), ("x", "bits")):
            with pytest.raises(ActionRefused):
                as_bytes(said, form)
        with pytest.raises(ActionRefused):
            headers_of("\n".join(f"n{number}: v" for number in range(101)))

    @pytest.mark.parametrize("said", ["yesterday", "2026-13-01", "9" * 40, "-1", "9" * 15, "0001-01-01T00:00", "٣٣٣"])
    def test_what_is_no_time_is_refused(self, said: str) -> None:
        with pytest.raises(ActionRefused):
            time_ms(said, UTC)

    def test_a_typed_time_is_read_in_the_zone_of_its_page(self) -> None:
        berlin, kolkata = zone_of_name("Europe/Berlin"), zone_of_name("Asia/Kolkata")
        at_ten = 1_795_258_800_000 - 1_795_258_800_000 % 86_400_000 + 36_000_000  # 10:00 UTC
        day = instant(at_ten, UTC)[:10]
        assert time_ms(f"{day}T10:00", UTC) == at_ten
        assert time_ms(f"{day}T11:00", berlin) == at_ten
        assert time_ms(f"{day}T15:30:00", kolkata) == at_ten
        assert time_ms(f"{day}T10:00:00Z", kolkata) == at_ten, "its own zone counts"
        assert instant(at_ten, berlin) == f"{day} 11:00:00 CET ({day}T10:00:00.000Z)"

    def test_a_time_that_is_still_to_come_is_refused(self) -> None:
        now_ms = time_ms("2026-11-21T10:00Z", UTC)
        assert past_ms("2026-11-21T11:00", zone_of_name("Europe/Berlin"), now_ms) == now_ms
        with pytest.raises(ActionRefused, match="in the future"):
            past_ms("2026-11-21T11:00", UTC, now_ms)

    def test_the_last_time_that_is_taken_is_one_in_every_zone(self) -> None:
        with pytest.raises(ActionRefused, match="from 1970 to 8999"):
            time_ms(str(YEAR_9000_MS), UTC)
        for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):
            assert instant(time_ms(str(YEAR_9000_MS - 1), UTC), zone_of_name(zone))

    def test_a_time_that_its_zone_leaves_out_is_refused(self) -> None:
        with pytest.raises(ActionRefused, match="put forward"):
            time_ms("2026-03-29T02:30", zone_of_name("Europe/Berlin"))
        with pytest.raises(ActionRefused, match="no time zone"):
            zone_of_name("../../etc/passwd")

    def test_a_field_of_json_is_compared_as_it_reads(self) -> None:
        shown = decode(b'{"a": {"n": 42, "ok": true, "none": null, "s": "x=y"}}')
        for wanted in ("a.n=42", "a.ok=true", "a.s=x=y", "a.n", "a"):
            assert _has_field(shown, wanted), wanted
        for other in ("a.n=4", "a.ok=True", "b", "a.n.x=1", "a.s=x"):
            assert not _has_field(shown, other), other


class TestOffsets:
    place = TopicPartition("orders", 0)

    def target(
        self, way: Way, committed: int | None = 50, number: int = 0, at_time: int | None = None
    ) -> tuple[int, int | None]:
        (found,) = targets(
            way,
            {self.place: Position(committed, 10, 100)},
            number=number,
            at_time=None if at_time is None else {self.place: at_time},
        )
        return found.wanted, found.moved_from

    def test_each_way_leads_where_it_says(self) -> None:
        assert self.target(Way.EARLIEST) == (10, None)
        assert self.target(Way.LATEST) == (100, None)
        assert self.target(Way.OFFSET, number=42) == (42, None)
        assert self.target(Way.SHIFT, number=-5) == (45, None)
        assert self.target(Way.TIME, at_time=77) == (77, None)
        assert self.target(Way.TIME) == (100, None), "nothing is so late: the end"

    def test_no_offset_leaves_its_log(self) -> None:
        assert self.target(Way.OFFSET, number=5) == (10, 5)
        assert self.target(Way.OFFSET, number=500) == (100, 500)
        assert self.target(Way.SHIFT, number=-500) == (10, -450)

    def test_what_was_never_committed_cannot_be_shifted(self) -> None:
        with pytest.raises(ActionRefused, match="no committed offset"):
            self.target(Way.SHIFT, committed=None, number=1)
