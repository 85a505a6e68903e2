"""A group's own settings are kept as the text of who set them."""

from __future__ import annotations

import pytest

from kavka.broker.share.group_settings import RememberedSettings, dead_letters, share_settings
from kavka.config.broker import BrokerConfig


@pytest.mark.parametrize(("text", "is_on"), [("true", True), ("TRUE", True), (" True ", True), ("False", False)])
def test_a_switch_is_on_however_it_is_written(text: str, is_on: bool) -> None:
    names = ("errors.deadletterqueue.copy.record.enable", "share.renew.acknowledge.enable")
    config, overrides = BrokerConfig(), dict.fromkeys(names, text)
    assert dead_letters(config, overrides).copies is is_on
    assert share_settings(config, overrides, 2).may_renew is is_on


def test_what_is_remembered_is_what_holds_after_each_change() -> None:
    remembered, config = RememberedSettings(), BrokerConfig()
    other = config.with_dynamic(dynamic={"group.share.record.lock.duration.ms": "20000"}, dynamic_default={})
    dead = {"errors.deadletterqueue.topic.name": "dlq.orders"}
    for seen, overrides, version in (
        (config, {}, 1),
        (config, {"share.delivery.count.limit": "3"}, 1),
        (config, {}, 1),
        (other, {}, 1),
        (other, dead, 1),
        (other, dead, 2),
        (other, {}, 2),
    ):
        for _ in range(2):
            assert remembered.of("workers", seen, overrides, version) == share_settings(seen, overrides, version)
    assert remembered.of("others", other, dead, 2) != remembered.of("workers", other, {}, 2)
