"""Numbers that Kafka's protocol and its znodes give: whoever reads them elsewhere has the same."""

from __future__ import annotations

from kavka.controller.decide.context import ControllerContext
from kavka.controller.decide.feature_levels import FeatureUpdate, UpgradeType, updated
from kavka.zookeeper.znodes import FeatureNode


def test_a_cluster_without_a_controller_epoch_has_epoch_0_in_version_0() -> None:
    # KafkaController.InitialControllerEpoch and InitialControllerEpochZkVersion
    context = ControllerContext()
    assert (context.epoch, context.epoch_version, context.live_broker_ids()) == (0, 0, [])


def test_kip584_the_ways_to_change_a_level_have_the_numbers_of_update_features() -> None:
    # FeatureUpdate.UpgradeType; 0 is UNKNOWN there
    assert {each.name: int(each) for each in UpgradeType} == {
        "UPGRADE": 1,
        "SAFE_DOWNGRADE": 2,
        "UNSAFE_DOWNGRADE": 3,
    }


def test_a_level_is_changed_by_the_number_alone() -> None:
    brokers = [{"transaction.version": (0, 2)}]
    node = FeatureNode(enabled=True, features={"transaction.version": 1})
    assert updated(node, FeatureUpdate("transaction.version", 2, 1), brokers).features == {"transaction.version": 2}
    for number in (2, 3):
        off = updated(node, FeatureUpdate("transaction.version", 0, number), brokers)
        assert (off.features, off.held_at_zero) == ({}, ("transaction.version",))
