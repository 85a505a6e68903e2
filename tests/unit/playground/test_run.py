"""A run of the playground: the same clicks make the same run, and what it shows is what happened."""

from __future__ import annotations

import json

import pytest

from kavka_playground.bridge import Bridge
from kavka_playground.choices import BadChoice, Choices, Click
from kavka_playground.picture import Camera
from kavka_playground.run import PARTITION, Run

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


def kinds(run: Run) -> list[str]:
    return [event.kind for event in run.trace.events()]


def test_broker_1_leads_and_the_last_broker_is_the_controller() -> None:
    run = Run(Choices(brokers=4))

    picture = Camera(run).take()

    assert picture["stored"] == {
        "leader": 1,
        "epoch": 0,
        "isr": [1, 2, 3],
        "version": 0,
        "controller_epoch": 1,
        "replicas": [1, 2, 3],
    }
    assert picture["controller"] == 4


def test_the_same_clicks_make_the_same_run_however_it_is_looked_at() -> None:
    run = Run(Choices(seed=5))
    camera = Camera(run)
    for _ in range(20):
        run.advance(run.at_ms + 137)
        camera.take()
    run.click("kill", "1")
    run.step()
    run.click("cut", "2-3")
    run.advance(run.at_ms + 4_000)

    again = Run(run.choices, run.clicks)
    again.advance(run.at_ms)

    assert again.digest == run.digest
    assert again.clicks == run.clicks
    assert [event.line for event in again.trace.events()] == [event.line for event in run.trace.events()]


def test_another_seed_makes_another_run() -> None:
    one, other = Run(Choices(seed=1)), Run(Choices(seed=2))
    one.advance(3_000)
    other.advance(3_000)

    assert one.digest != other.digest


def test_a_killed_leader_is_followed_by_another_and_nothing_is_lost() -> None:
    run = Run(Choices())
    run.advance(4_000)
    run.click("kill", "1")
    run.advance(8_000)

    picture = Camera(run).take()

    assert picture["stored"]["leader"] == 2  # type: ignore[index]
    assert picture["clients"]["lost_count"] == 0  # type: ignore[index]
    assert not run.ended
    assert "leader elected" in kinds(run)


def test_a_record_that_its_producer_was_promised_and_an_unclean_leader_lacks_is_called_lost() -> None:
    run = Run(Choices(brokers=4, min_in_sync=1, rate=2))
    run.advance(3_000)
    run.click("cut", "1-2")
    run.click("cut", "1-3")
    run.advance(9_000)  # The leader is alone in sync, and goes on.
    run.click("kill", "1")
    run.advance(11_000)
    assert run.world.observer.stored[PARTITION].state.leader == -1
    assert not run.lost

    run.click("unclean")
    run.advance(13_000)

    assert not run.ended
    assert run.lost
    assert all(loss.leader in (2, 3) for loss in run.lost.values())
    assert kinds(run).count("record lost") == len(run.lost)


def test_too_few_replicas_in_sync_refuse_a_promise() -> None:
    run = Run(Choices(brokers=2, replicas=2))
    run.advance(2_000)
    run.click("kill", "2")
    run.advance(9_000)

    told = Camera(run).take()["clients"]["told"]  # type: ignore[index]

    assert any("NOT_ENOUGH_REPLICAS" in event.text for event in run.trace.events() if event.kind == "produce answered")
    assert any(each["error"] for each in told)


def test_followers_are_seen_asking_for_records() -> None:
    run = Run(Choices())
    run.advance(3_000)

    asks = [event.text for event in run.trace.events() if event.kind == "follower asks"]

    assert any(text.startswith("broker-2 asks for offset") for text in asks)
    assert any(text.startswith("broker-3 asks for offset") for text in asks)


def test_a_click_that_its_broker_does_not_allow_is_refused_and_changes_nothing() -> None:
    run = Run(Choices())
    digest = run.digest

    for what, target in (("start", "1"), ("resume", "1"), ("kill", "9")):
        with pytest.raises(BadChoice):
            run.click(what, target)

    assert run.clicks == []
    assert run.digest == digest


def test_a_click_of_a_link_that_cannot_be_done_any_more_is_skipped_and_named() -> None:
    run = Run(Choices(), [Click(2_000, "start", "1"), Click(2_500, "kill", "1")])

    run.advance(3_000)

    assert [click.as_word() for click in run.skipped] == ["2000.start.1"]
    assert [click.as_word() for click in run.clicks] == ["2500.kill.1"]


def test_a_record_written_again_in_another_epoch_is_shown_as_the_new_one() -> None:
    run = Run(Choices(acks="1", min_in_sync=1))
    run.advance(3_000)
    camera = Camera(run)
    for other in ("2", "3"):
        run.click("cut", f"1-{other}")
    run.advance(3_600)
    run.click("write", "3")
    run.advance(3_700)
    run.click("kill", "1")
    run.advance(7_000)
    run.click("heal", "1-2")
    run.click("heal", "1-3")
    run.click("start", "1")
    run.advance(13_000)
    brokers = camera.take()["brokers"]

    first, second = (broker["cells"] for broker in brokers[:2])  # type: ignore[index]
    shorter = min(len(first), len(second))
    assert shorter > 3
    assert first[:shorter] == second[:shorter]
    assert {epoch for _, epoch, _ in first} == {0, 1}


def test_the_bridge_answers_in_json_and_refuses_in_words() -> None:
    bridge = Bridge()
    opened = json.loads(
        bridge.call('{"op": "open", "run": "a", "choices": {"brokers": 1, "replicas": 1, "min_in_sync": 1}}')
    )
    stepped = json.loads(bridge.call('{"op": "step", "run": "a", "closely": true}'))
    clicked = json.loads(bridge.call('{"op": "click", "run": "a", "what": "kill", "target": "1"}'))
    refused = json.loads(bridge.call('{"op": "click", "run": "a", "what": "kill", "target": "1"}'))

    assert opened["brokers"][0]["role"] == "leader"
    assert stepped["at_ms"] > opened["at_ms"]
    assert clicked["clicks"] == [f"{stepped['at_ms']}.kill.1"]
    assert refused == {"refused": "broker 1 does not run"}
    assert [event["kind"] for event in json.loads(bridge.call('{"op": "trace", "run": "a"}'))][-1] == "killed"
