"""What a link may say of a run: it is checked before anything is played."""

from __future__ import annotations

import pytest

from kavka_playground.choices import MAX_CLICKS, BadChoice, Choices, Click, check_clicks


def test_choices_survive_json() -> None:
    choices = Choices(seed=7, brokers=5, acks="1", unclean=True)

    assert Choices.of(choices.as_json()) == choices


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"brokers": 6}, "brokers: 6, expected 1 to 5"),
        ({"brokers": 2}, "replicas: 3, expected 1 to 2"),
        ({"min_in_sync": 4}, "min_in_sync: 4, expected 1 to 3"),
        ({"acks": "2"}, "expected one of all, 1, 0"),
        ({"lag_policy": "bytes"}, "expected one of time, messages"),
        ({"brokers": "3"}, "expected int"),
        ({"unclean": 1}, "expected bool"),
        ({"seed": -1}, "seed: -1"),
        ({"color": "red"}, "color: no such choice"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(values: dict[str, object], said: str) -> None:
    with pytest.raises(BadChoice, match=said):
        Choices.of(values)


@pytest.mark.parametrize("word", ["4300.kill.1", "0.cut.1-zk", "12.heal.2-3", "9.unclean", "7.rate.0", "1.acks.all"])
def test_a_click_is_a_word(word: str) -> None:
    click = Click.parse(word)

    click.check(Choices())

    assert click.as_word() == word


@pytest.mark.parametrize(
    "word",
    [
        "kill.1",
        "5.kill.4",
        "5.kill",
        "5.cut.1-1",
        "5.cut.1",
        "5.cut.zk-1",
        "5.write.101",
        "5.write.-1",
        "5.rate.61",
        "5.unclean.1",
        "5.acks.2",
        "5.reboot.1",
        "600001.kill.1",
    ],
)
def test_a_click_that_cannot_be_is_refused(word: str) -> None:
    with pytest.raises(BadChoice):
        Click.parse(word).check(Choices())


def test_clicks_come_in_order_and_are_bounded() -> None:
    with pytest.raises(BadChoice, match="comes after a click at 9 ms"):
        check_clicks([Click(9, "unclean"), Click(8, "unclean")], Choices())
    with pytest.raises(BadChoice, match="at most 500"):
        check_clicks([Click(1, "unclean")] * (MAX_CLICKS + 1), Choices())
