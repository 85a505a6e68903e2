"""Alerts: what a rule is about, when it is told, in which form; by hand."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("starlette")

from kavka.console.alert_rules import AlertRule, Condition, Seen, Target, conditions, parse_alert
from kavka.console.alerts import keeper
from kavka.console.alerts.book import LONGEST_SILENCE_MS, AlertBook, Silence
from kavka.console.alerts.senders import Told, body_of, link_of, send
from kavka.console.settings import parse_settings
from kavka.decisions import YEAR_9000_MS, Decision, DecisionKind, RecordedDecision
from kavka.errors import ConfigError
from kavka.model import BrokerId, TopicPartition
from kavka.observe.decision_tail import DecisionTail
from kavka.observe.health.report import Check, CheckResult, Finding, Outcome, Severity, Statement, report
from kavka.observe.snapshot import ClusterState, GroupOffset, GroupView
from kavka.runtime.http.webhooks import NotDelivered

HOOK = Target("webhook", "https://hooks.example.com/secret")
RULE = AlertRule("on call", (HOOK,), severity=Severity.WARNING, for_s=60, repeat_s=600)
FAILS = Condition("check disks", "warning", "A disk is full")


def result(name: str, severity: Severity, outcome: Outcome = Outcome.FAILED) -> CheckResult:
    check = Check(name, f"{name} fails", 1, severity, Statement("never"), "Mend it")
    return CheckResult(check, outcome, Statement("so it is"), (Finding("broker", "broker 2", Statement("gone")),), 3, 1)


def seen(*results: CheckResult, groups: Sequence[GroupView] = (), decisions: Sequence[RecordedDecision] = ()) -> Seen:
    return Seen(True, "", report(results, 0), groups, decisions)


class TestConditions:
    def test_checks_are_chosen_by_severity_or_by_name(self) -> None:
        now = seen(
            result("a", Severity.CRITICAL), result("b", Severity.WARNING), result("c", Severity.WARNING, Outcome.PASSED)
        )
        assert {each.key for each in conditions(RULE, now)} == {"check a", "check b"}
        critical = RULE._replace(severity=Severity.CRITICAL)
        assert [each.key for each in conditions(critical, now)] == ["check a"]
        named = RULE._replace(severity=None, checks=("b*",))
        assert [each.key for each in conditions(named, now)] == ["check b"]
        assert "broker 2: gone" in conditions(named, now)[0].text

    def test_lag_is_told_of_groups_that_commit(self) -> None:
        def group(name: str, committed: int | None) -> GroupView:
            offsets = (GroupOffset(TopicPartition("a", 0), committed, 1_000),)
            return GroupView(name, "classic", "Stable", "consumer", "range", 1, offsets=offsets)

        rule = AlertRule("lag", (HOOK,), lag=500, groups="bill*")
        groups = [group("billing", 0), group("billing-2", 900), group("other", 0), group("bill-none", None)]
        assert [each.key for each in conditions(rule, seen(groups=groups))] == ["lag billing"]

    def test_of_a_cluster_that_does_not_answer_only_that_is_told(self) -> None:
        away = Seen(False, "refused", report((result("a", Severity.CRITICAL),), 0), (), ())
        assert [(each.key, each.severity) for each in conditions(RULE, away)] == [("unreachable", "critical")]
        assert conditions(AlertRule("lag", (HOOK,), lag=5), away) == []

    def test_decisions_of_a_kind_are_events(self) -> None:
        decision = Decision(DecisionKind.CONTROLLER_ELECTED, 5, BrokerId(1), "it was first")
        rule = AlertRule("d", (HOOK,), decisions=("controller*",))
        (found,) = conditions(rule, seen(decisions=[RecordedDecision("x1", decision)]))
        assert (found.key, found.is_event, found.path) == ("decision x1", True, "decisions/x1")


class Times:
    """One rule, one cluster, told by hand."""

    def __init__(self, ledger: sqlite3.Connection | None = None) -> None:
        self.ledger = ledger or sqlite3.connect(":memory:", isolation_level=None)
        self.ledger.row_factory = sqlite3.Row
        self.book = AlertBook(self.ledger)

    def at(self, second: int, *now: Condition, is_known: bool = True, tell: bool = True) -> list[str]:
        """What is told at this second, where this is so."""
        self.book.take(RULE, "c", now, second * 1_000, is_known=is_known)
        due = self.book.due({RULE.name: RULE}, second * 1_000)
        for notice in due if tell else ():
            self.book.told(notice, second * 1_000)
        return [f"{each.status} {each.alert.key}" for each in due]


class TestBook:
    def test_what_holds_for_long_enough_is_told_and_told_again_and_told_when_it_is_over(self) -> None:
        times = Times()
        assert times.at(0, FAILS) == times.at(59, FAILS) == []
        assert times.at(60, FAILS) == ["firing check disks"]
        assert times.at(61, FAILS) == times.at(659, FAILS) == []
        assert times.at(660, FAILS) == ["firing check disks"]
        assert times.at(700) == ["resolved check disks"]
        assert times.at(701) == []

    def test_what_goes_before_it_is_told_is_not_told(self) -> None:
        times = Times()
        assert times.at(0, FAILS) == times.at(30) == times.at(100) == []
        assert times.at(110, FAILS) == [], "it begins anew"

    def test_while_nothing_is_known_nothing_is_over(self) -> None:
        times = Times()
        times.at(0, FAILS)
        times.at(60, FAILS)
        assert times.at(70, is_known=False) == []
        assert times.at(80) == ["resolved check disks"]

    def test_an_event_is_told_once(self) -> None:
        times, event = Times(), Condition("decision x", "info", "elected", is_event=True)
        assert times.at(0, event) == ["event decision x"]
        assert times.at(1) == []

    def test_a_restart_neither_tells_twice_nor_forgets_the_end(self) -> None:
        times = Times()
        times.at(0, FAILS)
        times.at(60, FAILS)
        again = Times(times.ledger)
        assert again.at(61, FAILS) == []
        assert again.at(62) == ["resolved check disks"]

    def test_a_console_that_ends_before_it_was_sent_sends_it_after_its_start(self) -> None:
        times = Times()
        times.at(0, FAILS)
        assert times.at(60, FAILS, tell=False) == ["firing check disks"]
        assert Times(times.ledger).at(61, FAILS) == ["firing check disks"]

    def test_what_is_over_while_it_is_being_told_is_told_to_be_over(self) -> None:
        times = Times()
        times.at(0, FAILS)
        times.at(60, FAILS, tell=False)
        (notice,) = times.book.due({RULE.name: RULE}, 60_000)
        assert times.at(61) == []
        times.book.told(notice, 62_000)
        assert times.at(63) == ["resolved check disks"]

    def test_a_rule_that_is_gone_takes_its_alerts_with_it(self) -> None:
        times = Times()
        times.at(0, FAILS)
        times.book.keep_rules([])
        assert times.book.alerts("c") == []

    def test_a_silence_holds_back_until_it_ends(self) -> None:
        times = Times()
        times.book.silence(Silence(0, "c", "check d*", 100_000, "ada", ""), 0)
        times.at(0, FAILS)
        assert times.at(60, FAILS) == times.at(99, FAILS) == []
        assert times.at(101, FAILS) == ["firing check disks"]
        times.book.silence(Silence(0, "other", "*", 900_000, "ada", ""), 101_000)
        assert times.at(702, FAILS) == ["firing check disks"], "of another cluster"

    def test_silences_are_ended_and_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        book = Times().book
        book.silence(Silence(0, "c", "*", 5_000, "ada", "work"), 0)
        (known,) = book.silences(0, "c")
        book.end_silence(known.number, "other")
        assert len(book.silences(0)) == 1
        book.end_silence(known.number, "c")
        assert book.silences(0) == []
        with pytest.raises(ValueError, match="90 days"):
            book.silence(Silence(0, "c", "*", LONGEST_SILENCE_MS + 1, "ada", ""), 0)
        monkeypatch.setattr("kavka.console.alerts.book.MOST_SILENCES", 1)
        book.silence(Silence(0, "c", "*", 5_000, "ada", ""), 0)
        with pytest.raises(ValueError, match="end some first"):
            book.silence(Silence(0, "c", "*", 5_000, "ada", ""), 0)

    def test_alerts_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kavka.console.alerts.book.MOST_ALERTS", 2)
        times = Times()
        times.at(0, *(FAILS._replace(key=f"check {number}") for number in range(5)))
        assert len(times.book.alerts("c")) == 2


class _Garbage(threading.Thread):
    """A receiver that answers one request with what is no HTTP."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.listener.getsockname()[1]}/hook"

    def run(self) -> None:
        with self.listener, self.listener.accept()[0] as peer:
            peer.recv(65_536)
            peer.sendall(b"SMTP ready\r\n\r\n")


def test_an_answer_that_is_no_http_is_no_delivery() -> None:
    receiver = _Garbage()
    receiver.start()
    with pytest.raises(NotDelivered, match="SMTP ready"):
        send(Target("webhook", receiver.address), TestForms.TOLD)
    receiver.join(60)


def test_one_target_that_breaks_has_the_others_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def breaks(target: Target, _told: Told) -> None:
        told.append(target.kind)
        if target.kind == "slack":
            raise RuntimeError("a bug of ours")

    monkeypatch.setattr(keeper, "send", breaks)
    rule = RULE._replace(targets=(HOOK, Target("slack", "https://hooks.example.com/x")))

    async def test() -> None:
        alerts = keeper.AlertKeeper([rule], AlertBook(sqlite3.connect(":memory:")), cast(Any, ()), lambda: 0)
        await alerts.test(rule, "c")
        await alerts.stop()
        assert [each.why for each in alerts.last.values()] == ["", "RuntimeError('a bug of ours')"]

    asyncio.run(test())
    assert sorted(told) == ["slack", "webhook"]


def test_a_receiver_that_says_nothing_has_no_other_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    told, over = list[str](), threading.Event()

    def says_nothing(target: Target, _told: Told) -> None:
        if target.kind == "slack":
            over.wait(60)
        told.append(target.kind)

    monkeypatch.setattr(keeper, "send", says_nothing)
    mute = RULE._replace(name="mute", targets=(Target("slack", "https://hooks.example.com/x"),))
    heard = RULE._replace(name="heard", targets=(HOOK,))

    async def test() -> None:
        alerts = keeper.AlertKeeper([mute, heard], AlertBook(sqlite3.connect(":memory:")), cast(Any, ()), lambda: 0)
        waiting = [asyncio.ensure_future(alerts.test(mute, "c")) for _ in range(keeper.MOST_AT_ONCE + 1)]
        await asyncio.sleep(0)
        await asyncio.wait_for(alerts.test(heard, "c"), 30)
        assert told == ["webhook"]
        over.set()
        await asyncio.gather(*waiting)
        await alerts.stop()

    asyncio.run(test())


@pytest.mark.parametrize("is_mute", [True, False], ids=["says nothing", "refuses"])
def test_the_end_and_the_next_beginning_are_not_held_up_by_a_receiver_that_does_not_take_them(
    monkeypatch: pytest.MonkeyPatch, *, is_mute: bool
) -> None:
    """Its tries took minutes, and as long nobody else was told that the alert is over."""
    told, over = list[str](), threading.Event()

    def some_take(target: Target, said: Told) -> None:
        if target.kind == "slack":
            if is_mute:
                over.wait(60)
            raise NotDelivered("not now")
        told.append(said.status)

    monkeypatch.setattr(keeper, "send", some_take)
    monkeypatch.setattr(keeper, "LOOK_S", 0.001)
    ledger = sqlite3.connect(":memory:", isolation_level=None)
    ledger.row_factory = sqlite3.Row
    groups: dict[str, Any] = {}
    snapshot = SimpleNamespace(at_ms=1, state=ClusterState.REACHABLE, why="", groups=groups)
    watch = SimpleNamespace(name="c", snapshot=snapshot, health=report((), 0), decisions=DecisionTail(lambda: 1_000))
    offsets = (GroupOffset(TopicPartition("a", 0), 0, 1_000),)
    lagging = GroupView("g", "classic", "Stable", "consumer", "range", 1, offsets=offsets)

    async def until(wanted: list[str]) -> None:
        async with asyncio.timeout(30):
            while told != wanted:  # noqa: ASYNC110  # what is waited for is another thread's
                await asyncio.sleep(0.005)

    async def test() -> None:
        rule = AlertRule("l", (HOOK, Target("slack", "https://hooks.example.com/x")), lag=10, for_s=0)
        alerts = keeper.AlertKeeper([rule], AlertBook(ledger), cast(Any, (watch,)), lambda: 1_000)
        await alerts.start()
        wanted = []
        for _ in range(2):
            groups["g"] = lagging
            await until([*wanted, "firing"])
            groups.clear()
            wanted += ["firing", "resolved"]
            await until(wanted)
        over.set()
        await alerts.stop()

    asyncio.run(test())


def test_a_decision_is_told_that_came_late_or_of_a_clock_that_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest one's time was taken for how far had been looked: one of the year 8000 kept all others back."""
    told: list[str] = []
    monkeypatch.setattr(keeper, "send", lambda _target, said: told.append(said.key))
    monkeypatch.setattr(keeper, "LOOK_S", 0.001)
    tail = DecisionTail(lambda: 1_000)

    def takes(name: str, at_ms: int) -> None:
        tail.take(RecordedDecision(name, Decision(DecisionKind.CONTROLLER_ELECTED, at_ms, BrokerId(1), "it was first")))

    snapshot = SimpleNamespace(at_ms=1, state=ClusterState.REACHABLE, why="", groups={})
    watch = SimpleNamespace(name="c", snapshot=snapshot, health=report((), 0), decisions=tail)
    ledger = sqlite3.connect(":memory:", isolation_level=None)
    ledger.row_factory = sqlite3.Row

    async def until(keys: list[str]) -> None:
        async with asyncio.timeout(60):
            while told != keys:  # noqa: ASYNC110  # what is waited for is another thread's
                await asyncio.sleep(0.005)

    async def test() -> None:
        rule = AlertRule("d", (HOOK,), decisions=("controller*",))
        alerts = keeper.AlertKeeper([rule], AlertBook(ledger), cast(Any, (watch,)), lambda: 1_000)
        takes("of before the first look", 999)
        await alerts.start()
        await asyncio.sleep(0.05)
        takes("history that is read after the first look", 998)
        takes("far ahead", YEAR_9000_MS - 1)
        await until(["decision far ahead"])
        takes("late", 1_001)
        await until(["decision far ahead", "decision late"])
        await alerts.stop()

    asyncio.run(test())


class TestForms:
    TOLD = Told("firing", "on call", "prod", "check disks", "critical", "a <b> & c", 0, "https://k/c/prod/")

    def test_slacks_control_characters_are_escaped(self) -> None:
        assert body_of(Target("slack", "https://x"), self.TOLD) == {
            "text": "*[critical] prod: disks*\na &lt;b&gt; &amp; c\nhttps://k/c/prod/"
        }

    def test_pagerduty_knows_an_alert_by_one_key_from_its_beginning_to_its_end(self) -> None:
        target = Target("pagerduty", "https://x", "routing")
        begun, over = body_of(target, self.TOLD), body_of(target, self.TOLD._replace(status="resolved"))
        assert (begun["event_action"], over["event_action"]) == ("trigger", "resolve")
        assert begun["dedup_key"] == over["dedup_key"] != body_of(target, self.TOLD._replace(cluster="b"))["dedup_key"]
        assert begun["payload"]["severity"] == "critical"
        assert begun["routing_key"] == "routing"

    def test_a_webhook_gets_all_of_it(self) -> None:
        told: Any = body_of(HOOK, self.TOLD)
        assert (told["version"], told["status"], told["key"], told["since"]) == (
            1,
            "firing",
            "check disks",
            "1970-01-01T00:00:00+00:00",
        )

    def test_a_link_needs_the_consoles_address(self) -> None:
        assert link_of("https://k/", "a b", "groups/x") == "https://k/c/a%20b/groups/x"
        assert link_of("", "a", "groups/x") == ""

    def test_what_is_secret_in_an_address_is_not_in_a_label(self) -> None:
        assert HOOK.label == "webhook hooks.example.com"
        assert (
            Target("pagerduty", "https://events.pagerduty.com/v2/enqueue", "key").label
            == "pagerduty events.pagerduty.com"
        )


class TestSettings:
    def test_a_rule_of_the_settings(self) -> None:
        text = (
            '[[alert]]\nname = "on call"\ncluster = "prod-*"\nseverity = "critical"\nlag = 1000\ngroups = "bill*"\n'
            'decisions = ["controller*"]\nfor_s = 5\nslack = "https://hooks.slack.com/x"\npagerduty = "key"\n'
            'mail = { server = "smtp.example.com:25", sender = "k@example.com", to = ["a@example.com"], tls = false }\n'
        )
        (rule,) = parse_settings(text).alerts
        assert (rule.cluster, rule.severity, rule.lag, rule.for_s) == ("prod-*", Severity.CRITICAL, 1_000, 5)
        assert [each.kind for each in rule.targets] == ["slack", "pagerduty", "mail"]
        assert rule.targets[2].label == "mail a@example.com"

    @pytest.mark.parametrize(
        ("table", "why"),
        [
            ({"name": "a", "severity": "critical"}, "nobody is told"),
            ({"name": "a", "slack": "https://x.y"}, "about nothing"),
            ({"name": "a", "slack": "file:///etc/passwd", "lag": 1}, "begins with https"),
            ({"name": "a", "slack": "https://x.y", "severity": "loud"}, "expected critical or warning"),
            ({"name": "a", "slack": "https://x.y", "decisions": ["nonsense"]}, "no kind of decision"),
            ({"name": "a", "slack": "https://x.y", "lag": 0, "severity": "critical"}, "lag is 0"),
            ({"name": "a", "slack": "https://x.y", "lags": 5}, "unknown setting"),
            (
                {"name": "a", "lag": 5, "mail": {"server": "x", "sender": "a@b\nBcc: c@d", "to": ["a@b"]}},
                "are addresses",
            ),
            ({"slack": "https://x.y"}, "has no name"),
        ],
    )
    def test_what_is_no_rule_is_refused(self, table: dict[str, Any], why: str) -> None:
        with pytest.raises(ConfigError, match=why):
            parse_alert(table, "settings")

    def test_two_rules_have_two_names(self) -> None:
        one = '[[alert]]\nname = "a"\nlag = 5\nslack = "https://x.y"\n'
        with pytest.raises(ConfigError, match="given twice"):
            parse_settings(one + one)
