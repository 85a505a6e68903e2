"""A trial of Spark: a session starts, and one of its workers runs a line of Python with Arrow and kavka.

Decides nothing but whether that works; the doctor asks for it with `--try`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kavka_spark.doctor import Finding, Verdict
from kavka_spark.session import session

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 1_000


def try_session() -> Finding:
    """Starts a session on one core, sends Arrow batches through a worker, and ends it."""
    began = time.monotonic()
    try:
        spark = session("kavka spark doctor", **{"spark.master": "local[1]", "spark.ui.enabled": "false"})
    except Exception as problem:  # noqa: BLE001  # whatever keeps Spark from starting is the finding
        return Finding("session", Verdict.WRONG, f"does not start: {_first_line(problem)}", "see the lines above it")
    try:
        versions = spark.range(ROWS).mapInArrow(_versions, "python string, pyarrow string").distinct().collect()
    except Exception as problem:  # noqa: BLE001  # whatever fails here is the finding
        return Finding("session", Verdict.WRONG, f"a worker fails: {_first_line(problem)}", "see workers' python")
    finally:
        spark.stop()
    [row] = versions
    return Finding(
        "session",
        Verdict.WELL,
        f"{ROWS:,} rows through a worker with Python {row.python} and pyarrow {row.pyarrow}, "
        f"{time.monotonic() - began:.1f} s in all",
    )


def _versions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    # A worker finds this function by its module's name, so that kavka_spark is tried too.
    import platform

    import pyarrow as pa

    for batch in batches:
        rows = batch.num_rows
        yield pa.RecordBatch.from_pydict(
            {"python": [platform.python_version()] * rows, "pyarrow": [pa.__version__] * rows}
        )


def _first_line(problem: Exception) -> str:
    return str(problem).strip().splitlines()[0][:300] if str(problem).strip() else type(problem).__name__
