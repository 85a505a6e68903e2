"""Feature levels: what is in force beside which brokers, and which changes are allowed."""

from __future__ import annotations

import pytest

from kavka.controller.decide.feature_levels import FeatureUpdate, UpgradeType, levels_in_force, updated
from kavka.errors import RequestError
from kavka.zookeeper.znodes import FeatureNode

KAVKA = {"group.version": (0, 1), "transaction.version": (0, 2)}
OLDER = {"transaction.version": (0, 1)}
APACHE: dict[str, tuple[int, int]] = {}
NOTHING_SET = FeatureNode(enabled=True)
UPGRADE, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE


def test_without_anything_set_all_that_all_brokers_support_is_in_force() -> None:
    assert levels_in_force(NOTHING_SET, [KAVKA, KAVKA]) == {"group.version": 1, "transaction.version": 2}
    assert levels_in_force(NOTHING_SET, [KAVKA, OLDER]) == {"transaction.version": 1}
    assert levels_in_force(NOTHING_SET, [OLDER, KAVKA]) == {"transaction.version": 1}
    assert levels_in_force(NOTHING_SET, [KAVKA, APACHE]) == {}
    assert levels_in_force(NOTHING_SET, []) == {}


def test_what_was_set_is_in_force_as_far_as_all_brokers_support_it() -> None:
    node = FeatureNode(enabled=True, features={"transaction.version": 2}, held_at_zero=("group.version",))
    assert levels_in_force(node, [KAVKA]) == {"group.version": 0, "transaction.version": 2}
    assert levels_in_force(node, [KAVKA, OLDER]) == {"transaction.version": 1}


def test_a_level_is_lowered_by_a_downgrade_only_and_raised_by_an_upgrade_only() -> None:
    lowered = updated(NOTHING_SET, FeatureUpdate("transaction.version", 1, SAFE), [KAVKA])
    assert lowered.features == {"transaction.version": 1}
    raised = updated(lowered, FeatureUpdate("transaction.version", 2, UPGRADE), [KAVKA])
    assert raised.features == {"transaction.version": 2}
    for node, update in (
        (raised, FeatureUpdate("transaction.version", 1, UPGRADE)),
        (lowered, FeatureUpdate("transaction.version", 2, UNSAFE)),
        (lowered, FeatureUpdate("transaction.version", 1, SAFE)),
        (NOTHING_SET, FeatureUpdate("transaction.version", 1, UPGRADE)),
    ):
        with pytest.raises(RequestError):
            updated(node, update, [KAVKA])


def test_a_default_may_be_written_down() -> None:
    pinned = updated(NOTHING_SET, FeatureUpdate("group.version", 1, UPGRADE), [KAVKA])
    assert pinned.features == {"group.version": 1}


def test_the_default_may_be_written_down_by_a_downgrade_too_which_lowers_nothing() -> None:
    pinned = updated(NOTHING_SET, FeatureUpdate("transaction.version", 2, SAFE), [KAVKA])
    assert pinned.features == {"transaction.version": 2}


def test_the_lowest_level_that_a_broker_supports_is_one_of_them() -> None:
    some = {"share.version": (1, 2)}
    assert updated(NOTHING_SET, FeatureUpdate("share.version", 1, SAFE), [some]).features == {"share.version": 1}
    with pytest.raises(RequestError, match=r"supports share\.version from 2 to 3, not 1"):
        updated(NOTHING_SET, FeatureUpdate("share.version", 1, SAFE), [{"share.version": (2, 3)}])


def test_a_feature_is_switched_off_and_on_again() -> None:
    off = updated(NOTHING_SET, FeatureUpdate("group.version", 0, UNSAFE), [KAVKA])
    assert off == FeatureNode(enabled=True, held_at_zero=("group.version",))
    assert levels_in_force(off, [KAVKA])["group.version"] == 0
    with pytest.raises(RequestError):
        updated(off, FeatureUpdate("group.version", 0, SAFE), [KAVKA])
    on = updated(off, FeatureUpdate("group.version", 1, UPGRADE), [KAVKA])
    assert on == FeatureNode(enabled=True, features={"group.version": 1})


def test_no_level_is_set_that_a_live_broker_does_not_support() -> None:
    for brokers, level in (([KAVKA, OLDER], 2), ([KAVKA, APACHE], 1), ([KAVKA], 3)):
        with pytest.raises(RequestError):
            updated(NOTHING_SET, FeatureUpdate("transaction.version", level, UPGRADE), brokers)


def test_a_feature_that_no_broker_knows_is_called_that() -> None:
    with pytest.raises(RequestError, match=r"does not know foo; it knows group\.version, transaction\.version"):
        updated(NOTHING_SET, FeatureUpdate("foo", 1, UPGRADE), [KAVKA])


def test_a_level_that_nobody_supports_any_more_can_be_removed() -> None:
    node = FeatureNode(enabled=True, features={"tomorrow.version": 7})
    assert updated(node, FeatureUpdate("tomorrow.version", 0, SAFE), [KAVKA]) == NOTHING_SET


def test_a_refusal_names_what_is_wrong() -> None:
    for update, why in (
        (FeatureUpdate("", 1, UPGRADE), "must not be empty"),
        (FeatureUpdate("group.version", -1, SAFE), "level -1 of group.version is below 1"),
    ):
        with pytest.raises(RequestError, match=why):
            updated(NOTHING_SET, update, [KAVKA])


@pytest.mark.parametrize(
    "update",
    [
        FeatureUpdate("", 1, UPGRADE),
        FeatureUpdate("transaction.version", 1, 0),
        FeatureUpdate("transaction.version", 1, 4),
        FeatureUpdate("transaction.version", 0, UPGRADE),
        FeatureUpdate("transaction.version", -1, SAFE),
        FeatureUpdate("metadata.version", 20, UPGRADE),
        FeatureUpdate("metadata.version", 0, SAFE),
    ],
)
def test_what_makes_no_sense_is_refused(update: FeatureUpdate) -> None:
    with pytest.raises(RequestError) as refusal:
        updated(NOTHING_SET, update, [KAVKA])
    assert refusal.value.code.name == "INVALID_REQUEST"


def test_the_znode_keeps_what_is_off_beside_what_kafka_reads() -> None:
    node = FeatureNode(enabled=True, features={"transaction.version": 1}, held_at_zero=("group.version",))
    assert FeatureNode.decode(node.encode()) == node
    assert NOTHING_SET.encode() == b'{"features":{},"version":2,"status":1}'
