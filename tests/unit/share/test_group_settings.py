"""A group's own settings are kept as the text of who set them."""

from __future__ import annotations

import pytest

from kavka.broker.share.group_settings import dead_letters, share_settings
from kavka.config.broker import BrokerConfig


@pytest.mark.parametrize(("text", "is_on"), [("true", True), ("TRUE", True), (" True ", True), ("False", False)])
def test_a_switch_is_on_however_it_is_written(text: str, is_on: bool) -> None:
    names = ("errors.deadletterqueue.copy.record.enable", "share.renew.acknowledge.enable")
    config, overrides = BrokerConfig(), dict.fromkeys(names, text)
    assert dead_letters(config, overrides).copies is is_on
    assert share_settings(config, overrides, 2).may_renew is is_on
