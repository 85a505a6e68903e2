"""What a broker tells of its settings, in a reader's terms; two sides beside each other."""

from __future__ import annotations

import pytest

pytest.importorskip("jinja2")

from kavka.client.admin import ConfigChange, ConfigEntry, ConfigResource, ConfigSource, ConfigSynonym, ResourceType
from kavka.config.broker_settings import BrokerSettings
from kavka.config.documentation import documentation, effect_said, in_force
from kavka.config.effect import standing
from kavka.config.topic import TopicSettings
from kavka.console.actions.topics import is_own, shown_change, without_secret
from kavka.console.look.setting_rows import (
    HIDDEN,
    IN_FORCE,
    LONGEST_FILE,
    NONE,
    REFUSED,
    START,
    SettingRow,
    compared,
    compared_with_file,
    matching,
    readable,
    row_of,
    settings_of_file,
)
from kavka.errors import ConfigError


def entry(name: str, value: str | None, source: ConfigSource = ConfigSource.DEFAULT, **more: object) -> ConfigEntry:
    made = ConfigEntry(name, value, source, False, False, (), None)
    return made._replace(**more)  # type: ignore[arg-type]  # each test names fields of it


def as_row(told: ConfigEntry) -> SettingRow:
    return row_of(told, ConfigSource.TOPIC)


def rows(*entries: ConfigEntry) -> list[SettingRow]:
    return [as_row(each) for each in entries]


class TestEffects:
    @pytest.mark.parametrize("table", [BrokerSettings, TopicSettings])
    def test_what_a_broker_says_of_an_effect_is_found_again_in_its_documentation(self, table: type) -> None:
        for name in table.rows:  # type: ignore[attr-defined]
            said = in_force(name, table)
            meaning, effect = effect_said(f"{documentation(name, table)} {said}".rstrip())
            assert meaning == documentation(name, table), name
            expected = standing(name, table)
            assert effect == (expected if said else None), name

    def test_a_setting_without_effect_and_one_that_is_refused_cannot_be_changed(self) -> None:
        none = as_row(entry("background.threads", "10", documentation="Threads. No effect here: one thread is enough."))
        assert (none.effect, none.why, none.meaning) == (NONE, "one thread is enough.", "Threads.")
        refused = as_row(entry("local.retention.ms", "-2", documentation="Keeps. Not supported: it would be ignored."))
        assert (refused.effect, refused.can_change) == (REFUSED, False)

    def test_what_only_the_file_says_counts_at_the_start(self) -> None:
        assert as_row(entry("port", "1", is_read_only=True)).effect == START
        assert as_row(entry("retention.ms", "1")).effect == IN_FORCE

    def test_a_throttle_can_be_set_although_brokers_call_it_read_only(self) -> None:
        assert as_row(entry("leader.replication.throttled.rate", "1", is_read_only=True)).can_change


class TestRows:
    def test_the_default_is_told_where_the_topic_has_another_value(self) -> None:
        chain = (
            ConfigSynonym("retention.ms", "5000", ConfigSource.TOPIC),
            ConfigSynonym("log.retention.ms", "9", ConfigSource.STATIC_BROKER),
            ConfigSynonym("log.retention.hours", "168", ConfigSource.DEFAULT),
        )
        row = as_row(entry("retention.ms", "5000", ConfigSource.TOPIC, synonyms=chain, kind=5))
        assert (row.default, row.source, row.is_own, row.readable) == ("604800000", "this topic", True, "5.0 s")
        assert [each.value for each in row.chain] == ["5000", "9", "168"]
        assert (row.type_name, row.unit) == ("long", "milliseconds")

    def test_a_sensitive_value_is_nowhere_in_a_row(self) -> None:
        chain = (ConfigSynonym("ssl.key.password", "hunter2", ConfigSource.STATIC_BROKER),)
        found = as_row(entry("ssl.key.password", "hunter2", is_sensitive=True, synonyms=chain))
        assert found.value == HIDDEN
        assert "hunter2" not in repr(found)

    def test_a_change_of_a_sensitive_value_is_shown_without_it(self) -> None:
        known, change = entry("ssl.key.password", None, is_sensitive=True), ConfigChange("ssl.key.password", "hunter2")
        assert shown_change(known, change) == ("ssl.key.password", HIDDEN, HIDDEN)
        assert without_secret(known, change).value == "..."
        plain = entry("retention.ms", "5")
        assert without_secret(plain, ConfigChange("retention.ms", "6")).value == "6"

    def test_tags_of_apache_kafkas_documentation_are_not_shown(self) -> None:
        text = 'Either <code>delete</code> or &quot;compact&quot;, see <a href="#x">here</a>.'
        assert as_row(entry("cleanup.policy", "delete", documentation=text)).meaning == (
            'Either delete or "compact", see here.'
        )

    def test_a_choice_of_few_values_is_offered_as_such(self) -> None:
        assert as_row(entry("unclean.leader.election.enable", "false")).choices == ("true", "false")
        assert "zstd" in as_row(entry("compression.type", "producer")).choices
        assert as_row(entry("cleanup.policy", "delete")).choices == (), "it is a list"

    def test_long_numbers_are_said_in_units(self) -> None:
        assert readable("604800000", "milliseconds") == "7 d"
        assert readable("168", "hours") == "7 d"
        assert readable("1073741824", "bytes") == "1.0 GiB"
        assert readable("9223372036854775807", "bytes per second") == "no limit"
        for value in ("-1", "512", "a", "--5"):
            assert readable(value, "bytes") == "", value

    def test_rows_are_found_by_name_and_meaning_and_kind(self) -> None:
        some = rows(entry("a.ms", "1", documentation="How long segments stay."), entry("b", "2", ConfigSource.TOPIC))
        assert [row.name for row in matching(some, "SEGMENTS long", "")] == ["a.ms"]
        assert [row.name for row in matching(some, "", "own")] == ["b"]


class TestComparing:
    def test_differences_come_first_and_equal_lists_are_equal(self) -> None:
        left = rows(entry("cleanup.policy", "compact,delete"), entry("segment.ms", "5"), entry("only.here", "1"))
        right = rows(entry("cleanup.policy", "compact, delete"), entry("segment.ms", "6"))
        found = {each.name: each.how for each in compared(left, right)}
        assert found == {"only.here": "left", "segment.ms": "differs", "cleanup.policy": "same"}
        assert list(found) == ["only.here", "segment.ms", "cleanup.policy"]

    def test_hidden_values_are_never_said_to_be_the_same(self) -> None:
        one = rows(entry("ssl.key.password", None, is_sensitive=True))
        assert [each.how for each in compared(one, one)] == ["hidden"]

    def test_a_file_is_compared_with_what_the_topic_has_of_its_own(self) -> None:
        topic = rows(
            entry("retention.ms", "5", ConfigSource.TOPIC),
            entry("cleanup.policy", "delete"),
            entry("segment.ms", "9", ConfigSource.TOPIC),
        )
        found = compared_with_file(topic, {"retention.ms": "6", "cleanup.policy": "delete"})
        assert {each.name: each.how for each in found} == {
            "retention.ms": "differs",
            "segment.ms": "left",
            "cleanup.policy": "same",
        }

    def test_what_was_set_for_all_brokers_is_not_a_topics_own(self) -> None:
        # Apache Kafka 4 tells min.insync.replicas of a topic so.
        inherited = entry("min.insync.replicas", "1", ConfigSource.DYNAMIC_DEFAULT_BROKER)
        assert compared_with_file(rows(inherited), {}) == []
        topic, one, every = (
            ConfigResource(ResourceType.TOPIC, "a"),
            ConfigResource(ResourceType.BROKER, "1"),
            ConfigResource(ResourceType.BROKER, ""),
        )
        assert [is_own(inherited, resource) for resource in (topic, one, every)] == [False, False, True]

    def test_a_name_that_is_no_setting_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"no setting retention\.min"):
            compared_with_file(rows(entry("retention.ms", "5")), {"retention.min": "6"})


class TestFiles:
    def test_lines_and_json_say_the_same(self) -> None:
        expected = {"retention.ms": "5", "cleanup.policy": "compact,delete", "preallocate": "true"}
        assert (
            settings_of_file("# ours\nretention.ms=5\ncleanup.policy: compact,delete\npreallocate = 'true'\n")
            == expected
        )
        inner = '{"retention.ms": 5, "cleanup.policy": ["compact", "delete"], "preallocate": true}'
        assert settings_of_file(inner) == expected
        assert settings_of_file(f'{{"spec": {{"partitions": 3, "config": {inner}}}}}') == expected

    @pytest.mark.parametrize(
        "text",
        [
            "{",
            '{"a": {"b": 1}}',
            '{"a": [{}]}',
            '{"a":' + "[" * 900 + "]" * 900 + "}",
            "{" * 5_000,
            "x" * (LONGEST_FILE + 1),
        ],
    )
    def test_what_is_no_such_file_is_refused(self, text: str) -> None:
        with pytest.raises(ConfigError):
            settings_of_file(text)
