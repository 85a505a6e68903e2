"""A checkpoint that is behind its table's files is refused, and one that is not goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.pipelines.output import StreamingTable
from pyspark.pipelines.source_code_location import SourceCodeLocation

from kavka_spark.pipelines.definitions import Definitions, Place
from kavka_spark.pipelines.passed_over import refuse_passed_over
from kavka_spark.pipelines.spec import PipelineSpec, SpecError, parse_spec

LOGGED = "storage/warehouse/numbers/_spark_metadata"
CHECKPOINTS = "storage/_checkpoints/spark_catalog/default/numbers"


def _spec(root: Path) -> PipelineSpec:
    return parse_spec(root / "pipeline.yml", {"name": "p", "storage": "storage"})


def _definitions(flow: str = "numbers") -> Definitions:
    definitions = Definitions()
    output = StreamingTable("numbers", None, {}, SourceCodeLocation("a.py", 1), None, None, None, None)
    definitions.outputs["numbers"] = output
    definitions.note(flow, "numbers", Place("a.py", 1))
    return definitions


def _make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("v1")


def test_a_checkpoint_that_has_planned_what_is_written_or_more_goes_on(tmp_path: Path) -> None:
    refuse_passed_over(_definitions(), _spec(tmp_path))
    _make(tmp_path, f"{CHECKPOINTS}/numbers/0/offsets/0")
    refuse_passed_over(_definitions(), _spec(tmp_path))
    _make(tmp_path, f"{CHECKPOINTS}/numbers/0/offsets/10", f"{LOGGED}/9.compact", f"{LOGGED}/10", f"{LOGGED}/.10.crc")
    refuse_passed_over(_definitions(), _spec(tmp_path))
    _make(tmp_path, f"{CHECKPOINTS}/numbers/0/offsets/11")
    refuse_passed_over(_definitions(), _spec(tmp_path))


def test_a_full_refresh_that_ended_before_the_table_was_empty_is_made_again(tmp_path: Path) -> None:
    _make(tmp_path, f"{CHECKPOINTS}/numbers/9/offsets/3", f"{LOGGED}/3")
    (tmp_path / CHECKPOINTS / "numbers/10").mkdir()
    with pytest.raises(
        SpecError, match="to number 3 in its files, and the checkpoint of flow numbers has none"
    ) as problem:
        refuse_passed_over(_definitions(), _spec(tmp_path))
    assert "--full-refresh numbers" in problem.value.next_step
    refuse_passed_over(_definitions(), _spec(tmp_path), tables={"others"})
    _make(tmp_path, f"{CHECKPOINTS}/numbers/10/offsets/2")
    with pytest.raises(SpecError, match="of flow numbers goes to 2: Spark would take the next ones for written"):
        refuse_passed_over(_definitions(), _spec(tmp_path))


def test_a_flow_with_another_name_would_begin_with_numbers_that_are_written(tmp_path: Path) -> None:
    _make(tmp_path, f"{CHECKPOINTS}/numbers/0/offsets/9", f"{LOGGED}/9.compact")
    refuse_passed_over(_definitions(), _spec(tmp_path))
    with pytest.raises(SpecError, match="checkpoint of flow figures has none"):
        refuse_passed_over(_definitions("figures"), _spec(tmp_path))
