"""Every setting has a text, every text a setting, and docs/configuration.md is what they make."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.config_reference import reference

from kavka.config.broker_settings import BrokerSettings, DynamicOnlySettings
from kavka.config.documentation import _TEXTS, documentation, unit
from kavka.config.group import ClientMetricsSettings, GroupSettings
from kavka.config.setting import Settings
from kavka.config.topic import TopicSettings

TABLES = (BrokerSettings, DynamicOnlySettings, TopicSettings, GroupSettings, ClientMetricsSettings)


@pytest.mark.parametrize("table", TABLES)
def test_every_row_has_a_text_and_every_text_a_row(table: type[Settings]) -> None:
    assert set(_TEXTS[table]) == set(table.rows)
    assert all(text.endswith(".") and len(text) > 10 for text in _TEXTS[table].values())


def test_units() -> None:
    assert unit("log.retention.ms") == "milliseconds"
    assert unit("log.cleaner.io.max.bytes.per.second") == "bytes per second"
    assert unit("log.cleaner.io.buffer.size") == "bytes"
    assert unit("num.io.threads") == ""


def test_a_name_of_no_table() -> None:
    assert documentation("no.such", TopicSettings) == ""


def test_the_reference_in_docs_is_up_to_date() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "configuration.md"
    assert page.read_text() == reference(), "run: python tools/config_reference.py"
