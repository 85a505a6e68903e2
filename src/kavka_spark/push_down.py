"""PushDown: whether Spark has filters for a source in Python.

Spark tells nobody `spark.sql.python.filterPushdown.enabled`, and fails a reader that takes filters where it is false;
so the file of the caller is the one sign there is. Imports nothing heavy: the sources' modules import it.

Source: pyspark/sql/worker/data_source_pushdown_filters.py (Spark 4.2 and 4.3).
"""

from __future__ import annotations

import sys

_PUSHING_WORKER = "data_source_pushdown_filters"
_FRAMES = 4


def filters_may_come() -> bool:
    """Whether it is Spark's worker for filters that asks `DataSource.reader`, which calls this, for the reader."""
    frame = sys._getframe(1)
    for _ in range(_FRAMES):
        if _PUSHING_WORKER in frame.f_code.co_filename:
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False
