"""Four-letter words: what other machines are not told."""

from __future__ import annotations

import pytest

from kavka.zookeeper.decide.four_letter_words import WORDS, allowed_from


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1"])
def test_this_machine_is_told_all_that_is_allowed(host: str) -> None:
    assert allowed_from(host, WORDS) == WORDS
    assert allowed_from(host, frozenset({"conf"})) == {"conf"}


@pytest.mark.parametrize("host", ["10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "", "no address"])
def test_other_machines_are_told_how_the_server_is_and_nothing_of_its_clients(host: str) -> None:
    assert allowed_from(host, WORDS) == {"srvr", "mntr", "ruok"}
    assert allowed_from(host, frozenset({"conf"})) == frozenset()
