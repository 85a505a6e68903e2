"""What decoding costs, as it is kept and as it is shown. It must not measure.

The target is of the design: log files at over 1 GB/s on one core, with records of 1 KiB.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

OPENING = """\
Measured with `python -m benchmarks.spark_decoder`: one process, without Spark. Batches come from memory, as in a
Fetch answer, or from segment files in the page cache, as `format("kavka-log")` reads them. The time is the CPU
seconds of the process; the figures are best round / median. Sizes of values vary by half around the named one, except
where the row says "fixed". Bytes are those on disk. Other work on the machine raises CPU seconds too, because it
shares caches and memory; see the load average below."""
TARGET_GB_PER_S = 1.0
TARGET_PREFIX = "file, 1 KiB"
TARGET_WHAT = "records, 7 columns"


def write(path: Path, machine: str, figures: Sequence[Mapping[str, Any]]) -> None:
    path.write_text(json.dumps({"machine": machine, "figures": list(figures)}, indent=1) + "\n")


def section(path: Path) -> Iterator[str]:
    """Nothing where nothing was measured."""
    if not path.exists():
        return
    kept = json.loads(path.read_text())
    yield "## Spark: record batches to Arrow on one core"
    yield ""
    yield OPENING
    yield ""
    yield kept["machine"] + "."
    yield ""
    yield "| what | million records/s | GB/s | GB/s inflated | target, at the best | |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for figure in kept["figures"]:
        has_target = figure["name"].startswith(TARGET_PREFIX) and TARGET_WHAT in figure["name"]
        verdict = "**reached**" if figure["gb_per_s"] >= TARGET_GB_PER_S else "short"
        target = f">= {TARGET_GB_PER_S:g} | {verdict}" if has_target else " | "
        records = f"{figure['records_per_s'] / 1e6:.2f} / {figure['median_records_per_s'] / 1e6:.2f}"
        rates = f"{figure['gb_per_s']:.2f} / {figure['median_gb_per_s']:.2f} | {figure['inflated_gb_per_s']:.2f}"
        yield f"| {figure['name']} | {records} | {rates} | {target} |"
    yield ""
