"""The table of operators' tasks: kavka's way is never longer than another's, and each task is counted."""

from __future__ import annotations

import pytest

pytest.importorskip("confluent_kafka")
pytest.importorskip("starlette")
pytest.importorskip("playwright.sync_api")

from tests.integration.console.test_operator_tasks import TASKS, rows


def test_kavka_takes_at_most_as_many_clicks_as_any_other() -> None:
    found = rows()
    assert len(found) == 20
    assert [row.task for row in found if row.kavka > min(row.others, default=row.kavka)] == []


def test_each_task_of_the_page_is_carried_out_by_a_test() -> None:
    assert [row.number for row in rows()] == list(TASKS)
