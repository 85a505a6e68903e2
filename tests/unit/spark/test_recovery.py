"""How a query that writes exactly once goes on, by its checkpoint and its markers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.errors import ConfigError
from kavka_spark.markers import Digest, Marker
from kavka_spark.recovery import Checkpoint, Progress, advise, read_checkpoint
from kavka_spark.writer_layouts import Layout


def markers(**batches: int) -> dict[int, Marker]:
    return {int(task.removeprefix("t")): Marker(batch, Digest(1, 1, 1)) for task, batch in batches.items()}


@pytest.mark.parametrize(
    ("planned", "finished", "layout", "marked", "found", "next_step"),
    [
        (None, None, None, {}, "nothing is committed", "is free"),
        (0, None, None, {}, "nothing is committed", "is free"),
        (3, 3, Layout(0, 4), {"t1": 3}, "batch 3 is through", "is free"),
        (3, 2, Layout(0, 4), {"t1": 2}, "batch 3 is begun, and none of its rows are committed", "is free"),
        (3, 2, Layout(3, 4), {"t1": 2}, "batch 3 is begun: of 4 tasks none has committed", "start .* stable(df, 4)"),
        (3, 2, Layout(0, 4), {"t1": 3, "t2": 2}, "batch 3 is begun: of 4 tasks 1 has", "start .* stable(df, 4)"),
        (
            3,
            2,
            Layout(3, 2, before=4),
            {"t1": 2},
            "began a change from stable(df, 4) to stable(df, 2)",
            "stable(df, 2).*4)",
        ),
        (3, 2, Layout(0, 4), {"t1": 5}, "batch 5 is committed: it was set back", "newer checkpoint"),
        (7, 6, None, {"t1": 7}, "a version of kavka before stable()", "let that version finish the batch"),
        (7, 7, None, {"t1": 7}, "a version of kavka before stable()", "nothing more is needed"),
        (None, None, Layout(0, 4), {"t1": 3, "t0": 3}, "of 4 tasks 0, 1 have committed", "stable(df, 4)"),
    ],
)
def test_the_next_step_follows_from_checkpoint_and_markers(
    planned: int | None,
    finished: int | None,
    layout: Layout | None,
    marked: dict[str, int],
    found: str,
    next_step: str,
) -> None:
    advice = advise(Checkpoint("q", planned, finished), Progress(layout, markers(**marked)))
    assert found in advice.found
    position = 0
    for part in next_step.split(".*"):
        position = advice.next_step.index(part.strip(), position)


def test_a_checkpoint_is_read_and_another_directory_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no checkpoint of a query on this machine"):
        read_checkpoint(tmp_path)
    (tmp_path / "metadata").write_text('{"id":"q-1"}')
    assert read_checkpoint(tmp_path) == Checkpoint("q-1", None, None)
    for name in ("offsets/9", "offsets/10", "offsets/.10.crc", "commits/9"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert read_checkpoint(tmp_path) == Checkpoint("q-1", 10, 9)
    for text in ("[]", "{", "{}"):
        (tmp_path / "metadata").write_text(text)
        with pytest.raises(ConfigError):
            read_checkpoint(tmp_path)


def test_what_a_kill_left_of_the_first_plan_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id":"q-1"}')
    (tmp_path / "offsets").mkdir()
    left = tmp_path / "offsets/.0.400d4df3-1ec4-43a8-b719-7b9af71571a4.tmp"
    for name in (left.name, f".{left.name}.crc", ".hidden.tmp", "note.txt"):
        (tmp_path / "offsets" / name).touch()
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint == Checkpoint("q-1", None, None, (left,))
    advice = advise(checkpoint, Progress(None, {}))
    assert "killed while it planned the first batch" in advice.found
    assert advice.next_step.startswith(f"remove {left}, and start the query")
    assert "set back" in advise(checkpoint._replace(planned=0), Progress(None, markers(t0=3))).found
    (tmp_path / "offsets/0").touch()
    assert read_checkpoint(tmp_path) == Checkpoint("q-1", 0, None)
