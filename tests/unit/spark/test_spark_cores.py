"""How many tasks run at the same time, as far as a planning process can know it."""

from __future__ import annotations

import pytest

from kavka_spark.cores import VARIABLE, known_cores, task_slots


@pytest.mark.parametrize(
    ("settings", "cores"),
    [
        ({"spark.master": "local"}, 1),
        ({"spark.master": "local[3]"}, 3),
        ({"spark.master": "local[3, 2]"}, 3),
        ({"spark.master": "local-cluster[2,3,1024]"}, 6),
        ({"spark.master": "spark://host:7077", "spark.cores.max": "12"}, 12),
        ({"spark.master": "yarn", "spark.executor.instances": "3", "spark.executor.cores": "4"}, 12),
        ({"spark.master": "yarn", "spark.executor.instances": "3"}, None),
        ({"spark.master": "spark://host:7077"}, None),
        ({"spark.master": "local[3]", "spark.task.cpus": "2"}, 1),
        ({"spark.master": "local[x]"}, None),
        ({"spark.master": "yarn", "spark.executor.instances": "x", "spark.executor.cores": "4"}, None),
    ],
)
def test_cores_are_known_from_a_sessions_settings(settings: dict[str, str], cores: int | None) -> None:
    assert known_cores(settings) == cores


def test_without_settings_and_with_a_star_they_are_this_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    monkeypatch.delenv(VARIABLE, raising=False)
    assert known_cores({}) == known_cores({"spark.master": "local[*]"}) == 7
    assert task_slots() == 7


@pytest.mark.parametrize(("text", "slots"), [("12", 12), ("0", 7), ("many", 7), ("", 7)])
def test_what_the_session_said_goes_before_the_machines_cores(
    monkeypatch: pytest.MonkeyPatch, text: str, slots: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    monkeypatch.setenv(VARIABLE, text)
    assert task_slots() == slots
