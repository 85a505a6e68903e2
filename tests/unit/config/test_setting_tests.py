"""Every setting that is in force has a test that shows its effect, or stands here with the reason why it has none."""

from __future__ import annotations

import gc

import pytest
from tools.setting_tests import in_force, listing, showing_tests

from kavka.config.broker_settings import BrokerSettings, DynamicOnlySettings
from kavka.config.effect import start_only
from kavka.config.setting import Mode
from kavka.config.topic import TopicSettings

WITHOUT_A_TEST = {
    # How long or how often something is tried again: nothing but time shows it.
    "add.partitions.to.txn.retry.backoff.ms",
    "controlled.shutdown.max.retries",
    "controlled.shutdown.retry.backoff.ms",
    "controller.socket.timeout.ms",
    "offsets.commit.timeout.ms",
    "offsets.retention.check.interval.ms",
    "replica.socket.timeout.ms",
    "request.timeout.ms",
    "share.coordinator.write.timeout.ms",
    # How much is read, remembered or in flight at a time: the outcome is the same.
    "offsets.load.buffer.size",
    "share.coordinator.load.buffer.size",
    "transaction.state.log.load.buffer.size",
    "zookeeper.max.in.flight.requests",
    # Windows over which the throttles' rates are measured: tests/unit/replication/test_throttle.py has the rates.
    "replication.quota.window.num",
    "replication.quota.window.size.seconds",
    # An API of a later release, whose answers it cuts into pages.
    "max.request.partition.size.limit",
}


@pytest.fixture(autouse=True, scope="module")
def _collected() -> None:
    """Python 3.11's parser cannot be entered anew, and a report of garbage (a coroutine that nobody awaited) enters it
    for the marks in its traceback. What earlier tests left is collected before files are parsed here."""
    gc.collect()


def test_every_setting_in_force_has_a_test_that_shows_its_effect() -> None:
    tests = showing_tests()
    names = {name for of_table in in_force().values() for name in of_table}
    assert {name for name in names if name not in tests} == WITHOUT_A_TEST


AT_RUN_TIME = ("_at_run_time", "test_settings_of_clusters")
"""In the names of tests that change a setting on running brokers."""
ASKED_FOR_ANEW = {
    # By each pass of the cleaner, whose tests change them under it: tests/unit/broker/test_log_cleaner.py.
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.threads",
    # By each heartbeat.
    "group.consumer.assignment.interval.ms",
    "group.share.assignment.interval.ms",
    "group.streams.assignment.interval.ms",
    # By each dead letter.
    "errors.deadletterqueue.topic.name.prefix",
    # By the next start, and the next stop.
    "num.recovery.threads.per.data.dir",
}


def test_every_setting_that_changes_at_run_time_is_changed_on_a_running_broker() -> None:
    tests = showing_tests()
    dynamic = {name for name in in_force()[BrokerSettings] if BrokerSettings.rows[name].mode is not Mode.READ_ONLY} - {
        name for name in BrokerSettings.rows if start_only(name)
    }
    changed = {name for name, shown in tests.items() if any(place in test for test in shown for place in AT_RUN_TIME)}
    assert dynamic - changed == ASKED_FOR_ANEW


def test_tests_name_settings_that_there_are() -> None:
    there_are = {*BrokerSettings.rows, *DynamicOnlySettings.rows, *TopicSettings.rows}
    assert set(showing_tests()) <= there_are


def test_the_list_names_each_settings_tests() -> None:
    assert "min.insync.replicas\n    tests/" in listing()
