"""What is made of a group's settings is made once, and anew when they are others."""

from __future__ import annotations

from collections.abc import Mapping

from kavka.config.broker import BrokerConfig
from kavka.config.remembered import MOST_REMEMBERED, RememberedValues


class Made:
    """What was made, and of what."""

    def __init__(self, config: BrokerConfig, overrides: Mapping[str, str]) -> None:
        self.config, self.overrides = config, overrides


def test_groups_that_set_nothing_share_one_value() -> None:
    remembered, config = RememberedValues(Made), BrokerConfig()
    assert remembered.of("first", config, {}) is remembered.of("second", config, {})


def test_a_group_with_settings_of_its_own_has_its_own_value() -> None:
    remembered, config = RememberedValues(Made), BrokerConfig()
    own = {"share.delivery.count.limit": "3"}
    made = remembered.of("first", config, own)
    assert remembered.of("first", config, dict(own)) is made
    assert remembered.of("second", config, {}) is not made
    assert remembered.of("first", config, {}).overrides == {}, "it sets nothing any more"
    assert remembered.of("first", config, {"share.delivery.count.limit": "4"}).overrides != own


def test_other_settings_of_the_broker_make_all_anew() -> None:
    remembered, config, other = RememberedValues(Made), BrokerConfig(), BrokerConfig()
    own = {"share.delivery.count.limit": "3"}
    remembered.of("first", config, own), remembered.of("second", config, {})
    assert remembered.of("first", other, own).config is other
    assert remembered.of("second", other, {}).config is other


def test_no_more_groups_are_remembered_than_the_bound() -> None:
    remembered, config, own = RememberedValues(Made), BrokerConfig(), {"share.delivery.count.limit": "3"}
    first = remembered.of("group-0", config, own)
    for number in range(MOST_REMEMBERED):
        remembered.of(f"group-{number}", config, own)
    assert remembered.of("group-0", config, own) is not first
